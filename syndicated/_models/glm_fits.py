"""Fits of a generalised linear model under several penalties, from all the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._learner import Learner
from syndicated._models.glm import hessian, means_of, newton
from syndicated._models.kernels import extend
from syndicated.types import Array


@dataclass(eq=False)
class GLMFits(Learner):
    """The data, and for each kept penalty the theta that fits them best."""

    size: int
    link: int
    growing: ClassVar[tuple[str, ...]] = ("X", "y")
    X: Array = field(init=False)
    y: Array = field(init=False)
    thetas: Array = field(init=False)
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.X, self.y = np.zeros((0, self.size)), np.zeros(0)
        self.keep([])

    def keep(self, lams: Sequence[float]) -> None:
        """Before the first observation: hold a fit for each of these penalties."""
        self._rows = {lam: row for row, lam in enumerate(sorted(set(lams)))}
        self.thetas = np.zeros((len(self._rows), self.size))

    @property
    def seen(self) -> Array:
        """(n, size): the features that were learned."""
        return self.X[: self.count]

    def learn(self, x: Array, reward: float) -> None:
        if self.count == len(self.y):
            more = max(64, len(self.y))
            self.X = np.concatenate([self.X, np.zeros((more, self.size))])
            self.y = np.concatenate([self.y, np.zeros(more)])
        self.X[self.count], self.y[self.count] = extend(x, self.size), reward
        self.count += 1
        for lam, row in self._rows.items():
            self._fit(self.thetas[row], lam)

    def rescale(self, factors: Array) -> None:
        """Multiply every column of the data, and divide the fits, which the next one starts from."""
        self.X, self.thetas = self.X * factors, self.thetas / factors

    def theta(self, lam: float) -> Array:
        """The fit under this penalty, kept or computed."""
        if lam in self._rows:
            kept: Array = self.thetas[self._rows[lam]]
            return kept
        theta = np.zeros(self.size)
        self._fit(theta, lam)
        return theta

    def information(self, lam: float) -> Array:
        """lam I + Σ mu'(x'theta) x x': the Hessian at the fit."""
        return hessian(self.link, self.seen, np.full(self.size, lam), self.theta(lam), self.size)

    def error(self, lam: float) -> float:
        """The root mean square of what the fit leaves unexplained; 0.5 as long as there is nothing to explain."""
        left = self.y[: self.count] - means_of(self.link, self.seen @ self.theta(lam))
        return max(float(np.sqrt(np.mean(left**2))), 1e-12) if self.count else 0.5

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        wrong = super().invalid_array(arrays)
        return "y" if wrong is None and not len(arrays["X"]) == len(arrays["y"]) >= arrays["count"].item() else wrong

    def _fit(self, theta: Array, lam: float) -> None:
        rest = np.zeros(self.size), np.zeros((self.size, self.size))
        newton(self.link, self.seen, self.y[: self.count], np.full(self.size, lam), self.size, theta, *rest)
