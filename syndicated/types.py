"""The nouns that cross boundaries: frozen, and all that a late reward needs is in them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["ArmId", "ArmRows", "Arms", "Array", "Ints", "NamedArms", "Params"]

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Features, (K, d) floats; or the numbers of arms in a catalogue, (K,) integers; or sparse rows, (K, 2, n) floats: for
# each arm n columns, rising, and their values. A value 0 is no entry, and fills up shorter rows.
Arms = npt.NDArray[Any]
Params = Mapping[str, float]
ArmId = str | int

T = TypeVar("T")


def direct_init(cls: type[T]) -> type[T]:
    """Give a frozen dataclass with slots an `__init__` that fills them directly, in a quarter of the time of its own.

    Its own looks up every slot by name, to get around what makes it frozen. Here the object is of a class with the same
    slots that is not frozen while they are filled. A round makes several of them.
    """
    own = fields(cls)  # type: ignore[arg-type]
    unfrozen = type(cls.__name__, (), {"__slots__": [each.name for each in own]})
    names: dict[str, Any] = {"become": vars(object)["__class__"].__set__, "unfrozen": unfrozen, "frozen": cls}
    names |= {f"default_{each.name}": each.default for each in own}
    given = [each.name + ("" if each.default is MISSING else f"=default_{each.name}") for each in own]
    body = "; ".join(f"self.{each.name} = {each.name}" for each in own)
    exec(
        f"def __init__(self, {', '.join(given)}):\n become(self, unfrozen); {body}; self.__class__ = frozen",
        names,
    )
    names["__init__"].__annotations__ = cls.__init__.__annotations__
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]
    return cls


# The keys of a choice in states and in JSON, which stay as they are, and the fields that they stand for.
CHOICE_KEYS = {
    "params": "params",
    "index": "index",
    "probability": "probability",
    "slot": "slot",
    "odds": "candidate_probabilities",
    "allies": "agreeing",
}


@direct_init
@dataclass(frozen=True, slots=True, eq=False)
class ArmRows:
    """Arms with models of their own: a row of features for each, and the number of its model; -1 if it has none yet."""

    x: Array
    numbers: Ints

    def __len__(self) -> int:
        return len(self.numbers)


@direct_init
@dataclass(frozen=True, slots=True, eq=False)
class NamedArms:
    """Arms that are known by their ids: a row of features for each, in which NaN stands for a missing number.

    Rows that are `complete` are known to be valid, and no number is missing.
    """

    ids: tuple[ArmId, ...]
    x: Array
    complete: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class NamedRounds:
    """Rounds with the same arms, which bring nothing but their ids: a round has one row, that of all its arms.

    The rows are known to be valid, and no number is missing.
    """

    ids: tuple[ArmId, ...]
    x: Array

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, n: int) -> NamedArms:
        return NamedArms(self.ids, np.tile(self.x[n], (len(self.ids), 1)), True)


@direct_init
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

    def as_dict(self) -> dict[str, Any]:
        """The choice as it stands in a state."""
        return {key: getattr(self, name) for key, name in CHOICE_KEYS.items()}


@direct_init
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Decision:
    """One decision, with everything that its reward needs whenever it comes.

    `arm` is the arm's id, or its place where arms have no ids: rows of features, or numbers of a catalogue. `place` is
    always its place among those that were given, and `x` has its features. `params` are the hyper-parameters in use:
    the choice, filled up by theory. `choice` is None in the warm-up.
    `propensity` is the probability of the arm, given the policy's own random draw and a choice that was made before
    this round. It is None where other draws of the tuner might have played the same arm and were not asked.
    """

    agent: str
    round: int
    place: int
    x: Array
    propensity: float | None
    params: Params
    choice: Choice | None
    name: ArmId | None = None

    def __repr__(self) -> str:
        params = ", ".join(f"{name} {value:.4g}" for name, value in self.params.items())
        likely = "not known" if self.propensity is None else f"{self.propensity:.4g}"
        return f"<Decision: arm {self.arm!r} in round {self.round}, propensity {likely}, {params}>"

    @property
    def arm(self) -> Any:
        return self.place if self.name is None else self.name

    @property
    def id(self) -> str:
        return f"{self.agent}-{self.round}"

    def to_json(self) -> str:
        """The decision as a line of JSON, to be kept until its reward comes: see `Agent.decision_from_json`."""
        choice = None if self.choice is None else self.choice.as_dict()
        if choice is not None:
            choice["probability"] = [None if math.isnan(p) else p for p in choice["probability"]]
        own: dict[str, Any] = {"agent": self.agent, "round": self.round, "arm": self.arm, "x": self.x.tolist()}
        if self.name is not None:
            own["place"] = self.place
        return json.dumps({**own, "propensity": self.propensity, "params": dict(self.params), "choice": choice})


class PlayedRounds(NamedTuple):
    """What decisions have played, in columns, as far as their rewards need it. Rows of one length may be a table."""

    rows: Array | Sequence[Array]
    params: Sequence[Params]
    choices: Sequence[Choice | None]
    names: Sequence[ArmId | None]

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> "PlayedRounds":
        rows: Array | list[Array] = [each.x for each in decisions]
        shapes = {row.shape for row in rows}
        if len(shapes) == 1 and len(shapes.pop()) == 1:
            rows = np.concatenate(rows).reshape(len(rows), -1)
        choices, names = [each.choice for each in decisions], [each.name for each in decisions]
        return cls(rows, [each.params for each in decisions], choices, names)
