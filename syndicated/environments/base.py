"""Simulated worlds: what an environment is."""

from collections.abc import Iterator
from dataclasses import dataclass

from syndicated.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round: the arms' features (K, d), their mean rewards (K,), and what each would pay this time (K,)."""

    X: Array
    means: Array
    rewards: Array


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A stream of rounds that depends on the seed alone: whoever plays it meets the same arms and noise."""

    dim: int
    arms: int

    def rounds(self, seed: int, horizon: int) -> Iterator[Round]:
        """The first `horizon` rounds of the world with this seed."""
        raise NotImplementedError
