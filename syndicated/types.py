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

    For a tuner that shares credit, also the probability that every candidate had, axis after axis, and the indices of
    those among them that would have played the same arm, the `agreeing` ones.
    """

    params: Params
    index: tuple[int, ...] = ()
    probability: tuple[float, ...] = ()
    slot: int = 0
    candidate_probabilities: tuple[float, ...] = ()
    agreeing: tuple[int, ...] = ()

    @property
    def draw_probability(self) -> float | None:
        """The probability of this draw, over all axes; None where the tuner does not know it (`OP`)."""
        p = math.prod(self.probability)
        return None if math.isnan(p) else p


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One decision, with everything that its reward needs whenever it comes.

    `arm` is the arm's place among those that were given, also with a catalogue, and `x` has its features. `params` are
    the hyper-parameters in use: the choice, filled up by theory. `choice` is None in the warm-up.
    `propensity` is the probability of the arm, given the policy's own random draw and a choice that was made before
    this round. It is None where other draws of the tuner might have played the same arm and were not asked.
    """

    agent: str
    round: int
    arm: int
    x: Array
    propensity: float | None
    params: Params
    choice: Choice | None

    @property
    def id(self) -> str:
        return f"{self.agent}-{self.round}"
