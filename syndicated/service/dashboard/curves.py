"""A bandit's history over its decisions: the tuner's probabilities, and the rewards."""

import math
from dataclasses import dataclass

import numpy as np

from syndicated._series import evenly_spaced, marginals
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.history import FIXED_COLUMNS, mean_and_error
from syndicated.service.dashboard.formatting import STANDARD_ERRORS_95, params_text
from syndicated.types import Array

MAX_STRETCHES = 40  # an epoch is shown in this many stretches of decisions
MIN_STRETCH_DECISIONS = 25
MEANINGS = {
    "boldness": "how far the model explores, in standard errors of what it expects",
    "stride": "how far the model moves with what it learns, in Newton steps",
}


@dataclass(frozen=True)
class Curves:
    """The probability of every candidate of a hyper-parameter: a row for each number of decisions, a column each."""

    name: str
    labels: list[str]
    decisions: Array
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
    history = bandit.history
    now = [math.nan, history.count, history.learned, history.total, history.squares, history.explored]
    last = np.concatenate([now, *bandit.agent.tuner.probabilities()])
    rows = history.rows()
    first = last.copy()
    first[1:FIXED_COLUMNS] = 0.0
    first[FIXED_COLUMNS:] = rows[0, FIXED_COLUMNS:] if len(rows) else last[FIXED_COLUMNS:]
    return np.vstack([first, rows[rows[:, 1] < history.count], last])


def curves(bandit: Bandit, rows: Array) -> list[Curves]:
    """For every hyper-parameter with more than one value. Those that are drawn jointly are shown by their marginals."""
    found, start = [], FIXED_COLUMNS
    for axis in bandit.agent.tuner.axes():
        p = rows[:, start : start + len(axis)]
        start += len(axis)
        found += [
            Curves(each.name, [f"{value:.12g}" for value in each.values], rows[:, 1], each.p)
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

    decisions: Array
    mean: Array
    low: Array
    high: Array
    explored: Array


def progress(rows: Array) -> Progress:
    """The differences between rows of the history, in stretches of enough decisions for a mean."""
    count = min(MAX_STRETCHES, max(1, int(rows[-1, 1]) // MIN_STRETCH_DECISIONS))
    edges = rows[evenly_spaced(0, len(rows) - 1, most=count + 1)]
    steps = np.diff(edges[:, :FIXED_COLUMNS], axis=0)
    steps, middles = steps[steps[:, 1] > 0], (edges[1:, 1] + edges[:-1, 1])[steps[:, 1] > 0] / 2
    means = np.array([mean_and_error(*step[2:5]) for step in steps]).reshape(-1, 2)
    mean, half = means[:, 0], STANDARD_ERRORS_95 * np.nan_to_num(means[:, 1])
    return Progress(middles, mean, mean - half, mean + half, steps[:, 5] / steps[:, 1])
