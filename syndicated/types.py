"""The nouns that cross boundaries: frozen, and all that a late reward needs is in them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Arms = npt.NDArray[Any]  # features, (K, d) floats; or the numbers of arms in a catalogue, (K,) integers
Params = Mapping[str, float]

MOST = 2**62  # of a count


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


def within(numbers: npt.NDArray[Any], end: int) -> bool:
    """Whether all numbers are at least 0 and less than this."""
    return bool(np.all((numbers >= 0) & (numbers < end)))


class Learner:
    """What policies and tuners share: parameters are the init fields; state is the rest, and it is arrays.

    Subclasses are dataclasses. Constructors only store and check; `fresh` is the same thing with no history. The arrays
    that are `growing` may have any number of rows; all others keep the shape that they have from the start.
    """

    growing: ClassVar[tuple[str, ...]] = ()

    def params(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def fresh(self) -> Self:
        return replace(self)  # type: ignore[type-var]

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        for name, value in self._history().items():
            if isinstance(value, Learner):
                arrays |= {f"{name}.{inner}": array for inner, array in value.state().items()}
            else:
                arrays[name] = np.array(value)
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        for name, value in self._history().items():
            if isinstance(value, Learner):
                inner = {key.removeprefix(f"{name}."): array for key, array in arrays.items()}
                value.restore(inner)
            else:
                array = arrays[name]
                setattr(self, name, array.item() if array.ndim == 0 else array.copy())

    def misfit(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        """The name of an array that is none of this learner's, by its type, its shape or its numbers; None if all are.

        Numbers are finite, or all as they were at the start; counts are neither negative nor close to overflow.
        """
        for name, value in self._history().items():
            if isinstance(value, Learner):
                inner = value.misfit({key.removeprefix(f"{name}."): array for key, array in arrays.items()})
                if inner is not None:
                    return f"{name}.{inner}"
                continue
            mine, given, fixed = np.asarray(value), arrays[name], slice(name in self.growing, None)
            if (given.dtype, given.ndim, given.shape[fixed]) != (mine.dtype, mine.ndim, mine.shape[fixed]):
                return name
            if given.dtype.kind == "i" and not within(given, MOST):
                return name
            if not np.all(np.isfinite(given)) and not np.array_equal(given, np.asarray(self.fresh()._history()[name])):
                return name
        return None

    def _history(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.init}  # type: ignore[arg-type]
