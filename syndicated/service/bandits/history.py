"""What a bandit's page shows over time: a bounded table that thins itself out as it grows."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from syndicated.service.bandits.runs import DecisionColumns
from syndicated.types import Array

MAX_ROWS = 400  # rows; when there are more, every second one goes and rows come half as often
MAX_ARM_TALLIES = 10_000  # arms that are counted, the first ones
RECENT_ROWS = 50  # of the table: what one or two times as many rows span is recent, an eighth to a half of an epoch
FIXED_COLUMNS = 6  # before the probabilities: time, decisions, rewards, their sum, sum of squares, explored
NO_TALLY = (0, 0, 0.0, 0.0)
HEAD_FIELDS = (
    *("count", "learned", "explored", "agreed", "total", "squares", "tallies", "arms"),
    *("played", "recent", "recent_starts", "began", "latest"),
)  # of a snapshot


class History:
    """Counts of an epoch, and a table of them over time with the probability of every candidate.

    The counts of an arm, or of who decided, are a list that is replaced and never changed: a copy of them all is one of
    dictionaries alone.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = list(widths)
        self.count = self.learned = self.explored = 0
        self.agreed = 0  # decisions of the caller that the model would have made too
        self.total = self.squares = 0.0
        self.tallies: dict[str, list[float]] = {}  # by who decided: decisions, rewards, their sum, sum of squares
        self.arms: dict[str, list[float]] = {}  # by arm: decisions, rewards, their sum, sum of squares
        self.played: dict[str, list[float | None]] = {}  # by arm: when it was played first (if known) and last
        self.recent: list[dict[str, list[float]]] = [{}, {}]  # as `arms`, of this block of decisions and the last one
        self.recent_starts = [0, 0]  # how many decisions there were before each of these blocks
        self.began: float | None = None  # the time of the first decision
        self.latest: float | None = None  # and of the latest
        self._stride = 1
        self._rows: list[list[float]] = []

    def add_decisions(self, made: DecisionColumns, probabilities: Callable[[], Sequence[Array]]) -> None:
        """Count decisions that follow each other; up to each row of the table at once."""
        begin = 0
        while begin < len(made):
            end = begin + self._stride - self.count % self._stride
            part = made[begin:end]
            self._count(part)
            if self.count % self._stride == 0:
                self._add_row(part.at[-1], probabilities)
            if self.count % (RECENT_ROWS * self._stride) == 0:
                self.recent = [{}, self.recent[0]]
                self.recent_starts = [self.count, self.recent_starts[0]]
            begin = end

    def _count(self, made: DecisionColumns) -> None:
        """Add to the counts; arms in the order in which they were played first."""
        if self.count == 0:
            self.began = made.at[0]
        self.latest = made.at[-1]
        self.count += len(made)
        self.explored += sum(made.explored)
        self.agreed += sum(made.agreed)
        by: dict[str, int] = {}
        arms: dict[str, int] = {}
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        for at, who, arm in zip(made.at, made.by, made.arm, strict=True):
            by[who] = by.get(who, 0) + 1
            arms[arm] = arms.get(arm, 0) + 1
            first.setdefault(arm, at)
            last[arm] = at
        for name, count in by.items():
            _add_decisions(self.tallies, name, count)
        for arm, count in arms.items():
            if arm in self.arms or len(self.arms) < MAX_ARM_TALLIES:
                self._count_arm(arm, count, first[arm], last[arm])

    def _count_arm(self, arm: str, count: int, first: float, last: float) -> None:
        known = self.played.get(arm, [None])[0] if arm in self.arms else first  # states of before this was kept: none
        self.played[arm] = [known, last]
        for tallies in (self.arms, self.recent[0]):
            _add_decisions(tallies, arm, count)

    def _add_row(self, at: float, probabilities: Callable[[], Sequence[Array]]) -> None:
        row = [at, self.count, self.learned, self.total, self.squares, self.explored]
        self._rows.append(row + np.concatenate(probabilities()).tolist())
        if len(self._rows) > MAX_ROWS:
            self._rows = self._rows[1::2]
            self._stride *= 2

    def add_reward(self, by: str, arm: str, reward: float) -> None:
        self.learned += 1
        self.total += reward
        self.squares += reward * reward
        _add_reward(self.tallies, by, reward)
        if arm in self.arms:
            _add_reward(self.arms, arm, reward)
            _add_reward(self.recent[0], arm, reward)

    def rows(self) -> Array:
        """(n, 6 + candidates): time, decisions, rewards, sum, sum of squares, explored, and the probabilities."""
        return self.held_rows()()

    def held_rows(self) -> Callable[[], Array]:
        """What gives the rows of now at any time, on any thread."""
        rows, width = list(self._rows), FIXED_COLUMNS + sum(self.widths)
        return lambda: np.array(list(map(np.array, rows))).reshape(len(rows), width)

    def ends(self) -> tuple[list[float], list[float]]:
        """The row of before the first decision and that of now, without probabilities."""
        began, latest = (math.nan if at is None else at for at in (self.began, self.latest))
        now = [latest, self.count, self.learned, self.total, self.squares, self.explored]
        return [began] + [0.0] * (FIXED_COLUMNS - 1), [float(value) for value in now]

    def counts_now(self) -> "History":
        """A copy without the table, which stays as it is, for any thread."""
        copy = History(self.widths)
        copy.restore(self.head(), np.empty((0, 0)))
        return copy

    def head(self) -> dict[str, Any]:
        """What it has beside rows: a copy."""
        values = {name: getattr(self, name) for name in HEAD_FIELDS}
        for name in ("tallies", "arms", "played"):
            values[name] = values[name].copy()
        copies = {"recent": [block.copy() for block in self.recent], "recent_starts": list(self.recent_starts)}
        return {"stride": self._stride} | values | copies

    def restore(self, head: dict[str, Any], rows: Array) -> None:
        values = dict(head)
        self._stride, self._rows = values.pop("stride"), rows.tolist()
        for name, value in values.items():
            setattr(self, name, value)
        if "recent" not in head:  # of before recent decisions were counted apart
            self.recent_starts = [self.count, self.count]
            self.began, self.latest = (self._rows[0][0], self._rows[-1][0]) if self._rows else (None, None)


def _add_decisions(tallies: dict[str, list[float]], name: str, count: int) -> None:
    decisions, rewards, total, squares = tallies.get(name, NO_TALLY)
    tallies[name] = [decisions + count, rewards, total, squares]


def _add_reward(tallies: dict[str, list[float]], name: str, reward: float) -> None:
    decisions, rewards, total, squares = tallies.get(name, NO_TALLY)
    tallies[name] = [decisions, rewards + 1, total + reward, squares + reward * reward]


def mean_and_error(count: float, total: float, squares: float) -> tuple[float, float]:
    """The mean of rewards and its standard error; nan where there are too few."""
    if count < 2:
        return (total / count if count else math.nan), math.nan
    mean = total / count
    return mean, math.sqrt(max(squares / count - mean * mean, 0.0) / (count - 1))
