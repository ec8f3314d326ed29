"""Group commit: the queue, batches, the two threads, and a journal that fails in each phase."""

import asyncio
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.core_service import ARMS, ASK, VECTOR, Harness, PlayCore, refused, run

from syndicated.service.bandits.arms import RegisteredArms
from syndicated.service.bandits.messages import Arm, Create, DecideRequest, Spec
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import MAX_ATTEMPTS
from syndicated.service.commit.limits import Limits
from syndicated.service.core.service import Service
from syndicated.store import SQLite, StoreConflictError, StoreError, UnknownCommitError


def test_expectation_18_a_full_queue_is_refused_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        service = Service(SQLite(tmp_path / "journal.db"), Limits(waiting_requests=3))
        waiting = [service.read(lambda batch: batch.state.seq) for _ in range(3)]
        with refused(503, "overload"):
            await service.read(lambda batch: batch.state.seq)
        service.start()
        assert await asyncio.gather(*waiting) == [0, 0, 0]
        assert await service.read(lambda batch: batch.state.seq) == 0
        await service.stop()
        with refused(503, "stopped"):
            await service.read(lambda batch: batch.state.seq)

    run(test())


def test_expectation_22_what_is_queued_is_finished_before_the_end(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        waiting = [harness.service.decisions.decide("b", ASK) for _ in range(50)]
        await harness.restart()
        replies = await asyncio.gather(*waiting)
        assert len({reply.decision_id for reply in replies}) == 50
        assert harness.service.state.bandit("b").history.count == 50

    play_core(test)


def test_callers_that_ask_again_at_once_share_a_batch_with_those_who_asked_meanwhile(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLLECT_SHARE", "MAX_COLLECT_SECONDS"):
        monkeypatch.setattr(f"syndicated.service.commit.group_commit.{name}", 1e9)

    async def test(harness: Harness) -> None:
        await harness.create()
        for _ in range(3):
            await harness.decide()  # a caller that is alone does not wait
        commit, decide, go = harness.service.group_commit, harness.service.decisions.decide, threading.Event()
        before, write = dict(commit.counts), commit.store.write
        commit.store.write = lambda events: (go.wait(), write(events))[1]  # type: ignore[method-assign]
        first = [decide("b", ASK) for _ in range(3)]
        while commit._queue:
            await asyncio.sleep(0)
        meanwhile = [decide("b", ASK) for _ in range(5)]
        go.set()
        await asyncio.gather(*first)
        await asyncio.gather(*meanwhile, *(decide("b", ASK) for _ in range(3)))
        assert commit.counts["events"] - before["events"] == 11
        assert commit.counts["batches"] - before["batches"] == 2

    play_core(test)


def test_a_batch_does_not_wait_for_callers_if_there_is_no_room_or_a_request_that_is_served_alone(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLLECT_SHARE", "MAX_COLLECT_SECONDS"):
        monkeypatch.setattr(f"syndicated.service.commit.group_commit.{name}", 1e9)
    monkeypatch.setattr("syndicated.service.commit.group_commit.MAX_BATCH_REQUESTS", 3)

    async def test(harness: Harness) -> None:
        await harness.create()
        decide = harness.service.decisions.decide
        await asyncio.gather(*(decide("b", ASK) for _ in range(6)))
        await asyncio.gather(*(decide("b", ASK) for _ in range(5)), harness.service.admin.bandit("b"))

    play_core(test)


def test_a_bandit_may_change_while_a_request_waits(play_core: PlayCore) -> None:
    """Arms are read when a request comes, and it is decided in its turn."""

    async def test(harness: Harness) -> None:
        service, wide = harness.service, {"kind": "vector", "dim": 4}
        await harness.create()
        await service.admin.put_arms("", "b", [Arm("r", x=[1.0, 0.0, 0.0])])
        changed = service.admin.put_arms("", "b", [Arm("r", x=[0.0, 1.0, 0.0])])
        registered, own = service.decisions.decide("b", DecideRequest()), service.decisions.decide("b", ASK)
        wider = service.admin.update("", "b", {"features": wide})
        late = service.decisions.decide("b", ASK)
        await changed
        record = await service.decisions.decision("b", (await registered).decision_id)
        assert np.frombuffer(record.decided.x).tolist() == [0.0, 1.0, 0.0]
        assert (await own).arm in {arm.id for arm in ARMS}
        with refused(422, "invalid", "registered arm 'r'.x must be a list of 4 numbers"):
            await wider
        assert (await late).arm in {arm.id for arm in ARMS}
        await service.admin.drop_arm("", "b", "r")
        read = service.decisions.read("b", ASK)
        await service.admin.update("", "b", {"features": wide})
        with refused(409, "conflict", "the bandit got other features while this request waited"):
            await service.decisions.decide_on("b", *read)
        await service.admin.update("", "b", {"features": VECTOR})
        read = service.decisions.read("b", ASK)
        await service.admin.update("", "b", {"seed": 8})
        assert (await service.decisions.decide_on("b", *read)).epoch == service.state.bandit("b").epoch
        off, fallback = service.admin.update("", "b", {"mode": "off"}), service.decisions.decide("b", ASK)
        assert (await fallback).by == "fallback"  # what keeps the model has its place in the queue
        await off

    play_core(test)


def test_a_write_that_was_made_and_not_told_is_seen_in_the_next_batch(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        write = harness.service.group_commit.store.write

        def lose(events: Any) -> None:
            write(events)
            raise StoreError("the journal cannot be used: no answer")

        harness.service.group_commit.store.write = lose  # type: ignore[method-assign]
        with refused(503, "unavailable"):
            await harness.decide()
        harness.service.group_commit.store.write = write  # type: ignore[method-assign]
        await harness.decide()
        assert harness.service.state.bandit("b").history.count == 2

    play_core(test)


def test_exclusive_requests_run_on_the_journal_thread_and_others_let_the_loop_go_on(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: 0.02 * next(ticks))  # every request takes that long

    async def test(harness: Harness) -> None:
        await harness.create()
        service, seen = harness.service, []

        def note(what: str) -> Callable[[Any], None]:
            return lambda _: seen.append((what, threading.current_thread() is threading.main_thread()))

        asked = [service.group_commit.submit(note("short")) for _ in range(3)]
        asked += [service.read(note("exclusive")), service.group_commit.submit(note("last"))]
        asyncio.get_running_loop().call_later(0, lambda: note("between")(None))
        await asyncio.gather(*asked)
        assert sorted(seen[:4]) == [("between", True), ("short", True), ("short", True), ("short", True)]
        assert seen[3] == ("short", True)
        assert seen[4:] == [("exclusive", False), ("last", True)]

    play_core(test)


def test_a_full_queue_is_refused_before_arms_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        service = Service(SQLite(tmp_path / "journal.db"), Limits(waiting_requests=1))
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(RegisteredArms, "table", None)
        waiting = service.read(lambda batch: None)
        with refused(503, "overload"):
            await service.decisions.decide("b", ASK)
        await waiting
        await service.stop()

    run(test())


def test_a_snapshot_that_was_not_committed_is_taken_again(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.restart()
        for _ in range(30):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        save = harness.service.group_commit.store.save_steps

        def fail(*args: Any) -> Iterator[None]:
            yield from save(*args)
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.save_steps = fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.service.admin.save_model("b")
        assert not harness.ready()
        harness.service.group_commit.store.save_steps = save  # type: ignore[method-assign]
        await harness.create("other")
        await harness.restart()
        assert harness.learned == 30

    play_core(test)


def test_a_snapshot_whose_commit_failed_is_taken_again(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)
        batch = harness.service.group_commit.store.batch

        @contextmanager
        def fail(patience: float = math.inf) -> Iterator[int]:
            with batch(patience) as last:
                yield last
                raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.batch = fail  # type: ignore[method-assign]
        with refused(503, "unavailable"):
            await harness.service.admin.save_model("b")
        harness.service.group_commit.store.batch = batch  # type: ignore[method-assign]
        await harness.create("other")
        await harness.restart()
        assert harness.learned == 1

    play_core(test)


def test_a_journal_that_can_be_read_but_not_written_is_away(
    play_core: PlayCore, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        store = harness.service.group_commit.store

        def fail(*args: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        append, touch = store.append, store.touch
        store.append, store.touch = fail, fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.decide()
        with refused(503, "unavailable"):
            await harness.service.read(lambda batch: None)
        assert not harness.ready()
        store.append = append  # type: ignore[method-assign]
        await harness.decide()  # which was written: nobody has to try
        assert harness.ready()
        store.append = fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.decide()
        store.append, store.touch = append, touch  # type: ignore[method-assign]
        await harness.service.read(lambda batch: None)
        assert harness.ready()
        harness.service.group_commit._batch_began = harness.clock.now - 60.0
        assert not harness.ready()
        harness.service.group_commit._batch_began = math.inf

    play_core(test)
    full = "the journal cannot be used: full"
    assert caplog.messages == 2 * [f"the journal is away: {full}", f"the journal is back; it was away: {full}"]


def test_a_request_that_another_process_is_in_the_way_of_is_refused_and_the_journal_is_not_away(
    play_core: PlayCore, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: Harness) -> None:
        tries = 0

        def conflict(batch: Batch) -> None:
            nonlocal tries
            tries += 1
            raise StoreConflictError("another process was first")

        with refused(503, "unavailable", "another process was first"):
            await harness.service.read(conflict)
        assert (tries, harness.ready()) == (MAX_ATTEMPTS, True)

    play_core(test)
    assert caplog.messages == []


def test_a_last_snapshot_that_cannot_be_taken_is_told_and_nothing_is_lost(
    play_core: PlayCore, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        await harness.reward((await harness.decide()).decision_id, 1.0)

        def fail(*args: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.save = fail  # type: ignore[method-assign,assignment]
        await harness.restart()
        assert harness.learned == 1

    play_core(test)
    told = "the last snapshot could not be taken, the next start will replay: the journal cannot be used: full"
    assert caplog.messages == [told]


def test_expectation_28_whether_a_commit_succeeded_may_be_unknown_and_is_said(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        store = harness.service.group_commit.store
        write = store.write

        def lose_the_answer(*args: Any) -> None:
            write(*args)
            raise UnknownCommitError("the journal was lost while it committed")

        store.write = lose_the_answer  # type: ignore[method-assign,assignment]
        with refused(503, "commit-unknown", "it is not known whether this was carried out"):
            await harness.decide()
        store.write = write  # type: ignore[method-assign]
        await harness.decide()
        assert harness.service.state.bandit("b").history.count == 2  # the lost one was carried out

        def fail(*args: Any) -> None:
            raise StoreError("the journal cannot be used: full")

        store.write = fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.decide()
        store.write = write  # type: ignore[method-assign]
        await harness.decide()
        assert harness.service.state.bandit("b").history.count == 3  # the refused one changed nothing

    play_core(test)


def test_a_snapshot_is_taken_when_a_replay_would_take_long(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create()
        snapshots = harness.service.group_commit.snapshots
        await harness.decide()
        assert not await harness.service.read(lambda batch: batch.store.snapshots())
        monkeypatch.setattr("syndicated.service.commit.snapshots.REPLAY_SECONDS", 0.0)
        await harness.decide()
        await harness.snapshots_are_taken()
        saved = await harness.service.read(lambda batch: batch.store.snapshots())
        assert {snapshot.seq for snapshot in saved} == {3}
        assert not snapshots._is_due
        snapshots._cost = 600.0  # a snapshot that takes longer than what it saves waits
        await harness.decide()
        assert not snapshots._is_due

    play_core(test)


def test_whatever_the_journals_thread_does_is_a_job_of_its_own(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a slow server is given up within the time that callers have."""

    async def test(harness: Harness) -> None:
        await harness.create()
        begun: list[str] = []
        monkeypatch.setattr(
            harness.service.group_commit.store, "begin_job", lambda: begun.append(threading.current_thread().name)
        )
        await harness.decide()
        deciding = len(begun)
        await harness.service.read(lambda batch: batch.state.seq)
        assert 0 < deciding < len(begun)
        assert {name.partition("_")[0] for name in begun} == {"journal"}

    play_core(test)
