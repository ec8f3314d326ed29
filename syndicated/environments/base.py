"""Simulated worlds: what an environment is."""

from collections.abc import Iterator
from dataclasses import dataclass

from syndicated.types import Arms, Array


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round: K arms, by features or by number, their mean rewards, and what each would pay this time."""

    arms: Arms
    means: Array
    rewards: Array


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A stream of rounds that depends on the seed alone: every agent that plays it meets the same arms and noise."""

    dim: int
    arms: int

    def catalogue(self) -> Array | None:
        """The features of all arms there are, if they are known beforehand: rounds then give arms by number."""
        return None

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        """The first `horizon` rounds of the world with this seed."""
        raise NotImplementedError
