"""A world whose arms are a convex set, a ball or an ellipsoid.

theta* ~ Uniform(-1/sqrt(d), 1/sqrt(d)) in every coordinate, as in the paper's simulations. Theorem 1(3) of the paper is
about such worlds: after a warm-up of T^(4/7) rounds, `warmup="T^4/7"` of a tuner, its regret is O~(T^(4/7)).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_count, check_flag, check_number
from syndicated.arm_sets import ArmSet, Ellipsoid
from syndicated.environments.base import Environment, Round
from syndicated.streams import ARMS, NOISE, THETA, Stream
from syndicated.types import Array, Decision, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ArmSetRound(Round):
    """One round with an arm set; `means` and `rewards` have one entry, for its best arm. All arms have its noise."""

    theta: Array

    def reward(self, decision: Decision) -> float:
        return float(self.rewards[0] - self.regret(decision))

    def regret(self, decision: Decision) -> float:
        return float(self.regrets(decision.x))

    def regrets(self, played: Ints | Array) -> Array:
        return np.asarray(self.means[0] - mean_reward(played, self.theta))


@dataclass(frozen=True, kw_only=True)
class LinearArmSet(Environment):
    """Rewards N((x'theta* + 1)/2, noise²) of the arms x of an ellipsoid whose longest semi-axis is 1.

    The others fall evenly to `shortest`: with 1 it is the unit ball. Its axes point elsewhere in every round, unless it
    is `fixed`.

    >>> world = LinearArmSet(dim=3, shortest=0.5)
    >>> first = next(world.rounds(seed=1, horizon=10))
    >>> bool(first.means[0] > mean_reward(first.arms.draw(Stream(0, 0)), first.theta))
    True
    """

    dim: int = 10
    arms: int = field(init=False, default=0)
    noise: float = 0.1
    shortest: float = 1.0
    fixed: bool = False

    def __post_init__(self) -> None:
        check_count("dim", self.dim)
        check_number("noise", self.noise, low=0.0)
        check_number("shortest", self.shortest, low=1e-12, high=1.0)
        check_flag("fixed", self.fixed)

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        theta = (2 * Stream(seed, THETA).uniforms(self.dim) - 1) / math.sqrt(self.dim)
        for t in range(horizon):
            arms = self._arms(seed, 0 if self.fixed else t)
            means = mean_reward(arms.best(theta[None]), theta)
            rewards = means + self.noise * Stream(seed, NOISE, t).normals(1)
            yield ArmSetRound(arms, means, rewards, theta.copy())  # type: ignore[arg-type]

    def _arms(self, seed: int, t: int) -> ArmSet:
        lengths = np.linspace(1.0, self.shortest, self.dim)
        directions = np.linalg.qr(Stream(seed, ARMS, t).normals(self.dim**2).reshape(self.dim, self.dim))[0]
        return Ellipsoid(lengths[:, None] * directions)


def mean_reward(X: Ints | Array, theta: Array) -> Array:
    return np.asarray((X @ theta + 1) / 2)
