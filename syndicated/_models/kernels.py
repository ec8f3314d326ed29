"""Compiled linear algebra over arms and penalties. No Python loop runs over either.

The kernels of the hot path fill an array that they are given: returning a new one costs as much as a small round.

Features may be one shorter than the model: the last coordinate is then the constant 1, the intercept.
"""

import math

import numpy as np
import numpy.typing as npt

from syndicated._argmax import table_in
from syndicated._compiled import compiled
from syndicated.types import Array, Ints

TIE_MARGIN = 1e-9  # of the largest score: what is closer to it differs by rounding
BLOCK, MANY = 64, 512  # arms at a time
FEW = 16  # one arm in so many of a catalogue, or less: their own columns are read in place of all
NO_DRAWS: Array = np.empty(0)
STATISTICS = "f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], i8[::1]"  # of several priors
EVIDENCE_MEMORY = 0.999  # the share of the evidence for a prior that a round leaves: worlds change


@compiled("void(f8[::1], f8[::1])")
def copy(to: Array, v: Array) -> None:
    """to[:] = v."""
    for i in range(len(v)):
        to[i] = v[i]


@compiled("f8[::1](f8[::1], i8)")
def extend(x: Array, size: int) -> Array:
    """x, followed by the intercept's 1 if the model is longer."""
    out = np.ones(size)
    copy(out, x)
    return out


@compiled("f8[:,::1](f8[:,::1], i8)")
def columns(X: Array, size: int) -> Array:
    """The features transposed, with the intercept's row of ones if the model is longer.

    Arms along the last axis let the compiler work on several arms at once.
    """
    out = np.ones((size, len(X)))
    for start in range(0, len(X), BLOCK):  # of rows, which stay in the cache while their columns are written
        for i in range(X.shape[1]):
            for a in range(start, min(start + BLOCK, len(X))):
                out[i, a] = X[a, i]
    return out


@compiled("void(f8[:,::1], f8[:,::1], i8, i8, f8[::1], f8[::1])")
def turn(out: Array, X: Array, start: int, count: int, centre: Array, unit: Array) -> None:
    """Make the first columns those of `standard_columns` of so many rows, from one on."""
    whole = count - count % 4
    for a in range(0, whole, 4):  # four rows at once: their columns are written side by side
        for i in range(X.shape[1]):
            c, u = centre[i], unit[i]
            out[i, a], out[i, a + 1] = (X[start + a, i] - c) * u, (X[start + a + 1, i] - c) * u
            out[i, a + 2], out[i, a + 3] = (X[start + a + 2, i] - c) * u, (X[start + a + 3, i] - c) * u
    for a in range(whole, count):
        for i in range(X.shape[1]):
            out[i, a] = (X[start + a, i] - centre[i]) * unit[i]
    for i in range(X.shape[1]):
        if not unit[i] > 0.0:
            for a in range(count):
                out[i, a] = np.sign(X[start + a, i])


@compiled("f8[:,::1](f8[:,::1], f8[::1], f8[::1], i8)")
def standard_columns(X: Array, centre: Array, unit: Array, size: int) -> Array:
    """`columns` of the features less their centre, times one over their scale.

    The scale of a column that was never seen other than 0 is not known (its unit is 0): whatever is not 0 there is 1.
    """
    out = np.ones((size, len(X)))
    turn(out, X, 0, len(X), centre, unit)
    return out


@compiled("b1(f8[:,::1], f8[:,::1], f8[::1], f8[::1])")
def refill(columns: Array, X: Array, centre: Array, unit: Array) -> bool:
    """Make the first columns the `standard_columns` of X, in the same array; whether any number is another one."""
    changed = False
    for start in range(0, len(X), BLOCK):
        for i in range(X.shape[1]):
            for a in range(start, min(start + BLOCK, len(X))):
                value = (X[a, i] - centre[i]) * unit[i] if unit[i] > 0.0 else np.sign(X[a, i])
                changed |= columns[i, a] != value
                columns[i, a] = value
    return changed


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
    out = np.empty(columns.shape[1])
    fill_dot(out, columns, theta)
    return out


@compiled("void(f8[::1], f8[:,::1], f8[::1])")
def fill_dot(out: Array, columns: Array, theta: Array) -> None:
    """`dot` of as many of the arms as there is room for."""
    for a in range(len(out)):
        out[a] = 0.0
    whole = len(columns) - len(columns) % 4
    # Four columns at once: a sum is loaded and stored a quarter as often. The sums stay in their order.
    for i in range(0, whole, 4):
        p, q, r, s = theta[i], theta[i + 1], theta[i + 2], theta[i + 3]
        for a in range(len(out)):
            first = out[a] + p * columns[i, a] + q * columns[i + 1, a]
            out[a] = first + r * columns[i + 2, a] + s * columns[i + 3, a]
    for i in range(whole, len(columns)):
        for a in range(len(out)):
            out[a] += theta[i] * columns[i, a]


