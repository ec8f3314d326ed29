"""The logistic function, and what one observation tells a logistic model."""

import math

from syndicated._compiled import compiled

NEWTON_STEPS = 100
GAIN_TOLERANCE = 1e-14


@compiled("f8(f8)")
def sigmoid(z: float) -> float:
    """1 / (1 + e^-z), with no overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


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
