"""Who plays in this process: every policy with nothing set, on named arms and on rows, and the plain references."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from syndicated.agent import Agent
from syndicated.experiments.bakeoff._supervised import SoftmaxFit
from syndicated.policies import POLICIES
from syndicated.spec import build
from syndicated.types import Array, Ints

DEFAULT = "Agent()"  # what the page compares with all others
SUPERVISED = "supervised logistic"  # sees the class of every row, so it is no bandit: the upper reference
UNIFORM = "uniform"
GREEDY, EPSILON_GREEDY = "greedy ridge", "epsilon-greedy ridge"
REFERENCES = (GREEDY, EPSILON_GREEDY, UNIFORM)  # the plain ones
# Columns of a row for each arm: with more, a pass takes minutes, or more memory than many machines have. Of policies
# whose rounds cost more, and of networks and Gaussian processes.
MAX_DENSE_COLUMNS, MAX_SLOW_COLUMNS, MAX_SLOWEST_COLUMNS = 300, 100, 30
EPSILON = 0.05


class Contestant(Protocol):
    """One pass over a data set: the number of an arm for a row, then its reward."""

    def decide(self, x: Array) -> int: ...

    def learn(self, x: Array, arm: int, reward: float) -> None: ...


@dataclass(frozen=True)
class Stage:
    """What a contestant is made for. The labels are for those that are no bandits."""

    columns: int
    arms: int
    seed: int
    labels: Ints


class NamedArms:
    """`Agent()`: the row is the context, the arms are ids."""

    def __init__(self, stage: Stage, **given: Any) -> None:
        self._agent = Agent.for_arms(seed=stage.seed, **given)
        self._ids = [str(arm) for arm in range(stage.arms)]

    def decide(self, x: Array) -> int:
        self._decision = self._agent.decide(x.tolist(), arms=self._ids)
        return self._decision.place

    def learn(self, x: Array, arm: int, reward: float) -> None:
        self._agent.learn(self._decision, reward)


class DenseRows:
    """A row of arms * (1 + columns) numbers for each arm, the arm's own part of it filled with 1 and the context."""

    def __init__(self, stage: Stage, policy: str) -> None:
        width = 1 + stage.columns
        self._agent = Agent(build(POLICIES, {"name": policy, "dim": stage.arms * width}), seed=stage.seed)
        self._table = np.zeros((stage.arms, stage.arms * width))
        own = np.arange(stage.arms)
        self._blocks = self._table.reshape(stage.arms, stage.arms, width)
        self._blocks[own, own, 0] = 1.0
        self._own = own

    def decide(self, x: Array) -> int:
        self._blocks[self._own, self._own, 1:] = x
        self._decision = self._agent.decide(self._table)
        return self._decision.place

    def learn(self, x: Array, arm: int, reward: float) -> None:
        self._agent.learn(self._decision, reward)


class SparseRows:
    """The same rows without their zeros, for policies that learn each column apart."""

    def __init__(self, stage: Stage, policy: str) -> None:
        width = 1 + stage.columns
        self._agent = Agent(build(POLICIES, {"name": policy, "dim": stage.arms * width}), seed=stage.seed)
        places = np.arange(stage.arms * width, dtype=np.float64).reshape(stage.arms, width)
        self._table = np.stack([places, np.ones_like(places)], axis=1)

    def decide(self, x: Array) -> int:
        self._table[:, 1, 1:] = x
        self._decision = self._agent.decide(self._table)
        return self._decision.place

    def learn(self, x: Array, arm: int, reward: float) -> None:
        self._agent.learn(self._decision, reward)


class Ridge:
    """A ridge regression for each arm with penalty 1; with probability epsilon an arm at random, otherwise the best."""

    def __init__(self, stage: Stage, epsilon: float) -> None:
        width = 1 + stage.columns
        self._rng, self._epsilon = np.random.default_rng(stage.seed), epsilon
        self._inverses = np.tile(np.eye(width), (stage.arms, 1, 1))
        self._sums, self._thetas = np.zeros((2, stage.arms, width))

    def decide(self, x: Array) -> int:
        if self._rng.random() < self._epsilon:
            return int(self._rng.integers(len(self._thetas)))
        means = self._thetas[:, 0] + self._thetas[:, 1:] @ x
        return int(self._rng.choice(np.flatnonzero(means == means.max())))

    def learn(self, x: Array, arm: int, reward: float) -> None:
        row, inverse = np.concatenate(([1.0], x)), self._inverses[arm]
        moved = inverse @ row
        inverse -= np.outer(moved, moved / (1.0 + row @ moved))
        self._sums[arm] += reward * row
        self._thetas[arm] = inverse @ self._sums[arm]


