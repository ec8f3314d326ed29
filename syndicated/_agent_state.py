"""What comes back to an agent from outside: its state as the content of a file, and decisions as JSON.

A state has what the parts have learned, the round and the last choice. It says whose it is: the policy, the tuner, the
seed, the catalogue or the features of the agent that wrote it. Everything is checked before the first part of an agent
is changed.
"""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._arm_book import ArmBook
from syndicated._learner import PIECE_BYTES, RowsCopy, within
from syndicated._missing import ColumnMeans
from syndicated._player import Player
from syndicated._statefile import Arrays, pack, pack_into, unpack
from syndicated._validation import check_arms, check_count, check_features, check_number, shorten
from syndicated.errors import InputError, StateError
from syndicated.features._reader import ArmReader, check_id
from syndicated.policies import POLICIES, Policy
from syndicated.policies.base import ArmPolicy
from syndicated.spec import build, spec_of
from syndicated.tuners import TUNERS, Tuner
from syndicated.types import CHOICE_KEYS, Array, Choice, Decision, Ints

DECISION_KEYS = {"agent", "round", "arm", "x", "propensity", "params", "choice"}
NONE_RETIRED: Ints = np.zeros(0, dtype=np.int64)


class Progress(NamedTuple):
    """How far an agent has come: its round, the last choice, and the rounds whose rewards it waits for."""

    round: int
    choice: Choice
    open: set[int]
    reader: ArmReader | None


def pack_agent(
    player: Player, round_: int, choice: Choice, opened: Collection[int], reader: ArmReader | None = None
) -> bytes:
    """The state of an agent."""
    arrays = {"open": np.array(sorted(opened), dtype=np.int64), **_arrays(player)}
    if player.numbered is not None and len(player.numbered.retired):
        arrays["retired"] = player.numbered.retired
    return pack(_head(player, round_, choice, reader), arrays)


class AgentCopy:
    """The state of an agent at one moment. Its large arrays are copied in pieces, while the agent goes on learning.

    The agent is a service's: it has no reader, no catalogue, and waits for no rewards, which the log does.
    """

    def __init__(self, player: Player, round_: int, choice: Choice) -> None:
        self._head = _head(player, round_, choice)
        self._arrays: dict[str, npt.NDArray[np.generic]] = {"open": np.zeros(0, dtype=np.int64)}
        self._copies: list[RowsCopy] = []
        for prefix, part in player.parts().items():
            arrays, copies = part.begin_state()
            self._arrays |= {prefix + name: array for name, array in arrays.items()}
            self._copies += copies

    @property
    def bytes_left(self) -> int:
        """What is still to be copied."""
        return sum(copy.bytes_left for copy in self._copies)

    def advance(self) -> bool:
        """Copy a piece more; whether all is copied."""
        if self._copies:
            self._copies[0].advance(PIECE_BYTES)
            self._copies = [copy for copy in self._copies if not copy.finished]
        return not self._copies

    def pack_into(self, take: Callable[[bytes], object]) -> None:
        """Give the content of a file in pieces, once all is copied."""
        pack_into(take, self._head, self._arrays)

    def pack(self) -> bytes:
        """The content of a file, once all is copied."""
        return pack(self._head, self._arrays)


def _head(player: Player, round_: int, choice: Choice, reader: ArmReader | None = None) -> dict[str, Any]:
    """What a state has beside arrays; what is about named arms is only in those that have them."""
    head = {"spec": _spec(player), "id": player.id, "round": round_, "choice": choice.as_dict()}
    if reader is not None:
        head["reader"] = reader.state()
    if len(player.means):
        head["named"] = {"books": [book.as_dict() for book in player.books], "means": player.means.as_dict()}
    return head


def unpack_agent(player: Player, data: bytes, reader: ArmReader | None = None) -> Progress:
    """Bring a player to a state, and say how far its agent had come. A state that is refused changes nothing."""
    head, arrays = unpack(data)
    _check_spec(player, head.get("spec"))
    arrays = _upgraded(player, arrays)
    reader = _check_reader(reader, head.get("reader"))
    named = _check_named(player, head.get("named"))
    retired = _check_retired(player, arrays.get("retired", NONE_RETIRED))
    if arrays.keys() - {"retired"} != {"open", *_arrays(player)}:
        raise StateError(f"a state of this agent has other arrays; got {shorten(sorted(arrays))}")
    if not isinstance(head.get("id"), str):
        raise StateError(f"the id of a state must be text; got {shorten(head.get('id'))}")
    round_, choice = _check_head(player, head)
    opened = arrays["open"]
    if opened.dtype != np.int64 or opened.ndim != 1 or not within(opened, round_):
        raise StateError(f"the open rounds of a state must be before its round {round_}; got {shorten(opened)}")
    states = _check_parts(player, arrays)
    player.id = head["id"]
    player.restore(states)
    player.books, player.means = named
    if player.numbered is not None:
        player.numbered.restore(retired)
    return Progress(round_, choice, set(opened.tolist()), reader)


