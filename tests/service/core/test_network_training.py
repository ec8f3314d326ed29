"""Networks are trained beside the service: decisions wait for none, and what is learned is the same."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.core_service import Clock, Harness, PlayCore, refused, run

from syndicated import Agent, NeuralUCB, Theory
from syndicated._models.network import Network
from syndicated.policies import _neural_policy
from syndicated.policies._neural_policy import NeuralPolicy, Training
from syndicated.service.bandits.messages import Arm
from syndicated.streams import Stream

SPEC: dict[str, Any] = {"policy": {"name": "NeuralUCB"}, "tuner": {"name": "Theory"}}
EACH_REWARD = 40  # rewards, in which trainings are due


@pytest.fixture
def no_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every training takes longer than a moment."""
    monkeypatch.setattr(_neural_policy, "MOMENT_WORK", 0)


async def learn(harness: Harness, count: int) -> list[str]:
    replies = []
    for k in range(count):
        replies.append(await harness.decide())
        await harness.reward(replies[-1].decision_id, float(replies[-1].arm == "b") + 0.1 * (k % 3))
    return [reply.arm for reply in replies]


def policy_of(harness: Harness) -> NeuralPolicy:
    return harness.service.state.bandit("b").networks[0]


async def trained(harness: Harness) -> None:
    task = harness.service.decisions._training._task
    assert task is not None
    await task


def test_expectation_27_no_decision_trains_what_takes_longer_than_a_moment(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch, no_moments: None
) -> None:
    threads, train = list[str](), Network.train

    def note(network: Network, X: Any, y: Any) -> None:
        threads.append(threading.current_thread().name)
        train(network, X, y)

    monkeypatch.setattr(Network, "train", note)

    async def test(core: Harness) -> None:
        await core.create(**SPEC)
        await learn(core, EACH_REWARD)
        await core.decide()
        await trained(core)
        assert set(threads) == {"training"}
        assert not policy_of(core).is_behind

    play_core(test)


def test_others_are_answered_while_a_network_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        began, go, work = threading.Event(), threading.Event(), Training.run

        def wait(training: Training) -> None:
            began.set()
            go.wait()
            work(training)

        core = Harness(tmp_path / "journal", Clock())
        await core.create(**SPEC)
        await learn(core, EACH_REWARD)
        monkeypatch.setattr(_neural_policy, "MOMENT_WORK", 0)
        monkeypatch.setattr(Training, "run", wait)
        await learn(core, EACH_REWARD)
        assert core.service.decisions._training._task is not None
        await asyncio.to_thread(began.wait)
        before = [network.count for network in policy_of(core)._asked_networks()]
        await learn(core, 5)  # with the network of before
        assert [network.count for network in policy_of(core)._asked_networks()] == before
        go.set()
        await trained(core)
        assert [network.count for network in policy_of(core)._asked_networks()] > before
        assert core.contents() == core.replayed()
        await core.service.stop()

    run(test())


def test_small_networks_decide_as_in_the_library(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create(**SPEC)
        arms, agent = await learn(core, EACH_REWARD), Agent(NeuralUCB(dim=3), Theory())
        table = np.eye(3)
        for k, arm in enumerate(arms):
            decision = agent.decide(table)
            assert "abc"[decision.place] == arm
            agent.learn(decision, float(arm == "b") + 0.1 * (k % 3))

    play_core(test)


@pytest.mark.parametrize("change", ["restored", "rescaled"])
def test_a_training_is_dropped_if_the_policy_has_other_rows_by_its_end(change: str) -> None:
    policy, rng = NeuralUCB(dim=2), np.random.default_rng(5)
    policy.trains_apart = True
    point, arms = policy.theory(0, {"alpha": 0.1, "steps": 200.0}), rng.normal(size=(3, 2))
    for _ in range(60):
        policy.learn(rng.normal(size=2), float(rng.normal()), point)
    policy.scores(arms, [point], Stream(0, 0))
    assert policy.is_behind
    training = policy.training()
    training.run()
    if change == "restored":
        policy.restore(policy.state())
    else:
        policy._rescale(np.array([1.0, 2.0, 1.0]))
    training.hand_over()
    assert not policy._networks
    policy.scores(arms, [point], Stream(0, 0))
    assert policy.is_behind


def test_a_trained_network_is_the_librarys_to_the_bit() -> None:
    rng, arms = np.random.default_rng(5), np.eye(2)
    policies = [NeuralUCB(dim=2), NeuralUCB(dim=2)]
    policies[0].trains_apart = True
    point = policies[0].theory(0, {"alpha": 0.1, "steps": 200.0})
    for _ in range(60):
        x, reward = rng.normal(size=2), float(rng.normal())
        for policy in policies:
            policy.learn(x, reward, point)
    policies[0].scores(arms, [point], Stream(0, 0))
    training = policies[0].training()
    training.run()
    training.hand_over()
    scores = [policy.scores(arms, [point], Stream(0, 0)) for policy in policies]
    np.testing.assert_array_equal(scores[0], scores[1])


def test_a_columns_first_unit_leaves_networks_as_they_are() -> None:
    policy, rng = NeuralUCB(dim=2), np.random.default_rng(5)
    policy.prepare([{"boldness": 0.1}])
    point = policy.theory(0, {"boldness": 0.1})
    for _ in range(20):
        policy.learn(np.array([1.0, 0.0]), float(rng.normal()), point)
    policy.scores(np.eye(2), [point], Stream(0, 0))
    (network,) = policy._networks.values()
    policy.learn(np.array([1.0, 5.0]), 1.0, point)
    assert list(policy._networks.values()) == [network]
    scores = policy.scores(np.eye(2), [point], Stream(0, 0))
    policy.restore(policy.state())
    np.testing.assert_array_equal(scores, policy.scores(np.eye(2), [point], Stream(0, 0)))


def test_expectation_27_decisions_by_too_many_weights_are_refused(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create(
            **SPEC | {"space": {"width": [32.0], "lam": [0.1, 1.0, 10.0]}, "tuner": {"name": "Consensus"}}
        )
        with refused(422, "invalid", "weights of all candidates' networks must be at most 10000000"):
            await core.decide(arms=[Arm(str(k), x=[0.0, 1.0, 0.0]) for k in range(9000)])

    play_core(test)
