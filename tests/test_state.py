"""Saved states: the same agent to the bit, or an error; never a wrong restore."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import (
    OP,
    SGDTS,
    UCBGLM,
    Agent,
    Corral,
    LinTS,
    LinUCB,
    Space,
    StateError,
    Syndicated,
    Theory,
    TwoLayer,
)
from syndicated.statefile import VERSION, pack, unpack
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.types import Arms

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0])
CATALOGUE = 2 * Stream(9, ARMS).uniforms(60).reshape(20, 3) - 1
AGENTS: dict[str, Callable[[], Agent]] = {
    "LinUCB-Syndicated": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE), seed=1),
    "LinTS-Corral": lambda: Agent(LinTS(dim=3, intercept=False), Corral(SPACE, warmup=3), seed=2),
    "UCBGLM-OP": lambda: Agent(UCBGLM(dim=3, ridge="inverse"), OP(SPACE), seed=3),
    "SGDTS-TwoLayer": lambda: Agent(SGDTS(dim=3, tau=4), TwoLayer(Space(eta0=[0.1, 1.0])), seed=4),
    "LinUCB": lambda: Agent(LinUCB(dim=3)),
    "LinUCB-catalogue": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE), catalogue=CATALOGUE),
    "SGDTS-catalogue": lambda: Agent(SGDTS(dim=3, tau=4), TwoLayer(Space(eta0=[0.1, 1.0])), catalogue=CATALOGUE),
}
agents = pytest.mark.parametrize("build", AGENTS.values(), ids=AGENTS)


def _arms(t: int, agent: Agent) -> Arms:
    draws = Stream(1, ARMS, t).uniforms(15)
    return 2 * draws.reshape(5, 3) - 1 if agent.catalogue is None else (20 * draws[:5]).astype(np.int64)


def _play(agent: Agent, rounds: int = 23) -> Agent:
    """Every third decision never gets its reward."""
    for t in range(agent.round, agent.round + rounds):
        decision = agent.decide(_arms(t, agent))
        if t % 3:
            agent.learn(decision, float(Stream(1, NOISE, t).uniforms(1)[0]))
    return agent


@agents
def test_a_restored_agent_is_the_same_to_the_bit_and_goes_on_so(build: Callable[[], Agent]) -> None:
    agent, restored = _play(build()), build()
    restored.restore(agent.state())
    assert restored.state() == agent.state()
    assert _play(restored).state() == _play(agent).state()


@agents
def test_restoring_forgets_what_the_agent_was(build: Callable[[], Agent]) -> None:
    agent, other = _play(build()), _play(build(), 40)
    other.restore(agent.state())
    assert _play(other).state() == _play(agent).state()


@agents
def test_taking_a_state_changes_nothing(build: Callable[[], Agent]) -> None:
    agent = _play(build())
    state = agent.state()
    assert agent.state() == state
    _play(agent)
    assert agent.state() != state


def test_two_agents_restored_from_one_state_share_nothing() -> None:
    state = _play(AGENTS["LinUCB-Syndicated"]()).state()
    one, other = AGENTS["LinUCB-Syndicated"](), AGENTS["LinUCB-Syndicated"]()
    one.restore(state)
    other.restore(state)
    _play(one)
    assert other.state() == state


def test_a_state_survives_the_disk(tmp_path: Path) -> None:
    agent, restored = _play(AGENTS["UCBGLM-OP"]()), AGENTS["UCBGLM-OP"]()
    file = tmp_path / "agent.state"
    file.write_bytes(agent.state())
    restored.restore(file.read_bytes())
    assert _play(restored).state() == _play(agent).state()


@agents
def test_open_decisions_survive(build: Callable[[], Agent]) -> None:
    agent, restored = build(), build()
    decisions = [agent.decide(_arms(t, agent)) for t in range(9)]
    for decision in decisions[::2]:
        agent.learn(decision, 1.0)
    restored.restore(agent.state())
    assert (restored.open, restored.round, restored.id) == (4, 9, agent.id)
    for each in (agent, restored):
        for decision in decisions[1::2]:
            each.learn(decision, 0.0)
    assert restored.open == 0
    assert restored.state() == agent.state()


# What a state file is.


@agents
def test_a_state_is_arrays_and_json(build: Callable[[], Agent]) -> None:
    with zipfile.ZipFile(io.BytesIO(_play(build()).state())) as members:
        arrays = {name: np.load(io.BytesIO(members.read(name)), allow_pickle=False) for name in members.namelist()}
    head = json.loads(arrays.pop("__head__.npy").tobytes())
    assert head["version"] == VERSION
    assert {array.dtype.str for array in arrays.values()} <= {"<f8", "<i8"}


def test_objects_are_not_saved() -> None:
    with pytest.raises(ValueError, match="pickle"):
        pack({}, {"thing": np.array([object()], dtype=object)})


class _Trap:
    """What runs when it is unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (_Trap, "sprung", True)


