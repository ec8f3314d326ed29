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
    Consensus,
    Corral,
    LinTS,
    LinUCB,
    Space,
    StateError,
    Syndicated,
    Theory,
    TwoLayer,
)
from syndicated._statefile import STATE_VERSION, pack, unpack
from syndicated.policies import Policy
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
    return 2 * draws.reshape(5, 3) - 1 if agent.player.catalogue is None else (20 * draws[:5]).astype(np.int64)


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
    assert head["version"] == STATE_VERSION
    assert {array.dtype.str for array in arrays.values()} <= {"<f8", "<i8"}


def test_objects_are_not_saved() -> None:
    with pytest.raises(ValueError, match="pickle"):
        pack({}, {"thing": np.array([object()], dtype=object)})


def _sealed(content: bytes) -> bytes:
    """Anything at all, with the SHA-256 that a state ends with."""
    return content + hashlib.sha256(content).digest()


class _Trap:
    """What runs when it is unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (_Trap, "sprung", True)


def test_objects_are_not_loaded_even_from_a_whole_file() -> None:
    out = io.BytesIO()
    head = np.frombuffer(json.dumps({"version": STATE_VERSION}).encode(), dtype=np.uint8)
    np.savez(out, allow_pickle=True, __head__=head, trap=np.array([_Trap()], dtype=object))
    with pytest.raises(StateError, match="Object arrays cannot be loaded"):
        unpack(_sealed(out.getvalue()))
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
    _refused(agent, pack({**head, "version": 7}, arrays), f"format version {STATE_VERSION}; got 7")


DIFFERENT: dict[str, tuple[Agent, str]] = {
    "seed": (Agent(LinUCB(dim=3), Syndicated(SPACE), seed=5), "the seed of a state must be 1; got 5"),
    "policy": (Agent(LinTS(dim=3), Syndicated(SPACE), seed=1), "the policy of a state must be .*LinUCB.*; got .*LinTS"),
    "dimension": (Agent(LinUCB(dim=2), Syndicated(SPACE), seed=1), "the policy of a state must be dim=3; got dim=2"),
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


@pytest.mark.parametrize("part", ["logistic", "linear"])
@pytest.mark.parametrize("name", ["plays", "sums"])
def test_a_damaged_state_of_models_of_arms_is_refused(part: str, name: str) -> None:
    agent = Agent()
    agent.learn(agent.decide({"hour": 1.0}, arms=["a", "b"]), 1.0)
    (head, arrays), whole = unpack(agent.state()), f"policy0/{part}.{name}"
    _refused(agent, _without(agent.state(), whole), "other arrays")
    for wrong in (np.full(1, np.nan), np.zeros(0), np.zeros((1, 2)), np.array(["a"]), np.array(1.0)):
        _refused(agent, pack(head, {**arrays, whole: wrong}), "of a state must")


@pytest.mark.parametrize("shape", [(), (0,), (12,), (2, 2), (15, 1)])
def test_sums_of_a_shape_that_no_version_had_are_refused(shape: tuple[int, ...]) -> None:
    agent = Agent(LinUCB(dim=2))
    agent.learn(agent.decide(np.eye(2)), 1.0)
    _refused(agent, _changed(agent, "policy0/model.sums", lambda _: np.zeros(shape)), "of a state must")


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


def _head(version: int = STATE_VERSION, **fields: Any) -> Any:
    return np.frombuffer(json.dumps({"version": version, **fields}).encode(), dtype=np.uint8)


def _saved(save: Callable[..., None], **arrays: Any) -> bytes:
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def _twice(name: str, content: bytes) -> bytes:
    """A zip whose directory names one member twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("__head__.npy", _saved(np.save, arr=_head()))
        archive.writestr(name, content)
        archive.filelist.append(archive.getinfo(name))
    return out.getvalue()


JUNK = {
    "junk": b"junk" * 100,
    "an array": _saved(np.save, arr=np.zeros(3)),
    "no head": _saved(np.savez, x=np.zeros(3)),
    "a head that is no JSON": _saved(np.savez, __head__=np.frombuffer(b"{", dtype=np.uint8)),
    "a head that is a list": _saved(np.savez, __head__=np.frombuffer(b"[1]", dtype=np.uint8)),
    "a deep head": _saved(np.savez, __head__=np.frombuffer(b"[" * 100_000, dtype=np.uint8)),
    "compressed": _saved(np.savez_compressed, __head__=_head(), x=np.zeros(1_000_000)),
    "a member twice": _twice("x.npy", _saved(np.save, arr=np.zeros(1000))),
}


@pytest.mark.parametrize("content", JUNK.values(), ids=JUNK)
def test_what_has_the_right_digest_and_is_no_state_is_refused(content: bytes) -> None:
    with pytest.raises(StateError, match="a state must be a zip of arrays, not compressed, and a JSON object"):
        unpack(_sealed(content))


