"""Compiled steps of the ridge model in the data's own units."""

import math

import numpy as np

from syndicated._argmax import best
from syndicated._compiled import compiled
from syndicated._models.kernels import (
    break_ties,
    linear_parts,
    solve_lower,
    solve_upper,
    ucb_scores,
    update_factor,
)
from syndicated._models.known_rows import (
    FEATURES,
    MAX_ROWS,
    MEAN,
    MEAN_BEFORE,
    PLAYS,
    PLAYS_BEFORE,
    SLOTS,
    own_effects,
    own_share,
    recall,
)
from syndicated.types import Array, Ints

# The places of `ScaledRidge.sums`.
TOTAL, RSS, NOT_ZERO, TIES, LAST, LIMIT, EXCESS, MOVING, FOLLOWING, LEVEL_ALARM, DRIFT_ALARM = range(11)
NEW_SHARE, OWN, REACH, NEAR, CHECKED, SHIFT, NOISE_BEFORE, ALIKE, POSSIBLE = range(11, 20)
SUMS = POSSIBLE + 1
DRIFT_MEMORY, LEVEL_MEMORY = 0.98, 0.9  # what a round leaves of what was off before
MIN_WATCHED = 50  # observations before drift is looked for
ALARM = 10.0  # and log N: the suspicion of change at which the model starts again
MAX_GAIN = 2.0  # of one reward for the suspicion that the world has changed
MAX_SIZES = 256  # errors that are remembered: what is usual is what these show
MIN_SIZES = 20  # errors before anything is unusual
MAX_OUTLIERS = 3  # of the errors that are remembered: more are no outliers
FEW_ERRORS = 5.0  # by how many their noise is taken to be larger: 1 + 5/N times its variance
MAX_NEW_SHARE = 0.5  # of rows, where they come back
NEW_DISCOUNT = 0.8  # of boldness where all rows are new: they explore by themselves
LEAST_VARIANCE = 1e-300
NO_LIMIT = 0.0  # of errors, as long as none is unusual
NEAR_SHARE = 0.01  # of how far rewards reach: an error that is no more is none
MAX_UNCHECKED = 3.0  # noises that a level may move before a row that was not played meanwhile has to confirm it
CHECK_ROUNDS = 32  # of which one may be for that, and in which a row must not have been played
MIN_ALIKE = 3.0  # the logarithm of the odds that all rows move with the level, from which on it is followed
MAX_ALIKE = 5.0  # and what they are at most: rows may stop to do so
TIED = -2  # in place of an arm: several are best
# What an observation changes, in this order: G, b, sums, sizes, trace, V⁻¹ or its factor, theta; of the columns the
# first value, the centre, one over the unit, the least and the largest value; the rows that are remembered, and where.
Model = tuple[Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array, Array]
MODEL = f"Tuple((f8[:,::1], {'f8[::1], ' * 4}f8[:,::1], {'f8[::1], ' * 6}f8[:,::1], f8[::1]))"
MODEL_FIELDS = [
    "G",
    "b",
    "sums",
    "sizes",
    "trace",
    "stack",
    "thetas",
    "first",
    "centre",
    "unit",
    "low",
    "high",
    "known",
    "slots",
]
# What scores are computed from, in this order: centres, units, inverses, thetas, sums, the rows that are remembered,
# and where.
Scoring = tuple[Array, Array, Array, Array, Array, Array, Array]
SCORING = "Tuple((f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1]))"
NEW_ROUNDS = 200  # rounds whose rows tell how many are new
KNOWN_ROWS = 20  # rows that are taken to have come back before there was any
ROWS_TOGETHER = 512  # of small tables, which are scored like one: about what stays in the cache
USUAL_SIZES = 7.0  # times the median error that are usual: 4.7 standard deviations of a normal one


@compiled("f8[::1](f8[::1], f8[::1], f8[::1], i8)")
def standard(x: Array, centre: Array, unit: Array, size: int) -> Array:
    """x in the model's units, followed by the intercept's 1 if the model is longer."""
    z = np.ones(size)
    for j in range(len(x)):
        z[j] = (x[j] - centre[j]) * unit[j] if unit[j] > 0.0 else np.sign(x[j])
    return z


