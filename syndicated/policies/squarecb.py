"""SquareCB: arms are drawn with probabilities that fall with their predicted gap to the best.

    p_a = 1/(K + gamma (y_b - y_a)) for every arm but the best, b, which has the rest;   gamma = sqrt(K t)/alpha
    y_a = x_a' theta,   theta as in LinUCB

Needs predictions only, no confidence sets, and so works with any regression; ours is ridge. A round costs O(K d + d²).
With alpha² the regression's regret and log(2/delta), its regret is O(sqrt(K T) alpha): it grows with the number of
arms, that of LinUCB does not. The theoretical alpha is alpha(t) of LinUCB, whose square is of that order. The paper's
gamma is fixed, with T for t; Vowpal Wabbit's grows with t too. A decision's `propensity` is given the policy's own
draw.

Foster and Rakhlin, *Beyond UCB: optimal and efficient contextual bandits with regression oracles*, ICML 2020, after
Abe and Long, *Associative reinforcement learning using linear probabilistic concepts*, ICML 1999.
"""

import math
from collections.abc import Sequence

import numpy as np

from syndicated._models.arm_draws import first_best, order_of, preferred, random_arm
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class SquareCB(RidgePolicy):
    """SquareCB with exploration rate `alpha` and ridge penalty `lam`.

    `boldness` c stands for alpha = c s, with s the noise that the model's errors show.

    >>> SquareCB.probabilities(np.eye(2), np.array([1.0, 0.5]), alpha=0.5, t=2).round(3).tolist()
    [0.75, 0.25]
    """

    @property
    def space(self) -> Space:
        return Space(boldness=[0.3, 1.0, 3.0])

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        order, u, t, out = order_of(self.columns(arms)), rng.uniforms(1)[0], self.model.count + 1, []
        for means, point in zip(self._means(arms, points), points, strict=True):
            p = _probabilities(first_best(order, means), means, point["alpha"], t)
            out.append(preferred(means, random_arm(order, p, u)))
        return np.stack(out)

    @staticmethod
    def probabilities(columns: Array, means: Array, alpha: float, t: int) -> Array:
        """The probability of every arm."""
        return _probabilities(first_best(order_of(columns), means), means, alpha, t)


def _probabilities(best: int, means: Array, alpha: float, t: int) -> Array:
    """The probability of every arm, by how far it is behind the best one."""
    K = len(means)
    p = np.zeros(K)
    if alpha > 0:
        p[:] = 1 / (K + math.sqrt(K * t) / alpha * (means[best] - means))
    p[best] = 0.0
    p[best] = 1 - p.sum()
    return p
