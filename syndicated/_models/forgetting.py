"""Ridge regression that forgets: by a discount of every round, or by a window of the last ones.

    V = lam I + Σ w_s x x',   W = lam I + Σ w_s² x x',   b = Σ w_s x r

with w_s = gamma^age, or 1 within the window and 0 before. The penalty is added when V is asked for, so it does not fade
and every lam has the same sums.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from syndicated._learner import Learner
from syndicated._models.kernels import extend
from syndicated.errors import InputError
from syndicated.types import Array

REFRESH_ROUNDS = 1000  # observations after which the sums of windows are computed anew, against rounding


class Solution(NamedTuple):
    """theta = V⁻¹ b, and V⁻¹ W V⁻¹, whose root along x is the width."""

    theta: Array
    widths: Array


@dataclass(eq=False)
class Discounted(Learner):
    """Sums with a discount gamma for every round."""

    size: int
    gammas: Sequence[float]
    G: Array = field(init=False)
    H: Array = field(init=False)
    b: Array = field(init=False)
    tallies: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        m = len(self.gammas)
        self.G, self.H = np.zeros((m, self.size, self.size)), np.zeros((m, self.size, self.size))
        self.b, self.tallies = np.zeros((m, self.size)), np.zeros((m, 2))

    def sums(self, gamma: float) -> tuple[Array, Array, Array]:
        """Σ w x x', Σ w² x x' and Σ w x r."""
        if gamma not in self.gammas:
            raise InputError(f"a gamma must be kept from the first round on, as {list(self.gammas)}; got {gamma}")
        row = self.gammas.index(gamma)
        return self.G[row], self.H[row], self.b[row]

    def noise(self, gamma: float) -> float:
        """The noise by the one-step errors of the nearest gamma that is kept."""
        return _noise(self.tallies[_nearest(self.gammas, gamma)])

    def rescale(self, factors: Array) -> None:
        """Bring what is kept into new units, in which each column is so many times what it was."""
        both = np.outer(factors, factors)
        self.G, self.H, self.b = self.G * both, self.H * both, self.b * factors

    def learn(self, x: Array, reward: float) -> None:
        x = extend(x, self.size)
        for row, gamma in enumerate(self.gammas):
            self.tallies[row] = gamma * self.tallies[row] + _error(*self.sums(gamma), x, reward)
        gammas = np.array(self.gammas)[:, None]
        self.G = gammas[:, :, None] * self.G + np.outer(x, x)
        self.H = gammas[:, :, None] ** 2 * self.H + np.outer(x, x)
        self.b = gammas * self.b + reward * x
        self.count += 1


@dataclass(eq=False)
class Windowed(Learner):
    """Sums over the last `window` observations; the rows of the longest window are kept."""

    size: int
    windows: Sequence[int]
    X: Array = field(init=False)
    y: Array = field(init=False)
    G: Array = field(init=False)
    b: Array = field(init=False)
    tallies: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        longest, m = max(self.windows), len(self.windows)
        self.X, self.y = np.zeros((longest, self.size)), np.zeros(longest)
        self.G, self.b, self.tallies = np.zeros((m, self.size, self.size)), np.zeros((m, self.size)), np.zeros((m, 2))

    def sums(self, window: float) -> tuple[Array, Array, Array]:
        """Σ x x', twice, and Σ x r of the last ones."""
        if window in self.windows:
            row = self.windows.index(int(window))
            return self.G[row], self.G[row], self.b[row]
        if window > len(self.y) < self.count:
            raise InputError(f"a window must be at most {len(self.y)}, the longest that was prepared; got {window:g}")
        return self._sums(int(window))

    def noise(self, window: float) -> float:
        """The noise by the one-step errors of the nearest window that is kept."""
        return _noise(self.tallies[_nearest(self.windows, window)])

    def rescale(self, factors: Array) -> None:
        """Bring what is kept into new units, in which each column is so many times what it was."""
        self.X, self.G, self.b = self.X * factors, self.G * np.outer(factors, factors), self.b * factors

    def learn(self, x: Array, reward: float) -> None:
        x, longest = extend(x, self.size), len(self.y)
        for row, window in enumerate(self.windows):
            error = _error(self.G[row], self.G[row], self.b[row], x, reward)
            self.tallies[row] = (1 - 1 / window) * self.tallies[row] + error
            if self.count >= window:
                old = (self.count - window) % longest
                self.G[row] -= np.outer(self.X[old], self.X[old])
                self.b[row] -= self.y[old] * self.X[old]
            self.G[row] += np.outer(x, x)
            self.b[row] += reward * x
        self.X[self.count % longest], self.y[self.count % longest] = x, reward
        self.count += 1
        if self.count % REFRESH_ROUNDS == 0:
            for row, window in enumerate(self.windows):
                self.G[row], _, self.b[row] = self._sums(window)

    def _sums(self, window: int) -> tuple[Array, Array, Array]:
        rows = np.arange(max(0, self.count - window), self.count) % len(self.y)
        X, y = self.X[rows], self.y[rows]
        return X.T @ X, X.T @ X, y @ X


def solve(sums: tuple[Array, Array, Array], lam: float) -> Solution:
    """The solution with this penalty."""
    G, H, b = sums
    penalty = lam * np.eye(len(b))
    inverse = np.linalg.inv(G + penalty)
    widths = inverse @ (H + penalty) @ inverse
    return Solution(np.ascontiguousarray(inverse @ b), np.ascontiguousarray((widths + widths.T) / 2))


def _error(G: Array, H: Array, b: Array, x: Array, reward: float) -> Array:
    """The squared error of a prediction with penalty 1, in units of what its uncertainty explains; and 1."""
    V = G + np.eye(len(b))
    error, square = reward - float(x @ np.linalg.solve(V, b)), float(x @ np.linalg.solve(V, x))
    return np.array([error**2 / (1 + square), 1.0])


def _nearest(values: Sequence[float], value: float) -> int:
    return min(range(len(values)), key=lambda row: abs(values[row] - value))


def _noise(tally: Array) -> float:
    return math.sqrt(tally[0] / tally[1]) if tally[0] > 0 else 1.0
