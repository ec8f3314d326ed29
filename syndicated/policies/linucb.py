"""LinUCB: optimism about a linear model.

    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a),   theta = V⁻¹ Σ x r,   V = lam I + Σ x x'

Li et al., *A contextual-bandit approach to personalized news article recommendation*, WWW 2010;
Abbasi-Yadkori et al., *Improved algorithms for linear stochastic bandits*, NeurIPS 2011.
"""

from collections.abc import Sequence

import numpy as np

from syndicated.policies._kernels import ucb_scores
from syndicated.policies._ridge import RidgePolicy
from syndicated.streams import Stream
from syndicated.types import Array, Params


class LinUCB(RidgePolicy):
    """LinUCB with exploration rate `alpha` and ridge penalty `lam`.

    >>> policy = LinUCB(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.predict(np.eye(2), {"lam": 1.0}).tolist()
    [0.5, 0.0]
    """

    def scores(self, X: Array, points: Sequence[Params], rng: Stream) -> Array:
        inverses, thetas, rows = self.model.select([point["lam"] for point in points])
        out = np.empty((len(points), len(X)))
        ucb_scores(out, X, inverses, thetas, rows, np.array([point["alpha"] for point in points]))
        return out
