"""GLM-TSL: Thompson sampling from the Laplace approximation of a generalised linear model.

    theta = argmin Σ [b(x'theta) - r x'theta] + (lam/2) |theta|²;   H = lam I + Σ mu'(x'theta) x x'
    draw theta~ ~ N(theta, alpha² H⁻¹);   play argmax_a x_a' theta~

Needs the link. A round costs O(t d²): the fit and H are computed from all the data. The paper begins with random rounds
until H is well conditioned; here the penalty takes their place. Its regret is O~(d sqrt(T log(K))) with the theoretical
alpha, which is far larger than what does best: alpha = 1 is the posterior itself.

Kveton, Zaheer, Szepesvári, Li, Ghavamzadeh and Boutilier, *Randomized exploration in generalized linear bandits*,
AISTATS 2020.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.kernels import dot, solve_upper
from syndicated.policies._glm_policy import GLMPolicy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Params


class GLMTSL(GLMPolicy):
    """GLM-TSL with exploration `alpha`, in posterior standard deviations, and penalty `lam`.

    >>> policy = GLMTSL(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.scores(np.eye(2), [{"alpha": 0.0, "lam": 1.0}], Stream(0, 0)).round(3).tolist()
    [[0.401, 0.0]]
    """

    _feature_units: ClassVar[tuple[str, ...]] = ("lam",)

    @property
    def space(self) -> Space:
        return Space(alpha=[0.25, 0.5, 1.0])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        """alpha = sqrt(mu'_max) (sigma/mu'_min) sqrt(d log(T/d) + 2 log T), with mu' over |z| <= S L."""
        low, high = self._slopes()
        log = self.size * math.log(max(self.horizon / self.size, 1.0)) + 2 * math.log(self.horizon)
        return {"alpha": math.sqrt(high) * self.sigma / low * math.sqrt(log), "lam": 1.0, **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns, z = self.columns(arms), rng.normals(self.size)
        parts = {point["lam"]: self._parts(columns, point["lam"], z) for point in points}
        return np.stack([parts[point["lam"]][0] + point["alpha"] * parts[point["lam"]][1] for point in points])

    def _parts(self, columns: Array, lam: float, z: Array) -> tuple[Array, Array]:
        """x'theta and x'H^(-1/2) z of every arm."""
        factor = np.ascontiguousarray(np.linalg.cholesky(self.model.information(lam)))
        return dot(columns, self.model.theta(lam)), dot(columns, solve_upper(factor, z))
