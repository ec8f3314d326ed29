"""A bandit with hashed features beyond ten thousand columns: nothing that is kept has all of them."""

from typing import Any

import msgspec
import pytest
from support.core_service import Harness, PlayCore, exported, refused

from syndicated.errors import InputError
from syndicated.service.bandits.messages import Arm
from syndicated.service.bandits.records import decode_decided
from syndicated.service.core.log_lines import LogLine, parse, to_line

SPEC: dict[str, Any] = {"features": {"kind": "hashed", "dim": 2**18}, "policy": {"name": "DiagonalUCB"}, "log": "all"}


async def _learn(core: Harness, name: str = "b") -> None:
    for k in range(8):
        context = {"hour": k % 3, "country": "fr"}
        asked = ["tea", Arm("milk", features={"price": 2.5, "tags": ["cold"]})]
        reply = await core.decide(name, context=context, arms=asked)
        await core.reward(reply.decision_id, float(reply.arm == "tea"), name)


def test_decisions_are_kept_as_entries_and_replayed(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create(**SPEC)
        await _learn(core)
        await core.restart()
        assert core.learned == 8
        for event in core.service.group_commit.store.recent(1, ["decide"], 8):
            decided = decode_decided(event.body)
            assert decided.sparse
            assert len(decided.x) < 500
            assert len(event.body) < 2000

    play_core(test)


async def _log(core: Harness) -> list[LogLine]:
    events = await exported(core.service, "b", 0, 100)
    bandit = core.service.state.bandit("b")
    return [to_line(event, bandit) for event in events if event.kind in ("decide", "reward")]


def test_a_log_becomes_the_same_model(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        await core.create(**SPEC)
        await core.create("new", **SPEC)
        await _learn(core)
        log = b"\n".join(msgspec.json.encode(line) for line in await _log(core))
        assert (await core.service.admin.import_log("", "new", parse(log))).imported == 16
        mine, its = (core.service.state.bandit(name).agent.policy.state() for name in ("b", "new"))
        assert all(mine[name].tobytes() == its[name].tobytes() for name in mine)

    play_core(test)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sparse": False}, "sparse must be true"),
    ({"x": [1.0, 2.0, 1.0]}, "x must have as many columns as values"),
    ({"x": [2.0, 1.0, 0.5, 0.5]}, "rising"),
    ({"x": [2.0**18, 1.0]}, "from 0 to 262143"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_lines_that_do_not_fit_are_refused(play_core: PlayCore, change: dict[str, Any], message: str) -> None:
    async def test(core: Harness) -> None:
        await core.create(**SPEC)
        await core.create("new", **SPEC)
        await _learn(core)
        first, *rest = await _log(core)
        with pytest.raises(InputError, match=message):
            await core.service.admin.import_log("", "new", [msgspec.structs.replace(first, **change), *rest])

    play_core(test)


def test_a_policy_of_tables_is_refused(play_core: PlayCore) -> None:
    async def test(core: Harness) -> None:
        with refused(422, "invalid", "features must have at most 256 columns with LinUCB"):
            await core.create(**{**SPEC, "policy": {"name": "LinUCB"}})

    play_core(test)
