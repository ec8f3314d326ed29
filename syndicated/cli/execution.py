"""Run experiments for a command: at the size that its options ask for, with progress bars, the results in files."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from syndicated._extras import extra
from syndicated._progress import progress_bars
from syndicated._validation import check_count
from syndicated.cli.options import TASKS_ARE_KEPT
from syndicated.errors import InputError
from syndicated.experiments import (
    Executor,
    Experiment,
    Result,
    Run,
    Task,
    collect,
    dask,
    processes,
    run_experiments,
    save_figure,
    write_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_size(command: argparse.ArgumentParser) -> None:
    """Add the options for how much is run, where it is run, and where the results go."""
    command.add_argument(
        "--repeats", type=int, help="how many worlds (default: run 10, else the paper's, or the board's)"
    )
    command.add_argument("--horizon", type=int, help="how many rounds (default 10000)")
    command.add_argument("--seed", type=int, help="the first world's seed (default 1, of the board 1001)")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    command.add_argument("--engine", choices=["processes", "dask"], default="processes", help="default processes")
    command.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster (default: --jobs processes here)")
    command.add_argument("--out", "--output", type=Path, default=Path("results"), help="folder (default results)")
    command.set_defaults(interrupted=TASKS_ARE_KEPT)


def run_and_tabulate(options: argparse.Namespace, name: str, experiments: Sequence[Experiment]) -> list[Result]:
    """Run the experiments and write the tidy table of their curves."""
    runs = run_with_progress(options, experiments)
    table = options.out / f"{name}.csv"
    write_table(table, runs)
    print(f"every curve: {table}")
    return [collect(run.experiment, run.curves) for run in runs]


def run_with_progress(options: argparse.Namespace, experiments: Sequence[Experiment]) -> list[Run]:
    """Run the experiments at the size asked for, with a progress bar for each."""
    with extra("experiments", "this command"):  # now, and not after hours of computing
        import jinja2  # noqa: F401
        import matplotlib.figure  # noqa: F401
        import rich.progress  # noqa: F401
    asked = {key: getattr(options, key) for key in ("repeats", "horizon", "seed")}
    given = {key: value for key, value in asked.items() if value is not None}
    experiments = [replace(experiment, **given) for experiment in experiments]
    executor = _executor(options)
    with progress_bars() as progress:
        bars = {e.name: progress.add_task(e.title, total=e.repeats * len(e.tuners)) for e in experiments}

        def done(task: Task) -> None:
            progress.advance(bars[task.experiment])

        return run_experiments(experiments, options.out / "tasks", executor, done)


def _executor(options: argparse.Namespace) -> Executor:
    jobs = check_count("jobs", options.jobs)
    if options.engine == "dask":
        return dask(jobs, options.scheduler, say=lambda text: print(text, file=sys.stderr))
    if options.scheduler is not None:
        raise InputError("--scheduler is for --engine dask; got --engine processes")
    return processes(jobs)


def save_and_print(options: argparse.Namespace, name: str, figure: "Figure") -> None:
    """Save a figure among the results, and print its files."""
    print("figure:", *save_figure(figure, options.out / name))