@compiled(f"{MODEL}(f8[::1], i8, i8)")
def parts(flat: Array, dim: int, size: int) -> Model:
    """The arrays of the model, which lie one after the other in one: a call is given one array in place of fourteen."""
    G = (dim + 1) * (dim + 1)
    b = G + dim + 1
    sums = b + SUMS
    sizes = sums + MAX_SIZES
    trace = sizes + dim
    stack = trace + size * size
    theta = stack + size
    first, centre, unit = theta + dim, theta + 2 * dim, theta + 3 * dim
    low, high = theta + 4 * dim, theta + 5 * dim
    return (
        flat[:G].reshape((dim + 1, dim + 1)),
        flat[G:b],
        flat[b:sums],
        flat[sums:sizes],
        flat[sizes:trace],
        flat[trace:stack].reshape((size, size)),
        flat[stack:theta],
        flat[theta:first],
        flat[first:centre],
        flat[centre:unit],
        flat[unit:low],
        flat[low:high],
        flat[high:-SLOTS].reshape((FEATURES + dim, MAX_ROWS)),
        flat[-SLOTS:],
    )


@compiled(f"{SCORING}({MODEL})")
def scoring_of(model: Model) -> Scoring:
    """What scores are computed from."""
    _, _, sums, _, _, stack, theta, _, centre, unit, _, _, known, slots = model
    size = len(theta)
    return centre, unit, stack.reshape((1, size, size)), theta.reshape((1, size)), sums, known, slots


@compiled("f8(f8, f8[::1], b1, f8)")
def unit_of_boldness(N: float, sums: Array, intercept: bool, discount: float) -> float:
    """What a boldness of 1 stands for: the noise that N errors show, 1 if there is none; less as far as rows are new.

    Few errors may all be small by chance, and an arm given up for that is not tried again: they count as more.
    """
    freedom, few = N - intercept, 1.0 + FEW_ERRORS / max(N, 1.0)
    noise = math.sqrt(few * sums[RSS] / freedom) if sums[RSS] > 0.0 and freedom > 0.0 else 1.0
    return float(noise * (1.0 - discount * sums[NEW_SHARE]))


@compiled("b1(f8[::1], f8[::1], f8[::1], f8[::1])")
def meet(x: Array, unit: Array, low: Array, high: Array) -> bool:
    """Widen the ranges of the columns; a column that was always 0 gets its first unit. Whether there was one."""
    met = False
    for j in range(len(x)):
        low[j], high[j] = min(low[j], x[j]), max(high[j], x[j])
        if unit[j] == 0.0 and x[j] != 0.0:
            unit[j] = 1.0 / abs(x[j])
            met = True
    return met


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8)")
def add_moments(G: Array, b: Array, sums: Array, first: Array, x: Array, y: float) -> None:
    """Σ v v' and Σ v y with v = (x - first, 1), Σ y², and how many features were not 0."""
    v = np.ones(len(b))
    for j in range(len(x)):
        v[j] = x[j] - first[j]
        sums[NOT_ZERO] += x[j] != 0.0
    for i in range(len(v)):
        b[i] += v[i] * y
        for j in range(len(v)):
            G[i, j] += v[i] * v[j]
    sums[TOTAL] += y * y


@compiled("f8(f8[::1], f8[:,::1], f8[::1], b1)")
def along(u: Array, stack: Array, z: Array, factored: bool) -> float:
    """u = V⁻¹ z, from V⁻¹ or from the C with C C' = V; gives z' u."""
    if factored:
        u[:] = solve_upper(stack, solve_lower(stack, z))
    else:
        for i in range(len(z)):
            u[i] = 0.0
            for j in range(len(z)):
                u[i] += stack[i, j] * z[j]
    w = 0.0
    for i in range(len(z)):
        w += u[i] * z[i]
    return w


