"""Draws that belong to arms, whatever the order in which they come."""

import numpy as np

from syndicated.streams import Stream
from syndicated.types import Array, Ints


def order_of(columns: Array) -> Ints:
    """The arms in the order of their features: the same for the same arms, however they are listed."""
    return np.lexsort(columns)


def sorted_rows(columns: Array) -> tuple[Array, Ints]:
    """The arms as rows in that order, so that no rounding depends on the order they come in; and the order."""
    order = order_of(columns)
    return np.ascontiguousarray(columns.T[order]), order


def random_arm(columns: Array, probabilities: Array, u: float) -> int:
    """The arm on which the uniform u falls, of arms with these probabilities."""
    order = order_of(columns)
    below = np.cumsum(probabilities[order])
    return int(order[min(int(np.searchsorted(below, u * below[-1], side="right")), len(order) - 1)])


def first_best(columns: Array, means: Array) -> int:
    """The arm with the largest mean, of equals the first in the order of their features."""
    order = order_of(columns)
    return int(order[np.argmax(means[order])])


def preferred(means: Array, arm: int) -> Array:
    """The means, with that of one arm raised above all others: what it has more than its mean is exploration.

    Of equals it is raised by the least there is.
    """
    scores, top = means.copy(), float(means.max())
    if scores[arm] < top:
        scores[arm] = top + max(1.0, abs(top))
    elif np.count_nonzero(scores == top) > 1:
        scores[arm] = np.nextafter(top, np.inf)
    return scores


def normals_of(columns: Array, rng: Stream) -> tuple[Ints, Array]:
    """The order of the arms, and one standard normal for each in that order."""
    return order_of(columns), rng.normals(columns.shape[1])
