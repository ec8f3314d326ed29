"""A target that plays the log's arm: its choice is one that plays it, drawn as the tuner would have drawn it."""

from collections.abc import Callable

import numpy as np
import pytest

from syndicated import OP, SGDTS, UCBGLM, Agent, Consensus, Corral, LinTS, LinUCB, Space, Syndicated, TwoLayer
from syndicated._player import Proposal
from syndicated.evaluate._walk import accept
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.types import Array

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])
WIDE = Space(alpha=np.linspace(0, 3, 9), lam=np.linspace(0.1, 2, 8))
AGENTS: dict[str, Callable[[], Agent]] = {
    "Syndicated": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE, horizon=50), seed=2),
    "Consensus": lambda: Agent(LinUCB(dim=3), Consensus(SPACE), seed=2),
    "Consensus, axes apart": lambda: Agent(LinTS(dim=3), Consensus(WIDE), seed=2),
    "Corral": lambda: Agent(LinTS(dim=3), Corral(SPACE, horizon=50), seed=2),
    "OP": lambda: Agent(UCBGLM(dim=3), OP(SPACE), seed=2),
    "epochs": lambda: Agent(SGDTS(dim=3, tau=10), Syndicated(Space(eta0=[0.1, 1.0], alpha1=[0.1, 5.0])), seed=2),
}


def _arms(t: int) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(24).reshape(8, 3) - 1


def _play(agent: Agent, rounds: int) -> None:
    for t in range(agent.round, agent.round + rounds):
        agent.learn(agent.decide(_arms(t)), float(Stream(1, NOISE, t).uniforms(1)[0]))


def _explained(agent: Agent, X: Array) -> Proposal:
    return agent.player.propose(X, agent.round, agent.choice, explain=True)


@pytest.mark.parametrize("name", AGENTS)
def test_an_accepted_arm_is_played_with_a_choice_that_plays_it(name: str) -> None:
    agent = AGENTS[name]()
    _play(agent, 30)
    points, tables = [dict(point) for point in agent.tuner.points], (_arms(t) for t in range(100, 200))
    X = next(X for X in tables if len(set(_explained(agent, X).played)) > 1)
    proposal, arms = _explained(agent, X), agent.player.arms_of_points(X, agent.round)
    for arm in proposal.chances.nonzero()[0].tolist():
        decision = accept(agent.player, proposal, X, arm)
        assert (decision.arm, decision.round, decision.x.tolist()) == (arm, 30, X[arm].tolist())
        assert decision.choice is not None
        assert arms[points.index(dict(decision.choice.params))] == arm
        assert arm != proposal.decision.arm or decision is proposal.decision
    agent.player.learn(decision, 1.0)


def test_the_choice_has_the_distribution_of_those_that_play_the_arm() -> None:
    agent = Agent(LinUCB(dim=3), TwoLayer(Space(alpha=[0.0, 0.01, 0.02, 3.0]), horizon=20), seed=2)
    _play(agent, 40)
    X = _arms(4)
    arms, p = agent.player.arms_of_points(X, 40), agent.tuner.probabilities()[0]
    arm = int(np.bincount(arms).argmax())
    agreeing = arms == arm
    assert 1 < agreeing.sum() < 4
    counts = np.zeros(4)
    for seed in range(1000):
        agent.player.seed = seed
        choice = accept(agent.player, _explained(agent, X), X, arm).choice
        assert choice is not None
        counts[choice.index[0]] += 1
    given_the_arm = p * agreeing / p[agreeing].sum()
    assert (np.abs(counts / 1000 - given_the_arm) <= 4 * np.sqrt(given_the_arm * (1 - given_the_arm) / 1000)).all()


def test_in_the_warm_up_any_arm_is_accepted_without_a_choice() -> None:
    agent = Agent(LinUCB(dim=3), OP(SPACE, warmup=5))
    decision = accept(agent.player, _explained(agent, _arms(0)), _arms(0), 3)
    assert (decision.arm, decision.propensity, decision.choice) == (3, 1 / 8, None)
    assert decision.x.tolist() == _arms(0)[3].tolist()
