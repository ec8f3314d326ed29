"""The ratios of mean regret on the scoreboard, world by world and over all worlds, and the bars that they must meet.

They are ratios of means, not means of ratios: what is compared is a tuner's average regret, and a seed on which the
other tuner is lucky does not count more than others. The interval is a paired bootstrap: repeats are resampled for both
tuners together. Its percentiles are taken as far out as those of a mean (`expanded`), because to first order a ratio of
means is one. They need no formula for the error of a ratio and stay above 0; those of 1/ratio are their inverses.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from syndicated._files import write_csv
from syndicated._formatting import ratio_number
from syndicated._frames import frame_of
from syndicated.experiments._experiment import Experiment
from syndicated.experiments._results import MIN_REPEATS, direction, expanded, resampled_means
from syndicated.experiments._run import Run
from syndicated.experiments.scoreboard._arm_worlds import ARM_GROUP
from syndicated.experiments.scoreboard._policy_worlds import POLICY_GROUP
from syndicated.experiments.scoreboard._tuner_worlds import TUNER_GROUP
from syndicated.experiments.scoreboard._worlds import (
    ALL_WITH_INTERCEPT,
    BASE_TUNER,
    BASE_WITH_INTERCEPT,
    BEST_FIXED,
    BOLDNESS_2,
    FORESEEN_FIXED,
    OUR_TUNER,
    RIVAL_TUNER,
    candidates,
)
from syndicated.types import Array

VERDICTS = {-1: "better", 1: "worse", 0: "not settled"}
MAX_RATIO = 1000.0  # of two regrets, either way
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


def marked(ratio: Ratio | None) -> str:
    """A ratio in markdown: bold if it is better, slanted if it is worse."""
    if ratio is None:
        return "–"
    mark = {"better": "**", "worse": "*"}.get(ratio.verdict, "")
    return f"{mark}{ratio_number(ratio.value)}{mark}"


@dataclass(frozen=True, eq=False)
class World:
    """A world of the board: the final regret of every repeat, by tuner; `best` is the candidate behind Best fixed.

    `fixed` has the mean regret of every candidate, `foreseen` in every repeat that of the one best on all others.
    """

    experiment: Experiment
    group: str
    regrets: Mapping[str, Array]
    best: str
    seconds: float
    fixed: Mapping[str, float] = field(default_factory=dict)
    foreseen: Array | None = None

    @property
    def compared(self) -> Mapping[str, Array]:
        """The regrets of all that a tuner may be compared with."""
        foreseen = {} if self.foreseen is None else {FORESEEN_FIXED: self.foreseen}
        base = self.regrets.get(BASE_WITH_INTERCEPT, self.regrets.get(BASE_TUNER))
        with_intercept = {} if base is None else {ALL_WITH_INTERCEPT: base}
        return {**self.regrets, **foreseen, **with_intercept}

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
    regrets, seconds = _final_regrets(run), sum(curve["seconds"] for curve in run.curves)
    if group in (POLICY_GROUP, TUNER_GROUP, ARM_GROUP):
        return World(run.experiment, group, regrets, "", seconds)
    fixed = list(candidates(run.experiment.tuners))
    best = min(fixed, key=lambda label: float(regrets[label].mean()), default="")
    shown = {label: values for label, values in regrets.items() if label not in fixed or label == BOLDNESS_2}
    means = {label: float(regrets[label].mean()) for label in fixed}
    if not fixed:
        return World(run.experiment, group, shown, best, seconds)
    foreseen = _foreseen(np.stack([regrets[label] for label in fixed]))
    return World(run.experiment, group, shown | {BEST_FIXED: regrets[best]}, best, seconds, means, foreseen)


def _foreseen(regrets: Array) -> Array:
    """The regret of every repeat with the candidate that has the least mean on all others. (candidates, repeats)"""
    of_others = regrets.sum(axis=1, keepdims=True) - regrets
    own: Array = regrets[of_others.argmin(axis=0), np.arange(regrets.shape[1])]
    return own


def _final_regrets(run: Run) -> dict[str, Array]:
    """The regret of every repeat at its end, by label."""
    own: dict[str, list[float]] = {label: [] for label in run.experiment.tuners}
    for task, curve in zip(run.tasks, run.curves, strict=True):
        own[task.tuner_name].append(curve["regret"][-1])
    return {label: np.array(values) for label, values in own.items()}


def ratio(pairs: Sequence[tuple[Array, Array]]) -> Ratio:
    """The geometric mean, over worlds, of the ratios of mean regrets; of one world, its ratio.

    Worlds with as many repeats are resampled together, for the same seed gives them the same parameter. The interval is
    expanded as the world with the fewest repeats needs it.
    """
    logs = [_log_ratio(own.mean(keepdims=True), base.mean(keepdims=True)) for own, base in pairs]
    resampled = [_log_ratio(*(resampled_means(values, len(values)) for values in pair)) for pair in pairs]
    fewest = min(len(own) for own, _ in pairs)
    low, high = expanded(np.mean(resampled, axis=0), fewest)
    return Ratio(math.exp(np.mean(logs)), math.exp(low), math.exp(high), fewest)


def _log_ratio(own: Array, base: Array) -> Array:
    """The logarithm of the ratio of mean regrets. A regret may be 0: it counts as a thousandth of the other."""
    least = np.maximum(np.maximum(own, base) / MAX_RATIO, np.finfo(float).tiny)
    logs: Array = np.log(np.maximum(own, least) / np.maximum(base, least))
    return logs


class Way(NamedTuple):
    """One way to play in every world: the ratios of its mean regret to that of the best fixed value, put together."""

    label: str
    mean: float
    worst: float
    where: str
    mostly: float  # at most, in nine of ten worlds


def trade_off(worlds: Sequence[World]) -> list[Way]:
    """What one boldness for all worlds would give, for each, and what our tuner and others give."""
    kinds = [world for world in worlds if BOLDNESS_2 in world.fixed and OUR_TUNER in world.regrets]
    if not kinds:
        return []
    ways = {label: [world.fixed[label] for world in kinds] for label in kinds[0].fixed}
    for label in (OUR_TUNER, "Consensus", RIVAL_TUNER, BASE_TUNER):
        if all(label in world.regrets for world in kinds):
            ways[label] = [float(world.regrets[label].mean()) for world in kinds]
    return [_way(label, means, kinds) for label, means in ways.items()]


def _way(label: str, means: Sequence[float], worlds: Sequence[World]) -> Way:
    ratios = np.array(means) / [world.fixed[world.best] for world in worlds]
    worst, mostly = int(ratios.argmax()), float(np.quantile(ratios, 0.9))
    mean = float(np.exp(np.log(ratios).mean()))
    return Way(label, mean, float(ratios[worst]), worlds[worst].experiment.title, mostly)


def overall(worlds: Sequence[World], tuner: str, base: str = BASE_TUNER) -> Ratio | None:
    """The geometric mean of the tuner's ratios over the worlds where both played."""
    pairs = _pairs(worlds, tuner, base)
    return ratio(pairs) if pairs else None


