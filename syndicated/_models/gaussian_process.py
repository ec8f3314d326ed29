"""Gaussian process regression on the last observations, with the kernel exp(-|x - x'|²/(2 l²))."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from syndicated._learner import Learner
from syndicated._models.kernels import extend
from syndicated.types import Array


class Posterior(NamedTuple):
    """C with C C' = K + lam I, (K + lam I)⁻¹ (y - level), the level, and what the kernel was."""

    factor: Array
    weights: Array
    level: float
    lam: float
    lengthscale: float

    @property
    def information(self) -> float:
        """½ log det(I + K/lam)."""
        return float(np.log(np.diag(self.factor)).sum() - len(self.factor) / 2 * math.log(self.lam))


@dataclass(eq=False)
class GaussianProcess(Learner):
    """The last `cap` observations, and the posterior that they give. Rewards are counted from their mean."""

    size: int
    cap: int
    X: Array = field(init=False)
    y: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.X, self.y = np.zeros((self.cap, self.size)), np.zeros(self.cap)

    @property
    def kept(self) -> tuple[Array, Array]:
        n = min(self.count, self.cap)
        return self.X[:n], self.y[:n]

    def rescale(self, factors: Array) -> None:
        """Bring what is kept into new units, in which each column is so many times what it was."""
        self.X = self.X * factors

    def learn(self, x: Array, reward: float) -> None:
        place = self.count % self.cap
        self.X[place], self.y[place] = extend(x, self.size), reward
        self.count += 1

    def spread(self) -> float:
        """The usual distance of two rows; 1 as long as there are not two."""
        X, _ = self.kept
        distance = math.sqrt(2 * float(X.var(axis=0).sum())) if len(X) else 0.0
        return distance if distance > 0 else 1.0

    def posterior(self, lam: float, lengthscale: float) -> Posterior:
        X, y = self.kept
        level = float(y.mean()) if len(y) else 0.0
        factor = np.asarray(np.linalg.cholesky(kernel(X, X, lengthscale) + lam * np.eye(len(X))), dtype=np.float64)
        weights = _solve(factor, _solve(factor, y - level), transposed=True)
        return Posterior(factor, weights, level, lam, lengthscale)

    def amplitude(self, posterior: Posterior) -> float:
        """The kernel's amplitude under which the rewards are likeliest; 1 as long as they are all alike."""
        _, y = self.kept
        square = float((y - posterior.level) @ posterior.weights) / max(len(y), 1)
        return math.sqrt(square) if square > 0 else 1.0

    def beliefs(self, rows: Array, posterior: Posterior) -> tuple[Array, Array]:
        """The means of rows, from the level, and u with covariance k(x, x') - u'u."""
        X, _ = self.kept
        across = kernel(X, rows, posterior.lengthscale)
        return posterior.weights @ across, _solve(posterior.factor, across)


def kernel(X: Array, Z: Array, lengthscale: float) -> Array:
    """exp(-|x - z|²/(2 l²)) of all pairs."""
    from scipy.spatial.distance import cdist

    with np.errstate(over="ignore", invalid="ignore"):  # features that are not finite are the agent's to refuse
        squares = cdist(X, Z, "sqeuclidean")
        return np.asarray(np.exp(-squares / (2 * lengthscale**2)))


def _solve(factor: Array, right: Array, transposed: bool = False) -> Array:
    """C⁻¹ right, or C'⁻¹ right, for a C that is lower triangular."""
    from scipy.linalg import solve_triangular

    found = (
        solve_triangular(factor, right, trans=int(transposed), lower=True, check_finite=False) if right.size else right
    )
    return np.asarray(found, dtype=np.float64)
