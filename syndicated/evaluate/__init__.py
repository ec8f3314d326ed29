"""Off-policy evaluation: what another configuration would have earned, from a log of decisions with propensities."""

from syndicated.evaluate._estimates import Estimate, Evaluation, evaluate
from syndicated.evaluate._log import Log, Logged, read_log
from syndicated.evaluate._table import print_evaluations

__all__ = ["Estimate", "Evaluation", "Log", "Logged", "evaluate", "print_evaluations", "read_log"]
