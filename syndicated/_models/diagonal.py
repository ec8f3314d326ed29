"""A linear or logistic model with a precision for each column: what a row costs depends on its non-zeros alone.

Column i has a weight with mean theta_i and precision h_i + k. Rows count as u_i = x_i / size_i, the size being that of
the column's largest value so far, the arms at hand included: no unit matters. Before the data, a typical row has the
variance `variance`: k = n / variance, with n the mean number of non-zeros of the rows learned so far.

    m = Σ theta_i u_i,   s = Σ u_i² / (h_i + k)          what is believed of a row: the mean and the variance
    linear:    g = (r - m) / (1 + s),   w = 1            rewards are counted from the first one, s in units of the noise
    logistic:  g = r - p,  p = σ(m + s g),  w = p (1-p)  one equation in one unknown, solved exactly
    theta_i += g u_i / (h_i + k),   h_i += w u_i²

So theta becomes the most likely one given the last reward and the columns' own Gaussians (Chapelle and Li 2011,
algorithm 3), and h their curvature there.

Rows are arrays (2, n): columns, rising, and values; a value 0 is no entry.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from syndicated._compiled import compiled
from syndicated._learner import Learner
from syndicated._models.logistic import logistic_gain, sigmoid
from syndicated.types import Array

NO_DRAW: Array = np.empty((0, 0))
ROWS, NONZEROS, ERRORS, ORIGIN = range(4)  # the entries of `Diagonal.sums`


@compiled("f8[:,:,::1](f8[:,::1], i8)")
def rows_of_table(X: Array, size: int) -> Array:
    """(K, 2, size): every column of a table, and the intercept's 1 if the model is longer."""
    rows = np.ones((len(X), 2, size))
    for a in range(len(X)):
        for i in range(size):
            rows[a, 0, i] = i
            if i < X.shape[1]:
                rows[a, 1, i] = X[a, i]
    return rows


@compiled("f8[:,:,::1](f8[:,:,::1], i8)")
def rows_with_intercept(given: Array, size: int) -> Array:
    """Rows followed by the intercept's entry, in the last of the model's columns."""
    n = given.shape[2]
    rows = np.empty((len(given), 2, n + 1))
    for a in range(len(given)):
        for part in range(2):
            for j in range(n):
                rows[a, part, j] = given[a, part, j]
        rows[a, 0, n], rows[a, 1, n] = size - 1, 1.0
    return rows


@compiled("f8(f8[:,::1], f8[::1], f8)")
def penalty(row: Array, sums: Array, variance: float) -> float:
    """k: with it, a row of as many unknown columns as usual has the variance."""
    usual = sums[NONZEROS] / sums[ROWS] if sums[ROWS] > 0.0 else float(np.count_nonzero(row[1]))
    return float(max(usual, 1.0)) / variance


@compiled("void(f8[::1], f8[:,:,::1], f8[::1])")
def widen(units: Array, rows: Array, sizes: Array) -> None:
    """The sizes of the columns that the rows have, as they would be if all rows had been learned."""
    for a in range(len(rows)):
        for j in range(rows.shape[2]):
            i = int(rows[a, 0, j])
            units[i] = max(units[i], sizes[i])
            if abs(rows[a, 1, j]) > units[i]:
                units[i] = abs(rows[a, 1, j])


