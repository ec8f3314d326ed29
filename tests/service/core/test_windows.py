"""Reward windows: late rewards, default rewards, several rewards, and closing them page by page."""

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from support.core_service import Harness, PlayCore, exported, refused

from syndicated.service.bandits.problems import Problem
from syndicated.service.core.log_lines import to_line
from syndicated.service.core.service import Service
from syndicated.store import Event, SQLite, StoreError, open_store


def test_expectation_04_late_rewards_are_logged_and_counted_and_not_learned(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0)
        ids = [(await harness.decide()).decision_id for _ in range(2)]
        await harness.pass_time(60.0)
        assert await harness.reward(ids[0], 1.0) == "learned"
        await harness.pass_time(0.5)
        before = harness.service.state.bandit("b").agent.state()
        assert await harness.reward(ids[1], 1.0) == "late"
        assert await harness.reward(ids[1], 1.0) == "repeated"
        assert harness.service.state.bandit("b").agent.state() == before
        assert harness.service.state.bandit("b").lates == 1

    play_core(test)


def test_a_window_is_open_to_its_last_moment(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0, default_reward=0.5)
        ids = [(await harness.decide()).decision_id for _ in range(2)]
        await harness.pass_time(60.0)
        assert harness.learned == 0
        assert await harness.reward(ids[0], 1.0) == "learned"
        await harness.pass_time(1.0)
        assert harness.learned == 2
        assert await harness.reward(ids[1], 1.0) == "late"

    play_core(test)


def test_expectation_05_a_default_reward_when_the_window_closes_is_an_event(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0, default_reward=-1.0)
        ids = [(await harness.decide()).decision_id for _ in range(3)]
        assert await harness.reward(ids[1], 1.0) == "learned"
        await harness.pass_time(59.0)
        assert harness.learned == 1
        await harness.pass_time(2.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (3, -1.0)
        await harness.restart()
        await harness.pass_time(100.0)
        assert harness.learned == 3
        assert await harness.reward(ids[0], 1.0) == "late"

    play_core(test)


@pytest.mark.parametrize("restart", [False, True])
def test_a_default_reward_is_for_decisions_made_since_it_was_set(play_core: PlayCore, restart: bool) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0)
        await harness.decide()
        await harness.pass_time(100.0)
        await harness.decide()
        for changes in ({"default_reward": -1.0}, {"default_reward": 5.0}, {"default_reward": None}):
            await harness.service.admin.update("", "b", changes)
            await harness.decide()
        if restart:
            await harness.restart()
        await harness.pass_time(100.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (2, 4.0)

    play_core(test)


@pytest.mark.parametrize(("aggregate", "total"), [("last", 5.0), ("sum", 8.0)])
def test_expectation_06_several_rewards_of_a_decision(play_core: PlayCore, aggregate: str, total: float) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=60.0, aggregate=aggregate)
        id_ = (await harness.decide()).decision_id
        other = (await harness.decide()).decision_id
        assert await harness.reward(id_, 1.0) == "collected"
        assert await harness.reward(id_, 2.0, event_id="x") == "collected"
        assert await harness.reward(id_, 2.0, event_id="x") == "repeated"
        with refused(409, "conflict"):
            await harness.reward(id_, 3.0, event_id="x")
        with refused(409, "conflict"):
            await harness.reward(other, 2.0, event_id="x")
        assert await harness.reward(id_, 5.0) == "collected"
        assert harness.learned == 0
        await harness.restart()
        await harness.pass_time(61.0)
        history = harness.service.state.bandit("b").history
        assert (history.learned, history.total) == (1, total)
        assert await harness.reward(id_, 1.0) == "late"

    play_core(test)


