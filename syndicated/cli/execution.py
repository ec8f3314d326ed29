"""Experiments at the size that a command asks for: run with a bar of progress each, their results in files."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from syndicated._validation import check_count
from syndicated.errors import InputError
from syndicated.experiments import plots
from syndicated.experiments.executors import dask, processes
from syndicated.experiments.experiment import Experiment, Task
from syndicated.experiments.results import Result, collect, write_table
from syndicated.experiments.run import Curve, Engine, run

Played = tuple[Experiment, list[Task], list[Curve]]


def add_size(command: argparse.ArgumentParser) -> None:
    """How much is run, where, and where the results go."""
    command.add_argument(
        "--repeats", type=int, help="how many worlds (default: run 10, else the paper's, or the board's)"
    )
    command.add_argument("--horizon", type=int, help="how many rounds (default 10000)")
    command.add_argument("--seed", type=int, help="the first world's seed (default 1, of the board 1001)")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    command.add_argument("--engine", choices=["processes", "dask"], default="processes", help="default processes")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: --jobs processes here)")
    command.add_argument("--out", "--output", type=Path, default=Path("results"), help="folder (default results)")


def perform(options: argparse.Namespace, name: str, experiments: Sequence[Experiment]) -> list[Result]:
    """Run the experiments and write the tidy table of their curves."""
    played = play(options, experiments)
    table = options.out / f"{name}.csv"
    write_table(table, [(tasks, curves) for _, tasks, curves in played])
    print(f"every curve: {table}")
    return [collect(experiment, curves) for experiment, _, curves in played]


def play(options: argparse.Namespace, experiments: Sequence[Experiment]) -> list[Played]:
    """Run the experiments at the size asked for, and show progress."""
    asked = {key: getattr(options, key) for key in ("repeats", "horizon", "seed")}
    given = {key: value for key, value in asked.items() if value is not None}
    experiments = [replace(experiment, **given) for experiment in experiments]
    engine = _engine(options)
    tasks = [experiment.tasks() for experiment in experiments]
    for task in (task for each in tasks for task in each if task.repeat == 0):
        task.world()
        task.agent()
    with _progress() as progress:
        bars = {e.name: progress.add_task(e.title, total=len(t)) for e, t in zip(experiments, tasks, strict=True)}

        def done(task: Task) -> None:
            progress.advance(bars[task.experiment])

        curves = iter(run([task for each in tasks for task in each], options.out / "tasks", engine, done))
    return [(e, t, [next(curves) for _ in t]) for e, t in zip(experiments, tasks, strict=True)]


def _engine(options: argparse.Namespace) -> Engine:
    jobs = check_count("jobs", options.jobs)
    if options.engine == "dask":
        return dask(jobs, options.scheduler, say=lambda text: print(text, file=sys.stderr))
    if options.scheduler is not None:
        raise InputError("--scheduler is for --engine dask; got --engine processes")
    return processes(jobs)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def save(options: argparse.Namespace, name: str, figure: Figure) -> None:
    print("figure:", *plots.save(figure, options.out / name))
