"""Learners of other libraries as policies: MABWiser, river and Vowpal Wabbit. Needs the extra `peers`.

One model for all arms, as in LinUCB: every arm is a row. What these libraries keep cannot be stored as arrays, so their
state here is what they have learned from: they learn it again after a restore, and memory grows with the rounds. They
are for comparisons; `syndicated list` does not name them, and specs and experiments find them by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from syndicated._extras import extra
from syndicated._models.arm_draws import first_best, order_of, preferred, random_arm
from syndicated._validation import check_count, check_number
from syndicated.errors import InputError
from syndicated.policies.base import Policy
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Ints, Params


@dataclass(kw_only=True, eq=False)
class PeerPolicy(Policy):
    """A learner of another library. With probability `epsilon` any arm is played, else the one that it prefers."""

    seed: int = 0
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"epsilon": (0.0, 1.0)}
    exploring: ClassVar[tuple[str, ...]] = ("epsilon",)
    growing: ClassVar[tuple[str, ...]] = ("X", "y")
    usual_epsilon: ClassVar[float] = 0.0  # of a learner that explores by itself
    X: Array = field(init=False, repr=False)
    y: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("seed", self.seed, low=0)
        self._begin()
        self.prepare([])

    @property
    def advised(self) -> Params:
        return {"epsilon": self.usual_epsilon}

    @property
    def space(self) -> Space:
        return Space(epsilon=[0.0, 0.05, 0.2])

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"epsilon": self.usual_epsilon, **given}

    def theory_ignores_round(self, given: Params) -> bool:
        return True

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        columns = self.columns(arms)
        explore, which, own = rng.uniforms(3)
        values = self._values(np.ascontiguousarray(columns.T)) if self._learned else np.zeros(columns.shape[1])
        order = order_of(columns)
        chosen, any_ = self._chosen(order, values, own), random_arm(order, np.ones(len(order)), which)
        return np.stack([preferred(values, any_ if explore < point["epsilon"] else chosen) for point in points])

    def predict(self, arms: Arms, params: Params) -> Array:
        raise InputError(f"{type(self).__name__} says which arm it prefers, not what it expects of each")

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self._rows.append(np.append(x, np.ones(self.size - self.dim)))
        self._rewards.append(reward)
        self._learn(self._rows[-1], reward)
        self._learned = True

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        self.X, self.y = np.array(self._rows).reshape(-1, self.size), np.array(self._rewards)
        return super().state()

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        super().restore(arrays)
        rows, rewards = self.X, self.y
        self._begin()
        for row, reward in zip(rows, rewards.tolist(), strict=True):
            self.learn(row[: self.dim], reward, {})

    def _begin(self) -> None:
        self.X, self.y, self._learned = np.zeros((0, self.size)), np.zeros(0), False
        self._rows: list[Array] = []
        self._rewards: list[float] = []
        with extra("peers", type(self).__name__):
            self._learner = self._make()

    def _make(self) -> Any:
        """A new learner."""
        raise NotImplementedError

    def _values(self, rows: Array) -> Array:
        """What the learner gives for each row."""
        raise NotImplementedError

    def _chosen(self, order: Ints, values: Array, u: float) -> int:
        """The arm that the learner prefers; u is uniform, for one that draws it."""
        return first_best(order, values)

    def _learn(self, row: Array, reward: float) -> None:
        raise NotImplementedError


@dataclass(kw_only=True, eq=False)
class MABWiserPolicy(PeerPolicy):
    """MABWiser's LinUCB with `alpha` and ridge penalty `l2_lambda`; all rows are contexts of one of its arms."""

    alpha: float = 1.0
    l2_lambda: float = 1.0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0)
        check_number("l2_lambda", self.l2_lambda, low=1e-12)
        super().__post_init__()

    def _make(self) -> Any:
        from mabwiser.mab import MAB, LearningPolicy

        return MAB([0], LearningPolicy.LinUCB(alpha=self.alpha, l2_lambda=self.l2_lambda), seed=self.seed)

    def _values(self, rows: Array) -> Array:
        found = self._learner.predict_expectations(rows)
        return np.array([each[0] for each in (found if isinstance(found, list) else [found])], dtype=np.float64)

    def _learn(self, row: Array, reward: float) -> None:
        (self._learner.partial_fit if self._learned else self._learner.fit)([0], [reward], row[None])


@dataclass(kw_only=True, eq=False)
class RiverPolicy(PeerPolicy):
    """A regressor of river with its defaults, by its name in the package; it explores by epsilon only."""

    model: str = "linear_model.BayesianLinearRegression"
    usual_epsilon: ClassVar[float] = 0.05

    def predict(self, arms: Arms, params: Params) -> Array:
        rows = np.ascontiguousarray(self.columns(arms).T)
        return self._values(rows) if self._learned else np.zeros(len(rows))

    def _make(self) -> Any:
        import river.api

        try:
            found: Any = reduce(getattr, self.model.split("."), river.api)
            return found()
        except (AttributeError, TypeError):
            raise InputError(
                f"model must be a regressor of river such as {RiverPolicy.model}; got {self.model!r}"
            ) from None

    def _values(self, rows: Array) -> Array:
        return np.array([self._learner.predict_one(dict(enumerate(row))) for row in rows.tolist()], dtype=np.float64)

    def _learn(self, row: Array, reward: float) -> None:
        self._learner.learn_one(dict(enumerate(row.tolist())), reward)


@dataclass(kw_only=True, eq=False)
class VowpalWabbitPolicy(PeerPolicy):
    """Vowpal Wabbit's `--cb_explore_adf` with these `options`: an arm is drawn with the probabilities that it gives.

    It learns every reward with weight 1, for a policy is not told the probability of what was played.
    """

    options: str = "--squarecb"

    def _make(self) -> Any:
        from vowpalwabbit import Workspace

        return Workspace(f"--cb_explore_adf --quiet --random_seed {self.seed} {self.options}")

    def _values(self, rows: Array) -> Array:
        return np.array(self._learner.predict([_example(row) for row in rows]), dtype=np.float64)

    def _chosen(self, order: Ints, values: Array, u: float) -> int:
        return random_arm(order, values if self._learned else np.ones(len(values)), u)

    def _learn(self, row: Array, reward: float) -> None:
        self._learner.learn([f"0:{-reward}:1 {_example(row)}"])


def _example(row: Array) -> str:
    return "|a " + " ".join(f"{i}:{value!r}" for i, value in enumerate(row.tolist()) if value)
