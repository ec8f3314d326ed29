"""RegCB, optimistic: an arm is worth what the most favourable of the good regressors predicts for it.

    play argmax_a max { x_a'theta : loss(theta) <= min loss + beta },   loss(theta) = Σ (r - x'theta)² + lam |theta|²

For a linear regressor the inner maximum is known, x_a'theta^ + sqrt(beta x_a' V⁻¹ x_a): so here RegCB is LinUCB with
alpha = sqrt(beta), and the search over importance weights that other regressors need is not. It is here under the name
and with the hyper-parameter that users of Vowpal Wabbit know (`mellowness` is beta's factor there). It needs what
LinUCB needs, costs what it costs, O(K d²), and has its bound.

Foster, Agarwal, Dudík, Luo and Schapire, *Practical contextual bandits with regression oracles*, ICML 2018.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.scaled_ridge import TRIALS
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class RegCB(RidgePolicy):
    """RegCB-optimistic with the excess loss `beta` that a good regressor may have, and ridge penalty `lam`.

    `boldness` c stands for beta = (c s)², with s the noise that the model's errors show; in theory beta = alpha(t)².

    >>> policy = RegCB(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.scores(np.eye(2), [{"beta": 0.5, "lam": 1.0}], Stream(0, 0)).round(3).tolist()
    [[1.0, 0.707]]
    """

    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "beta": (0.0, 1e24),
        "lam": (1e-12, 1e12),
        "intercept": (0.0, 1.0),
        "memory": (0.01, 1.0),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("beta",)}
    exploring: ClassVar[tuple[str, ...]] = ("beta",)
    parts: ClassVar[tuple[str, ...]] = (*RidgePolicy.parts, TRIALS)

    def theory(self, t: int, given: Params) -> dict[str, float]:
        radius = {"alpha": math.sqrt(given["beta"])} if "beta" in given else {}
        params = super().theory(t, {**{n: v for n, v in given.items() if n != "beta"}, **radius})
        alpha = params.pop("alpha")
        return {"beta": alpha**2, **params, **{n: v for n, v in given.items() if n in self.hyper}}

    def theory_ignores_round(self, given: Params) -> bool:
        return "beta" in given or "boldness" in given

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        found, alphas = self._solutions(points), np.array([math.sqrt(point["beta"]) for point in points])
        return self._optimistic(arms, alphas, found, found.thetas, rng)
