"""The ratios of mean regret on the scoreboard, world by world and over all worlds, and the bars that they must meet.

They are ratios of means, not means of ratios: what is compared is a tuner's average regret, and a seed on which the
other tuner is lucky does not count more than others. The interval is a paired bootstrap: repeats are resampled for both
tuners together. Its percentiles are taken as far out as those of a mean (`expanded`), because to first order a ratio of
means is one. They need no formula for the error of a ratio and stay above 0; those of 1/ratio are their inverses.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from syndicated._files import write_csv
from syndicated._frames import frame_of
from syndicated.experiments._experiment import Experiment
from syndicated.experiments._results import MIN_REPEATS, direction, expanded, resampled_means
from syndicated.experiments._run import Run
from syndicated.experiments.scoreboard._worlds import BASE_TUNER, BEST_FIXED, OUR_TUNER, RIVAL_TUNER, candidates
from syndicated.types import Array

VERDICTS = {-1: "better", 1: "worse", 0: "not settled"}
REGRET_COLUMNS = ("world", "tuner", "repeat", "regret", "seconds")


@dataclass(frozen=True)
class Ratio:
    """A ratio of mean regrets with its 95% interval and its number of repeats."""

    value: float
    low: float
    high: float
    repeats: int

    @property
    def verdict(self) -> str:
        """Whether the tuner is better or worse than the other one, or whether that is not settled."""
        return VERDICTS[direction(self.low, self.high, self.repeats, equal=1.0)]


@dataclass(frozen=True, eq=False)
class World:
    """A world of the board: the final regret of every repeat, by tuner; `best` is the candidate behind Best fixed."""

    experiment: Experiment
    group: str
    regrets: Mapping[str, Array]
    best: str
    seconds: float

    def ratio(self, tuner: str, base: str = BASE_TUNER) -> Ratio | None:
        """The tuner's mean regret divided by the other's; None if one of them did not play, or if they are the same."""
        pairs = _pairs([self], tuner, base)
        return ratio(pairs) if pairs else None

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame of pandas or polars with the final regret of every tuner and repeat."""
        pairs = [(tuner, k) for tuner, own in self.regrets.items() for k in range(len(own))]
        return frame_of(
            {
                "world": [self.experiment.name] * len(pairs),
                "tuner": [tuner for tuner, _ in pairs],
                "repeat": [k for _, k in pairs],
                "regret": [float(self.regrets[tuner][k]) for tuner, k in pairs],
            },
            library,
        )


@dataclass(frozen=True)
class TunerRow:
    """One tuner's row in one world."""

    tuner: str
    mean: float
    median: float
    largest: float
    error: float
    ratio: Ratio | None
    to_rival: Ratio | None


def gather(group: str, run: Run) -> World:
    """A run as a world of the board. Of the fixed candidates only the best in hindsight is kept: the one with the least
    mean over these same repeats."""
    experiment, tasks, curves = run
    own: dict[str, list[float]] = {label: [] for label in experiment.tuners}
    for task, curve in zip(tasks, curves, strict=True):
        own[task.tuner_name].append(curve["regret"][-1])
    regrets = {label: np.array(values) for label, values in own.items()}
    fixed = list(candidates(experiment.tuners))
    best = min(fixed, key=lambda label: float(regrets[label].mean()), default="")
    shown = {label: values for label, values in regrets.items() if label not in fixed}
    seconds = sum(curve["seconds"] for curve in curves)
    return World(experiment, group, shown | ({BEST_FIXED: regrets[best]} if best else {}), best, seconds)


def ratio(pairs: Sequence[tuple[Array, Array]]) -> Ratio:
    """The geometric mean, over worlds, of the ratios of mean regrets; of one world, its ratio.

    Worlds with as many repeats are resampled together, for the same seed gives them the same parameter. The interval is
    expanded as the world with the fewest repeats needs it.
    """
    logs = [math.log(own.mean() / base.mean()) for own, base in pairs]
    resampled = [_log_mean(own) - _log_mean(base) for own, base in pairs]
    fewest = min(len(own) for own, _ in pairs)
    low, high = expanded(np.mean(resampled, axis=0), fewest)
    return Ratio(math.exp(np.mean(logs)), math.exp(low), math.exp(high), fewest)


