"""Logistic regression, fitted exactly: regularised maximum likelihood by warm-started Newton steps.

    minimise  Σ [log(1 + e^(x'theta)) - y x'theta] + (ridge/2) |theta|²

Only the first `free` entries of theta are fitted; the others stay 0.

One observation moves the optimum little. So the first step needs no pass over the data (the gradient is the
last one plus the new observation's), the inverse Hessian is carried along by a rank-one update and corrected by what
each step shows of it (BFGS), and a pass is needed only to see that the gradient has vanished: two or three in all.
Where that stalls, Newton steps with step-halving follow.
"""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated._models.kernels import EVIDENCE_MEMORY, copy, update_inverse
from syndicated.types import Array, Ints

TOLERANCE = 1e-6  # of the gradient's largest entry
QUICK_STEPS = 8  # steps with the carried inverse before the Hessian is computed anew
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


@compiled("f8[::1](f8[:,::1], f8[::1], f8, f8[::1], i8)")
def gradient(X: Array, y: Array, ridge: float, theta: Array, free: int) -> Array:
    """Σ x (sigmoid(x'theta) - y) + ridge theta, in the free entries."""
    error = X @ theta
    for s in range(len(y)):
        error[s] = sigmoid(error[s]) - y[s]
    g: Array = error @ X + ridge * theta
    g[free:] = 0.0
    return g


@compiled("f8[:,::1](f8[:,::1], f8, f8[::1], i8)")
def hessian(X: Array, ridge: float, theta: Array, free: int) -> Array:
    """Σ x x' sigmoid'(x'theta) + ridge I, with nothing between the free entries and the others."""
    z = X @ theta
    weighted = X.copy()
    for s in range(len(X)):
        p = sigmoid(z[s])
        weight = p * (1.0 - p)
        for i in range(X.shape[1]):
            weighted[s, i] *= weight
    H: Array = X.T @ weighted + ridge * np.eye(len(theta))
    H[:free, free:] = 0.0
    H[free:, :free] = 0.0
    return H


@compiled("f8(f8[:,::1], f8[::1], f8, f8[::1])")
def loss(X: Array, y: Array, ridge: float, theta: Array) -> float:
    """The negative penalised log-likelihood."""
    total: float = 0.5 * ridge * np.dot(theta, theta)
    z = X @ theta
    for s in range(len(y)):
        total += max(z[s], 0.0) + math.log1p(math.exp(-abs(z[s]))) - y[s] * z[s]
    return total


@compiled("f8[:,::1](f8[:,::1])")
def invert(H: Array) -> Array:
    """H⁻¹, also where rounding has made H singular: steps along it need not be exact, only downhill."""
    return np.ascontiguousarray(np.linalg.inv(H + 1e-14 * np.trace(H) * np.eye(len(H))))


@compiled("f8(f8[::1])")
def _largest(v: Array) -> float:
    largest: float = np.max(np.abs(v))
    return largest


@compiled("void(f8[:,::1], f8[:,::1])")
def _copy_rows(to: Array, M: Array) -> None:
    for i in range(len(M)):
        copy(to[i], M[i])


@compiled("void(f8[:,::1], f8[::1], f8, i8, f8[::1], f8[::1], f8[:,::1])")
def newton(X: Array, y: Array, ridge: float, free: int, theta: Array, g: Array, inverse: Array) -> None:
    """Fit in place by full Newton steps, halved while the loss would rise; leaves gradient and inverse behind."""
    copy(g, gradient(X, y, ridge, theta, free))
    _copy_rows(inverse, invert(hessian(X, ridge, theta, free)))
    value = loss(X, y, ridge, theta)
    for _ in range(NEWTON_STEPS):
        if _largest(g) <= TOLERANCE:
            return
        step = inverse @ g
        lower = loss(X, y, ridge, theta - step)
        while lower > value and _largest(step) > 1e-15:
            step *= 0.5
            lower = loss(X, y, ridge, theta - step)
        theta -= step
        value = lower
        copy(g, gradient(X, y, ridge, theta, free))
        if _largest(g) > TOLERANCE:
            _copy_rows(inverse, invert(hessian(X, ridge, theta, free)))


@compiled("void(f8[:,::1], f8[::1], f8[::1])")
def correct(inverse: Array, step: Array, change: Array) -> None:
    """The BFGS update: the symmetric inverse nearest to this one that maps the gradient's change to the step."""
    product = np.dot(step, change)
    if product > 0.0:
        u = inverse @ change
        stretch = 1.0 + np.dot(change, u) / product
        for i in range(len(step)):
            for j in range(len(step)):
                inverse[i, j] += (stretch * step[i] * step[j] - u[i] * step[j] - step[i] * u[j]) / product


@compiled("void(f8[:,::1], f8[::1], f8, i8, f8[::1], f8[::1], f8[:,::1])")
def refit(X: Array, y: Array, ridge: float, free: int, theta: Array, g: Array, inverse: Array) -> None:
    """Fit in place after the last row of X was added to what theta, g and inverse stand for."""
    x = X[len(y) - 1].copy()
    x[free:] = 0.0
    p = sigmoid(np.dot(x, theta))
    g += (p - y[len(y) - 1]) * x
    update_inverse(inverse, math.sqrt(p * (1.0 - p)) * x, 1.0)
    before, size = theta.copy(), _largest(g)
    for _ in range(QUICK_STEPS):
        step, last = -(inverse @ g), g.copy()
        theta += step
        copy(g, gradient(X, y, ridge, theta, free))
        if _largest(g) <= TOLERANCE:
            return
        correct(inverse, step, g - last)
    if _largest(g) > size:
        copy(theta, before)
    newton(X, y, ridge, free, theta, g, inverse)


@compiled("void(f8[:,::1], f8[::1], f8[::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,:,::1], f8[::1])")
def refit_all(
    X: Array, y: Array, ridges: Array, frees: Ints, thetas: Array, gradients: Array, inverses: Array, likelihoods: Array
) -> None:
    """`refit` for every row, after the new reward's log-likelihood was added to what the row's lately were."""
    x, reward = X[len(y) - 1], y[len(y) - 1]
    for row in range(len(ridges)):
        z = np.dot(x, thetas[row])
        likelihoods[row] = EVIDENCE_MEMORY * likelihoods[row] + reward * z - max(z, 0.0) - math.log1p(math.exp(-abs(z)))
        refit(X, y, ridges[row], frees[row], thetas[row], gradients[row], inverses[row])