@compiled("f8(f8[::1], i8, f8)")
def largest_usual(sizes: Array, count: int, ties: float) -> float:
    """How far a reward may be from its prediction: further ones are outliers, of which lately there were few.

    Where most rewards are equal (clicks, purchases), the others are what counts, and none is an outlier.
    """
    n = min(count, len(sizes))
    if n < MIN_SIZES or 2.0 * ties > count:
        return NO_LIMIT
    ranked = np.sort(sizes[:n])
    return float(max(USUAL_SIZES * ranked[n // 2], ranked[n - 1 - MAX_OUTLIERS]))


@compiled("f8(f8[::1], f8[::1], i8, f8, f8, b1)")
def usual(sums: Array, sizes: Array, count: int, error: float, scale: float, first: bool) -> float:
    """The error, cut to the largest usual one; its size is remembered.

    Where rows come back, what the first play of one pays may be unlike all before, up to twice as far as rewards reach.
    """
    size = abs(error) / math.sqrt(scale)
    sizes[(count - 1) % len(sizes)] = size
    if size > sums[LIMIT] > NO_LIMIT:
        sums[LIMIT] = largest_usual(sizes, count, sums[TIES])
    if sums[LIMIT] == NO_LIMIT or size <= sums[LIMIT]:
        return error
    most = sums[LIMIT] * math.sqrt(scale)
    if first and sums[NEW_SHARE] < MAX_NEW_SHARE:
        most = max(most, 2.0 * sums[REACH])
    return math.copysign(min(abs(error), most), error)


@compiled(f"void(f8[:,::1], f8[:,::1], {SCORING}, f8[::1])")
def own_scores(out: Array, X: Array, scoring: Scoring, alphas: Array) -> None:
    """`ucb_scores` of rows that have effects of their own, under the first of the inverses."""
    centre, unit, inverses, thetas, sums, known, slots = scoring
    K = len(X)
    shares, means, left, linear, widths = np.empty(K), np.empty(K), np.empty(K), np.empty((1, K)), np.empty((1, K))
    linear_parts(linear, widths, X, centre, unit, inverses[:1], thetas[:1], np.zeros(1, dtype=np.int64))
    own_effects(shares, means, left, X, known, slots, sums[OWN])
    for a in range(len(X)):
        mean = linear[0, a] + shares[a] * (means[a] - linear[0, a])
        width = math.sqrt((1.0 - shares[a]) ** 2 * max(widths[0, a], 0.0) + left[a])
        for n in range(len(alphas)):
            out[n, a] = mean + alphas[n] * width


@compiled(f"void(f8[:,::1], f8[:,::1], {SCORING}, f8[::1], f8)")
def natural_scores(scores: Array, X: Array, scoring: Scoring, boldness: Array, noise: float) -> None:
    """The optimistic scores of every boldness, in multiples of the noise, under the first of the inverses."""
    centre, unit, inverses, thetas, sums, _, _ = scoring
    alphas = np.empty(len(boldness))
    for n in range(len(boldness)):
        alphas[n] = boldness[n] * noise
    if sums[OWN] > 0.0:
        own_scores(scores, X, scoring, alphas)
    else:
        ucb_scores(scores, X, centre, unit, inverses, thetas, np.zeros(len(boldness), dtype=np.int64), alphas)


@compiled(f"b1(i8[::1], f8[:,::1], {SCORING}, f8[::1], f8)")
def ucb_best(out: Ints, X: Array, scoring: Scoring, boldness: Array, noise: float) -> bool:
    """`best` of the optimistic scores of every boldness.

    Gives whether several arms are best, which is for a draw to settle.
    """
    scores = np.empty((len(boldness), len(X)))
    natural_scores(scores, X, scoring, boldness, noise)
    best(out, scores, X)
    return break_ties(scores, np.empty(0))


@compiled("void(i8[::1], f8[:,:,::1], f8[::1], i8, f8, f8)")
def decide_rounds(out: Ints, tables: Array, flat: Array, size: int, boldness: float, noise: float) -> None:
    """`decide_round` of each of many tables."""
    K, dim = tables.shape[1], tables.shape[2]
    together, no_draws, given = max(1, ROWS_TOGETHER // K), np.empty(0), np.full(1, boldness)
    scoring = scoring_of(parts(flat, dim, size))
    for start in range(0, len(tables), together):
        some = tables[start : start + together]
        scores = np.empty((len(some), K))
        natural_scores(scores.reshape((1, -1)), some.reshape((-1, dim)), scoring, given, noise)
        for t in range(len(some)):
            own, arm = scores[t : t + 1], out[start + t : start + t + 1]
            best(arm, own, some[t])
            if break_ties(own, no_draws):
                arm[0] = TIED


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8, f8, b1)")
def follow(stack: Array, theta: Array, z: Array, u: Array, error: float, scale: float, factored: bool) -> None:
    """V⁻¹ (or its factor) and theta after an observation z with this error, u = V⁻¹ z and scale = 1 + z'u."""
    if factored:
        update_factor(stack, z, 1.0)
    for i in range(len(z)):
        theta[i] += u[i] * error / scale
        if not factored:
            for j in range(len(z)):
                stack[i, j] -= u[i] * u[j] / scale


@compiled("void(f8[::1], f8[::1], f8[::1], f8[::1], f8, f8, f8, f8)")
def watch(sums: Array, trace: Array, z: Array, u: Array, error: float, cut: float, scale: float, N: float) -> None:
    """Whether what was off lately tells what is off now: in all rewards alike (a level), or along the features (theta).

    `sums` has the mean of the last errors, m; `trace` the sum of the last z (e - m), from which the drift of theta is
    about N/n V⁻¹ trace, n the rounds that count as the last. How much better the errors are explained with m than
    without, and with the drift than with m alone, is summed up as long as it is above 0: two CUSUMs of log-likelihoods.
    """
    dim, rounds = len(trace), 1.0 / (1.0 - DRIFT_MEMORY)
    m = 0.0 if sums[FOLLOWING] > 0.0 else sums[MOVING]  # a level that is followed is not in the errors
    drift = 0.0
    for j in range(dim):
        drift += u[j] * trace[j]
        trace[j] = DRIFT_MEMORY * trace[j] + z[j] * (cut - m)
    drift *= N / rounds
    if sums[FOLLOWING] > 0.0:
        sums[MOVING] += (1.0 - LEVEL_MEMORY) * cut
    elif len(z) > dim:
        sums[MOVING] += (1.0 - LEVEL_MEMORY) * (cut - m)
    if N > MIN_WATCHED and sums[RSS] > 0.0:
        variance = 2.0 * scale * sums[RSS] / N
        gain = (2.0 * error - m) * m / variance
        sums[LEVEL_ALARM] = max(0.0, sums[LEVEL_ALARM] + min(gain, MAX_GAIN))
        gain = (2.0 * (error - m) - drift) * drift / variance
        sums[DRIFT_ALARM] = max(0.0, sums[DRIFT_ALARM] + min(gain, MAX_GAIN))


@compiled("b1(f8[::1], f8)")
def doubts_level(sums: Array, N: float) -> bool:
    """Whether the level that is followed has moved far since a row that was not played meanwhile confirmed it."""
    moved = sums[MOVING] - sums[CHECKED]
    return bool(sums[FOLLOWING] > 0.0 and moved * moved * N > MAX_UNCHECKED**2 * sums[RSS])


@compiled("void(f8[::1], f8, f8, f8)")
def judge_level(sums: Array, moved: float, level: float, variance: float) -> None:
    """What a row says that has moved so far while the level has by that: do all move with it, or those played only?

    The logarithm of the odds of N(level, variance) against N(0, variance) is summed up. Many rows have to confirm a
    level before it is followed; one that clearly has not moved is enough to refute it.
    """
    gain = (moved - level / 2.0) * level / max(variance, LEAST_VARIANCE)
    sums[ALIKE] = max(min(sums[ALIKE] + min(gain, MAX_GAIN), MAX_ALIKE), -MAX_ALIKE)
    if sums[ALIKE] > MIN_ALIKE:
        sums[FOLLOWING] = 1.0


@compiled("void(f8[::1], f8, f8)")
def check_level(sums: Array, error: float, variance: float) -> None:
    """The error of a row that was not played while the level moved: that is confirmed, or the world has changed."""
    moved = sums[MOVING] - sums[CHECKED]
    judge_level(sums, moved + error, moved, variance)
    sums[CHECKED] += moved / 2.0
    if sums[ALIKE] < 0.0:
        sums[DRIFT_ALARM] = np.inf


@compiled(f"f8({MODEL}, f8[::1], f8, i8, b1)")
def observe(model: Model, x: Array, y: float, count: int, factored: bool) -> float:
    """One observation, the count-th, into everything; gives 1 + z' V⁻¹ z of before, the precision that it cost.

    y is the reward less the origin. Of what it says, the share of the row's own effect tells nothing about theta.
    Infinity says that there is an alarm.
    """
    G, b, sums, sizes, trace, stack, theta, first, centre, unit, low, high, known, slots = model
    meet(x, unit, low, high)
    place, last = recall(known, slots, x, count)
    row = known[:, place]
    if sums[SHIFT] != 0.0 and sums[FOLLOWING] == 0.0 and row[PLAYS] == 0.0 and row[PLAYS_BEFORE] > 0.0:
        judge_level(sums, y - row[MEAN_BEFORE], sums[SHIFT], sums[NOISE_BEFORE] * (1.0 + 1.0 / row[PLAYS_BEFORE]))
    y -= sums[MOVING] * sums[FOLLOWING]
    sums[NEW_SHARE] += ((last == 0) - sums[NEW_SHARE]) / min(count + KNOWN_ROWS, NEW_ROUNDS)
    sums[TIES] += y == sums[LAST]
    sums[LAST] = y
    z, u, predicted = standard(x, centre, unit, len(theta)), np.empty(len(theta)), 0.0
    w = along(u, stack, z, factored)
    for i in range(len(z)):
        predicted += theta[i] * z[i]
    share, left = own_share(row[PLAYS], sums[OWN])
    predicted += share * (row[MEAN] - predicted)
    linear, spread = (1.0 - share) / math.sqrt(1.0 + left), math.sqrt(1.0 + left)
    scale = 1.0 + left + (1.0 - share) ** 2 * w
    error = usual(sums, sizes, count, y - predicted, scale, row[PLAYS] == 0.0)
    if row[PLAYS] > 0.0 and last < count - CHECK_ROUNDS and doubts_level(sums, G[-1, -1]):
        check_level(sums, y - predicted, scale * sums[RSS] / G[-1, -1])
    watch(sums, trace, z, u, y - predicted, error, scale, G[-1, -1])
    lost = 1.0 + linear * linear * w
    follow(stack, theta, linear * z, linear * u, error / spread, lost, factored)
    sums[EXCESS] = y - predicted - error
    add_moments(G, b, sums, first, x, y - sums[EXCESS])
    if row[PLAYS] == 0.0:
        sums[NEAR] = sums[NEAR] + 1.0 if abs(error) <= NEAR_SHARE * sums[REACH] else 0.0
    sums[REACH] = max(sums[REACH], abs(y - sums[EXCESS]))
    row[PLAYS] += 1.0
    row[MEAN] += (y - sums[EXCESS] - row[MEAN]) / row[PLAYS]
    sums[RSS] += error * error / scale
    alarm = max(sums[LEVEL_ALARM], sums[DRIFT_ALARM]) > ALARM + math.log(count)
    return np.inf if alarm else lost


@compiled("Tuple((i8, f8))(f8[:,::1], f8[::1], i8, f8, f8)")
def decide_round(X: Array, flat: Array, size: int, boldness: float, discount: float) -> tuple[int, float]:
    """`ucb_best` of one boldness, or `TIED`, and the `unit_of_boldness`."""
    dim = X.shape[1]
    model = parts(flat, dim, size)
    noise = unit_of_boldness(model[0][-1, -1], model[2], size > dim, discount)
    out, given = np.empty(1, dtype=np.int64), np.full(1, boldness)
    if ucb_best(out, X, scoring_of(model), given, noise):
        return TIED, noise
    return int(out[0]), noise


@compiled("f8(f8[::1], f8[::1], f8, i8, i8, b1)")
def learn_round(flat: Array, x: Array, y: float, count: int, size: int, factored: bool) -> float:
    """`observe` of a model whose arrays are in one."""
    return observe(parts(flat, len(x), size), x, y, count, factored)


@compiled("UniTuple(f8, 2)(f8[::1], f8[:,::1], f8[::1], f8, i8, i8, f8, i8, b1)")
def learn_rounds(
    flat: Array,
    X: Array,
    rewards: Array,
    origin: float,
    count: int,
    due: int,
    max_loss: float,
    size: int,
    factored: bool,
) -> tuple[float, float]:
    """`observe` one row after the other, until the model is due for a refresh: how many, and what the last one cost."""
    model, lost = parts(flat, X.shape[1], size), 0.0
    for t in range(len(X)):
        lost = observe(model, X[t], rewards[t] - origin, count + t + 1, factored)
        if count + t + 1 >= due or not lost < max_loss:
            return t + 1, lost
    return len(X), lost


@compiled(
    f"UniTuple(f8, 3)(i8[::1], {MODEL}, {SCORING}, f8[:,:,::1], i8[::1], f8[::1], f8[::1], i8, f8, i8, i8, f8, b1, f8)"
)
def replay_rounds(
    out: Ints,
    model: Model,
    scoring: Scoring,
    tables: Array,
    places: Ints,
    rewards: Array,
    boldness: Array,
    round_: int,
    origin: float,
    count: int,
    due: int,
    max_loss: float,
    intercept: bool,
    discount: float,
) -> tuple[float, float, float]:
    """`ucb_best` of one table after the other, and `observe` where it is the arm that was played.

    Until several arms are best, none can be played, the level is to be checked, or the model is due for a refresh: how
    many rounds were done, how many of them were learned, and what the last one cost.
    """
    G, sums, learned = model[0], model[2], 0
    for t in range(len(tables)):
        if (round_ + t) % CHECK_ROUNDS == 0 and doubts_level(sums, G[-1, -1]):
            return t, learned, 0.0
        noise = unit_of_boldness(G[-1, -1], sums, intercept, discount)
        tied = ucb_best(out[t : t + 1], tables[t], scoring, boldness, noise)
        if tied or out[t] < 0:
            return t, learned, 0.0
        if out[t] == places[t]:
            learned += 1
            lost = observe(model, tables[t, places[t]], rewards[t] - origin, count + learned, False)
            if count + learned >= due or not lost < max_loss:
                return t + 1, learned, lost
    return len(tables), learned, 0.0
