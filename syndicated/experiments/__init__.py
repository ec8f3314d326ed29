"""Experiments as data, one loop, one runner, and what the results support."""
