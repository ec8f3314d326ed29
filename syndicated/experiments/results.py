"""What a run gave: one tidy table, and what the evidence in it supports.

All comparisons are paired: every tuner met the same worlds, so differences are taken world by world.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import ndtr, stdtrit

from syndicated._files import write_csv
from syndicated.experiments.experiment import Experiment, Task
from syndicated.experiments.run import Curve
from syndicated.streams import BOOTSTRAP, Stream
from syndicated.types import Array, Ints

COLUMNS = ("experiment", "policy", "environment", "tuner", "repeat", "seed", "round", "regret", "warmup", "tuning")
RESAMPLES = 10_000


@dataclass(frozen=True, eq=False)
class Result:
    """An experiment and its curves: for each tuner an array (repeats, rounds kept) of regret and of two of its parts,
    and for each axis of the tuner its candidates' probabilities (rounds kept, candidates), averaged over repeats."""

    experiment: Experiment
    rounds: Array
    curves: Mapping[str, Array]
    warmup: Mapping[str, Array]
    tuning: Mapping[str, Array]
    traces: Mapping[str, list[Array]]
    seconds: float

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
    own: dict[str, list[Curve]] = {label: [] for label in experiment.tuners}
    for task, curve in zip(experiment.tasks(), curves, strict=True):
        own[task.tuner_name].append(curve)
    return Result(
        experiment=experiment,
        rounds=np.array(curves[0]["round"]),
        curves={label: np.array([curve["regret"] for curve in mine]) for label, mine in own.items()},
        warmup={label: np.array([curve["warmup"] for curve in mine]) for label, mine in own.items()},
        tuning={label: np.array([curve["tuning"] for curve in mine]) for label, mine in own.items()},
        traces={label: _mean_trace(mine) for label, mine in own.items()},
        seconds=sum(curve["seconds"] for curve in curves),
    )


def _mean_trace(curves: Sequence[Curve]) -> list[Array]:
    axes = range(len(curves[0]["trace"]))
    return [np.mean([curve["trace"][axis] for curve in curves], axis=0) for axis in axes]


def interval(values: Array) -> tuple[float, float]:
    """A 95% bootstrap interval of the mean."""
    return expanded(resampled_means(values, len(values)), len(values))


def expanded(samples: Array, n: int) -> tuple[float, float]:
    """A 95% interval from resampled statistics of n values: percentiles, taken farther out for few values.

    Plain percentiles are too narrow for few values. Expanded by sqrt(n/(n-1)) and Student's t for the normal, as
    Hesterberg has it (*What teachers should know about the bootstrap*, The American Statistician 2015), they are not.
    """
    tail = 100 * ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975)) if n > 1 else 50.0
    low, high = np.percentile(samples, [tail, 100 - tail])
    return float(low), float(high)


def spread(values: Array, size: int) -> tuple[float, float]:
    """Where 95% of the means of `size` values like these fall."""
    low, high = np.percentile(resampled_means(values, size), [2.5, 97.5])
    return float(low), float(high)


def resampled_means(values: Array, size: int) -> Array:
    """Means of `size` values drawn from these; the same places are drawn from all arrays of one length."""
    means: Array = values[_places(len(values), size)].mean(axis=1)
    return means


@cache
def _places(n: int, size: int) -> Ints:
    draws = Stream(0, BOOTSTRAP).uniforms(size * RESAMPLES)
    return (draws * n).astype(int).reshape(RESAMPLES, size)


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
        intervals = interval(final), spread(final, size=5)
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
    played = [pair for tasks, curves in results for pair in zip(tasks, curves, strict=True)]
    write_csv(file, COLUMNS, (row for task, curve in played for row in _rows(task, curve)))


def _rows(task: Task, curve: Curve) -> Iterator[tuple[object, ...]]:
    what = task.experiment, task.policy["name"], task.environment["name"], task.tuner_name, task.repeat, task.seed
    for row in zip(curve["round"], curve["regret"], curve["warmup"], curve["tuning"], strict=True):
        yield *what, *row
