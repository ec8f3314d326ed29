"""Models of arms: a Gaussian belief about the parameters of each, in features that it scales itself.

Rewards are linear in the features, or their logits are. Every arm has a model of its own; with a shared part (hybrid)
an arm that was never played starts from what all arms have in common. `_arm_kernels` has the arithmetic.
"""

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._learner import Learner, within
from syndicated._models.arm_information import Change, centred, known_of, log_evidence, seen_by_common, solve
from syndicated._models.arm_kernels import (
    BEFORE,
    CENTRED,
    ERRORS,
    EXCESS,
    FOLLOWING,
    JUDGED,
    LAST,
    LEVEL_ALARM,
    LIMIT,
    MOVING,
    NOW,
    ORIGIN,
    ROWS,
    SEEN,
    SIZES,
    SUMS,
    SUSPICION,
    TIES,
    TOTAL,
    along,
    beliefs,
    best_of_arms,
    best_of_arms_many,
    drawn_scores_of_arms,
    learn_reward,
    learn_rewards,
    learn_rows,
    leave_cut_rows,
    level_of,
    replay_arms,
    unit_of,
    weigh_by_size,
)
from syndicated._models.logistic import sigmoid
from syndicated._models.scaled_kernels import ALARM, MAX_GAIN, MAX_OUTLIERS, MIN_SIZES, USUAL_SIZES, largest_usual
from syndicated._models.scaled_ridge import OUTLIERS, RESTARTS, TRIALS
from syndicated.streams import Stream
from syndicated.types import ArmRows, Array, Ints

EARLY_ROWS = 64  # that are kept, and learned anew whenever the scales of features change
MIN_EARLY = 8  # rewards before one of them may be an outlier
RING_ROWS = 64  # that a logistic model of an arm can still visit
REFRESH_GROWTH = 1.5  # of the number of rows, after which scales and priors are looked at again
MAX_DRIFT = 1.25  # of a scale, before the models are brought to a new one
MAX_AT_ONCE = 2**18  # entries of covariances that are brought to a new scale at once: 10 to 30 ms, 60 of tiny models
WITH_EACH_REWARD = 2**11  # of those that are left then; several hundred rewards may be learned at once
MAX_WEIGHED = 2**16  # entries of covariances that a share is judged by, and `MIN_WEIGHED` arms at least
MIN_WEIGHED = 3
ROUNDED_AWAY = 1e-20  # of a variance, in units of the squared mean
ROUNDING = 1e-9  # of a mean, by which the variance of a column of 0 and 1 may be off
COMMON_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)  # of the prior variance, chosen by evidence
JITTER = 1e-12  # of the variances, so that rounding leaves a covariance one
NO_INTERCEPT_VARIANCE = 1e-100
LOOK_AGAIN, LOOK_AGAIN_ALIKE = 1.0, 3.0  # at neglected arms: rows that differ explore by themselves
INTERCEPT_VARIANCE = 1.0  # of an arm's level, in logits or in the noise's variance
LARGE = ("own", "covariances", "rows", "rewards", "sites")  # of arms
OF_ARMS = ("own", "covariances", "plays", "behind", "rows", "rewards", "sites", "next_visit", "falls")
MIN_ROOM_BYTES, ROOM_BYTES = 2**22, 2**28  # see `_zeros_with_room`
LAST_ROWS = 10  # of an arm that starts again: as many as its last errors are the mean of
MIN_TRIED = 256  # rewards before arms that went unplayed are tried again
UNPLAYED_SHARE = 0.3  # of all rewards: an arm that had none of the last ones went unplayed
RISE = 0.5  # in standard deviations of the noise, or in logits: what a tried arm must pay more than the best one
FIRST_HOPE, RISE_ALARM = 0.5, 4.0  # of the log-likelihood that a tried arm pays so much, before it starts again
ARM, HOPE, TRIED = range(3)  # the entries of `trial`; the first is the arm's number plus 1
NONE = np.zeros(0, dtype=np.bool_)  # of the arms is left out


