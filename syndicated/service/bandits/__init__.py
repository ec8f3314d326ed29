"""Bandits as the log has made them: what events are, how they are folded, and what may be asked of a bandit."""
