"""The bottom layer: what a policy is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from syndicated._argmax import best_of
from syndicated._learner import Learner, overrides
from syndicated._models.kernels import columns, take
from syndicated._validation import MAX_MAGNITUDE, check_count, check_flag, check_number, shorten
from syndicated.arm_sets import ArmSet
from syndicated.errors import InputError
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import ArmRows, Arms, Array, Ints, Params

NO_FEATURES: Array = np.empty((0, 0))


@dataclass(kw_only=True, eq=False)
class Policy(Learner):
    """Scores arms for given hyper-parameters and learns from (features, reward).

    Hyper-parameters are arguments of each round; a policy never knows that it is tuned. `hyper` names them, with
    the least and the largest value that each may have. `natural` names those in units that the policy estimates while
    it learns, so that the same value is good in any world, with the plain ones that `theory` turns them into.
    Where those that are `exploring` are 0, the scores are those of the greedy choice. Of a policy that is `scale_free`
    an agent with nothing else set plays the same arms whatever features and rewards are measured in.
    A `sparse` policy also takes sparse rows: arms (K, 2, n), the played arm's features (2, n).
    `intercept` adds a constant feature to the model; `sigma`, the noise level, enters the theoretical values only;
    `size` is the model's dimension.
    """

    dim: int
    intercept: bool = True
    sigma: float = 0.5
    hyper: ClassVar[dict[str, tuple[float, float]]]
    natural: ClassVar[dict[str, tuple[str, ...]]] = {}
    exploring: ClassVar[tuple[str, ...]] = ()
    scale_free: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    rewards: ClassVar[tuple[float, float]] = (-MAX_MAGNITUDE, MAX_MAGNITUDE)

    def __init_subclass__(cls) -> None:
        """A subclass with scores, theory or learn of its own inherits no compiled form that knows nothing of them."""
        if overrides(cls, "best", "scores", "theory"):
            cls.best = Policy.best  # type: ignore[method-assign]
        if overrides(cls, "best_many", "best", "scores", "theory"):
            cls.best_many = Policy.best_many  # type: ignore[method-assign]
        if overrides(cls, "replay", "best", "best_many", "scores", "theory", "learn", "learn_many"):
            cls.replay = Policy.replay  # type: ignore[method-assign]
        if overrides(cls, "scores_many", "scores"):
            cls.scores_many = Policy.scores_many  # type: ignore[method-assign]
        if overrides(cls, "best_in", "scores", "theory"):
            cls.best_in = Policy.best_in  # type: ignore[method-assign]
        if overrides(cls, "learn_many", "learn"):
            cls.learn_many = Policy.learn_many  # type: ignore[method-assign]
        if overrides(cls, "cuts_outliers", "usual"):
            cls.cuts_outliers = Policy.cuts_outliers  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        check_count("dim", self.dim)
        check_number("sigma", self.sigma, low=0.0, high=MAX_MAGNITUDE)
        check_flag("intercept", self.intercept)
        self.size = self.dim + self.intercept

    @property
    def space(self) -> Space:
        """The default candidates. They work at any reward scale, and each of them explores."""
        raise InputError(f"{type(self).__name__} has no default candidates: the agent must be given a tuner")

    @property
    def advised(self) -> Params | None:
        """The point that an agent plays if it is given no tuner; None where choosing from `space` does better."""
        return None

    @property
    def chosen(self) -> dict[str, str]:
        """What the policy chose by itself, and why, in words."""
        return {}

    @property
    def warning(self) -> str:
        """What a person who made this should know before the first round; empty if nothing."""
        return ""

    @property
    def period(self) -> int:
        """How many rounds one choice of hyper-parameters lasts."""
        return 1

    @property
    def warmup(self) -> int:
        """How many rounds of random arms the policy wants before its first scores."""
        return 0

    def theory(self, t: int, given: Params) -> dict[str, float]:
        """Every hyper-parameter at round t (from 0): as given, the others at their theoretical value."""
        raise NotImplementedError

    def theory_ignores_round(self, given: Params) -> bool:
        """Whether `theory` gives the same in every round until something is learned."""
        return False

    def prepare(self, points: Sequence[Params], catalogue: Array | None = None) -> None:
        """Called once, before the first round, with all points that will be scored, so that each can be kept ready.

        With a catalogue (the features of arms; see `update_catalogue`), arms are then given by their numbers in it.
        """
        self.catalogue = np.zeros((self.size, 0)) if catalogue is None else self.columns(catalogue)

    def update_catalogue(self, catalogue: Array, changed: Ints) -> None:
        """Called when the catalogue has become this one: arms of these numbers are new, or have other features."""
        self.catalogue = self.columns(catalogue)

    def columns(self, arms: Arms) -> Array:
        """(size, K): the arms' features, and the intercept's ones, one column an arm."""
        return columns(arms, self.size) if arms.ndim == 2 else take(self.catalogue, arms)

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        """K arms and n points -> (n, K) scores. Pure; one random draw serves all points."""
        raise NotImplementedError

    def scores_many(self, tables: Sequence[Any], points: Sequence[Params], rng: Stream) -> Array:
        """`scores` of many tables, of rounds from that of a stream on: one after the other, in an array of one axis.

        A policy may offer compiled calls in place of the loop.
        """
        return np.concatenate([self.scores(arms, points, rng.later(n)).ravel() for n, arms in enumerate(tables)])

    def best(self, arms: Any, points: Sequence[Params], t: int, rng: Stream) -> list[int]:
        """The arm that each point plays at round t: the first with its largest score; -1 if scores are not finite.

        A policy may offer one compiled call in place of `theory`, `scores` and argmax. It must give the same arms.
        """
        scores = self.scores(arms, [self.theory(t, point) for point in points], rng)
        # Features of a table may be invalid, which the scores show. All others were checked.
        may_be_invalid = NO_FEATURES if isinstance(arms, ArmRows) or arms.ndim != 2 else arms
        played: list[int] = best_of(scores, may_be_invalid).tolist()
        return played

    def best_many(self, tables: Array, point: Params, t: int, rng: Callable[[int], Stream]) -> list[int]:
        """The arm that a point plays with each of many tables, from round t on; each round has its own draws.

        A policy may offer a compiled call in place of the loop. It must give the same arms.
        """
        return [self.best(table, (point,), t + n, rng(t + n))[0] for n, table in enumerate(tables)]

    def best_in(self, arms: ArmSet, points: Sequence[Params], t: int, rng: Stream) -> Array:
        """(n, dim): the arm of an arm set that each of n points plays at round t; for policies that can."""
        raise InputError(f"{type(self).__name__} takes a table of arms, one row an arm; got {shorten(arms)}")

    def predict(self, arms: Arms, params: Params) -> Array:
        """(K,) expected rewards, no exploration."""
        raise NotImplementedError

    def expected(self, score: float) -> float:
        """The reward that a score without exploration stands for."""
        return score

    def learn(self, x: Array, reward: float, params: Params) -> None:
        """Learn from the played arm's features and its reward."""
        raise NotImplementedError

    def learn_many(self, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        """`learn` one observation after the other."""
        for x, reward, used in zip(X, rewards.tolist(), params, strict=True):
            self.learn(x, reward, used)

    def replay(self, tables: Array, places: Ints, rewards: Array, point: Params, t: int, played: Ints) -> int:
        """Play the first of the rounds from t on with a point, and learn where that is what was played; how many.

        For policies that have a compiled form of it, which must give what `best` and `learn` give.
        """
        return 0

    @property
    def cuts_outliers(self) -> bool:
        """Whether `usual` may be another reward than was learned."""
        return type(self).usual is not Policy.usual

    def usual(self, reward: float) -> float:
        """What the reward that was learned last counted as: itself, unless the policy took it for an outlier."""
        return reward

    def check(self, params: Params) -> None:
        """Refuse hyper-parameters that this policy does not have, and values that they cannot take."""
        known = self.hyper | {name: (self._least(name), 1e12) for name in self.natural}
        for name, value in params.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has the hyper-parameters {', '.join(known)}; got {shorten(name)}"
                )
            check_number(name, value, *known[name])
            twice = set(self.natural.get(name, ())) & params.keys()
            if twice:
                raise InputError(f"{name} stands for {min(twice)}, of which one must be given; got {dict(params)}")

    def _least(self, name: str) -> float:
        """The least value of a natural hyper-parameter: 0 where what it stands for may be 0."""
        return max(self.hyper[plain][0] for plain in self.natural[name] if plain in self.hyper)


