"""The paper: its experiments, its claims, and the report on both."""
