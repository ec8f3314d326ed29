"""DiagonalTS: Thompson sampling with a variance for each column, for rows of many columns, most of them 0.

    draw w_i ~ N(theta_i, c²/q_i);   play argmax_a Σ w_i x_i

A column's normal has an address, so only those of the columns that the arms have are drawn, and arms that share a
column share its draw. What the model is, what it leaves out, needs and costs: see DiagonalUCB. There is no bound.

Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011, algorithm 3.
"""

from collections.abc import Sequence

import numpy as np

from syndicated.policies._diagonal_policy import DiagonalPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class DiagonalTS(DiagonalPolicy):
    """DiagonalTS with exploration `boldness`: Thompson sampling on sparse rows, each column learned apart.

    >>> policy = DiagonalTS(dim=2**18, intercept=False)
    >>> policy.learn(np.array([[7.0, 200_000.0], [1.0, 0.5]]), 1.0, {})
    >>> policy.scores(np.array([[[7.0], [1.0]]]), [{"boldness": 0.0}], Stream(0, 0)).round(2).tolist()
    [[0.52]]
    """

    @property
    def space(self) -> Space:
        return Space(boldness=[0.25, 0.5, 1.0])

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        rows = self._rows(arms)
        means, noise = self.model.beliefs(rows, rng.normals_at(rows[:, 0].astype(np.int64)))
        return means + np.array([[point["boldness"]] for point in points]) * noise