@compiled("f8[::1](f8[:,::1], f8[:,::1])")
def squares(columns: Array, inverse: Array) -> Array:
    """x_a' V⁻¹ x_a for every arm, using the symmetry of V⁻¹; rounding may leave it a little below 0."""
    out = np.empty(columns.shape[1])
    fill_squares(out, np.empty(columns.shape[1]), columns, inverse)
    return out


@compiled("void(f8[::1], f8[::1], f8[:,::1], f8[:,::1])")
def fill_squares(out: Array, row: Array, columns: Array, inverse: Array) -> None:
    """`squares` of as many of the arms as there is room for, and in `row`, too."""
    for a in range(len(out)):
        out[a] = 0.0
    for i in range(len(columns)):
        for a in range(len(out)):
            row[a] = inverse[i, i] * columns[i, a]
        # Four columns at once: a row is loaded and stored a quarter as often. The sums stay in their order.
        for j in range(0, i - 3, 4):
            p, q, r, s = 2.0 * inverse[i, j], 2.0 * inverse[i, j + 1], 2.0 * inverse[i, j + 2], 2.0 * inverse[i, j + 3]
            for a in range(len(out)):
                first = row[a] + p * columns[j, a] + q * columns[j + 1, a]
                row[a] = first + r * columns[j + 2, a] + s * columns[j + 3, a]
        for j in range(i - i % 4, i):
            twice = 2.0 * inverse[i, j]
            for a in range(len(out)):
                row[a] += twice * columns[j, a]
        for a in range(len(out)):
            out[a] += row[a] * columns[i, a]


@compiled("f8[::1](f8[:,::1], f8[:,::1], i8)")
def squares_of_many(columns: Array, inverse: Array, count: int) -> Array:
    """`squares` of the first columns, a few at a time, which stay in the cache: they are read D times."""
    out = np.empty(count)
    for start in range(0, count, MANY):
        size = min(MANY, count - start)
        some = np.empty((len(columns), size))
        for i in range(len(columns)):
            for a in range(size):
                some[i, a] = columns[i, start + a]
        found = squares(some, inverse)
        for a in range(size):
            out[start + a] = found[a]
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


@compiled("b1(i8, i8[::1])")
def within(row: int, rows: Ints) -> bool:
    """Whether it is one of them; np.any(rows == row) would make an array."""
    found = False
    for each in rows:
        found |= each == row
    return found


@compiled("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], i8[::1])")
def linear_parts(
    means: Array, widths: Array, X: Array, centre: Array, unit: Array, inverses: Array, thetas: Array, rows: Ints
) -> None:
    """x' theta and x' V⁻¹ x of every arm, for each of these rows of the penalties.

    A few arms at a time are turned, and stay in the cache for all that is computed from them.
    """
    size = min(BLOCK, len(X))
    arms, row_of = np.ones((thetas.shape[1], size)), np.empty(size)
    for start in range(0, len(X), BLOCK):
        end = min(start + BLOCK, len(X))
        turn(arms, X, start, end - start, centre, unit)
        for row in range(len(thetas)):
            if within(row, rows):
                fill_dot(means[row, start:end], arms, thetas[row])
                fill_squares(widths[row, start:end], row_of, arms, inverses[row])


@compiled("void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,::1], i8[::1], f8[::1])")
def ucb_scores(
    out: Array, X: Array, centre: Array, unit: Array, inverses: Array, thetas: Array, rows: Ints, alphas: Array
) -> None:
    """x' theta + alpha sqrt(x' V⁻¹ x) for every point (its row of the penalties, its alpha) and arm."""
    means, widths = np.empty((len(thetas), len(X))), np.empty((len(thetas), len(X)))
    linear_parts(means, widths, X, centre, unit, inverses, thetas, rows)
    for row in range(len(thetas)):
        if not within(row, rows):
            continue
        for a in range(len(X)):
            widths[row, a] = math.sqrt(max(widths[row, a], 0.0))
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(X)):
                    out[n, a] = means[row, a] + alphas[n] * widths[row, a]


@compiled("f8[::1](f8[:,::1], i8[::1])")
def one_after_another(scores: Array, ends: Ints) -> Array:
    """Several tables of scores that are side by side, and end at these columns: each with all its rows."""
    out, place, start = np.empty(scores.size), 0, 0
    for end in ends:
        for row in range(len(scores)):
            for a in range(start, end):
                out[place] = scores[row, a]
                place += 1
        start = end
    return out


