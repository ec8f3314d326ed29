"""The results of a run: one tidy table, and what is evidence in it.

All comparisons are paired: every tuner met the same worlds, so differences are taken world by world. `direction` is the
one rule for what an interval settles. Tables, the report, the claims of the paper and the scoreboard all use it.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from syndicated import _special
from syndicated._files import write_csv
from syndicated._frames import frame_of
from syndicated._html import html_table
from syndicated.experiments._experiment import Experiment, Task
from syndicated.experiments._run import Curve, Run
from syndicated.streams import BOOTSTRAP, Stream
from syndicated.types import Array, Ints

TASK_COLUMNS = ("experiment", "policy", "environment", "tuner", "repeat", "seed")
CURVE_COLUMNS = (*TASK_COLUMNS, "round", "regret", "warmup", "tuning")
RESAMPLES = 10_000
# With fewer repeats, differences that all have the same sign by chance are too likely to settle anything.
MIN_REPEATS = 5


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

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame of pandas or polars with the regret of every tuner, repeat and round kept."""
        shape = len(self.rounds)
        repeats = [(label, k) for label, own in self.curves.items() for k in range(len(own))]
        return frame_of(
            {
                "tuner": [label for label, _ in repeats for _ in range(shape)],
                "repeat": [k for _, k in repeats for _ in range(shape)],
                "round": self.rounds.tolist() * len(repeats),
                "regret": [value for label, k in repeats for value in self.curves[label][k].tolist()],
            },
            library,
        )

    def __repr__(self) -> str:
        means = ", ".join(f"{label} {self.final(label).mean():.4g}" for label in self.curves)
        rounds, repeats = f"{int(self.rounds[-1]):,}", self.experiment.repeats
        return f"<Result of {self.experiment.name}, {rounds} rounds, {repeats} repeats; mean regret: {means}>"

    def _repr_html_(self) -> str:
        """The table of tuners, the least mean regret first, for notebooks."""
        head = ("tuner", "mean regret", "standard error", "more than the best", "95 % interval")
        rows = summary(self)
        cells = [
            (
                row.tuner,
                *(f"{v:.4g}" for v in (row.mean, row.error, row.difference)),
                f"{row.low:.4g} to {row.high:.4g}",
            )
            for row in rows
        ]
        return html_table(head, cells, [evidence_text(rows, self.experiment.repeats)])


@dataclass(frozen=True)
class SummaryRow:
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
    labels = list(experiment.tuners) * experiment.repeats  # the order of the tasks
    own: dict[str, list[Curve]] = {label: [] for label in experiment.tuners}
    for label, curve in zip(labels, curves, strict=True):
        own[label].append(curve)
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

    Plain percentiles are too narrow for few values. Expanded by sqrt(n/(n-1)) and Student's t for the normal, as in
    Hesterberg (*What teachers should know about the bootstrap*, The American Statistician 2015), they are not.
    """
    tail = 100 * _special.ndtr(-math.sqrt(n / (n - 1)) * _special.stdtrit(n - 1, 0.975)) if n > 1 else 50.0
    low, high = np.percentile(samples, [tail, 100 - tail])
    return float(low), float(high)


def direction(low: float, high: float, repeats: int, equal: float = 0.0) -> int:
    """What an interval of so many repeats settles: 1 above `equal`, -1 below it, 0 if it settles nothing.

    >>> direction(0.5, 2.0, repeats=5), direction(-1.0, 2.0, repeats=50), direction(0.5, 2.0, repeats=4)
    (1, 0, 0)
    """
    if repeats < MIN_REPEATS or low <= equal <= high:
        return 0
    return 1 if low > equal else -1


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

    def inside(self, ends: tuple[float, float]) -> bool:
        """Whether the published mean is between these ends."""
        return ends[0] <= self.published[0] <= ends[1]


def check_published(result: Result) -> list[Check]:
    """Every number that the paper prints for this experiment."""
    checks = []
    for tuner, published in result.experiment.published.items():
        final = result.final(tuner)
        intervals = interval(final), spread(final, size=5)
        checks.append(Check(tuner, published, float(final.mean()), float(final.std()), *intervals))
    return checks


def summary(result: Result, among: Collection[str] = ()) -> list[SummaryRow]:
    """One row for each tuner, or for each of these, the least mean regret first."""
    tuners = sorted(among or result.curves, key=lambda tuner: float(result.final(tuner).mean()))
    best = result.final(tuners[0])
    return [_row(result, tuner, best) for tuner in tuners]


def not_apart(rows: Sequence[SummaryRow], repeats: int) -> list[str]:
    """The tuners that the evidence does not set apart from the best, which is the first of the rows."""
    return [row.tuner for row in rows[1:] if direction(row.low, row.high, repeats) < 1]


def evidence_text(rows: Sequence[SummaryRow], repeats: int) -> str:
    """Which tuner has the least regret, and from which others the evidence sets it apart."""
    if len(rows) == 1:
        return f"{rows[0].tuner}: nothing to compare with."
    close = not_apart(rows, repeats)
    apart = [row.tuner for row in rows[1:] if row.tuner not in close]
    said = f"{rows[0].tuner} has the least mean regret."
    if repeats < MIN_REPEATS:
        return f"{said} Fewer than {MIN_REPEATS} repeats settle nothing."
    if not close:
        return f"{said} The evidence sets it apart from all the others."
    if not apart:
        return f"{said} The evidence does not set it apart from any other."
    return f"{said} The evidence sets it apart from {', '.join(apart)}, but not from {', '.join(close)}."


def _row(result: Result, tuner: str, best: Array) -> SummaryRow:
    final = result.final(tuner)
    error = float(final.std(ddof=1) / np.sqrt(len(final))) if len(final) > 1 else float("nan")
    low, high = interval(final - best)
    return SummaryRow(
        tuner=tuner,
        mean=float(final.mean()),
        std=float(final.std()),
        error=error,
        difference=float((final - best).mean()),
        low=low,
        high=high,
        published=result.experiment.published.get(tuner),
    )


def write_table(file: Path, runs: Sequence[Run]) -> None:
    """All curves as one tidy CSV table, one row for each kept round."""
    pairs = [pair for run in runs for pair in zip(run.tasks, run.curves, strict=True)]
    write_csv(file, CURVE_COLUMNS, (row for task, curve in pairs for row in _rows(task, curve)))


def _rows(task: Task, curve: Curve) -> Iterator[tuple[object, ...]]:
    what = task.experiment, task.policy["name"], task.environment["name"], task.tuner_name, task.repeat, task.seed
    for row in zip(curve["round"], curve["regret"], curve["warmup"], curve["tuning"], strict=True):
        yield *what, *row
