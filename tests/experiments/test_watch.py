"""The trace of a tuner, what its candidates would have played, and the split of the regret."""

import numpy as np
import pytest

from syndicated import OP, SGDTS, Agent, Corral, Fixed, LinTS, LinUCB, Space, Syndicated, TwoLayer
from syndicated.environments import Linear, Logistic
from syndicated.experiments._run import simulate
from syndicated.experiments._watch import SAMPLING_STEP, Watch
from syndicated.streams import TUNER, Stream
from syndicated.types import Array, Choice

SPACE = Space(alpha=[0.0, 0.1, 10.0], lam=[0.1, 1.0])
WORLD = Linear(dim=3, arms=8)
KEPT = np.arange(1, 201)
AGENTS = {
    "LinUCB": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE), seed=3),
    "LinTS": lambda: Agent(LinTS(dim=3), TwoLayer(SPACE), seed=3),
    "copies": lambda: Agent(LinUCB(dim=3), Corral(SPACE), seed=3),
    "epochs": lambda: Agent(SGDTS(dim=3, tau=5), Syndicated(Space(eta0=[0.1, 5.0], alpha1=[0.0, 2.0])), seed=3),
}


def watched(agent: Agent, horizon: int = 200) -> tuple[Watch, Array]:
    watch = Watch(agent, horizon, KEPT[:horizon])
    world = Logistic(dim=3, arms=8) if isinstance(agent.policy, SGDTS) else WORLD
    return watch, simulate(world, agent, horizon, 3, watch)


@pytest.mark.parametrize("name", AGENTS)
def test_the_arm_recommended_for_the_choice_is_the_arm_played(name: str) -> None:
    agent = AGENTS[name]()
    world = Logistic(dim=3, arms=8) if name == "epochs" else WORLD
    for each in world.rounds(3, 150):
        before = agent.state()
        arms = agent.player.arms_of_points(each.arms, agent.round)
        assert agent.state() == before
        decision = agent.decide(each.arms)
        if decision.choice:
            points = [dict(point) for point in agent.tuner.points]
            assert arms[points.index(dict(decision.choice.params))] == decision.arm
        agent.learn(decision, float(each.rewards[decision.arm]))


def test_watching_changes_nothing() -> None:
    alone = simulate(WORLD, AGENTS["LinUCB"](), 200, 3)
    assert watched(AGENTS["LinUCB"]())[1].tolist() == alone.tolist()


def test_the_trace_holds_the_probabilities_before_each_kept_round() -> None:
    agent, twin = AGENTS["LinUCB"](), AGENTS["LinUCB"]()
    watch, _ = watched(agent)
    expected = []
    for each in WORLD.rounds(3, 200):
        expected.append([p.copy() for p in twin.tuner.probabilities()])
        decision = twin.decide(each.arms)
        twin.learn(decision, float(each.rewards[decision.arm]))
    for axis in range(2):
        assert np.array_equal(watch.trace[axis], [p[axis] for p in expected])


def test_one_candidate_has_no_tuning_to_pay_for() -> None:
    watch, regret = watched(Agent(LinUCB(dim=3), Fixed(Space(alpha=[0.5])), seed=3))
    warmup, tuning = watch.split(regret)
    assert not warmup.any()
    assert not tuning.any()


def test_the_warm_up_pays_for_its_rounds_only() -> None:
    watch, regret = watched(Agent(LinUCB(dim=3), Syndicated(SPACE, warmup=40), seed=3))
    warmup, tuning = watch.split(regret)
    assert warmup[-1] == pytest.approx(regret[:40].sum())
    assert not tuning[:40].any()


def test_tuning_is_what_was_lost_against_the_best_candidate() -> None:
    """With a candidate that only explores, most of the regret is the tuner's, and is counted in every fourth round."""
    agent, twin = (Agent(LinUCB(dim=3), TwoLayer(Space(alpha=[0.1, 100.0])), seed=3) for _ in range(2))
    watch, regret = watched(agent)
    losses = []
    for each in WORLD.rounds(3, 200):
        losses.append(each.means.max() - each.means[twin.player.arms_of_points(each.arms, twin.round)])
        decision = twin.decide(each.arms)
        twin.learn(decision, float(each.rewards[decision.arm]))
    sampled = np.array(losses)[::SAMPLING_STEP]
    best = sampled[:, sampled.sum(axis=0).argmin()]
    assert watch.split(regret)[1][-1] == pytest.approx(SAMPLING_STEP * (regret[::SAMPLING_STEP] - best).sum())
    assert watch.split(regret)[1][-1] > 0.5 * regret.sum()


def test_op_integrates_its_probabilities() -> None:
    tuner = OP(Space(alpha=[0.0, 1.0, 2.0]))
    for i, reward in ((0, 0.9), (0, 0.8), (1, 0.7), (2, 0.1), (2, 0.2)):
        tuner.learn(Choice({}, (i,)), reward)
    draws = [tuner.choose(Stream(0, TUNER, t)).index[0] for t in range(20_000)]
    frequencies = np.bincount(draws, minlength=3) / len(draws)
    assert tuner.probabilities()[0] == pytest.approx(frequencies, abs=0.015)
    assert tuner.probabilities()[0].sum() == pytest.approx(1.0)
