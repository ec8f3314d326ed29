"""A catalogue that changes: arms that are added, get other features, or are retired."""

import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from syndicated import Agent, Consensus, Corral, DiagonalUCB, InputError, LinTS, LinUCB, Space, StateError, Syndicated
from syndicated.policies import Policy
from syndicated.streams import ARMS, POLICY, Stream
from syndicated.tuners import Tuner
from syndicated.types import Array

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])
FIRST = 2 * Stream(5, ARMS).uniforms(60).reshape(20, 3) - 1
MORE = 2 * Stream(6, ARMS).uniforms(30).reshape(10, 3) - 1
THETA = np.array([0.5, -1.0, 0.2])
MAKERS: dict[str, tuple[type[Policy], Tuner | None]] = {
    "nothing set": (LinUCB, None),
    "Consensus": (LinUCB, Consensus(Space(boldness=[0.5, 2.0]))),
    "Syndicated": (LinUCB, Syndicated(SPACE)),
    "copies of the policy": (LinUCB, Corral(SPACE)),
    "Thompson": (LinTS, None),
}


def play(agent: Agent, rounds: int, arms: Any = None) -> None:
    for _ in range(rounds):
        decision = agent.decide(arms)
        agent.learn(decision, float(decision.x @ THETA) + 0.1 * Stream(7, ARMS, agent.round).uniforms(1)[0])


def later_catalogue() -> Array:
    later = np.vstack([FIRST, MORE])
    later[[4, 21]] = -MORE[:2]
    return later


def changed(policy: type[Policy], tuner: Tuner | None) -> Agent:
    """An agent whose catalogue becomes `later_catalogue` while it learns."""
    agent = Agent(policy(dim=3), tuner, seed=3, catalogue=FIRST, id="a")
    play(agent, 8, arms=[0, 3, 7])
    for row in MORE[:4]:
        agent.add([row])
    play(agent, 8, arms=[0, 3, 7])
    agent.add(MORE[4:])
    agent.add({4: -MORE[0], 21: -MORE[1]})
    return agent


@pytest.mark.parametrize("name", MAKERS)
def test_it_is_the_agent_that_had_the_later_catalogue_from_the_start(name: str) -> None:
    policy, tuner = MAKERS[name]
    agent, twin = changed(policy, tuner), Agent(policy(dim=3), tuner, seed=3, catalogue=later_catalogue(), id="a")
    play(twin, 16, arms=[0, 3, 7])
    for _ in range(60):  # beyond several refreshes
        one, other = agent.decide(), twin.decide()
        assert (one.arm, one.x.tolist()) == (other.arm, other.x.tolist())
        agent.learn(one, float(one.x @ THETA))
        twin.learn(other, float(one.x @ THETA))
    points = [agent.policy.theory(76, point) for point in agent.tuner.points]
    mine, its = (each.policy.scores(np.arange(30), points[:1], Stream(1, POLICY)) for each in (agent, twin))
    assert_allclose(mine, its, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MAKERS)
def test_its_state_goes_on_to_the_bit_with_the_catalogue_of_now(name: str, tmp_path: Path) -> None:
    agent = changed(*MAKERS[name])
    agent.retire(2)
    agent.save(tmp_path / "agent")
    assert agent.catalogue is not None
    loaded = Agent.load(tmp_path / "agent", catalogue=agent.catalogue)
    assert (loaded.state(), loaded.arms) == (agent.state(), agent.arms)
    for each in (agent, loaded):
        each.add(MORE)
        play(each, 10)
    assert loaded.state() == agent.state()
    with pytest.raises(StateError, match="the catalogue of a state must be"):
        Agent.load(tmp_path / "agent", catalogue=FIRST)


def test_a_retired_arm_is_not_played_and_its_rewards_are_learned() -> None:
    agent = Agent(LinUCB(dim=3), seed=1, catalogue=FIRST)
    play(agent, 30)
    best = agent.decide()
    agent.retire(best.arm)
    assert agent.arms == [number for number in range(20) if number != best.arm]
    for decision in (agent.decide(), *agent.decide(k=19)):
        assert decision.arm != best.arm
        assert (decision.x == FIRST[decision.arm]).all()
    before = agent.state()
    agent.learn(best, 1.0)
    assert agent.state() != before
    with pytest.raises(InputError, match=f"the arms must not be retired; got {best.arm}, which is"):
        agent.decide([0, best.arm])
    agent.add({best.arm: best.x})
    assert agent.arms == list(range(20))


def test_a_retired_arm_is_as_if_the_others_were_given() -> None:
    one, other = (Agent(LinUCB(dim=3), Consensus(Space(boldness=[0.5, 2.0])), catalogue=FIRST) for _ in range(2))
    for number in (0, 5, 19):
        one.retire(number)
    left = [number for number in range(20) if number not in (0, 5, 19)]
    for _ in range(20):
        mine, its = one.decide(), other.decide(left)
        assert (mine.arm, mine.propensity) == (left[its.arm], its.propensity)
        one.learn(mine, float(mine.x @ THETA))
        other.learn(its, float(its.x @ THETA))
    assert one.policy.state().keys() == other.policy.state().keys()
    assert all((array == other.policy.state()[name]).all() for name, array in one.policy.state().items())


