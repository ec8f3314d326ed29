"""Saved agents and decisions kept as JSON go on as if nothing had been saved."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import SGDTS, Agent, Consensus, Decision, Fixed, InputError, LinUCB, Space, StateError, Syndicated
from syndicated._statefile import pack, unpack
from syndicated.policies import POLICIES
from syndicated.spec import build, takes
from syndicated.streams import ARMS, Stream
from syndicated.tuners import TUNERS, Tuner

ALPHAS = Syndicated(Space(alpha=[0.1, 1.0]), horizon=50)


def _tuner(name: str, space: Space) -> Tuner:
    """The tuner on a space, of which one that is fixed gets the first point."""
    if name == "Fixed":
        space = Space(**{axis: [value] for axis, value in space.points[0].items()})
    return build(TUNERS, {"name": name, "space": space} if takes(TUNERS, name, "space") else {"name": name})


def arms(t: int) -> Any:
    return Stream(3, ARMS, t).uniforms(12).reshape(4, 3) - 0.5


def played(agent: Agent, rounds: int = 20) -> list[Decision]:
    """The decisions of some rounds, of which the last three have no reward yet."""
    decisions = [agent.decide(arms(t)) for t in range(rounds)]
    for decision in decisions[:-3]:
        agent.learn(decision, float(decision.arm % 2))
    return decisions


@pytest.mark.parametrize(("policy", "tuner"), [(p, "Consensus") for p in POLICIES] + [("LinUCB", t) for t in TUNERS])
def test_a_loaded_agent_goes_on_and_kept_decisions_teach_it_the_same(policy: str, tuner: str, tmp_path: Path) -> None:
    made = POLICIES[policy](dim=3)
    agent = Agent(made, _tuner(tuner, made.space), seed=5)
    opened = played(agent)[-3:]
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    for decision in opened:
        copy = twin.decision_from_json(decision.to_json())
        assert (copy.round, copy.arm, copy.propensity) == (decision.round, decision.arm, decision.propensity)
        twin.learn(copy, 1.0)
        agent.learn(decision, 1.0)
    assert twin.state() == agent.state()
    assert twin.decide(arms(99)).arm == agent.decide(arms(99)).arm


def test_decisions_of_the_warm_up_are_kept_too() -> None:
    agent = Agent(SGDTS(dim=3, horizon=1000), seed=1)
    decision = agent.decide(arms(0))
    assert decision.choice is None
    assert agent.decision_from_json(decision.to_json().encode()).choice is None


def test_a_decision_is_one_line_of_plain_json() -> None:
    decision = Agent(LinUCB(dim=3), _tuner("OP", Space(alpha=[0.1, 1.0]))).decide(arms(0))
    text = decision.to_json()
    assert "\n" not in text
    assert json.loads(text, parse_constant=pytest.fail)["choice"]["probability"] == [None]


def test_an_agent_with_a_catalogue_is_loaded_with_it(tmp_path: Path) -> None:
    catalogue = arms(0)
    agent = Agent(LinUCB(dim=3), catalogue=catalogue)
    agent.learn(agent.decide([1, 2]), 1.0)
    agent.save(tmp_path / "agent")
    assert Agent.load(str(tmp_path / "agent"), catalogue=catalogue).state() == agent.state()
    with pytest.raises(StateError, match="the catalogue of a state must be None; got"):
        Agent.load(tmp_path / "agent")


def test_saving_replaces_the_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "agent"
    file.write_bytes(b"older")
    agent = Agent(LinUCB(dim=3))
    agent.save(file)
    assert file.read_bytes() == agent.state()
    assert list(tmp_path.iterdir()) == [file]


def _with_spec(**parts: Any) -> bytes:
    head, arrays = unpack(Agent(LinUCB(dim=3)).state())
    return pack({**head, "spec": {**head["spec"], **parts}}, arrays)


@pytest.mark.parametrize(
    "parts",
    [
        {"policy": {"name": "Nobody"}},
        {"policy": None},
        {"policy": {"name": "LinUCB"}},
        {"tuner": {"name": "Consensus", "space": 3}},
        {"tuner": {}},
        {"seed": -1},
    ],
    ids=lambda parts: json.dumps(parts),
)
def test_a_file_that_names_no_agent_of_this_library_is_refused(parts: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "agent").write_bytes(_with_spec(**parts))
    with pytest.raises(StateError, match="a state must name a policy, a tuner and a seed"):
        Agent.load(tmp_path / "agent")


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent").write_bytes(b"nothing of ours")
    with pytest.raises(StateError, match="a state must be a whole file"):
        Agent.load(tmp_path / "agent")


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another agent's": (lambda d: {**d, "agent": "other"}, "must be of this agent"),
    "a later round": (lambda d: {**d, "round": 20}, "must be before the agent's, 20; got 20"),
    "a round below 0": (lambda d: {**d, "round": -1}, "the round of a decision must be a whole number"),
    "no whole arm": (lambda d: {**d, "arm": 0.5}, "the arm of a decision must be a whole number"),
    "too few features": (lambda d: {**d, "x": [1.0]}, "must have shape"),
    "features that are no list": (lambda d: {**d, "x": {"a": 1}}, "must be a table of numbers"),
    "an infinite feature": (lambda d: {**d, "x": [1.0, 2.0, float("inf")]}, "features must be finite"),
    "params that are no object": (lambda d: {**d, "params": [1]}, "params of a decision must be an object"),
    "an unknown param": (lambda d: {**d, "params": {"beta": 1.0}}, "has the hyper-parameters"),
    "a param that is missing": (
        lambda d: {**d, "params": {"alpha": 1.0}},
        "params of a decision must be lam, intercept, memory, alpha; got",
    ),
    "a propensity above 1": (lambda d: {**d, "propensity": 2.0}, "propensity of a decision must be between 0 and 1"),
    "no choice": (lambda d: {**d, "choice": None}, "a choice must be what a tuner drew"),
    "a choice of no candidate": (
        lambda d: {**d, "choice": {**d["choice"], "index": [7]}},
        "must be one that the tuner can make",
    ),
    "a probability of 0": (
        lambda d: {**d, "choice": {**d["choice"], "probability": [0.0]}},
        "must be one that the tuner can make",
    ),
    "a key too many": (lambda d: {**d, "more": 1}, "a decision must be what to_json gave"),
    "no object": (lambda d: [d], "a decision must be what to_json gave"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_decision_that_this_agent_cannot_have_made_is_refused(wrong: str) -> None:
    agent = Agent(LinUCB(dim=3), ALPHAS)
    decision = played(agent)[-1]
    before = agent.state()
    change, message = WRONG[wrong]
    with pytest.raises(InputError, match=message):
        agent.decision_from_json(json.dumps(change(json.loads(decision.to_json()))))
    assert agent.state() == before


@pytest.mark.parametrize("text", ["", "{", "null", b"\xff", None])
def test_what_is_no_json_object_is_no_decision(text: Any) -> None:
    with pytest.raises(InputError, match="a decision must be what to_json gave"):
        Agent(LinUCB(dim=3)).decision_from_json(text)


def test_a_choice_in_the_warm_up_is_refused() -> None:
    agent = Agent(SGDTS(dim=3, horizon=1000), seed=1)
    given = json.loads(agent.decide(arms(0)).to_json())
    with pytest.raises(InputError, match="a decision of the warm-up has no choice"):
        agent.decision_from_json(json.dumps({**given, "choice": {}}))


def test_an_agent_says_what_it_is() -> None:
    agent = Agent(LinUCB(dim=3, sigma=0.1), Fixed(Space(alpha=[0.5])), seed=7)
    agent.decide(np.eye(3))
    assert repr(agent) == "<Agent(LinUCB(dim=3, sigma=0.1), Fixed(space=Space(alpha=[0.5])), seed=7): round 1, 1 open>"
    assert "Consensus(space=Space(boldness=" in repr(Agent(LinUCB(dim=3), Consensus(LinUCB(dim=3).space)))
