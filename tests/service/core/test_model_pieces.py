"""A large model goes into the log in pieces, between which others have their turn; who reads it has the same one."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from support.core_service import HANG_SECONDS, Clock, contents, refused, run

from syndicated._compiled import load_all
from syndicated.service.bandits import model_load
from syndicated.service.bandits.messages import Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.model_load import PIECE, RELEARN, ModelLoad
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import decode
from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.snapshots import Snapshots
from syndicated.service.core import admin
from syndicated.service.core.journal_check import repair, verify
from syndicated.service.core.relearning import Relearning
from syndicated.service.core.service import Service
from syndicated.store import DamageError, Event, StoreError, open_store
from syndicated.store._sql import SQL

Load = Callable[[Service, int, bytes], Awaitable[Any]]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """A transaction is no place to load kernels in."""
    load_all()


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (admin, model_load):
        monkeypatch.setattr(module, "MODEL_PIECE_BYTES", 1500)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "journal.db") if request.param == "sqlite" else request.getfixturevalue("database")()


def started(address: str) -> Service:
    service = Service(open_store(address), clock=Clock()) if ":" not in address else Service(open_store(address))
    service.start()
    return service


async def learn(service: Service, count: int, name: str = "b", subject: str | None = None) -> None:
    for k in range(count):
        asked = DecideRequest(context={"hour": k % 3}, arms=[f"a{j}" for j in range(4)], subject=subject)
        reply = await service.decisions.decide(name, asked)
        await service.decisions.reward(name, RewardRequest(decision_id=reply.decision_id, reward=float(k % 2)))


async def filled(service: Service) -> tuple[int, bytes]:
    """Bandits b and other; of b a version that is kept, after which it has learned more, and the model of then."""
    for name in ("b", "other"):
        await service.admin.create("", Create(name=name, spec=Spec(features={"kind": "open", "dim": 4})))
    await learn(service, 20)
    kept, model = await service.admin.save_model("b"), await service.admin.model("b")
    await learn(service, 20)
    return kept.version, model


async def import_model(service: Service, version: int, model: bytes) -> Any:
    return await service.admin.load_model("me", "b", model)


async def roll_back(service: Service, version: int, model: bytes) -> Any:
    return await service.admin.load_model("me", "b", version)


async def relearn(service: Service, version: int, model: bytes) -> Any:
    return await service.admin.relearn("me", "b", {"seed": 3})


LOADS = [import_model, roll_back, relearn]


class Pieces:
    """Pieces that are written: something is done after so many of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, act: Callable[[], Awaitable[Any]]) -> None:
        self.written, write = 0, model_load.pack_piece
        loop = asyncio.get_running_loop()

        def count(*arguments: Any) -> Any:
            self.written += 1
            if self.written == after + 1:
                asyncio.run_coroutine_threadsafe(self._do(act), loop).result()
            return write(*arguments)

        monkeypatch.setattr(admin, "pack_piece", count)

    async def _do(self, act: Callable[[], Awaitable[Any]]) -> None:
        await act()


def events(address: str, *kinds: str) -> list[Event]:
    with closing(open_store(address, read_only=True)) as store:
        return [event for event, _ in store.after(0) if not kinds or event.kind in kinds]


def replayed(address: str, *, whole: bool = True, upto: int | None = None) -> list[bytes]:
    with closing(open_store(address, read_only=True)) as store, store.view():
        return contents(State.load(store, whole=whole, upto=upto))


