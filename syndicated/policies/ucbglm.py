"""UCB-GLM: optimism about a generalised linear model, here the logistic one.

    theta = argmin Σ [log(1 + e^(x'theta)) - r x'theta] + (ridge/2) |theta|²;   V = lam I + Σ x x'
    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a)

The fit is exact at every round. The scores are in the model's linear space, as in the paper.

Li, Lu and Zhou, *Provably optimal algorithms for generalized linear contextual bandits*, ICML 2017.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from scipy.special import expit

from syndicated.errors import InputError
from syndicated.policies._kernels import dot, extend
from syndicated.policies._logistic import newton, refit_all
from syndicated.policies._ridge import RidgePolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class UCBGLM(RidgePolicy):
    """UCB-GLM with exploration rate `alpha` and penalty `lam`, for rewards in [0, 1].

    `ridge` says what `lam` means in the likelihood: itself ("lam"), or its inverse ("inverse"), which is what
    the paper's experiments ran (scikit-learn's C = lam); in V it is always itself.

    >>> policy = UCBGLM(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.predict(np.eye(2), {"lam": 1.0}).round(3).tolist()
    [0.599, 0.5]
    """

    ridge: Literal["lam", "inverse"] = "lam"
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)
    fits: Array = field(init=False, repr=False)
    gradients: Array = field(init=False, repr=False)
    inverses: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge not in ("lam", "inverse"):
            raise InputError(f"ridge must be 'lam' or 'inverse'; got {self.ridge!r}")
        self.X, self.y = np.zeros((0, self.size)), np.zeros(0)
        self.prepare([])

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.fits, self.gradients, self.inverses = self._fit(self.model.lams)

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        lams = [point["lam"] for point in points]
        return self.optimistic(arms, points, self.model.select(lams), self._thetas(lams))

    def predict(self, arms: Arms, params: Params) -> Array:
        row = self.model.select([params["lam"]]).of[0]
        return np.asarray(expit(dot(self.columns(arms), self._thetas([params["lam"]])[row])))

    def learn(self, x: Array, reward: float, params: Params) -> None:
        super().learn(x, reward, params)
        n = self.model.count
        if n > len(self.y):
            more = max(64, len(self.y))
            self.X = np.concatenate([self.X, np.zeros((more, self.size))])
            self.y = np.concatenate([self.y, np.zeros(more)])
        self.X[n - 1], self.y[n - 1] = extend(x, self.size), reward
        fit = self.fits, self.gradients, self.inverses
        refit_all(self.X[:n], self.y[:n], self._penalties(self.model.lams), *fit)

    def _penalties(self, lams: Array) -> Array:
        return lams if self.ridge == "lam" else 1.0 / lams

    def _thetas(self, lams: Sequence[float]) -> Array:
        """The fits, in the order of the rows that `self.model.select(lams)` names."""
        kept = set(lams) <= set(self.model.lams.tolist())
        return self.fits if kept else self._fit(np.array(lams))[0]

    def _fit(self, lams: Array) -> tuple[Array, Array, Array]:
        """Theta, gradient and inverse Hessian for each penalty, from all the data."""
        n, m, d = self.model.count, len(lams), self.size
        fits, gradients, inverses = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d, d))
        for row, ridge in enumerate(self._penalties(lams)):
            newton(self.X[:n], self.y[:n], ridge, fits[row], gradients[row], inverses[row])
        return fits, gradients, inverses
