"""The paper's simulations: linear and logistic rewards, with fixed or changing features.

theta* ~ Uniform(-1/sqrt(d), 1/sqrt(d)) in every coordinate; features are redrawn each round, or once if `fixed`.

Worlds may also be harder than the paper's. By default nothing of this is there, and the numbers are the paper's to the
bit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from syndicated import _special
from syndicated._validation import check_count, check_number, check_range
from syndicated.environments.base import Environment, Round
from syndicated.errors import InputError
from syndicated.streams import ARMS, CHANGE, NOISE, OUTLIERS, SPREAD, THETA, TURNOVER, VALUE, Stream
from syndicated.types import Arms, Array

SEASON_ROUNDS = 2500  # of one period of a season
TREND_ROUNDS = 10_000  # in which a trend rises once by its height
OUTLIER_SIZE = 100.0  # times the noise
LATE_LEAD = 0.25  # of an arm that becomes the best one over all others, in units of the range of rewards


@dataclass(frozen=True, kw_only=True)
class Simulation(Environment):
    """What the simulations share: the parameter, the features, and one noise draw a round for all arms.

    With `lifetime`, arms come and go, `fixed` or not: each stays for so many rounds on average, then another takes its
    place.
    """

    dim: int = 10
    arms: int = 100
    fixed: bool = False
    lifetime: int = 0

    def __post_init__(self) -> None:
        check_count("dim", self.dim)
        check_count("arms", self.arms)
        if not isinstance(self.fixed, bool):
            raise InputError(f"fixed must be True or False; got {self.fixed!r}")
        check_count("lifetime", self.lifetime, low=0)

    def theta(self, seed: int, k: int = 0) -> Array:
        """The parameter after k changes."""
        return _symmetric(Stream(seed, THETA, k).uniforms(self.dim), 1 / math.sqrt(self.dim))

    def features(self, seed: int, t: int, bound: float) -> Array:
        draws = Stream(seed, ARMS, 0 if self.fixed and not self.lifetime else t).uniforms(self.arms * self.dim)
        return _symmetric(draws, bound).reshape(self.arms, self.dim)

    def tables(self, seed: int, horizon: int, bound: float) -> Iterator[Array]:
        """The features of all arms, round after round."""
        X = np.empty((0, 0))
        for t in range(horizon):
            drawn = self.features(seed, t, bound)
            if self.lifetime and t > 0:
                stays = Stream(seed, TURNOVER, t).uniforms(self.arms) >= 1 / self.lifetime
                drawn = np.where(stays[:, None], X, drawn)
            X = drawn.copy() if self.lifetime else drawn  # a player may write into its round
            yield drawn


@dataclass(frozen=True, kw_only=True)
class Linear(Simulation):
    """Rewards N(mean, noise²) with mean (x'theta* + 1)/2, or x'theta* without `shift`; x in ±1/sqrt(d).

    `low` and `high` are what rewards of 0 and 1 become, noise included. With `change`, a new theta* is drawn at random
    times, once in so many rounds on average; with `drift`, theta* moves to a new one within every so many rounds. A
    player is told neither. `shape` bends x'theta* = u before all else: to u² or cos(3u), with u in units of its usual
    size. With `tails`, noise is Student's t with so many degrees of freedom, in units of `noise`. With `spread` s, the
    noise of an arm has exp(s x'phi) times that size, for a direction phi that nobody knows either.

    A `season` and a `trend` move all rewards alike, by so many times their range. A share of `outliers` are 100 times
    the noise away from where they would be. From round `late` on, the worst of fixed arms pays a quarter of the range
    more than all others. Features may be measured in another `unit`. Arms that are `one_hot` are the unit vectors in
    turn, with independent means that are uniform over the range of rewards. With `clicks` a reward is 1 with the
    probability that is its mean, otherwise 0.

    >>> world = Linear(dim=2, arms=3)
    >>> first = next(world.rounds(seed=1, horizon=10))
    >>> first.arms.shape, bool(((0 <= first.means) & (first.means <= 1)).all())
    ((3, 2), True)
    """

    noise: float = 0.1
    shift: bool = True
    low: float = 0.0
    high: float = 1.0
    change: int = 0
    drift: int = 0
    shape: Literal["linear", "square", "cosine"] = "linear"
    tails: int = 0
    spread: float = 0.0
    season: float = 0.0
    trend: float = 0.0
    outliers: float = 0.0
    late: int = 0
    unit: float = 1.0
    one_hot: bool = False
    clicks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("noise", self.noise, low=0.0)
        check_range("the range of rewards", (self.low, self.high))
        check_count("change", self.change, low=0)
        check_count("drift", self.drift, low=0)
        if self.shape not in ("linear", "square", "cosine"):
            raise InputError(f"shape must be 'linear', 'square' or 'cosine'; got {self.shape!r}")
        if check_count("tails", self.tails, low=0) == 1:
            raise InputError("tails must be 0 or at least 2, so that rewards have means; got 1")
        check_number("spread", self.spread, low=0.0)
        check_number("season", self.season)
        check_number("trend", self.trend)
        check_number("outliers", self.outliers, low=0.0, high=1.0)
        check_count("late", self.late, low=0)
        check_number("unit", self.unit, low=1e-12, high=1e12)
        for name in ("one_hot", "clicks"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.late and not (self.fixed or self.one_hot):
            raise InputError("an arm can become the best one later only where arms are fixed or one-hot")

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta, changes, width = self.theta(seed), 0, self.high - self.low
        for t, X in enumerate(self.tables(seed, horizon, 1 / math.sqrt(self.dim))):
            if self.changes(seed, t):
                changes += 1
                theta = self.theta(seed, changes)
            if self.drift:
                theta = self._moving(seed, t, changes)
            values = self._bent(self._values(X, theta))
            means = self.low + width * self._moved((values + 1) / 2 if self.shift else values, t)
            yield Round(self._shown(X), means, self._rewards(X, means, width, seed, t))

    def theta(self, seed: int, k: int = 0) -> Array:
        theta = super().theta(seed, k)
        return theta * math.sqrt(self.dim) if self.one_hot else theta

    def features(self, seed: int, t: int, bound: float) -> Array:
        return np.eye(self.dim)[np.arange(self.arms) % self.dim] if self.one_hot else super().features(seed, t, bound)

    def _shown(self, X: Array) -> Arms:
        """The arms as a player meets them."""
        return X if self.unit == 1.0 else self.unit * X

    def _values(self, X: Array, theta: Array) -> Array:
        """What each arm pays, before all else."""
        values: Array = X @ theta
        return values

    def changes(self, seed: int, t: int) -> bool:
        """Whether theta* is another from round t on."""
        return t > 0 and self.change > 0 and bool(Stream(seed, CHANGE, t).uniforms(1)[0] < 1 / self.change)

    def _moving(self, seed: int, t: int, changes: int) -> Array:
        """theta* on its way from one parameter to the next."""
        past, done = divmod(t, self.drift)
        start, end = (self.theta(seed, changes + past + more) for more in (0, 1))
        return start + done / self.drift * (end - start)

    def _bent(self, values: Array) -> Array:
        if self.shape == "linear":
            return values
        u = self._standard(values)
        return u**2 / 9 if self.shape == "square" else np.cos(3 * u)

    def _standard(self, values: Array) -> Array:
        """Values in units in which most are between -3 and 3."""
        return 3 * math.sqrt(self.dim) * values  # x and theta have variance 1/(3d) in every coordinate

    def _moved(self, means: Array, t: int) -> Array:
        """The means of round t, in units of their range: the worst arm lifted, and all by the level."""
        if self.late and t >= self.late:
            means = np.where(np.arange(len(means)) == means.argmin(), means.max() + LATE_LEAD, means)
        if self.season or self.trend:
            means = means + self.season * math.sin(2 * math.pi * t / SEASON_ROUNDS) + self.trend * t / TREND_ROUNDS
        return means

    def _rewards(self, X: Array, means: Array, width: float, seed: int, t: int) -> Array:
        if self.clicks:
            return np.asarray(Stream(seed, NOISE, t).uniforms(1)[0] < means, dtype=np.float64)
        rewards: Array = means + width * self._noise(X, seed, t)
        if self.outliers:
            struck, side = Stream(seed, OUTLIERS, t).uniforms(2)
            rewards = rewards + (struck < self.outliers) * math.copysign(OUTLIER_SIZE * width * self.noise, side - 0.5)
        return rewards

    def _noise(self, X: Array, seed: int, t: int) -> Array | float:
        """One draw for all arms, of the size that each has."""
        draws = Stream(seed, NOISE, t).normals(1 + self.tails)
        size = self.noise / (math.sqrt(np.mean(draws[1:] ** 2)) if self.tails else 1.0)
        if not self.spread:
            return float(size * draws[0])
        phi = Stream(seed, SPREAD).normals(self.dim)
        return np.asarray(size * draws[0] * np.exp(self.spread * (X @ phi)))


@dataclass(frozen=True, kw_only=True)
class Logistic(Simulation):
    """Rewards Bernoulli(sigmoid(x'theta* + logit(rate))), x in ±1: clicks of 1 % with a `rate` of 0.01.

    >>> sorted(set(next(Logistic().rounds(seed=1, horizon=1)).rewards.tolist()))
    [0.0, 1.0]
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("rate", self.rate, low=1e-9, high=1 - 1e-9)

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta = self.theta(seed)
        for t, X in enumerate(self.tables(seed, horizon, 1.0)):
            means = _clicks(X @ theta, self.rate)
            yield Round(X, means, (Stream(seed, NOISE, t).uniforms(1)[0] < means).astype(np.float64))


@dataclass(frozen=True, kw_only=True)
class Revenue(Simulation):
    """Rare purchases of very different value: 0, or with probability p an amount with mean m; x in ±1.

        p = sigmoid(x'theta* + logit(rate)),   log amount ~ N(log m - sigma²/2, sigma²),   m = value exp(x'phi)

    theta* says who buys, phi who spends much. With the default `sigma` one purchase in a hundred pays ten mean ones.

    >>> world = Revenue(dim=2, arms=3, rate=0.2)
    >>> rewards = np.concatenate([each.rewards for each in world.rounds(seed=1, horizon=400)])
    >>> bool(0.7 < np.mean(rewards == 0) < 0.9), bool(rewards.max() > 10 * rewards[rewards > 0].mean())
    (True, True)
    """

    rate: float = 0.02
    value: float = 1.0
    sigma: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("rate", self.rate, low=1e-9, high=1 - 1e-9)
        check_number("value", self.value, low=1e-12, high=1e12)
        check_number("sigma", self.sigma, low=0.0, high=10.0)

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta = self.theta(seed)
        phi = _symmetric(Stream(seed, VALUE).uniforms(self.dim), 1 / math.sqrt(self.dim))
        for t, X in enumerate(self.tables(seed, horizon, 1.0)):
            buys, amounts = _clicks(X @ theta, self.rate), self.value * np.exp(X @ phi)
            z = Stream(seed, VALUE, t + 1).normals(1)[0]
            paid = amounts * math.exp(self.sigma * z - self.sigma**2 / 2)
            yield Round(X, buys * amounts, np.where(Stream(seed, NOISE, t).uniforms(1)[0] < buys, paid, 0.0))


def _clicks(values: Array, rate: float) -> Array:
    """Probabilities of clicks, of which an arm with value 0 has this rate."""
    return np.asarray(_special.expit(values + math.log(rate / (1 - rate))))


def _symmetric(uniforms: Array, bound: float) -> Array:
    return bound * (2 * uniforms - 1)
