"""The decision service: bandits that other programs ask over HTTP."""
