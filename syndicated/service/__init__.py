"""The decision service: self-tuning bandits that decide over HTTP and learn from late rewards."""
