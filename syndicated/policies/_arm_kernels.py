"""Compiled arithmetic of models of arms: features in scaled units, scores, and what one reward changes.

The parameters of arm k are theta_k = theta_0 + delta_k: what all arms share, and the arm's own. Both have Gaussian
priors with a diagonal covariance, `prior` of delta_k and `common_prior` of theta_0; models without a shared part have a
`common` of size 0. Every reward is a Gaussian site, a precision and a shift along its row z. With P the covariance of
delta_k given theta_0, and mean = P Σ shift z, a change of a site by (dt, dn) is of rank one for both parts:

    u = P z,  s = z'u,  v = u / prior      P -= dt/(1 + dt s) u u',     mean += (dn - dt z'mean)/(1 + dt s) u
    theta_0 sees the row v,                with the precision dt/(1 + dt s), the shift (dn - dt z'mean)/(1 + dt s)

The logit or reward of a row is then z'mean + v'theta_0 with the variance s + v'Cov(theta_0)v.
"""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated.policies._logistic import logistic_gain, sigmoid
from syndicated.types import Array, Ints

MAX_SCALED = 5.0  # of a feature in scaled units: what is farther out is as far out as this
MIN_CAVITY = 1e-8  # of the precision that is left without a site; with less, the site stays as it is
SCALE = "f8[::1], f8[::1]"  # center, weight
ARMS = "f8[:,::1], f8[:,:,::1], i8[::1]"  # own, covariances, plays
BELIEF = "f8[::1], f8, f8[::1], f8[:,::1], f8[::1]"  # prior, level, common, common_covariance, common_prior
RING = "f8[:,:,::1], f8[:,::1], f8[:,::1], i8[::1]"  # rows, rewards, sites, next_visit
VISITS = 4  # of older rows, for each reward


@compiled("void(f8[::1], f8[::1], f8[::1], f8[::1])")
def scale_row(z: Array, x: Array, center: Array, weight: Array) -> None:
    """z = [1, (x - center) weight], cut off far out. Columns that are not known yet are left out, missing ones are 0.

    A number that is not finite is not hidden by the cut.
    """
    finite = 0.0
    for j in range(len(x)):
        finite += 0.0 * x[j]
    z[0] = 1.0 + finite
    for j in range(len(center)):
        value = ((x[j] if j < len(x) else 0.0) - center[j]) * weight[j]
        z[j + 1] = min(max(value, -MAX_SCALED), MAX_SCALED)


@compiled("f8(f8[:,::1], f8[::1], f8[::1])")
def times(P: Array, z: Array, u: Array) -> float:
    """u = P z for a symmetric P, by rows so that zeros are free; gives z'u."""
    for i in range(len(z)):
        u[i] = 0.0
    for j in range(len(z)):
        if z[j] != 0.0:
            for i in range(len(z)):
                u[i] += z[j] * P[j, i]
    total = 0.0
    for i in range(len(z)):
        total += z[i] * u[i]
    return total


@compiled("f8(f8[::1], f8[::1])")
def inner(a: Array, b: Array) -> float:
    """a'b."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled("void(f8[:,::1], f8[::1], f8)")
def add_outer(P: Array, u: Array, factor: float) -> None:
    """P += factor u u'."""
    for i in range(len(u)):
        along = factor * u[i]
        for j in range(len(u)):
            P[i, j] += along * u[j]