@compiled("void(f8[:,::1], i8[::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1], f8[::1])")
def ucb_scores_by_number(
    out: Array, arms: Ints, catalogue: Array, squared: Array, thetas: Array, rows: Ints, alphas: Array
) -> None:
    """`ucb_scores` of arms of a catalogue whose x' V⁻¹ x are known: no arm costs more than d products."""
    few = FEW * len(arms) < catalogue.shape[1]
    read = take(catalogue, arms) if few else catalogue
    for row in range(len(thetas)):
        if not within(row, rows):
            continue
        mean = dot(read, thetas[row])
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(arms)):
                    width = math.sqrt(max(squared[row, arms[a]], 0.0))
                    out[n, a] = mean[a if few else arms[a]] + alphas[n] * width


@compiled("b1(f8[:,::1], f8[::1])")
def break_ties(scores: Array, draws: Array) -> bool:
    """Put the arms that are best but for rounding in the order of their draws; whether there are several of them.

    Without draws nothing is changed.
    """
    found = False
    for row in range(len(scores)):
        top = scores[row].max()
        margin, tied = TIE_MARGIN * abs(top), 0
        for a in range(scores.shape[1]):
            if scores[row, a] >= top - margin:
                tied += 1
                if len(draws) > 0:
                    scores[row, a] = top + margin * draws[a]
        found |= tied > 1
    return found


@compiled("b1[::1](f8[::1], i8[::1], i8)")
def have_ties(scores: Array, ends: Ints, points: int) -> npt.NDArray[np.bool_]:
    """Whether several arms are best but for rounding, in each of several tables that stand one after the other."""
    found, none = np.empty(len(ends), dtype=np.bool_), np.empty(0)
    for n in range(len(ends)):
        found[n] = break_ties(table_in(scores, ends, points, n), none)
    return found


@compiled("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[::1], i8[::1], f8[::1])")
def update_squares(squared: Array, catalogue: Array, inverses: Array, gammas: Array, of: Ints, x: Array) -> None:
    """x_a' V⁻¹ x_a of a catalogue as they will be after V becomes gamma V + x x', for every row.

    With u = V⁻¹ x the new inverse is (V⁻¹ - u u' / (gamma + x'u)) / gamma. Both tables may have room for more arms.
    """
    x = extend(x, len(catalogue))
    for row in range(len(inverses)):
        gamma, u = gammas[of[row]], dot(inverses[row], x)
        scale = gamma
        for i in range(len(x)):
            scale += u[i] * x[i]
        along = dot(catalogue, u)
        for a in range(min(len(along), squared.shape[1])):
            squared[row, a] = (squared[row, a] - along[a] * along[a] / scale) / gamma


@compiled("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], i8[::1], f8[::1], f8[::1])")
def ts_scores(out: Array, arms: Array, factors: Array, thetas: Array, rows: Ints, alphas: Array, z: Array) -> None:
    """x' (theta + alpha C'⁻¹ z) for every point and arm, with one z ~ N(0, I) for all of them."""
    for row in range(len(thetas)):
        if not within(row, rows):
            continue
        mean, noise = dot(arms, thetas[row]), dot(arms, solve_upper(factors[row], z))
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(mean)):
                    out[n, a] = mean[a] + alphas[n] * noise[a]


@compiled("void(f8[:,::1], f8[:,::1], i8[::1], f8[:,::1], i8[::1], f8[::1], f8[::1])")
def noisy_scores(out: Array, columns: Array, places: Ints, means: Array, rows: Ints, spreads: Array, z: Array) -> None:
    """x' (mean + spread z) for every point (its row of the means, its spread) and arm (its place among the columns)."""
    noise = dot(columns, z)
    for row in range(len(means)):
        mean = dot(columns, means[row])
        for n in range(len(rows)):
            if rows[n] == row:
                for a in range(len(places)):
                    out[n, a] = mean[places[a]] + spreads[n] * noise[places[a]]


@compiled("void(f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8)")
def add(G: Array, b: Array, gammas: Array, x: Array, reward: float) -> None:
    """G = gamma G + x x' and b = gamma b + x r, for every gamma."""
    for k in range(len(gammas)):
        for i in range(len(x)):
            b[k, i] = gammas[k] * b[k, i] + reward * x[i]
            for j in range(len(x)):
                G[k, i, j] = gammas[k] * G[k, i, j] + x[i] * x[j]


@compiled("f8(f8[:,::1], f8[::1], f8)")
def update_inverse(inverse: Array, x: Array, gamma: float) -> float:
    """V⁻¹ after V becomes gamma V + x x' (Sherman and Morrison); gives 1 + x' V⁻¹ x of before."""
    u = np.empty(len(x))
    scale = gamma
    for i in range(len(x)):
        u[i] = 0.0
        for j in range(len(x)):
            u[i] += inverse[i, j] * x[j]
        scale += u[i] * x[i]
    for i in range(len(x)):
        for j in range(len(x)):
            inverse[i, j] -= u[i] * u[j] / scale
    if gamma < 1.0:
        inverse /= gamma
    return scale + (1.0 - gamma)


