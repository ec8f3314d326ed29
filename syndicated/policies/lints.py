"""LinTS: Thompson sampling with a linear model.

    draw theta~ = theta + alpha C'⁻¹ z,  z ~ N(0, I),  C C' = V;   play argmax_a x_a' theta~

so that theta~ ~ N(theta, alpha² V⁻¹), with theta and V as in LinUCB and C by Cholesky. One z a round serves
every candidate: which arm another candidate would have played has an exact answer. Needs nothing; a round costs
O(K d + d²). Its regret is O~(d^(3/2) sqrt(T)) with the theoretical alpha, which is larger than what does best. Of an
arm set it plays the arm that is best for theta~.

Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs*, ICML 2013.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.kernels import solve_upper, ts_scores
from syndicated._models.known_rows import draw_effects
from syndicated._models.scaled_ridge import TRIALS
from syndicated.arm_sets import ArmSet
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
    parts: ClassVar[tuple[str, ...]] = (*RidgePolicy.parts, TRIALS)

    @property
    def space(self) -> Space:
        return Space(boldness=[0.5, 1.0, 2.0])

    @property
    def advised(self) -> Params:
        return {"boldness": 0.85}

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        found, alphas = self._lookup(points)
        out = np.empty((len(points), len(arms)))
        ts_scores(out, self.columns(arms), found.stack, found.thetas, found.rows, alphas, rng.normals(self.size))
        effects = self._effects(arms)
        if effects is not None:
            draw_effects(out, *effects, alphas, rng.normals(len(arms)))
        self._put_trial_first(out, arms, alphas, rng.round)
        return out

    def best_in(self, arms: ArmSet, points: Sequence[Params], t: int, rng: Stream) -> Array:
        found, alphas = self._lookup([self.theory(t, point) for point in points])
        z, any_ = rng.normals(self.size), arms.draw(rng)
        noise = np.stack([solve_upper(found.stack[row], z) for row in found.rows])
        thetas = found.thetas[found.rows] + alphas[:, None] * noise
        directions = thetas[:, : self.dim] * self.model.unit
        known = directions.any(axis=1, keepdims=True)  # before the first reward nothing is
        return np.where(known, arms.best(directions), any_)
