"""Bandits with features of kind ids, dense tables, become bandits with named arms."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from support.core_service import Harness, PlayCore

from syndicated import Agent, InputError
from syndicated.service.core import relearning

NAMED: dict[str, Any] = {"features": {"kind": "fields", "context": 2}, "policy": {"name": "ArmUCB"}}
ALL_ARMS = ["a", "b", "c"]


async def learn_ids(harness: Harness, rounds: int, **features: Any) -> list[tuple[list[float], str, float]]:
    """A bandit of kind ids, and what it has learned."""
    await harness.create(features={"kind": "ids", "context": 2, **(features or {"arms": ALL_ARMS})})
    rng, learned = np.random.default_rng(0), []
    for t in range(rounds):
        context, reward = rng.normal(size=2).tolist(), float(rng.integers(2))
        reply = await harness.decide(context=context, arms=list(ALL_ARMS), deferred=t % 5 == 0)
        await harness.reward(reply.decision_id, reward)
        if t % 10 == 0:
            await harness.service.decisions.activate("b", reply.decision_id)
        if t % 5 or t % 10 == 0:
            learned.append((context, reply.arm, reward))
    return learned


@pytest.mark.parametrize("features", [{"arms": ALL_ARMS}, {"dim": 8}])
def test_the_new_model_has_learned_the_rewards_of_the_old_one(play_core: PlayCore, features: dict[str, Any]) -> None:
    async def test(harness: Harness) -> None:
        learned = await learn_ids(harness, 30, **features)
        old = await harness.decide(context=[0.0, 0.0], arms=["a"])
        after = await harness.service.admin.update("", "b", NAMED)
        agent = Agent.for_arms(2, policy="ArmUCB", id="twin")
        for context, arm, reward in learned:
            agent.learn(agent.decide(context, [arm]), reward)
        bandit = harness.service.state.bandit("b")
        assert (after.known_arms, after.rewards, after.version > after.epoch) == (len(agent.arms), 0, True)
        mine, theirs = bandit.agent.policy.state(), agent.policy.state()
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
        assert await harness.reward(old.decision_id, 1.0) == "counted"
        await harness.restart()
        assert (await harness.decide(context=[0.5, 0.5], arms=["a", "d"])).arm in ("a", "d")

    play_core(test)


def test_expectation_27_others_decide_while_the_log_is_learned_again_off_the_loop(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relearning, "PAGE_EVENTS", 10)
    learn, threads, go = relearning.Relearning.learn, list[str](), threading.Event()

    def wait(self: relearning.Relearning, page: relearning.Page) -> None:
        threads.append(threading.current_thread().name)
        go.wait()
        learn(self, page)

    monkeypatch.setattr(relearning.Relearning, "learn", wait)

    async def test(harness: Harness) -> None:
        learned = await learn_ids(harness, 20)
        change = asyncio.ensure_future(harness.service.admin.update("", "b", NAMED))
        while not threads:
            await asyncio.sleep(0)
        reply = await harness.decide(context=[0.0, 0.0], arms=list(ALL_ARMS))
        await harness.reward(reply.decision_id, 1.0)
        await harness.service.admin.update("", "b", {"floor": 0.1})
        assert not change.done()
        go.set()
        assert (await change).known_arms == len({arm for _, arm, _ in learned} | {reply.arm})
        assert "MainThread" not in threads
        assert harness.service.state.bandit("b").spec.floor == 0.1  # what was changed meanwhile stays
        assert harness.service.state.bandit("b").agent.policy.model.count == len(learned) + 1  # type: ignore[attr-defined]

    play_core(test)


def test_another_context_starts_with_an_empty_model(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await learn_ids(harness, 5)
        for features in ({"kind": "fields", "context": 3}, {"kind": "fields"}):
            after = await harness.service.admin.update("", "b", NAMED | {"features": features})
            assert (after.known_arms, after.version) == (0, after.epoch)

    play_core(test)


@pytest.mark.parametrize(("features", "learned"), [({"kind": "open", "dim": 2}, True), (NAMED["features"], False)])
def test_a_bandit_without_context_is_learned_from_where_none_is_missing(
    play_core: PlayCore, features: dict[str, Any], learned: bool
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(features={"kind": "ids", "arms": ALL_ARMS})
        await harness.reward((await harness.decide(arms=list(ALL_ARMS))).decision_id, 1.0)
        after = await harness.service.admin.update("", "b", NAMED | {"features": features})
        assert after.known_arms == learned

    play_core(test)


def test_rewards_that_the_new_model_cannot_have_are_refused_and_nothing_changes(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await learn_ids(harness, 5)
        reply = await harness.decide(context=[0.0, 0.0], arms=["a"])
        await harness.reward(reply.decision_id, 7.0)
        before = harness.service.state.seq
        with pytest.raises(InputError, match="a reward in the log"):
            await harness.service.admin.update("", "b", NAMED | {"policy": {"name": "ArmUCB", "link": "logistic"}})
        assert harness.service.state.seq == before
        assert (await harness.service.admin.update("", "b", NAMED)).known_arms > 0

    play_core(test)