def test_arms_of_the_warm_up_are_not_retired_ones_either() -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE, warmup=30), catalogue=FIRST)
    for number in range(0, 20, 2):
        agent.retire(number)
    played = [*(agent.decide() for _ in range(20)), *agent.decide(k=5)]
    assert {decision.arm for decision in played} == set(range(1, 20, 2))
    assert all((decision.x == FIRST[decision.arm]).all() for decision in played)


def test_sparse_rows_are_added_however_long() -> None:
    rows: Any = [[[1, 9], [1.0, -0.5]], [[3, 9], [1.0, 1.0]]]
    longer: list[Any] = [[[1, 4, 7], [1.0, 2.0, 3.0]]]
    agent = Agent(DiagonalUCB(dim=20), catalogue=rows, id="a")
    agent.add(longer)
    agent.add({0: [[2.0], [1.0]]})
    whole: Any = [[[2, 0, 0], [1.0, 0.0, 0.0]], [[3, 9, 0], [1.0, 1.0, 0.0]], *longer]
    twin = Agent(DiagonalUCB(dim=20), catalogue=whole, id="a")
    for _ in range(10):
        mine, its = agent.decide(), twin.decide()
        assert (mine.arm, mine.x.tolist()) == (its.arm, its.x.tolist())
        agent.learn(mine, mine.arm / 2)
        twin.learn(its, its.arm / 2)
    assert agent.state() == twin.state()
    with pytest.raises(InputError, match="all sparse, or none of them"):
        agent.add(np.ones((1, 20)))


WRONG: dict[str, tuple[Any, str]] = {
    "too wide": ([[1.0, 2.0, 3.0, 4.0]], "the arms must have shape (K, 3) with K >= 1"),
    "nothing": ([], "the arms must have shape (K, 3) with K >= 1"),
    "no rows": (7, "the arms must have shape (K, 3) with K >= 1"),
    "not finite": ([[1.0, np.nan, 0.0]], "features must be finite"),
    "an unknown number": ({20: FIRST[0]}, "the arms must be numbers from 0 to 19, the catalogue's; got [20]"),
    "a name": ({"tea": FIRST[0]}, "the arms must be a list of numbers of the catalogue; got ['tea']"),
    "no numbers": ({}, "the arms must have shape (K, 3) with K >= 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_added_is_refused_and_changes_nothing(name: str) -> None:
    given, message = WRONG[name]
    agent = Agent(LinUCB(dim=3), catalogue=FIRST)
    play(agent, 5)
    before = agent.state()
    with pytest.raises(InputError, match=re.escape(message)):
        agent.add(given)
    assert agent.state() == before


@pytest.mark.parametrize("number", [20, -1, "tea", 1.5, None])
def test_only_numbers_of_the_catalogue_can_be_retired(number: Any) -> None:
    agent = Agent(LinUCB(dim=3), catalogue=FIRST)
    with pytest.raises(InputError, match="the arms must be"):
        agent.retire(number)
    assert len(agent.arms) == 20


def test_someone_must_be_left() -> None:
    agent = Agent(LinUCB(dim=3), catalogue=FIRST[:2])
    agent.retire(0)
    agent.retire(1)
    with pytest.raises(InputError, match="an arm must be left to decide; all 2 of the catalogue are retired"):
        agent.decide()


def test_the_catalogue_is_read_only_and_others_have_none() -> None:
    agent = Agent(LinUCB(dim=3), catalogue=FIRST)
    assert agent.catalogue is not None
    with pytest.raises(ValueError, match="read-only"):
        agent.catalogue[0, 0] = 7.0
    assert Agent(LinUCB(dim=3)).catalogue is None


def test_a_state_whose_retired_arms_are_none_of_the_catalogue_is_refused() -> None:
    larger, smaller = (Agent(LinUCB(dim=3), catalogue=FIRST, id="a") for _ in range(2))
    larger.retire(19)
    assert larger.player.numbered is not None
    larger.player.numbered._is_retired = np.arange(30) == 29
    with pytest.raises(StateError, match=re.escape("the retired arms of a state must be numbers below 20; got")):
        smaller.restore(larger.state())


def test_few_of_many_arms_score_as_among_all() -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE), catalogue=np.vstack([FIRST, MORE, FIRST - 1.0]))
    play(agent, 20)
    points = [agent.policy.theory(20, point) for point in agent.tuner.points]
    everyone, few = (agent.policy.scores(arms, points, Stream(1, POLICY)) for arms in (np.arange(50), np.array([7, 2])))
    assert (everyone[:, [7, 2]] == few).all()


def test_a_large_catalogue_is_copied_neither_for_a_trial_nor_twice_to_grow() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 8))
    tracemalloc.start()
    try:
        agent = Agent(LinUCB(dim=8), catalogue=X)
        agent.learn(agent.decide(), 1.0)
        for grow, most in ((False, 0.8), (True, 2.0)):  # in tables of features
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            if grow:
                agent.add(X[:1])
            else:
                agent.decide()
            assert tracemalloc.get_traced_memory()[1] - before < most * X.nbytes
    finally:
        tracemalloc.stop()
