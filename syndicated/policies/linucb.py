"""LinUCB: optimism about a linear model.

    play argmax_a x_a' theta + alpha sqrt(x_a' V⁻¹ x_a),   theta = V⁻¹ Σ x r,   V = lam I + Σ x x'

Needs nothing: with nothing given, alpha is in units of the noise that the errors show. A round costs O(K d²), less with
a catalogue. With the theoretical alpha its regret is O~(d sqrt(T)). Plays arm sets too: see `_arm_set.py`.

Li et al., *A contextual-bandit approach to personalized news article recommendation*, WWW 2010;
Abbasi-Yadkori et al., *Improved algorithms for linear stochastic bandits*, NeurIPS 2011.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from syndicated._models.scaled_kernels import CHECK_ROUNDS, TIED
from syndicated._models.scaled_ridge import TRIALS, ScaledRidge
from syndicated.arm_sets import ArmSet
from syndicated.policies._arm_set import optimistic_arm
from syndicated.policies._ridge_policy import TRIALS_IN_ORDER, RidgePolicy, trials_between
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Ints, Params


class LinUCB(RidgePolicy):
    """LinUCB with exploration rate `alpha` and ridge penalty `lam`.

    >>> import numpy as np
    >>> policy = LinUCB(dim=2, intercept=False)
    >>> policy.learn(np.array([1.0, 0.0]), 1.0, {})
    >>> policy.predict(np.eye(2), {"lam": 1.0}).tolist()
    [0.5, 0.0]
    """

    parts: ClassVar[tuple[str, ...]] = (*RidgePolicy.parts, TRIALS)

    @property
    def advised(self) -> Params:
        return {"boldness": 2.5}

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        solutions, alphas = self._lookup(points)
        return self._optimistic(arms, alphas, solutions, solutions.thetas, rng)

    def scores_many(self, tables: Sequence[Arms], points: Sequence[Params], rng: Stream) -> Array:
        solutions, alphas = self._lookup(points)
        return self._optimistic_many(tables, alphas, solutions, solutions.thetas, rng)

    def best(self, arms: Arms, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        boldness = self._boldness(points) if arms.ndim == 2 else None
        if boldness is None or self._tries(rng.round) or not isinstance(self.model, ScaledRidge):
            return super().best(arms, points, t, rng)
        return self.model.best(arms, boldness) or super().best(arms, points, t, rng)

    def best_many(self, tables: Array, point: Params, t: int, rng: Callable[[int], Stream]) -> list[int]:
        boldness = self._boldness((point,))
        if boldness is None or not isinstance(self.model, ScaledRidge):
            return super().best_many(tables, point, t, rng)
        found, end = self.model.best_many(tables, boldness), t + len(tables)
        apart = [n for n, arm in enumerate(found) if arm == TIED] if TIED in found else []
        apart += [n - t for n in trials_between(t, end)]
        apart += range(-t % CHECK_ROUNDS, len(tables), CHECK_ROUNDS) if self._doubts_level else ()
        for n in apart:
            found[n] = self.best(tables[n], (point,), t + n, rng(t + n))[0]
        return found

    def best_in(self, arms: ArmSet, points: Sequence[Params], t: int, rng: Stream) -> Array:
        found, alphas = self._lookup([self.theory(t, point) for point in points])
        unit, any_ = self.model.unit, arms.draw(rng)
        models = [(found.stack[row], found.thetas[row]) for row in found.rows]
        best = [
            optimistic_arm(arms, self.columns, unit, *model, alpha, any_)
            for model, alpha in zip(models, alphas.tolist(), strict=True)
        ]
        return np.stack(best)

    def replay(self, tables: Array, places: Ints, rewards: Array, point: Params, t: int, played: Ints) -> int:
        boldness = self._boldness((point,))
        if boldness is None or not isinstance(self.model, ScaledRidge) or self._tries(t):
            return 0
        end = TRIALS_IN_ORDER[bisect_left(TRIALS_IN_ORDER, t)] - t  # until then no row is tried for the first time
        return self.model.replay(tables[:end], places[:end], rewards[:end], boldness, t, played[:end])
