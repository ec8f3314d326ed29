"""Agents for arms that have ids: what they play, learn, forget and save."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arm_policy import RidgeOfEachArm

from syndicated import Agent, Choice, Consensus, Corral, Decision, InputError, LinUCB, Space, StateError
from syndicated._arm_book import ArmBook
from syndicated._missing import ColumnMeans
from syndicated._statefile import pack, unpack
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.types import NamedArms

KINDS: dict[str, Any] = {
    "a test's own": RidgeOfEachArm(dim=1),
    "per arm": "ArmUCB",
    "hybrid": {"name": "ArmUCB", "models": "hybrid"},
    "shared": {"name": "ArmUCB", "models": "shared"},
    "sampled": {"name": "ArmTS", "link": "linear"},
}
kinds = pytest.mark.parametrize("policy", KINDS.values(), ids=KINDS)
IDS: list[str | int] = ["a", "b", "c", 4]


def build(**more: Any) -> Agent:
    return Agent.for_arms(**{"policy": RidgeOfEachArm(dim=1), "seed": 3, "id": "agent", **more})


def context(t: int) -> Any:
    return (Stream(1, ARMS, t).uniforms(3) - 0.5).tolist()


def reward(t: int, decision: Decision) -> float:
    """The best arm depends on the context."""
    best = IDS[int(4 * Stream(1, ARMS, t).uniforms(1)[0])]
    return float(decision.arm == best) + 0.1 * float(Stream(1, NOISE, t).uniforms(1)[0])


def play(agent: Agent, rounds: int, arms: Any = IDS) -> list[Decision]:
    decisions = []
    for t in range(agent.round, agent.round + rounds):
        decisions.append(agent.decide(context(t), arms))
        agent.learn(decisions[-1], reward(t, decisions[-1]))
    return decisions


def test_a_decision_has_the_arm_s_id_and_its_place() -> None:
    decision = build().decide([0.1, 0.2], arms=("tea", "milk"))
    assert decision.arm in ("tea", "milk")
    assert ("tea", "milk")[decision.place] == decision.arm == decision.name
    assert decision.x.tolist() == [0.1, 0.2]


@pytest.mark.parametrize("name", ["a test's own", "per arm", "hybrid"])
def test_it_learns_which_arm_is_best_where(name: str) -> None:
    agent = build(policy=KINDS[name])
    play(agent, 400)
    assert np.mean([reward(t, decision) for t, decision in enumerate(play(agent, 100), 400)]) > 0.75


def test_every_arm_s_model_is_taught_by_its_own_rewards_alone() -> None:
    agent = build()
    decisions = play(agent, 60)
    policy, book = agent.policy, agent.player.books[0]
    assert isinstance(policy, RidgeOfEachArm)
    for arm in IDS:
        own = [np.concatenate(([1.0], d.x)) for d in decisions if d.arm == arm]
        assert np.allclose(policy.G[book.numbers[arm]], np.transpose(own) @ np.array(own))


def test_numbers_are_given_in_the_order_of_learning() -> None:
    agent = build()
    first, second = agent.decide([1.0], ["late"]), agent.decide([1.0], ["soon"])
    assert agent.player.books[0].numbers == {}
    agent.learn(second, 1.0)
    agent.learn(first, 1.0)
    assert agent.player.books[0].numbers == {"soon": 0, "late": 1}
    assert agent.arms == ["soon", "late"]


def test_a_retired_arm_is_forgotten_and_its_number_given_again() -> None:
    agent = build()
    for arm in ("a", "b"):
        agent.learn(agent.decide([1.0], [arm]), 1.0)
    agent.retire("a")
    assert agent.arms == ["b"]
    agent.learn(agent.decide([1.0], ["new"]), 1.0)
    assert agent.player.books[0].numbers == {"b": 1, "new": 0}
    agent.retire("never seen")


def test_a_late_reward_makes_a_retired_arm_a_new_one() -> None:
    agent = build()
    late = agent.decide([1.0], ["a"])
    agent.learn(agent.decide([2.0], ["a"]), 1.0)
    agent.retire("a")
    agent.learn(late, 1.0)
    policy = agent.policy
    assert isinstance(policy, RidgeOfEachArm)
    assert policy.G.tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


def test_an_agent_s_own_arms_are_meant_where_none_are_given() -> None:
    agent = build(arms=["tea", {"id": "milk", "price": 2.0}])
    assert {agent.decide([1.0]).arm for _ in range(2)} <= {"tea", "milk"}
    assert agent.decide([1.0], ["milk"]).x.tolist() == [2.0, 1.0, 0.0]
    agent.add([{"id": "milk", "price": 3.0}, "water"])
    assert agent.arms == ["tea", "milk", "water"]
    assert agent.decide([1.0], ["water"]).x.tolist() == [0.0, 1.0, 1.0]
    agent.add([{"id": "water", "price": 1.0}])
    assert agent.decide([1.0], ["water"]).x.tolist() == [1.0, 1.0, 0.0]
    agent.retire("tea")
    agent.retire("water")
    assert agent.decide([1.0]).x.tolist() == [3.0, 1.0, 0.0]
    agent.retire("milk")
    with pytest.raises(InputError, match="arms must be a list of ids and objects with ids; got None"):
        agent.decide([1.0])


@pytest.mark.parametrize("name", ["a test's own", "per arm", "hybrid", "sampled"])
@settings(max_examples=20)
@given(order=st.permutations(range(6)), seed=st.integers(0, 2**32))
def test_the_order_of_arms_does_not_matter(name: str, order: list[int], seed: int) -> None:
    ids = [f"arm {k}" for k in range(6)]
    one, other = build(seed=seed, policy=KINDS[name]), build(seed=seed, policy=KINDS[name])
    rng = np.random.default_rng(seed)
    for agent in (one, other):
        for k, id_ in enumerate(ids):
            agent.learn(agent.decide([float(k)], [id_]), k / 7)  # unlike each other, so that there are no ties
    for _ in range(5):
        now = rng.normal(size=1)
        assert one.decide(now, ids).arm == other.decide(now, [ids[k] for k in order]).arm


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_adding_and_retiring_leaves_every_arm_its_own_model(steps: list[tuple[int, bool]]) -> None:
    agent, plays = build(), dict.fromkeys(range(6), 0)
    for arm, retires in steps:
        if retires:
            agent.retire(arm)
            plays[arm] = 0
        else:
            agent.learn(agent.decide([1.0], [arm]), 1.0)
            plays[arm] += 1
    policy, numbers = agent.policy, agent.player.books[0].numbers
    assert isinstance(policy, RidgeOfEachArm)
    assert {arm: int(policy.G[number, 0, 0]) for arm, number in numbers.items()} == {
        k: n for k, n in plays.items() if n
    }
    assert sorted([*numbers.values(), *agent.player.books[0].free]) == list(range(len(policy.G)))


@kinds
@pytest.mark.parametrize("tuner", [None, Corral(Space(boldness=[0.5, 1.0]), horizon=50)], ids=["Consensus", "Corral"])
def test_a_state_in_the_middle_goes_on_to_the_bit(tuner: Any, policy: Any) -> None:
    def describe(t: int) -> dict[str, Any]:
        return {"age": t % 7, "country": "abcdefgh"[t % 8], "hour": None if t % 5 == 0 else t % 3}

    def go_on(agent: Agent, rounds: int) -> None:
        for t in range(agent.round, agent.round + rounds):
            arms = ["a", {"id": "b", "price": t % 4}, *(["c"] if t > 20 else [])]
            decision = agent.decide(describe(t), arms)
            if t % 4:
                agent.learn(decision, float(decision.place > 0))
            if t == 25:
                agent.retire("a")

    agent, twin = (build(tuner=tuner, policy=policy, arms=["own", {"id": "b", "price": 7}]) for _ in range(2))
    go_on(agent, 17)
    twin.restore(agent.state())
    assert twin.state() == agent.state()
    go_on(agent, 20)
    go_on(twin, 20)
    assert twin.state() == agent.state()
    assert twin.decide({"age": 1}).arm == agent.decide({"age": 1}).arm


@kinds
def test_open_decisions_are_kept_as_json_and_their_rewards_may_be_late(policy: Any, tmp_path: Path) -> None:
    agent = build(policy=policy)
    decisions = [agent.decide({"age": t % 5, "city": "abcdef"[t % 6]}, ["a", "b", "c"][: 1 + t % 3]) for t in range(12)]
    for decision in decisions[1::2]:
        agent.learn(decision, float(decision.place % 2))
    if isinstance(policy, RidgeOfEachArm):  # which is not registered
        twin = build(policy=policy)
        twin.restore(agent.state())
    else:
        agent.save(tmp_path / "agent")
        twin = Agent.load(tmp_path / "agent")
    for decision in reversed(decisions[::2]):
        copy = twin.decision_from_json(decision.to_json())
        assert (copy.arm, copy.place, copy.x.tolist()) == (decision.arm, decision.place, decision.x.tolist())
        agent.learn(decision, 1.0)
        twin.learn(copy, 1.0)
    assert twin.state() == agent.state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arm": 1.5}, "the arm of a decision must be a text or a whole number; got 1.5"),
        ({"place": -1}, "the place of a decision must be a whole number of at least 0; got -1"),
        ({"x": [1.0] * 4}, r"the arms must have shape \(K, 3\) with K >= 1; got shape \(1, 4\)"),
        ({"x": []}, "the arms must have shape"),
        ({"x": None}, "the arms must"),
        ({"x": [None, 1.0]}, "features must be finite"),
    ],
    ids=str,
)
def test_a_decision_in_json_that_the_agent_cannot_have_made_is_refused(change: dict[str, Any], message: str) -> None:
    agent = build()
    text = agent.decide(context(0), IDS).to_json()
    with pytest.raises(InputError, match=message):
        agent.decision_from_json(json.dumps({**json.loads(text), **change}))


def test_a_policy_of_shared_rows_takes_named_arms_too(tmp_path: Path) -> None:
    spec = {"kind": "ids", "arms": ["tea", "milk"], "context": 1}
    agent = Agent.for_arms(encoder=spec, policy="LinUCB", arms=["tea", "milk"], seed=2)
    for t in range(30):
        decision = agent.decide(np.array([t / 30]))
        agent.learn(decision, float(decision.arm == "milk"))
    assert agent.decide([0.5]).arm == "milk"
    agent.save(tmp_path / "agent")
    twin = Agent.load(tmp_path / "agent")
    assert twin.state() == agent.state()
    assert twin.decide([0.5]).arm == "milk"


def test_a_missing_number_is_the_mean_of_those_that_were_learned() -> None:
    agent = build()
    for age in (30, 40, 50):
        agent.learn(agent.decide({"age": age, "hour": 1}, ["a"]), 1.0)
    assert agent.decide({"age": None, "hour": 1}, ["a"]).x.tolist() == [40.0, 1.0, 1.0]
    assert agent.decide({"hour": 1}, ["a"]).x.tolist() == [40.0, 1.0, 1.0]
    assert agent.decide({"age": 10, "hour": float("nan")}, ["a"]).x.tolist() == [10.0, 1.0, 0.0, 1.0]


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "text in a vector": ([1.0, "x"], ["a"], r"context\[1\] must be a number; got 'x'"),
    "infinity": ([1.0, float("inf")], ["a"], r"context\[1\] must be finite and at most 1e\+50 in size; got inf"),
    "another size": ([1.0], ["a"], r"context must be a list of 2 numbers; got \[1.0\]"),
    "an object": ({"age": 1}, ["a"], "context must be a list of 2 numbers; got {'age': 1}"),
    "no arms": ([1.0, 2.0], [], "arms must be at least one; got none"),
    "arms left out": ([1.0, 2.0], None, "arms must be a list of ids and objects with ids; got None"),
    "arms that are text": ([1.0, 2.0], "abc", "arms must be a list of ids and objects with ids; got 'abc'"),
    "the same arm twice": (
        [1.0, 2.0],
        ["a", "b", "a"],
        r"arms\[2\].id must differ from those before it; got 'a' twice",
    ),
    "an object twice": ([1.0, 2.0], ["a", {"id": "a"}], r"arms\[1\].id must differ from those before it"),
    "a truth value": ([1.0, 2.0], ["a", True], r"arms\[1\] must be a text or a whole number; got True"),
    "a number": ([1.0, 2.0], [0.5], r"arms\[0\] must be an id, or an object with one; got 0.5"),
    "no id": ([1.0, 2.0], ["a", {"price": 1}], r"arms\[1\] must be an id, or an object with one; got {'price': 1}"),
    "an id of another type": ([1.0, 2.0], [{"id": None}], r"arms\[0\].id must be a text or a whole number; got None"),
    "a feature": ([1.0, 2.0], ["a", {"id": "b", "new": 1, "price": "x"}], r"arms\[1\].price must be a number; got 'x'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_its_path_and_changes_nothing(case: str) -> None:
    given, arms, message = REFUSED[case]
    agent = build()
    agent.learn(agent.decide([1.0, 2.0], ["a", {"id": "b", "price": 2}]), 1.0)
    before = agent.state()
    with pytest.raises(InputError, match=message):
        agent.decide(given, arms)
    assert agent.state() == before


def test_rows_and_named_arms_do_not_mix() -> None:
    rows = Agent(LinUCB(dim=2))
    assert rows.decide(arms=np.eye(2)).arm in (0, 1)
    for refused in (lambda: rows.decide([1.0], ["a"]), lambda: rows.retire("a"), lambda: rows.add(["a"])):
        with pytest.raises(InputError, match=r"this (one|agent) takes rows"):
            refused()
    with pytest.raises(StateError, match="without named arms"):
        rows.restore(pack({**unpack(rows.state())[0], "reader": {}}, unpack(rows.state())[1]))
    assert rows.arms == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"policy": "LinUCB"}, "LinUCB needs rows that do not grow"),
        ({"policy": LinUCB(dim=3), "encoder": {"kind": "hashed", "dim": 4}}, "must have dim=4"),
        ({"context": ["a"], "encoder": {"kind": "hashed", "dim": 4}}, "are for no encoder of its own"),
        ({"policy": 3}, "policy must be a policy"),
        ({"policy": LinUCB(dim=3), "models": "hybrid"}, "models are said of a policy by name; got 'hybrid' and LinUCB"),
        ({"models": "both"}, "models must be one of per-arm, hybrid, shared; got 'both'"),
    ],
)
def test_an_agent_that_cannot_work_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Agent.for_arms(**more)


def _changed(agent: Agent, key: str, change: Any) -> bytes:
    head, arrays = unpack(agent.state())
    return pack({**head, key: change(json.loads(json.dumps(head[key])))}, arrays)


WRONG_STATES: dict[str, tuple[str, Any, str]] = {
    "no reader": ("reader", lambda r: None, "must be with named arms"),
    "another spec": ("reader", lambda r: {**r, "spec": {"kind": "fields"}}, "the features of a state must be"),
    "unknown columns": (
        "reader",
        lambda r: {**r, "learned": {**r["learned"], "columns": [["context", 0]] * 3}},
        "the features of a state must be",
    ),
    "an arm with an unknown field": ("reader", lambda r: {**r, "arms": [["a", None, {"new": 1}]]}, "fit them"),
    "no books": ("named", lambda n: {**n, "books": []}, "a book of arms for each policy"),
    "a number twice": ("named", lambda n: {**n, "books": [{**n["books"][0], "free": [0]}]}, "different numbers"),
    "no ids": ("named", lambda n: {**n, "books": [{}]}, "different numbers"),
    "no means": ("named", lambda n: {**n, "means": {}}, "means and counts"),
    "NaN": ("named", lambda n: {**n, "means": {"means": [float("nan")], "counts": [1.0]}}, "means and counts"),
}


@pytest.mark.parametrize("case", WRONG_STATES)
def test_a_state_that_does_not_fit_is_refused(case: str) -> None:
    key, change, message = WRONG_STATES[case]
    agent = build()
    play(agent, 5)
    before = agent.state()
    with pytest.raises(StateError, match=message):
        agent.restore(_changed(agent, key, change))
    assert agent.state() == before


def test_the_book_and_the_means_come_back_from_their_dictionaries() -> None:
    book, means = ArmBook(), ColumnMeans()
    for arm in (3, "3", "x"):
        book.give(arm)
    book.retire("3")
    means.learn(np.array([1.0, 0.0]))
    means.learn(np.array([2.0, 4.0, 0.0]))
    assert ArmBook.from_dict(json.loads(json.dumps(book.as_dict()))).as_dict() == book.as_dict()
    assert ColumnMeans.from_dict(means.as_dict()).fill(np.full((1, 4), np.nan)).tolist() == [[1.5, 4.0, 0.0, 0.0]]


def test_the_book_finds_ids_that_come_again_as_they_are_now() -> None:
    book = ArmBook()
    ids: list[str | int] = ["a", "b", 3]
    found = book.find(tuple(ids))
    assert book.find(tuple(ids)) is found  # other objects that are equal
    assert book.find(("a", "b", "3")) is not found
    for change, numbers in ((book.give, [-1, 0, -1]), (book.retire, [-1, -1, -1]), (book.give, [-1, 0, -1])):
        change("b")
        assert book.find(tuple(ids)).tolist() == numbers


def test_arms_and_rows_must_be_as_many() -> None:
    with pytest.raises(InputError, match="the arms must have one row for each of 2 ids; got 1"):
        build().player.propose(NamedArms(("a", "b"), np.ones((1, 1))), 0, Choice({}))


def test_an_agent_says_how_many_arms_it_knows() -> None:
    agent = build(arms=["a", "b"])
    agent.learn(agent.decide([1.0], ["c"]), 1.0)
    assert repr(agent).endswith("seed=3): round 1, 0 open, 3 arms>")


def test_the_default_tuner_is_that_of_all_agents() -> None:
    assert isinstance(build().tuner, Consensus)


def test_many_contexts_of_which_one_is_refused_change_nothing() -> None:
    """Also not the fields that were met before it; and the agent goes on as one that was never asked."""
    agent, other = Agent.for_arms(), Agent.for_arms()
    for each in (agent, other):
        each.learn(each.decide({"x": 1.0}, arms=["p", {"id": "q", "price": 2.0}]), 1.0)
    before = agent.state()
    for bad in ({"x": object()}, {"y": 1.0, "x": "text"}):
        with pytest.raises(InputError):
            agent.decide_many([{"x": 2.0, "c": "de"}, {"z": 3.0}, bad], arms=["p", {"id": "q", "size": 1.0}])
        assert agent.state() == before
    arms = ["p", {"id": "q", "price": 1.0}]
    decided = [each.decide_many([{"x": 1.0, "w": 2.0}, {"x": 2.0}], arms=arms) for each in (agent, other)]
    assert [decision.arm for decision in decided[0]] == [decision.arm for decision in decided[1]]
    assert [decision.x.tolist() for decision in decided[0]] == [decision.x.tolist() for decision in decided[1]]
