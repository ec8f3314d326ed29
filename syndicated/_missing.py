"""Numbers that are missing: NaN in the rows of named arms, in whose place the mean of what was learned is put.

The mean is neutral: a policy that scales its columns by what it has learned sees about 0.
"""

from typing import Any

import numpy as np

from syndicated._compiled import compiled
from syndicated._validation import MAX_MAGNITUDE, shorten
from syndicated.errors import StateError
from syndicated.types import Array


class ColumnMeans:
    """The mean of every column over the rows that had a reward."""

    def __init__(self) -> None:
        self.means: Array = np.zeros(0)
        self.counts: Array = np.zeros(0)

    def __len__(self) -> int:
        return len(self.means)

    def learn(self, x: Array) -> None:
        """Count a row, which may be wider than those before it."""
        more = len(x) - len(self.means)
        if more > 0:
            self.means = np.concatenate((self.means, np.zeros(more)))
            self.counts = np.concatenate((self.counts, np.zeros(more)))
        count_row(self.means, self.counts, x)

    def learn_many(self, X: Array) -> None:
        """`learn` one row after the other."""
        if len(X):
            self.learn(X[0])
            count_rows(self.means, self.counts, X[1:])

    def fill(self, X: Array) -> Array:
        """The rows with means in place of NaN; 0 where nothing was learned."""
        means = np.zeros(X.shape[1])
        known = min(len(means), len(self.means))
        means[:known] = self.means[:known]
        return np.where(np.isnan(X), means, X)

    def as_dict(self) -> dict[str, Any]:
        """The means as they stand in a state."""
        return {"means": self.means.tolist(), "counts": self.counts.tolist()}

    @classmethod
    def from_dict(cls, given: Any) -> "ColumnMeans":
        """The means that `as_dict` gave."""
        columns = cls()
        try:
            columns.means, columns.counts = (np.array(given[name], dtype=np.float64) for name in ("means", "counts"))
            right = columns.means.ndim == 1 and columns.means.shape == columns.counts.shape
            right = right and bool(np.all(np.abs(columns.means) <= MAX_MAGNITUDE) and np.all(columns.counts >= 0))
        except (KeyError, TypeError, ValueError):
            right = False
        if not right:
            raise StateError(f"the columns of a state must have means and counts; got {shorten(given)}")
        return columns


@compiled("void(f8[::1], f8[::1], f8[::1])")
def count_row(means: Array, counts: Array, x: Array) -> None:
    """Zeros before the first other value do not count: they may stand for numbers that were missing."""
    for j in range(len(x)):
        if counts[j] > 0.0 or x[j] != 0.0:
            counts[j] += 1.0
            means[j] += (x[j] - means[j]) / counts[j]


@compiled("void(f8[::1], f8[::1], f8[:, ::1])")
def count_rows(means: Array, counts: Array, X: Array) -> None:
    """`count_row` one after the other."""
    for n in range(len(X)):
        count_row(means, counts, X[n])


@compiled("i8(f8[:, ::1])")
def first_invalid(X: Array) -> int:
    """The place of the first number that is not finite or too large; -1 if there is none."""
    for place, x in enumerate(X.flat):
        if not abs(x) <= MAX_MAGNITUDE:
            return place
    return -1


@compiled("b1(f8[:, ::1])")
def repeat_first(X: Array) -> bool:
    """Copy the first row to all others, if its numbers are finite and not too large; whether they are."""
    for j in range(X.shape[1]):
        if not abs(X[0, j]) <= MAX_MAGNITUDE:
            return False
    for a in range(1, len(X)):
        for j in range(X.shape[1]):
            X[a, j] = X[0, j]
    return True
