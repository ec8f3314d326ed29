"""Compiled arithmetic of models of arms: features in scaled units, scores, and what one reward changes.

The parameters of arm k are theta_k = theta_0 + delta_k: what all arms share, and the arm's own. Both have Gaussian
priors with a diagonal covariance, `prior` of delta_k and `common_prior` of theta_0; models without a shared part have a
`common` of size 0. Every reward is a Gaussian site, a precision and a shift along its row z. With P the covariance of
delta_k given theta_0, and mean = P Σ shift z, a change of a site by (dt, dn) is of rank one for both parts:

    u = P z,  s = z'u,  v = u / prior      P -= dt/(1 + dt s) u u',     mean += (dn - dt z'mean)/(1 + dt s) u
    theta_0 sees the row v,                with the precision dt/(1 + dt s), the shift (dn - dt z'mean)/(1 + dt s)

The logit or reward of a row is then z'mean + v'theta_0 with the variance s + v'Cov(theta_0)v.

Arms that are `behind` have their models in the scale, and with the prior, of before: see `ArmModels`. What all arms
share is in the scale of now.
"""

import math

import numpy as np
import numpy.typing as npt

from syndicated._argmax import best
from syndicated._compiled import compiled
from syndicated._models.logistic import logistic_gain, sigmoid
from syndicated._models.scaled_kernels import ALARM, LEVEL_MEMORY, MAX_GAIN, MAX_SIZES, NO_LIMIT, largest_usual
from syndicated.streams import Word, fill_normals, fill_uniforms
from syndicated.types import Array, Ints

Flags = npt.NDArray[np.bool_]

MAX_SCALED = 5.0  # of a feature in scaled units: what is farther out is as far out as this
MIN_CAVITY = 1e-8  # of the precision that is left without a site; with less, the site stays as it is
LEFT = 1.0  # in place of a site's precision, which is at most 1/4: what it said stays as it is
NOW, BEFORE = range(2)  # the entries of centers, weights and priors
SCALES = "f8[:,::1], f8[:,::1]"  # centers, weights
ARMS = "f8[:,::1], f8[:,:,::1], i8[::1], i8[::1]"  # own, covariances, plays, behind
BELIEF = "f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1]"  # sums, priors, common, common_covariance, common_prior
TIE_BREAK = 1e-9  # of a standard deviation
# The entries of `ArmModels.sums`; the sizes of the last errors come after them.
ORIGIN, TOTAL, ERRORS, JUDGED, ROWS, CENTRED, SEEN, LIMIT, EXCESS, TIES, LAST, LEARNED, *_LEVEL, SIZES = range(16)
MOVING, FOLLOWING, LEVEL_ALARM = _LEVEL
SUMS = SIZES + MAX_SIZES
RING = "f8[:,:,::1], f8[:,::1], f8[:,::1], i8[::1], f8[:,::1]"  # rows, rewards, sites, next_visit, falls
MODEL = f"Tuple(({SCALES}, {ARMS}, {BELIEF}))"
Model = tuple[Array, Array, Array, Array, Ints, Ints, Array, Array, Array, Array, Array]
Ring = tuple[Array, Array, Array, Ints, Array]
LAST_ERROR, SUSPICION = range(2)  # the entries of an arm's `falls`
MIN_WATCHED = 5  # plays for each parameter: what a model of fewer predicts to be best is so by chance, and pays less
VISITS = 2  # of older rows, for each reward
LAST_OF_ALL = -1e300  # a mean that is below all others, and finite
BOUND_SLACK = 1.0 + 1e-6  # of the largest standard deviation that an arm can have, so that rounding leaves no arm out
ROUNDED = 1e-12  # of scores: those that are no farther apart may be equal after rounding
MIN_CLICK_VARIANCE = 1e-3  # of a reward from 0 to 1: a prediction that is nearly sure may be wrong
MAX_STALE = 0.25  # of a site's precision: how far off it may be before it is replaced


@compiled(f"void(f8[::1], f8[::1], {SCALES}, i8)")
def scale_row(z: Array, x: Array, centers: Array, weights: Array, scale: int) -> None:
    """z = [1, (x - center) weight] in one of the scales, cut off far out.

    Columns that are not known yet are left out, missing ones are 0. A number that is not finite is not hidden by the
    cut.
    """
    finite = 0.0
    for j in range(len(x)):
        finite += 0.0 * x[j]
    z[0] = 1.0 + finite
    for j in range(centers.shape[1]):
        value = ((x[j] if j < len(x) else 0.0) - centers[scale, j]) * weights[scale, j]
        z[j + 1] = min(max(value, -MAX_SCALED), MAX_SCALED)


