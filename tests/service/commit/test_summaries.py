"""What one process tells the others of its batches: they fold it in place of the events, and are equal to the bit."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.core_service import ARMS, ASK, HANG_SECONDS, VECTOR, Clock, contents, refused, run
from support.mixed_bandits import SPECS, request_for

from syndicated._compiled import load_all
from syndicated.service.bandits import summaries
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import ChoiceRecord, Decided, Record, encode
from syndicated.service.bandits.runs import FeedbackRun
from syndicated.service.bandits.state import State
from syndicated.service.bandits.summaries import (
    Summarized,
    SummarizedDecisions,
    SummarizedFeedback,
    read_summary,
    summarize,
)
from syndicated.service.commit import follower
from syndicated.service.core.service import Service
from syndicated.store import Event, open_store
from syndicated.store._postgres import Postgres


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    load_all()


@pytest.fixture
def tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes tell others of all that they write, from the first event on."""
    monkeypatch.setattr(follower, "OTHERS_SECONDS", float("inf"))
    monkeypatch.setattr(follower, "MIN_SUMMARIZED", 1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events that a process reads to fold them."""
    after, found = Postgres.after, list[Event]()

    def watch(self: Postgres, *given: Any, **named: Any) -> Iterator[Any]:
        for pair in after(self, *given, **named):
            found.append(pair[0])
            yield pair

    monkeypatch.setattr(Postgres, "after", watch)
    return found


def started(address: str, **given: Any) -> Service:
    service = Service(open_store(address), **given)
    service.start()
    return service


async def ask(rng: np.random.Generator, services: list[Service], ids: list[tuple[str, str]]) -> None:
    """A decision of some bandit by some replica, which may repeat one, or a reward of one of the last."""
    service, name = services[rng.integers(len(services))], f"b{rng.integers(len(SPECS))}"
    with suppress(Problem):
        if rng.random() < 0.5 or not ids:
            event_id = None if rng.random() < 0.7 else f"e{rng.integers(50)}"
            asked = replace(request_for(name, rng), event_id=event_id, subject=f"s{rng.integers(9)}", played="1")
            ids.append((name, (await service.decisions.decide(name, asked)).decision_id))
        else:
            name, id_ = ids[rng.integers(max(0, len(ids) - 60), len(ids))]
            await service.decisions.reward(name, RewardRequest(decision_id=id_, reward=float(rng.integers(2))))
            if rng.random() < 0.5:
                await service.decisions.activate(name, id_)


async def fold_all(*services: Service) -> None:
    for service in services:
        await service.read(lambda batch: None)


def damaged(data: bytes) -> list[Summarized]:
    return read_summary(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.usefixtures("tells")
@pytest.mark.parametrize("arrives", ["whole", "damaged", "now and then"])
@pytest.mark.parametrize("seed", range(2))
def test_replicas_that_tell_each_other_what_they_write_are_equal_to_the_bit_and_so_is_a_replay(
    seed: int, arrives: str, database: Callable[[], str], read: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bandits of many kinds, several epochs, repeated and refused requests, in batches of all replicas at once."""
    monkeypatch.setattr("syndicated.service.bandits.history.MAX_ROWS", 10)
    rng, told = np.random.default_rng(seed), 0

    def arrived(data: bytes) -> list[Summarized]:
        nonlocal told
        whole = arrives == "whole" or (arrives == "now and then" and data[0] % 2 == 0)
        parts = read_summary(data) if whole else damaged(data)
        told += len(parts)
        return parts

    monkeypatch.setattr("syndicated.service.bandits.upcoming.read_summary", arrived)

    async def test(address: str) -> None:
        services = [started(address) for _ in range(3)]
        for i, spec in enumerate(SPECS):
            await services[0].admin.create("", Create(name=f"b{i}", spec=Spec(**{"features": VECTOR, **spec})))
        await fold_all(*services)
        ids: list[tuple[str, str]] = []
        for n in range(40):
            await asyncio.gather(*(ask(rng, services, ids) for _ in range(int(rng.integers(1, 25)))))
            if n % 10 == 9:
                await services[n % 3].admin.update("", f"b{rng.integers(len(SPECS))}", {"seed": n})
        await fold_all(*services)
        whole = open_store(address)
        kinds = [event.kind for event in read]
        assert kinds.count("decide") + kinds.count("reward") > 0 if arrives == "damaged" else told > 50
        if arrives == "whole":
            assert not {"decide", "reward", "activate"} & set(kinds)
        replay = contents(State.load(whole, whole=True))
        assert all(contents(service.state) == replay for service in services)
        whole.close()
        await asyncio.gather(*(service.stop() for service in services))

    run(test(database()))


@pytest.mark.usefixtures("tells")
@pytest.mark.parametrize("seed", range(3))
def test_replicas_are_equal_to_the_bit_whatever_is_erased_pruned_or_never_told(
    seed: int, database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory and short steps, windows that close, new epochs, and replicas that start again."""
    rng, clock = np.random.default_rng(seed), Clock()
    for name, least in (
        ("store._postgres.MAX_SUMMARIES", 3),
        ("service.bandits.upcoming.MAX_READ_EVENTS", 0),
        ("service.bandits.upcoming.MAX_NUMBERS", 10),
        ("service.bandits.state.MAX_RECORD_BYTES", 40_000),
        ("service.bandits.summaries.MAX_PART", 2),
        ("service.commit.follower.FOLD_SECONDS", 0.0),
    ):
        if rng.random() < 0.5:
            monkeypatch.setattr(f"syndicated.{name}", least)

    async def change(services: list[Service], address: str, n: int, store: Postgres) -> None:
        """What others do meanwhile."""
        service = services[rng.integers(3)]
        if rng.random() < 0.2:
            store._run("DELETE FROM summaries")
        if n % 6 == 5:
            await service.group_commit.snapshots.save()
            for each in services:
                each.windows._pruned.clear()  # which looks again, and drops what is older than the retention
        if n % 12 == 6:
            await service.admin.update("", f"b{rng.integers(len(SPECS))}", {"seed": n})
        if n % 15 == 7:
            await service.stop()
            services[services.index(service)] = started(address, clock=clock)

    async def test(address: str) -> None:
        services, ids = [started(address, clock=clock) for _ in range(3)], list[tuple[str, str]]()
        for i, spec in enumerate(SPECS):
            given = {"features": VECTOR, "retention": 60.0 if i % 2 else None, **spec}
            await services[0].admin.create("", Create(name=f"b{i}", spec=Spec(**given)))
        with closing(open_store(address)) as store:
            assert isinstance(store, Postgres)
            for n in range(40):
                asked = [ask(rng, services, ids) for _ in range(int(rng.integers(1, 25)))]
                erased = [services[n % 3].admin.erase("", f"s{rng.integers(9)}")] if n % 8 == 4 else []
                await asyncio.gather(*asked, *erased)
                await change(services, address, n, store)
                clock.now += float(rng.choice([0.0, 1.0, 10.0]))
            async with asyncio.timeout(HANG_SECONDS):
                while len({(await service.read(lambda batch: batch.state.seq)) for service in services}) > 1:
                    pass  # a window that has passed was closed meanwhile
            kinds = {event.kind for event, _ in store.after(0)}
            assert {"decide", "reward", "close", "erase", "prune", "configure"} <= kinds
            loaded = contents(State.load(store))
            assert all(contents(service.state) == loaded for service in services)
        await asyncio.gather(*(service.stop() for service in services))

    run(test(database()))


def _made(seq: int, **own: Any) -> Record:
    given = {"epoch": 1, "version": 1, "by": "agent", "arm": "a", "place": 0, "count": 2, "x": b"x", "propensity": 0.5}
    decided = Decided(**{**given, **own})
    return Record(Event(seq, 7, "decide", 0.5 + seq, body=encode(decided)), decided)


def _about(seq: int, record: Record, kind: str = "reward", bandit: int = 7) -> tuple[Event, Record]:
    return Event(seq, bandit, kind, 0.5, record.event.seq, 1.0, "key", "ann", b"body"), record


def test_a_summary_has_decisions_and_what_is_about_them_in_parts_whose_numbers_follow_each_other() -> None:
    made = [_made(n, arm="ab"[n % 2], explored=n == 3) for n in (1, 2, 3, 5)]
    choice = ChoiceRecord({"alpha": 0.5}, (1,), (0.3,))
    made += [_made(6, epoch=9, default=0.5, by="caller", agrees=True, choice=choice)]
    pairs = [(record.event, record) for record in made]
    pairs += [_about(7, made[0]), _about(8, made[1], "late"), _about(9, made[4], "activate")]
    pairs += [_about(10, made[0], bandit=8), _about(12, made[1])]
    parts = read_summary(summarize(pairs))
    assert [(each.first, each.last) for each in parts] == [(1, 3), (5, 5), (6, 6), (7, 8), (9, 9), (10, 10), (12, 12)]
    first, _, other, feedback, activation = parts[:5]
    assert isinstance(first, SummarizedDecisions)
    assert (first.bandit, first.run.epoch, first.run.closable) == (7, 1, 0)
    assert first.run.columns.arm == ["b", "a", "b"]
    assert first.run.columns.explored == [False, False, True]
    assert first.run.columns.at == [1.5, 2.5, 3.5]
    assert isinstance(other, SummarizedDecisions)
    assert (other.run.epoch, other.run.closable, other.run.columns.agreed) == (9, 6, [True])
    assert (first.run.choice, other.run.choice) == (None, choice)
    assert isinstance(feedback, SummarizedFeedback)
    assert (feedback.bandit, feedback.at, feedback.kind) == (7, 0.5, "reward")
    assert feedback.events == [pair[0] for pair in pairs[5:7]]
    assert feedback.run == FeedbackRun.of(pairs[5:7], epoch=1)
    assert (feedback.run.lates, feedback.run.columns.arm) == (1, ["b", "a"])
    assert isinstance(activation, SummarizedFeedback)
    assert (activation.run.epoch, activation.kind) == (9, "activate")
    assert (activation.run.columns.by, activation.run.columns.choice) == (["caller"], [None])  # not the tuner's merit


def test_a_reward_that_the_agent_does_not_learn_from_makes_no_new_version() -> None:
    run = FeedbackRun.of([_about(3, _made(1)), _about(4, _made(2, by="holdout"))], epoch=1)
    assert (run.version, run.columns.by) == (3, ["agent", "holdout"])


def test_a_summary_that_would_be_large_has_the_first_parts_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    record = _made(1)
    pairs = [_about(n, record) for n in range(2, 360)]
    whole = read_summary(summarize(pairs))
    assert [(part.first, part.last) for part in whole] == [(2, 101), (102, 201), (202, 301), (302, 359)]
    monkeypatch.setattr(summaries, "MAX_BYTES", len(summarize(pairs[:220])))
    data = summarize(pairs)
    assert read_summary(data) == whole[:2]
    assert len(data) <= summaries.MAX_BYTES
    monkeypatch.setattr(summaries, "MAX_BYTES", 10)
    assert summarize(pairs) == b""


def test_events_that_are_no_decisions_and_not_about_any_are_left_to_be_read() -> None:
    record = _made(1)
    others = [Event(2, 0, "create", 0.5), Event(3, 7, "closed", 0.5), Event(4, 7, "reward", 0.5, 99)]
    parts = read_summary(summarize([(record.event, record), *((event, None) for event in others)]))
    assert [(part.first, part.last) for part in parts] == [(1, 1)]


def test_of_a_decision_its_reward_is_told_what_is_learned_from() -> None:
    record = _made(1, arms=["a", "b"], X=bytes(5000), context={"hour": 3}, params={"alpha": 0.5})
    data = summarize([_about(2, record)])
    (part,) = read_summary(data)
    assert isinstance(part, SummarizedFeedback)
    columns = part.run.columns
    assert (columns.arm, columns.x, columns.params, part.run.epoch) == (["a"], [b"x"], [{"alpha": 0.5}], 1)
    assert len(data) < 200


def test_a_summary_that_is_damaged_or_of_another_version_has_no_parts() -> None:
    data = summarize([_about(2, _made(1))])
    assert len(read_summary(data)) == 1
    assert not any(map(damaged, [data, data[:9]]))
    unknown = encode([[99, 1, 2]])
    assert read_summary(summaries._checksum(unknown) + unknown) == []
    with pytest.MonkeyPatch.context() as later:
        later.setattr(summaries, "SUMMARY_VERSION", 2)
        assert read_summary(data) == []
    assert read_summary(b"") == []


def test_a_process_tells_others_of_large_batches_once_they_have_written(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    append, told = Postgres.append, list[tuple[int, int]]()

    def watch(self: Postgres, events: Any, next_count: int = 0, summary: bytes = b"") -> None:
        told.append((len(events), len(summary)))
        append(self, events, next_count, summary)

    async def ask_all(service: Service, count: int) -> int:
        told.clear()
        await asyncio.gather(*(service.decisions.decide("b", ASK) for _ in range(count)))
        return sum(size for _, size in told)

    async def test(address: str) -> None:
        first, other = started(address), started(address)
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(follower, "POLL_SECONDS", 0.0)
        await fold_all(first, other)
        monkeypatch.setattr(Postgres, "append", watch)
        monkeypatch.setattr(first.group_commit.follower, "_others_wrote", -np.inf)
        assert not await ask_all(first, 20)
        assert await ask_all(other, 20)  # it has folded what the first one wrote
        await fold_all(first)
        assert await ask_all(first, 20)
        assert not await ask_all(first, follower.MIN_SUMMARIZED - 1)
        monkeypatch.undo()
        monkeypatch.setattr(Postgres, "append", watch)
        monkeypatch.setattr(follower, "OTHERS_SECONDS", 0.0)
        assert not await ask_all(first, 20)
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_a_reward_of_a_decision_that_only_its_maker_has_in_memory_is_learned_by_all(
    database: Callable[[], str], read: list[Event]
) -> None:
    async def test(address: str) -> None:
        maker, other, third = services = [started(address) for _ in range(3)]
        await maker.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        reply = await maker.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        await fold_all(*services)
        seq = maker.decisions.ids.seq(reply.decision_id)
        assert [service.state.record(seq) is None for service in services] == [False, True, True]
        await other.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=1.0))
        await fold_all(*services)
        assert [service.state.bandit("b").history.learned for service in services] == [1, 1, 1]
        assert not {"decide", "reward"} & {event.kind for event in read}
        record = maker.state.record(seq)
        assert record is not None
        assert [event.subject for event in record.about] == ["ann"]
        with refused(409, "conflict"):
            await third.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=0.0))
        await maker.admin.erase("", "ann")
        with closing(open_store(address)) as store:
            assert store.summaries(0, store.last())[0] == []
            assert contents(State.load(store)) == contents(maker.state)
        await asyncio.gather(*(service.stop() for service in services))

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_more_summaries_than_are_read_at_once_are_folded_in_several_looks(
    database: Callable[[], str], read: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.store._postgres.MAX_SUMMARIES", 3)

    async def test(address: str) -> None:
        first, other = started(address), started(address)
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(follower, "POLL_SECONDS", 600.0)
        monkeypatch.setattr(follower, "MAX_FOLLOW_SECONDS", 600.0)
        await fold_all(other)
        for _ in range(10):
            await first.decisions.decide("b", ASK)
        last = first.decisions.ids.seq((await first.decisions.decide("b", ASK)).decision_id)
        other.group_commit.follower._hear()
        async with asyncio.timeout(HANG_SECONDS):
            while other.state.seq < last:
                await asyncio.sleep(0)
        assert other.state.bandit("b").history.count == 11
        assert "decide" not in {event.kind for event in read}
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_a_part_that_a_state_has_folded_a_piece_of_is_read_from_there_on(
    database: Callable[[], str], read: list[Event]
) -> None:
    async def test(address: str) -> None:
        service = started(address)
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await asyncio.gather(*(service.decisions.decide("b", ASK) for _ in range(8)))
        with closing(open_store(address)) as store:
            (summary,), _ = store.summaries(0, store.last())
            (part,) = read_summary(summary)
            assert part.last - part.first == 7
            state = State.load(store, whole=True, upto=part.first + 2)
            read.clear()
            assert state.follow(store, part.last, {})
            assert [event.seq for event in read] == list(range(part.first + 3, part.last + 1))
            assert contents(state) == contents(State.load(store, whole=True))
        await service.stop()

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_decisions_of_an_epoch_that_another_process_has_ended_are_not_counted_in_the_next_one(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "POLL_SECONDS", 600.0)
    monkeypatch.setattr(follower, "MAX_FOLLOW_SECONDS", 600.0)
    monkeypatch.setattr(follower.Follower, "listen", lambda self, ended: None)

    async def test(address: str) -> None:
        first, late = started(address), started(address)
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await fold_all(late)
        epoch = (await first.admin.update("", "b", {"seed": 1})).epoch
        assert (await late.decisions.decide("b", ASK)).version < epoch
        await fold_all(first, late)
        assert [service.state.bandit("b").history.count for service in (first, late)] == [0, 0]
        with closing(open_store(address)) as store:
            assert contents(State.load(store, whole=True)) == contents(first.state) == contents(late.state)
        await asyncio.gather(first.stop(), late.stop())

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_an_administrators_request_sees_all_that_was_committed_before_it_also_after_many_summaries(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.store._postgres.MAX_SUMMARIES", 3)
    monkeypatch.setattr(follower, "POLL_SECONDS", 600.0)
    monkeypatch.setattr(follower, "MAX_FOLLOW_SECONDS", 600.0)
    monkeypatch.setattr(follower.Follower, "listen", lambda self, ended: None)

    async def test(address: str) -> None:
        first, other = started(address), started(address)
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await fold_all(other)
        for _ in range(10):
            await first.decisions.decide("b", ASK)
        await first.admin.update("", "b", {"window": 77.0})
        await other.admin.update("", "b", {"holdout": 0.1})
        spec = other.state.bandit("b").spec
        assert (spec.window, spec.holdout, other.state.bandit("b").history.count) == (77.0, 0.1, 10)
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_a_reward_whose_decision_was_pruned_before_it_was_read_is_learned_from_a_snapshot(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a replica that was stopped until what it was told of was dropped, and what it missed was pruned."""
    monkeypatch.setattr(follower, "POLL_SECONDS", 600.0)
    monkeypatch.setattr(follower, "MAX_FOLLOW_SECONDS", 600.0)
    monkeypatch.setattr(follower.Follower, "listen", lambda self, ended: None)
    clock = Clock()

    async def test(address: str) -> None:
        first, late = services = [started(address, clock=clock) for _ in range(2)]
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR, retention=100.0)))
        await fold_all(first, late)
        await late.decisions.decide("b", ASK)
        reply = await first.decisions.decide("b", ASK)
        await fold_all(first, late)
        clock.now += 90
        await first.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=1.0))
        await fold_all(first)
        await first.group_commit.snapshots.save()
        with closing(open_store(address)) as store:
            upto = store.last()
            store._run("DELETE FROM summaries")  # type: ignore[attr-defined]
            clock.now += 20
            first.windows._pruned.clear()
            while "prune" not in {event.kind for event, _ in store.after(upto)}:
                await fold_all(first)
            late.group_commit.follower.fold_upto(upto)
            await fold_all(late)
            assert [service.state.bandit("b").history.learned for service in services] == [1, 1]
            assert contents(late.state) == contents(first.state) == contents(State.load(store))
        await asyncio.gather(*(service.stop() for service in services))

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_windows_of_decisions_that_are_over_are_closed_without_holding_these(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a replica that did not make them, and so does not have them in memory."""
    clock, hold, held = Clock(), Postgres.hold, list[int]()

    def watch(self: Postgres, refs: Any, *rest: Any) -> Any:
        held.extend(refs)
        return hold(self, held, *rest)

    async def test(address: str) -> None:
        maker, other = services = [started(address, clock=clock) for _ in range(2)]
        await maker.admin.create("", Create(name="b", spec=Spec(features=VECTOR, window=10.0, default_reward=0.0)))
        replies = await asyncio.gather(*(maker.decisions.decide("b", ASK) for _ in range(6)))
        for reply in replies[:5]:
            await maker.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=1.0))
        await fold_all(*services)
        await maker.stop()
        monkeypatch.setattr(Postgres, "hold", watch)
        clock.now += 20
        await fold_all(other, other)
        while other.windows.has_backlog:
            await fold_all(other)
        assert held == [other.decisions.ids.seq(replies[5].decision_id)]
        assert other.state.bandit("b").history.learned == 6
        await other.stop()

    run(test(database()))


@pytest.mark.usefixtures("tells")
def test_a_summary_that_cannot_be_folded_is_damage_and_nothing_is_decided_after_it(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(address: str) -> None:
        first, other = started(address), started(address)
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await fold_all(first, other)
        monkeypatch.setattr(follower, "POLL_SECONDS", 600.0)
        monkeypatch.setattr(follower, "MAX_FOLLOW_SECONDS", 600.0)
        await first.decisions.decide("b", ASK)
        with monkeypatch.context() as failing:
            failing.setattr(Bandit, "fold_decisions", lambda *given: 1 / 0)
            with refused(503, "unavailable", "the journal is damaged: event .* of bandit .*, kind 'decide'"):
                await other.read(lambda batch: None)
        assert other.state.damage
        with refused(503, "unavailable", "the journal is damaged"):
            await other.decisions.decide("b", ASK)
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))
