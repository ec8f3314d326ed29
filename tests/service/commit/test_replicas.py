"""Several processes on one journal."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import to_builtins
from psycopg.pq import TransactionStatus
from support.core_service import ARMS, ASK, HANG_SECONDS, VECTOR, Clock, contents, exported, latest, refused, run

from syndicated._compiled import load_all
from syndicated.service.bandits.messages import Arm, Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.records import decode, encode
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.follower import Follower
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.service.commit.limits import Limits
from syndicated.service.core.relearning import Relearning
from syndicated.service.core.service import Service
from syndicated.store import Event, StoreError, open_store
from syndicated.store._postgres import Postgres


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """As `syndicated serve` does before it answers: a transaction is no place to load kernels in."""
    load_all()


def test_what_takes_several_reads_is_read_at_one_moment(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    after, outside = Postgres.after, 0

    def watch(
        self: Postgres, seq: int, bandit: Any = None, upto: Any = None, numbers: Any = None, *of: Any, **how: Any
    ) -> Any:
        nonlocal outside
        outside += numbers != [] and self._db.info.transaction_status != TransactionStatus.INTRANS
        return after(self, seq, bandit, upto, numbers, *of, **how)

    monkeypatch.setattr(Postgres, "after", watch)
    monkeypatch.setattr("syndicated.service.bandits.upcoming.MAX_READ_EVENTS", 0)

    async def test(address: str) -> None:
        first, idle = Service(open_store(address)), Service(open_store(address))
        first.start()
        idle.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        async with asyncio.timeout(HANG_SECONDS):
            while "b" not in idle.state.names:
                await asyncio.sleep(0)
        await asyncio.gather(first.stop(), idle.stop())

    run(test(database()))
    assert outside == 0


def test_a_replica_folds_what_others_wrote_and_hears_of_a_change_when_idle(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.commit.follower.POLL_SECONDS", 600.0)

    async def test(address: str) -> None:
        first, other = Service(open_store(address)), Service(open_store(address))
        with monkeypatch.context() as deaf:
            deaf.setattr(Follower, "listen", lambda self, ended: None)
            first.start()
        other.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        async with asyncio.timeout(HANG_SECONDS):
            while "b" not in other.state.names:
                await asyncio.sleep(0)
        for _ in range(3):
            await other.decisions.decide("b", ASK)
        reply = await first.decisions.decide("b", ASK)
        counts = [await service.read(lambda batch: batch.state.bandit("b").history.count) for service in (first, other)]
        assert counts == [4, 4]
        assert (await other.decisions.decision("b", reply.decision_id)).event.seq == other.state.seq
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))


def test_numbers_are_reserved_ahead_while_callers_ask_on_and_given_up_when_they_stop(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.commit.follower.POLL_SECONDS", 600.0)
    monkeypatch.setattr("syndicated.service.commit.follower.MAX_FOLLOW_SECONDS", 600.0)
    monkeypatch.setattr("syndicated.service.commit.group_commit.TICK_SECONDS", 600.0)
    monkeypatch.setattr("syndicated.service.commit.group_commit.COLLECT_SHARE", 100)
    monkeypatch.setattr("syndicated.service.commit.group_commit.MAX_COLLECT_SECONDS", 1.0)
    entry, began_ahead = Postgres.entry, list[bool]()

    def watch(self: Postgres, count: int) -> Any:
        began_ahead.append(self.is_ahead)
        return entry(self, count)

    async def test(address: str) -> None:
        service, other = Service(open_store(address)), open_store(address)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(Postgres, "entry", watch)

        async def ask() -> None:
            for _ in range(5):
                await service.decisions.decide("b", ASK)

        await asyncio.gather(ask(), ask())
        async with asyncio.timeout(HANG_SECONDS):
            while service.group_commit.store.is_ahead:
                await asyncio.sleep(0)
        assert any(began_ahead)
        assert not began_ahead[0]
        assert other.settled() >= other.last()
        await service.stop()
        other.close()

    run(test(database()))


@pytest.mark.parametrize("held", ["numbers", "batch"])
def test_what_the_clock_asks_for_waits_a_moment_for_another_process_and_is_put_off(
    held: str, database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions wait behind it: another process may be stopped for long while it holds something."""
    monkeypatch.setattr("syndicated.service.commit.group_commit.MIN_PATIENCE_SECONDS", 0.001)

    async def test(address: str) -> None:
        group_commit, other, ran = GroupCommit(open_store(address), Limits()), open_store(address), list[Batch]()
        scheduled: Any = SimpleNamespace(due=lambda: [ran.append] * 2, has_backlog=True)
        with other.entry(1) if held == "numbers" else other.batch():
            await group_commit._run_scheduled(scheduled)
            assert group_commit.ready
            assert not ran
            assert not group_commit._queue
            assert group_commit._patience == 0.002
            assert group_commit._last_tick > 0
        group_commit._last_tick = 0.0
        await group_commit._run_scheduled(scheduled)
        assert len(ran) == 2
        assert group_commit._patience == 0.001
        await group_commit.stop()
        other.close()

    run(test(database()))


