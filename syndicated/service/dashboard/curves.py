"""A bandit's history over its decisions or over time: the tuner's probabilities, and the rewards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syndicated._series import evenly_spaced, marginals
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.history import FIXED_COLUMNS
from syndicated.service.bandits.past import PastEpoch
from syndicated.service.dashboard.axis import By
from syndicated.service.dashboard.formatting import Interval, params_text
from syndicated.types import Array

COLUMN = {"time": 0, "decisions": 1}  # of the history's rows
MAX_STRETCHES = 40  # an epoch is shown in this many stretches of decisions
MIN_STRETCH_DECISIONS = 25
MEANINGS = {
    "boldness": "how far the model explores, in standard errors of what it expects",
    "stride": "how far the model moves with what it learns, in Newton steps",
}


@dataclass(frozen=True)
class Curves:
    """The probability of every candidate of a hyper-parameter: a row for each place on the axis, a column each."""

    name: str
    labels: list[str]
    x: Array
    p: Array

    @property
    def likeliest(self) -> tuple[str, float]:
        best = int(np.argmax(self.p[-1]))
        equal = np.ptp(self.p[-1]) < 1e-9
        return "all equal" if equal else self.labels[best], float(self.p[-1, best])

    @property
    def meaning(self) -> str | None:
        """What a hyper-parameter in natural units means; None for others."""
        return MEANINGS.get(self.name)


def history_rows(bandit: Bandit) -> Array:
    """The rows of a bandit's history, with one for its beginning and one for now."""
    history, p = bandit.history, np.concatenate(bandit.agent.tuner.probabilities())
    began, now = history.ends()
    rows = history.rows()
    first = np.concatenate([began, rows[0, FIXED_COLUMNS:] if len(rows) else p])
    last = np.concatenate([now, p])
    return np.vstack([first, rows[rows[:, 1] < history.count], last])


def curves(bandit: Bandit, rows: Array, by: By) -> list[Curves]:
    """For every hyper-parameter with more than one value. Those that are drawn jointly are shown by their marginals."""
    found, start = [], FIXED_COLUMNS
    for axis in bandit.agent.tuner.axes():
        p = rows[:, start : start + len(axis)]
        start += len(axis)
        found += [
            Curves(each.name, [f"{value:.12g}" for value in each.values], rows[:, COLUMN[by]], each.p)
            for each in marginals(axis, p)
        ]
    return found


def joint(bandit: Bandit) -> list[tuple[str, float]]:
    """Candidates that set several hyper-parameters at once, the likeliest first; none where each is drawn by itself."""
    tuner = bandit.agent.tuner
    found = [
        (params_text(point), float(chance))
        for axis, p in zip(tuner.axes(), tuner.probabilities(), strict=True)
        for point, chance in zip(axis, p, strict=True)
        if len(point) > 1
    ]
    return sorted(found, key=lambda each: -each[1]) if len(found) > 1 else []


@dataclass(frozen=True)
class Progress:
    """Stretches of an epoch: the middle of each, its mean reward with a 95% band, and its share of exploration."""

    x: Array
    rewards: list[Interval]
    explored: Array


def progress(rows: Array, by: By = "decisions") -> Progress:
    """The differences between rows of the history, in stretches of enough decisions for a mean."""
    count = min(MAX_STRETCHES, max(1, int(rows[-1, 1]) // MIN_STRETCH_DECISIONS))
    edges = rows[evenly_spaced(0, len(rows) - 1, most=count + 1), :FIXED_COLUMNS]
    steps, middles = np.diff(edges, axis=0), (edges[1:] + edges[:-1])[:, COLUMN[by]] / 2
    some = steps[:, 1] > 0
    rewards = [Interval.of_sums(*step[2:5]) for step in steps[some].tolist()]
    return Progress(middles[some], rewards, steps[some, 5] / steps[some, 1])


@dataclass(frozen=True)
class EpochCurve:
    """The rewards of an epoch among all epochs of the bandit, and where it began."""

    epoch: int
    began: float
    progress: Progress


def epoch_curves(past: Sequence[PastEpoch], epoch: int, rows: Array, by: By) -> list[EpochCurve]:
    """All epochs after each other; decisions are counted from the first of them on."""
    found, before = [], 0.0
    for number, own in [*((each.epoch, np.array(each.rows)) for each in past), (epoch, rows[:, :FIXED_COLUMNS])]:
        start = before if by == "decisions" else 0.0
        made = progress(own, by)
        found.append(
            EpochCurve(number, own[0, COLUMN[by]] + start, Progress(made.x + start, made.rewards, made.explored))
        )
        before += own[-1, 1]
    return found