@pytest.mark.parametrize("load", LOADS)
def test_expectation_27_others_decide_between_the_pieces_and_a_replay_gives_the_same(
    address: str, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        version, model = await filled(service)
        Pieces(monkeypatch, 2, lambda: learn(service, 3, "other"))
        reply = await load(service, version, model)
        assert reply == await service.admin.bandit("b")
        assert reply.known_arms > 0
        pieces = [event.seq for event in events(address, PIECE)]
        assert len(pieces) > 4
        assert [event for event in events(address, "decide") if pieces[0] < event.seq < pieces[-1]]
        (loaded,) = events(address, "load", "configure")
        assert decode(loaded.body)["pieces"] == pieces
        assert pieces[-1] == loaded.seq - 1  # in one transaction: an earlier version always meets a piece first
        assert "model" not in decode(loaded.body)
        assert [event.kind for event in await service.admin.audit(1)] == [loaded.kind]
        if load is not relearn:
            assert await service.admin.model("b") == model
        assert contents(service.state) == replayed(address)
        await learn(service, 5)  # and it goes on as a replay does
        await service.read(lambda batch: None)
        assert contents(service.state) == replayed(address)
        await service.stop()
        with closing(open_store(address, read_only=True)) as store:
            assert verify(store) == []

    run(test())


@pytest.mark.parametrize("load", LOADS)
def test_a_snapshot_between_the_pieces_has_none_of_them_and_a_start_from_it_loads_the_model(
    address: str, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        version, model = await filled(service)
        Pieces(monkeypatch, 3, service.group_commit.snapshots.save)
        await load(service, version, model)
        (loaded,) = events(address, "load", "configure")
        with closing(open_store(address, read_only=True)) as store:
            newest = max(snapshot.seq for snapshot in store.snapshots())
        assert decode(loaded.body)["pieces"][2] <= newest < loaded.seq
        assert contents(service.state) == replayed(address) == replayed(address, whole=False)
        await service.stop()

    run(test())


@pytest.mark.parametrize("load", LOADS)
def test_a_damaged_snapshot_is_made_anew_from_a_log_with_pieces(address: str, load: Load) -> None:
    async def test() -> tuple[int, list[bytes]]:
        service = started(address)
        await load(service, *await filled(service))
        bandit, before = service.state.bandit("b").id, contents(service.state)
        await service.stop()
        return bandit, before

    bandit, before = asyncio.run(test())
    with closing(open_store(address)) as store, store.batch():
        assert isinstance(store, SQL)
        newest = "seq = (SELECT max(seq) FROM snapshots)"
        store._run(f"UPDATE snapshots SET state = ? WHERE bandit = ? AND {newest}", b"x", bandit)
    with closing(open_store(address, read_only=True)) as store, store.view():
        state = State.load(store)
        assert state.rebuilt == {bandit}
        assert contents(state) == before


def test_a_load_that_was_never_finished_has_no_effect_and_another_one_has(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    async def kill() -> None:
        raise KilledError

    async def test() -> None:
        service = started(address)
        version, model = await filled(service)
        before = await service.admin.model("b")
        Pieces(monkeypatch, 2, kill)
        with pytest.raises(KilledError):
            await import_model(service, version, model)
        assert len(events(address, PIECE)) == 2
        assert await service.admin.model("b") == before
        await service.stop()
        service = started(address)
        assert await service.admin.model("b") == before
        assert contents(service.state) == replayed(address)
        await import_model(service, version, model)
        assert await service.admin.model("b") == model
        assert contents(service.state) == replayed(address)
        await service.stop()

    run(test())


def test_of_two_loads_at_once_the_one_that_ends_last_counts(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        service = started(address)
        version, model = await filled(service)
        later = await service.admin.model("b")
        await learn(service, 5)
        Pieces(monkeypatch, 2, lambda: service.admin.load_model("", "b", later))
        await import_model(service, version, model)
        first, second = (decode(event.body)["pieces"] for event in events(address, "load"))
        assert first[-1] < second[-1]
        assert second[0] < first[0]  # it began before
        assert await service.admin.model("b") == model
        assert contents(service.state) == replayed(address)
        await service.stop()

    run(test())


def test_a_bandit_that_becomes_another_one_between_the_pieces_keeps_what_it_has(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        version, model = await filled(service)
        Pieces(monkeypatch, 2, lambda: service.admin.update("", "b", {"seed": 5}))
        with refused(409, "conflict", "the bandit became another one"):
            await import_model(service, version, model)
        assert contents(service.state) == replayed(address)
        await service.stop()

    run(test())


def test_rewards_that_come_while_the_pieces_are_written_are_learned_again_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        await filled(service)
        Pieces(monkeypatch, 2, lambda: learn(service, 7, subject="s"))
        await relearn(service, 0, b"")
        (changed,) = events(address, "configure")
        lessons = events(address, RELEARN)
        assert decode(changed.body)["relearned"] == [event.seq for event in lessons]
        assert [event.learn for event in lessons] == [0.0, 1.0] * 3 + [0.0]
        assert {event.subject for event in lessons} == {"s"}
        assert contents(service.state) == replayed(address)
        if ":" in address:  # replicas draw for themselves: there are no two bandits with the same decisions
            await service.stop()
            return
        whole = await service.admin.model("b")
        with monkeypatch.context() as patch:  # what is small is learned at once
            for module in (admin, model_load):
                patch.setattr(module, "MODEL_PIECE_BYTES", 2**20)
            await service.admin.create("", Create(name="c", spec=Spec(features={"kind": "open", "dim": 4})))
            await learn(service, 20, "c")
            await learn(service, 20, "c")
            await learn(service, 7, "c")
            await service.admin.relearn("", "c", {"seed": 3})
        arrays = [_arrays(model) for model in (whole, await service.admin.model("c"))]
        assert arrays[0] == arrays[1]
        await service.admin.erase("", "s")
        assert contents(service.state) == replayed(address, whole=False)
        assert replayed(address)  # which passes over what was erased
        await service.stop()

    run(test())


def _arrays(model: bytes) -> dict[str, bytes]:
    from syndicated._statefile import unpack

    return {name: array.tobytes() for name, array in unpack(model)[1].items()}


def test_what_is_erased_while_the_pieces_are_written_ends_a_relearning(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        await filled(service)
        Pieces(monkeypatch, 2, lambda: learn(service, 3, subject="s"))
        learned, loop = Relearning.learn, asyncio.get_running_loop()

        def erase(self: Relearning, page: Any) -> None:
            if self.written:
                asyncio.run_coroutine_threadsafe(service.admin.erase("", "s"), loop).result()
            learned(self, page)

        monkeypatch.setattr(Relearning, "learn", erase)
        before = service.state.bandit("b").epoch
        with refused(409, "conflict", "something was erased"):
            await relearn(service, 0, b"")
        assert service.state.bandit("b").epoch == before
        await service.stop()

    run(test())


def test_a_model_that_was_learned_again_while_a_subject_is_erased_is_in_a_snapshot_before_that(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        service = started(address)
        await filled(service)
        Pieces(monkeypatch, 2, lambda: learn(service, 3, subject="s"))
        learned, save, loop = Relearning.learn, Snapshots.save, asyncio.get_running_loop()
        written, go = asyncio.Event(), threading.Event()

        def wait(self: Relearning, page: Any) -> None:
            learned(self, page)
            if self.written:
                loop.call_soon_threadsafe(written.set)
                go.wait(HANG_SECONDS)

        async def save_and_end(self: Snapshots) -> int:
            saved = await save(self)
            go.set()
            await relearning
            return saved

        monkeypatch.setattr(Relearning, "learn", wait)
        monkeypatch.setattr(Snapshots, "save", save_and_end)
        relearning = asyncio.ensure_future(relearn(service, 0, b""))
        await written.wait()
        await service.admin.erase("", "s")
        assert all(event.learn is None for event in events(address, RELEARN))
        assert contents(service.state) == replayed(address, whole=False)
        await service.stop()

    run(test())


@pytest.mark.parametrize("load", LOADS)
def test_expectation_27_a_replica_reads_a_model_beside_its_batches_and_decides_on(
    database: Callable[[], str], load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reading, go, threads = ModelLoad.read, threading.Event(), threading.Event(), list[str]()

    def wait(*arguments: Any) -> ModelLoad:
        threads.append(threading.current_thread().name)
        reading.set()
        go.wait(HANG_SECONDS)
        return read(*arguments)

    async def test(address: str) -> None:
        service, other = started(address), started(address)
        version, model = await filled(service)
        monkeypatch.setattr(ModelLoad, "read", wait)
        await load(service, version, model)
        loaded = service.state.seq
        while not reading.is_set():
            await asyncio.sleep(0)
        await learn(service, 3)
        await learn(other, 3)  # it decides, and its rewards are durable
        asked = asyncio.ensure_future(other.read(lambda batch: batch.state.seq))
        await learn(other, 2)
        assert other.state.seq < loaded
        assert not asked.done()
        go.set()
        assert await asked > loaded
        while other.state.seq < service.state.seq:
            await asyncio.sleep(0)
        await service.read(lambda batch: None)
        await other.read(lambda batch: None)
        assert threads == ["models"]
        assert contents(other.state) == contents(service.state) == replayed(address)
        await asyncio.gather(service.stop(), other.stop())

    run(test(database()))


def test_an_exclusive_request_that_is_the_first_to_meet_a_model_waits_for_it(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(address: str) -> None:
        service, other = started(address), started(address)
        version, model = await filled(service)
        monkeypatch.setattr(other.group_commit.follower, "due_in", lambda away: math.inf)  # nothing else looks
        reply = await import_model(service, version, model)
        assert await other.read(lambda batch: batch.state.seq) >= reply.version
        await asyncio.gather(service.stop(), other.stop())

    run(test(database()))


def test_a_replica_ends_in_order_while_it_reads_a_model(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go = threading.Event(), threading.Event()

    def wait(*arguments: Any) -> ModelLoad:
        reading.set()
        go.wait(HANG_SECONDS)
        raise ValueError("nobody wants it any more")

    async def test(address: str) -> None:
        service, other = started(address), started(address)
        version, model = await filled(service)
        monkeypatch.setattr(ModelLoad, "read", wait)
        await import_model(service, version, model)
        while not reading.is_set():
            await asyncio.sleep(0)
        await other.stop()
        await service.stop()

    run(test(database()))
    go.set()


def test_a_model_of_another_process_that_cannot_be_read_is_damage(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> ModelLoad:
        raise ValueError("no model")

    async def test(address: str) -> None:
        service, other = started(address), started(address)
        version, model = await filled(service)
        monkeypatch.setattr(ModelLoad, "read", fail)
        await import_model(service, version, model)
        with refused(503, "unavailable", "kind 'load', cannot be read: .*no model"):
            for _ in range(10**6):  # until it has met the event
                await other.read(lambda batch: None)
        await asyncio.gather(service.stop(), other.stop())

    run(test(database()))


def test_who_waits_for_a_model_that_cannot_be_read_now_is_told_so(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as of a database that has given out all its connections: requests that were put off had no answer."""

    def refuse() -> NoReturn:
        raise StoreError("too many clients")

    async def test(address: str) -> None:
        service, other = started(address), started(address)
        version, model = await filled(service)
        with monkeypatch.context() as patch:
            patch.setattr(other.group_commit.store, "reader", refuse)
            await import_model(service, version, model)
            with refused(503, "unavailable", "too many clients"):
                for _ in range(10**6):  # until it has met the event
                    await other.read(lambda batch: None)
            await learn(other, 2)
        await until_read(other, service.state.seq)
        await asyncio.gather(service.stop(), other.stop())

    run(test(database()))


def test_who_waits_for_what_others_wrote_is_told_that_the_journal_is_away(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> NoReturn:
        raise StoreError("it is away")

    async def test(address: str) -> None:
        service = started(address)
        await service.admin.create("", Create(name="b", spec=Spec(features={"kind": "open", "dim": 4})))
        with monkeypatch.context() as patch:
            patch.setattr(service.group_commit.store, "settled", fail)
            service.state.lags = True
            with refused(503, "unavailable", "it is away"):
                await service.read(lambda batch: None)
        await until_read(service, 1)
        await service.stop()

    run(test(database()))


async def until_read(service: Service, seq: int) -> None:
    """Ask until the journal can be read again, up to a number."""
    while True:
        with suppress(Problem):
            assert await service.read(lambda batch: batch.state.seq) >= seq
            return


def test_what_others_have_written_is_folded_a_little_at_a_time(
    database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated.service.bandits.runs.MAX_RUN", 1)

    async def test(address: str) -> None:
        service, other = started(address), started(address)
        await service.admin.create("", Create(name="b", spec=Spec(features={"kind": "open", "dim": 4})))
        monkeypatch.setattr("syndicated.service.commit.follower.FOLD_SECONDS", -1.0)
        await learn(service, 3)
        last = events(address)[-1].seq
        while min(service.state.seq, other.state.seq) < last:
            await asyncio.sleep(0)
        await asyncio.gather(service.read(lambda batch: None), other.read(lambda batch: None))
        assert contents(other.state) == contents(service.state) == replayed(address)
        await asyncio.gather(service.stop(), other.stop())

    run(test(address := database()))
    with closing(open_store(address, read_only=True)) as store:
        state, last, looks = State(), store.last(), 0
        while state.lags or not looks:
            state.follow(store, last, {}, seconds=-1.0)
            looks += 1
        assert looks == len(events(address)) + 1
        assert contents(state) == replayed(address)


def test_expectation_30_damage_in_a_piece_is_named_and_the_load_is_left_out_of_a_repair(
    address: str, tmp_path: Path
) -> None:
    def no_snapshot(batch: Batch) -> None:
        pass

    async def test() -> tuple[int, int, bytes]:
        service = started(address)
        version, model = await filled(service)
        before = await service.admin.model("b")
        await import_model(service, version, model)
        (loaded,) = events(address, "load")
        service.group_commit.snapshots.save_at_once = no_snapshot  # type: ignore[method-assign]
        await service.stop()
        return decode(loaded.body)["pieces"][1], loaded.seq, before

    piece, loaded, before = asyncio.run(test())
    with closing(open_store(address)) as store, store.batch():
        assert isinstance(store, SQL)
        store._run("UPDATE log SET body = ? WHERE seq = ?", b"\xc1\x00" + bytes(20), piece)
    with closing(open_store(address, read_only=True)) as store:
        faults = verify(store)
    assert faults[:2] == [
        f"event {piece} is damaged",
        f"event {loaded} loads a model of which event {piece} is damaged or missing",
    ]
    with pytest.raises(
        DamageError, match=f"event {loaded} of bandit 0, kind 'load', .*event {piece}, a part of its model"
    ):
        replayed(address, whole=False)
    repaired = repair(address, tmp_path / "repaired.db")
    assert repaired.faults == faults[:2]
    assert events(str(tmp_path / "repaired.db"), "load") == []
    with closing(open_store(str(tmp_path / "repaired.db"))) as store:
        assert State.load(store).bandit("b").agent.state() == before
