"""Off-policy evaluation: what another policy would have earned, from a log of decisions with propensities."""

from syndicated.evaluate._estimates import Estimate, Evaluation
from syndicated.evaluate._evaluate import evaluate
from syndicated.evaluate._log import Log, Logged
from syndicated.evaluate._read import read_log
from syndicated.evaluate._table import print_evaluations
from syndicated.evaluate._tables import log_from_frame

__all__ = ["Estimate", "Evaluation", "Log", "Logged", "evaluate", "log_from_frame", "print_evaluations", "read_log"]