@pytest.fixture
def _waits_for_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch waits until all whom the last one has answered have asked again; nobody looks at what others wrote.

    Where a look is due, as on a busy machine, no numbers are reserved ahead.
    """
    monkeypatch.setattr("syndicated.service.commit.follower.POLL_SECONDS", 600.0)
    monkeypatch.setattr("syndicated.service.commit.follower.MAX_FOLLOW_SECONDS", 600.0)
    monkeypatch.setattr("syndicated.service.commit.group_commit.COLLECT_SHARE", 1e9)
    monkeypatch.setattr("syndicated.service.commit.group_commit.MAX_COLLECT_SECONDS", HANG_SECONDS)
    monkeypatch.setattr(Follower, "listen", lambda self, ended: None)


async def _one_with_numbers_ahead(address: str, spec: Spec) -> tuple[Service, Service, str]:
    """Two services, the first of which holds numbers for its next batch, and a decision that it has made."""
    first = Service(open_store(address))
    first.start()
    await first.admin.create("", Create(name="b", spec=spec))
    other = Service(open_store(address))
    other.start()

    async def ask() -> str:
        reply = await first.decisions.decide("b", ASK)
        await first.decisions.decide("b", ASK)
        return reply.decision_id

    decided, _ = await asyncio.gather(ask(), ask())
    assert first.group_commit.store.is_ahead
    return first, other, decided


def _rewards(address: str) -> list[Event]:
    store = open_store(address)
    rewards = [event for event, _ in store.after(0) if event.kind == "reward"]
    store.close()
    return rewards


@pytest.mark.usefixtures("_waits_for_callers")
def test_a_reward_comes_after_its_decision_also_if_its_number_was_reserved_before(database: Callable[[], str]) -> None:
    async def test(address: str) -> None:
        first, other, _ = await _one_with_numbers_ahead(address, Spec(features=VECTOR))
        for key in None, "e":
            decision = await other.decisions.decide("b", msgspec.structs.replace(ASK, event_id=key))
            named = {"decision_id": decision.decision_id} if key is None else {"event_id": key}
            assert first.group_commit.store.is_ahead
            reward = first.decisions.reward("b", RewardRequest(reward=1.0, **named))
            await asyncio.gather(reward, first.decisions.decide("b", ASK))
        await asyncio.gather(first.stop(), other.stop())
        rewards = _rewards(address)
        assert len(rewards) == 2
        assert all(event.ref is not None and event.ref < event.seq for event in rewards)

    run(test(database()))


@pytest.mark.usefixtures("_waits_for_callers")
def test_the_last_of_several_rewards_is_the_one_that_came_last_also_by_its_number(database: Callable[[], str]) -> None:
    async def test(address: str) -> None:
        spec = Spec(features=VECTOR, window=600.0, aggregate="last")
        first, other, decided = await _one_with_numbers_ahead(address, spec)
        await other.decisions.reward("b", RewardRequest(decision_id=decided, reward=1.0))
        reward = first.decisions.reward("b", RewardRequest(decision_id=decided, reward=2.0))
        await asyncio.gather(reward, first.decisions.decide("b", ASK))
        await asyncio.gather(first.stop(), other.stop())
        assert [decode(event.body)["value"] for event in _rewards(address)] == [1.0, 2.0]

    run(test(database()))


def test_a_name_that_another_process_has_just_made_free_can_be_used_at_once(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.commit.follower.POLL_SECONDS", 600.0)
    monkeypatch.setattr(Follower, "listen", lambda self, ended: None)

    async def test(address: str) -> None:
        first, other = Service(open_store(address)), Service(open_store(address))
        first.start()
        other.start()
        created = await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        assert (await other.admin.bandit("b")).epoch == created.epoch
        await first.admin.retire("", "b")
        assert (await other.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))).epoch > created.epoch
        await asyncio.gather(first.stop(), other.stop())

    run(test(database()))


def test_a_service_that_fails_within_a_batch_leaves_the_journal_to_others(database: Callable[[], str]) -> None:
    def die(batch: Batch) -> None:
        raise SystemExit

    async def test(address: str) -> None:
        service, other = Service(open_store(address)), Service(open_store(address))
        service.start()
        other.start()
        with refused(503, "stopped"):
            await service.group_commit.submit(die)
        assert not service.group_commit.ready
        with refused(503, "stopped"):
            await service.read(lambda batch: None)
        await other.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        await asyncio.gather(service.stop(), other.stop())

    run(test(database()))


def test_a_log_that_is_learned_again_has_what_is_committed_after_a_larger_number(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, transaction = Relearning.page, ExitStack()

    async def test(address: str) -> None:
        service, one, other = Service(open_store(address)), open_store(address), open_store(address)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features={"kind": "open", "dim": 2})))
        for _ in range(2):
            await service.decisions.decide("b", DecideRequest(arms=["a"]))
        body = encode({"value": 1.0, "outcome": "learned"})
        first, second = sorted(event.seq for event in await latest(service, "b", 2))
        id_ = service.state.bandit("b").id

        def write(self: Relearning, batch: Batch) -> Any:
            monkeypatch.setattr(Relearning, "page", page)
            (smaller,) = transaction.enter_context(one.entry(1))
            with other.entry(1) as numbers:
                other.append([Event(numbers[0], id_, "reward", batch.now, second, 1.0, None, None, body)])
            found = self.page(batch)
            one.append([Event(smaller, id_, "reward", batch.now, first, 1.0, None, None, body)])
            transaction.close()
            return found

        monkeypatch.setattr(Relearning, "page", write)
        await service.admin.relearn("", "b", {"policy": {"name": "ArmTS"}})
        assert service.state.bandit("b").agent.policy.model.count == 2  # type: ignore[attr-defined]
        await service.stop()
        one.close()
        other.close()

    run(test(database()))


def test_a_reward_that_waits_for_its_decision_until_the_window_has_passed_is_late(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that it waited for may have closed the window, without an event if there was nothing to learn."""
    clock, hold = Clock(), Postgres.hold

    def wait(self: Postgres, *refs: Any) -> Any:
        clock.now += 11.0
        return hold(self, *refs)

    async def test(address: str) -> None:
        service = Service(open_store(address), clock=clock)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR, window=10.0, aggregate="sum")))
        id_ = (await service.decisions.decide("b", ASK)).decision_id
        monkeypatch.setattr(Postgres, "hold", wait)
        reply = await service.decisions.reward("b", RewardRequest(decision_id=id_, reward=1.0))
        assert reply.outcome == "late"
        await service.stop()

    run(test(database()))


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_reward_that_another_process_writes_during_an_erasure_is_learned_and_erased(
    attempts: int, database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.admin.MAX_ERASE_ATTEMPTS", attempts)
    last_about = Postgres.last_about

    async def test(address: str) -> None:
        service, other = Service(open_store(address)), open_store(address)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features={"kind": "open", "dim": 2})))
        await service.decisions.decide("b", DecideRequest(arms=["a"], subject="ann"))
        (made,) = await latest(service, "b", 1)

        def write(self: Postgres, subject: str) -> int:
            found, body = last_about(self, subject), encode({"value": 1.0, "outcome": "learned"})
            monkeypatch.setattr(Postgres, "last_about", last_about)
            with other.entry(1) as numbers:
                other.hold([made.seq])
                other.append([Event(numbers[0], made.bandit, "reward", made.at, made.seq, 1.0, None, "ann", body)])
            return found

        monkeypatch.setattr(Postgres, "last_about", write)
        assert await service.admin.erase("", "ann") == 2
        assert await service.read(lambda batch: batch.state.bandit("b").history.learned) == 1
        assert other.last_about("ann") == 0
        assert contents(State.load(other)) == contents(service.state)
        await service.stop()
        other.close()

    run(test(database()))


