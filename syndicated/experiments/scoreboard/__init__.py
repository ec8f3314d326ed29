"""The standing comparison of all tuners."""