def parts_in(data: bytes) -> tuple[Policy, Tuner, int, ArmReader | None]:
    """The policy, the tuner and the seed of the agent that wrote a state, and the reader of its named arms."""
    head = unpack(data)[0]
    spec: Any = head.get("spec")
    try:
        parts = build(POLICIES, spec["policy"]), build(TUNERS, spec["tuner"])
        seed = check_count("the seed of a state", spec["seed"], low=0)
        return *parts, seed, None if "reader" not in head else ArmReader.from_state(head["reader"])
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise StateError(f"a state must name a policy, a tuner and a seed; {shorten(spec)} gave {error}") from None


def tuner_spec_in(data: bytes) -> object:
    """What a state says of its tuner, whatever that is."""
    spec: Any = unpack(data)[0].get("spec")
    return spec.get("tuner") if isinstance(spec, dict) else None


def decision_from_json(player: Player, round_: int, text: str | bytes, reader: ArmReader | None = None) -> Decision:
    """The decision that `Decision.to_json` wrote, made by this player before this round."""
    named = reader is not None
    try:
        given = json.loads(text)
    except (TypeError, ValueError):
        given = None
    if not isinstance(given, dict) or given.keys() != DECISION_KEYS | ({"place"} if named else set()):
        raise InputError(f"a decision must be what to_json gave; got {shorten(text)}")
    if given["agent"] != player.id:
        raise InputError(f"a decision must be of this agent, {player.id}; got one of {shorten(given['agent'])}")
    made = check_count("the round of a decision", given["round"], low=0)
    if made >= round_:
        raise InputError(f"the round of a decision must be before the agent's, {round_}; got {made}")
    name = check_id("the arm of a decision", given["arm"]) if named else None
    place = check_count(f"the {'place' if named else 'arm'} of a decision", given["place" if named else "arm"], low=0)
    x = _check_row(player, given["x"], reader)
    params = given["params"]
    if not isinstance(params, dict):
        raise InputError(f"the params of a decision must be an object; got {shorten(params)}")
    player.policies[0].check(params)
    choice = _drawn(player, made, given["choice"])
    needed = player.policies[0].theory(made, {} if choice is None else choice.params)
    if params.keys() != needed.keys():
        raise InputError(f"the params of a decision must be {', '.join(needed)}; got {shorten(params)}")
    propensity = given["propensity"]
    if propensity is not None:
        propensity = check_number("the propensity of a decision", propensity, 0.0, 1.0)
    return Decision(player.id, made, place, x, propensity, params, choice, name)


def _check_row(player: Player, given: Any, reader: ArmReader | None) -> Array:
    """The features of a decision. For models of arms they may be fewer than now, if it was made before new columns."""
    if reader is not None and isinstance(player.policies[0], ArmPolicy) and isinstance(given, list):
        rows = check_arms([given], min(max(1, len(given)), reader.encoder.dim))
    else:
        rows = player.check_table([given])
    check_features(rows)
    x: Array = rows[0]
    return x


def _drawn(player: Player, round_: int, given: Any) -> Choice | None:
    """The choice of a decision in JSON, where a probability that is not known is null."""
    if round_ < player.warmup:
        if given is not None:
            raise InputError(f"a decision of the warm-up has no choice; got {shorten(given)}")
        return None
    if isinstance(given, dict) and isinstance(given.get("probability"), list):
        given = {**given, "probability": [math.nan if p is None else p for p in given["probability"]]}
    choice = choice_from_json(given)
    if not player.tuner.could_draw(choice):
        raise InputError(f"the choice of a decision must be one that the tuner can make; got {shorten(given)}")
    return choice


