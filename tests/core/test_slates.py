"""Slates: the k best arms of a round, each with a reward and a propensity of its own."""

import numpy as np
import pytest

from syndicated import Agent, Consensus, Fixed, LinTS, LinUCB, Space, Syndicated
from syndicated.errors import InputError
from syndicated.policies import POLICIES
from syndicated.types import Array, Decision

SPACE = Space(alpha=[0.1, 1.0, 10.0])


def _table(seed: int, arms: int = 6) -> Array:
    return np.random.default_rng(seed).normal(size=(arms, 3))


def _played(agent: Agent, rounds: int) -> Agent:
    for t in range(rounds):
        decision = agent.decide(_table(t))
        agent.learn(decision, float(decision.x[0] > 0.0))
    return agent


@pytest.mark.parametrize("name", POLICIES)
def test_the_first_of_a_slate_is_what_is_decided_without_one(name: str) -> None:
    agent = _played(Agent(POLICIES[name](dim=3)), 30)
    twin = Agent(POLICIES[name](dim=3), id=agent.id)
    twin.restore(agent.state())
    alone, slate = agent.decide(_table(99)), twin.decide(_table(99), k=3)
    assert alone.arm == slate[0].arm
    assert len({decision.arm for decision in slate}) == 3
    assert twin.open == 3


def test_a_slate_has_the_largest_scores_in_order() -> None:
    agent = _played(Agent(LinUCB(dim=3), Fixed(Space(alpha=[0.5], lam=[1.0]))), 40)
    X = _table(99)
    scores = agent.policy.scores(X, [agent.policy.theory(0, {"alpha": 0.5, "lam": 1.0})], agent.player.draws(0))[0]
    assert [decision.arm for decision in agent.decide(X, k=4)] == np.argsort(-scores)[:4].tolist()


def test_the_propensity_of_an_arm_is_that_of_the_candidates_that_have_it_on_their_slate() -> None:
    agent = _played(Agent(LinTS(dim=3), Consensus(SPACE)), 40)
    (chances,) = agent.tuner.probabilities()
    X, round_ = _table(99), agent.round
    points = [agent.policy.theory(round_, point) for point in agent.tuner.points]
    scores = agent.policy.scores(X, points, agent.player._stream(round_))
    slates = [set(np.argsort(-row)[:2].tolist()) for row in scores]
    assert len({frozenset(slate) for slate in slates}) > 1
    for decision in agent.decide(X, k=2):
        expected = sum(p for p, slate in zip(chances, slates, strict=True) if decision.arm in slate)
        assert decision.propensity == pytest.approx(expected)
        assert decision.choice is not None
        assert decision.choice.agreeing == tuple(j for j, slate in enumerate(slates) if decision.arm in slate)


def test_in_the_warm_up_all_slates_are_equally_likely() -> None:
    slates = [Agent(LinUCB(dim=3), Syndicated(SPACE, warmup=50), seed=s).decide(_table(1), k=2) for s in range(300)]
    assert {decision.propensity for slate in slates for decision in slate} == {2 / 6}
    counts = np.bincount([decision.arm for slate in slates for decision in slate], minlength=6)
    assert np.all(np.abs(counts - 100) < 4 * np.sqrt(100 * (1 - 2 / 6)))


def test_a_slate_of_all_arms_is_certain() -> None:
    agent = _played(Agent(LinUCB(dim=3), Consensus(SPACE)), 20)
    assert {decision.propensity for decision in agent.decide(_table(99), k=6)} == {1.0}


def test_every_decision_of_a_slate_gets_its_own_reward_whenever_it_comes() -> None:
    agent, twin = Agent(id="a"), Agent(id="a")
    slate: list[Decision] = agent.decide({"hour": 9}, arms=["tea", "coffee", "milk"], k=2)
    kept = [decision.to_json() for decision in slate]
    twin.restore(agent.state())
    for text in reversed(kept):
        twin.learn(twin.decision_from_json(text), reward=1.0)
    for decision in reversed(slate):
        agent.learn(decision, reward=1.0)
    assert (agent.round, agent.open) == (2, 0)
    assert agent.state() == twin.state()
    with pytest.raises(InputError, match="a decision gets one reward"):
        agent.learn(slate[0], reward=1.0)


@pytest.mark.parametrize("k", [0, 7, -1, 1.5, True])
def test_a_slate_that_cannot_be_is_refused_and_changes_nothing(k: int) -> None:
    agent = Agent(LinUCB(dim=3))
    with pytest.raises(InputError, match="k must be"):
        agent.decide(_table(1), k=k)
    assert (agent.round, agent.open) == (0, 0)


def test_a_catalogue_is_meant_as_a_whole_where_no_arms_are_given() -> None:
    X = _table(5, arms=50)
    agents = [Agent(LinUCB(dim=3), catalogue=X, id="a") for _ in range(2)]
    for _ in range(20):
        all_, every = agents[0].decide(), agents[1].decide(np.arange(50))
        assert (all_.arm, all_.x.tolist()) == (every.arm, every.x.tolist())
        agents[0].learn(all_, float(all_.x[0]))
        agents[1].learn(every, float(every.x[0]))
    assert [one.arm for one in agents[0].decide(k=5)] == [one.arm for one in agents[1].decide(np.arange(50), k=5)]
    assert agents[0].state() == agents[1].state()
