"""Simulated worlds: what an environment is."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from syndicated.types import Arms, Array, Decision, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round: K arms, by features, number or id, their mean rewards, and what each would pay this time.

    Where the arms are an arm set, means and rewards have one entry, for its best arm.
    """

    arms: Arms
    means: Array
    rewards: Array
    _best: float = field(init=False, repr=False)  # the largest mean

    def __post_init__(self) -> None:
        object.__setattr__(self, "_best", float(self.means.max()))  # once, for all who play the round

    def reward(self, decision: Decision) -> float:
        """What the arm of a decision pays this time."""
        return float(self.rewards[decision.place])

    def regret(self, decision: Decision) -> float:
        """How much more the best arm pays on average than that of a decision."""
        return self._best - float(self.means[decision.place])

    def regrets(self, played: Ints | Array) -> Array:
        """The regret of each of several arms, as `Player.arms_of_points` gives them."""
        regrets: Array = self._best - self.means[played]
        return regrets


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A stream of rounds that depends on the seed alone: every agent that plays it meets the same arms and noise.

    `arms` is their number in a round; 0 stands for infinitely many, those of an arm set.
    """

    dim: int
    arms: int

    def catalogue(self) -> Array | None:
        """The features of all arms there are, if they are known beforehand: rounds then give arms by number."""
        return None

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        """The first `horizon` rounds of the world with this seed."""
        raise NotImplementedError