def choice_from_json(given: Any) -> Choice:
    """The choice that a JSON object describes."""
    whole, number = (int,), (int, float)
    numbers = {"index": whole, "probability": number, "slot": whole, "odds": number, "allies": whole}  # by key
    right = isinstance(given, dict) and given.keys() == {"params", *numbers} and isinstance(given["params"], dict)
    for name, kinds in numbers.items() if right else ():
        values = [given[name]] if name == "slot" else given[name]
        right = right and isinstance(values, list) and all(type(value) in kinds for value in values)
    if not right or not all(type(value) in number for value in given["params"].values()):
        raise InputError(f"a choice must be what a tuner drew; got {shorten(given)}")
    drawn: dict[str, Any] = {CHOICE_KEYS[key]: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    return Choice(**drawn)


def _check_spec(player: Player, spec: Any) -> None:
    for part, mine in _spec(player).items():
        given = _completed(part, spec.get(part) if isinstance(spec, dict) else None)
        if json.dumps(given) != json.dumps(mine):
            raise StateError(f"the {part} of a state must be {_differing(mine, given)}; got {_differing(given, mine)}")


def _differing(mine: Any, other: Any) -> str:
    """What a spec has that the other one has not; all of it if they are of different kinds."""
    if not isinstance(mine, dict) or not isinstance(other, dict) or mine.get("name") != other.get("name"):
        return shorten(mine)
    parts = {name: value for name, value in mine.items() if name not in other or other[name] != value}
    return ", ".join(f"{name}={shorten(value)}" for name, value in parts.items()) or "without " + ", ".join(
        name for name in other if name not in mine
    )


def _completed(part: str, given: Any) -> Any:
    """The spec of a policy or tuner, with the defaults of parameters that an older version did not have."""
    registries: Mapping[str, Mapping[str, type[Any]]] = {"policy": POLICIES, "tuner": TUNERS}
    if part not in registries or not isinstance(given, dict):
        return given
    try:
        return spec_of(build(registries[part], given))
    except (InputError, KeyError, TypeError, ValueError):
        return given


def _check_reader(mine: ArmReader | None, given: Any) -> ArmReader | None:
    if (mine is None) != (given is None):
        raise StateError(f"a state of this agent must be {'without' if mine is None else 'with'} named arms")
    if mine is None:
        return None
    reader = ArmReader.from_state(given)
    if reader.spec != mine.spec:
        raise StateError(f"the features of a state must be {mine.spec}; got {reader.spec}")
    return reader


def _check_named(player: Player, given: Any) -> tuple[list[ArmBook], ColumnMeans]:
    """The books of arms and the means of columns of a state."""
    if given is None:
        return [ArmBook() for _ in player.policies], ColumnMeans()
    books = given.get("books") if isinstance(given, dict) else None
    if not isinstance(books, list) or len(books) != len(player.policies):
        raise StateError(f"a state must have a book of arms for each policy; got {shorten(given)}")
    return [ArmBook.from_dict(book) for book in books], ColumnMeans.from_dict(given.get("means"))


def _check_retired(player: Player, given: npt.NDArray[Any]) -> Ints:
    """The numbers of a catalogue's arms that are retired."""
    count = 0 if player.catalogue is None else len(player.catalogue)
    if given.dtype != np.int64 or given.ndim != 1 or not within(given, count):
        raise StateError(f"the retired arms of a state must be numbers below {count}; got {shorten(given)}")
    return given


def _check_head(player: Player, head: dict[str, Any]) -> tuple[int, Choice]:
    """The round and the last choice of a state."""
    given = head.get("choice")
    try:
        round_ = check_count("the round of a state", head.get("round"), low=0)
        choice = choice_from_json(given)
        player.policies[0].check(choice.params)
    except InputError as error:
        raise StateError(str(error)) from None
    if choice != Choice({}) and not player.tuner.could_draw(choice):
        raise StateError(f"the choice of a state must be one that the tuner can make; got {shorten(given)}")
    return round_, choice


def _upgraded(player: Player, arrays: Arrays) -> Arrays:
    """The arrays as the parts of this version have them; what belongs to none stays, to be refused."""
    states = _states(player, arrays)
    own = {prefix + name for prefix, state in states.items() for name in state}
    upgraded = {prefix: part.upgraded(states[prefix]) for prefix, part in player.parts().items()}
    kept = {name: array for name, array in arrays.items() if name not in own}
    return kept | {prefix + name: array for prefix, state in upgraded.items() for name, array in state.items()}


def _states(player: Player, arrays: Arrays) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """The arrays of each part of a player."""
    parts = player.parts()
    return {p: {k.removeprefix(p): v for k, v in arrays.items() if k.startswith(p)} for p in parts}


def _check_parts(player: Player, arrays: Arrays) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """The arrays of each part of a player, once they are seen to be such."""
    states = _states(player, arrays)
    for prefix, learner in player.parts().items():
        name = learner.invalid_array(states[prefix])
        if name is not None:
            given = states[prefix][name]
            must = f"the array {prefix}{name} of a state must have the shape, type and range of this agent's"
            raise StateError(f"{must}; got {given.dtype} {given.shape} {shorten(given)}")
    return states


def _arrays(player: Player) -> Arrays:
    parts = player.parts().items()
    return {prefix + name: array for prefix, part in parts for name, array in part.state().items()}


def _spec(player: Player) -> dict[str, Any]:
    catalogue = None if player.catalogue is None else hashlib.sha256(player.catalogue.tobytes()).hexdigest()
    parts = {"policy": spec_of(player.policies[0]), "tuner": spec_of(player.tuner)}
    return {**parts, "seed": player.seed, "catalogue": catalogue}
