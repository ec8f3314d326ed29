"""D-LinUCB: LinUCB that discounts what is old, for worlds that drift.

    V = lam I + Σ gamma^age x x',   W = lam I + Σ gamma^(2 age) x x',   theta = V⁻¹ Σ gamma^age x r
    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ W V⁻¹ x_a)

Needs to know how much the world changes: gamma = 1 - (B/(d T))^(2/3) with B the way that theta goes in T rounds, or
candidates for it. A round costs O(K d² + d³) for every gamma and lam. The paper's bound for this gamma,
O~(d^(2/3) B^(1/3) T^(2/3)), has a gap in its proof; O~(d^(7/8) B^(1/4) T^(3/4)) is proven, and for another one,
1 - d^(-1/4) sqrt(B/T) (Zhao and Zhang 2021). With gamma = 1 it is LinUCB. The authors' released code discounts W from V
instead of from itself; this does not.

Russac, Vernade and Cappé, *Weighted linear bandits for non-stationary environments*, NeurIPS 2019.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from syndicated._models.forgetting import Discounted
from syndicated.policies._forgetting_policy import ForgettingPolicy
from syndicated.space import Space
from syndicated.types import Params


class DLinUCB(ForgettingPolicy):
    """D-LinUCB with exploration rate `alpha`, penalty `lam` and discount `gamma`.

    Every candidate gamma has its own sums, which all observations reach; it must be prepared before the first round.

    >>> import numpy as np
    >>> policy = DLinUCB(dim=1, intercept=False)
    >>> policy.prepare([{"gamma": 0.5}])
    >>> for reward in (0.0, 0.0, 1.0):
    ...     policy.learn(np.ones(1), reward, {})
    >>> [policy.predict(np.ones((1, 1)), {"gamma": g, "lam": 1e-9}).round(3).tolist() for g in (0.5, policy.rate())]
    [[0.571], [0.334]]
    """

    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1e12), "lam": (1e-12, 1e12), "gamma": (0.01, 1.0)}
    forgets: ClassVar[str] = "gamma"

    @property
    def space(self) -> Space:
        return Space(boldness=[1.0, 2.0], gamma=[0.98, 0.995, 1.0])

    def rate(self) -> float:
        return max(1 - math.pow(self.variation / (self.size * self.horizon), 2 / 3), 0.01)

    def sums(self, rates: Sequence[float]) -> Discounted:
        return Discounted(self.size, rates)

    def radius(self, t: int, params: Params) -> float:
        """sqrt(lam) S + sigma sqrt(2 log(1/delta) + d log(1 + L² (1 - gamma^2t)/(d lam (1 - gamma²))))."""
        square = params["gamma"] ** 2
        weight = t if square == 1 else (1 - square**t) / (1 - square)
        log = math.log(1 + self.L**2 * weight / (self.size * params["lam"]))
        root = math.sqrt(2 * math.log(1 / self.delta) + self.size * log)
        return math.sqrt(params["lam"]) * self.S + self.sigma * root
