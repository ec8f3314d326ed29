"""The paper: its experiments as data, its claims, the report on both, and a demo that shows ours beside them."""

from syndicated.experiments.paper._claims import CLAIMS
from syndicated.experiments.paper._demo import DEMO, draw_demo
from syndicated.experiments.paper._experiments import CANDIDATES, PAPER
from syndicated.experiments.paper._report import write_report

__all__ = ["CANDIDATES", "CLAIMS", "DEMO", "PAPER", "draw_demo", "write_report"]