def test_windows_do_not_close_for_ever_while_the_journal_is_away(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(6)
        store = harness.service.group_commit.store
        batch, entry = store.batch, store.entry
        pages, decisions = 0, store.decisions

        def fail(*args: Any) -> Any:
            raise StoreError("the journal cannot be used: away")

        def count(*args: Any) -> Any:
            nonlocal pages
            pages += 1
            if pages == 2:
                store.batch = store.entry = fail  # type: ignore[method-assign,assignment]
            return decisions(*args)

        store.decisions = count  # type: ignore[method-assign,assignment]
        harness.clock.now += 100.0
        while not harness.service.group_commit.store_error:
            with suppress(Problem):
                await harness.service.read(lambda batch: None)
        with refused(503, "unavailable"):
            await harness.decide()
        store.batch, store.entry, store.decisions = batch, entry, decisions  # type: ignore[method-assign]
        await harness.pass_time(2.0)
        assert harness.learned == 6

    play_core(test)


def test_requests_are_served_between_the_pages_of_windows_that_close(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(20)
        harness.clock.now += 100.0
        await harness.service.read(lambda batch: None)
        assert await harness.service.read(lambda batch: batch.state.names["b"].history.learned) < 20
        await harness.pass_time(2.0)
        assert harness.learned == 20

    play_core(test)


def test_every_window_closes(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a commit that failed, with clocks that differ, and many at once; a restart goes on where it was."""
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 4)

    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, default_reward=0.5)
        for step in (2.0, -1.5, 0.0, 3.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.5):
            harness.clock.now += step
            await harness.decide()
        append = harness.service.group_commit.store.append

        def fail(events: Any, next_count: int = 0, summary: bytes = b"") -> None:
            raise StoreError("the journal cannot be used: full")

        harness.service.group_commit.store.append = fail  # type: ignore[method-assign]
        await harness.pass_time(20.0)
        assert harness.learned == 0
        harness.service.group_commit.store.append = append  # type: ignore[method-assign]
        await harness.pass_time(1.5)
        assert harness.learned == 10
        closed = harness.service.state.bandit("b").closed
        await harness.restart()
        assert harness.service.state.bandit("b").closed == closed > 4
        await harness.decide()
        await harness.pass_time(11.5)
        assert harness.learned == 11

    play_core(test)


def test_what_is_learned_when_a_window_closes_is_within_the_range(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        with refused(422, "invalid", "default_reward must be between 0 and 1; got 7"):
            await harness.create(window=10.0, default_reward=7.0, rewards=(0.0, 1.0))
        with refused(422, "invalid", "default_reward must be between 0 and 1"):
            await harness.create(window=10.0, default_reward=1e308, policy={"name": "UCBGLM"})
        await harness.create(window=10.0, aggregate="sum", rewards=(0.0, 1.0))
        id_ = (await harness.decide()).decision_id
        for _ in range(3):
            await harness.reward(id_, 0.75)
        await harness.pass_time(11.0)
        assert harness.service.state.bandit("b").history.total == 1.0

    play_core(test)


def test_rewards_that_were_collected_are_learned_also_if_the_spec_changes(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, aggregate="sum")
        assert await harness.reward((await harness.decide()).decision_id, 2.0) == "collected"
        await harness.service.admin.update("", "b", {"aggregate": "first"})
        await harness.pass_time(11.0)
        assert harness.service.state.bandit("b").history.total == 2.0

    play_core(test)


def test_a_window_that_is_taken_away_leaves_nothing_to_close(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(20)
        harness.clock.now += 100.0
        await harness.service.read(lambda batch: None)
        await harness.service.admin.update("", "b", {"window": None, "default_reward": None})
        closed = harness.learned
        assert 0 < closed < 20
        harness.clock.now += 2.0
        for _ in range(3):
            await harness.service.read(lambda batch: None)
        assert not harness.service.windows.has_backlog
        assert harness.learned == closed

    play_core(test)


def test_windows_are_closed_by_the_spec_that_is_there_when_they_are(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(3)
        due = list(harness.service.windows.due())
        await harness.service.admin.update("", "b", {"window": None, "default_reward": None})
        harness.clock.now += 100.0
        for close in due:
            await harness.service.read(close)
        assert harness.learned == 0

    play_core(test)


def test_a_log_exports_however_many_windows_were_closed(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 2)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(5)
        await harness.pass_time(11.0)
        bandit, events = harness.service.state.bandit("b"), await exported(harness.service, "b", 0, 8)
        assert [to_line(event, bandit).kind for event in events] == ["decide"] * 5 + ["close"] * 3
        assert harness.learned == 5

    play_core(test)


def test_a_bandit_of_which_nothing_is_due_costs_nothing(play_core: PlayCore) -> None:
    """Its journal is looked at again when its next window passes, after a decision, or if its window is another one."""

    async def test(harness: Harness) -> None:
        windows = harness.service.windows
        await harness.create(window=60.0, default_reward=0.5)
        await harness.pass_time(2.0)
        assert list(windows.due()) == []
        await harness.decide()
        assert len(list(windows.due())) == 1
        await harness.pass_time(2.0)
        await harness.pass_time(50.0)
        assert list(windows.due()) == []
        await harness.service.admin.update("", "b", {"window": 10.0})
        assert len(list(windows.due())) == 1
        await harness.pass_time(2.0)
        assert harness.learned == 1

    play_core(test)


def test_many_bandits_share_the_look_at_their_windows(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few decisions of each are looked at in one transaction, and the rest at once after it."""
    monkeypatch.setattr("syndicated.service.core.windows.MAX_BANDITS", 5)
    monkeypatch.setattr("syndicated.service.core.windows.MAX_DECISIONS", 10)

    async def test(harness: Harness) -> None:
        for k in range(12):
            await harness.create(f"b{k}", window=10.0, default_reward=0.5)
            for _ in range(k % 4):
                await harness.decide(f"b{k}")
        assert len(list(harness.service.windows.due())) == 2  # three of the twelve have no decision
        await harness.pass_time(11.0)
        names = harness.service.state.names
        assert [names[f"b{k}"].history.learned for k in range(12)] == [k % 4 for k in range(12)]
        assert not harness.service.windows.has_backlog

    play_core(test)


@pytest.mark.parametrize("restart", [False, True])
def test_a_window_that_has_nothing_to_teach_is_not_looked_at(play_core: PlayCore, restart: bool) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0)
        first = await harness.decide()
        assert await harness.reward(first.decision_id, 1.0) == "learned"
        await harness.decide()
        if restart:
            await harness.restart()
            assert list(harness.service.windows.due()) == []
        await harness.decide()
        await harness.pass_time(11.0)
        assert list(harness.service.windows.due()) == []
        assert harness.learned == 1

    play_core(test)


@pytest.mark.parametrize("restart", [False, True])
def test_a_window_that_collected_something_closes_after_others_that_had_nothing(
    play_core: PlayCore, restart: bool
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, aggregate="sum")
        await harness.decide()
        await harness.pass_time(11.0)
        ids = [(await harness.decide()).decision_id for _ in range(3)]
        assert await harness.reward(ids[1], 2.0) == "collected"
        if restart:
            await harness.restart()
        await harness.pass_time(11.0)
        assert harness.service.state.bandit("b").history.total == 2.0
        await harness.pass_time(2.0)
        assert list(harness.service.windows.due()) == []

    play_core(test)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("rewarded", [0, 1])
def test_what_is_collected_in_a_longer_window_is_learned_or_late(
    play_core: PlayCore, rewarded: int, restart: bool
) -> None:
    """The window of the other decision has closed without an event, before or after that of the rewarded one."""

    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, aggregate="sum")
        ids = [(await harness.decide()).decision_id for _ in range(2)]
        assert await harness.reward(ids[rewarded], 1.0) == "collected"
        await harness.pass_time(11.0)
        await harness.service.admin.update("", "b", {"window": 100.0})
        if restart:
            await harness.restart()
        assert await harness.reward(ids[1 - rewarded], 2.0) == ("late" if rewarded else "collected")
        await harness.pass_time(100.0)
        assert harness.service.state.bandit("b").history.total == (1.0 if rewarded else 3.0)

    play_core(test)


@pytest.mark.parametrize("others", [0, 1])
def test_a_decision_that_is_activated_in_a_longer_window_gets_its_default_reward_or_is_late(
    play_core: PlayCore, others: int
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, default_reward=0.5)
        first = await harness.decide(deferred=True)
        for _ in range(others):
            await harness.decide()
        await harness.pass_time(11.0)
        assert harness.learned == others
        await harness.service.admin.update("", "b", {"window": 100.0})
        with refused(409, "late") if others else nullcontext():
            await harness.service.decisions.activate("b", first.decision_id)
        await harness.pass_time(100.0)
        assert harness.learned == 1

    play_core(test)


def test_a_decision_that_is_damaged_keeps_no_other_window_open(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PAGE_DECISIONS", 3)

    async def test(harness: Harness) -> None:
        await harness.wait_for_rewards(8)
        with closing(sqlite3.connect(harness.file)) as db:
            change = "UPDATE log SET body = ? WHERE seq = (SELECT min(seq) FROM log WHERE kind = 'decide') + 1"
            ((body,),) = db.execute(
                "SELECT body FROM log WHERE kind = 'decide' ORDER BY seq LIMIT 1 OFFSET 1"
            ).fetchall()
            for damaged in (body[:9], body):
                db.execute(change, [damaged])
                db.commit()
                for _ in range(3):
                    await harness.pass_time(11.0)
                assert harness.learned == 7

    play_core(test)


def test_decisions_whose_windows_have_passed_are_not_read_again(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, default_reward=0.5)
        for _ in range(5):
            await harness.reward((await harness.decide()).decision_id, 1.0)
        await harness.pass_time(11.0)
        store, read = harness.service.group_commit.store, 0
        decisions = store.decisions

        def count(*args: Any) -> Any:
            nonlocal read
            found = decisions(*args)
            read += sum(map(len, found.values()))
            return found

        store.decisions = count  # type: ignore[method-assign,assignment]
        await harness.decide()
        await harness.pass_time(2.0)
        await harness.pass_time(11.0)
        assert (harness.learned, read) == (6, 2)

    play_core(test)


def test_windows_close_also_after_the_clock_was_set_back(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(window=10.0, default_reward=0.5)
        await harness.pass_time(2.0)
        harness.clock.now -= 3600.0
        await harness.decide()
        await harness.pass_time(11.0)
        assert harness.learned == 1

    play_core(test)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_clock_that_is_set_back_moves_no_window(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "journal.db") if kind == "sqlite" else request.getfixturevalue("database")()
    ahead, clock = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead[0])
    commit = Service(open_store(address), clock=time.time).group_commit
    before = commit.now()
    ahead[0] = -3601.0
    assert commit.now() >= before
    assert commit.clock_offset >= 3600
    commit.store.close()


def test_decisions_with_all_arms_are_closed_few_at_a_time(play_core: PlayCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be 100 KB and more, and others wait while they are read."""
    monkeypatch.setattr("syndicated.service.core.windows.MAX_LARGE_DECISIONS", 4)
    asked, decisions = list[tuple[int, int]](), SQLite.decisions

    def note(self: SQLite, after: Mapping[int, int], limit: int) -> dict[int, list[Event]]:
        asked.append((len(after), limit))
        return decisions(self, after, limit)

    async def test(harness: Harness) -> None:
        for name in "abcdef":
            await harness.create(name, log="all", window=10.0, default_reward=0.5)
            for _ in range(5):
                await harness.decide(name)
        monkeypatch.setattr(SQLite, "decisions", note)
        await harness.pass_time(20.0)
        assert max(bandits * limit for bandits, limit in asked) == 4
        assert [harness.service.state.bandit(name).history.learned for name in "abcdef"] == [5] * 6

    play_core(test)