def test_what_one_replica_erases_no_other_keeps(database: Callable[[], str]) -> None:
    async def test() -> None:
        address = database()
        first, late = Service(open_store(address)), Service(open_store(address))
        for service in (first, late):
            service.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        reply = await first.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        other = await first.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        await first.decisions.reward("b", RewardRequest(decision_id=reply.decision_id, reward=1.0))
        assert (await late.decisions.decision("b", other.decision_id)).event.subject == "ann"
        await late.stop()
        await first.admin.erase("", "ann")
        late = Service(open_store(address))
        late.start()
        for service in (late, first):
            with refused(404, "unknown-decision"):
                await service.decisions.reward("b", RewardRequest(decision_id=other.decision_id, reward=1.0))
        again = await late.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="bob"))
        assert (await first.decisions.decision("b", again.decision_id)).event.subject == "bob"
        await late.admin.erase("", "bob")
        with refused(404, "unknown-decision"):
            await first.decisions.reward("b", RewardRequest(decision_id=again.decision_id, reward=1.0))
        for service in (first, late):
            await service.read(lambda batch: None)
        assert contents(first.state) == contents(late.state)
        for service in (first, late):
            await service.stop()

    run(test())


def test_who_erases_keeps_its_state_and_others_load_theirs_again(database: Callable[[], str]) -> None:
    """To load a large one takes seconds, while nobody is answered."""

    async def test() -> None:
        address = database()
        first, other = Service(open_store(address)), Service(open_store(address))
        for service in (first, other):
            service.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        reply = await first.decisions.decide("b", DecideRequest(arms=list(ARMS), subject="ann"))
        await other.read(lambda batch: None)
        before = first.state, other.state
        await first.admin.erase("", "ann")
        for service in (first, other):
            await service.read(lambda batch: None)
        assert (first.state is before[0], other.state is before[1]) == (True, False)
        assert contents(first.state) == contents(other.state)
        with refused(404, "unknown-decision"):
            await first.decisions.decision("b", reply.decision_id)
        await asyncio.gather(first.stop(), other.stop())

    run(test())


