"""The floor: the plain compiled arithmetic of one round of LinUCB, with nothing around it.

Scores of K arms under one penalty and the best of them; then one observation into b and, by rank-one updates, into the
inverse and the theta of every penalty. Written as one would at first, compiled with the same options as the package.
"""

import math
from collections.abc import Sequence

import numpy as np

from syndicated._compiled import compiled
from syndicated.types import Array

Rounds = Sequence[tuple[Array, list[float]]]


@compiled("i8(f8[:,::1], f8[:,:,::1], f8[:,::1], i8, f8)")
def choose(X: Array, inverses: Array, thetas: Array, row: int, alpha: float) -> int:
    """argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a)."""
    best, highest = 0, -math.inf
    for a in range(len(X)):
        mean, square = 0.0, 0.0
        for i in range(X.shape[1]):
            mean += X[a, i] * thetas[row, i]
            product = 0.0
            for j in range(X.shape[1]):
                product += inverses[row, i, j] * X[a, j]
            square += X[a, i] * product
        score = mean + alpha * math.sqrt(square)
        if score > highest:
            best, highest = a, score
    return best


@compiled("i8(f8[:,::1], f8[:,::1], f8[::1], f8, f8[::1], f8[::1])")
def choose_by_columns(X: Array, inverse: Array, theta: Array, alpha: float, means: Array, squares: Array) -> int:
    """The same for features stored (d, K): the inner loops run over arms that lie side by side."""
    means[:], squares[:] = 0.0, 0.0
    for i in range(len(theta)):
        for a in range(X.shape[1]):
            means[a] += theta[i] * X[i, a]
        for j in range(i + 1):
            weight = inverse[i, j] * (1.0 if i == j else 2.0)
            for a in range(X.shape[1]):
                squares[a] += weight * X[i, a] * X[j, a]
    best, highest = 0, -math.inf
    for a in range(X.shape[1]):
        score = means[a] + alpha * math.sqrt(squares[a])
        if score > highest:
            best, highest = a, score
    return best


@compiled("void(f8[:,:,::1], f8[::1], f8[:,::1], f8[:,::1], i8, f8)")
def learn(inverses: Array, b: Array, thetas: Array, X: Array, arm: int, reward: float) -> None:
    """V⁻¹ -= u u' / (1 + x'u) with u = V⁻¹ x, b += r x, theta = V⁻¹ b."""
    x, d = X[arm], len(b)
    u = np.empty(d)
    for i in range(d):
        b[i] += reward * x[i]
    for row in range(len(inverses)):
        scale = 1.0
        for i in range(d):
            product = 0.0
            for j in range(d):
                product += inverses[row, i, j] * x[j]
            u[i] = product
            scale += product * x[i]
        for i in range(d):
            for j in range(d):
                inverses[row, i, j] -= u[i] * u[j] / scale
        for i in range(d):
            product = 0.0
            for j in range(d):
                product += inverses[row, i, j] * b[j]
            thetas[row, i] = product


class Floor:
    """What a round needs, and the loop over rounds: two compiled calls in each."""

    def __init__(self, dim: int, lams: Sequence[float]) -> None:
        self.row = len(lams) // 2
        self.inverses = np.stack([np.eye(dim) / lam for lam in lams])
        self.b, self.thetas = np.zeros(dim), np.zeros((len(lams), dim))

    def play(self, rounds: Rounds) -> None:
        inverses, b, thetas, row = self.inverses, self.b, self.thetas, self.row
        for X, rewards in rounds:
            arm = choose(X, inverses, thetas, row, 0.1)
            learn(inverses, b, thetas, X, arm, rewards[arm])


class ColumnFloor(Floor):
    """The floor for features stored (d, K)."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, [1.0])

    def play(self, rounds: Rounds) -> None:
        inverses, b, thetas = self.inverses, self.b, self.thetas
        means, squares = np.empty((2, rounds[0][0].shape[1]))
        for X, rewards in rounds:
            arm = choose_by_columns(X, inverses[0], thetas[0], 0.1, means, squares)
            learn(inverses, b, thetas, np.ascontiguousarray(X[:, arm])[None], 0, rewards[arm])
