"""The logistic function, and what one observation tells a logistic model."""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated.types import Array

NEWTON_STEPS = 100
GAIN_TOLERANCE = 1e-14
MAX_EXPONENT = 700.0  # of e^z, so that it is finite, and one over it not 0
LOG2_E = 1.0 / math.log(2.0)
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log 2: few digits, and the rest
TAYLOR = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))  # of e^r, the highest power first
ROUNDING = 1.5 * 2.0**52  # added to a number, it leaves the nearest whole number in the last bits


@compiled("f8(f8)")
def sigmoid(z: float) -> float:
    """1 / (1 + e^-z), with no overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@compiled("void(f8[::1])")
def sigmoids(z: Array) -> None:
    """`sigmoid` of every entry, in its place, up to rounding: loops without a branch or a call, for vectors of numbers.

    e^-z = 2^k e^r with a whole k and |r| at most log(2)/2, where the Taylor series needs no more terms.
    """
    powers = np.empty(len(z))
    bits = powers.view(np.int64)
    for i in range(len(z)):
        x = min(max(-z[i], -MAX_EXPONENT), MAX_EXPONENT)
        powers[i] = x * LOG2_E + ROUNDING
        k = powers[i] - ROUNDING
        r = x - k * LOG_2_HIGH - k * LOG_2_LOW
        e = 0.0
        for coefficient in TAYLOR:
            e = e * r + coefficient
        z[i] = e
    for i in range(len(z)):
        bits[i] = (bits[i] << 52) + (1023 << 52)
    for i in range(len(z)):
        z[i] = 1.0 / (1.0 + z[i] * powers[i])


@compiled("f8(f8, f8, f8)")
def logistic_gain(mean: float, square: float, reward: float) -> float:
    """g with g = r - sigmoid(mean + square g): Newton's steps, kept between the bounds that are known."""
    low, high = reward - 1.0, reward
    p = sigmoid(mean)
    g = (reward - p) / (1.0 + square * p * (1.0 - p))
    for _ in range(NEWTON_STEPS):
        p = sigmoid(mean + square * g)
        excess = g - (reward - p)
        if excess > 0.0:
            high = g
        else:
            low = g
        step = excess / (1.0 + square * p * (1.0 - p))
        if abs(step) <= GAIN_TOLERANCE:
            break
        g = g - step if low < g - step < high else 0.5 * (low + high)
    return g
