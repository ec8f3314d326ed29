"""NeuralUCB: optimism about a network, whose gradient at an arm takes the place of features.

    play argmax_a f(x_a) + alpha sqrt(g_a'Z⁻¹g_a/m),   g_a = grad f(x_a),   Z = lam I + Σ g g'/m

Needs a network that can represent the rewards: width, depth, step size and number of steps are hyper-parameters. Z is
its diagonal, as in the authors' code: the paper's matrix has a row for every weight. The network is trained from its
start on all the data, as in the paper, at times that grow by 1.3, not in every round: O(t p steps) then, p being the
weights; a decision costs O(K p). Rewards are counted from their mean. The bound, O~(d~ sqrt(T)) with d~ the effective
dimension of the kernel, is for nets far wider than any that is run, and for an alpha that nobody can compute: in its
place theory has the rewards' standard deviation. Linear policies learn from fewer rounds where rewards are about
linear.

Zhou, Li and Gu, *Neural contextual bandits with UCB-based exploration*, ICML 2020.
"""

from collections.abc import Sequence

import numpy as np

from syndicated._models.arm_draws import sorted_rows
from syndicated.policies._neural_policy import NeuralPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class NeuralUCB(NeuralPolicy):
    """NeuralUCB with exploration rate `alpha`; see `hyper` for the settings of its network.

    >>> policy = NeuralUCB(dim=1)
    >>> for x in 20 * (-1.0, 0.0, 1.0):
    ...     policy.learn(np.array([x]), abs(x), {})
    >>> left, middle, right = policy.predict(np.array([[-1.0], [0.0], [1.0]]), policy.theory(0, {"steps": 200}))
    >>> bool(left > 0.8 and middle < 0.3 and right > 0.8)  # no linear model sees this
    True
    """

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        out = np.empty((len(points), len(rows)))
        for n, (point, (f, width)) in enumerate(zip(points, self._beliefs(rows, points), strict=True)):
            out[n, order] = f + point["alpha"] * width
        return out
