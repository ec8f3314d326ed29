"""What a bandit's history shows over its decisions: the tuner's probabilities, and the rewards."""

import math
from dataclasses import dataclass

import numpy as np

from syndicated.service.core.bandit import Bandit
from syndicated.service.core.history import FIXED_COLUMNS, mean_and_error
from syndicated.service.dashboard.formatting import WIDE, name_of
from syndicated.types import Array

STRETCHES = 40  # parts of an epoch whose rewards are shown apart
SHORTEST = 25  # decisions in each of them
MEANINGS = {
    "boldness": "how far the model explores, in standard errors of what it expects",
    "stride": "how far the model moves with what it learns, in Newton steps",
}


@dataclass(frozen=True)
class Curves:
    """The probability of every candidate of a hyper-parameter, a column each, after so many decisions."""

    name: str
    labels: list[str]
    decisions: Array
    p: Array

    @property
    def likeliest(self) -> tuple[str, float]:
        best = int(np.argmax(self.p[-1]))
        alike = np.ptp(self.p[-1]) < 1e-9
        return "all alike" if alike else self.labels[best], float(self.p[-1, best])

    @property
    def meaning(self) -> str | None:
        """What a hyper-parameter in natural units is a multiple of."""
        return MEANINGS.get(self.name)


def table(bandit: Bandit) -> Array:
    """The rows of a bandit's history between its beginning and now, both included."""
    history = bandit.history
    now = [math.nan, history.count, history.learned, history.total, history.squares, history.explored]
    last = np.concatenate([now, *bandit.agent.tuner.probabilities()])
    rows = history.rows()
    first = last.copy()
    first[1:FIXED_COLUMNS] = 0.0
    first[FIXED_COLUMNS:] = rows[0, FIXED_COLUMNS:] if len(rows) else last[FIXED_COLUMNS:]
    return np.vstack([first, rows[rows[:, 1] < history.count], last])


def curves(bandit: Bandit, rows: Array) -> list[Curves]:
    """For every hyper-parameter that the tuner has a choice in. One that is drawn jointly is shown by its marginals."""
    found, start = [], FIXED_COLUMNS
    for axis in bandit.agent.tuner.axes():
        p = rows[:, start : start + len(axis)]
        start += len(axis)
        for name in axis[0]:
            values = sorted({point[name] for point in axis})
            columns = [
                p[:, [k for k, point in enumerate(axis) if point[name] == value]].sum(axis=1) for value in values
            ]
            if len(values) > 1:
                found.append(Curves(name, [f"{value:.12g}" for value in values], rows[:, 1], np.column_stack(columns)))
    return found


def joint(bandit: Bandit) -> list[tuple[str, float]]:
    """Candidates that set several hyper-parameters at once, the likeliest first; none where axes are drawn apart."""
    tuner = bandit.agent.tuner
    found = [
        (name_of(point), float(chance))
        for axis, p in zip(tuner.axes(), tuner.probabilities(), strict=True)
        for point, chance in zip(axis, p, strict=True)
        if len(point) > 1
    ]
    return sorted(found, key=lambda each: -each[1]) if len(found) > 1 else []


@dataclass(frozen=True)
class Progress:
    """Stretches of an epoch: the middle of each in decisions, the rewards that came in it, the share of exploration."""

    decisions: Array
    mean: Array
    low: Array
    high: Array
    explored: Array


def progress(rows: Array) -> Progress:
    """Differences between rows of the history, in stretches that are long enough to tell something."""
    count = min(STRETCHES, max(1, int(rows[-1, 1]) // SHORTEST))
    edges = rows[np.unique(np.linspace(0, len(rows) - 1, count + 1).round().astype(int))]
    steps = np.diff(edges[:, :FIXED_COLUMNS], axis=0)
    steps, middles = steps[steps[:, 1] > 0], (edges[1:, 1] + edges[:-1, 1])[steps[:, 1] > 0] / 2
    means = np.array([mean_and_error(*step[2:5]) for step in steps]).reshape(-1, 2)
    mean, half = means[:, 0], WIDE * np.nan_to_num(means[:, 1])
    return Progress(middles, mean, mean - half, mean + half, steps[:, 5] / steps[:, 1])
