"""Named arms that share a context: each arm has an id, a level and slopes of its own.

the mean of arm k for the context x is (1 + (level_k + 2 x'theta_k)/3)/2,   |x| = |theta_k| = 1, level_k in [-1, 1]
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from syndicated.environments.simulation import Linear
from syndicated.streams import ARMS, THETA, Stream
from syndicated.types import Arms, Array, NamedArms


@dataclass(frozen=True, kw_only=True)
class Contexts(Linear):
    """Arms by their ids, and one context a round for all of them, the same one in every round if `fixed`.

    Contexts that are `one_hot` are categories: unit vectors. With `lifetime`, each arm keeps a context for so many
    rounds on average. Everything else is as in `Linear`: what moves rewards, when arms change, and clicks.

    >>> first = next(Contexts(dim=2, arms=3).rounds(seed=1, horizon=10))
    >>> first.arms.ids, first.arms.x.shape, bool((first.arms.x == first.arms.x[0]).all())
    (('0', '1', '2'), (3, 2), True)
    """

    arms: int = 10

    def theta(self, seed: int, k: int = 0) -> Array:
        """(arms, 1 + dim): the level and the slopes of every arm after k changes."""
        draws = Stream(seed, THETA, k)
        levels, slopes = 2 * draws.uniforms(self.arms) - 1, draws.normals(self.arms * self.dim)
        return np.column_stack([levels, _unit_rows(slopes.reshape(self.arms, self.dim))])

    def features(self, seed: int, t: int, bound: float) -> Array:
        context = Stream(seed, ARMS, 0 if self.fixed and not self.lifetime else t).normals(self.dim)
        if self.one_hot:
            context = np.where(np.arange(self.dim) == context.argmax(), 1.0, 0.0)
        return np.repeat(_unit_rows(context[None]), self.arms, axis=0)

    def _shown(self, X: Array) -> Arms:
        return NamedArms(_ids(self.arms), self.unit * X, complete=True)  # type: ignore[return-value]

    def _values(self, X: Array, theta: Array) -> Array:
        values: Array = (theta[:, 0] + 2 * np.einsum("kd,kd->k", X, theta[:, 1:])) / 3
        return values

    def _standard(self, values: Array) -> Array:
        return 3 * values


@cache
def _ids(arms: int) -> tuple[str, ...]:
    return tuple(map(str, range(arms)))


def _unit_rows(rows: Array) -> Array:
    unit: Array = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