def _changed(agent: Agent, name: str, change: Callable[[Any], Any]) -> bytes:
    head, arrays = unpack(agent.state())
    return pack(head, {**arrays, name: np.asarray(change(arrays[name]))})


def _holed(array: Any) -> Any:
    """With one number that is none."""
    holed = array.astype(float)
    holed.flat[0] = np.nan
    return holed


@agents
def test_arrays_of_another_shape_or_type_or_with_holes_are_refused(build: Callable[[], Agent]) -> None:
    agent = _play(build())
    for name, array in unpack(agent.state())[1].items():
        _refused(agent, _changed(agent, name, lambda a: a[None]), "of a state must")
        _refused(agent, _changed(agent, name, lambda a: a.astype(str)), "of a state must")
        _refused(agent, _changed(agent, name, lambda a: a.astype(">f4")), "of a state must")
        if array.size:
            _refused(agent, _changed(agent, name, _holed), "of a state must")
        if array.size and array.dtype == np.int64:
            _refused(agent, _changed(agent, name, lambda a: a - 2**40), "of a state must")
            _refused(agent, _changed(agent, name, lambda a: a + 2**62), "of a state must")
        if array.size > 1 and name != "open":
            _refused(agent, _changed(agent, name, lambda a: np.zeros((1,) * a.ndim)), "of a state must")


def test_the_observations_of_a_logistic_model_must_be_as_many_as_it_counts() -> None:
    agent = _play(AGENTS["UCBGLM-OP"]())
    _refused(agent, _changed(agent, "policy0/X", lambda X: X[:-1]), "policy0/y of a state must")
    _refused(agent, _changed(agent, "policy0/model.count", lambda n: n + 1000), "policy0/y of a state must")
    _refused(agent, _changed(agent, "policy0/X", lambda X: X[:, :-1]), "policy0/X of a state must")


@pytest.mark.parametrize("policy", [UCBGLM(dim=3), SGDTS(dim=3, tau=4)], ids=["UCBGLM", "SGDTS"])
def test_infinite_numbers_are_those_of_an_agent_that_has_learned_nothing(policy: Policy) -> None:
    tuner = Consensus(policy.space)
    agent, new = _play(Agent(policy, tuner)), Agent(policy, tuner)
    agent.restore(new.state())
    assert agent.state() == new.state()
    _refused(agent, _changed(agent, "tuner/seen", lambda seen: np.abs(seen)), "tuner/seen of a state must")


CHOICE = {"params": {"alpha": 1.0, "lam": 1.0}, "index": [1, 1], "probability": [0.5, 0.5], "slot": 0}
DRAWN = {**CHOICE, "odds": [], "allies": []}
HEADS: dict[str, dict[str, Any]] = {
    "no spec": {"spec": None},
    "a number for an id": {"id": 7},
    "a word for a round": {"round": "x"},
    "a fraction": {"round": 1.5},
    "a truth": {"round": True},
    "before the first round": {"round": -1},
    "too many rounds": {"round": 2**63},
    "fewer rounds than are open": {"round": 3},
    "no choice": {"choice": None},
    "a choice with a part too few": {"choice": CHOICE},
    "a word for a value": {"choice": {**DRAWN, "params": {"alpha": "1", "lam": 1.0}}},
    "no number": {"choice": {**DRAWN, "params": {"alpha": float("nan"), "lam": 1.0}}},
    "unknown names": {"choice": {**DRAWN, "params": {"eta0": 1.0}}},
    "too few names": {"choice": {**DRAWN, "params": {"alpha": 1.0}}},
    "a value out of range": {"choice": {**DRAWN, "params": {"alpha": -1.0, "lam": 1.0}}},
    "an index behind the last": {"choice": {**DRAWN, "index": [1, 3]}},
    "a negative index": {"choice": {**DRAWN, "index": [-1, 0]}},
    "an index too few": {"choice": {**DRAWN, "index": [1]}},
    "an index that is a word": {"choice": {**DRAWN, "index": ["1", 1]}},
    "no list": {"choice": {**DRAWN, "index": 1}},
    "no probability": {"choice": {**DRAWN, "probability": [0.5, 0.0]}},
    "a probability that is no number": {"choice": {**DRAWN, "probability": [0.5, float("nan")]}},
    "another slot": {"choice": {**DRAWN, "slot": 1}},
    "odds": {"choice": {**DRAWN, "odds": [1.0]}},
    "allies": {"choice": {**DRAWN, "allies": [0]}},
}


@pytest.mark.parametrize("fields", HEADS.values(), ids=HEADS)
def test_a_head_that_is_not_what_it_must_be_is_refused(fields: dict[str, Any]) -> None:
    agent = _play(AGENTS["LinUCB-Syndicated"]())
    head, arrays = unpack(agent.state())
    _refused(agent, pack({**head, **fields}, arrays), "of a state must|^a choice must|^(alpha|LinUCB)")
    agent.restore(pack({**head, "choice": DRAWN}, arrays))


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
