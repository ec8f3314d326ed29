"""The nouns that cross boundaries: frozen, and all that a late reward needs is in them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Arms", "Array", "Ints", "Params"]

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Arms = npt.NDArray[Any]  # features, (K, d) floats; or the numbers of arms in a catalogue, (K,) integers
Params = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a tuner drew: hyper-parameters, the index and probability drawn on each axis, the policy's slot.

    For a tuner that shares credit, also the probability of every candidate at the draw, axis after axis (`odds`), and
    the places among them of those that would have played the same arm (`allies`).
    """

    params: Params
    index: tuple[int, ...] = ()
    probability: tuple[float, ...] = ()
    slot: int = 0
    odds: tuple[float, ...] = ()
    allies: tuple[int, ...] = ()

    @property
    def propensity(self) -> float:
        """The probability of the arm if all points were asked for theirs, otherwise of the draw that led to it."""
        if self.allies and len(self.index) == 1:
            return sum(self.odds[j] for j in self.allies)
        return math.prod(self.probability)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One decision, with everything that its reward needs whenever it comes.

    `params` are the hyper-parameters in use: the choice, filled up by theory. `propensity` is the probability
    of this arm if the tuner asked all its points for theirs, or in the warm-up (1/K; `choice` is None); otherwise, and
    where a choice lasts several rounds, of the draw that led to it, which other draws may do too. All are given the
    policy's own random draw.
    """

    agent: str
    round: int
    arm: int
    x: Array
    propensity: float
    params: Params
    choice: Choice | None

    @property
    def id(self) -> str:
        return f"{self.agent}-{self.round}"