def _log_mean(values: Array) -> Array:
    logs: Array = np.log(resampled_means(values, len(values)))
    return logs


def overall(worlds: Sequence[World], tuner: str, base: str = BASE_TUNER) -> Ratio | None:
    """The geometric mean of the tuner's ratios over the worlds where both played."""
    pairs = _pairs(worlds, tuner, base)
    return ratio(pairs) if pairs else None


def _pairs(worlds: Iterable[World], tuner: str, base: str) -> list[tuple[Array, Array]]:
    both = [world.regrets for world in worlds if tuner != base and {tuner, base} <= world.regrets.keys()]
    return [(regrets[tuner], regrets[base]) for regrets in both]


def world_rows(world: World) -> list[TunerRow]:
    """One row for each tuner, the least mean regret first."""
    return sorted((_tuner_row(world, tuner) for tuner in world.regrets), key=lambda each: each.mean)


def _tuner_row(world: World, tuner: str) -> TunerRow:
    regrets = world.regrets[tuner]
    n = len(regrets)
    return TunerRow(
        tuner=tuner,
        mean=float(regrets.mean()),
        median=float(np.median(regrets)),
        largest=float(regrets.max()),
        error=float(regrets.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan,
        ratio=world.ratio(tuner),
        to_rival=world.ratio(tuner, RIVAL_TUNER),
    )


Measured = list[tuple[str, float]]


@dataclass(frozen=True)
class Bar:
    """A requirement: what `measure` finds must be at most `most`, everywhere."""

    text: str
    most: float
    measure: Callable[[Sequence[World]], Measured]


@dataclass(frozen=True)
class Finding:
    """Whether a bar holds: the largest value that was measured, and where, or None if nothing was."""

    bar: Bar
    worst: tuple[str, float] | None
    repeats: int

    @property
    def verdict(self) -> str:
        if self.worst is None:
            return "not played"
        if self.repeats < MIN_REPEATS:
            return "not settled"
        return "holds" if self.worst[1] <= self.bar.most else "does not hold"


def _in(worlds: Sequence[World], quantity: Callable[[Ratio], float], names: Sequence[str], base: str) -> Measured:
    """A quantity of our tuner's ratio to the other's regret, in the worlds of these names, or in all."""
    found = ((each.experiment, each.ratio(OUR_TUNER, base)) for each in worlds)
    return [(e.title, quantity(r)) for e, r in found if r and (not names or e.name in names)]


def lower_ends(base: str) -> Callable[[Sequence[World]], Measured]:
    return lambda worlds: _in(worlds, lambda each: each.low, (), base)


def ratios_in(*names: str) -> Callable[[Sequence[World]], Measured]:
    return lambda worlds: _in(worlds, lambda each: each.value, names, BASE_TUNER)


def geometric_mean(worlds: Sequence[World]) -> Measured:
    found = overall(worlds, OUR_TUNER)
    return [("all worlds", found.value)] if found else []


BARS = [
    *(
        Bar(f"never clearly worse than {other}: the interval's lower end, in every world", 1.05, lower_ends(other))
        for other in (BASE_TUNER, RIVAL_TUNER)
    ),
    Bar("geometric mean of the ratios over the worlds", 0.45, geometric_mean),
    Bar("changing arms with intercept: the ratio", 0.3, ratios_in("linucb-intercept", "lints-intercept")),
    Bar("the paper's own LinUCB simulation: the ratio", 0.1, ratios_in("linucb-paper")),
    Bar("LinUCB on MovieLens: the ratio", 0.9, ratios_in("movielens-linucb")),
]


def findings(worlds: Sequence[World]) -> list[Finding]:
    """Every bar with the largest value that was measured."""
    fewest = min(world.experiment.repeats for world in worlds)
    return [Finding(bar, max(bar.measure(worlds), key=lambda each: each[1], default=None), fewest) for bar in BARS]


def write_regrets(file: Path, runs: Iterable[Run]) -> None:
    """All final regrets as one tidy CSV table, one row for each task, also of every fixed candidate."""
    pairs = (pair for run in runs for pair in zip(run.tasks, run.curves, strict=True))
    rows = ((t.experiment, t.tuner_name, t.repeat, c["regret"][-1], round(c["seconds"], 3)) for t, c in pairs)
    write_csv(file, REGRET_COLUMNS, rows)