@compiled("void(f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8)")
def believe(
    means: Array,
    deviations: Array,
    rows: Array,
    z: Array,
    theta: Array,
    h: Array,
    sizes: Array,
    units: Array,
    sums: Array,
    variance: float,
) -> None:
    """The mean of every row and its standard deviation; or, if z has normals, how far a draw of the weights is off.

    `units` is zeros for all columns before and after.
    """
    widen(units, rows, sizes)
    for a in range(len(rows)):
        k, mean, deviation = penalty(rows[a], sums, variance), 0.0, 0.0
        for j in range(rows.shape[2]):
            x, i = rows[a, 1, j], int(rows[a, 0, j])
            if x != 0.0:
                unit = units[i] if units[i] > 0.0 else 1.0  # of a number that is none
                u, known = x / unit, h[i] * (sizes[i] / unit) ** 2
                if sizes[i] > 0.0:
                    mean += theta[i] * (x / sizes[i])
                deviation += u * z[a, j] / math.sqrt(known + k) if z.size else u * u / (known + k)
        means[a], deviations[a] = mean, deviation if z.size else math.sqrt(deviation)
    for a in range(len(rows)):
        for j in range(rows.shape[2]):
            units[int(rows[a, 0, j])] = 0.0


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8[::1])")
def grow(row: Array, theta: Array, h: Array, sizes: Array) -> None:
    """Let the columns' sizes hold the row, and change the units of theta and h with them."""
    for j in range(row.shape[1]):
        x, i = abs(row[1, j]), int(row[0, j])
        if x > sizes[i]:
            if sizes[i] > 0.0:
                theta[i] *= x / sizes[i]
                h[i] *= (sizes[i] / x) ** 2
            sizes[i] = x


@compiled("void(f8[:,::1], f8, b1, f8[::1], f8[::1], f8[::1], f8[::1], f8)")
def learn_row(
    row: Array, reward: float, logistic: bool, theta: Array, h: Array, sizes: Array, sums: Array, variance: float
) -> None:
    """One observation into the model."""
    sums[ROWS] += 1.0
    sums[NONZEROS] += np.count_nonzero(row[1])
    grow(row, theta, h, sizes)
    k, mean, square = penalty(row, sums, variance), 0.0, 0.0
    for j in range(row.shape[1]):
        x, i = row[1, j], int(row[0, j])
        if x != 0.0:
            u = x / sizes[i]
            mean += theta[i] * u
            square += u * u / (h[i] + k)
    if logistic:
        gain = logistic_gain(mean, square, reward)
        p = sigmoid(mean + square * gain)
        weight = p * (1.0 - p)
    else:
        if sums[ROWS] == 1.0:
            sums[ORIGIN] = reward
        error = reward - sums[ORIGIN] - mean
        gain, weight = error / (1.0 + square), 1.0
        sums[ERRORS] += error * gain
    for j in range(row.shape[1]):
        x, i = row[1, j], int(row[0, j])
        if x != 0.0:
            u = x / sizes[i]
            theta[i] += gain * u / (h[i] + k)
            h[i] += weight * u * u


@dataclass(eq=False)
class Diagonal(Learner):
    """The model: for each column theta, the precision h and the largest size; and four sums over the rows."""

    size: int
    logistic: bool
    variance: float
    theta: Array = field(init=False)
    h: Array = field(init=False)
    sizes: Array = field(init=False)
    sums: Array = field(init=False)

    def __post_init__(self) -> None:
        self.theta, self.h, self.sizes, self._units = (np.zeros(self.size) for _ in range(4))
        self.sums = np.zeros(4)

    @property
    def origin(self) -> float:
        """What rewards are counted from."""
        return float(self.sums[ORIGIN])

    @property
    def noise(self) -> float:
        """The standard deviation of a linear reward, by its one-step errors; 1 as long as there was none."""
        errors, count = self.sums[ERRORS], self.sums[ROWS] - 1.0  # the first row's error is 0
        return math.sqrt(errors / count) if not self.logistic and errors > 0.0 else 1.0

    def beliefs(self, rows: Array, z: Array = NO_DRAW) -> tuple[Array, Array]:
        """The means and the standard deviations of rows, in logits or in rewards from the origin.

        With standard normals z, one for each entry, what a draw of the weights adds in place of the deviations.
        """
        means, deviations = np.empty(len(rows)), np.empty(len(rows))
        state = self.theta, self.h, self.sizes, self._units, self.sums
        believe(means, deviations, rows, z, *state, self.variance)
        return means, deviations * self.noise

    def learn(self, row: Array, reward: float) -> None:
        learn_row(row, reward, self.logistic, self.theta, self.h, self.sizes, self.sums, self.variance)
