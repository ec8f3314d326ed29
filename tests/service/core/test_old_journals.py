"""Journals that services of earlier commits have written, one of each format: today's goes on from them.

Each was made by `syndicated serve` of the commit in its name: 40 decisions of every bandit with event ids visit-1 to
visit-40, of which those with numbers that 4 divides have no reward; an orderly stop after the first 20, and a kill -9
at the end. Beside it is what the callers were told.

9ce683b  the first service: features are vectors
7bc9cc5  named arms; events have no checksums yet
ab3385d  events have checksums; numbers have no gaps yet
"""

import asyncio
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.core_service import refused

from syndicated.service.bandits.messages import Arm, Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.records import decode, encode
from syndicated.service.bandits.state import State
from syndicated.service.commit import batch
from syndicated.service.core.journal_check import verify
from syndicated.service.core.service import Service
from syndicated.store import Event, SQLite, StoreError, copy, open_store

DATA = Path(__file__).parent / "data"
OPEN = "visit-40"  # has no reward


@pytest.mark.parametrize("commit", sorted(file.stem for file in DATA.glob("*.db")))
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_expectation_23_a_journal_of_an_earlier_service_opens_and_goes_on(
    commit: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    told: dict[str, Any] = json.loads((DATA / f"{commit}.json").read_text())
    shutil.copy(DATA / f"{commit}.db", tmp_path / "journal.db")
    address = str(tmp_path / "journal.db")
    if kind == "postgres":
        address = request.getfixturevalue("database")()
        with closing(SQLite(tmp_path / "journal.db", read_only=True)) as old, closing(open_store(address)) as new:
            copy(old, new)

    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        for name, (decisions, rewards) in told["counts"].items():
            bandit = service.state.bandit(name)
            assert (bandit.history.count, bandit.history.learned) == (decisions, rewards)
            await _go_on(service, name, told["decisions"][name])
        await service.stop()
        with closing(open_store(address, read_only=True)) as store:
            assert verify(store) == []

    asyncio.run(test())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_a_later_version_adds_to_events_is_passed_over(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions at once: the older one reads what the newer one writes, as long as fields are only added."""
    monkeypatch.setattr(batch, "encode", lambda body: encode({**decode(encode(body)), "of_a_later_version": [1]}))
    address = str(tmp_path / "journal.db") if kind == "sqlite" else request.getfixturevalue("database")()

    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features={"kind": "vector", "dim": 1})))
        ask = DecideRequest(arms=[Arm("a", x=[1.0]), Arm("b", x=[0.5])])
        for k in range(6):
            reply = await service.decisions.decide("b", ask)
            await service.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=float(k % 2)))
        await service.stop()
        with closing(open_store(address, read_only=True)) as store:
            whole = State.load(store, whole=True)
        assert whole.bandit("b").history.learned == 6
        assert whole.bandit("b").agent.state() == service.state.bandit("b").agent.state()

    asyncio.run(test())


@pytest.mark.parametrize("bandit", [0, 1])
def test_events_of_a_kind_that_a_later_version_has_are_refused(bandit: int, tmp_path: Path) -> None:
    """What they say would be missing from the state, and from what is decided and learned after them."""
    with closing(SQLite(tmp_path / "journal.db")) as store:
        store.write([Event(1, bandit, "transmute", 1.0, body=encode({}))])
        with pytest.raises(StoreError, match=r"is of a later version: event 1 of bandit \d is of the kind 'transmute'"):
            Service(store)
        assert [fault for fault in verify(store) if "transmute" in fault]


async def _go_on(service: Service, name: str, told: list[tuple[str, str, str]]) -> None:
    arms: list[str | Arm] = [Arm(arm, x=[1.0, 0.0, 0.5]) for arm in ("a0", "a1")]
    if name == "named":
        arms = ["sports", "politics"]
    asked = [DecideRequest(arms=arms, event_id=event_id) for event_id, _, _ in told]
    answers = await asyncio.gather(*(service.decisions.decide(name, each) for each in asked))
    assert [(again.decision_id, again.arm) for again in answers] == [(id_, arm) for _, id_, arm in told]
    assert all(again.repeated for again in answers)
    ids = {event_id: decision_id for event_id, decision_id, _ in told}
    reply = await service.decisions.reward(name, RewardRequest(decision_id=ids[OPEN], reward=1.0))
    assert reply.outcome == "learned"
    with refused(409, "conflict"):
        await service.decisions.reward(name, RewardRequest(decision_id=ids[OPEN], reward=0.0))
    new = await service.decisions.decide(name, DecideRequest(arms=arms))
    reply = await service.decisions.reward(name, RewardRequest(decision_id=new.decision_id, reward=1.0))
    assert reply.outcome == "learned"
