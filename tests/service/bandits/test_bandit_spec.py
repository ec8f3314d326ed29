"""Specs: what is refused, and what starts a new epoch."""

from typing import Any

import pytest
from support.core_service import Harness, PlayCore, refused


def test_rewards_outside_of_the_range_are_refused(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(rewards=(-1.0, 2.0))
        await harness.create("glm", policy={"name": "UCBGLM"})
        for name, wrong in (("b", -1.5), ("b", 2.5), ("glm", -0.5), ("glm", 1.5)):
            with refused(422, "invalid"):
                await harness.reward((await harness.decide(name)).decision_id, wrong, name)

    play_core(test)


def test_a_changed_configuration_starts_an_epoch_and_late_rewards_belong_to_their_own(
    play_core: PlayCore,
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        old = await harness.decide()
        await harness.service.admin.update("", "b", {"space": {"boldness": [1.0, 3.0]}})
        new = await harness.decide()
        assert new.epoch > old.epoch
        before = harness.service.state.bandit("b").agent.state()
        assert await harness.reward(old.decision_id, 1.0) == "counted"
        assert harness.service.state.bandit("b").agent.state() == before
        assert await harness.reward(new.decision_id, 1.0) == "learned"
        for wrong in ({"space": {"nothing": [1.0]}}, {"tuner": {"name": "Nobody"}}, {"color": 1}, {"floor": 2.0}):
            with refused(422, "invalid"):
                await harness.service.admin.update("", "b", wrong)

    play_core(test)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": {"kind": "nothing"}},
        {"policy": {"dim": 3}},
        {"policy": {"name": "LinUCB", "dim": 4}},
        {"policy": {"name": "Nobody"}},
        {"tuner": {"name": "Theory"}, "space": {"alpha": [1.0]}},
        {"space": {"alpha": []}},
        {"rewards": (1.0, 0.0)},
        {"aggregate": "sum"},
        {"default_reward": 0.0},
        {"fallback": "arm"},
        {"fallback_arm": "a"},
    ],
)
def test_a_spec_that_cannot_be_is_refused_and_nothing_changes(play_core: PlayCore, wrong: dict[str, Any]) -> None:
    async def test(harness: Harness) -> None:
        with refused(422, "invalid"):
            await harness.create(**wrong)
        assert harness.service.state.seq == 0

    play_core(test)
