"""SGD-TS: Thompson sampling with one step of stochastic gradient descent an epoch, logistic model.

    after tau random rounds: theta_0 = the maximum-likelihood fit
    epoch j = 1, 2, ... of tau rounds:
        theta_j = Π(theta_(j-1) - (eta0/j) Σ_epoch x (sigmoid(x'theta_(j-1)) - r)),  mean_j = average of theta_1..j
        draw theta~ ~ N(mean_j, (2 alpha1² + 2 alpha2²)/j I) once;   play argmax_a x_a' theta~ all epoch

Π projects onto the ball of radius 2 around theta_0. The step of a finished epoch waits for the next choice: its eta0 is
the one whose arms it changes, so every candidate's arms are known before one is chosen, and scoring stays pure. The
first step, after the random rounds, has gradient zero: it is taken on them, at their fit. Needs rewards from 0 to 1,
and contexts that vary enough by themselves, which its bound, O~(sqrt(d T)), rests on; a round costs O(K d).

Ding, Hsieh and Sharpnack, *An efficient algorithm for generalized linear bandit: online stochastic gradient
descent and Thompson sampling*, AISTATS 2021.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from syndicated import _special
from syndicated._argmax import best
from syndicated._compiled import compiled
from syndicated._models.glm import LOGISTIC, gradient, newton
from syndicated._models.kernels import dot, noisy_scores
from syndicated._models.logistic import sigmoid
from syndicated._validation import check_count
from syndicated.errors import InputError
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.policies.base import NO_FEATURES
from syndicated.space import Space
from syndicated.streams import Stream, Word, fill_normals
from syndicated.types import Arms, Array, Ints, Params

PROJECTION_RADIUS = 2.0
FIRST_FIT_RIDGE = 1e-6  # as good as no penalty, but the fit exists also when the random rounds are separable
SHORT_FIT_RIDGE = 1.0  # of a fit to fewer rounds than the paper has
LONG_START = 0.1  # of the horizon: more random rounds than that are worth a warning


@compiled("i8(f8[:,::1], f8[:,::1], i8[::1], f8[::1], f8, u8, u8, u8, u8)")
def noisy_best(
    X: Array,
    columns: Array,
    places: Ints,
    mean: Array,
    spread: float,
    seed: Word,
    purpose: Word,
    round_: Word,
    block: Word,
) -> int:
    """`best` of the `noisy_scores` of one point, whose draws are at this address."""
    out, scores, z = np.empty(1, dtype=np.int64), np.empty((1, len(places))), np.empty(len(mean))
    fill_normals(z, seed, purpose, round_, block)
    noisy_scores(scores, columns, places, mean.reshape((1, -1)), np.zeros(1, dtype=np.int64), np.full(1, spread), z)
    best(out, scores, X)
    return int(out[0])


@dataclass(kw_only=True, eq=False)
class SGDTS(ScaledPolicy):
    """SGD-TS with step size `eta0` and exploration rates `alpha1`, `alpha2`, for rewards in [0, 1].

    `tau` is the length of an epoch: by default 10 floor(max(log horizon, dim)), the paper's. `horizon` enters
    that and the theoretical alpha1 only. There is no theory for eta0: the paper calls it intractable, we take 1.
    `random_rounds` come before the first fit: tau by default, the paper's; with fewer the fit is penalised. With many
    features both are long, and most of a run may be random: then give a smaller tau, as in SGDTS(dim=500, tau=50).

    In natural units, I = tau v m is what an epoch tells about a coordinate of theta: v is the mean squared error of the
    predictions so far (about p(1 - p)), m the mean square of a feature. `stride` s stands for eta0 = s/I, a Newton step
    at s = 1; `boldness` c for alpha1 = c/sqrt(2 I) and alpha2 = 0, the standard error at c = 1. Points that say nothing
    else have features in units of their own, in which the radius of the ball counts too.

    >>> policy = SGDTS(dim=2, tau=2)
    >>> policy.period, policy.warmup
    (2, 2)
    """

    horizon: int = 10_000
    tau: int | None = None
    random_rounds: int | None = None
    hyper: ClassVar[dict[str, tuple[float, float]]] = {
        "eta0": (1e-12, 1e12),
        "alpha1": (0.0, 1e12),
        "alpha2": (0.0, 1e12),
    }
    natural: ClassVar[dict[str, tuple[str, ...]]] = {"boldness": ("alpha1", "alpha2"), "stride": ("eta0",)}
    exploring: ClassVar[tuple[str, ...]] = ("alpha1", "alpha2")
    _feature_units: ClassVar[tuple[str, ...]] = ("eta0", "alpha1", "alpha2")
    rewards: ClassVar[tuple[float, float]] = (0.0, 1.0)
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)
    start: Array = field(init=False, repr=False)
    theta: Array = field(init=False, repr=False)
    mean: Array = field(init=False, repr=False)
    sums: Array = field(init=False, repr=False)
    count: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("horizon", self.horizon)
        if self.tau is not None:
            check_count("tau", self.tau)
        self._tau = self.tau or 10 * math.floor(max(math.log(self.horizon), self.dim))
        if self.random_rounds is not None and check_count("random_rounds", self.random_rounds) > self.period:
            raise InputError(f"random_rounds must be at most tau, {self.period}; got {self.random_rounds}")
        self.X, self.y = np.zeros((self.period, self.size)), np.zeros(self.period)
        self.start, self.theta, self.mean = (np.zeros(self.size) for _ in range(3))
        self.sums = np.zeros(2)
        self.prepare([])

    @property
    def space(self) -> Space:
        return Space(boldness=[0.25, 0.5, 1.0], stride=[1.0, 3.0, 10.0])

    @property
    def advised(self) -> Params:
        return {"boldness": 0.25, "stride": 10.0}  # epochs are few: candidates cost more than they earn

    @property
    def period(self) -> int:
        return self._tau

    @property
    def warmup(self) -> int:
        return self.random_rounds or self.period

    @property
    def warning(self) -> str:
        if self.warmup <= LONG_START * self.horizon:
            return ""
        return f"SGDTS plays {self.warmup:,} random rounds of a horizon of {self.horizon:,}; give it a smaller tau"

    def theory(self, t: int, given: Params) -> dict[str, float]:
        """g1(j) = sigma sqrt(d/2 log(1 + 2 j tau/d) + 2 log T) and g2(j) = (tau/eta0) sqrt(1 + log j).

        These are the released code's, which made the numbers of the experiments. Two things in them differ from what a
        proof can use. g1 is UCB-GLM's without its 1/kappa. And averaged steps of size 1/(a j), a the strong convexity
        of an epoch's loss, are off by (tau/a) sqrt((1 + log j)/j): with eta0 = 1/a that is tau eta0, not tau/eta0.
        """
        params = self._plain(given)
        j, tau, d = self._epoch_of(t), self.period, self.size
        if "alpha1" not in params:
            log = d / 2 * math.log(1 + 2 * j * tau / d) + 2 * math.log(self.horizon)
            params["alpha1"] = self.sigma * math.sqrt(log)
        if "alpha2" not in params:
            params["alpha2"] = tau / params["eta0"] * math.sqrt(1 + math.log(j))
        return params

    def theory_ignores_round(self, given: Params) -> bool:
        return "boldness" in given or ("alpha1" in given and "alpha2" in given)

    def _plain(self, given: Params) -> dict[str, float]:
        """The given hyper-parameters, natural ones in the units of what was learned so far."""
        params = {"eta0": 1.0, **given}
        if "boldness" in params:
            params |= {"alpha1": params.pop("boldness") / math.sqrt(2 * self._information), "alpha2": 0.0}
        if "stride" in params:
            params["eta0"] = params.pop("stride") / self._information
        return params

    @property
    def _information(self) -> float:
        """I, what an epoch tells about a coordinate of theta."""
        errors, squares = (max(each, 1e-12) / self.count for each in self.sums.tolist()) if self.count else (0.25, 1.0)
        return self.period * errors * squares

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        """x' mean + sqrt((2 alpha1² + 2 alpha2²)/j) x'z: one product for each step size, one for all the noise."""
        sizes = dict.fromkeys(point["eta0"] for point in points) if self._waiting else {points[0]["eta0"]: None}
        row_of = {eta0: row for row, eta0 in enumerate(sizes)}
        rows = np.array([row_of.get(point["eta0"], 0) for point in points], dtype=np.int64)
        means, spreads = np.array([self._step(eta0)[1] for eta0 in sizes]), np.array([*map(self._spread, points)])
        out = np.empty((len(points), len(arms)))
        noisy_scores(out, *self._placed_columns(arms), means, rows, spreads, rng.normals(self.size))
        return out

    def best(self, arms: Arms, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        if len(points) > 1:
            return super().best(arms, points, t, rng)
        point, features = self.theory(t, points[0]), arms if arms.ndim == 2 else NO_FEATURES
        mean, spread = self._step(point["eta0"])[1], self._spread(point)
        return [noisy_best(features, *self._placed_columns(arms), mean, spread, *rng.skip(self.size))]

    def predict(self, arms: Arms, params: Params) -> Array:
        return np.asarray(_special.expit(dot(self.columns(arms), self._step(params["eta0"])[1])))

    def expected(self, score: float) -> float:
        return sigmoid(score)

    def learn(self, x: Array, reward: float, params: Params) -> None:
        if self._waiting:
            self.theta, self.mean = self._step(params["eta0"])
        place, row = self._place, self._row(x)
        self.X[place], self.y[place] = row, reward
        x = self.X[place]
        self.sums += (reward - _special.expit(x @ self.mean)) ** 2, x @ x / self.size
        self.count += 1
        if self.count == self.warmup:
            rest = np.zeros(self.size), np.zeros((self.size, self.size))
            ridge = np.full(self.size, FIRST_FIT_RIDGE if self.count == self.period else SHORT_FIT_RIDGE)
            newton(LOGISTIC, self.X[: self.count], self.y[: self.count], ridge, self.size, self.start, *rest)
            self.theta = self.start.copy()

    def _rescale(self, factors: Array) -> None:
        self.X = self.X * factors
        self.start, self.theta, self.mean = self.start / factors, self.theta / factors, self.mean / factors

    @property
    def epoch(self) -> int:
        """j of the epoch that the next observation belongs to."""
        return self._epoch_of(self.count)

    def _epoch_of(self, t: int) -> int:
        return 1 + max(0, t - self.warmup) // self.period

    @property
    def _place(self) -> int:
        """Of the next observation, in the random rounds or in its epoch."""
        return self.count if self.count < self.warmup else (self.count - self.warmup) % self.period

    @property
    def _waiting(self) -> bool:
        """Whether an epoch is over and its step not yet made, so that the step size matters."""
        return self.count >= self.warmup and self._place == 0

    def _spread(self, point: Params) -> float:
        return math.sqrt(2 * (point["alpha1"] ** 2 + point["alpha2"] ** 2) / self.epoch)

    def _step(self, eta0: float) -> tuple[Array, Array]:
        """theta_j and mean_j as they will be with this eta0, or as they are within an epoch."""
        if not self._waiting:
            return self.theta, self.mean
        j = self.epoch
        if j == 1:
            return self.theta, self.theta
        slope = gradient(LOGISTIC, self.X, self.y, np.zeros(self.size), self.theta, self.size)
        theta = self.theta - eta0 / j * slope
        distance = float(np.linalg.norm(theta - self.start))
        if distance > PROJECTION_RADIUS:
            theta = self.start + PROJECTION_RADIUS / distance * (theta - self.start)
        return theta, ((j - 1) * self.mean + theta) / j
