"""The live state is what a full replay of the journal gives, whatever happens."""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec.structs import replace
from support.core_service import Clock, Harness, PlayCore, contents, run
from support.mixed_bandits import NAMED, SPECS, request_for

from syndicated.service.bandits.messages import Arm, RewardRequest
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Record, decode_decided, encode
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.bandits.state import State
from syndicated.service.commit.follower import Follower
from syndicated.service.core.service import Service
from syndicated.store import Event, SQLite, StoreError


class Flaky(SQLite):
    """A journal that now and then cannot be written."""

    rng = np.random.default_rng(0)
    often = 0.0

    def append(self, events: Any, next_count: int = 0, summary: bytes = b"") -> None:
        super().append(events, next_count, summary)
        if self.rng.random() < self.often:
            raise StoreError("the journal cannot be used: full")


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_the_live_state_is_the_replayed_one(tmp_path: Path, seed: int) -> None:
    """Random requests of all kinds in concurrent batches, failing commits, restarts, and a clock that moves."""
    rng = np.random.default_rng(seed)

    async def chance(harness: Harness, ids: list[tuple[str, str]], acknowledged: dict[str, str]) -> None:
        service, name = harness.service, f"b{rng.integers(len(SPECS))}"
        kind = rng.choice(["decide", "decide", "reward", "reward", "activate", "arms", "drop", "mode", "save"])
        try:
            if kind == "decide" or not ids:
                event_id = None if rng.random() < 0.5 else f"e{rng.integers(50)}"
                asked = request_for(name, rng)
                asked = replace(asked, event_id=event_id, subject=f"s{rng.integers(9)}", played="1")
                reply = await service.decisions.decide(name, asked)
                ids.append((name, reply.decision_id))
                if event_id:
                    assert acknowledged.setdefault(name + event_id, reply.decision_id) == reply.decision_id
            elif kind == "reward":
                name, id_ = ids[rng.integers(len(ids))]
                await service.decisions.reward(name, RewardRequest(decision_id=id_, reward=float(rng.integers(2))))
            elif kind == "activate":
                await service.decisions.activate(*ids[rng.integers(len(ids))])
            elif kind == "arms":
                x = None if name in NAMED else rng.normal(size=3).tolist()
                await service.admin.put_arms("", name, [Arm(f"arm{rng.integers(5)}", x=x)])
            elif kind == "drop":
                await service.admin.drop_arm("", name, f"arm{rng.integers(9)}")
            elif kind == "mode":
                await service.admin.update("", name, {"floor": float(rng.random() / 4), "seed": int(rng.integers(3))})
            elif kind == "save":
                await service.admin.save_model(name)
        except Problem as problem:
            if problem.status not in (409, 503) and problem.kind != "unknown-arm":
                raise

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        for i, spec in enumerate(SPECS):
            await harness.create(f"b{i}", **spec)
        ids: list[tuple[str, str]] = []
        acknowledged: dict[str, str] = {}
        for part in range(6):
            await harness.service.stop()
            flaky = Flaky(tmp_path / "journal.db")
            flaky.rng, flaky.often = np.random.default_rng(seed), 0.2 * (part % 2)
            harness.service = Service(flaky, clock=harness.clock)
            harness.service.start()
            waiting: list[Awaitable[None]] = []
            for _ in range(40):
                waiting = [chance(harness, ids, acknowledged) for _ in range(int(rng.integers(1, 8)))]
                await asyncio.gather(*waiting)
            flaky.often = 0.0
            await harness.pass_time(float(rng.integers(20)))
            assert harness.contents() == harness.replayed()
        for (name, id_), found in zip(
            ids, [await harness.service.decisions.decision(*each) for each in ids], strict=True
        ):
            learned = [event for event in found.about if event.learn is not None]
            assert len(learned) <= 1, (name, id_)
        await harness.service.stop()

    run(test())


