"""UCB-GLM: optimism about a generalised linear model.

    theta = argmin Σ [b(x'theta) - r x'theta] + (ridge/2) |theta|²;   V = lam I + Σ x x'
    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a)

The fit is exact at every round, which costs O(t d²): `ArmUCB` is logistic at a cost that does not grow. The scores are
in the model's linear space, as in the paper. Needs the link. The paper begins with random rounds, and lam is 0; here
the penalty takes their place. Its alpha is (sigma/kappa) sqrt((d/2) log(1 + 2 T/d) + log(1/delta)), kappa the least
slope of mu, and its regret then O~((d/kappa) sqrt(T)). Our theoretical alpha is LinUCB's alpha(t), without 1/kappa, as
in the experiments of Ding et al. (2022): an `alpha_multiple` of 1/kappa is at least the paper's alpha, and far more
than what does best.

Li, Lu and Zhou, *Provably optimal algorithms for generalized linear contextual bandits*, ICML 2017.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from syndicated._models.glm import LINKS, REWARDS, check_link, mean_of, means_of, newton, refit_all
from syndicated._models.kernels import dot
from syndicated._models.ridge import Prior, Ridge, Solutions
from syndicated._models.units import MAX_UNIT_GROWTH
from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Ints, Params

MIN_RANGE = 0.01  # of a column, in its unit: a smaller one counts as this


@dataclass(kw_only=True, eq=False)
class UCBGLM(ScaledPolicy, RidgePolicy):
    """UCB-GLM with exploration rate `alpha` and penalty `lam`.

    `link` is logistic or probit for rewards from 0 to 1, poisson for counts, or identity for any.

    `ridge` says what `lam` means in the likelihood: itself ("lam"), or its inverse ("inverse"), which is what
    the paper's experiments ran (scikit-learn's C = lam); in V it is always itself. `boldness` is in units of the
    rewards' noise, as if the linear space of the scores were that of the rewards: not a standard error. With it, the
    likelihood also decides on the intercept of a policy that has one: of the fits with and without it plays the one
    under which the rewards seen lately were likelier, each predicted from those before it. A `lam`
    that is not given either is 1 in the features' own units: their size with an intercept, and their range without.
    For through the origin, the features have to tell the level of rewards too. A column that is far from 0 for what it
    varies, such as the first of factors or principal components, tells it best in units of its range: there it is
    large, and needs only a small slope. In neither unit does it matter what a column is measured in.

    >>> policy = UCBGLM(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.predict(np.eye(2), {"lam": 1.0}).round(3).tolist()
    [0.599, 0.5]
    """

    ridge: Literal["lam", "inverse"] = "lam"
    link: str = "logistic"
    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-12, 1e12),
        "intercept": (0.0, 1.0),
    }
    _feature_units: ClassVar[tuple[str, ...]] = ("alpha", "alpha_multiple", "lam")
    _scaled: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ()
    growing: ClassVar[tuple[str, ...]] = ("X", "y")
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)
    fits: Array = field(init=False, repr=False)
    gradients: Array = field(init=False, repr=False)
    inverses: Array = field(init=False, repr=False)
    likelihoods: Array = field(init=False, repr=False)
    weights: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.ridge not in ("lam", "inverse"):
            raise InputError(f"ridge must be 'lam' or 'inverse'; got {shorten(self.ridge)}")
        check_link(self.link)
        super().__post_init__()

    @property
    def rewards(self) -> tuple[float, float]:  # type: ignore[override]
        return REWARDS[LINKS[self.link]]

    def theory(self, t: int, given: Params) -> dict[str, float]:
        params = super().theory(t, given)
        return params if "boldness" in given else {name: params[name] for name in self.hyper}

    @property
    def _kept(self) -> Ridge:
        """The model, with the priors that are kept."""
        assert isinstance(self.model, Ridge)
        return self.model

    @property
    def chosen(self) -> dict[str, str]:
        if not self.model.count or not self._weighs_intercept:
            return {}
        row = self._likeliest({})
        with_it, without = (
            "an intercept, as rewards were likelier with it",
            "no intercept, as rewards were likelier without",
        )
        intercept = with_it if self._kept.priors[row].intercept else without
        return {"intercept": intercept, "noise": f"noise {self._kept.noise(row):.2g}"}

    def estimate(self, given: Params) -> dict[str, float]:
        key = tuple(given.items())
        if key not in self._estimates:
            row = self._likeliest({"lam": 1.0, **given})
            prior, alpha = self._kept.priors[row], given["boldness"] * self._kept.noise(row)
            self._estimates[key] = {"alpha": alpha, "lam": prior.lam, "intercept": prior.intercept}
        return self._estimates[key].copy()

    def _likeliest(self, given: Params) -> int:
        """The row of the prior with these values under which rewards were likeliest, with an intercept of equals."""
        return max(reversed(self._kept.like(given)), key=self.likelihoods.__getitem__)

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        super().prepare(points, catalogue)
        self._weighs_intercept = any(len(self._priors(point)) > 1 for point in points)
        self.X, self.y, self.weights = np.zeros((0, self.size)), np.zeros(0), np.ones(self.size)
        self.likelihoods = np.zeros(len(self._kept.priors))
        self._forget_estimates()
        self.fits, self.gradients, self.inverses = self._fit(self._kept.priors)

    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        super().update_catalogue(catalogue, changed)
        self._last = None
        self._kept.put(np.arange(len(catalogue)), self.catalogue)

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        solutions, alphas = self._lookup(points)
        if arms.ndim == 2:
            self._kept.unit = self.units.seen_with(arms)
        return self._optimistic(arms, alphas, solutions, self._fits(solutions, points), rng)

    def predict(self, arms: Arms, params: Params) -> Array:
        found = self._solutions([params])
        return means_of(LINKS[self.link], dot(self.columns(arms), self._fits(found, [params])[found.rows[0]]))

    def expected(self, score: float) -> float:
        return mean_of(LINKS[self.link], score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        due, row = self.units.due, self._row(x)
        super().learn(row, reward, params)
        self._estimates.clear()
        n = self.model.count
        if n > len(self.y):
            more = max(64, len(self.y))
            self.X = np.concatenate([self.X, np.zeros((more, self.size))])
            self.y = np.concatenate([self.y, np.zeros(more)])
        self.X[n - 1], self.y[n - 1] = row, reward
        fits = self.fits, self.gradients, self.inverses
        data = LINKS[self.link], self.X[:n], self.y[:n]
        refit_all(*data, *self._kept_penalties, *fits, self.likelihoods)
        if self.units.due != due:
            self._weigh()

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state from before a model through the origin counted columns in units of their range goes on as it was."""
        return {"weights": np.ones(self.size), **super().upgraded(arrays)}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self.model.catalogue, self._kept.origin_weights = self.catalogue, self.weights
        self._forget_estimates()

    def _rescale(self, factors: Array) -> None:
        self.X, self.model.catalogue, self.weights = self.X * factors, self.catalogue, self.weights * factors**2
        self._rebuild(factors)

    def _weigh(self) -> None:
        """When units are looked at: bring the columns' ranges up to date, if one is off by much."""
        span = np.ptp(self.X[: self.model.count], axis=0)
        usual = np.where(span > 0.0, np.maximum(span, MIN_RANGE), 1.0) ** 2
        if np.max(np.maximum(usual / self.weights, self.weights / usual)) > MAX_UNIT_GROWTH**2:
            self.weights = usual
            self._rebuild(np.ones(self.size))

    def _rebuild(self, factors: Array) -> None:
        """All that depends on units and weights, from the data."""
        self._kept.rescale(factors, self.weights)
        self._forget_estimates()
        self.fits, self.gradients, self.inverses = self._fit(self._kept.priors)

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        wrong = super().invalid_array(arrays)
        if wrong is None and not len(arrays["X"]) == len(arrays["y"]) >= arrays["model.count"].item():
            return "y"
        return "weights" if wrong is None and not arrays["weights"].astype(np.float64).min() > 0.0 else wrong

    def _priors(self, point: Params) -> list[Prior]:
        own = (0.0, 1.0) if self.intercept and "boldness" in point else (float(self.intercept),)
        intercepts = (point["intercept"],) if "intercept" in point else own
        return [Prior(point.get("lam", 1.0), intercept) for intercept in intercepts]

    def _forget_estimates(self) -> None:
        """What is at hand until units, weights or priors are others, and until something is learned."""
        self._kept_penalties = self._penalties(self._kept.priors)
        self._estimates: dict[tuple[tuple[str, float], ...], dict[str, float]] = {}

    def _penalties(self, priors: Sequence[Prior]) -> tuple[Array, Ints]:
        """The ridge of each entry of theta for each prior, and how many entries its fit has."""
        ridges = np.empty((len(priors), self.size))
        for row, prior in zip(ridges, priors, strict=True):
            row[:] = (prior.lam if self.ridge == "lam" else 1.0 / prior.lam) * self._kept.weights(prior)
        return ridges, np.array([self.dim + prior.intercept for prior in priors], dtype=np.int64)

    def _fits(self, solutions: Solutions, points: Sequence[Params]) -> Array:
        """The fits for these points, in the order of the solutions."""
        if solutions.stack is self.model.stack:
            return self.fits
        own = float(self.intercept)
        return self._fit([Prior(point["lam"], point.get("intercept", own)) for point in points])[0]

    def _fit(self, priors: Sequence[Prior]) -> tuple[Array, Array, Array]:
        """Theta, gradient and inverse Hessian for each prior, from all the data."""
        n, m, d = self.model.count, len(priors), self.size
        fits, gradients, inverses = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d, d))
        for row, (ridge, free) in enumerate(zip(*self._penalties(priors), strict=True)):
            newton(LINKS[self.link], self.X[:n], self.y[:n], ridge, free, fits[row], gradients[row], inverses[row])
        return fits, gradients, inverses
