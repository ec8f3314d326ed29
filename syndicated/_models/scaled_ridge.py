"""Ridge regression in the data's own units: one model, whose prior is estimated.

    z_j = (x_j - centre_j) / scale_j,   reward = level + z'theta + noise,   theta_j ~ N(0, noise² / (lam n))

The centre is the mean of the rows that were learned and the scale of a column the range of its values, so that neither
the unit nor the origin of a feature matters; n is how many features of a row are not 0, so that lam is about noise over
signal for dense and for one-hot rows. The level has no prior: rewards may be any number away from 0. What is kept are
sums about the first row and the first reward, from which everything follows: at times that grow by `REFRESH_GROWTH`
the units are brought up to date, and lam is estimated by the evidence,

    log p(rewards | lam) = -1/2 [log |V| - log |lam n I| + (N - 1) log RSS] + const,   V = lam n I + Σ z z'

with RSS = Σ (y - mean)² - r'V⁻¹r, r = Σ z y, and noise and level integrated out. 1/lam is its posterior mean over
`PENALTIES`. Between those times V⁻¹ (or its factor) and theta follow each observation by a rank-one update. Without an
intercept there is no level: centre and mean are 0, and N - 1 is N.

No single reward owns the model: an error beyond what is usual, as the median of the last ones shows it, counts as the
largest usual one, unless there were several such lately. And nothing is forgotten as long as the world stays: two
CUSUMs watch whether the last errors tell the next ones, in all rewards alike (a level that moves: a season, a trend)
or along the features (another theta). At an alarm the model starts again; where rows are new and the level has risen,
theta is kept, and the level followed. Where they come back, what looks like a level may be the one row that is
played: so rows that were not played meanwhile are compared with what they paid before, by the odds that they
have moved with the level against that they have not. If those say so, the level is followed, apart from the model; and
whenever it has moved far, a row that was not played on the way is asked again, by the policy.

Few of many features may tell what a row pays. So columns have weights, theta_j ~ N(0, w_j noise² / (lam n)), which are
inverse chi-squared with one degree of freedom (theta_j is then Cauchy); a few steps of EM find the most likely ones,

    w_j = (1 + E[theta_j²] lam n / noise²) / 2,   log p(w) = -1/2 Σ (log w_j + 1/w_j) + const

and they count as far as rewards are likelier with them than with equal ones. A scale is then range over sqrt(w).

Features may not tell all of what a row pays. Where the same rows come back, each of the last `MAX_ROWS` has an effect
of its own, u ~ N(0, v noise²), v being its posterior mean over 0 and `OWN_VARIANCES`: the mean of its n rewards
counts n v / (1 + n v), and what is linear the rest. The plays of a row say less and less about theta:

    Σ z z' less Σ_rows c zz',  Σ z y less Σ_rows c mean z,  Σ y² less Σ_rows c mean²,   c = n² v / (1 + n v)

A wrong model may never play the row that is best, and what it plays may not show that it is wrong. So it says which
rows were never tried, and which of those may be the best one, for the policy to try in rounds that grow rare.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._catalogue import put_columns
from syndicated._learner import Learner
from syndicated._models.kernels import dot, refill, squares, squares_of_many, standard_columns, update_squares
from syndicated._models.known_rows import (
    FEATURES,
    MAX_ROWS,
    MEAN,
    MEAN_BEFORE,
    PLAYED_LAST,
    PLAYS,
    PLAYS_BEFORE,
    SLOTS,
    fill_slots,
    find,
    find_unseen,
    find_untried,
    own_effects,
    own_share,
)
from syndicated._models.ridge import Prior, Solutions
from syndicated._models.scaled_kernels import (
    ALIKE,
    CHECK_ROUNDS,
    CHECKED,
    DRIFT_ALARM,
    EXCESS,
    FOLLOWING,
    LEVEL_ALARM,
    LIMIT,
    MAX_ALIKE,
    MAX_NEW_SHARE,
    MAX_SIZES,
    MODEL_FIELDS,
    MOVING,
    NEAR,
    NEAR_SHARE,
    NEW_DISCOUNT,
    NEW_SHARE,
    NOISE_BEFORE,
    NOT_ZERO,
    OWN,
    POSSIBLE,
    REACH,
    RSS,
    SHIFT,
    SUMS,
    TIED,
    TIES,
    TOTAL,
    decide_round,
    decide_rounds,
    doubts_level,
    largest_usual,
    learn_round,
    learn_rounds,
    meet,
    replay_rounds,
    standard,
    ucb_best,
    unit_of_boldness,
)
from syndicated.errors import InputError
from syndicated.types import Array, Ints, Params

# Parts that can be left out
DISCOUNT, EFFECTS, OUTLIERS, RELEVANCE, RESTARTS = "discount", "effects", "outliers", "relevance", "restarts"
TRIALS = "trials"
PENALTIES = 10.0 ** np.arange(-4.0, 3.5, 0.5)  # lam: what evidence chooses from
OWN_VARIANCES = 10.0 ** np.arange(-2.0, 2.5)  # v: what evidence chooses from, besides 0
NEAR_ENOUGH = 2  # rows played first in a row that were predicted: the others need not be tried for that
PLAIN_EVIDENCE = 3.0  # the logarithm of the odds, before anything is known, against effects, and against weights
CLEARLY_MORE = 3.0  # times the weight of most columns: worth telling
RELEVANCE_STEPS = 3  # towards the most likely weights
MIN_DENSE = 0.5  # of the features of a row: columns that are mostly 0 stand for few rows, and are not weighed
MAX_OWN_ARMS = 10_000  # of a catalogue whose rows have effects: each of them is looked up for a decision
MIN_OWN_VARIANCE = 1e-3  # less is none
UNKNOWN_VARIANCE = float(OWN_VARIANCES.mean() / 2.0)  # that is possible before anything is known
MIN_JUDGED_RSS = 1e-6  # of the rewards' sum of squares: what rows explain beyond that says nothing for effects
KEPT_REWARDS = 5.0  # for each column: what is known of theta counts for so many once the level has moved
SOON = 500  # observations since a start within which a level that has moved is taken to go on
REFRESH_GROWTH = 1.25  # of the count of observations, until units and lam are estimated again
REFRESH_ROUNDS = 1000  # observations after which they are at the latest, against drift of the rank-one updates
MAX_PRECISION_LOSS = 1e8  # what one rank-one update may cost in precision before they are at once
MIN_SCALE_SHARE = 1e-10  # of a column's largest value: what varies by less is constant up to rounding
MAX_EXPONENT = 100.0  # of odds: beyond that, all is said
MIN_RSS_SHARE = 1e-14  # of the rewards' sum of squares: a smaller RSS is rounding
OLD_SUMS = ((11,), (13,), (15,), (19,))  # from before effects, trials, checks of levels, and what effects are possible
MEDIAN_ERROR = 0.6745  # of a normal one, in standard deviations
Effects = tuple[Array, Array, Array]
NO_FORGETTING, ONE_ROW = np.ones(1), np.zeros(1, dtype=np.int64)


class Spectrum(NamedTuple):
    """Σ z z' = Q diag(values) Q', along = Q' Σ z y, and Σ (y - mean)²: all that depends on no penalty.

    About the centre of the rows, which count for `weight` of them, and the mean of the rewards; no RSS is less than
    `floor`. Each has a first axis: one entry for each of several variances of the effects of rows.
    """

    values: Array
    Q: Array
    along: Array
    total: Array
    floor: Array
    centre: Array
    weight: Array
    mean: Array

    def rss(self, penalties: Array) -> Array:
        """RSS under each penalty lam n."""
        explained = self.along[:, None] ** 2 / (self.values[:, None] + penalties[:, None])
        rss: Array = np.maximum(self.total[:, None] - explained.sum(axis=-1), self.floor[:, None])
        return rss

    def log_evidence(self, penalties: Array, freedom: float) -> Array:
        """The logarithm of the likelihood of the rewards under each penalty, up to a constant."""
        volumes = np.log1p(self.values[:, None] / penalties[:, None]).sum(axis=-1)
        value: Array = -0.5 * (volumes + freedom * np.log(np.maximum(self.rss(penalties), 1e-300)))
        return value


@dataclass(eq=False)
class ScaledRidge(Learner):
    """The one model of points in natural units.

    `sums` has, at the places that the kernels name: Σ y², RSS, how many features were not 0; how many rewards were as
    the one before, and the last one; the largest usual error, and by how much the last one was beyond it; the mean of
    the last errors, whether rewards are counted from it, and the two suspicions that the world has changed; the share
    of rows that are new, which are not among those that are remembered; v; how far rewards reach from the first, and
    how many of the last rows were predicted when they were played first; the level that was last in question, how far
    it had moved when the model started again, the squared noise until then, and the logarithm of the odds that all rows
    move with it; and how large v may still be. `known` has the rows that are remembered: how often they were played,
    the mean of their rewards, when the last was, their fingerprints, the first two from before the model started again,
    and features.

    `without` names parts that are left out: `DISCOUNT`, `EFFECTS`, `OUTLIERS`, `RELEVANCE`, `RESTARTS`,
    `TRIALS`.
    """

    dim: int
    intercept: bool
    factored: bool = False
    without: Collection[str] = ()
    G: Array = field(init=False)
    b: Array = field(init=False)
    sums: Array = field(init=False)
    sizes: Array = field(init=False)
    known: Array = field(init=False)
    trace: Array = field(init=False)
    stack: Array = field(init=False)
    thetas: Array = field(init=False)
    squared: Array = field(init=False)
    first: Array = field(init=False)
    low: Array = field(init=False)
    high: Array = field(init=False)
    centre: Array = field(init=False)
    unit: Array = field(init=False)
    origin: float = field(init=False, default=0.0)
    lam: float = field(init=False, default=1.0)
    count: int = field(init=False, default=0)
    due: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        self.size = self.dim + self.intercept
        self._discount = 0.0 if DISCOUNT in self.without else NEW_DISCOUNT
        self._estimated: tuple[Prior, float] | None = None  # until something is learned
        self._weights = np.ones(self.dim)  # of the columns, to tell; a restored model tells them after its next refresh
        self.G, self.b, self.sizes = np.zeros((self.dim + 1, self.dim + 1)), np.zeros(self.dim + 1), np.zeros(MAX_SIZES)
        self.sums, self.trace = np.zeros(SUMS), np.zeros(self.dim)
        self.known, self.slots = np.zeros((FEATURES + self.dim, MAX_ROWS)), np.zeros(SLOTS)
        self.first, self.low, self.high, self.centre, self.unit = (np.zeros(self.dim) for _ in range(5))
        self.keep(np.zeros((0, self.dim)))

    def keep(self, rows: Array) -> None:
        """Before the first observation: hold the squared widths of the arms of this catalogue."""
        self.rows, self.catalogue = rows, np.zeros((self.size, 0))
        self._forget()

    def put(self, numbers: Ints, rows: Array) -> None:
        """The catalogue is these rows now, of which those of these numbers are new or others."""
        self.rows = rows
        new = standard_columns(rows[numbers], self.centre, self.unit, self.size)
        self.catalogue = put_columns(self.catalogue, numbers, new)
        if not self.factored:
            self.squared = put_columns(self.squared, numbers, squares(new, self.stack[0])[None])
        self._solutions.clear()

    def _history(self) -> dict[str, object]:
        return {**super()._history(), "squared": self.squared[:, : len(self.rows)]}  # without the room for more

    def _forget(self) -> None:
        """Start again from nothing but the units."""
        self.G[:], self.b[:], self.trace[:], self.due = 0.0, 0.0, 0.0, self.count + 1
        self.sums[[TOTAL, RSS, NOT_ZERO, LEVEL_ALARM, DRIFT_ALARM, OWN, REACH, NEAR]] = 0.0
        self.sums[POSSIBLE] = UNKNOWN_VARIANCE
        self.known[[PLAYS, MEAN]] = 0.0
        self.lam = _pooled(np.zeros(len(PENALTIES)))
        self.stack, self.thetas = np.zeros((1, self.size, self.size)), np.zeros((1, self.size))
        self.stack[0] = np.eye(self.size) * (math.sqrt(self.lam) if self.factored else 1.0 / self.lam)
        self._view()
        self._square()

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        fill_slots(self.known, self.slots)
        self._view()

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """A state from before rows were remembered, or had effects of their own, remembers none.

        Trials go on, and of rows from before they were compared with what they had paid, nothing is known of that.
        """
        if "sums" not in arrays or arrays["sums"].shape not in OLD_SUMS:
            return arrays
        kept = {name: array for name, array in arrays.items() if name != "seen"}
        known, sums = kept.get("known", np.zeros_like(self.known)), np.append(kept["sums"], np.zeros(SUMS))[:SUMS]
        sums[POSSIBLE] = UNKNOWN_VARIANCE
        if known.shape == (len(self.known) - 2, MAX_ROWS):
            known = np.insert(known, [PLAYS_BEFORE, PLAYS_BEFORE], 0.0, axis=0)
        return {**kept, "known": known, "sums": sums}

    def estimate(self, given: Params) -> tuple[Prior, float]:
        """The prior that is estimated now, and what a boldness of 1 stands for."""
        if self._estimated is None:
            self._estimated = self._prior, unit_of_boldness(self.G[-1, -1], self.sums, self.intercept, self._discount)
        return self._estimated

    def begin(self, G: Array, b: Array, total: float) -> None:
        """Go on from plain sums: Σ v v', Σ v r and Σ r² with v = (x, 1).

        They do not tell the ranges: a column whose sum is its sum of squares has zeros and ones, others are taken to be
        evenly spread.
        """
        N, sums, squared = G[-1, -1], G[-1, :-1], np.diag(G)[:-1]
        self.origin = b[-1] / N if self.intercept else 0.0
        self.G, self.b, self.count = G.copy(), b - self.origin * G[-1], round(N)
        ones, mean = sums == squared, sums / N * self.intercept
        spread = np.sqrt(3.0 * np.maximum(squared / N - mean**2, 0.0))
        self.low, self.high = np.where(ones, sums >= N, mean - spread), np.where(ones, sums > 0, mean + spread)
        not_zero = np.where(ones, sums, np.where(squared > 0, N, 0.0)).sum()
        self.sums[TOTAL], self.sums[NOT_ZERO] = total - 2.0 * self.origin * b[-1] + self.origin**2 * N, not_zero
        self._refresh()
        self.sizes[:] = MEDIAN_ERROR * self.estimate({})[1]
        self._limit_errors()

    @property
    def level(self) -> float:
        """The reward that a prediction of 0 stands for."""
        return self.origin + float(self.sums[MOVING] * self.sums[FOLLOWING])

    @property
    def chosen(self) -> dict[str, str]:
        """What is estimated now, in words."""
        if self._empty:
            return {}
        new = float(self.sums[NEW_SHARE])
        unit, standard_errors = self.estimate({})[1], 1.0 - self._discount * new
        has_noise = self.sums[RSS] > 0.0 and self.G[-1, -1] > self.intercept
        said = {
            "penalty": f"penalty {self.lam:.2g} by evidence",
            "noise": f"noise {unit / standard_errors:.2g}" if has_noise else "no noise until now",
            "new rows": f"{new:.0%} of rows are new, so boldness 1 is {standard_errors:.2g} standard errors",
        }
        if self.own_variance:
            said["effects"] = f"rows have effects of their own, {self.own_variance:.3g} times the noise's variance"
        telling = int(np.sum(self._weights > CLEARLY_MORE * np.median(self._weights)))
        if telling:
            said["relevance"] = f"{telling} of {self.dim} features tell more than the others, and weigh more"
        if self.sums[FOLLOWING]:
            said["level"] = "the level of rewards moves and is followed"
        counted = round(self.G[-1, -1])
        if counted < self.count:
            said["restart"] = f"{counted:,} of {self.count:,} rewards count, as the world had changed"
        return said

    @property
    def excess(self) -> float:
        """How far the reward that was learned last was beyond what is usual."""
        return float(self.sums[EXCESS])

    def select(self, priors: Sequence[tuple[float, float, float]]) -> Solutions:
        """The solutions for these priors; those of penalties other than the estimated are computed."""
        own = self.estimate({})[0]
        if priors.count(own) == len(priors):
            return self._estimated_solutions(len(priors))
        for prior in priors:
            if prior[1:] != own[1:]:
                raise InputError(f"this model has intercept {self.intercept:d} and memory 1; got {prior[1:]}")
        spectrum = self._spectrum()
        built = [self._solve(spectrum, lam) for lam, *_ in priors]
        stack, thetas = (np.ascontiguousarray([part[k] for part in built]) for k in (0, 1))
        squared = np.array([squares(self.catalogue, each) for each in stack])
        return Solutions(stack, thetas, squared, np.arange(len(priors)))

    @property
    def own_variance(self) -> float:
        """v: the variance of the effects of rows, over the noise's; 0 if there are none."""
        return float(self.sums[OWN])

    def effects(self, X: Array) -> Effects:
        """How much the own mean of each row counts, this mean, and the variance, over the noise's, that is left."""
        shares, means, left = np.empty((3, len(X)))
        own_effects(shares, means, left, X, self.known, self.slots, self.own_variance)
        return shares, means, left

    def untried(self, X: Array) -> npt.NDArray[np.bool_]:
        """Which rows were never played; none if that is not for the model to find out.

        It is not where there is hardly any noise, if the last rows that were played for the first time paid what was
        predicted: where there is noise, two may do so by chance.
        """
        out = np.zeros(len(X), dtype=np.bool_)
        noiseless = self._noise_variance <= (NEAR_SHARE * self.sums[REACH]) ** 2
        told = noiseless and self.sums[NEAR] >= NEAR_ENOUGH
        if TRIALS not in self.without and not told and max(len(X), len(self.rows)) <= MAX_OWN_ARMS:
            find_untried(out, X, self.known, self.slots)
        return out

    @property
    def _noise_variance(self) -> float:
        return float(self.sums[RSS] / max(self.G[-1, -1], 1.0))

    def widest(self, X: Array, untried: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Of the rows that were never played and may be the best one, that of which the features tell least.

        What may be is sqrt(2 log N) standard deviations of what is not known of such a row: of theta, and of an effect
        of its own that is as large as is possible still.
        """
        if not untried.any():
            return untried
        z, theta = standard_columns(X, self.centre, self.unit, self.size), self.thetas[0]
        linear, widths = dot(z, theta), self._squared_widths(z)
        shares, own, _ = self.effects(X)
        means = linear + shares * (own - linear)
        variances = self._noise_variance * (widths + self.sums[POSSIBLE])
        may_be_best = untried & (means + np.sqrt(2.0 * math.log(self.count + 1.0) * variances) > means.max())
        out = np.zeros(len(X), dtype=np.bool_)
        widest = int(np.where(may_be_best, widths, -np.inf).argmax())
        out[widest] = may_be_best[widest]
        return out

    def _squared_widths(self, z: Array) -> Array:
        """z'V⁻¹z of every column."""
        if not self.factored:
            return squares(z, self.stack[0])
        found: Array = np.square(np.linalg.solve(self.stack[0], z)).sum(axis=0)
        return found

    @property
    def doubts_level(self) -> bool:
        """Whether the level that is followed may be that of the rows that are played only."""
        return doubts_level(self.sums, self.G[-1, -1])

    def unseen(self, X: Array) -> npt.NDArray[np.bool_]:
        """Which row went unplayed for longest; none if all that are remembered were played lately."""
        out = np.zeros(len(X), dtype=np.bool_)
        if max(len(X), len(self.rows)) <= MAX_OWN_ARMS:
            row = find_unseen(X, self.known, self.slots, float(self.count - CHECK_ROUNDS))
            out[row : row + 1] = row >= 0
        return out

    def best(self, X: Array, boldness: Array) -> list[int] | None:
        """The arm with the largest optimistic score for every boldness, -1 if scores are not finite; None if equal."""
        if len(boldness) == 1:
            arm, noise = decide_round(X, self._flat, self.size, boldness.item(), self._discount)
            self._estimated = self._prior, noise
            return None if arm == TIED else [arm]
        played = np.empty(len(boldness), dtype=np.int64)
        tied = ucb_best(played, X, self._scoring, boldness, self.estimate({})[1])
        return None if tied else played.tolist()

    def best_many(self, tables: Array, boldness: Array) -> list[int]:
        """`best` of one boldness for each of many tables; `TIED` where several arms are equally good."""
        played = np.empty(len(tables), dtype=np.int64)
        decide_rounds(played, tables, self._flat, self.size, boldness.item(), self.estimate({})[1])
        return played.tolist()

    def _estimated_solutions(self, count: int) -> Solutions:
        """The solution of the estimated prior, for so many points."""
        found = self._solutions.get(count)
        if found is None:
            rows = np.zeros(count, dtype=np.int64)
            found = self._solutions[count] = Solutions(self.stack, self.thetas, self.squared, rows)
        return found

    def learn(self, x: Array, reward: float) -> None:
        if self._empty:
            self._start(x, reward)
        self.count += 1
        self._estimated = None
        if self.rows.size and meet(x, self.unit, self.low, self.high):
            self._review()
        if self.squared.size:
            z = standard(x, self.centre, self.unit, self.size) * self._linear_share(x)
            update_squares(self.squared, self.catalogue, self.stack, NO_FORGETTING, ONE_ROW, z)
        lost = learn_round(self._flat, x, reward - self.origin, self.count, self.size, self.factored)
        if self.count >= self.due or not lost < MAX_PRECISION_LOSS:
            self._keep_up(lost)

    def _linear_share(self, x: Array) -> float:
        """How much of the next reward of this row theta has to tell, in standard deviations of what it has not."""
        place = find(self.known, self.slots, x[None], 0)
        share, left = own_share(self.known[PLAYS, place] if place >= 0 else 0.0, self.own_variance)
        return float((1.0 - share) / math.sqrt(1.0 + left))

    def learn_many(self, X: Array, rewards: Array) -> None:
        """`learn` one row after the other."""
        done = 0
        while done < len(X):
            if self._empty or self.rows.size:
                self.learn(X[done], float(rewards[done]))
                done += 1
                continue
            rest = X[done:], rewards[done:], self.origin, self.count, self.due
            taken, lost = learn_rounds(self._flat, *rest, MAX_PRECISION_LOSS, self.size, self.factored)
            self.count, self._estimated, done = self.count + int(taken), None, done + int(taken)
            self._keep_up(lost)

    def replay(self, tables: Array, places: Ints, rewards: Array, boldness: Array, round_: int, played: Ints) -> int:
        """Play one table after the other, from this round on, and learn where that is what was played.

        Gives how many were played, until equals, a check of the level or a refresh.
        """
        if self._empty:
            return 0
        given = self._arrays, self._scoring, tables, places, rewards, boldness, round_, self.origin
        limits = self.count, self.due, MAX_PRECISION_LOSS
        found = replay_rounds(played, *given, *limits, self.intercept, self._discount)
        done, learned, lost = found
        if learned:
            self.count, self._estimated = self.count + int(learned), None
            self._keep_up(lost)
        return int(done)

    def _keep_up(self, lost: float) -> None:
        """After an observation that cost so much precision: start again, or refresh, if it is time."""
        alarm = lost == math.inf
        if alarm and RESTARTS not in self.without:
            self._restart()
        elif self.count >= self.due or not (alarm or lost < MAX_PRECISION_LOSS):
            self._refresh()

    def _start(self, x: Array, reward: float) -> None:
        """Count rows and rewards from the first of them on, if there is an intercept to tell where they are."""
        if self.count == 0:
            self.low, self.high = x.copy(), x.copy()
        if self.intercept:
            self.first, self.origin = x.copy(), reward
            self.sums[[MOVING, CHECKED]] = 0.0
            self.known[MEAN_BEFORE] -= reward
        self._view()

    def _restart(self) -> None:
        """The world has changed: what was learned before says little about it.

        If all rewards have moved, rows that were not played meanwhile tell whether it is the level that has, which is
        then followed, apart from the model. One that has moved soon after a start is followed at once.

        Where rows are new and rewards have risen, it is the level, and theta is kept: the rows that are played are
        those that theta says are best, so under another one they would pay less.
        """
        sums, known, level = self.sums, self.known, self.sums[LEVEL_ALARM] > self.sums[DRIFT_ALARM]
        if level and sums[MOVING] > 0.0 and sums[NEW_SHARE] >= MAX_NEW_SHARE:
            self._follow_level()
            return
        unseen = known[PLAYED_LAST] < self.count - CHECK_ROUNDS
        known[PLAYS_BEFORE], known[MEAN_BEFORE] = known[PLAYS] * unseen, known[MEAN] + self.level
        sums[[SHIFT, NOISE_BEFORE]] = sums[MOVING] * level, sums[RSS] / self.G[-1, -1]
        if level and self.G[-1, -1] < SOON and sums[ALIKE] >= 0.0:
            sums[[FOLLOWING, ALIKE, SHIFT]] = 1.0, MAX_ALIKE, 0.0
        elif sums[ALIKE] < 0.0:
            sums[FOLLOWING] = 0.0
        self._forget()

    def _follow_level(self) -> None:
        """Keep what is known of theta, with the weight of few rewards, and follow the level from where it is now."""
        kept = min(1.0, KEPT_REWARDS * (self.dim + 1) / self.G[-1, -1])
        G, b, totals = kept * self.G, kept * self.b, kept * self.sums[[TOTAL, NOT_ZERO]]
        self._forget()
        sums = self.sums
        self.G[:], self.b[:], sums[[TOTAL, NOT_ZERO]] = G, b, totals
        sums[[FOLLOWING, ALIKE, SHIFT, CHECKED]] = 1.0, MAX_ALIKE, 0.0, sums[MOVING]
        self._refresh()

    def _refresh(self) -> None:
        """Bring the units up to date, and estimate lam in them."""
        self.due = self.count + min(REFRESH_ROUNDS, math.ceil((REFRESH_GROWTH - 1.0) * self.G[-1, -1]))
        self.unit = _units(self.low, self.high)
        self._limit_errors()
        self.sums[OWN], spectrum = self._judge_effects()
        self._weights = np.ones(self.dim)
        if RELEVANCE not in self.without and self._active > MIN_DENSE * np.count_nonzero(self.unit):
            spectrum = self._weigh_columns(spectrum)
        self.centre = spectrum.centre[0]
        self.lam = _pooled(self._log_evidence(spectrum)[0])
        self.sums[RSS] = spectrum.rss(np.array([self.lam * self._active]))[0, 0]
        stack, theta = self._solve(spectrum, self.lam)
        self.stack, self.thetas = stack[None], theta[None]
        self._view()
        self._square()

    def _limit_errors(self) -> None:
        """Find the largest error that is usual."""
        if OUTLIERS not in self.without:
            self.sums[LIMIT] = largest_usual(self.sizes, self.count, self.sums[TIES])

    def _log_evidence(self, spectrum: Spectrum) -> Array:
        return spectrum.log_evidence(PENALTIES * self._active, self.G[-1, -1] - self.intercept)

    def _judge_effects(self) -> tuple[float, Spectrum]:
        """The variance of the effects of rows, its posterior mean, and the spectrum that it leaves.

        What is possible is its posterior mean at even odds, before anything is known, that there are none.
        """
        plays = self.known[PLAYS, self.known[PLAYS] > 0.0]
        if EFFECTS not in self.without and plays.max(initial=0.0) > 1.0 and len(self.rows) <= MAX_OWN_ARMS:
            variances = np.append(0.0, OWN_VARIANCES)
            found = self._marginals(plays, variances, MIN_JUDGED_RSS * float(self.sums[TOTAL]))
            found[0] += math.log(len(OWN_VARIANCES))
            self.sums[POSSIBLE] = _posterior_mean(variances, found)
            found[0] += PLAIN_EVIDENCE
            variance = _posterior_mean(variances, found)
            if variance > MIN_OWN_VARIANCE:
                return variance, self._spectrum(np.array([variance]))
        return 0.0, self._spectrum(np.zeros(1))

    def _weigh_columns(self, plain: Spectrum) -> Spectrum:
        """Bring the units to the weights of columns, and give the spectrum in them; `plain` has equal weights."""
        unit, weights, spectrum, equal = self.unit, np.ones(self.dim), plain, self._total_evidence(plain)
        for _ in range(RELEVANCE_STEPS):
            penalty = _pooled(self._log_evidence(spectrum)[0]) * self._active
            variance = spectrum.rss(np.array([penalty]))[0, 0] / max(self.G[-1, -1] - self.intercept, 1.0)
            if not variance > 0.0:
                self.unit = unit
                return plain
            solved, Q = spectrum.values[0] + penalty, spectrum.Q[0]
            theta = Q @ (spectrum.along[0] / solved)
            weights = 0.5 * (1.0 + weights * penalty * (theta**2 / variance + (Q**2 / solved).sum(axis=1)))
            self.unit = unit * np.sqrt(weights)
            spectrum = self._spectrum()
        before = -0.5 * float(np.sum(np.log(weights) + 1.0 / weights - 1.0))
        odds = math.exp(min(equal + PLAIN_EVIDENCE - self._total_evidence(spectrum) - before, MAX_EXPONENT))
        self._weights = (weights + odds) / (1.0 + odds)
        self.unit = unit * np.sqrt(self._weights)
        return self._spectrum()

    def _total_evidence(self, spectrum: Spectrum) -> float:
        """Over all penalties, equally likely before."""
        return float(np.logaddexp.reduce(self._log_evidence(spectrum)[0]))

    def _marginals(self, plays: Array, variances: Array, floor: float | None = None) -> Array:
        """The logarithm of the likelihood of the rewards for each variance, over all penalties, up to a constant."""
        spectrum = self._spectrum(variances, floor)
        volumes = np.log1p(np.outer(variances, plays)).sum(axis=1) + self.intercept * np.log(spectrum.weight)
        found: Array = np.logaddexp.reduce(self._log_evidence(spectrum), axis=1) - 0.5 * volumes
        return found

    @property
    def _active(self) -> float:
        """n: how many features of a row are not 0."""
        return max(self.sums[NOT_ZERO] / self.G[-1, -1], 1.0) if self.G[-1, -1] else 1.0

    def _spectrum(self, variances: Array | None = None, floor: float | None = None) -> Spectrum:
        """With effects of rows of each of these variances, or of that which was chosen."""
        unit = np.where(self.unit > 0.0, self.unit, 1.0)
        whole, along, total = self._sums(self.sums[[OWN]] if variances is None else variances)
        N, mean = np.maximum(whole[:, -1, -1], 1.0), along[:, -1]
        G, r, centre = whole[:, :-1, :-1], along[:, :-1], np.tile(self.first, (len(N), 1))
        if self.intercept and self.G[-1, -1]:
            N = whole[:, -1, -1]
            middle = whole[:, -1, :-1] / N[:, None]
            G = G - N[:, None, None] * (middle[:, :, None] * middle[:, None])
            r, total, centre = r - middle * mean[:, None], total - mean**2 / N, centre + middle
        values, Q = np.linalg.eigh(unit[:, None] * G * unit)
        total = np.maximum(total, 0.0)
        least = MIN_RSS_SHARE * total if floor is None else np.full(len(N), floor)
        along = np.einsum("vij,vi->vj", Q, unit * r)
        return Spectrum(np.maximum(values, 0.0), Q, along, total, least, centre, N, mean / N)

    def _sums(self, variances: Array) -> tuple[Array, Array, Array]:
        """Σ v v', Σ v y and Σ y², of which effects of rows of each variance take their share."""
        rows = self.known[:, self.known[PLAYS] > 0.0] if variances.any() else self.known[:, :0]
        V = np.column_stack([rows[FEATURES:].T - self.first, np.ones(rows.shape[1])])
        plays, means = rows[PLAYS], rows[MEAN]
        taken = plays**2 * variances[:, None] / (1.0 + plays * variances[:, None])
        rest = self.sums[TOTAL] - taken @ means**2
        return self.G - (V.T * taken[:, None]) @ V, self.b - (taken * means) @ V, rest

    def _solve(self, spectrum: Spectrum, lam: float) -> tuple[Array, Array]:
        """V⁻¹, or its factor, and theta; the intercept is apart, since the features are centred."""
        values, Q, N = spectrum.values[0] + lam * self._active, spectrum.Q[0], spectrum.weight[0]
        stack, theta = np.zeros((self.size, self.size)), np.zeros(self.size)
        stack[-1, -1], theta[-1] = math.sqrt(N) if self.factored else 1.0 / N, spectrum.mean[0]
        own = np.linalg.cholesky((Q * values) @ Q.T) if self.factored else (Q / values) @ Q.T
        stack[: self.dim, : self.dim] = own
        theta[: self.dim] = Q @ (spectrum.along[0] / values)
        return stack, theta

    def _review(self) -> None:
        """After a column got its first unit: arms whose value there is another one have another width."""
        if self._view():
            self._square()

    def _view(self) -> bool:
        """The arrays that an observation changes, at hand in one, and the catalogue in the model's units.

        Gives whether the catalogue is another one.
        """
        own = [getattr(self, name) for name in MODEL_FIELDS]
        self._flat, start = np.concatenate([array.ravel() for array in own]), 0
        for name, array in zip(MODEL_FIELDS, own, strict=True):
            setattr(self, name, self._flat[start : start + array.size].reshape(array.shape))
            start += array.size
        statistics = self.G, self.b, self.sums, self.sizes, self.trace, self.stack[0], self.thetas[0]
        columns = self.first, self.centre, self.unit, self.low, self.high
        self._arrays = (*statistics, *columns, self.known, self.slots)
        self._scoring = self.centre, self.unit, self.stack, self.thetas, self.sums, self.known, self.slots
        self._prior = Prior(self.lam, float(self.intercept), 1.0)
        self._solutions: dict[int, Solutions] = {}
        self._estimated = None
        self._empty = bool(self.G[-1, -1] == 0.0)
        if self.catalogue.shape[1] >= len(self.rows):
            return refill(self.catalogue, self.rows, self.centre, self.unit)
        self.catalogue = standard_columns(self.rows, self.centre, self.unit, self.size)
        return True

    def _square(self) -> None:
        self._solutions.clear()
        self.squared = np.zeros((1, 0 if self.factored else len(self.rows)))
        if self.squared.size:
            self.squared[0] = squares_of_many(self.catalogue, self.stack[0], len(self.rows))


def _units(low: Array, high: Array) -> Array:
    """One over the range of each column; over its value if that is always the same, and 0 if that is 0."""
    size = np.maximum(np.abs(low), np.abs(high))
    scale = np.where(high - low > MIN_SCALE_SHARE * size, high - low, size)
    return np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 0.0)


def _posterior_mean(values: Array, log_evidence: Array) -> float:
    weights = np.exp(log_evidence - log_evidence.max())
    return float(weights @ values / weights.sum())


def _pooled(log_evidence: Array) -> float:
    """The lam whose inverse is the posterior mean of 1/lam over `PENALTIES`, all equally likely before."""
    return 1.0 / _posterior_mean(1.0 / PENALTIES, log_evidence)