async def _fill(harness: Harness, rng: np.random.Generator) -> None:
    """A journal with a little of everything that is folded."""
    for i, spec in enumerate(SPECS):
        await harness.create(f"b{i}", **spec)
    replies: list[tuple[str, str]] = []
    for _ in range(60):
        name = f"b{rng.integers(len(SPECS))}"
        asked = [replace(request_for(name, rng), played="1") for _ in range(int(rng.integers(1, 9)))]
        made = await asyncio.gather(*[harness.service.decisions.decide(name, each) for each in asked])
        replies += [(name, reply.decision_id) for reply in made]
        for n in rng.permutation(len(replies))[: int(rng.integers(9))].tolist():
            with suppress(Problem):  # a late activation, or another reward
                await harness.reward(replies[n][1], float(rng.integers(2)), replies[n][0])
                await harness.service.decisions.activate(*replies[n])
        if rng.random() < 0.1:
            await harness.pass_time(float(rng.integers(20)))
            await harness.service.admin.update("", f"b{rng.integers(len(SPECS))}", {"seed": int(rng.integers(3))})


@pytest.mark.parametrize("seed", range(2))
def test_events_that_are_folded_together_are_folded_as_one_by_one(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several bandits and epochs, more rows and arms than the history keeps, and memory for a few decisions."""
    monkeypatch.setattr("syndicated.service.bandits.history.MAX_ROWS", 10)
    monkeypatch.setattr("syndicated.service.bandits.history.MAX_ARM_TALLIES", 3)
    rng = np.random.default_rng(seed)

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await _fill(harness, rng)
        store = SQLite(harness.file, read_only=True)
        pairs = [(event, about and Record(about)) for event, about in store.after(0)]
        alone, together, followed = State(), State(), State()
        for event, record in pairs:
            alone.fold(event, record)
        for begin, end in pairwise([0, *sorted(rng.choice(len(pairs), 20, replace=False).tolist()), len(pairs)]):
            together.fold_all(pairs[begin:end])
        for upto in (len(pairs) // 3, len(pairs)):
            own = {event.seq: (event, record) for event, record in pairs if rng.random() < 0.5}
            assert followed.follow(store, upto, own)
        assert contents(together) == contents(alone) == contents(followed) == harness.replayed()
        assert (together.seq, together.at, together.events) == (alone.seq, alone.at, alone.events)
        kinds = {event.kind for event, _ in pairs}
        assert kinds >= {"decide", "reward", "late", "activate", "close", "configure"}
        store.close()
        await harness.service.stop()

    run(test())


def test_events_that_are_folded_together_are_bounded_in_bytes(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all arms a decision may be megabytes, and those of a thousand rewards would be in memory at once."""
    monkeypatch.setattr("syndicated.service.bandits.runs.MAX_RUN_BYTES", 2000)
    fold, sizes = State._fold_run, dict[str, list[int]]()

    def watch(self: State, run: Sequence[tuple[Event, Record | None]]) -> None:
        bodies = [event.body + (record.event.body if record else b"") for event, record in run]
        assert sum(map(len, bodies[:-1])) < 2000
        sizes.setdefault(run[0][0].kind, []).append(len(run))
        fold(self, run)

    async def test(core: Harness) -> None:
        await core.create()
        made = [await core.decide() for _ in range(30)]
        for reply in made:
            await core.reward(reply.decision_id, 1.0)
        monkeypatch.setattr(State, "_fold_run", watch)
        assert core.replayed() == core.contents()
        monkeypatch.setattr(State, "_fold_run", fold)
        for kind in ("decide", "reward"):
            assert 1 < max(sizes[kind]) < 30

    play_core(test)


def test_a_decision_in_memory_is_read_once_for_all_events_about_it_that_are_folded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy for each of a thousand rewards, of a decision of megabytes, would be gigabytes."""

    async def test() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create(window=10.0, aggregate="sum")
        id_ = (await core.decide()).decision_id
        with closing(SQLite(core.file, read_only=True)) as store:
            state = State.load(store)
            for _ in range(5):
                await core.reward(id_, 0.1)
            read = Mock(side_effect=decode_decided)
            monkeypatch.setattr("syndicated.service.bandits.records.decode_decided", read)
            assert state.follow(store, store.last(), {})
        assert read.call_count == 1
        record = state.record(2)
        assert record is not None
        assert len(record.about) == 5
        await core.service.stop()

    run(test())


@pytest.mark.parametrize("kept", [10_000, 10**9], ids=["few records", "all records"])
def test_a_state_that_follows_is_the_replayed_one_whatever_it_has_in_memory(
    tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reward may be of a decision that was in memory when the reading began, and has made room since."""
    monkeypatch.setattr("syndicated.service.bandits.state.MAX_RECORD_BYTES", kept)

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        first = [await harness.decide() for _ in range(20)]
        store = SQLite(harness.file, read_only=True)
        state = State.load(store)
        rest = [await harness.decide() for _ in range(20)]
        for n, reply in enumerate([*first, *rest]):
            await harness.reward(reply.decision_id, n / 40)
        assert state.follow(store, store.last(), {})
        assert contents(state) == harness.replayed()
        assert state.bandit("b").history.learned == 40
        read = [record for record in state._records.values() if record._decided is not None]
        assert len(read) <= 2  # of each run of decisions the last, whose choice is the bandit's
        store.close()
        await harness.service.stop()

    run(test())


def test_a_state_whose_reading_was_cut_short_folds_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        for n in range(6):
            await harness.reward((await harness.decide()).decision_id, n / 6)
        store, state = SQLite(harness.file, read_only=True), State()
        own = {event.seq: (event, None) for event, _ in store.after(1, upto=6)}
        after = store.after

        def cut(*args: Any, **options: Any) -> Iterator[Any]:
            yield from islice(after(*args, **options), 3)
            raise StoreError("the journal cannot be used: lost")

        monkeypatch.setattr(store, "after", cut)
        with pytest.raises(StoreError):
            state.follow(store, store.last(), own)
        assert state.seq > max(own)
        monkeypatch.undo()
        assert state.follow(store, store.last(), own)
        assert contents(state) == harness.replayed()
        store.close()
        await harness.service.stop()

    run(test())


def test_a_state_that_met_a_pruning_half_way_says_so_until_it_is_loaded_again(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        for n in range(6):
            await harness.reward((await harness.decide()).decision_id, n / 6)
        await harness.service.stop()

    run(test())
    store = SQLite(tmp_path / "journal.db")
    late, upto = State.load(store, whole=True, upto=3), 9
    snapshots, bandit = State.load(store, whole=True, upto=upto).snapshots(), late.bandit("b").id
    with store.batch() as last:
        store.save(snapshots, keep=upto)
        pruned = store.prune(bandit, np.inf, upto)
        body = encode({"actor": "", "bandit": bandit, "count": len(pruned), "upto": upto})
        store.append([Event(last + 1, SERVICE_ID, "prune", late.at, body=body)])
    assert [late.follow(store, store.last(), {}) for _ in range(2)] == [False, False]
    assert (late.followed, late.bandit("b").history.learned) == (3, 3)
    replica = Follower(store, now=lambda: late.at, wake=lambda: None)
    replica.state = late
    replica.fold_upto(store.last())
    assert (replica.state.followed, replica.state.bandit("b").history.learned) == (store.last(), 6)
    store.close()


def test_a_state_that_read_after_a_pruning_and_before_its_event_is_loaded_again(tmp_path: Path) -> None:
    """As a replica that lags behind by more than the retention: what it has yet to read is dropped."""

    async def test() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create(retention=5.0)
        with closing(SQLite(core.file, read_only=True)) as store:
            late, in_time = State.load(store), State.load(store)
            for _ in range(3):
                await core.reward((await core.decide()).decision_id, 1.0)
            await core.decide()  # the last event, which no pruning drops
            await core.service.admin.save_model("b")
            assert in_time.follow(store, store.last(), {})
            await core.pass_time(10.0)
            (pruning,) = await core.service.admin.audit(1)
            for upto in (pruning.seq - 1, pruning.seq):
                assert in_time.follow(store, upto, {})
            assert late.follow(store, pruning.seq - 1, {})
            assert not late.follow(store, pruning.seq, {})
            assert contents(State.load(store)) == contents(in_time) == core.contents()
        await core.service.stop()

    run(test())
