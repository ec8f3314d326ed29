"""Laplace-TS: Thompson sampling with a logistic model whose coordinates are independent.

    draw w_i ~ N(m_i, alpha²/q_i);   play argmax_a x_a' w
    then m = argmin_w ½ Σ q_i (w_i - m_i)² + log(1 + e^(x'w)) - r x'w,   q_i += p (1 - p) x_i²,   p = sigmoid(x'm)

The minimum lies on the line m + g x/q, where g = r - sigmoid(x'm + g Σ x_i²/q_i): one number to solve for, so there is
no step size. Needs nothing but rewards from 0 to 1; a round costs O(K d). What it leaves out are the covariances: where
features move together it is too sure. There is no bound.

Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011, algorithm 3.
"""

import numpy as np

from syndicated._models.logistic import logistic_gain
from syndicated.policies._laplace_policy import LaplacePolicy
from syndicated.space import Space
from syndicated.types import Array, Params


class LaplaceTS(LaplacePolicy):
    """Laplace-TS with exploration `alpha`, in posterior standard deviations; the exact update.

    Features are in units of their own, and so is `lam`, the precision of the prior.

    >>> policy = LaplaceTS(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.m.round(3).tolist(), policy.q.round(3).tolist()
    ([0.401, 0.0], [1.24, 1.0])
    """

    @property
    def space(self) -> Space:
        return Space(alpha=[0.25, 0.5, 1.0])

    def likeliest(self, x: Array, reward: float, params: Params) -> Array:
        along = x / self.q
        gain: float = logistic_gain(float(x @ self.m), float(x @ along), reward)
        return np.asarray(self.m + gain * along)