@dataclass(kw_only=True, eq=False)
class ArmPolicy(Policy):
    """A policy that keeps a model for each arm. Arms are known by their numbers, from 0 on.

    An arm gets its number with its first reward; until then it is -1, and the policy scores it from what it believes of
    an arm that it has not seen. Arms that are plain rows are all number 0: one model that they share.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if overrides(cls, "best_alike", "best", "scores", "theory"):
            cls.best_alike = ArmPolicy.best_alike  # type: ignore[method-assign]
        if overrides(cls, "learn_arms", "learn_arm"):
            cls.learn_arms = ArmPolicy.learn_arms  # type: ignore[method-assign]
        if overrides(cls, "replay_alike", "best", "best_alike", "scores", "theory", "learn_arm", "learn_arms"):
            cls.replay_alike = ArmPolicy.replay_alike  # type: ignore[method-assign]

    def scores(self, arms: Arms | ArmRows, points: Sequence[Params], rng: Stream) -> Array:
        raise NotImplementedError

    def predict(self, arms: Arms | ArmRows, params: Params) -> Array:
        raise NotImplementedError

    def learn(self, x: Array, reward: float, params: Params) -> None:
        self.learn_arm(0, x, reward, params)

    def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
        """Learn from a reward of the arm with this number; a number may be one more than the largest so far."""
        raise NotImplementedError

    def best_alike(self, X: Array, numbers: Ints, point: Params, t: int, rng: Callable[[int], Stream]) -> list[int]:
        """`best` in rounds from t on with the same arms, all of which have the row of the round.

        A policy may offer a compiled call in place of the loop. It must give the same arms.
        """
        tables = (ArmRows(np.tile(x, (len(numbers), 1)), numbers) for x in X)
        return [self.best(rows, (point,), t + n, rng(t + n))[0] for n, rows in enumerate(tables)]

    def learn_arms(self, numbers: Ints, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        """`learn_arm` one reward after the other."""
        for number, x, reward, used in zip(numbers.tolist(), X, rewards.tolist(), params, strict=True):
            self.learn_arm(number, x, reward, used)

    def replay_alike(
        self, X: Array, numbers: Ints, places: Ints, rewards: Array, point: Params, rng: Stream, played: Ints
    ) -> int:
        """`replay` of rounds as in `best_alike`, from that of the stream on; none if there is no compiled form."""
        return 0

    def retire_arm(self, number: int) -> None:
        """Forget the model of an arm, so that its number can be given to another."""
        raise NotImplementedError