def test_replicas_agree_to_the_bit_about_named_arms_and_their_models(database: Callable[[], str]) -> None:
    async def test() -> None:
        address = database()
        replicas = [Service(open_store(address)) for _ in range(2)]
        for service in replicas:
            service.start()
        await replicas[0].admin.create("", Create(name="b"))
        open_ids = []
        for t in range(40):
            service, other = replicas[t % 2], replicas[(t + 1) % 2]
            arms: list[str | Arm] = [f"arm{(t + k) % 7}" for k in range(4)]
            asked = DecideRequest(arms=arms, context={"hour": t % 24, "country": "fr" if t % 3 else "de"})
            open_ids.append((await service.decisions.decide("b", asked)).decision_id)
            if t % 4 == 3:
                rewards = [RewardRequest(decision_id=open_ids.pop(0), reward=float(t % 2)) for _ in range(2)]
                for late in reversed(rewards):
                    await other.decisions.reward("b", late)
            if t % 10 == 9:
                known = await other.read(lambda batch: sorted(map(str, batch.state.bandit("b").known_arms)))
                await other.admin.drop_arm("", "b", known[0])
        for service in replicas:
            await service.read(lambda batch: None)
        assert contents(replicas[0].state) == contents(replicas[1].state)
        assert replicas[0].state.bandit("b").agent.player.books[0].free
        for service in replicas:
            await service.stop()
        whole = open_store(address)
        assert contents(State.load(whole, whole=True)) == contents(replicas[0].state)
        whole.close()

    run(test())


