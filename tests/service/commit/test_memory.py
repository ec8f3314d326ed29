"""What stays in memory, and what does not."""

import asyncio
import gc
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from support.core_service import Harness, PlayCore, exported, latest

from syndicated.service.bandits.arms import RegisteredArms
from syndicated.service.bandits.messages import DecideRequest
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import RECORD_BYTES, Decided
from syndicated.service.bandits.size_limits import QUICK_WORK
from syndicated.service.commit.limits import Limits
from syndicated.service.core.log_lines import to_line
from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.service.http.endpoints import Call
from syndicated.service.http.handlers import decide
from syndicated.service.http.metrics import Metrics
from syndicated.types import Array, Choice


def test_a_refused_request_frees_its_arms(play_core: PlayCore) -> None:
    async def ask(service: Service) -> "weakref.ref[Array]":
        table = np.ones((2, 3))
        services = Services([service])
        body = DecideRequest(shape=(2, 3))
        call = Call(services, services.home, Metrics(services), "", {"name": "b"}, None, body, table)
        with suppress(Problem):
            await decide(call)
        return weakref.ref(table)

    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.service.admin.retire("", "b")
        gc.disable()
        try:
            table = await ask(harness.service)
            await asyncio.sleep(0)  # what woke this task has the answer until it is over
            assert table() is None
        finally:
            gc.enable()

    play_core(test)


def test_decisions_in_memory_are_bounded_in_bytes_and_others_are_looked_up(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.bandits.state.MAX_RECORD_BYTES", 10_000)

    async def test(harness: Harness) -> None:
        await harness.create()
        first = await harness.decide()
        for _ in range(30):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        state = harness.service.state
        kept = [record for seq in range(state.seq + 1) if (record := state.record(seq)) is not None]
        assert 0 < sum(record.bytes for record in kept) <= 10_000 + RECORD_BYTES  # an event about one may come last
        assert await harness.reward(first.decision_id, 1.0) == "learned"

    play_core(test)


def test_decisions_in_memory_have_the_logs_form_alone(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        decision = await harness.decide()
        for _ in range(2):
            record = harness.service.state.record(harness.service.decisions.ids.seq(decision.decision_id))
            assert not any(isinstance(held, (Decided, Choice)) for held in gc.get_referents(record))
            await harness.reward(decision.decision_id, 1.0)

    play_core(test)


@pytest.mark.parametrize(("arms", "on_the_loop"), [(QUICK_WORK, True), (QUICK_WORK + 1, False)])
def test_expectation_27_large_requests_are_read_on_another_thread(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch, arms: int, on_the_loop: bool
) -> None:
    """2,000 arms and fields are the most that the event loop reads itself."""
    assert QUICK_WORK == 2000
    threads, table = list[threading.Thread](), RegisteredArms.table

    def note(self: RegisteredArms, *given: Any) -> Any:
        threads.append(threading.current_thread())
        return table(self, *given)

    monkeypatch.setattr(RegisteredArms, "table", note)

    async def test(harness: Harness) -> None:
        await harness.create(features={"kind": "open", "dim": 2})
        services = Services([harness.service])
        asked = DecideRequest(arms=[str(k) for k in range(arms)])
        await decide(Call(services, services.home, Metrics(services), "", {"name": "b"}, None, asked, None))
        assert [thread is threading.main_thread() for thread in threads] == [on_the_loop]

    play_core(test)


def test_a_history_keeps_its_size(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.service.bandits.history.MAX_ROWS", 10)

    async def test(harness: Harness) -> None:
        await harness.create()
        for _ in range(100):
            await harness.decide()
        rows = harness.service.state.bandit("b").history.rows()
        assert len(rows) <= 11
        assert len(set(np.diff(rows[:, 1]))) == 1

    play_core(test)


def test_what_is_imported_is_in_memory_as_it_is_in_the_log(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)
        lines = [
            to_line(event, harness.service.state.bandit("b")) for event in await exported(harness.service, "b", 0, 100)
        ]
        await harness.create("twin")
        await harness.service.admin.import_log("", "twin", lines)
        (event,) = await latest(harness.service, "twin", 1)
        record = await harness.service.decisions.decision("twin", harness.service.decisions.ids.of(event.seq))
        assert [about.kind for about in record.about] == ["reward"]
        stored = await harness.service.read(lambda batch: batch.store.about([event.seq]))
        assert list(record.about) == stored[event.seq]

    play_core(test)


def test_a_list_that_has_begun_is_not_cut_short_by_a_full_queue(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.store._sql.CHUNK_BYTES", 1)  # so that a page has one decision

    async def test(harness: Harness) -> None:
        await harness.create()
        for _ in range(3):
            await harness.decide()
        pages = []
        async for page in harness.service.admin.latest("b", 10):
            pages.append(page)
            monkeypatch.setattr(harness.service.group_commit, "limits", Limits(waiting_requests=0))
        assert [len(page) for page in pages] == [1, 1, 1]

    play_core(test)
