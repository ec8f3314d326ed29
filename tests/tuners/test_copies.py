"""Tuners that have copies of the policy frozen, copied and replaced: StochasticCorral and BanditOverBandit."""

import math

import numpy as np
import pytest

from syndicated import Agent, BanditOverBandit, Corral, InputError, LinTS, LinUCB, Space, StochasticCorral
from syndicated.environments import Linear
from syndicated.streams import ARMS, TUNER, Stream
from syndicated.types import Choice

SPACE = Space(alpha=[0.1, 1.0, 2.0])
WORLD = Linear(dim=3, arms=6)


def _play(agent: Agent, rounds: int) -> list[Choice]:
    choices = []
    for round_ in WORLD.rounds(seed=1, horizon=rounds):
        decision = agent.decide(round_.arms)
        agent.learn(decision, round_.rewards[decision.arm])
        assert decision.choice is not None
        choices.append(decision.choice)
    return choices


def test_the_master_of_stochastic_corral_is_corrals() -> None:
    smooth, plain = StochasticCorral(SPACE, horizon=500), Corral(SPACE, horizon=500)
    for t in range(500):
        choice = smooth.choose(Stream(1, TUNER, t))
        i, reward = choice.index[0] % 3, 0.9 - 0.3 * (choice.index[0] % 3)
        assert choice.probability[0] == pytest.approx(plain.probabilities()[0][i] / 2, rel=1e-12)
        smooth.learn(choice, reward)
        plain.learn(Choice({}, (i,), (2 * choice.probability[0],), slot=i), reward)
    assert smooth.probabilities()[0] == pytest.approx(np.tile(plain.probabilities()[0] / 2, 2).tolist())


def test_a_frozen_copy_does_not_learn_and_is_what_its_copy_once_was() -> None:
    agent = Agent(LinUCB(dim=3), StochasticCorral(SPACE, horizon=300), seed=2)
    states = [[policy.state()["model.b"].tolist()] for policy in agent.player.policies[:3]]
    for choice in _play(agent, 300):
        assert agent.tuner.frozen(choice.slot) == (choice.slot >= 3)
    agent = Agent(LinUCB(dim=3), StochasticCorral(SPACE, horizon=300), seed=2)
    for round_ in WORLD.rounds(seed=1, horizon=300):
        decision = agent.decide(round_.arms)
        frozen = [policy.state()["model.b"].tolist() for policy in agent.player.policies[3:]]
        agent.learn(decision, round_.rewards[decision.arm])
        for i in range(3):
            states[i].append(agent.player.policies[i].state()["model.b"].tolist())
            now = agent.player.policies[3 + i].state()["model.b"].tolist()
            assert now in states[i]
            assert now == frozen[i] or decision.choice.slot == i  # type: ignore[union-attr]
    assert any(len(set(map(str, each))) > 10 for each in states)


def test_snapshots_are_uniform_over_the_past() -> None:
    kept = []
    for seed in range(400):
        tuner, last = StochasticCorral(Space(alpha=[1.0])), 0
        for s in range(1, 10):
            tuner.learn(Choice({"alpha": 1.0}, (0,), (0.5,)), float(Stream(seed, ARMS, s).uniforms(1)[0]))
            last = s if tuner.replaced() == {1: 0} else last
        kept.append(last)
    counts = np.bincount(kept, minlength=10) / 400
    assert (abs(counts - 0.1) < 4.5 * math.sqrt(0.1 * 0.9 / 400)).all()


def test_a_block_has_one_choice_and_the_next_begins_with_a_new_policy() -> None:
    agent = Agent(LinUCB(dim=3), BanditOverBandit(SPACE, horizon=100, block=10), seed=1)
    for round_ in WORLD.rounds(seed=1, horizon=95):
        counted = int(agent.policy.state()["model.count"])
        assert counted == agent.round % 10
        before, decision = agent.choice, agent.decide(round_.arms)
        assert decision.choice == before or counted == 0
        agent.learn(decision, round_.rewards[decision.arm])


def test_blocks_are_the_rounds_of_exp3_with_their_mean_rewards() -> None:
    agent = Agent(LinUCB(dim=3), BanditOverBandit(SPACE, horizon=100, block=10), seed=1)
    weights, beta = [1.0] * 3, math.sqrt(3 * math.log(3) / ((math.e - 1) * 10))
    sums, p = 0.0, 0.0
    for t, round_ in enumerate(WORLD.rounds(seed=1, horizon=50)):
        decision = agent.decide(round_.arms)
        assert decision.choice is not None
        i = decision.choice.index[0]
        if t % 10 == 0:
            sums, p = 0.0, beta / 3 + (1 - beta) * weights[i] / sum(weights)
        assert decision.choice.probability == pytest.approx((p,), rel=1e-12)
        sums += round_.rewards[decision.arm]
        agent.learn(decision, round_.rewards[decision.arm])
        if t % 10 == 9:
            weights[i] *= math.exp(beta / 3 * sums / 10 / p)


def test_the_policys_own_draws_change_within_a_block() -> None:
    agent = Agent(LinTS(dim=3), BanditOverBandit(Space(alpha=[1.0]), block=50), seed=1)
    X = next(iter(WORLD.rounds(seed=1, horizon=1))).arms
    assert len({agent.decide(X).arm for _ in range(50)}) > 1


def test_a_block_without_rounds_is_refused() -> None:
    with pytest.raises(InputError, match="block must be"):
        BanditOverBandit(SPACE, block=0)
