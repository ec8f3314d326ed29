"""IGP-UCB: optimism about a reward that is any smooth function of the features.

    mu(x) = k(x)'(K + lam I)⁻¹ y,   s²(x) = k(x, x) - k(x)'(K + lam I)⁻¹ k(x),   k(x, x') = exp(-|x - x'|²/(2 l²))
    play argmax_a mu(x_a) + alpha s(x_a)

Needs a lengthscale, or candidates for it, and for its bound, O~(gamma_T sqrt(T)) with gamma_T the information that T
observations can give, also B. A round costs O(n³ + K n²) with n the observations that are kept, the last `cap`: what is
older is forgotten. To append a row to the factor would cost O(n²), but in natural units the lengthscale moves with
every row, and beyond the cap each takes another's place. Good for few features; in many dimensions all rows are far
from each other.

Chowdhury and Gopalan, *On kernelized multi-armed bandits*, ICML 2017.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.arm_draws import sorted_rows
from syndicated._models.kernels import NO_DRAWS, break_ties
from syndicated.policies._kernel_policy import KernelPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class IGPUCB(KernelPolicy):
    """IGP-UCB with exploration rate `alpha`, noise `lam` and `lengthscale`.

    >>> policy = IGPUCB(dim=1)
    >>> for x in (0.0, 1.0, 2.0):
    ...     policy.learn(np.array([x]), float(x == 1), {})
    >>> policy.predict(np.array([[0.0], [1.0]]), {"lam": 1e-6, "lengthscale": 0.5}).round(3).tolist()
    [0.0, 1.0]
    """

    doubt: ClassVar[float] = 1.0

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        scores = np.stack([self._optimistic(rows, point) for point in points])
        if break_ties(scores, NO_DRAWS):  # before the first reward all arms are equal
            break_ties(scores, rng.uniforms(len(rows)))
        return self._unsorted(scores, order)

    def _optimistic(self, rows: Array, point: Params) -> Array:
        means, u = self.model.beliefs(rows, self._posterior(point))
        return np.asarray(means + point["alpha"] * np.sqrt(np.maximum(1 - (u**2).sum(axis=0), 0.0)))