@compiled("void(f8[::1], f8[:,::1])")
def weigh_by_size(weight: Array, X: Array) -> None:
    """One over the largest size that each column has in these rows; 0 where it is 0 in all, or in none of them."""
    for j in range(len(weight)):
        size = 0.0
        if j < X.shape[1]:
            for a in range(len(X)):
                size = max(size, abs(X[a, j]))
        weight[j] = 1.0 / size if size > 0.0 else 0.0


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
    if factor == 0.0:
        return
    for i in range(len(u)):
        along = factor * u[i]
        for j in range(len(u)):
            P[i, j] += along * u[j]


@compiled("f8(f8[::1])")
def level_of(sums: Array) -> float:
    """What is believed of an arm's level before it is played, from the first reward on: the mean of all rewards."""
    return sums[TOTAL] / sums[ROWS] if sums[CENTRED] > 0.0 and sums[ROWS] > 0.0 else 0.0


@compiled("f8(f8[::1], b1)")
def unit_of(sums: Array, is_logistic: bool) -> float:
    """What standard deviations are multiples of: of logits 1, of rewards the noise that the errors show.

    As long as they show none it is as large as rewards are, so that the order of ties is not rounded away.
    """
    if is_logistic:
        return 1.0
    return math.sqrt(sums[ERRORS] / sums[JUDGED]) if sums[ERRORS] > 0.0 else max(1.0, abs(sums[ORIGIN]))


@compiled(f"void(f8[::1], {SCALES})")
def bring_up(v: Array, centers: Array, weights: Array) -> None:
    """The row that what all arms share sees, from the scale of before to that of now."""
    for j in range(len(v) - 1):
        before, now = weights[BEFORE, j], weights[NOW, j]
        moved = (centers[BEFORE, j] - centers[NOW, j]) * now
        v[j + 1] = moved * v[0] + (v[j + 1] * now / before if before > 0.0 else 0.0)


