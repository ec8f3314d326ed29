"""SW-LinUCB: LinUCB on the last w rounds, for worlds that change.

    V = lam I + Σ x x',   theta = V⁻¹ Σ x r   over the last w observations
    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a)

Needs to know how much the world changes: w = (d T/B)^(2/3) with B the way that theta goes in T rounds, or candidates
for it. A round costs O(K d² + d³) for every w and lam, and the rows of the longest window are kept. The paper's bound
for this w, O~(d^(2/3) B^(1/3) T^(2/3)), has a gap in its proof; O~(d^(7/8) B^(1/4) T^(3/4)) is proven, and for another
one, d^(1/4) sqrt(T/B) (Zhao and Zhang 2021). With w at least T it is LinUCB.

Cheung, Simchi-Levi and Zhu, *Learning to optimize under non-stationarity*, AISTATS 2019.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

from syndicated._models.forgetting import Windowed
from syndicated.errors import InputError
from syndicated.policies._forgetting_policy import ForgettingPolicy
from syndicated.space import Space
from syndicated.types import Params

MAX_WINDOW = 1_000_000


class SWLinUCB(ForgettingPolicy):
    """SW-LinUCB with exploration rate `alpha`, penalty `lam` and `window`, a whole number of observations.

    >>> import numpy as np
    >>> policy = SWLinUCB(dim=1, intercept=False)
    >>> for reward in (0.0, 0.0, 1.0):
    ...     policy.learn(np.ones(1), reward, {})
    >>> [policy.predict(np.ones((1, 1)), {"window": w, "lam": 1e-9}).round(3).tolist() for w in (2, 9)]
    [[0.5], [0.333]]
    """

    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1e12),
        "lam": (1e-12, 1e12),
        "window": (1, MAX_WINDOW),
    }
    forgets: ClassVar[str] = "window"

    @property
    def space(self) -> Space:
        return Space(boldness=[1.0, 2.0], window=[100, 500, 2500])

    def rate(self) -> float:
        return float(min(math.ceil((self.size * self.horizon / self.variation) ** (2 / 3)), MAX_WINDOW))

    def sums(self, rates: Sequence[float]) -> Windowed:
        return Windowed(self.size, [int(rate) for rate in rates])

    def radius(self, t: int, params: Params) -> float:
        """sigma sqrt(d log((1 + w L²/lam)/delta)) + S sqrt(lam)."""
        log = math.log((1 + params["window"] * self.L**2 / params["lam"]) / self.delta)
        return self.sigma * math.sqrt(self.size * log) + self.S * math.sqrt(params["lam"])

    def check(self, params: Params) -> None:
        super().check(params)
        if params.get("window", 1) % 1:
            raise InputError(f"window must be a whole number; got {params['window']}")