class Uniform:
    def __init__(self, stage: Stage) -> None:
        self._rng, self._arms = np.random.default_rng(stage.seed), stage.arms

    def decide(self, x: Array) -> int:
        return int(self._rng.integers(self._arms))

    def learn(self, x: Array, arm: int, reward: float) -> None:
        pass


class Supervised:
    """A logistic regression of the classes of all rows so far, fitted again whenever there are a tenth more."""

    def __init__(self, stage: Stage) -> None:
        self._fit, self._labels, self._rows = SoftmaxFit(stage.columns, stage.arms), stage.labels, list[Array]()

    def decide(self, x: Array) -> int:
        return self._fit.predict(x)

    def learn(self, x: Array, arm: int, reward: float) -> None:
        self._rows.append(x)
        if len(self._rows) >= 1.1 * self._fit.rows:
            self._fit.fit(np.array(self._rows), self._labels[: len(self._rows)])


@dataclass(frozen=True)
class BakeOffPlayer:
    """A label's maker, what it is in words, and how many columns its rows may have."""

    make: Callable[[Stage], Contestant]
    text: str
    max_columns: int | None = None


def _named(models: str, link: str) -> BakeOffPlayer:
    spec = {"name": "ArmUCB", "models": models, "link": link}
    return BakeOffPlayer(partial(NamedArms, policy=spec), f"named arms, {models} {link} models")


def _dense(max_columns: int, *policies: str) -> dict[str, BakeOffPlayer]:
    what = f"on a row for each arm, of at most {max_columns} columns"
    return {
        f"{policy}, dense rows": BakeOffPlayer(
            partial(DenseRows, policy=policy), f"`Agent({policy}(dim))` {what}", max_columns
        )
        for policy in policies
    }


def _sparse(policy: str) -> BakeOffPlayer:
    return BakeOffPlayer(partial(SparseRows, policy=policy), f"`Agent({policy}(dim))` on the same rows, sparse")


PLAYERS: dict[str, BakeOffPlayer] = {
    DEFAULT: BakeOffPlayer(NamedArms, "named arms, nothing set"),
    "ArmUCB per-arm logistic": _named("per-arm", "logistic"),
    "ArmUCB per-arm linear": _named("per-arm", "linear"),
    "ArmUCB hybrid logistic": _named("hybrid", "logistic"),
    "ArmUCB hybrid linear": _named("hybrid", "linear"),
    "ArmTS": BakeOffPlayer(partial(NamedArms, policy={"name": "ArmTS"}), "named arms, nothing else set"),
    **_dense(MAX_DENSE_COLUMNS, "LinUCB", "LinTS", "UCBGLM", "SGDTS", "EpsilonGreedy", "RegCB", "SquareCB"),
    **_dense(MAX_DENSE_COLUMNS, "LaplaceTS", "GradientLaplaceTS"),
    **_dense(MAX_SLOW_COLUMNS, "DLinUCB", "SWLinUCB", "GLMUCB", "GLMTSL", "GLOC"),
    **_dense(MAX_SLOWEST_COLUMNS, "NeuralUCB", "NeuralTS", "IGPUCB", "GPTS"),
    "DiagonalUCB, sparse rows": _sparse("DiagonalUCB"),
    "DiagonalTS, sparse rows": _sparse("DiagonalTS"),
    GREEDY: BakeOffPlayer(partial(Ridge, epsilon=0.0), "a ridge regression for each arm, no exploration"),
    EPSILON_GREEDY: BakeOffPlayer(partial(Ridge, epsilon=EPSILON), f"the same, epsilon {EPSILON:g}"),
    UNIFORM: BakeOffPlayer(Uniform, "an arm at random"),
    SUPERVISED: BakeOffPlayer(Supervised, "sees the class of every row after its decision"),
}


def feasible(label: str, columns: int, arms: int) -> bool:
    """Whether this player can play a set of this size."""
    limit = PLAYERS[label].max_columns if label in PLAYERS else None
    return limit is None or arms * (1 + columns) <= limit


def bandits(labels: Sequence[str]) -> list[str]:
    """Those that see no more than the rewards of what they play."""
    return [label for label in labels if label != SUPERVISED]
