"""The features' own units: rows as a model learns them, whatever the columns are measured in.

    z_j = x_j / u_j,   u_j = the root mean square of the values other than 0 that column j has had

So a penalty, a step or a radius means the same for prices in cents and in millions, and a category's column of zeros
and ones stays as it is. The first value of a column gives it its first unit. At times that grow by `REFRESH_GROWTH` the
units are looked at again, and brought up to date if one is off by more than `MAX_UNIT_GROWTH`.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from syndicated._compiled import compiled
from syndicated._learner import Learner
from syndicated._models.kernels import standard_columns
from syndicated._models.scaled_kernels import standard
from syndicated.types import Array

REFRESH_GROWTH = 1.25  # of the count of rows, until the units are looked at again
MAX_UNIT_GROWTH = 1.25  # of a column's unit, either way, that may stay as it is


@compiled("b1(f8[::1], f8[::1], f8[::1], f8[::1])")
def count_row(x: Array, inverse: Array, squares: Array, values: Array) -> bool:
    """Count the values of a row; whether one of them is the first of its column that is not 0."""
    first = False
    for j in range(len(x)):
        squares[j] += x[j] * x[j]
        values[j] += x[j] != 0.0
        first |= inverse[j] == 0.0 and x[j] != 0.0
    return first


@dataclass(eq=False)
class Units(Learner):
    """One over the unit of each column: 0 as long as it had no value but 0, and 1 for good if units are not `natural`.

    >>> units = Units(2, natural=True)
    >>> units.learn(np.array([300.0, 0.0])).tolist()
    [1.0, 1.0]
    >>> units.row(np.array([150.0, 7.0]), size=3).tolist()
    [0.5, 1.0, 1.0]
    """

    dim: int
    natural: bool
    inverse: Array = field(init=False)
    squares: Array = field(init=False)
    values: Array = field(init=False)
    count: int = field(init=False, default=0)
    due: int = field(init=False)

    def __post_init__(self) -> None:
        self.inverse = np.zeros(self.dim) if self.natural else np.ones(self.dim)
        self.squares, self.values, self.due = np.zeros(self.dim), np.zeros(self.dim), int(self.natural)

    def learn(self, x: Array) -> Array | None:
        """Count a row that will be learned. If units change: what each column is multiplied by, where it had a unit."""
        if not self.due:
            return None
        self.count += 1
        if not count_row(x, self.inverse, self.squares, self.values) and self.count < self.due:
            return None
        new = np.where((self.inverse == 0.0) & (x != 0.0), 1.0 / np.where(x == 0.0, 1.0, np.abs(x)), self.inverse)
        if self.count >= self.due:
            self.due = self.count + math.ceil((REFRESH_GROWTH - 1.0) * self.count)
            new = self._refreshed(new)
        if np.array_equal(new, self.inverse):
            return None
        factors = np.where(self.inverse > 0.0, new / np.where(self.inverse > 0.0, self.inverse, 1.0), 1.0)
        self.inverse = new
        return factors

    def _refreshed(self, inverse: Array) -> Array:
        """These, or what the root mean squares say if one differs by much."""
        seen = (inverse > 0.0) & (self.squares > 0.0)
        usual = np.sqrt(self.values / np.where(seen, self.squares, 1.0))
        ratio = np.where(seen, usual / np.where(seen, inverse, 1.0), 1.0)
        moved = np.max(np.maximum(ratio, 1.0 / ratio)) > MAX_UNIT_GROWTH
        return np.where(seen, usual, inverse) if moved else inverse

    def columns(self, X: Array, size: int) -> Array:
        """(size, K): rows in these units, one column an arm, with the intercept's ones if the model is longer."""
        return standard_columns(X, np.zeros(self.dim), self.seen_with(X), size)

    def seen_with(self, X: Array) -> Array:
        """One over the units, those of columns that had no value yet by the largest that the rows at hand have."""
        if self.inverse.all():
            return self.inverse
        largest = np.abs(X).max(axis=0, initial=0.0)
        new = (self.inverse == 0.0) & (largest > 0.0)
        return np.where(new, 1.0 / np.where(new, largest, 1.0), self.inverse)

    def row(self, x: Array, size: int) -> Array:
        """A row in these units, with the intercept's 1 if the model is longer."""
        return standard(x, np.zeros(self.dim), self.inverse, size)