@compiled(f"void(f8[::1], f8[::1], f8[:,::1], i8[::1], {SCALE}, {ARMS}, {BELIEF})")
def beliefs(
    means: Array,
    sds: Array,
    X: Array,
    numbers: Ints,
    center: Array,
    weight: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    prior: Array,
    level: float,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> None:
    """The mean and the standard deviation of the logit or reward of every arm."""
    D = len(prior)
    z, u, w = np.empty(D), np.empty(D), np.empty(D)
    for a in range(len(numbers)):
        scale_row(z, X[a], center, weight)
        k, m = numbers[a], 0.0
        if k < 0 or plays[k] == 0:
            for i in range(D):
                u[i] = prior[i] * z[i]
            s = inner(z, u)
        else:
            s, m = times(covariances[k], z, u), inner(z, own[k])
        if len(common):
            for i in range(D):
                u[i] /= prior[i]
            s += times(common_covariance, u, w)
            m += inner(u, common) + level * w[0] / common_prior[0]
        else:
            m += level * u[0] / prior[0]
        means[a], sds[a] = m, math.sqrt(max(s, 0.0))


@compiled("void(f8[::1], i8[::1], i8[::1], i8, f8)")
def widen_neglected(sds: Array, numbers: Ints, plays: Ints, count: int, strength: float) -> None:
    """Standard deviations grow with how much less than its share of all plays an arm had, as in the index of MOSS."""
    for a in range(len(sds)):
        own = plays[numbers[a]] if numbers[a] >= 0 else 0
        missed = count / (len(sds) * max(own, 1))
        if missed > 1.0:
            sds[a] *= math.sqrt(1.0 + strength * math.log(missed))


@compiled(f"void(f8[::1], f8[:,::1], {SCALE}, f8[:,::1], f8[::1])")
def along(out: Array, X: Array, center: Array, weight: Array, P: Array, direction: Array) -> None:
    """z'direction / sqrt(z'P z) of every row."""
    z, u = np.empty(len(direction)), np.empty(len(direction))
    for a in range(len(X)):
        scale_row(z, X[a], center, weight)
        out[a] = inner(z, direction) / math.sqrt(max(times(P, z, u), 1e-300))


@compiled(f"f8(f8[::1], f8, b1, f8[::1], i8, f8[::1], f8[:,::1], {BELIEF})")
def visit(
    z: Array,
    reward: float,
    is_logistic: bool,
    sites: Array,
    place: int,
    mean: Array,
    P: Array,
    prior: Array,
    level: float,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> float:
    """Bring the site of one reward up to date, and the models with it; gives its squared error in standard units.

    The precision and the shift of the site stand side by side in `sites`.
    """
    D = len(z)
    u, v, w = np.empty(D), np.empty(D), np.empty(D)
    s, own = times(P, z, u), inner(z, mean)
    m, total = own, s
    if len(common):
        for i in range(D):
            v[i] = u[i] / prior[i]
        total += times(common_covariance, v, w)
        m += inner(v, common) + level * w[0] / common_prior[0]
    else:
        m += level * u[0] / prior[0]
    precision, shift = 1.0, reward
    if is_logistic:
        cavity = 1.0 - total * sites[2 * place]
        if cavity < MIN_CAVITY:
            return 0.0
        center, spread = (m - total * sites[2 * place + 1]) / cavity, total / cavity
        logit = center + spread * logistic_gain(center, spread, reward)
        q = sigmoid(logit)
        precision = q * (1.0 - q)
        shift = precision * logit + reward - q
    dt, dn = precision - sites[2 * place], shift - sites[2 * place + 1]
    sites[2 * place], sites[2 * place + 1] = precision, shift
    f = 1.0 + dt * s
    kappa, e = dt / f, (dn - dt * own) / f
    if len(common):
        c = 1.0 + kappa * (total - s)
        gain = (e - kappa * inner(v, common)) / c
        for i in range(D):
            common[i] += gain * w[i]
        add_outer(common_covariance, w, -kappa / c)
    for i in range(D):
        mean[i] += e * u[i]
    add_outer(P, u, -kappa)
    error: float = reward - m
    return error * error / (1.0 + total)


@compiled(f"f8(i8, f8[::1], f8, b1, {SCALE}, {ARMS}, {BELIEF}, {RING})")
def learn_row(
    k: int,
    x: Array,
    reward: float,
    is_logistic: bool,
    center: Array,
    weight: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    prior: Array,
    level: float,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
    rows: Array,
    rewards: Array,
    sites: Array,
    next_visit: Ints,
) -> float:
    """One reward of arm k; gives its squared error, from before it was learned, in standard units.

    The row is written over the oldest that the arm still has, whose site stays in the model for good. A few of the
    others are then visited, whose sites were made when less was known; a linear model has no others.
    """
    z, P, mean = np.empty(len(prior)), covariances[k], own[k]
    if plays[k] == 0:
        for i in range(len(prior)):
            mean[i], P[i, :], P[i, i] = 0.0, 0.0, prior[i]
    place = plays[k] % rewards.shape[1]
    plays[k] += 1
    rewards[k, place] = reward
    for j in range(rows.shape[2]):
        rows[k, place, j] = x[j] if j < len(x) else 0.0
    sites[k, 2 * place], sites[k, 2 * place + 1] = 0.0, 0.0
    error, live = 0.0, min(plays[k], rewards.shape[1])
    for turn in range(min(1 + VISITS, live)):
        if turn > 0:
            place = next_visit[k] % live
            next_visit[k] = place + 1
        scale_row(z, rows[k, place], center, weight)
        found = visit(
            z,
            rewards[k, place],
            is_logistic,
            sites[k],
            place,
            mean,
            P,
            prior,
            level,
            common,
            common_covariance,
            common_prior,
        )
        error = found if turn == 0 else error
    return error


@compiled("void(f8[::1], f8[:,::1], f8[::1], i8)")
def observe(x: Array, columns: Array, weight: Array, count: int) -> None:
    """The mean of every column, and the sum of squares around it.

    `count` is the number of rows, this one included. A column that had only been 0 is weighed by its first value.
    """
    for j in range(columns.shape[1]):
        value = x[j] if j < len(x) else 0.0
        apart = value - columns[0, j]
        columns[0, j] += apart / count
        columns[1, j] += apart * (value - columns[0, j])
        if value != 0.0 and weight[j] == 0.0:
            weight[j] = 1.0 / abs(value)