def test_replicas_decide_at_the_same_time_with_draws_of_their_own_and_fold_in_one_order(
    database: Callable[[], str],
) -> None:
    """Also while another process has begun to write and does not end."""

    async def test() -> None:
        address = database()
        replicas = [Service(open_store(address)) for _ in range(2)]
        for service in replicas:
            service.start()
        await replicas[0].admin.create("", Create(name="b", spec=Spec(features=VECTOR, mode="off", fallback="uniform")))
        waits = open_store(address)
        with waits.entry(1) as (number,):
            asked = [service.decisions.decide("b", ASK) for _ in range(32) for service in replicas]
            replies = await asyncio.gather(*asked)
            again = await replicas[0].decisions.decide("b", ASK)
            assert replicas[0].state.seq < number < replicas[0].decisions.ids.seq(again.decision_id)
            waits.append([Event(number, 0, "drop", 0.0, body=encode({}))])
        waits.close()
        arms = [[reply.arm for reply in replies[k::2]] for k in range(2)]
        assert arms[0] != arms[1]
        for service in replicas:
            assert await service.read(lambda batch: batch.state.bandit("b").history.count) == 65
        assert contents(replicas[0].state) == contents(replicas[1].state)
        for service in replicas:
            await service.stop()
        whole = open_store(address)
        assert contents(State.load(whole, whole=True)) == contents(replicas[0].state)
        whole.close()

    run(test())


def test_two_replicas_that_get_the_same_request_at_once_give_one_answer(database: Callable[[], str]) -> None:
    async def test() -> None:
        address = database()
        replicas = [Service(open_store(address)) for _ in range(2)]
        for service in replicas:
            service.start()
        await replicas[0].admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        for k in range(8):
            asked = DecideRequest(arms=list(ARMS), event_id=f"e{k}")
            one, other = await asyncio.gather(*(service.decisions.decide("b", asked) for service in replicas))
            assert one.decision_id == other.decision_id
            rewards = [RewardRequest(decision_id=one.decision_id, reward=float(value)) for value in (0, 1)]
            told = await asyncio.gather(
                *(service.decisions.reward("b", each) for service, each in zip(replicas, rewards, strict=True)),
                return_exceptions=True,
            )
            assert sorted(type(answer).__name__ for answer in told) == ["Problem", "RewardReply"]
        asked = DecideRequest(arms=list(ARMS), event_id="by key")
        await replicas[0].decisions.decide("b", asked)
        by_key = RewardRequest(event_id="by key", reward=1.0)
        both = await asyncio.gather(*(service.decisions.reward("b", by_key) for service in replicas))
        assert sorted(answer.outcome for answer in both) == ["learned", "repeated"]
        learned = [await service.read(lambda batch: batch.state.bandit("b").history.learned) for service in replicas]
        assert learned == [9, 9]
        assert contents(replicas[0].state) == contents(replicas[1].state)
        for service in replicas:
            await service.stop()

    run(test())


