"""Draws: one of several candidates, the probability that one of several samples is the largest, and a coin."""

from collections.abc import Callable, Sequence

import numpy as np

from syndicated.streams import COIN, Stream
from syndicated.types import Array

QUANTILES = 256
QUADRATURE_QUANTILES = (np.arange(QUANTILES) + 0.5) / QUANTILES


def drawn(p: Sequence[float], u: float) -> int:
    """The candidate that the uniform u falls on."""
    below = 0.0
    for i, own in enumerate(p):
        below += own
        if u < below:
            return i
    return max(i for i, own in enumerate(p) if own > 0)  # u was lost to rounding


def probability_of_largest(quantiles: Array, cdf: Callable[[Array], Array]) -> Array:
    """The probability of each of n independent samples to be the largest.

    `quantiles` are the (n, Q) values of `QUADRATURE_QUANTILES`; `cdf` of values x (n, Q) is (n, n, Q): for each of the
    samples, its probability of being below x.
    """
    below = cdf(quantiles)
    below[np.arange(len(quantiles)), np.arange(len(quantiles))] = 1.0
    p: Array = below.prod(axis=0).mean(axis=1)
    p /= p.sum()
    return p


def coin(reward: float, before: float) -> float:
    """A uniform for a reward that is not negative: its address is the reward and how much was learned before it."""
    seed, round_ = np.array([reward, before]).view(np.int64).tolist()
    return float(Stream(seed, COIN, round_).uniforms(1)[0])
