"""The top layer: what a tuner is."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from syndicated._html import html_table
from syndicated._learner import Learner, overrides
from syndicated._validation import check_count, check_range, shorten
from syndicated.errors import InputError
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.types import Array, Choice, Params

MIN_PROBABILITY = 1e-100  # of what was drawn: a reward divided by it stays finite
WARMUPS = {"T^2/3": 2 / 3, "T^4/7": 4 / 7}


def check_space(space: object) -> None:
    """Refuse what is not a Space."""
    if not isinstance(space, Space):
        raise InputError(f"space must be a Space such as Space(alpha=[0.1, 1]); got {shorten(space)}")


@dataclass(eq=False)
class Tuner(Learner):
    """Chooses hyper-parameters and learns from what they earned. It never knows what it tunes.

    `points` are the candidates; what they leave out, the policy's theory fills in. A tuner with several `slots`
    gets as many independent copies of the policy, and a choice names the one that plays and learns. A tuner that
    `draws` says in its choices which candidate it drew on each axis, and with what probability.
    """

    draws: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """A subclass with choices of its own inherits no compiled form that knows nothing of them."""
        if overrides(cls, "choose_many", "choose"):
            cls.choose_many = Tuner.choose_many  # type: ignore[method-assign]
        if overrides(cls, "learn_many", "learn"):
            cls.learn_many = Tuner.learn_many  # type: ignore[method-assign]

    @property
    def points(self) -> tuple[Params, ...]:
        """All hyper-parameters that `choose` may give."""
        return ({},)

    @property
    def slots(self) -> int:
        return 1

    @property
    def period(self) -> int:
        """How many of the policy's periods one choice lasts."""
        return 1

    @property
    def warmup_rounds(self) -> int:
        """T1: how many of the first rounds play arms at random and teach the policy only."""
        return 0

    def axes(self) -> list[Sequence[Params]]:
        """What is drawn from: for each draw of a choice its candidates, as parts of a point."""
        return [self.points]

    def probabilities(self) -> list[Array]:
        """The probability of every candidate on every axis, now."""
        return [np.full(len(axis), 1 / len(axis)) for axis in self.axes()]

    def _repr_html_(self) -> str:
        """The candidates and their probabilities now, for notebooks."""
        axes = zip(self.axes(), self.probabilities(), strict=True)
        pairs = [pair for candidates, p in axes for pair in zip(candidates, p, strict=True)]
        rows = [(", ".join(f"{n} = {v:g}" for n, v in point.items()) or "theory", f"{p:.3f}") for point, p in pairs]
        return html_table((type(self).__name__, "probability"), rows)

    def choose(self, rng: Stream) -> Choice:
        """The hyper-parameters of the next period, with the probability of this draw."""
        raise NotImplementedError

    def choose_many(self, rng: Stream, periods: int) -> list[Choice]:
        """`choose` for so many periods from that of a stream on, nothing being learned between them.

        A tuner may offer compiled calls in place of the loop.
        """
        return [self.choose(rng.later(n)) for n in range(periods)]

    def could_draw(self, choice: Choice) -> bool:
        """Whether a choice that came from outside is one that this tuner can have made, and can learn from."""
        axes = self.axes() if self.draws else []
        return (
            len(choice.index) == len(choice.probability) == len(axes)
            and all(0 <= i < len(axis) for i, axis in zip(choice.index, axes, strict=True))
            and all(MIN_PROBABILITY <= p <= 1 for p in choice.probability)
            and choice.params == self._point(choice.index)
            and not choice.candidate_probabilities
            and not choice.agreeing
            and 0 <= choice.slot < self.slots
        )

    def _point(self, index: Sequence[int]) -> Params:
        """The point with these indices on the axes; the only point of a tuner that draws nothing."""
        if not index:
            return self.points[0]
        return {name: value for axis, i in zip(self.axes(), index, strict=True) for name, value in axis[i].items()}

    def rivals(self, choice: Choice) -> Sequence[Params]:
        """The points whose arms the tuner wants to know, in the order of its candidates; none for most tuners."""
        return ()

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        """Credit a choice with a reward that stands for `share` of the rounds it lasted."""

    def learn_many(self, choices: Sequence[Choice], rewards: Array, shares: Array) -> None:
        """`learn` one after the other. A tuner may offer compiled calls in place of the loop."""
        for choice, reward, share in zip(choices, rewards.tolist(), shares.tolist(), strict=True):
            self.learn(choice, reward, share)

    def frozen(self, slot: int) -> bool:
        """Whether this copy of the policy plays without learning."""
        return False

    def replaced(self) -> Mapping[int, int | None]:
        """Copies of the policy to be replaced after the last reward: by the copy of another slot, or by a new one."""
        return {}


def could_share(tuner: Tuner, choice: Choice, could_draw: Callable[[Choice], bool]) -> bool:
    """`could_draw` for a tuner that shares credit: its choices have the probabilities of all candidates."""
    p = choice.candidate_probabilities
    return (
        could_draw(replace(choice, candidate_probabilities=(), agreeing=()))
        and len(p) == sum(len(axis) for axis in tuner.axes())
        and all(0 <= each <= 1 for each in p)
        and all(0 <= j < len(p) for j in choice.agreeing)
    )


def could_draw_unstated(choice: Choice, could_draw: Callable[[Choice], bool]) -> bool:
    """`could_draw` for a tuner whose choices state NaN for their probabilities."""
    certain = replace(choice, probability=(1.0,) * len(choice.probability))
    return all(map(math.isnan, choice.probability)) and could_draw(certain)


@dataclass(eq=False)
class Adaptive(Tuner):
    """A tuner that learns: its space, the horizon T, the warm-up T1 and the range of rewards.

    `warmup` is a number of rounds, or "T^2/3" or "T^4/7" as in Theorem 1. Rewards are rescaled so that `rewards`
    becomes [0, 1]. One outside the range is extrapolated, not clipped, unless the tuner's docstring says otherwise:
    the paper's experiments have such rewards (Gaussian noise), and its guarantees then no longer apply.
    """

    space: Space
    horizon: int = 10_000
    warmup: int | str = 0
    rewards: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_space(self.space)
        check_count("horizon", self.horizon)
        if isinstance(self.warmup, str):
            if self.warmup not in WARMUPS:
                names = ", ".join(WARMUPS)
                raise InputError(f"warmup must be a number of rounds or one of {names}; got {shorten(self.warmup)}")
        else:
            check_count("warmup", self.warmup, low=0)
        self.rewards = check_range("the range of rewards", self.rewards)

    @property
    def points(self) -> tuple[Params, ...]:
        return self.space.points

    @property
    def warmup_rounds(self) -> int:
        if isinstance(self.warmup, str):
            return math.ceil(math.pow(self.horizon, WARMUPS[self.warmup]))
        return self.warmup

    def rescale(self, reward: float) -> float:
        """The reward with the declared range mapped to [0, 1]."""
        low, high = self.rewards
        return (reward - low) / (high - low)