def _pairs(worlds: Iterable[World], tuner: str, base: str) -> list[tuple[Array, Array]]:
    both = [world.compared for world in worlds if tuner != base and {tuner, base} <= world.compared.keys()]
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


def _in(worlds: Sequence[World], quantity: Callable[[Ratio], float], base: str) -> Measured:
    """A quantity of our tuner's ratio to the other's regret, in every world."""
    found = ((each.experiment, each.ratio(OUR_TUNER, base)) for each in worlds)
    return [(e.title, quantity(r)) for e, r in found if r]


def lower_ends(base: str) -> Callable[[Sequence[World]], Measured]:
    return lambda worlds: _in(worlds, lambda each: each.low, base)


def _value(ratio: Ratio) -> float:
    return ratio.value


def mean_to(base: str) -> Callable[[Sequence[World]], Measured]:
    def measure(worlds: Sequence[World]) -> Measured:
        found = overall(worlds, OUR_TUNER, base)
        return [("all worlds", found.value)] if found else []

    return measure


def to_plain_world(worlds: Sequence[World]) -> Measured:
    """Our regret in other units, as a multiple of that in the plain world on the same seeds."""
    known = {world.experiment.name: world for world in worlds if OUR_TUNER in world.regrets}
    plain = known.get(PLAIN_WORLD)
    others = [known[name] for name in OTHER_UNITS if name in known] if plain else []
    return [(each.experiment.title, _in_range(each) / _in_range(plain)) for each in others if plain]


def _in_range(world: World) -> float:
    """Our mean regret, in units of the range of rewards."""
    environment = world.experiment.environment
    return float(world.regrets[OUR_TUNER].mean() / (environment.get("high", 1.0) - environment.get("low", 0.0)))


PLAIN_WORLD, OTHER_UNITS = "linucb-intercept", ("range", "offset", "large-unit", "small-unit", "outliers")
MOST_ON_AVERAGE, MOST_ANYWHERE = 1.05, 1.3  # of the regret of the best fixed value
BARS = [
    *(
        Bar(f"never clearly worse than {other}: the interval's lower end, in every world", 1.0, lower_ends(other))
        for other in (BASE_TUNER, RIVAL_TUNER)
    ),
    Bar(f"geometric mean of the ratios to {BASE_TUNER}'s regret", 0.3, mean_to(BASE_TUNER)),
    Bar(f"geometric mean of the ratios to {BEST_FIXED}'s regret", MOST_ON_AVERAGE, mean_to(BEST_FIXED)),
    Bar(
        f"the ratio to {BEST_FIXED}'s regret, in every world",
        MOST_ANYWHERE,
        lambda worlds: _in(worlds, _value, BEST_FIXED),
    ),
    Bar("offsets, scales and outliers: the ratio to the plain world's regret", 1.1, to_plain_world),
]


def findings(worlds: Sequence[World]) -> list[Finding]:
    """Every bar with the largest value that was measured."""
    fewest = min(world.experiment.repeats for world in worlds)
    return [Finding(bar, max(bar.measure(worlds), key=lambda each: each[1], default=None), fewest) for bar in BARS]


def task_seconds(runs: Iterable[Run]) -> float:
    """The processor time of all tasks. One that several worlds have is run once."""
    own = {task.key: curve["seconds"] for run in runs for task, curve in zip(run.tasks, run.curves, strict=True)}
    return sum(own.values())


def write_regrets(file: Path, runs: Iterable[Run]) -> None:
    """All final regrets as one tidy CSV table, one row for each task, also of every fixed candidate."""
    pairs = (pair for run in runs for pair in zip(run.tasks, run.curves, strict=True))
    rows = ((t.experiment, t.tuner_name, t.repeat, c["regret"][-1], round(c["seconds"], 3)) for t, c in pairs)
    write_csv(file, REGRET_COLUMNS, rows)
