"""Compiled linear algebra over arms and penalties. No Python loop runs over either.

The kernels of the hot path fill an array that they are given: to hand out a new one costs as much as a small round.

Features may be one shorter than the model: the last coordinate is then the constant 1, the intercept.
"""

import math

import numpy as np

from syndicated.compiled import compiled
from syndicated.types import Array, Ints


@compiled("f8[::1](f8[::1], i8)")
def extend(x: Array, size: int) -> Array:
    """x, with the intercept's 1 behind it if the model is longer."""
    out = np.ones(size)
    out[: len(x)] = x
    return out


@compiled("f8[:,::1](f8[:,::1], i8)")
def columns(X: Array, size: int) -> Array:
    """The features transposed, with the intercept's row of ones if the model is longer.

    Arms along the last axis let the compiler work on several arms at once.
    """
    out = np.ones((size, len(X)))
    for i in range(X.shape[1]):
        for a in range(len(X)):
            out[i, a] = X[a, i]
    return out


@compiled("f8[:,::1](f8[:,::1], i8[::1])")
def take(columns: Array, numbers: Ints) -> Array:
    """Some of the columns."""
    out = np.empty((len(columns), len(numbers)))
    for i in range(len(columns)):
        for a in range(len(numbers)):
            out[i, a] = columns[i, numbers[a]]
    return out


@compiled("f8[::1](f8[:,::1], f8[::1])")
def dot(columns: Array, theta: Array) -> Array:
    """x_a' theta for every arm."""
    out = np.zeros(columns.shape[1])
    for i in range(len(columns)):
        for a in range(len(out)):
            out[a] += theta[i] * columns[i, a]
    return out


@compiled("f8[::1](f8[:,::1], f8[:,::1])")
def squares(columns: Array, inverse: Array) -> Array:
    """x_a' V⁻¹ x_a for every arm, using the symmetry of V⁻¹; rounding may leave it a little below 0."""
    out = np.zeros(columns.shape[1])
    row = np.empty(columns.shape[1])
    for i in range(len(columns)):
        for a in range(len(out)):
            row[a] = inverse[i, i] * columns[i, a]
        for j in range(i):
            twice = 2.0 * inverse[i, j]
            for a in range(len(out)):
                row[a] += twice * columns[j, a]
        for a in range(len(out)):
            out[a] += row[a] * columns[i, a]
    return out


@compiled("f8[::1](f8[:,::1], f8[::1])")
def solve_lower(C: Array, y: Array) -> Array:
    """u with C u = y."""
    u = y.copy()
    for i in range(len(y)):
        for j in range(i):
            u[i] -= C[i, j] * u[j]
        u[i] /= C[i, i]
    return u


@compiled("f8[::1](f8[:,::1], f8[::1])")
def solve_upper(C: Array, y: Array) -> Array:
    """u with C' u = y: for y ~ N(0, I) it is N(0, V⁻¹)."""
    u = y.copy()
    for i in range(len(y) - 1, -1, -1):
        for j in range(i + 1, len(y)):
            u[i] -= C[j, i] * u[j]
        u[i] /= C[i, i]
    return u


@compiled("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], i8[::1], f8[::1])")
def ucb_scores(out: Array, X: Array, inverses: Array, thetas: Array, rows: Ints, alphas: Array) -> None:
    """x' theta + alpha sqrt(x' V⁻¹ x) for every point (its row of the penalties, its alpha) and arm."""
    arms = columns(X, thetas.shape[1])
    for row in range(len(thetas)):
        if not np.any(rows == row):
            continue
        mean, width = dot(arms, thetas[row]), squares(arms, inverses[row])
        for a in range(len(X)):
            width[a] = math.sqrt(max(width[a], 0.0))
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(X)):
                    out[n, a] = mean[a] + alphas[n] * width[a]


@compiled("void(f8[:,::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1], f8[::1])")
def ucb_scores_by_number(
    out: Array, arms: Ints, catalogue: Array, squared: Array, thetas: Array, rows: Ints, alphas: Array
) -> None:
    """`ucb_scores` of arms of a catalogue whose x' V⁻¹ x are known: no arm costs more than d products."""
    for row in range(len(thetas)):
        if not np.any(rows == row):
            continue
        mean = dot(catalogue, thetas[row])
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(arms)):
                    out[n, a] = mean[arms[a]] + alphas[n] * math.sqrt(max(squared[row, arms[a]], 0.0))


