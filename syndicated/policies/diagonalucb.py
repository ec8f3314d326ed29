"""DiagonalUCB: optimism about a model with a variance for each column, for rows of many columns, most of them 0.

    play argmax_a m_a + c s_a,   m_a = Σ theta_i x_i,   s_a² = Σ x_i² / q_i

over the non-zeros of arm a's row. Needs nothing. A decision costs O(K n) for n non-zeros, a reward O(n); three numbers
a column are kept. There is no bound.

The covariances between columns are left out. Where columns are hashed tokens, most of which never meet, there is little
to leave out. Where all columns are there in every row and move together, as the pixels of an image do, it is a lot: a
dense policy learns from fewer rounds there, and this one wants a larger c.

Chapelle and Li, *An empirical evaluation of Thompson sampling*, NeurIPS 2011, algorithm 3, with optimism in place of
sampling.
"""

from collections.abc import Sequence

import numpy as np

from syndicated.policies._diagonal_policy import DiagonalPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class DiagonalUCB(DiagonalPolicy):
    """DiagonalUCB with exploration `boldness`: optimism on sparse rows, each column learned apart.

    >>> policy = DiagonalUCB(dim=2**18, link="linear")
    >>> policy.learn(np.array([[7.0, 200_000.0], [1.0, 0.5]]), 1.0, {})  # columns, and their values
    >>> policy.learn(np.array([[7.0, 9.0], [1.0, 1.0]]), 0.0, {})
    >>> policy.predict(np.array([[[7.0], [1.0]], [[200_000.0], [0.5]]]), {}).round(2).tolist()
    [0.67, 0.84]
    """

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0, 2.0])

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        means, deviations = self.model.beliefs(self._rows(arms))
        return means + np.array([[point["boldness"]] for point in points]) * deviations
