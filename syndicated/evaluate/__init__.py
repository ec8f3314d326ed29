"""Off-policy evaluation: what another configuration would have earned, from a log of decisions with propensities."""

from syndicated.evaluate.estimates import Estimate as Estimate
from syndicated.evaluate.estimates import Evaluation as Evaluation
from syndicated.evaluate.estimates import evaluate as evaluate
from syndicated.evaluate.log import Log as Log
from syndicated.evaluate.log import Logged as Logged
from syndicated.evaluate.log import read_log as read_log