@compiled("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[::1])")
def update_squares(squared: Array, catalogue: Array, inverses: Array, x: Array) -> None:
    """x_a' V⁻¹ x_a of a catalogue as they will be after V += x x', for every penalty:

    (V + x x')⁻¹ = V⁻¹ - u u' / (1 + x'u) with u = V⁻¹ x, so that each loses (x_a'u)² / (1 + x'u).
    """
    x = extend(x, len(catalogue))
    for row in range(len(inverses)):
        u = dot(inverses[row], x)
        scale = 1.0
        for i in range(len(x)):
            scale += u[i] * x[i]
        along = dot(catalogue, u)
        for a in range(len(along)):
            squared[row, a] -= along[a] * along[a] / scale


@compiled("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], i8[::1], f8[::1], f8[::1])")
def ts_scores(out: Array, arms: Array, factors: Array, thetas: Array, rows: Ints, alphas: Array, z: Array) -> None:
    """x' (theta + alpha C'⁻¹ z) for every point and arm, with one z ~ N(0, I) for all of them."""
    for row in range(len(thetas)):
        if not np.any(rows == row):
            continue
        mean, noise = dot(arms, thetas[row]), dot(arms, solve_upper(factors[row], z))
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(mean)):
                    out[n, a] = mean[a] + alphas[n] * noise[a]


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8)")
def add(G: Array, b: Array, x: Array, reward: float) -> None:
    """G += x x' and b += x r."""
    for i in range(len(b)):
        b[i] += reward * x[i]
        for j in range(len(b)):
            G[i, j] += x[i] * x[j]


@compiled("f8(f8[:,:,::1], f8[::1])")
def update_inverses(inverses: Array, x: Array) -> float:
    """V⁻¹ after V += x x' (Sherman and Morrison), for every penalty.

    Gives the largest 1 + x' V⁻¹ x: of the digits of V⁻¹ along x, that many powers of ten are lost.
    """
    u = np.empty(len(x))
    largest = 1.0
    for row in range(len(inverses)):
        V = inverses[row]
        scale = 1.0
        for i in range(len(x)):
            u[i] = 0.0
            for j in range(len(x)):
                u[i] += V[i, j] * x[j]
            scale += u[i] * x[i]
        largest = max(largest, scale)
        for i in range(len(x)):
            for j in range(len(x)):
                V[i, j] -= u[i] * u[j] / scale
    return largest


@compiled("void(f8[:,:,::1], f8[::1])")
def update_factors(factors: Array, x: Array) -> None:
    """C after V += x x', for every penalty: one Givens rotation a column."""
    for row in range(len(factors)):
        C, u = factors[row], x.copy()
        for k in range(len(x)):
            r = math.hypot(C[k, k], u[k])
            c, s = r / C[k, k], u[k] / C[k, k]
            C[k, k] = r
            for i in range(k + 1, len(x)):
                C[i, k] = (C[i, k] + s * u[i]) / c
                u[i] = c * u[i] - s * C[i, k]


@compiled("f8(f8[:,::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8)")
def learn_inverses(G: Array, b: Array, inverses: Array, thetas: Array, x: Array, reward: float) -> float:
    """One observation into the statistics, the inverses and theta = V⁻¹ b; what `update_inverses` gives."""
    x = extend(x, len(b))
    add(G, b, x, reward)
    lost = update_inverses(inverses, x)
    for row in range(len(thetas)):
        for i in range(len(b)):
            thetas[row, i] = 0.0
            for j in range(len(b)):
                thetas[row, i] += inverses[row, i, j] * b[j]
    return lost


@compiled("f8(f8[:,::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8)")
def learn_factors(G: Array, b: Array, factors: Array, thetas: Array, x: Array, reward: float) -> float:
    """One observation into the statistics, the factors and theta = V⁻¹ b; rotations lose no digits."""
    x = extend(x, len(b))
    add(G, b, x, reward)
    update_factors(factors, x)
    for row in range(len(thetas)):
        thetas[row] = solve_upper(factors[row], solve_lower(factors[row], b))
    return 1.0
