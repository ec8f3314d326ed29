"""What a run gave: one tidy table, and what the evidence in it supports.

All comparisons are paired: every tuner met the same worlds, so differences are taken world by world.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from syndicated.experiments.experiment import Experiment, Task
from syndicated.experiments.run import Curve, write
from syndicated.streams import BOOTSTRAP, Stream
from syndicated.types import Array

COLUMNS = ("experiment", "policy", "environment", "tuner", "repeat", "seed", "round", "regret")
RESAMPLES = 10_000


@dataclass(frozen=True, eq=False)
class Result:
    """An experiment and its curves: for each tuner an array (repeats, rounds kept)."""

    experiment: Experiment
    rounds: Array
    curves: Mapping[str, Array]

    def final(self, tuner: str) -> Array:
        """The regret of every repeat at the horizon."""
        return self.curves[tuner][:, -1]


@dataclass(frozen=True)
class Row:
    """One tuner's line: its final regret and its paired difference to the best tuner, with a 95% interval."""

    tuner: str
    mean: float
    std: float
    error: float
    difference: float
    low: float
    high: float
    published: tuple[float, float] | None


def collect(experiment: Experiment, curves: Sequence[Curve]) -> Result:
    """The curves of `experiment.tasks()`, by tuner."""
    by_tuner: dict[str, list[list[float]]] = {label: [] for label in experiment.tuners}
    for task, curve in zip(experiment.tasks(), curves, strict=True):
        by_tuner[task.tuner_name].append(curve["regret"])
    arrays = {label: np.array(regrets) for label, regrets in by_tuner.items()}
    return Result(experiment, np.array(curves[0]["round"]), arrays)


def interval(values: Array, size: int | None = None) -> tuple[float, float]:
    """Where 95% of the means of `size` values drawn from these fall; by default as many as there are: the
    bootstrap interval of the mean."""
    n = size or len(values)
    draws = Stream(0, BOOTSTRAP).uniforms(n * RESAMPLES)
    places = (draws * len(values)).astype(int).reshape(RESAMPLES, n)
    low, high = np.percentile(values[places].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True)
class Check:
    """A published mean (of 5 repeats) beside ours, with our mean's interval and the range of means of 5 repeats."""

    tuner: str
    published: tuple[float, float]
    mean: float
    std: float
    mean_interval: tuple[float, float]
    five_interval: tuple[float, float]


def check_published(result: Result) -> list[Check]:
    """Every number that the paper prints for this experiment."""
    checks = []
    for tuner, published in result.experiment.published.items():
        final = result.final(tuner)
        intervals = interval(final), interval(final, size=5)
        checks.append(Check(tuner, published, float(final.mean()), float(final.std()), *intervals))
    return checks


def summary(result: Result) -> list[Row]:
    """One row a tuner, the least mean regret first."""
    tuners = sorted(result.curves, key=lambda tuner: float(result.final(tuner).mean()))
    best = result.final(tuners[0])
    return [_row(result, tuner, best) for tuner in tuners]


def _row(result: Result, tuner: str, best: Array) -> Row:
    final = result.final(tuner)
    error = float(final.std(ddof=1) / np.sqrt(len(final))) if len(final) > 1 else float("nan")
    low, high = interval(final - best)
    return Row(
        tuner=tuner,
        mean=float(final.mean()),
        std=float(final.std()),
        error=error,
        difference=float((final - best).mean()),
        low=low,
        high=high,
        published=result.experiment.published.get(tuner),
    )


def write_table(file: Path, results: Sequence[tuple[Sequence[Task], Sequence[Curve]]]) -> None:
    """All curves as one tidy CSV table, a row a kept round."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for tasks, curves in results:
        for task, curve in zip(tasks, curves, strict=True):
            what = task.experiment, task.policy["name"], task.environment["name"], task.tuner_name
            for t, regret in zip(curve["round"], curve["regret"], strict=True):
                table.writerow([*what, task.repeat, task.seed, int(t), regret])
    write(file, text.getvalue())
