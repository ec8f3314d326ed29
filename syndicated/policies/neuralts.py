"""NeuralTS: Thompson sampling with a network: every arm's reward is drawn around what the network says.

    draw r_a ~ N(f(x_a), alpha² lam g_a'Z⁻¹g_a/m);   play argmax_a r_a

with f, g and Z as in NeuralUCB, which says what it needs and costs; its bound is of the same order. Arms are drawn
apart: their errors are taken for independent, which they are not, and with many arms the largest draw is far out. So
its alpha is smaller.

Zhang, Zhou, Li and Gu, *Neural Thompson sampling*, ICLR 2021.
"""

from collections.abc import Sequence

import numpy as np

from syndicated._models.arm_draws import sorted_rows
from syndicated.policies._neural_policy import NeuralPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class NeuralTS(NeuralPolicy):
    """NeuralTS with exploration rate `alpha`; see `hyper` for the settings of its network.

    >>> policy = NeuralTS(dim=1)
    >>> point = policy.theory(0, {"alpha": 0.0})
    >>> policy.scores(np.array([[-1.0], [0.5]]), [point], Stream(0, 0)).round(3).tolist() == [[0, 0]]  # f is 0 at first
    True
    """

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        z, out = rng.normals(len(rows)), np.empty((len(points), len(rows)))
        for n, (point, (f, width)) in enumerate(zip(points, self._beliefs(rows, points), strict=True)):
            out[n, order] = f + point["alpha"] * np.sqrt(point["lam"]) * width * z
        return out
