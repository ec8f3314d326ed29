"""UCB-GLM: optimism about a generalised linear model, here the logistic one.

    theta = argmin Σ [log(1 + e^(x'theta)) - r x'theta] + (ridge/2) |theta|²;   V = lam I + Σ x x'
    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a)

The fit is exact at every round. The scores are in the model's linear space, as in the paper.

Li, Lu and Zhou, *Provably optimal algorithms for generalized linear contextual bandits*, ICML 2017.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from syndicated.errors import InputError
from syndicated.policies._kernels import dot, extend
from syndicated.policies._logistic import newton, refit_all, sigmoid
from syndicated.policies._ridge import Prior, RidgePolicy, Rows
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


@dataclass(kw_only=True, eq=False)
class UCBGLM(RidgePolicy):
    """UCB-GLM with exploration rate `alpha` and penalty `lam`, for rewards in [0, 1].

    `ridge` says what `lam` means in the likelihood: itself ("lam"), or its inverse ("inverse"), which is what
    the paper's experiments ran (scikit-learn's C = lam); in V it is always itself. `boldness` is in units of the
    rewards' noise, as if the linear space of the scores were that of the rewards: not a standard error.

    >>> policy = UCBGLM(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.predict(np.eye(2), {"lam": 1.0}).round(3).tolist()
    [0.599, 0.5]
    """

    ridge: Literal["lam", "inverse"] = "lam"
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12), "lam": (1e-12, 1e12)}
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    growing: ClassVar[tuple[str, ...]] = ("X", "y")
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)
    fits: Array = field(init=False, repr=False)
    gradients: Array = field(init=False, repr=False)
    inverses: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.ridge not in ("lam", "inverse"):
            raise InputError(f"ridge must be 'lam' or 'inverse'; got {self.ridge!r}")
        super().__post_init__()

    def theory(self, t: int, given: Params) -> dict[str, float]:
        if "boldness" in given:
            lam = given.get("lam", 1.0)
            row = self.model.likeliest({"lam": lam})
            return {"alpha": given["boldness"] * self.model.noise(row), "lam": lam}
        params = super().theory(t, given)
        return {"alpha": params["alpha"], "lam": params["lam"]}

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self.X, self.y = np.zeros((0, self.size)), np.zeros(0)
        self.fits, self.gradients, self.inverses = self._fit(self._lams)

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return self.optimistic(arms, points, self.rows(points), self._thetas(points))

    def predict(self, arms: Arms, params: Params) -> Array:
        return np.asarray(expit(dot(self.columns(arms), self._thetas([params])[self.rows([params]).of[0]])))

    def expected(self, score: float) -> float:
        return sigmoid(score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        super().learn(x, reward, params)
        n = self.model.count
        if n > len(self.y):
            more = max(64, len(self.y))
            self.X = np.concatenate([self.X, np.zeros((more, self.size))])
            self.y = np.concatenate([self.y, np.zeros(more)])
        self.X[n - 1], self.y[n - 1] = extend(x, self.size), reward
        fit = self.fits, self.gradients, self.inverses
        refit_all(self.X[:n], self.y[:n], self._penalties(self._lams), *fit)

    def misfit(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        wrong = super().misfit(arrays)
        if wrong is None and not len(arrays["X"]) == len(arrays["y"]) >= arrays["model.count"].item():
            return "y"
        return wrong

    def rows(self, points: Sequence[Params]) -> Rows:
        return self.model.select([Prior(point["lam"], self.intercept) for point in points])

    @property
    def _lams(self) -> Array:
        return np.array([prior.lam for prior in self.model.priors])

    def _priors(self, point: Params) -> list[Prior]:
        return [Prior(point.get("lam", 1.0), self.intercept)]

    def _penalties(self, lams: Array) -> Array:
        return lams if self.ridge == "lam" else 1.0 / lams

    def _thetas(self, points: Sequence[Params]) -> Array:
        """The fits, in the order of the rows that `self.rows(points)` names."""
        lams = [point["lam"] for point in points]
        kept = set(lams) <= {prior.lam for prior in self.model.priors}
        return self.fits if kept else self._fit(np.array(lams))[0]

    def _fit(self, lams: Array) -> tuple[Array, Array, Array]:
        """Theta, gradient and inverse Hessian for each penalty, from all the data."""
        n, m, d = self.model.count, len(lams), self.size
        fits, gradients, inverses = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d, d))
        for row, ridge in enumerate(self._penalties(lams)):
            newton(self.X[:n], self.y[:n], ridge, fits[row], gradients[row], inverses[row])
        return fits, gradients, inverses
