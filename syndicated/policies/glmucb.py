"""GLM-UCB: optimism about a generalised linear model, in the space of rewards.

    theta^ = argmin Σ [b(x'theta) - r x'theta] + (lam/2) |theta|²;   M = lam I + Σ x x'
    theta~ = theta^ if |theta^| <= radius, else argmin_{|theta| <= radius} |g(theta) - g(theta^)|_M⁻¹
    play argmax_a mu(x_a' theta~) + alpha sqrt(x_a' M⁻¹ x_a),   g(theta) = Σ mu(x'theta) x + lam theta

Needs the link; for its bound, O~((k_mu/c_mu) d sqrt(T)), also S and the horizon. A round costs O(t d²). UCB-GLM has its
bonus inside mu: there an arm whose mean is near 1 gets next to none, here it gets the whole; the same alpha does not
mean the same. The theoretical alpha is far larger than what does best.

Filippi, Cappé, Garivier and Szepesvári, *Parametric bandits: the generalized linear case*, NeurIPS 2010. There
the first d rounds play independent arms and lam is 0; here a penalty takes their place.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from syndicated._models.glm import hessian, means_of
from syndicated._models.kernels import dot, squares
from syndicated._validation import check_number
from syndicated.policies._glm_policy import GLMPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params

PROJECTION_STEPS = 200


@dataclass(kw_only=True, eq=False)
class GLMUCB(GLMPolicy):
    """GLM-UCB with exploration rate `alpha` and penalty `lam`.

    `boldness` c stands for alpha = c s sqrt(log(n + e)) after n rewards, with s the root mean squared error of the fit:
    the shape of the theoretical alpha in units of the data. `radius` bounds |theta|; by default nothing does.

    >>> policy = GLMUCB(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.scores(np.eye(2), [{"alpha": 1.0, "lam": 1.0}], Stream(0, 0)).round(3).tolist()
    [[1.306, 1.5]]
    """

    radius: float | None = None
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha",)}
    _feature_units: ClassVar[tuple[str, ...]] = ("alpha", "lam")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius is not None:
            check_number("radius", self.radius, low=1e-12, high=1e12)

    @property
    def space(self) -> Space:
        return Space(boldness=[0.25, 0.5, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        """alpha = (2 k_mu kappa R/c_mu) sqrt(2 d log(t) log(2 d T/delta)), kappa² = 3 + 2 log(1 + 2 L²/lam).

        Here t counts from 1, so that it is t + 1 of what is given, and the first round has the second's, since log(1)
        is 0. lam stands for the least eigenvalue of the paper's first rounds. R, the largest reward, is 1, also for
        links whose rewards have none.
        """
        params = {"lam": 1.0, **given}
        if "boldness" in params:
            size = self.model.error(params["lam"]) * math.sqrt(math.log(self.model.count + math.e))
            params["alpha"] = params.pop("boldness") * size
        elif "alpha" not in params:
            low, high = self._slopes()
            largest = min(self.rewards[1], 1.0)
            kappa = math.sqrt(3 + 2 * math.log(1 + 2 * self.L**2 / params["lam"]))
            logs = math.log(max(t, 1) + 1) * math.log(2 * self.size * self.horizon / self.delta)
            params["alpha"] = 2 * high * kappa * largest / low * math.sqrt(2 * self.size * logs)
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return "alpha" in given or "boldness" in given

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns = self.columns(arms)
        parts = {point["lam"]: self._parts(columns, point["lam"]) for point in points}
        return np.stack([parts[point["lam"]][0] + point["alpha"] * parts[point["lam"]][1] for point in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        return means_of(self.model.link, dot(self.columns(arms), self._theta(params["lam"])))

    def expected(self, score: float) -> float:
        return score

    def _parts(self, columns: Array, lam: float) -> tuple[Array, Array]:
        """mu(x'theta~) and sqrt(x'M⁻¹x) of every arm."""
        means = means_of(self.model.link, dot(columns, self._theta(lam)))
        inverse = np.ascontiguousarray(np.linalg.inv(self._design(lam)))
        return means, np.sqrt(np.maximum(squares(columns, inverse), 0.0))

    def _design(self, lam: float) -> Array:
        seen = self.model.seen
        return np.asarray(lam * np.eye(self.size) + seen.T @ seen)

    def _theta(self, lam: float) -> Array:
        """theta~: the fit, or the point within the radius whose means are nearest to the fit's."""
        theta = self.model.theta(lam)
        if self.radius is None or np.linalg.norm(theta) <= self.radius:
            return theta
        return self._nearest(theta, lam, self.radius)

    def _nearest(self, fit: Array, lam: float, radius: float) -> Array:
        """Projected gradient steps on |g(theta) - g(fit)|² in the norm of M⁻¹, halved where they would not descend."""
        X, link, M, ridge = self.model.seen, self.model.link, self._design(lam), np.full(self.size, lam)

        def gap(theta: Array) -> tuple[float, Array]:
            change = (means_of(link, X @ theta) - means_of(link, X @ fit)) @ X + lam * (theta - fit)
            solved = np.asarray(np.linalg.solve(M, change), dtype=np.float64)
            return float(change @ solved), solved

        theta, step = radius / np.linalg.norm(fit) * fit, 1.0
        value, solved = gap(theta)
        for _ in range(PROJECTION_STEPS):
            moved = theta - step * hessian(link, X, ridge, theta, self.size) @ solved
            moved *= min(1.0, radius / float(np.linalg.norm(moved)))
            lower, then = gap(moved)
            if lower < value:
                theta, value, solved = moved, lower, then
            else:
                step /= 2
        return np.ascontiguousarray(theta)
