"""The state of an agent as the content of a file: what its parts have learned, its round, its last choice.

A state says whose it is: the policy, the tuner, the seed and the catalogue of the agent that wrote it. It comes from
outside, so everything in it is checked before the first part of an agent is changed.
"""

import hashlib
import json
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._learner import within
from syndicated._player import Player
from syndicated._statefile import Arrays, pack, unpack
from syndicated._validation import check_count, shorten
from syndicated.errors import InputError, StateError
from syndicated.spec import spec_of
from syndicated.types import Choice

# The keys of a choice in a state, which stay as they are, and the fields of Choice that they stand for.
CHOICE_KEYS = {
    "params": "params",
    "index": "index",
    "probability": "probability",
    "slot": "slot",
    "odds": "candidate_probabilities",
    "allies": "agreeing",
}


class Progress(NamedTuple):
    """How far an agent has come: its round, the last choice, and the rounds whose rewards it waits for."""

    round: int
    choice: Choice
    open: set[int]


def pack_agent(player: Player, round_: int, choice: Choice, opened: Collection[int]) -> bytes:
    """The state of an agent."""
    head = {"spec": _spec(player), "id": player.id, "round": round_, "choice": _choice_to_json(choice)}
    return pack(head, {"open": np.array(sorted(opened), dtype=np.int64), **_arrays(player)})


def unpack_agent(player: Player, data: bytes) -> Progress:
    """Bring a player to a state, and say how far its agent had come. A state that is refused changes nothing."""
    head, arrays = unpack(data)
    _check_spec(player, head.get("spec"))
    if arrays.keys() != {"open", *_arrays(player)}:
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
    return Progress(round_, choice, set(opened.tolist()))


def _choice_to_json(choice: Choice) -> dict[str, Any]:
    return {key: getattr(choice, name) for key, name in CHOICE_KEYS.items()}


def choice_from_json(given: Any) -> Choice:
    """The choice that a JSON object describes."""
    whole, number = (int,), (int, float)
    numbers = {"index": whole, "probability": number, "slot": whole, "odds": number, "allies": whole}  # by key
    right = isinstance(given, dict) and given.keys() == {"params", *numbers} and isinstance(given["params"], dict)
    for name, kinds in numbers.items() if right else ():
        values = [given[name]] if name == "slot" else given[name]
        right = right and isinstance(values, list) and all(type(value) in kinds for value in values)
    if not right or not all(type(value) in number for value in given["params"].values()):
        raise InputError(f"the choice of a state must be what a tuner drew; got {shorten(given)}")
    drawn: dict[str, Any] = {CHOICE_KEYS[key]: tuple(v) if isinstance(v, list) else v for key, v in given.items()}
    return Choice(**drawn)


def _check_spec(player: Player, spec: Any) -> None:
    for part, mine in _spec(player).items():
        given = spec.get(part) if isinstance(spec, dict) else None
        if json.dumps(given) != json.dumps(mine):
            raise StateError(f"the {part} of a state must be {mine}; got {given}")


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


def _check_parts(player: Player, arrays: Arrays) -> dict[str, dict[str, npt.NDArray[np.generic]]]:
    """The arrays of each part of a player."""
    states = {
        prefix: {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        for prefix in player.parts()
    }
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
