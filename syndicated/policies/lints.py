"""LinTS: Thompson sampling with a linear model.

    draw theta~ = theta + alpha C'⁻¹ z,  z ~ N(0, I),  C C' = V;   play argmax_a x_a' theta~

so that theta~ ~ N(theta, alpha² V⁻¹), with theta and V as in LinUCB and C by Cholesky. One z a round serves
every candidate: which arm another candidate would have played has an exact answer. Needs nothing; a round costs
O(K d + d²). Its regret is O~(d^(3/2) sqrt(T)) with the theoretical alpha, which is larger than what does best.

Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs*, ICML 2013.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.kernels import ts_scores
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class LinTS(RidgePolicy):
    """LinTS with exploration rate `alpha` and ridge penalty `lam`; its theoretical alpha(t) is LinUCB's.

    >>> policy = LinTS(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.scores(np.eye(2), [{"alpha": 0.0, "lam": 1.0}], Stream(0, 0)).tolist()
    [[0.5, 0.0]]
    """

    factored: ClassVar[bool] = True

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0, 2.0])

    @property
    def advised(self) -> Params:
        return {"boldness": 1.0}

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        found, alphas = self._lookup(points)
        out = np.empty((len(points), len(arms)))
        ts_scores(out, self.columns(arms), found.stack, found.thetas, found.rows, alphas, rng.normals(self.size))
        return out