def _zeros_with_room(shape: tuple[int, ...], kind: type) -> npt.NDArray[Any]:
    """Zeros, and more rows of them for arms that come later: to copy a hundred megabytes for one takes too long.

    A large array of zeros takes no memory before something is written to it. Where the system counts it all the same,
    and has not as much, there are no more rows than were asked for.
    """
    row_bytes = math.prod(shape[1:]) * np.dtype(kind).itemsize
    if shape[0] * row_bytes >= MIN_ROOM_BYTES:
        with suppress(MemoryError):
            return np.zeros((max(shape[0], ROOM_BYTES // row_bytes), *shape[1:]), dtype=kind)
    return np.zeros(shape, dtype=kind)


@dataclass(eq=False)
class ArmModels(Learner):
    """The models of all arms.

    `variance` is that of the logit of a typical row before anything is known, apart from the level; for linear rewards,
    in units of the noise's. In a hybrid `share` of it, and of the level's, is common to all arms. `own` and
    `covariances` are the arms' own parts, `common` and `common_covariance` the shared one. `columns` has what was seen
    of every feature, of which `varying` had varied when it was last looked at. `sums` are over rewards: the first one,
    the sum of what is above it; the sum of squared errors in standard units, and their count; the number of rows; and 1
    if rewards are taken around their mean. `falls` has the mean of each arm's last errors and the suspicion that it
    pays less, `last` the count of rewards at its last one, and `trial` the arm that is tried again, the hope for it and
    how often it was played since. `without` names parts that are left out: `OUTLIERS`, `RESTARTS`, `TRIALS`.

    `centers` and `weights` are the scale of features, `slope_variances` and `shares` what priors follow from: each of
    now, and of before, where arms are that are `behind`. To bring an arm to another scale takes two inversions of its
    covariance. So of thousands of arms some are brought there at once, and a few more with each reward.
    """

    by_rows: ClassVar[tuple[str, ...]] = LARGE
    dim: int
    logistic: bool
    hybrid: bool
    variance: float
    intercept: bool = True
    without: Collection[str] = ()
    own: Array = field(init=False)
    covariances: Array = field(init=False)
    plays: Ints = field(init=False)
    behind: Ints = field(init=False)
    rows: Array = field(init=False)
    rewards: Array = field(init=False)
    sites: Array = field(init=False)
    next_visit: Ints = field(init=False)
    falls: Array = field(init=False)
    last: Ints = field(init=False)
    trial: Array = field(init=False)
    common: Array = field(init=False)
    common_covariance: Array = field(init=False)
    retired: Array = field(init=False)
    columns: Array = field(init=False)
    centers: Array = field(init=False)
    weights: Array = field(init=False)
    slope_variances: Array = field(init=False)
    shares: Array = field(init=False)
    early_rows: Array = field(init=False)
    early_rewards: Array = field(init=False)
    early_arms: Ints = field(init=False)
    sums: Array = field(init=False)
    varying: int = field(init=False, default=0)
    refresh_at: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        for name, (shape, kind) in self._shapes(0, self.dim).items():
            setattr(self, name, np.zeros(shape, dtype=kind))
        self.sums[CENTRED] = self.intercept and not self.logistic
        self.slope_variances[:], self.shares[:] = 1.0, 0.5
        self._set_priors()

    def _shapes(self, K: int, d: int) -> dict[str, tuple[tuple[int, ...], type]]:
        """The shape and the type of every array, for K arms and d features."""
        D, ring, shared = d + 1, RING_ROWS if self.logistic else 1, (d + 1) * self.hybrid
        floats = {
            "own": (K, D),
            "covariances": (K, D, D),
            "rows": (K, ring, d),
            "rewards": (K, ring),
            "sites": (K, 2 * ring),
            "falls": (K, 2),
            "common": (shared,),
            "common_covariance": (shared, shared),
            "retired": (shared, shared + self.hybrid),
            "columns": (2, d),
            "centers": (2, d),
            "weights": (2, d),
            "slope_variances": (2,),
            "shares": (2,),
            "early_rows": (EARLY_ROWS, d),
            "early_rewards": (EARLY_ROWS,),
            "sums": (SUMS,),
            "trial": (3,),
        }
        whole = {"plays": (K,), "behind": (K,), "next_visit": (K,), "last": (K,), "early_arms": (EARLY_ROWS,)}
        return {n: (s, float) for n, s in floats.items()} | {n: (s, np.int64) for n, s in whole.items()}

    @property
    def size(self) -> int:
        """The number of parameters of a model."""
        return int(self.centers.shape[1]) + 1

    @property
    def center(self) -> Array:
        """What is the middle of every feature."""
        center: Array = self.centers[NOW]
        return center

    @property
    def weight(self) -> Array:
        """One over the size of every feature."""
        weight: Array = self.weights[NOW]
        return weight

    @property
    def slope_variance(self) -> float:
        """The prior variance of the parameter of a feature."""
        return float(self.slope_variances[NOW])

    @property
    def share(self) -> float:
        """How much of the prior variance is common to all arms."""
        return float(self.shares[NOW])

    @property
    def count(self) -> int:
        """The number of rewards."""
        return int(self.sums[ROWS])

    @property
    def _tries(self) -> bool:
        """Whether arms that went unplayed are tried again."""
        return self.count >= MIN_TRIED and TRIALS not in self.without

    @property
    def _may_restart(self) -> bool:
        return self.count > EARLY_ROWS and RESTARTS not in self.without

    @property
    def excess(self) -> float:
        """By how much the last reward was farther from its prediction than is usual."""
        return float(self.sums[EXCESS])

    def beliefs(self, arms: ArmRows) -> tuple[Array, Array]:
        """The mean and the standard deviation of every arm's logit or reward."""
        means, sds = np.empty(len(arms)), np.empty(len(arms))
        beliefs(means, sds, arms.x, arms.numbers, NONE, self.logistic, *self._scale_for(arms), *self._model)
        return means, sds

    def ucb_scores(
        self, arms: ArmRows, boldness: Array, rng: Stream, guarded: bool, wide: float = 0.0, breaks_ties: bool = True
    ) -> Array:
        """The mean and `boldness` standard deviations of every arm; arms never played are in a random order.

        If `guarded`, arms that had less than their share of plays are looked at again, more so where rows are alike.
        Of known arms the bonus is a draw: itself, and `wide` times a normal one of it.
        """
        out = np.empty((len(boldness), len(arms)))
        asked = NONE, self._look_again(guarded), wide, breaks_ties, self.logistic, *rng.skip(len(arms))
        drawn_scores_of_arms(out, arms.x, arms.numbers, boldness, *asked, *self._scale_for(arms), *self._model)
        return out

    def ucb_best(self, arms: ArmRows, boldness: Array, rng: Stream, guarded: bool, wide: float = 0.0) -> list[int]:
        """The arm with the largest of `ucb_scores` for every boldness."""
        played = np.empty(len(boldness), dtype=np.int64)
        asked = boldness, self._look_again(guarded), wide, self.logistic, *rng.skip(len(arms))
        best_of_arms(played, arms.x, arms.numbers, *asked, *self._scale_for(arms), *self._model)
        return played.tolist()

    def ucb_best_many(
        self, X: Array, numbers: Ints, boldness: Array, rng: Stream, guarded: bool, spread: float
    ) -> list[int]:
        """`ucb_best` with one boldness, in rounds from that of a stream on: arms have the row of the round.

        Draws are as wide as `spread` times the share of decisions that wait for their rewards.
        """
        played = np.empty(len(X), dtype=np.int64)
        asked = boldness, self._look_again(guarded), spread, self.logistic, *rng.skip(0)[:3]
        best_of_arms_many(played, X, numbers, *asked, (self.centers, self.weights, *self._model))
        return played.tolist()

    @property
    def may_try(self) -> bool:
        """Whether `tried` may give an arm."""
        return not self.varying and self._tries

    def _look_again(self, guarded: bool) -> float:
        return (LOOK_AGAIN if self.varying else LOOK_AGAIN_ALIKE) if guarded else 0.0

    def tried(self, arms: ArmRows, round_: int, *, trial: bool) -> int:
        """The place of the arm that is tried again in this round, -1 if none is: only where all rows are alike.

        In a `trial` that is the one that went unplayed for longest; an arm that gives hope is tried on. While decisions
        wait for their rewards, it is tried about once in the time that rewards take.
        """
        if self.varying or not (trial or self.trial.item(ARM)) or not self._tries:
            return -1
        if self.trial[ARM] > 0.0 and round_ % (1 + max(0, round_ - self.count)) == 0:
            hopeful = np.flatnonzero(arms.numbers == int(self.trial[ARM]) - 1)
            if len(hopeful):
                return int(hopeful[0])
        if not trial:
            return -1
        known = np.flatnonzero((arms.numbers >= 0) & (arms.numbers < len(self.plays)))
        unplayed = np.zeros(len(arms), dtype=np.int64)
        numbers = arms.numbers[known]
        unplayed[known] = np.where(self.plays[numbers] > 0, self.count - self.last[numbers], 0)
        longest = int(unplayed.argmax())
        return longest if unplayed[longest] >= UNPLAYED_SHARE * self.count else -1

    def draw(self, rows: ArmRows, normals: Array) -> Array:
        """One draw of the shared model's parameters, seen along every row: standard normals, alike where rows are."""
        prior, (centers, weights) = self._priors[NOW], self._scale_for(rows)  # the first arm is never behind
        P = self.covariances[0] if len(self.plays) and self.plays[0] else np.diag(prior)
        if self.hybrid:
            seen = P / prior
            P = P + seen @ self.common_covariance @ seen.T
        factor = np.linalg.cholesky(P + JITTER * np.diag(np.diag(P)))
        out = np.empty(len(rows))
        along(out, rows.x, centers, weights, np.ascontiguousarray(P), factor @ normals)
        return out

    def learn(self, number: int, x: Array, reward: float) -> None:
        if self._copies:
            self._keep(number)
        if number >= len(self.plays) or len(x) >= self.size:
            self._make_room(number, len(x))
        if not self.varying and self._tries and self.plays[number]:
            self._judge_trial(number, x, reward)
        scale = self.columns, self.centers, self.weights
        count = learn_reward(number, x, reward, self.logistic, *scale, *self._model, *self._ring)
        self.last[number] = count
        if count <= EARLY_ROWS:
            self.early_rows[count - 1, : len(x)] = x
            self.early_rewards[count - 1], self.early_arms[count - 1] = reward - self.sums[ORIGIN], number + 1
        self._keep_up(number, count)

    def learn_many(self, numbers: Ints, X: Array, rewards: Array) -> None:
        """`learn` one reward after the other."""
        done = 0
        while done < len(X):
            if not self._learns_in_batches(X) or numbers[done] >= len(self.plays):
                self.learn(int(numbers[done]), X[done], float(rewards[done]))
                done += 1
                continue
            given = numbers[done:], X[done:], rewards[done:], self.logistic, self.refresh_at, self.last, self.columns
            done += learn_rewards(*given, (self.centers, self.weights, *self._model), self._ring)
            self._keep_up(int(numbers[done - 1]), self.count)

    def replay(
        self,
        X: Array,
        numbers: Ints,
        places: Ints,
        rewards: Array,
        boldness: Array,
        rng: Stream,
        guarded: bool,
        spread: float,
        played: Ints,
    ) -> int:
        """Play one round after the other as `ucb_best_many` does, and learn where that is what was played.

        Gives how many were played, until a refresh, an alarm, or the first reward of an arm.
        """
        if not self._learns_in_batches(X):
            return 0
        given = X, numbers, places, rewards, boldness, self._look_again(guarded), spread, self.logistic
        more = *rng.skip(0)[:3], self.refresh_at, self.last, self.columns
        done, number = replay_arms(played, *given, *more, (self.centers, self.weights, *self._model), self._ring)
        if number >= 0:
            self._keep_up(int(number), self.count)
        return int(done)

    def _learns_in_batches(self, X: Array) -> bool:
        """Whether rows like these can be learned with nothing but the kernels between one refresh and the next."""
        early = self.count < EARLY_ROWS or not self.varying
        return not early and not self._copies and not self._any_behind and X.shape[1] < self.size

    def _keep_up(self, number: int, count: int) -> None:
        """After the count-th reward, which this arm had: look again at scales, or start again, if it is time."""
        if self._any_behind:
            rate = WITH_EACH_REWARD / self.size**2
            self._bring_up(int(count * rate) - int((count - 1) * rate))
        if count >= self.refresh_at and (count <= EARLY_ROWS or not self._any_behind):  # at first all start again
            self.refresh_at = math.ceil(REFRESH_GROWTH * count)
            self._refresh()
        elif self._may_restart and max(self.sums[LEVEL_ALARM], self.falls[number, SUSPICION]) > ALARM:
            self._check_arm(number)
            self._check_level()
        if self.trial.item(HOPE) > RISE_ALARM:
            self._start_arm_again(number, int(self.trial[TRIED]))
            self.trial[:] = 0.0

    def learn_rows_of(self, other: "ArmModels") -> None:
        """Learn the last rows that other models have of every arm, as if they had just come; older ones only count."""
        for age in range(RING_ROWS, 0, -1):
            for arm in np.flatnonzero(other.plays >= age).tolist():
                place = (other.plays[arm] - age) % RING_ROWS
                self.learn(arm, other.rows[arm, place], float(other.rewards[arm, place]))
        if self.count:
            self.sums[TOTAL] *= other.count / self.count
            self.sums[ROWS], self.columns[:] = other.count, other.columns
            played = np.flatnonzero(self.plays)
            self.last[played] = other.last[played]
            self.plays[played] = other.plays[played]  # else all arms would look neglected beside the count of rows

    def _check_level(self) -> None:
        """Start again with a level that is followed, if the errors show that the level of all rewards moves."""
        if self.sums[LEVEL_ALARM] > ALARM + math.log(self.count):
            self.retired[:] = 0.0  # they had the level of before
            self._forget()
            self.sums[[LEVEL_ALARM, TOTAL]] = 0.0
            self.sums[[FOLLOWING, MOVING]] = 1.0, self.sums[LAST] - self.sums[EXCESS]

    def _check_arm(self, number: int) -> None:
        """Start the arm again with its last rewards, if it has paid less than its model says for too long."""
        if self.falls[number, SUSPICION] > ALARM + math.log(self.count):
            self._start_arm_again(number, LAST_ROWS)

    def _judge_trial(self, number: int, x: Array, reward: float) -> None:
        """Sum up whether an arm that went unplayed pays clearly more than the best other one; below 0 there is no hope.

        A sequential test of two likelihoods: of what the arm's model says, and of `RISE` more than the best one's.
        """
        mine, count = number + 1 == self.trial.item(ARM), self.count
        if not mine and count - self.last.item(number) >= UNPLAYED_SHARE * count:
            self.trial[:], mine = (number + 1, FIRST_HOPE, 0.0), True
        if not mine:
            return
        arms, unit = np.flatnonzero(self.plays), unit_of(self.sums, self.logistic)
        means, sds = self.beliefs(ArmRows(np.tile(x, (len(arms), 1)), arms))
        own, sd = float(means[arms == number][0]), float(sds[arms == number][0])
        risen = float(means[arms != number].max(initial=-np.inf)) + RISE * unit
        if not own < risen:
            gain = -np.inf
        elif self.logistic:
            p, q = float(sigmoid(own)), float(sigmoid(risen))
            gain = reward * math.log(q / p) + (1.0 - reward) * math.log((1.0 - q) / (1.0 - p))
        else:
            gain = (risen - own) * (reward - 0.5 * (own + risen)) / (unit**2 + sd**2)
        self.trial += 0.0, min(gain, MAX_GAIN), 1.0
        if self.trial[HOPE] <= 0.0:
            self.trial[:] = 0.0

    def _start_arm_again(self, number: int, rewards: int) -> None:
        """Start again with the last rewards of an arm, as many of them as it keeps."""
        played, ring = int(self.plays[number]), self.rewards.shape[1]
        last = np.arange(played - min(played, ring, rewards), played) % ring
        rows, sums = self.rows[number, last], self.sums.copy()
        paid = self.rewards[number, last] + sums[MOVING] * sums[FOLLOWING]
        self._leave(number)
        given = np.full(len(last), number), rows, paid, self.logistic, self.centers, self.weights
        learn_rows(*given, *self._model, *self._ring)
        self.sums[:] = sums

    def retire(self, number: int) -> None:
        if number < len(self.plays) and self.plays[number]:
            self._leave(number)
            if self.trial[ARM] == number + 1:
                self.trial[:] = 0.0
            self.early_arms[self.early_arms == number + 1] = 0

    def _leave(self, number: int) -> None:
        """Leave nothing of an arm but what it says of the others."""
        self._keep(number)
        if self.hybrid:
            self.retired += self._seen_by_common(np.array([number]))
        for name in OF_ARMS:
            getattr(self, name)[number] = 0
        self._any_behind = bool(self.behind.any())

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        self._set_priors()

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[Any]]) -> str | None:
        plays, d = arrays["plays"], arrays["centers"].size // 2
        for name, (shape, kind) in self._shapes(plays.size, d).items():
            given = arrays[name]
            if given.shape != shape or given.dtype != kind or not np.all(np.isfinite(given)) or d < self.dim:
                return name
        if not within(arrays["behind"], len(arrays["centers"])) or np.any(arrays["behind"] > plays):
            return "behind"
        if not np.all(arrays["slope_variances"] > 0.0):
            return "slope_variances"
        if not np.all((arrays["shares"] > 0.0) & (arrays["shares"] < 1.0)):
            return "shares"
        whole = [name for name, array in arrays.items() if array.dtype.kind == "i" and array.min(initial=0) < 0]
        return whole[0] if whole else None

    def _scale_for(self, arms: ArmRows) -> tuple[Array, Array]:
        """The center and the weight of features; as long as nothing is known of them, what the arms at hand show."""
        if self.count:
            return self.centers, self.weights
        weights = np.empty_like(self.weights)
        weigh_by_size(weights[NOW], arms.x)
        return self.centers, weights

    def _set_priors(self) -> None:
        """The variances of the own and of the shared parameters before anything is known."""
        priors = np.array([self._prior_of(variance) for variance in self.slope_variances])
        self._priors = priors * (1.0 - self.shares[:, None] if self.hybrid else 1.0)
        self._common_prior = priors[NOW] * self.share if self.hybrid else np.zeros(0)
        self._any_behind = bool(self.behind.any())
        self._collect()

    def _prior_of(self, slope_variance: float) -> Array:
        """The variances of an arm's parameters, shared ones and its own together."""
        prior = np.full(self.size, slope_variance)
        prior[0] = INTERCEPT_VARIANCE if self.intercept else NO_INTERCEPT_VARIANCE
        return prior

    def _collect(self) -> None:
        """The arrays that kernels take, at hand until one of them is replaced."""
        arms = self.own, self.covariances, self.plays, self.behind
        common = self.common, self.common_covariance, self._common_prior
        self._model: tuple[Any, ...] = *arms, self.sums, self._priors, *common
        self._ring: tuple[Any, ...] = self.rows, self.rewards, self.sites, self.next_visit, self.falls

    def _make_room(self, number: int, width: int) -> None:
        """Have a place for this arm, and for rows of this width.

        Arrays of arms are the first rows of larger ones, their base, whose other rows are zero.
        """
        K, d = len(self.plays), self.centers.shape[1]
        old = {name: getattr(self, name) for name in self._shapes(0, 0)}
        K, d = max(K, 4 * (number + 4) // 3) if number >= K else K, max(d, width)
        for name, (shape, kind) in self._shapes(K, d).items():
            room = old[name].base if name in OF_ARMS else None
            if not isinstance(room, np.ndarray) or room.shape[1:] != shape[1:] or len(room) < K:
                room = (_zeros_with_room if name in OF_ARMS else np.zeros)(shape, kind)
                room[tuple(slice(n) for n in old[name].shape)] = old[name]
            setattr(self, name, room[: shape[0]])
        if self.hybrid:  # what is last stays last
            shifts = old["retired"][:, -1]
            self.retired[:, len(shifts)] = 0.0
            self.retired[: len(shifts), -1] = shifts
        self._set_priors()
        # the new columns of those that were there: known before anything else is
        played = np.flatnonzero(self.plays)
        for place in range(old["centers"].shape[1] + 1, d + 1):
            self.covariances[played, place, place] = self._priors[self.behind[played], place]
            if self.hybrid:
                self.common_covariance[place, place] = self._common_prior[place]

    def _refresh(self) -> None:
        """Look again at the scales of features, at which errors are usual, and at the share that is common."""
        center, weight, self.varying, spread = self._scales()
        slope_variance, early = self.variance / spread, self.count <= EARLY_ROWS
        if early:
            if self.hybrid:
                self.retired = Change.of(self.center, self.weight, center, weight).seen(self.retired)
            self.centers[NOW], self.weights[NOW], self.slope_variances[NOW] = center, weight, slope_variance
            self._start_again()
        drifted = not early and self._drifted(center, weight, slope_variance)
        if not drifted:
            center, weight, slope_variance = self.center, self.weight, self.slope_variance
        share = self._likeliest_share(center, weight, slope_variance) if self.hybrid else self.share
        if drifted or share != self.share:
            self._move_to(center, weight, slope_variance, share)
        if OUTLIERS not in self.without:
            self.sums[LIMIT] = largest_usual(self.sums[SIZES:], int(self.sums[SEEN]), self.sums[TIES])

    def _scales(self) -> tuple[Array, Array, int, float]:
        """The center of every feature, one over its size, how many features vary, and the variance of a scaled row.

        They are the mean and the standard deviation, but for truth values and categories: columns of 0 and 1 stay as
        they are, so that a rare one has no larger effect before anything is known than a common one, and zeros cost
        nothing. A feature that has always been the same is in units of its size, and one that has always been 0 does
        not count.
        """
        mean, squares = self.columns
        variance = squares / self.count
        binary = np.abs(variance - mean * (1.0 - mean)) <= ROUNDING * mean
        if not self.intercept:
            mean, variance = np.zeros_like(mean), variance + mean**2
        varies = variance > ROUNDED_AWAY * mean**2
        size = np.where(binary & varies, 1.0, np.sqrt(np.where(varies, variance, mean**2)))
        weight = np.divide(1.0, size, where=size > 0, out=np.zeros_like(size))
        spread = float(np.sum(variance * weight**2, where=varies))
        return np.where(binary & varies, 0.0, mean), weight, int(varies.sum()), spread or 1.0

    def _drifted(self, center: Array, weight: Array, slope_variance: float) -> bool:
        ratios = np.append(weight / np.where(self.weight > 0, self.weight, 1.0), slope_variance / self.slope_variance)
        ratios = ratios[ratios > 0]
        moved = np.abs(center - self.center) * weight
        return bool(ratios.max() > MAX_DRIFT or ratios.min() < 1 / MAX_DRIFT or moved.max() > MAX_DRIFT - 1)

    def _forget(self) -> None:
        """Leave nothing of the arms but the priors of now. Copies under way go on with the arrays of before."""
        shapes = self._shapes(len(self.plays), self.centers.shape[1])
        for name in OF_ARMS:  # new ones: to write zeros over a hundred megabytes takes a tenth of a second
            setattr(self, name, _zeros_with_room(*shapes[name])[: len(self.plays)])
        self.trial[:] = 0.0
        self._set_priors()
        if self.hybrid:
            self.common_covariance[:], self.common[:] = solve(self.retired, self._common_prior)

    def _start_again(self) -> None:
        """Learn the early rows anew, in the scale of now."""
        count, early = self.sums[ROWS], self._usual_early_rewards()
        if self.sums[CENTRED]:  # count from the first usual reward
            self.sums[ORIGIN] += early[0]
            self.early_rewards -= early[0]
            if self.hybrid:
                self.retired[:, -1] -= early[0] * self.retired[:, 0]
            early -= early[0]
        self._forget()
        self.sums[[TOTAL, ERRORS, JUDGED, ROWS, TIES, LAST, MOVING, LEVEL_ALARM]] = 0.0
        scale = self.centers, self.weights
        learn_rows(self.early_arms - 1, self.early_rows, early, self.logistic, *scale, *self._model, *self._ring)
        self.sums[TOTAL] *= count / max(1.0, self.sums[ROWS])
        self.sums[ROWS] = count

    def _usual_early_rewards(self) -> Array:
        """The early rewards of linear models, without outliers: one among the first would own what errors are usual."""
        rewards = self.early_rewards.copy()
        known = rewards[: self.count]
        n, center = len(known), np.median(known)
        sizes = np.sort(np.abs(known - center))
        cut = OUTLIERS not in self.without and not self.logistic
        if cut and n >= MIN_EARLY and 2 * np.sum(np.diff(known) == 0) < n:
            limit = max(
                USUAL_SIZES * (1 + MIN_SIZES / n) * sizes[n // 2], sizes[n - 1 - min(MAX_OUTLIERS, n // MIN_EARLY)]
            )
            np.clip(known, center - limit, center + limit, out=known)
        return rewards

    def _likeliest_share(self, center: Array, weight: Array, slope_variance: float) -> float:
        """The share that rewards are likeliest with: those of the arms that have most of them."""
        most = max(MIN_WEIGHED, MAX_WEIGHED // self.size**2)
        arms = np.sort(np.argsort(-self.plays, kind="stable")[: min(most, np.count_nonzero(self.plays))])
        change, prior = Change.of(self.center, self.weight, center, weight), self._prior_of(slope_variance)
        known = change.seen(known_of(self._priors[NOW], self.covariances[arms], self.own[arms]))
        given = level_of(self.sums), unit_of(self.sums, self.logistic)
        shown = centred(known, *given), centred(change.seen(self.retired), *given)

        def evidence(share: float) -> float:
            return log_evidence(*shown, (1 - share) * prior, share * prior)

        return max(COMMON_SHARES, key=evidence)

    def _move_to(self, center: Array, weight: Array, slope_variance: float, share: float) -> None:
        """Bring all models to another scale and its priors; arms that would take long come with the next rewards."""
        common_prior = self._common_prior
        for pair in (self.centers, self.weights, self.slope_variances, self.shares):
            pair[BEFORE] = pair[NOW]
        self.centers[NOW], self.weights[NOW] = center, weight
        self.slope_variances[NOW], self.shares[NOW] = slope_variance, share
        self.behind[self.plays > 0] = BEFORE
        self._set_priors()
        if self.hybrid:
            self.retired = self._change.seen(self.retired)
            known = known_of(common_prior, self.common_covariance, self.common)
            self.common_covariance, self.common = solve(self._change.seen(known), self._common_prior)
            self._collect()
        self._bring_up(max(1, MAX_AT_ONCE // self.size**2))

    def _bring_up(self, count: int) -> None:
        """Bring so many of the arms that are behind to the scale and the priors of now."""
        arms = np.flatnonzero(self.behind)[:count]
        if not len(arms):
            return
        self._keep(*arms.tolist())
        self._leave_cut_rows(arms)
        before = self._seen_by_common(arms) if self.hybrid else None
        known = known_of(self._priors[BEFORE], self.covariances[arms], self.own[arms])
        self.covariances[arms], self.own[arms] = solve(self._change.seen(known), self._priors[NOW])
        self.behind[arms] = NOW
        if before is not None:
            common = known_of(self._common_prior, self.common_covariance, self.common)
            common += self._seen_by_common(arms) - before
            self.common_covariance, self.common = solve(common, self._common_prior)
        self._any_behind = bool(self.behind.any())
        self._collect()

    def _leave_cut_rows(self, arms: Ints) -> None:
        """Rows of arms that are behind, and are cut in their scale or in that of now, keep their sites for good.

        What is known is carried over along the row as it was cut. In the new scale the row points elsewhere, and a
        visit would take from there what was never put there. Rows of linear models are not visited again.
        """
        moved = np.ptp(self.centers, axis=0).any() or np.ptp(self.weights, axis=0).any()  # or only the priors have
        if self.logistic and moved:
            leave_cut_rows(arms, self.centers, self.weights, self.plays, self.rows, self.sites)

    @property
    def _change(self) -> Change:
        """From the scale of before to that of now."""
        return Change.of(self.centers[BEFORE], self.weights[BEFORE], self.center, self.weight)

    def _seen_by_common(self, arms: Ints) -> Array:
        """What the rewards of arms say of what all share, in the scale of now; they are all behind, or none is."""
        scale = int(self.behind[arms[0]])
        seen = seen_by_common(self._priors[scale], self.covariances[arms], self.own[arms])
        return self._change.seen(seen) if scale == BEFORE else seen