def test_old_events_are_dropped_in_pieces_and_other_replicas_go_on_as_they_are(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.core.windows.PRUNE_EVENTS", 2)

    async def test() -> None:
        address = database()
        first, other = Service(open_store(address)), Service(open_store(address))
        first.start()
        await first.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        for _ in range(5):
            await first.decisions.decide("b", ASK)
        await first.admin.save_model("b")
        other.start()
        await other.read(lambda batch: None)
        state = other.state
        await first.admin.update("", "b", {"retention": 1e-6})
        async with asyncio.timeout(HANG_SECONDS):
            while await exported(other, "b", 0, 9):
                await asyncio.sleep(0.05)
        dropped = [decode(event.body)["count"] for event in await other.admin.audit(9) if event.kind == "prune"]
        assert sorted(dropped) == [1, 2, 2]
        assert other.state is state
        for service in (first, other):
            await service.stop()

    run(test())


def test_one_replica_takes_the_snapshots_for_all(database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.service.commit.snapshots.EVENTS_PER_SNAPSHOT", 8)

    async def test() -> None:
        address = database()
        replicas = [Service(open_store(address)) for _ in range(2)]
        for service in replicas:
            service.start()
        await replicas[0].admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        for k in range(40):
            await replicas[k % 2].decisions.decide("b", ASK)
            await replicas[k % 2].read(lambda batch: None)
        saved = await replicas[0].read(lambda batch: [s.seq for s in batch.store.snapshots(0)])
        assert 2 <= len(saved) <= 41 // 8
        assert all(later - earlier >= 8 for later, earlier in pairwise(saved))
        for service in replicas:
            await service.stop()

    run(test())


def test_numbers_that_were_reserved_and_not_used_are_no_events_that_ask_for_a_snapshot(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.commit.snapshots.EVENTS_PER_SNAPSHOT", 8)

    async def test(address: str) -> None:
        other = open_store(address)
        for name in ("b", "c"):  # the second time it starts with a snapshot
            service = Service(open_store(address))
            service.start()
            await service.admin.create("", Create(name=name, spec=Spec(features=VECTOR)))
            for _ in range(3):
                with other.entry(100):
                    pass
                await service.decisions.decide(name, ASK)
            await service.read(lambda batch: None)
            assert service.state.seq > 300
            assert not service.group_commit.snapshots._is_due
            await service.stop()
        other.close()

    run(test(database()))


def test_a_snapshot_that_cannot_be_saved_holds_up_nobody_and_is_tried_again_later(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.commit.snapshots.EVENTS_PER_SNAPSHOT", 3)
    attempts, save_beside = 0, Postgres.save_beside

    def refuse(self: Postgres, snapshots: Any, keep: int, after: int | None) -> bool:
        nonlocal attempts
        attempts += 1
        raise StoreError("it takes too long")

    async def test(address: str) -> None:
        clock = Clock()
        service = Service(open_store(address), clock=clock)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        monkeypatch.setattr(Postgres, "save_beside", refuse)
        with refused(503, "unavailable", "it takes too long"):
            await service.admin.save_model("b")
        async with asyncio.timeout(HANG_SECONDS):
            while attempts < 2:
                await service.decisions.decide("b", ASK)
        for _ in range(20):
            await service.decisions.decide("b", ASK)
            await service.read(lambda batch: None)
        assert service.group_commit.ready
        assert attempts == 2  # the next one is in a minute
        monkeypatch.setattr(Postgres, "save_beside", save_beside)
        clock.now += 60
        async with asyncio.timeout(HANG_SECONDS):
            while not (await service.read(lambda batch: batch.store.snapshots())):
                await asyncio.sleep(0)
        await service.stop()

    run(test(database()))


def test_a_replica_that_cannot_fold_an_event_answers_and_saves_nothing_until_it_is_replaced(
    database: Callable[[], str],
) -> None:
    """As one that meets a spec of a later version: it would go on without the change, and save such a model."""

    async def test(address: str) -> None:
        service, other = Service(open_store(address)), open_store(address)
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        id_, spec = service.state.bandit("b").id, to_builtins(Spec(features=VECTOR, mode="off"))
        with other.batch():
            body = encode({"actor": "", "bandit": id_, "spec": spec | {"unheard": 1}})
            other.append([Event(other.reserve(1)[0], SERVICE_ID, "configure", 0.0, body=body)])
        async with asyncio.timeout(HANG_SECONDS):
            while service.group_commit.ready:
                await asyncio.sleep(0)
        for _ in range(2):
            with refused(503, "unavailable", "kind 'configure', cannot be read"):
                await service.decisions.decide("b", ASK)
            assert not service.group_commit.ready
        await service.stop()
        assert other.snapshots() == []
        other.close()

    run(test(database()))


def test_a_journal_that_is_away_is_not_asked_again_at_once(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a processor and the database busy."""
    asked, pauses, sleep = 0, list[float](), GroupCommit._sleep

    def settled(self: Postgres) -> int:
        nonlocal asked
        asked += 1
        raise StoreError("it is away")

    async def note(self: GroupCommit, seconds: float) -> None:
        pauses.append(seconds)
        await sleep(self, seconds)

    async def test(address: str) -> None:
        service = Service(open_store(address))
        service.start()
        await service.read(lambda batch: None)
        monkeypatch.setattr(Postgres, "settled", settled)
        monkeypatch.setattr(GroupCommit, "_sleep", note)
        async with asyncio.timeout(HANG_SECONDS):
            while asked < 5:
                await asyncio.sleep(0)
        assert all(pause > 0 for pause in pauses[1:])
        assert len(pauses) >= asked - 1
        monkeypatch.undo()
        await service.stop()

    run(test(database()))
