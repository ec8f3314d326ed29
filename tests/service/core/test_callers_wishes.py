"""What callers asked for: rewards by event id, rankings, numbers of arms, names that are free again."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.core_service import Harness, PlayCore, refused

from syndicated.policies import POLICIES
from syndicated.service.bandits.arm_numbers import arm_numbers
from syndicated.service.bandits.history import History
from syndicated.service.bandits.messages import ArmNumbers, RewardRequest
from syndicated.service.core import admin
from syndicated.spec import build


def test_expectation_31_a_reward_needs_only_the_event_id_of_its_decision(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create(aggregate="first")
        decided = await core.decide(event_id="visit")
        await core.reward((await core.decide()).decision_id, 1.0, event_id="of a reward")
        reward = core.service.decisions.reward
        for outcome in ("learned", "repeated"):
            reply = await reward("b", RewardRequest(event_id="visit", reward=1.0))
            assert (reply.outcome, reply.decision_id) == (outcome, decided.decision_id)
        with refused(409, "conflict"):
            await reward("b", RewardRequest(event_id="visit", reward=0.0))
        for unknown in ("other", "of a reward"):
            with refused(404, "unknown-decision", "no decision with this event_id"):
                await reward("b", RewardRequest(event_id=unknown, reward=1.0))
        with refused(422, "invalid", "must have the decision_id or the event_id of its decision"):
            await reward("b", RewardRequest(reward=1.0))

    play_core(test)


SPECS: list[dict[str, Any]] = [
    {},
    {"floor": 0.3},
    {"mode": "off"},
    {"mode": "off", "fallback": "uniform"},
    {"mode": "apprentice"},
    {"tuner": {"name": "Syndicated", "horizon": 100}, "space": {"alpha": [0.1, 1], "lam": [1, 2]}},  # warms up
]


@pytest.mark.parametrize("spec", SPECS)
def test_expectation_31_a_ranking_has_the_best_arms_with_their_probabilities(
    play_core: PlayCore, spec: dict[str, Any]
) -> None:
    async def test(core: Harness) -> None:
        await core.create(**spec)
        for t in range(6):
            played = {"played": "b"} if spec.get("mode") == "apprentice" else {}
            decided = await core.decide(k=3, event_id=str(t), **played)
            assert decided.ranking[0].arm == decided.arm
            assert {ranked.arm for ranked in decided.ranking} == {"a", "b", "c"}
            assert decided.ranking[0].propensity == pytest.approx(decided.propensity)
            assert sum(ranked.propensity for ranked in decided.ranking) == pytest.approx(1.0)
            scores = [ranked.score for ranked in decided.ranking[1:] if ranked.score is not None]
            assert scores == sorted(scores, reverse=True)
            again = await core.decide(k=3, event_id=str(t), **played)
            assert again.ranking == decided.ranking
            await core.reward(decided.decision_id, float(t % 2))
        assert len((await core.decide(k=2, **played)).ranking) == 2
        assert (await core.decide(**played)).ranking == []

    play_core(test)


def test_expectation_31_the_numbers_of_arms(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.service.bandits.history.MAX_ARM_TALLIES", 2)

    async def test(core: Harness) -> None:
        await core.create(mode="apprentice")
        for arm, rewards in (("a", [1.0]), ("b", [0.0, 1.0, 1.0]), ("c", [1.0])):
            for value in rewards:
                await core.reward((await core.decide(played=arm)).decision_id, value)
        await core.decide(played="b")
        b, a = await core.service.admin.arm_numbers("b")
        assert (a.arm, a.decisions, a.rewards, a.mean, a.error) == ("a", 1, 1, 1.0, None)
        assert (b.arm, b.decisions, b.rewards) == ("b", 4, 3)
        assert b.mean == pytest.approx(2 / 3)
        assert b.error == pytest.approx(1 / 3)
        assert (a.share, a.recent_share, b.share) == (1 / 6, 1 / 6, 4 / 6)
        assert b.first == b.last == core.clock()
        await core.restart()
        assert await core.service.admin.arm_numbers("b") == [b, a]

    play_core(test)


def test_expectation_27_the_numbers_of_arms_are_made_beside_the_batches(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def made(history: History, arms: Sequence[str]) -> list[ArmNumbers]:
        threads.append(threading.current_thread().name)
        return arm_numbers(history, arms)

    monkeypatch.setattr(admin, "arm_numbers", made)

    async def test(core: Harness) -> None:
        await core.create()
        await core.decide()
        before = core.service.state.bandit("b").history.counts_now()
        numbers = await core.service.admin.arm_numbers("b")
        for _ in range(20):
            await core.decide()
        assert arm_numbers(before, [numbers[0].arm]) == numbers
        assert threads[0].startswith("asyncio")

    play_core(test)


def test_expectation_31_a_retired_name_can_be_used_again(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create()
        old = await core.decide(event_id="e")
        await core.service.admin.retire("", "b")
        await core.create(seed=7)
        with refused(409, "exists"):
            await core.create()
        new = await core.decide(event_id="e")
        assert not new.repeated
        for decided in (old, new):  # each is a decision of its own bandit
            assert await core.reward(decided.decision_id, 1.0) == "learned"
        await core.restart()
        assert core.service.state.bandit("b").spec.seed == 7
        assert core.learned == 1
        assert [bandit.name for bandit in await core.service.admin.bandits()] == ["b", "b"]

    play_core(test)


def test_expectation_31_rewards_that_the_policy_cannot_learn_are_refused_at_once(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        message = r"rewards must be within \[0, 1\], which is what UCBGLM can learn; got \[0.0, 5.0\]"
        with refused(422, "invalid", message):
            await core.create(policy={"name": "UCBGLM"}, rewards=(0.0, 5.0))
        await core.create(rewards=(0.0, 5.0))
        with refused(422, "invalid", message):
            await core.service.admin.update("", "b", {"policy": {"name": "UCBGLM"}})

    play_core(test)


def test_expectation_31_a_model_of_another_spec_is_refused_with_what_differs(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create()
        await core.create("wide", features={"kind": "vector", "dim": 4})
        model = await core.service.admin.model("wide")
        with refused(422, "invalid", "^the policy of a state must be dim=3; got dim=4$"):
            await core.service.admin.load_model("", "b", model)

    play_core(test)


@pytest.mark.parametrize("policy", ["LinTS", "ArmUCB", "DiagonalUCB"])
def test_expectation_31_another_policy_may_keep_what_was_learned(play_core: PlayCore, policy: str) -> None:
    async def test(core: Harness) -> None:
        await core.create()
        for t in range(30):
            await core.reward((await core.decide()).decision_id, float(t % 3 == 0))
        relearned = core.service.admin.relearn("", "b", {"policy": {"name": policy}})
        reply = await relearned
        assert reply.spec.policy == {"name": policy}
        assert reply.epoch == reply.version - 1  # the change, and then the model
        model = await core.service.admin.model("b")
        await core.create("twin", policy={"name": policy})
        assert len(model) > 0
        fresh = core.service.state.bandit("twin").agent
        agent = core.service.state.bandit("b").agent
        old, new = (part.policy.state() for part in (fresh, agent))
        assert any(not np.array_equal(old[name], new[name]) for name in old)
        await core.reward((await core.decide()).decision_id, 1.0)

    play_core(test)


@pytest.mark.parametrize("policy", POLICIES)
def test_expectation_31_what_is_learned_again_is_what_a_new_bandit_learns(play_core: PlayCore, policy: str) -> None:
    """Also if learning depends on a hyper-parameter, such as a step size."""
    point = {name: [values[0]] for name, values in build(POLICIES, {"name": policy, "dim": 3}).space.axes.items()}
    spec = {"policy": {"name": policy}, "tuner": {"name": "Fixed"}, "space": point}

    async def test(core: Harness) -> None:
        await core.create()
        await core.create("twin", mode="apprentice", **spec)
        for t in range(12):
            decision = await core.decide()
            for name, id_ in (("b", decision.decision_id), ("twin", "")):
                id_ = id_ or (await core.decide("twin", played=decision.arm)).decision_id
                await core.reward(id_, float(t % 3 == 0), name)
        await core.service.admin.relearn("", "b", spec)
        learned, twin = (core.service.state.bandit(name).agent.policy.state() for name in ("b", "twin"))
        assert {name: learned[name].tobytes() for name in learned} == {name: twin[name].tobytes() for name in twin}

    play_core(test)


def test_expectation_31_what_cannot_be_learned_again_changes_nothing(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create()
        await core.reward((await core.decide()).decision_id, 7.0)
        relearn = core.service.admin.relearn
        with refused(422, "invalid", "features must stay as they are"):
            await relearn("", "b", {"features": {"kind": "vector", "dim": 4}})
        with pytest.raises(
            ValueError, match="a reward in the log, if the new model is to learn it, must be between 0 and 1"
        ):
            await relearn("", "b", {"policy": {"name": "UCBGLM"}})
        change = asyncio.ensure_future(relearn("", "b", {"seed": 5}))
        await asyncio.sleep(0)
        await core.service.admin.update("", "b", {"seed": 6})
        with refused(409, "conflict", "the bandit got another model while the log was learned again"):
            await change
        assert core.service.state.bandit("b").spec.seed == 6

    play_core(test)
