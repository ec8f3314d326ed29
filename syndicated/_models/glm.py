"""Generalised linear models, fitted exactly: regularised maximum likelihood by warm-started Newton steps.

    minimise  Σ [b(x'theta) - y x'theta] + Σ_j ridge_j theta_j²/2,   b' = mu, the expected reward

    link      mu(z)             b(z)                  rewards
    logistic  sigmoid(z)        log(1 + e^z)          0 to 1
    probit    Phi(z)            z Phi(z) + phi(z)     0 to 1
    poisson   e^z               e^z                   0 and more
    identity  z                 z²/2                  any

So Σ x (mu(x'theta) - y) + ridge * theta = 0, the equation of Filippi et al. (2010) and Li et al. (2017) for any rising
mu; it is the maximum of the likelihood for all but the probit link. Only the first `free` entries of theta are fitted;
the others stay 0.

One observation moves the optimum little. So the first step needs no pass over the data (the gradient is the
last one plus the new observation's), the inverse Hessian is carried along by a rank-one update and corrected by what
each step shows of it (BFGS), and a pass is needed only to see that the gradient has vanished: two or three in all. Of
many observations one is enough: a step leaves about the share of the gradient that the last one left, within a factor
of 5, and where that is far less than the tolerance, the pass of the next observation is the one that sees it. Where
steps stall, Newton steps with step-halving follow.
"""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated._models.kernels import EVIDENCE_MEMORY, copy, update_inverse
from syndicated._models.logistic import MAX_EXPONENT, sigmoid, sigmoids
from syndicated._validation import MAX_MAGNITUDE, shorten
from syndicated.errors import InputError
from syndicated.types import Array, Ints

LOGISTIC, PROBIT, POISSON, IDENTITY = range(4)
LINKS = {"logistic": LOGISTIC, "probit": PROBIT, "poisson": POISSON, "identity": IDENTITY}
REWARDS = ((0.0, 1.0), (0.0, 1.0), (0.0, MAX_MAGNITUDE), (-MAX_MAGNITUDE, MAX_MAGNITUDE))  # by link
TOLERANCE = 1e-6  # of the gradient's largest entry
UNSEEN = 0.1  # of the tolerance: what a step may be expected to leave if no pass looks at it
MIN_UNSEEN_ROWS = 500  # observations before that: of few, passes are cheap, and shares less alike
QUICK_STEPS = 8  # steps with the carried inverse before the Hessian is computed anew
NEWTON_STEPS = 100


def check_link(link: object) -> None:
    """Refuse what is not the name of a link."""
    if link not in LINKS:
        raise InputError(f"link must be one of {', '.join(LINKS)}; got {shorten(link)}")


@compiled("f8(i8, f8)")
def mean_of(link: int, z: float) -> float:
    """mu(z)."""
    if link == LOGISTIC:
        return sigmoid(z)
    if link == PROBIT:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))
    if link == POISSON:
        return math.exp(min(z, MAX_EXPONENT))
    return z


@compiled("f8(i8, f8)")
def slope_of(link: int, z: float) -> float:
    """mu'(z)."""
    if link == LOGISTIC:
        p = sigmoid(z)
        return p * (1.0 - p)
    if link == PROBIT:
        return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    if link == POISSON:
        return math.exp(min(z, MAX_EXPONENT))
    return 1.0


@compiled("f8(i8, f8)")
def potential_of(link: int, z: float) -> float:
    """b(z)."""
    if link == LOGISTIC:
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))
    if link == PROBIT:
        return z * mean_of(link, z) + slope_of(link, z)
    if link == POISSON:
        return math.exp(min(z, MAX_EXPONENT))
    return 0.5 * z * z


@compiled("void(i8, f8[::1])")
def put_means(link: int, z: Array) -> None:
    """mu of every entry, in its place."""
    if link == LOGISTIC:
        sigmoids(z)
    else:
        for i in range(len(z)):
            z[i] = mean_of(link, z[i])


@compiled("f8[::1](i8, f8[::1])")
def means_of(link: int, z: Array) -> Array:
    """mu of every entry."""
    out = z.copy()
    put_means(link, out)
    return out


@compiled("f8[::1](i8, f8[:,::1], f8[::1], f8[::1], f8[::1], i8)")
def gradient(link: int, X: Array, y: Array, ridge: Array, theta: Array, free: int) -> Array:
    """Σ x (mu(x'theta) - y) + ridge * theta, in the free entries."""
    error = X @ theta
    put_means(link, error)
    error -= y
    g: Array = error @ X + ridge * theta
    g[free:] = 0.0
    return g


