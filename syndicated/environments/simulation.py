"""The paper's simulations: linear and logistic rewards, with fixed or changing features.

theta* ~ Uniform(-1/sqrt(d), 1/sqrt(d)) in every coordinate; features are redrawn each round, or once if `fixed`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from syndicated import _special
from syndicated._validation import check_count, check_number, check_range
from syndicated.environments.base import Environment, Round
from syndicated.errors import InputError
from syndicated.streams import ARMS, CHANGE, NOISE, THETA, Stream
from syndicated.types import Array


@dataclass(frozen=True, kw_only=True)
class Simulation(Environment):
    """What the two simulations share: the parameter, the features, and one noise draw a round for all arms."""

    dim: int = 10
    arms: int = 100
    fixed: bool = False

    def __post_init__(self) -> None:
        check_count("dim", self.dim)
        check_count("arms", self.arms)
        if not isinstance(self.fixed, bool):
            raise InputError(f"fixed must be True or False; got {self.fixed!r}")

    def theta(self, seed: int, k: int = 0) -> Array:
        """The parameter after k changes."""
        return _symmetric(Stream(seed, THETA, k).uniforms(self.dim), 1 / math.sqrt(self.dim))

    def features(self, seed: int, t: int, bound: float) -> Array:
        draws = Stream(seed, ARMS, 0 if self.fixed else t).uniforms(self.arms * self.dim)
        return _symmetric(draws, bound).reshape(self.arms, self.dim)


@dataclass(frozen=True, kw_only=True)
class Linear(Simulation):
    """Rewards N(mean, noise²) with mean (x'theta* + 1)/2, or x'theta* without `shift`; x in ±1/sqrt(d).

    `low` and `high` are what rewards of 0 and 1 become, noise included. With `change`, a new theta* is drawn at random
    times, once in so many rounds on average; a player is not told.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("noise", self.noise, low=0.0)
        check_range("the range of rewards", (self.low, self.high))
        check_count("change", self.change, low=0)

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta, changes, width = self.theta(seed), 0, self.high - self.low
        for t in range(horizon):
            if self.changes(seed, t):
                changes += 1
                theta = self.theta(seed, changes)
            X = self.features(seed, t, 1 / math.sqrt(self.dim))
            means = self.low + width * ((X @ theta + 1) / 2 if self.shift else X @ theta)
            yield Round(X, means, means + width * self.noise * Stream(seed, NOISE, t).normals(1)[0])

    def changes(self, seed: int, t: int) -> bool:
        """Whether theta* is another from round t on."""
        return t > 0 and self.change > 0 and bool(Stream(seed, CHANGE, t).uniforms(1)[0] < 1 / self.change)


@dataclass(frozen=True, kw_only=True)
class Logistic(Simulation):
    """Rewards Bernoulli(sigmoid(x'theta*)), x in ±1.

    >>> sorted(set(next(Logistic().rounds(seed=1, horizon=1)).rewards.tolist()))
    [0.0, 1.0]
    """

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta = self.theta(seed)
        for t in range(horizon):
            X = self.features(seed, t, 1.0)
            means = np.asarray(_special.expit(X @ theta))
            yield Round(X, means, (Stream(seed, NOISE, t).uniforms(1)[0] < means).astype(np.float64))


def _symmetric(uniforms: Array, bound: float) -> Array:
    return bound * (2 * uniforms - 1)
