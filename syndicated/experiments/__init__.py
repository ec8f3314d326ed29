"""Experiments as data: run them here or on a cluster, and see what the results are evidence for.

The paper's own are in `syndicated.experiments.paper`, the standing comparison of all tuners is in
`syndicated.experiments.scoreboard`.
"""

from syndicated._figures import shades
from syndicated.experiments._executors import dask, processes
from syndicated.experiments._experiment import Experiment, Task
from syndicated.experiments._plots import Area, areas, draw_grid, draw_regret, save_figure
from syndicated.experiments._results import Result, SummaryRow, collect, evidence_text, not_apart, summary, write_table
from syndicated.experiments._run import Curve, Executor, Run, run, run_experiments, run_task, serial, simulate
from syndicated.experiments._tables import print_published, print_results

__all__ = [
    "Area",
    "Curve",
    "Executor",
    "Experiment",
    "Result",
    "Run",
    "SummaryRow",
    "Task",
    "areas",
    "collect",
    "dask",
    "draw_grid",
    "draw_regret",
    "evidence_text",
    "not_apart",
    "print_published",
    "print_results",
    "processes",
    "run",
    "run_experiments",
    "run_task",
    "save_figure",
    "serial",
    "shades",
    "simulate",
    "summary",
    "write_table",
]
