"""GP-TS: Thompson sampling with a reward that is any smooth function of the features.

    draw f ~ N(mu, alpha² Sigma) on the arms,   Sigma(x, x') = k(x, x') - k(x)'(K + lam I)⁻¹ k(x')
    play argmax_a f(x_a)

with mu, k and K as in IGP-UCB. Needs what that one needs; its bound is larger by a factor sqrt(d log(d T)). A round
costs O(n³ + K n² + K³): the arms are drawn jointly. Arms of one round share one draw, whatever their order.

Chowdhury and Gopalan, *On kernelized multi-armed bandits*, ICML 2017.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.arm_draws import sorted_rows
from syndicated._models.gaussian_process import kernel
from syndicated.policies._kernel_policy import KernelPolicy
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params

JITTER = 1e-8  # added to the variances of the arms, so that rounding leaves them positive


class GPTS(KernelPolicy):
    """GP-TS with exploration rate `alpha`, noise `lam` and `lengthscale`.

    >>> policy = GPTS(dim=1)
    >>> point = {"alpha": 1.0, "lam": 1.0, "lengthscale": 1.0}
    >>> same = policy.scores(np.array([[0.0], [1e-6]]), [point], Stream(0, 0))[0]
    >>> bool(abs(same[0] - same[1]) < 1e-3)
    True
    """

    doubt: ClassVar[float] = 2.0

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        rows, order = sorted_rows(self.columns(arms))
        z = rng.normals(len(rows))
        return self._unsorted(np.stack([self._drawn(rows, point, z) for point in points]), order)

    def work(self, rows: int, points: Sequence[Params]) -> int:
        """The draws of all rows are drawn together, by a factor of their covariance."""
        return super().work(rows, points) + len(points) * (rows**2 * self.cap + rows**3 // 3)

    def _drawn(self, rows: Array, point: Params, z: Array) -> Array:
        means, u = self.model.beliefs(rows, self._posterior(point))
        if not np.isfinite(u).all():
            return np.full(len(rows), np.nan)  # features that are not finite are the agent's to refuse
        covariance = kernel(rows, rows, point["lengthscale"]) - u.T @ u
        factor = np.linalg.cholesky(covariance + JITTER * np.eye(len(rows)))
        return np.asarray(means + point["alpha"] * (factor @ z))