@compiled(f"void(f8[::1], f8[::1], f8[:,::1], i8[::1], b1[::1], b1, {SCALES}, {ARMS}, {BELIEF})")
def beliefs(
    means: Array,
    sds: Array,
    X: Array,
    numbers: Ints,
    left_out: Flags,
    is_logistic: bool,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> None:
    """The mean and the standard deviation of the logit or reward of every arm; arms that are `left_out` come last.

    `left_out` may be empty: then none is.
    """
    D, level, unit = priors.shape[1], level_of(sums), unit_of(sums, is_logistic)
    z, u, w = np.empty(D), np.empty(D), np.empty(D)
    for a in range(len(numbers)):
        if len(left_out) and left_out[a]:
            means[a], sds[a] = LAST_OF_ALL, 0.0
            continue
        k, m = numbers[a], sums[ORIGIN] + sums[MOVING] * sums[FOLLOWING]
        known = 0 <= k < len(plays) and plays[k] > 0
        scale = behind[k] if known else NOW
        scale_row(z, X[a], centers, weights, scale)
        if not known:
            for i in range(D):
                u[i] = priors[scale, i] * z[i]
            s = inner(z, u)
        else:
            s = times(covariances[k], z, u)
            m += inner(z, own[k])
        if len(common):
            for i in range(D):
                u[i] /= priors[scale, i]
            if scale == BEFORE:
                bring_up(u, centers, weights)
            s += times(common_covariance, u, w)
            m += inner(u, common) + level * w[0] / common_prior[0]
        else:
            m += level * u[0] / priors[scale, 0]
        means[a], sds[a] = m, unit * math.sqrt(max(s, 0.0))


@compiled("f8(i8, i8, f8[::1], f8)")
def neglect(played: int, K: int, sums: Array, look_again: float) -> float:
    """What the standard deviation grows by of an arm that had less than its share of plays, as in the index of MOSS."""
    missed = sums[ROWS] / (K * max(played, 1))
    return math.sqrt(1.0 + look_again * math.log(missed)) if missed > 1.0 else 1.0


@compiled(f"void(b1[::1], f8[:,::1], i8[::1], f8, f8, b1, {SCALES}, {ARMS}, f8[::1], f8[:,::1])")
def find_beaten(
    out: Flags,
    X: Array,
    numbers: Ints,
    boldness: float,
    look_again: float,
    is_logistic: bool,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
) -> None:
    """Which arms with models of their own cannot have the largest score, whatever their standard deviations are.

    None is wider than before anything was known, which takes O(D) to see where the standard deviation takes O(D²).
    """
    K, D, level, unit = len(numbers), priors.shape[1], level_of(sums), unit_of(sums, is_logistic)
    z, most, lead = np.empty(D), np.empty(K), -np.inf
    for a in range(K):
        played = plays[numbers[a]] if 0 <= numbers[a] < len(plays) else 0
        scale = behind[numbers[a]] if played else NOW
        scale_row(z, X[a], centers, weights, scale)
        m, s = level, 0.0
        if played == 0:
            for i in range(D):
                s += priors[scale, i] * z[i] * z[i]
        else:
            theta, P, known = own[numbers[a]], covariances[numbers[a], 0], 0.0
            m = 0.0
            for i in range(D):  # one loop: three sums at the same time take no longer than one
                s += priors[scale, i] * z[i] * z[i]
                m += theta[i] * z[i]
                known += P[i] * z[i]
            m += level * known / priors[scale, 0]
        most[a] = m + boldness * unit * neglect(played, K, sums, look_again) * math.sqrt(s) * BOUND_SLACK
        lead = max(lead, m)
    # Scores also have the origin in them: of a large one, rounding makes many equal, of which the first is best.
    lead -= ROUNDED * (abs(sums[ORIGIN]) + abs(sums[MOVING]) + abs(lead) + unit)
    for a in range(K):
        out[a] = most[a] < lead


@compiled(f"i8(f8[:,::1], f8[::1], f8[:,::1], i8[::1], f8[::1], f8[::1], b1[::1], f8, b1, {SCALES}, {ARMS}, {BELIEF})")
def ucb_scores_of_arms(
    out: Array,
    means: Array,
    X: Array,
    numbers: Ints,
    boldness: Array,
    ties: Array,
    left_out: Flags,
    look_again: float,
    is_logistic: bool,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> int:
    """m + c s for every point and arm, and m; gives how many arms were never played.

    Numbers from 0 to 1 in `ties` put arms that were never played in an order.
    """
    K = len(numbers)
    sds, unknown = np.empty(K), 0
    model = (centers, weights, own, covariances, plays, behind, sums, priors, common, common_covariance, common_prior)
    beliefs(means, sds, X, numbers, left_out, is_logistic, *model)
    for a in range(K):
        played = plays[numbers[a]] if 0 <= numbers[a] < len(plays) else 0
        unknown += played == 0
        sds[a] *= neglect(played, K, sums, look_again)
        if played == 0 and len(ties):
            sds[a] *= 1.0 + TIE_BREAK * ties[a]
        for n in range(len(boldness)):
            out[n, a] = means[a] + boldness[n] * sds[a]
    return unknown


@compiled(
    f"void(f8[:,::1], f8[:,::1], i8[::1], f8[::1], b1[::1], f8, f8, b1, b1, u8, u8, u8, u8, {SCALES}, {ARMS}, {BELIEF})"
)
def drawn_scores_of_arms(
    out: Array,
    X: Array,
    numbers: Ints,
    boldness: Array,
    left_out: Flags,
    look_again: float,
    wide: float,
    breaks_ties: bool,
    is_logistic: bool,
    seed: Word,
    purpose: Word,
    round_: Word,
    block: Word,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> None:
    """`ucb_scores_of_arms`, with uniforms for ties if several arms were never played and ties are to be broken.

    If arms are known, the bonus of each becomes wider or narrower by `wide` times a normal draw of its own.
    """
    K, means = len(numbers), np.empty(len(numbers))
    model = (centers, weights, own, covariances, plays, behind, sums, priors, common, common_covariance, common_prior)
    given = (left_out, look_again, is_logistic, *model)
    unknown = ucb_scores_of_arms(out, means, X, numbers, boldness, np.empty(0), *given)
    if unknown > 1 and breaks_ties:
        ties = np.empty(K)
        fill_uniforms(ties, seed, purpose, round_, block)
        block += np.uint64((K + 3) // 4)
        ucb_scores_of_arms(out, means, X, numbers, boldness, ties, *given)
    if wide > 0.0 and unknown < K:
        draws, in_order = np.empty(K), np.argsort(numbers, kind="mergesort")
        fill_normals(draws, seed, purpose, round_, block)
        for n in range(len(boldness)):
            for place in range(K):
                a = in_order[place]
                out[n, a] = means[a] + (out[n, a] - means[a]) * (1.0 + wide * draws[place])


@compiled(f"void(i8[::1], f8[:,::1], i8[::1], f8[::1], f8, f8, b1, u8, u8, u8, u8, {SCALES}, {ARMS}, {BELIEF})")
def best_of_arms(
    out: Ints,
    X: Array,
    numbers: Ints,
    boldness: Array,
    look_again: float,
    wide: float,
    is_logistic: bool,
    seed: Word,
    purpose: Word,
    round_: Word,
    block: Word,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> None:
    """The arm with the largest of `drawn_scores_of_arms` for every point, ties being broken."""
    K = len(numbers)
    arms = (centers, weights, own, covariances, plays, behind, sums, priors)
    belief = (common, common_covariance, common_prior)
    scores, beaten = np.empty((len(boldness), K)), np.zeros(K, dtype=np.bool_)
    if len(common) == 0 and wide == 0.0:
        find_beaten(beaten, X, numbers, boldness.max(), look_again, is_logistic, *arms)
    given = (beaten, look_again, wide, True, is_logistic, seed, purpose, round_, block, *arms, *belief)
    drawn_scores_of_arms(scores, X, numbers, boldness, *given)
    best(out, scores, np.empty((0, 0)))


@compiled(f"void(i8[::1], f8[:,::1], f8[::1], i8[::1], f8[::1], f8, f8, b1, u8, u8, i8, {MODEL})")
def best_of_alike(
    out: Ints,
    X: Array,
    x: Array,
    numbers: Ints,
    boldness: Array,
    look_again: float,
    spread: float,
    is_logistic: bool,
    seed: Word,
    purpose: Word,
    round_: int,
    model: Model,
) -> None:
    """`best_of_arms` of arms that all have the row x, which is written into X.

    `wide` is the share of decisions that wait for their rewards, times `spread`.
    """
    for a in range(len(X)):
        for j in range(len(x)):
            X[a, j] = x[j]
    count = int(model[6][ROWS])
    wide = spread * (round_ - count) / round_ if round_ > count else 0.0
    address = (seed, purpose, np.uint64(round_), np.uint64(0))
    given = (boldness, look_again, wide, is_logistic, *address, *model)
    best_of_arms(out, X, numbers, *given)


@compiled(f"void(i8[::1], f8[:,::1], i8[::1], f8[::1], f8, f8, b1, u8, u8, i8, {MODEL})")
def best_of_arms_many(
    out: Ints,
    rows_of_rounds: Array,
    numbers: Ints,
    boldness: Array,
    look_again: float,
    spread: float,
    is_logistic: bool,
    seed: Word,
    purpose: Word,
    round_: int,
    model: Model,
) -> None:
    """`best_of_alike` in one round after the other."""
    X = np.empty((len(numbers), rows_of_rounds.shape[1]))
    for t in range(len(rows_of_rounds)):
        asked = (boldness, look_again, spread, is_logistic, seed, purpose, round_ + t, model)
        best_of_alike(out[t : t + 1], X, rows_of_rounds[t], numbers, *asked)


@compiled(f"void(f8[::1], f8[:,::1], {SCALES}, f8[:,::1], f8[::1])")
def along(out: Array, X: Array, centers: Array, weights: Array, P: Array, direction: Array) -> None:
    """z'direction / sqrt(z'P z) of every row."""
    z, u = np.empty(len(direction)), np.empty(len(direction))
    for a in range(len(X)):
        scale_row(z, X[a], centers, weights, NOW)
        out[a] = inner(z, direction) / math.sqrt(max(times(P, z, u), 1e-300))


@compiled("f8(f8[::1], f8, f8)")
def usual_error(sums: Array, error: float, scale: float) -> float:
    """The error of a linear prediction, cut to the largest usual one; its size is remembered."""
    size, sizes = abs(error) / math.sqrt(scale), sums[SIZES:]
    sizes[int(sums[JUDGED]) % len(sizes)] = size
    sums[SEEN] = max(sums[SEEN], sums[JUDGED] + 1.0)
    if size > sums[LIMIT] > NO_LIMIT:
        sums[LIMIT] = largest_usual(sizes, int(sums[SEEN]), sums[TIES])
    usual = error if sums[LIMIT] == NO_LIMIT else math.copysign(min(size, sums[LIMIT]) * math.sqrt(scale), error)
    sums[EXCESS] = error - usual
    return usual


@compiled("void(f8[::1], f8, f8, f8)")
def watch_level(sums: Array, error: float, usual: float, scale: float) -> None:
    """Follow the level of all rewards if it moves; else sum up whether the last errors tell this one, as a CUSUM."""
    if sums[FOLLOWING] > 0.0:
        sums[MOVING] += (1.0 - LEVEL_MEMORY) * usual
        return
    m = sums[MOVING]
    sums[MOVING] += (1.0 - LEVEL_MEMORY) * (usual - m)
    if sums[ERRORS] > 0.0:
        gain = (2.0 * error - m) * m * sums[JUDGED] / (2.0 * scale * sums[ERRORS])
        sums[LEVEL_ALARM] = max(0.0, sums[LEVEL_ALARM] + min(gain, MAX_GAIN))


@compiled("void(f8[::1], f8)")
def watch_arm(fall: Array, error: float) -> None:
    """Sum up whether an arm pays less than is predicted, as its last errors did, as a CUSUM: `error` has variance 1.

    More than is predicted is no reason to forget: such an arm is played, and learns.
    """
    m = fall[LAST_ERROR]
    fall[LAST_ERROR] += (1.0 - LEVEL_MEMORY) * (error - m)
    if m < 0.0:
        fall[SUSPICION] = max(0.0, fall[SUSPICION] + min((error - 0.5 * m) * m, MAX_GAIN))


@compiled(f"f8(f8[::1], f8, b1, f8[::1], i8, f8[::1], f8[:,::1], i8, {SCALES}, {BELIEF})")
def visit(
    z: Array,
    reward: float,
    is_logistic: bool,
    sites: Array,
    place: int,
    mean: Array,
    P: Array,
    scale: int,
    centers: Array,
    weights: Array,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
) -> float:
    """Bring the site of one reward up to date, and the models with it; gives its error in standard units.

    A linear reward far from its prediction counts as one at the largest usual distance. The precision and the shift of
    the site stand side by side in `sites`. A precision that has hardly changed stays: the mean comes to the same fit by
    the shift alone, and the covariance, which is most of the work, is left as it is.
    """
    D, prior = len(z), priors[scale]
    u, v, w = np.empty(D), np.empty(D), np.empty(D)
    s, own = times(P, z, u), inner(z, mean)
    m, total = own, s
    if len(common):
        for i in range(D):
            v[i] = u[i] / prior[i]
        if scale == BEFORE:
            bring_up(v, centers, weights)
        total += times(common_covariance, v, w)
        m += inner(v, common) + level_of(sums) * w[0] / common_prior[0]
    else:
        m += level_of(sums) * u[0] / prior[0]
    if not is_logistic:
        usual = usual_error(sums, reward - m, 1.0 + total)
        watch_level(sums, reward - m, usual, 1.0 + total)
        sums[LEARNED] = reward = m + usual
    precision, shift = 1.0, reward
    error: float = (reward - m) / math.sqrt(1.0 + total)
    if is_logistic:
        p = sigmoid(m)
        own_variance = max(p * (1.0 - p), MIN_CLICK_VARIANCE)
        error = (reward - p) / math.sqrt(own_variance + own_variance * own_variance * total)
        cavity = 1.0 - total * sites[2 * place]
        if cavity < MIN_CAVITY or sites[2 * place] == LEFT:
            return error
        center, spread = (m - total * sites[2 * place + 1]) / cavity, total / cavity
        logit = center + spread * logistic_gain(center, spread, reward)
        q = sigmoid(logit)
        precision = q * (1.0 - q)
        if abs(precision - sites[2 * place]) < MAX_STALE * sites[2 * place]:
            precision = sites[2 * place]
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
    return error


@compiled(f"void(i8[::1], {SCALES}, i8[::1], f8[:,:,::1], f8[:,::1])")
def leave_cut_rows(arms: Ints, centers: Array, weights: Array, plays: Ints, rows: Array, sites: Array) -> None:
    """Leave the sites of these arms' rows for good that are cut in one of the two scales."""
    for k in arms:
        for place in range(min(plays[k], rows.shape[1])):
            for j in range(rows.shape[2]):
                x = rows[k, place, j]
                before, now = (x - centers[BEFORE, j]) * weights[BEFORE, j], (x - centers[NOW, j]) * weights[NOW, j]
                if max(abs(before), abs(now)) > MAX_SCALED:
                    sites[k, 2 * place] = LEFT
                    break


@compiled("void(f8[::1], f8[:,::1])")
def weigh_first_values(x: Array, weights: Array) -> None:
    """A column that had only been 0, such as that of a new category, is weighed by its first value.

    Before the row is learned: visits would find it elsewhere than it was put.
    """
    for j in range(len(x)):
        if x[j] != 0.0 and weights[NOW, j] == 0.0:
            weights[:, j] = 1.0 / abs(x[j])


@compiled("void(f8[::1], f8[:,::1], f8[::1])")
def observe(x: Array, columns: Array, sums: Array) -> None:
    """Count a row that was learned, and its reward: the mean of every column, and the sum of squares around it."""
    sums[ROWS] += 1.0
    sums[TOTAL] += sums[LEARNED]
    count = sums[ROWS]
    for j in range(columns.shape[1]):
        value = x[j] if j < len(x) else 0.0
        apart = value - columns[0, j]
        columns[0, j] += apart / count
        columns[1, j] += apart * (value - columns[0, j])


@compiled(f"void(i8, f8[::1], f8, b1, {SCALES}, {ARMS}, {BELIEF}, {RING})")
def learn_row(
    k: int,
    x: Array,
    reward: float,
    is_logistic: bool,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
    rows: Array,
    rewards: Array,
    sites: Array,
    next_visit: Ints,
    falls: Array,
) -> None:
    """One reward of arm k, counted from the first; its squared error, from before it was learned, goes into the sums.

    The row is written over the oldest that the arm still has, whose site stays in the model for good. A few of the
    others are then visited, whose sites were made when less was known; a linear model has no others.
    """
    D, P, mean = priors.shape[1], covariances[k], own[k]
    z = np.empty(D)
    if plays[k] == 0:
        for i in range(D):
            mean[i], P[i, :], P[i, i] = 0.0, 0.0, priors[NOW, i]
    if not is_logistic:
        sums[TIES] += reward == sums[LAST]
        sums[LAST] = reward
        reward -= sums[MOVING] * sums[FOLLOWING]
    place = plays[k] % rewards.shape[1]
    plays[k] += 1
    rewards[k, place] = reward
    for j in range(rows.shape[2]):
        rows[k, place, j] = x[j] if j < len(x) else 0.0
    sites[k, 2 * place], sites[k, 2 * place + 1] = 0.0, 0.0
    live = min(plays[k], rewards.shape[1])
    for turn in range(min(1 + VISITS, live)):
        if turn > 0:
            place = next_visit[k] % live
            next_visit[k] = place + 1
        scale_row(z, rows[k, place], centers, weights, behind[k])
        belief = (behind[k], centers, weights, sums, priors, common, common_covariance, common_prior)
        error = visit(z, rewards[k, place], is_logistic, sites[k], place, mean, P, *belief)
        if turn == 0:
            if plays[k] > MIN_WATCHED * D:
                watch_arm(falls[k], error if is_logistic else error / unit_of(sums, is_logistic))
            sums[ERRORS] += error * error
            sums[JUDGED] += 1.0


@compiled(f"void(i8[::1], f8[:,::1], f8[::1], b1, {SCALES}, {ARMS}, {BELIEF}, {RING})")
def learn_rows(
    numbers: Ints,
    X: Array,
    given: Array,
    is_logistic: bool,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
    rows: Array,
    rewards: Array,
    sites: Array,
    next_visit: Ints,
    falls: Array,
) -> None:
    """The rewards of several rows in turn, counted; those of an arm below 0 are left out."""
    model = (centers, weights, own, covariances, plays, behind, sums, priors, common, common_covariance, common_prior)
    for n in range(len(numbers)):
        if numbers[n] >= 0:
            learn_row(numbers[n], X[n], given[n], is_logistic, *model, rows, rewards, sites, next_visit, falls)
            sums[TOTAL] += sums[LEARNED]
            sums[ROWS] += 1.0


@compiled(f"i8(i8, f8[::1], f8, b1, f8[:,::1], {SCALES}, {ARMS}, {BELIEF}, {RING})")
def learn_reward(
    k: int,
    x: Array,
    reward: float,
    is_logistic: bool,
    columns: Array,
    centers: Array,
    weights: Array,
    own: Array,
    covariances: Array,
    plays: Ints,
    behind: Ints,
    sums: Array,
    priors: Array,
    common: Array,
    common_covariance: Array,
    common_prior: Array,
    rows: Array,
    rewards: Array,
    sites: Array,
    next_visit: Ints,
    falls: Array,
) -> int:
    """A reward of arm k as it came: into the models, and into what was seen of rows; gives how many there were."""
    if sums[ROWS] == 0.0 and sums[CENTRED] > 0.0:
        sums[ORIGIN] = reward
    reward -= sums[ORIGIN]
    weigh_first_values(x, weights)
    model = (centers, weights, own, covariances, plays, behind, sums, priors, common, common_covariance, common_prior)
    learn_row(k, x, reward, is_logistic, *model, rows, rewards, sites, next_visit, falls)
    observe(x, columns, sums)
    return int(sums[ROWS])


@compiled(f"i8(i8[::1], f8[:,::1], f8[::1], b1, i8, i8[::1], f8[:,::1], {MODEL}, Tuple(({RING})))")
def learn_rewards(
    numbers: Ints,
    X: Array,
    given: Array,
    is_logistic: bool,
    due: int,
    last: Ints,
    columns: Array,
    model: Model,
    ring: Ring,
) -> int:
    """`learn_reward` one after the other, until so many are due, an alarm, or an arm that has no place: how many."""
    plays, sums, falls, learned = model[4], model[6], ring[4], model + ring
    for n in range(len(numbers)):
        k = numbers[n]
        if k >= len(plays):
            return n
        last[k] = learn_reward(k, X[n], given[n], is_logistic, columns, *learned)
        if last[k] >= due or max(sums[LEVEL_ALARM], falls[k, SUSPICION]) > ALARM:
            return n + 1
    return len(numbers)


@compiled(
    f"UniTuple(i8, 2)(i8[::1], f8[:,::1], i8[::1], i8[::1], f8[::1], f8[::1], f8, f8, b1, u8, u8, i8, i8, i8[::1], "
    f"f8[:,::1], {MODEL}, Tuple(({RING})))"
)
def replay_arms(
    out: Ints,
    rows_of_rounds: Array,
    numbers: Ints,
    places: Ints,
    given: Array,
    boldness: Array,
    look_again: float,
    spread: float,
    is_logistic: bool,
    seed: Word,
    purpose: Word,
    round_: int,
    due: int,
    last: Ints,
    columns: Array,
    model: Model,
    ring: Ring,
) -> tuple[int, int]:
    """`best_of_alike` in one round after the other, and `learn_reward` where it is the arm that was played.

    Until so many rewards are due, an alarm, the first reward of an arm, or scores that are not finite: how many rounds,
    and the arm whose reward was the reason, or -1.
    """
    plays, sums, falls, learned = model[4], model[6], ring[4], model + ring
    X = np.empty((len(numbers), rows_of_rounds.shape[1]))
    for t in range(len(rows_of_rounds)):
        asked = (boldness, look_again, spread, is_logistic, seed, purpose, round_ + t, model)
        best_of_alike(out[t : t + 1], X, rows_of_rounds[t], numbers, *asked)
        if out[t] < 0:
            return t, -1
        if out[t] != places[t]:
            continue
        k = numbers[out[t]]
        if not 0 <= k < len(plays):
            return t, -1
        last[k] = learn_reward(k, rows_of_rounds[t], given[t], is_logistic, columns, *learned)
        if last[k] >= due or max(sums[LEVEL_ALARM], falls[k, SUSPICION]) > ALARM:
            return t + 1, k
    return len(rows_of_rounds), -1