@compiled("f8(f8[:,::1], f8[::1], f8)")
def update_factor(C: Array, x: Array, gamma: float) -> float:
    """C after V becomes gamma V + x x', one Givens rotation a column; gives 1 + x' V⁻¹ x of before."""
    u = solve_lower(C, x)
    scale = 1.0
    for i in range(len(x)):
        scale += u[i] * u[i]
        u[i] = x[i]
    root = math.sqrt(gamma)
    for k in range(len(x)):
        was = root * C[k, k]
        r = math.hypot(was, u[k])
        c, s = r / was, u[k] / was
        C[k, k] = r
        for i in range(k + 1, len(x)):
            C[i, k] = (root * C[i, k] + s * u[i]) / c
            u[i] = c * u[i] - s * C[i, k]
    return scale


@compiled("void(f8[::1], f8, f8, f8)")
def tally(sums: Array, error: float, scale: float, gamma: float) -> None:
    """How far off a prediction was, in units of what its uncertainty explains: see `Ridge.tallies`."""
    square = error * error / scale
    sums[0] = gamma * sums[0] + square
    sums[1] = gamma * sums[1] + 1.0
    sums[2] = EVIDENCE_MEMORY * sums[2] + square
    sums[3] = EVIDENCE_MEMORY * sums[3] + math.log(scale)


@compiled(f"f8({STATISTICS}, f8[::1], f8)")
def learn_inverses(
    G: Array, b: Array, inverses: Array, thetas: Array, tallies: Array, gammas: Array, of: Ints, x: Array, reward: float
) -> float:
    """One observation into the statistics, the tallies, the inverses and theta = V⁻¹ b.

    Gives the largest 1 + x' V⁻¹ x: of the digits of V⁻¹ along x, that many powers of ten are lost.
    """
    x = extend(x, b.shape[1])
    add(G, b, gammas, x, reward)
    largest = 1.0
    for row in range(len(thetas)):
        theta, gamma, error = thetas[row], gammas[of[row]], reward
        for i in range(len(x)):
            error -= theta[i] * x[i]
        scale = update_inverse(inverses[row], x, gamma)
        tally(tallies[row], error, scale, gamma)
        largest = max(largest, scale)
        for i in range(len(x)):
            theta[i] = 0.0
            for j in range(len(x)):
                theta[i] += inverses[row, i, j] * b[of[row], j]
    return largest


@compiled(f"f8({STATISTICS}, f8[::1], f8)")
def learn_factors(
    G: Array, b: Array, factors: Array, thetas: Array, tallies: Array, gammas: Array, of: Ints, x: Array, reward: float
) -> float:
    """As `learn_inverses`, for factors; rotations lose no digits."""
    x = extend(x, b.shape[1])
    add(G, b, gammas, x, reward)
    for row in range(len(thetas)):
        theta, gamma, error = thetas[row], gammas[of[row]], reward
        for i in range(len(x)):
            error -= theta[i] * x[i]
        tally(tallies[row], error, update_factor(factors[row], x, gamma), gamma)
        copy(thetas[row], solve_upper(factors[row], solve_lower(factors[row], b[of[row]])))
    return 1.0


@compiled(f"Tuple((i8, f8))({STATISTICS}, f8[:,::1], f8[::1], b1, f8)")
def learn_observations(
    G: Array,
    b: Array,
    stack: Array,
    thetas: Array,
    tallies: Array,
    gammas: Array,
    of: Ints,
    X: Array,
    rewards: Array,
    factored: bool,
    max_loss: float,
) -> tuple[int, float]:
    """`learn_factors` or `learn_inverses` of rows, until one costs too much precision: how many, and what it cost."""
    for n in range(len(X)):
        if factored:
            lost = learn_factors(G, b, stack, thetas, tallies, gammas, of, X[n], rewards[n])
        else:
            lost = learn_inverses(G, b, stack, thetas, tallies, gammas, of, X[n], rewards[n])
        if not lost < max_loss:
            return n + 1, lost
    return len(X), 1.0


@compiled("i8(f8[:,::1], i8)")
def evidence(tallies: Array, count: int) -> int:
    """The row under which what was seen lately is likeliest: the largest -1/2 [n log(Σ e²/(1+w) / n) + Σ log(1+w)]."""
    best, most = 0, -np.inf
    n = (1.0 - EVIDENCE_MEMORY ** max(count, 1)) / (1.0 - EVIDENCE_MEMORY)
    for row in range(len(tallies)):
        value = -0.5 * (n * math.log(max(tallies[row, 2], 1e-300) / n) + tallies[row, 3])
        if value > most:
            best, most = row, value
    return best
