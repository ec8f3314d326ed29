"""The most optimistic arm of an arm set.

    max over x in the set of   x'theta + alpha |x|_{V⁻¹}

The score is a convex function of x: the best arm lies on the boundary, and whoever goes to the best arm of the score's
linear approximation never loses. So from several arms on, until no score rises, and the best of where that ends: from
the set's ends along the axes of V⁻¹, where the ends of the bonus are, from the greedy arm, and from a random one, which
is what is played while all are equal.
"""

from collections.abc import Callable

import numpy as np

from syndicated.arm_sets import ArmSet
from syndicated.types import Array

MAX_STEPS = 200
MIN_RISE = 1e-12  # of the scores, as a share of their size


def optimistic_arm(
    arms: ArmSet,
    columns: Callable[[Array], Array],
    unit: Array,
    inverse: Array,
    theta: Array,
    alpha: float,
    any_: Array,
) -> Array:
    """The best arm; `columns` gives arms as the model sees them, where a feature has this `unit`."""
    dim = len(unit)
    axes = np.linalg.eigh(unit[:, None] * inverse[:dim, :dim] * unit)[1].T
    X = np.concatenate([any_[None], arms.best(np.concatenate([(unit * theta[:dim])[None], axes, -axes]))])
    scores, slopes = _scores(columns(X), unit, inverse, theta, alpha)
    for _ in range(MAX_STEPS):
        moved = arms.best(slopes)
        higher, new_slopes = _scores(columns(moved), unit, inverse, theta, alpha)
        rises = higher > scores + MIN_RISE * np.abs(scores)
        if not rises.any():
            break
        X[rises], scores[rises], slopes[rises] = moved[rises], higher[rises], new_slopes[rises]
    found: Array = X[scores.argmax()]
    return found


def _scores(Z: Array, unit: Array, inverse: Array, theta: Array, alpha: float) -> tuple[Array, Array]:
    """The score of every column of Z, and its slope in the units of features."""
    along = inverse @ Z
    widths = np.sqrt(np.maximum((Z * along).sum(axis=0), 0.0))
    bonus = np.divide(along, widths, out=np.zeros_like(along), where=widths > 0.0)
    scores: Array = theta @ Z + alpha * widths
    slopes: Array = ((theta[:, None] + alpha * bonus)[: len(unit)] * unit[:, None]).T
    return scores, slopes
