"""EXP3 in log weights (Auer et al., *The nonstochastic multiarmed bandit problem*, SIAM J. Comput. 2002).

    beta = min(1, sqrt(n log n / ((e - 1) T)))
    p_j = beta/n + (1 - beta) w_j / Σ w;     after reward y for the drawn i:  log w_i += (beta/n) y / p_i

The largest log weight is kept at 0, so weights neither overflow nor lose precision however long they learn.
"""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated.types import Array, Ints


def rate(n: int, horizon: int) -> float:
    """beta, EXP3's share of uniform exploration: 0 for a single candidate."""
    return min(1.0, math.sqrt(n * math.log(n) / ((math.e - 1) * horizon)))


@compiled("f8[::1](f8[::1], f8)")
def probabilities(logw: Array, beta: float) -> Array:
    """p_j for every candidate."""
    w = np.exp(logw - np.max(logw))
    p: Array = beta / len(w) + (1.0 - beta) * w / np.sum(w)
    return p


@compiled("Tuple((i8, f8))(f8[::1], f8, f8)")
def draw(logw: Array, beta: float, u: float) -> tuple[int, float]:
    """The candidate that the uniform u falls on, and its probability."""
    n, largest = len(logw), np.max(logw)
    total = 0.0
    for k in range(n):
        total += math.exp(logw[k] - largest)
    j, p, below = 0, 0.0, 0.0
    for j in range(n):
        p = beta / n + (1.0 - beta) * math.exp(logw[j] - largest) / total
        below += p
        if u < below:
            break
    return j, p


@compiled("void(i8[::1], f8[::1], f8[::1], f8, f8[::1])")
def draw_many(candidates: Ints, probabilities: Array, logw: Array, beta: float, uniforms: Array) -> None:
    """`draw` with each of these uniforms."""
    for n in range(len(uniforms)):
        candidates[n], probabilities[n] = draw(logw, beta, uniforms[n])


@compiled("void(f8[::1], i8, f8)")
def credit(logw: Array, index: int, gain: float) -> None:
    """log w_i += gain, with the largest log weight brought back to 0."""
    logw[index] += gain
    largest = np.max(logw)
    for k in range(len(logw)):
        logw[k] -= largest


@compiled("void(f8[::1], i8[::1], f8[::1])")
def credit_many(logw: Array, indices: Ints, gains: Array) -> None:
    """`credit` one after the other."""
    for n in range(len(indices)):
        credit(logw, indices[n], gains[n])