@compiled("f8[:,::1](i8, f8[:,::1], f8[::1], f8[::1], i8)")
def hessian(link: int, X: Array, ridge: Array, theta: Array, free: int) -> Array:
    """Σ x x' mu'(x'theta) + diag(ridge), with nothing between the free entries and the others."""
    z = X @ theta
    weighted = X.copy()
    for s in range(len(X)):
        weight = slope_of(link, z[s])
        for i in range(X.shape[1]):
            weighted[s, i] *= weight
    H: Array = X.T @ weighted + np.diag(ridge)
    H[:free, free:] = 0.0
    H[free:, :free] = 0.0
    return H


@compiled("f8(i8, f8[:,::1], f8[::1], f8[::1], f8[::1])")
def loss(link: int, X: Array, y: Array, ridge: Array, theta: Array) -> float:
    """The negative penalised log-likelihood."""
    total: float = 0.5 * np.dot(ridge * theta, theta)
    z = X @ theta
    for s in range(len(y)):
        total += potential_of(link, z[s]) - y[s] * z[s]
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


@compiled("void(i8, f8[:,::1], f8[::1], f8[::1], i8, f8[::1], f8[::1], f8[:,::1])")
def newton(link: int, X: Array, y: Array, ridge: Array, free: int, theta: Array, g: Array, inverse: Array) -> None:
    """Fit in place by full Newton steps, halved while the loss would rise; leaves gradient and inverse behind."""
    copy(g, gradient(link, X, y, ridge, theta, free))
    _copy_rows(inverse, invert(hessian(link, X, ridge, theta, free)))
    value = loss(link, X, y, ridge, theta)
    for _ in range(NEWTON_STEPS):
        if _largest(g) <= TOLERANCE:
            return
        step = inverse @ g
        lower = loss(link, X, y, ridge, theta - step)
        while lower > value and _largest(step) > 1e-15:
            step *= 0.5
            lower = loss(link, X, y, ridge, theta - step)
        theta -= step
        value = lower
        copy(g, gradient(link, X, y, ridge, theta, free))
        if _largest(g) > TOLERANCE:
            _copy_rows(inverse, invert(hessian(link, X, ridge, theta, free)))


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


@compiled("void(i8, f8[:,::1], f8[::1], f8[::1], i8, f8[::1], f8[::1], f8[:,::1])")
def refit(link: int, X: Array, y: Array, ridge: Array, free: int, theta: Array, g: Array, inverse: Array) -> None:
    """Fit in place after the last row of X was added to what theta, g and inverse stand for."""
    x = X[len(y) - 1].copy()
    x[free:] = 0.0
    z = np.dot(x, theta)
    g += (mean_of(link, z) - y[len(y) - 1]) * x
    update_inverse(inverse, math.sqrt(slope_of(link, z)) * x, 1.0)
    before, size = theta.copy(), _largest(g)
    for _ in range(QUICK_STEPS):
        step, last = -(inverse @ g), g.copy()
        theta += step
        copy(g, gradient(link, X, y, ridge, theta, free))
        left = _largest(g)
        if left <= TOLERANCE:
            return
        correct(inverse, step, g - last)
        if len(y) >= MIN_UNSEEN_ROWS and left * left <= UNSEEN * TOLERANCE * _largest(last):
            theta -= inverse @ g
            g[:] = 0.0
            return
    if not _largest(g) <= size:  # NaN too
        copy(theta, before)
    newton(link, X, y, ridge, free, theta, g, inverse)


@compiled("void(i8, f8[:,::1], f8[::1], f8[:,::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,:,::1], f8[::1])")
def refit_all(
    link: int,
    X: Array,
    y: Array,
    ridges: Array,
    frees: Ints,
    thetas: Array,
    gradients: Array,
    inverses: Array,
    likelihoods: Array,
) -> None:
    """`refit` for every row, after the new reward's log-likelihood was added to what the row's lately were."""
    x, reward = X[len(y) - 1], y[len(y) - 1]
    for row in range(len(ridges)):
        z = np.dot(x, thetas[row])
        likelihoods[row] = EVIDENCE_MEMORY * likelihoods[row] + reward * z - potential_of(link, z)
        refit(link, X, y, ridges[row], frees[row], thetas[row], gradients[row], inverses[row])
