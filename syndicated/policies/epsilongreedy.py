"""Epsilon-greedy: the best arm by a ridge model, and with probability epsilon any arm.

    with probability epsilon play any arm, all equally likely;   else argmax_a x_a' theta,   theta as in LinUCB

Needs nothing; a round costs O(K d + d²). A random round is as likely to play an arm that is known to be bad as one that
is not known: with epsilon = t^(-1/3) its regret is O~(T^(2/3)), where LinUCB has O~(d sqrt(T)). But it explores also
where the model is wrong and sure. A decision's `propensity` is given the policy's own draw; the
probability of the arm before it is epsilon/K, and 1 - epsilon more for the best.

Langford and Zhang, *The epoch-greedy algorithm for contextual multi-armed bandits*, NeurIPS 2007.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.arm_draws import first_best, order_of, preferred, random_arm
from syndicated._models.scaled_ridge import DISCOUNT
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class EpsilonGreedy(RidgePolicy):
    """Epsilon-greedy with the share `epsilon` of random rounds and ridge penalty `lam`.

    `boldness` c stands for epsilon = min(1, c t^(-1/3)) in round t, from 1 on, and in theory c is 1.

    >>> policy = EpsilonGreedy(dim=2)
    >>> policy.prepare(policy.space.points)
    >>> [round(policy.theory(t, {"boldness": 0.5})["epsilon"], 3) for t in (0, 7, 999)]
    [0.5, 0.25, 0.05]
    """

    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "epsilon": (0.0, 1.0),
        "lam": (1e-12, 1e12),
        "intercept": (0.0, 1.0),
        "memory": (0.01, 1.0),
    }
    parts: ClassVar[tuple[str, ...]] = tuple(part for part in RidgePolicy.parts if part != DISCOUNT)
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("epsilon",)}
    exploring: ClassVar[tuple[str, ...]] = ("epsilon",)

    @property
    def space(self) -> Space:
        return Space(boldness=[0.1, 0.3, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        epsilon = min(1.0, given.get("boldness", 1.0) * (t + 1) ** (-1 / 3))
        params = super().theory(t, given if "boldness" in given else {**given, "alpha": 0.0})
        return {"epsilon": epsilon, **{name: value for name, value in params.items() if name in self.hyper}}

    def theory_ignores_round(self, given: Params) -> bool:
        return "epsilon" in given

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        order, means = order_of(self.columns(arms)), self._means(arms, points)
        explore, which = rng.uniforms(2)
        arm = random_arm(order, np.ones(len(order)), which)
        return np.stack(
            [
                preferred(m, arm if explore < p["epsilon"] else first_best(order, m))
                for m, p in zip(means, points, strict=True)
            ]
        )