def test_objects_are_not_loaded_even_from_a_whole_file() -> None:
    out = io.BytesIO()
    head = np.frombuffer(json.dumps({"version": VERSION}).encode(), dtype=np.uint8)
    np.savez(out, allow_pickle=True, __head__=head, trap=np.array([_Trap()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        unpack(out.getvalue() + hashlib.sha256(out.getvalue()).digest())
    assert not _Trap.sprung


# What is refused.


def _refused(agent: Agent, state: bytes, message: str) -> None:
    before = agent.state()
    with pytest.raises(StateError, match=message):
        agent.restore(state)
    assert agent.state() == before


def test_another_version_is_refused_and_both_are_named() -> None:
    agent = _play(AGENTS["LinUCB-Syndicated"]())
    head, arrays = unpack(agent.state())
    _refused(agent, pack({**head, "version": 7}, arrays), f"format version {VERSION}; got 7")


DIFFERENT: dict[str, tuple[Agent, str]] = {
    "seed": (Agent(LinUCB(dim=3), Syndicated(SPACE), seed=5), "the seed of a state must be 1; got 5"),
    "policy": (Agent(LinTS(dim=3), Syndicated(SPACE), seed=1), "the policy of a state must be .*LinUCB.*; got .*LinTS"),
    "dimension": (Agent(LinUCB(dim=2), Syndicated(SPACE), seed=1), "the policy of a state must be .*'dim': 3.*; got"),
    "argument": (Agent(LinUCB(dim=3, sigma=0.1), Syndicated(SPACE), seed=1), "the policy of a state must be"),
    "intercept": (Agent(LinUCB(dim=3, intercept=False), Syndicated(SPACE), seed=1), "the policy of a state must be"),
    "tuner": (Agent(LinUCB(dim=3), TwoLayer(SPACE), seed=1), "the tuner of a state must be .*; got .*TwoLayer"),
    "no tuner": (Agent(LinUCB(dim=3), Theory(), seed=1), "the tuner of a state must be .*; got .*Theory"),
    "horizon": (Agent(LinUCB(dim=3), Syndicated(SPACE, horizon=9), seed=1), "the tuner of a state must be"),
    "candidates": (Agent(LinUCB(dim=3), Syndicated(SPACE.only("lam")), seed=1), "the tuner of a state must be"),
    "a catalogue": (
        Agent(LinUCB(dim=3), Syndicated(SPACE), seed=1, catalogue=CATALOGUE),
        "the catalogue of a state must be None; got",
    ),
    "order of the axes": (
        Agent(LinUCB(dim=3), Syndicated(SPACE.only("lam", "alpha")), seed=1),
        "the tuner of a state must be",
    ),
}


@pytest.mark.parametrize(("other", "message"), DIFFERENT.values(), ids=DIFFERENT)
def test_the_state_of_another_kind_of_agent_is_refused_and_the_part_named(other: Agent, message: str) -> None:
    _refused(_play(AGENTS["LinUCB-Syndicated"]()), other.state(), message)


def _without(state: bytes, name: str) -> bytes:
    head, arrays = unpack(state)
    return pack(head, {key: array for key, array in arrays.items() if key != name})


@pytest.mark.parametrize("name", ["open", "tuner/logw", "policy0/model.G"])
def test_a_missing_array_is_refused(name: str) -> None:
    agent = _play(AGENTS["LinUCB-Syndicated"]())
    _refused(agent, _without(agent.state(), name), "other arrays")


@pytest.mark.parametrize(
    "content",
    [b"", b"no state at all", b"PK\x03\x04", pack({}, {}), pack({"spec": {}}, {})],
    ids=["empty", "text", "a zip's first bytes", "empty head", "empty spec"],
)
def test_something_else_is_refused(content: bytes) -> None:
    _refused(_play(AGENTS["LinUCB-Syndicated"]()), content, "state")


def test_a_state_cut_short_anywhere_is_refused() -> None:
    agent, other = _play(AGENTS["LinUCB-Syndicated"]()), AGENTS["LinUCB-Syndicated"]()
    state, before = agent.state(), other.state()
    for length in range(len(state)):
        with pytest.raises(StateError, match="whole file"):
            other.restore(state[:length])
    assert other.state() == before


def _flipped(state: bytes, place: int, bit: int) -> bytes:
    return state[:place] + bytes([state[place] ^ 1 << bit]) + state[place + 1 :]


def test_a_flipped_bit_anywhere_is_noticed_or_harmless() -> None:
    agent, other = _play(AGENTS["LinUCB-Syndicated"]()), AGENTS["LinUCB-Syndicated"]()
    state, before, own = agent.state(), other.state(), other.id
    for place in range(len(state)):
        try:
            other.restore(_flipped(state, place, place % 8))
        except StateError:
            assert other.id == own
        else:
            assert other.state() == state
            other.restore(before)
    assert other.state() == before


def test_a_flipped_bit_in_the_shape_of_a_long_array_is_noticed() -> None:
    """Long arrays are read in pieces: with a smaller shape, the end with its checksum would never be read."""
    state = pack({}, {"long": np.arange(20_480.0).reshape(2048, 10)})
    start = state.index(b"'shape': (2048, 10)")
    for place in range(start, start + len("'shape': (2048, 10)")):
        for bit in range(8):
            with pytest.raises(StateError, match="whole file"):
                unpack(_flipped(state, place, bit))


def test_numbers_of_numpy_are_fine_as_parameters() -> None:
    agent = Agent(LinUCB(dim=np.int64(3), sigma=np.float32(0.5)), Syndicated(SPACE, horizon=np.int64(100)))  # type: ignore[arg-type]
    restored = Agent(LinUCB(dim=3), Syndicated(SPACE, horizon=100))
    restored.restore(_play(agent).state())
    assert restored.state() == agent.state()
