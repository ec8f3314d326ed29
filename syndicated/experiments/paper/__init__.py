"""The paper: its experiments as data, its claims, and the report on both."""

from syndicated.experiments.paper._claims import CLAIMS
from syndicated.experiments.paper._experiments import CANDIDATES, PAPER
from syndicated.experiments.paper._report import write_report

__all__ = ["CANDIDATES", "CLAIMS", "PAPER", "write_report"]
