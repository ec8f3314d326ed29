"""What people have, as numbers: vectors, JSON objects, ids."""
