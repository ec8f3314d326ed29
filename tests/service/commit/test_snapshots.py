"""Snapshots that are taken beside the service: of one moment, to the bit, although others go on meanwhile."""

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest
from support.core_service import Clock, Harness, PlayCore, contents, refused, run

from syndicated import Agent, ArmUCB
from syndicated._agent_state import AgentCopy
from syndicated.errors import StateError
from syndicated.service.bandits import model_load
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Arm
from syndicated.service.bandits.model_load import ModelLoad
from syndicated.service.bandits.state import Draft, State
from syndicated.service.commit.snapshots import Snapshots
from syndicated.service.core import admin
from syndicated.service.core.journal_check import verify
from syndicated.store import SQLite, StoreError, _sqlite
from syndicated.types import Decision

ARMS = [Arm(f"a{k}") for k in range(6)]
SPEC: dict[str, Any] = {"features": {"kind": "open", "dim": 4}}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of an array at a time."""
    for module in ("_agent_state", "service.bandits.state"):
        monkeypatch.setattr(f"syndicated.{module}.PIECE_BYTES", 1)


@pytest.mark.parametrize("models", ["per-arm", "hybrid"])
@pytest.mark.parametrize("binary", [True, False])
def test_a_copy_made_in_pieces_is_of_the_moment_when_it_was_begun(models: str, binary: bool) -> None:
    rng, agent = np.random.default_rng(3), Agent(ArmUCB(dim=2, models=models), seed=1, id="me")
    player, copies, compared = agent.player, list[tuple[AgentCopy, bytes]](), 0
    for n in range(600):
        if n % 5 == 0:
            copies.append((AgentCopy(player, agent.round, agent.choice), agent.state()))
        if n % 60 == 59:
            player.retire(f"a{n % 7}")
        level = 0.0 if n < 300 or binary else 50.0  # that moves, so that all models start again
        reward = float(rng.integers(2)) if binary else level + float(rng.normal())
        x = rng.normal(size=2) * (1.0 if n < 200 else 4.0)  # in other scales, to which all models are brought
        arm = f"a{rng.integers(4 + n // 60)}"  # more and more arms, for which arrays are replaced
        player.learn(Decision("me", 0, 0, x, None, {"boldness": 1.0}, None, arm), reward)
        finished = [pair for pair in copies if pair[0].advance()]
        assert all(copy.pack() == then for copy, then in finished)
        copies, compared = [pair for pair in copies if pair not in finished], compared + len(finished)
    assert compared > 50


def test_a_copy_that_nobody_wants_any_more_is_not_kept() -> None:
    agent = Agent(ArmUCB(dim=1), id="me")
    decision = Decision("me", 0, 0, np.ones(1), None, {"boldness": 1.0}, None, "a")
    agent.player.learn(decision, 1.0)
    AgentCopy(agent.player, agent.round, agent.choice)
    agent.player.learn(decision, 1.0)
    assert not agent.policy.logistic._copies  # type: ignore[attr-defined]


async def learn(harness: Harness, count: int, subject: str | None = None) -> None:
    for k in range(count):
        reply = await harness.decide(context={"hour": k % 3}, arms=list(ARMS), subject=subject)
        await harness.reward(reply.decision_id, float(k % 2))


class Encoding:
    """Encoding of drafts that waits until it may go on, and notes its threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go, self.threads = threading.Event(), threading.Event(), list[str]()
        encode = Draft.encode

        def wait(draft: Draft) -> Any:
            self.threads.append(threading.current_thread().name)
            self.began.set()
            self.go.wait()
            return encode(draft)

        monkeypatch.setattr(Draft, "encode", wait)

    async def has_begun(self) -> None:
        while not self.began.is_set():
            await asyncio.sleep(0)


def test_expectation_27_others_are_answered_while_a_snapshot_is_taken_and_it_is_what_a_replay_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(**SPEC)
        await learn(harness, 30)
        encoding, advance, pieces = Encoding(monkeypatch), Draft.advance, list[int]()

        def note(draft: Draft) -> bool:
            pieces.append(harness.service.state.seq)
            return advance(draft)

        monkeypatch.setattr(Draft, "advance", note)
        before = harness.service.state.seq
        saving = asyncio.ensure_future(harness.service.admin.save_model("b"))
        while not pieces:
            await asyncio.sleep(0)
        await learn(harness, 5)
        await encoding.has_begun()
        assert len(pieces) >= 6
        assert pieces[-1] > pieces[0]  # arms were learned about between the pieces
        await learn(harness, 5)
        assert not saving.done()
        encoding.go.set()
        saved = await saving
        assert before <= saved.version < harness.service.state.seq - 10
        assert not {"journal_0", "MainThread"} & set(encoding.threads)
        with closing(SQLite(harness.file, read_only=True)) as store:
            whole = State.load(store, whole=True, upto=saved.version)
            assert [snapshot.state for snapshot in store.snapshots()] == contents(whole)
            assert contents(State.load(store)) == harness.contents()
        assert await harness.service.admin.model("b", saved.version) == whole.bandit("b").agent.state()
        assert await harness.service.admin.model("b") == harness.service.state.bandit("b").agent.state()
        await harness.service.stop()
        await refused_after_the_end(harness)

    run(test())


def test_a_piece_is_no_larger_where_there_are_many_small_bandits(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syndicated._agent_state.PIECE_BYTES", 2**20)  # all of one of them at once

    async def test(harness: Harness) -> None:
        for k in range(5):
            await harness.create(f"b{k}", **SPEC)
            reply = await harness.decide(f"b{k}", context={"hour": 1}, arms=list(ARMS))
            await harness.reward(reply.decision_id, 1.0, f"b{k}")
        draft, pieces = harness.service.state.draft(harness.service.state.bandits), 1
        while not draft.advance():
            pieces += 1
        assert pieces == 10  # each is begun, and copied

    play_core(test)


def test_the_snapshots_of_many_bandits_are_begun_in_pieces(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 1,000 were begun at once, while everybody waited."""
    begun, copy_agent = list[int](), Bandit.copy_agent

    def note(bandit: Bandit) -> AgentCopy:
        begun.append(bandit.id)
        return copy_agent(bandit)

    async def test(harness: Harness) -> None:
        for k in range(5):
            await harness.create(f"b{k}")
        monkeypatch.setattr(Bandit, "copy_agent", note)
        draft = harness.service.state.draft(harness.service.state.bandits)
        assert begun == []
        for count in range(1, 6):
            while len(begun) < count:
                assert not draft.advance()
            assert len(begun) == count
        while not draft.advance():
            pass
        assert sorted(begun) == sorted(harness.service.state.bandits)

    play_core(test)


def test_a_snapshot_is_of_the_moment_when_it_was_asked_for_whatever_changes_before_it_is_begun(
    play_core: PlayCore,
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SPEC, window=100.0, default_reward=0.5)
        await learn(harness, 20)
        admin_, open_ = harness.service.admin, await harness.decide(context={"hour": 1}, arms=list(ARMS))
        model = await admin_.model("b")
        changes: dict[str, Callable[[], Awaitable[Any]]] = {
            "decisions": lambda: harness.decide(context={"hour": 2}, arms=list(ARMS)),
            "rewards": lambda: harness.reward(open_.decision_id, 1.0),
            "windows": lambda: harness.pass_time(101.0),
            "arms": lambda: admin_.put_arms("", "b", ARMS[:2]),
            "arms that go": lambda: admin_.drop_arm("", "b", "a1"),
            "models": lambda: admin_.load_model("", "b", model),
            "specs": lambda: admin_.update("", "b", {"floor": 0.1}),
            "epochs": lambda: admin_.update("", "b", {"seed": 7}),
            "retirement": lambda: admin_.retire("", "b"),
        }
        for name, change in changes.items():
            draft, then = await harness.service.read(lambda batch: (batch.state.draft([1]), contents(batch.state)))
            assert len(then) == 2
            await change()
            assert harness.contents() != then, name
            while not await harness.service.read(lambda batch: draft.advance()):  # noqa: B023
                pass
            assert [snapshot.state for snapshot in draft.encode()] == then, name

    play_core(test)


async def refused_after_the_end(harness: Harness) -> None:
    with refused(503, "stopped"):
        await harness.service.group_commit.snapshots.save()


def test_a_snapshot_that_was_not_saved_leaves_nothing_out_of_the_next(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create("other", **SPEC)
        await harness.create(**SPEC)
        await learn(harness, 3)
        commit = harness.service.group_commit
        save = commit.store.save_steps
        commit.store.save_steps = _fail  # type: ignore[method-assign,assignment]
        with refused(503, "unavailable"):
            await harness.service.admin.save_model("b")
        commit.store.save_steps = save  # type: ignore[method-assign]
        await learn(harness, 1)
        await harness.service.admin.save_model("b")
        saved = await harness.service.read(lambda batch: {snapshot.bandit for snapshot in batch.store.snapshots()})
        assert saved == {0, *harness.service.state.bandits}
        await learn(harness, 1)
        await harness.service.admin.save_model("b")
        other = harness.service.state.bandit("other").id
        assert len(await harness.service.read(lambda batch: batch.store.snapshots(other))) == 1  # it has not changed

    play_core(test)


def _fail(*args: Any) -> Iterator[None]:
    yield
    raise StoreError("the journal cannot be used: full")


def test_expectation_27_others_are_answered_while_a_snapshot_is_written_and_a_kill_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the files are before each step that writes it is what a kill in the middle of it leaves."""
    monkeypatch.setattr(_sqlite, "PIECE_BYTES", 700)
    write, seqs = Snapshots._write, list[int]()

    async def test() -> int:
        harness = Harness(tmp_path / "journal.db", Clock())

        def note(*arguments: Any) -> bool:
            for ending in ("", "-wal"):
                copyfile(f"{harness.file}{ending}", tmp_path / f"{len(seqs)}.db{ending}")
            seqs.append(harness.service.state.seq)
            return write(*arguments)

        await harness.create(**SPEC)
        await learn(harness, 30)
        first = (await harness.service.admin.save_model("b")).version
        await learn(harness, 30)
        monkeypatch.setattr(Snapshots, "_write", note)
        saving = asyncio.ensure_future(harness.service.admin.save_model("b"))
        while not saving.done():
            await learn(harness, 1)
        saved = await saving
        assert len(set(seqs)) > 5
        with closing(SQLite(harness.file, read_only=True)) as store:
            whole = State.load(store, whole=True, upto=saved.version)
            assert [snapshot.state for snapshot in store.snapshots()] == contents(whole)
        monkeypatch.setattr(Snapshots, "_write", write)
        await harness.service.stop()
        return first

    async def go_on(file: Path) -> None:
        harness = Harness(file, Clock())
        await learn(harness, 1)
        for _ in range(2):
            await harness.service.admin.save_model("b")
            await learn(harness, 1)
        await harness.service.stop()

    first = asyncio.run(test())
    for k, seq in enumerate(seqs):
        file = tmp_path / f"{k}.db"
        with closing(SQLite(file)) as store:
            assert {snapshot.seq for snapshot in store.snapshots()} == {first}
            assert contents(State.load(store)) == contents(State.load(store, whole=True))
            assert State.load(store).seq == seq
            assert verify(store) == []
    left = [_piece_bytes(tmp_path / f"{k}.db") for k in range(len(seqs))]
    assert left == sorted(left)
    assert left[-1] > left[0]
    run(go_on(tmp_path / "3.db"))
    with closing(SQLite(tmp_path / "3.db")) as store:
        named = sum(size for _, _, size in store.snapshot_sizes(1))
        assert _piece_bytes(tmp_path / "3.db") == named
        assert verify(store) == []


def _piece_bytes(file: Path) -> int:
    """The size of all pieces of snapshots of a file."""
    with closing(SQLite(file, read_only=True)) as store:
        return int(store._rows("SELECT coalesce(sum(length(state)), 0) FROM snapshots WHERE bandit < 0")[0][0])


@pytest.mark.parametrize("attempts", [1, 3])
def test_what_comes_about_a_subject_while_it_is_erased_is_learned_and_erased(
    attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rewards that are learned after the snapshot, of decisions that are erased, would be lost to a replay."""
    monkeypatch.setattr(admin, "MAX_ERASE_ATTEMPTS", attempts)

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(**SPEC)
        await learn(harness, 10, "ann")
        encoding = Encoding(monkeypatch)
        reply = await harness.decide(context={"hour": 1}, arms=list(ARMS), subject="ann")
        erasing = asyncio.ensure_future(harness.service.admin.erase("", "ann"))
        await encoding.has_begun()
        await harness.reward(reply.decision_id, 1.0)
        encoding.go.set()
        assert await erasing == 22
        assert len(encoding.threads) == 2
        assert (encoding.threads[-1] == "journal_0") == (attempts == 1)
        with closing(SQLite(harness.file, read_only=True)) as store:
            assert store.last_about("ann") == 0
            assert contents(State.load(store)) == harness.contents()
        await harness.service.stop()

    run(test())


@pytest.mark.parametrize("rewarded", [False, True])
def test_expectation_27_others_have_their_turn_while_a_subject_with_many_events_is_erased(
    rewarded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reward of a decision that is still to be emptied is learned, and is in a snapshot before that."""
    monkeypatch.setattr(admin, "ERASE_EVENTS", 5)
    erase, pieces = SQLite.erase, list[int]()

    async def test() -> None:
        harness, loop = Harness(tmp_path / "journal.db", Clock()), asyncio.get_running_loop()
        await harness.create(**SPEC)
        await learn(harness, 8, "ann")
        reply = await harness.decide(context={"hour": 1}, arms=list(ARMS), subject="ann")

        async def between() -> None:
            await harness.decide(context={"hour": 1}, arms=list(ARMS))
            if rewarded:
                await harness.reward(reply.decision_id, 1.0)

        def noted(store: SQLite, subject: str, upto: int, limit: int) -> int:
            count = erase(store, subject, upto, limit)
            if not pieces:
                others.append(asyncio.run_coroutine_threadsafe(between(), loop))
            pieces.append(count)
            return count

        others: list[Future[None]] = []
        monkeypatch.setattr(SQLite, "erase", noted)
        before = harness.service.state.seq
        assert await harness.service.admin.erase("", "ann") == 17 + rewarded
        assert pieces == ([5, 5, 5, 3] if rewarded else [5, 5, 5, 2])
        for other in others:
            await asyncio.wrap_future(other)
        with closing(SQLite(harness.file, read_only=True)) as store:
            assert store.last_about("ann") == 0
            kinds = [event.kind for event, _ in store.after(before)]
            assert kinds == (["erase", "decide", "reward", "erase"] if rewarded else ["erase", "decide"])
            assert contents(State.load(store)) == harness.contents()
        await harness.service.stop()

    run(test())


def test_erasure_reaches_the_files_of_the_journal(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(**SPEC)
        await learn(harness, 20, "a-person")
        files = [path for path in tmp_path.iterdir() if path.name != "journal.db.lock"]
        assert any(b"a-person" in path.read_bytes() for path in files)
        await harness.service.admin.erase("", "a-person")
        assert not [path.name for path in files if b"a-person" in path.read_bytes()]
        await harness.service.stop()

    run(test())


def test_the_answer_to_a_change_is_the_bandit_as_it_is_then(play_core: PlayCore) -> None:
    """It is told before the change is folded, without a copy of the bandit."""

    async def test(harness: Harness) -> None:
        ask: Callable[..., Any] = harness.service.admin.update
        await harness.create(**SPEC)
        await learn(harness, 10)
        saved = await harness.service.admin.save_model("b")
        await learn(harness, 10)
        for changes in ({"floor": 0.1}, {"seed": 3}):
            assert await ask("", "b", changes) == await harness.service.admin.bandit("b")
        assert (await harness.service.admin.bandit("b")).decisions == 0
        await ask("", "b", {"seed": 0})
        reply = await harness.service.admin.load_model("", "b", saved.version)
        assert reply == await harness.service.admin.bandit("b")
        assert reply.known_arms > 0
        await learn(harness, 10)
        relearned = await harness.service.admin.relearn("", "b", {"policy": {"name": "ArmTS"}})
        assert relearned == await harness.service.admin.bandit("b")
        assert relearned.known_arms > 0

    play_core(test)


def _noted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """The threads on which something is called from now on."""
    threads, call = list[str](), getattr(owner, name)

    def note(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return call(*arguments)

    monkeypatch.setattr(owner, name, note)
    return threads


@pytest.mark.parametrize("kept", [True, False])
def test_expectation_27_a_model_is_read_and_packed_beside_the_others(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SPEC)
        await learn(harness, 20)
        saved, model = await harness.service.admin.save_model("b"), await harness.service.admin.model("b")
        await learn(harness, 20)
        restored, encoded = _noted(monkeypatch, Agent, "restore"), _noted(monkeypatch, model_load, "encode")
        await harness.service.admin.load_model("", "b", saved.version if kept else model)
        assert len(restored) == 1 + kept
        assert len(encoded) == 1
        assert not [name for name in restored + encoded if not name.startswith(("asyncio_", "models"))]
        assert await harness.service.admin.model("b") == model
        await learn(harness, 20)  # and goes on from it as a replay does

    play_core(test)


def test_a_model_that_was_read_for_another_epoch_is_refused(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(**SPEC)
        await learn(harness, 5)
        model, read = await harness.service.admin.model("b"), ModelLoad.of
        loop, admin_ = asyncio.get_running_loop(), harness.service.admin

        def change_meanwhile(body: Any, agent: Agent) -> ModelLoad:
            load = read(body, agent)
            asyncio.run_coroutine_threadsafe(_change_seed(admin_), loop).result()
            return load

        monkeypatch.setattr(ModelLoad, "of", change_meanwhile)
        with refused(409, "conflict", "the bandit became another one while the model was read"):
            await admin_.load_model("", "b", model)

    play_core(test)


async def _change_seed(admin_: admin.Admin) -> None:
    await admin_.update("", "b", {"seed": 7})


def test_a_snapshot_that_fails_is_told_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("syndicated.service.commit.snapshots.EVENTS_PER_SNAPSHOT", 2)
    encode = Draft.encode

    def fail(self: Draft) -> Any:
        raise MemoryError

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        monkeypatch.setattr(Draft, "encode", fail)
        for _ in range(6):
            await harness.reward((await harness.decide()).decision_id, 1.0)
            await harness.snapshots_are_taken()
        told = [record for record in caplog.records if record.message.startswith("no snapshot could be taken")]
        assert len(told) == 1
        assert harness.ready()
        monkeypatch.setattr(Draft, "encode", encode)
        await harness.pass_time(60.0)
        await harness.snapshots_are_taken()
        with closing(SQLite(harness.file, read_only=True)) as store:
            assert store.snapshot_sizes(harness.service.state.bandit("b").id)[0][0] == harness.service.state.seq
        await harness.service.stop()

    run(test())


def test_a_snapshot_that_the_journal_has_no_room_for_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To copy and encode it takes long where it is large, and it fails at its end."""
    monkeypatch.setattr("syndicated.service.commit.snapshots.EVENTS_PER_SNAPSHOT", 2)

    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create()
        store, attempts = harness.service.group_commit.store, list[Any]()
        save = store.save_steps

        def fail(*arguments: Any) -> Iterator[None]:
            attempts.append(arguments)
            return _fail()

        monkeypatch.setattr(store, "save_steps", fail)
        for _ in range(6):
            await harness.reward((await harness.decide()).decision_id, 1.0)
            await harness.snapshots_are_taken()
        assert len(attempts) == 1
        monkeypatch.setattr(store, "save_steps", save)
        await harness.pass_time(60.0)
        await harness.snapshots_are_taken()
        assert store.snapshot_sizes(harness.service.state.bandit("b").id)[0][0] == harness.service.state.seq
        await harness.service.stop()

    run(test())


def test_a_model_in_the_place_of_another_is_not_given_out(tmp_path: Path) -> None:
    async def test() -> None:
        harness = Harness(tmp_path / "journal.db", Clock())
        await harness.create(**SPEC)
        versions = []
        for _ in range(2):
            await learn(harness, 2)
            versions.append((await harness.service.admin.save_model("b")).version)
        with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
            own = f"bandit = {harness.service.state.bandit('b').id} AND seq = "
            state = f"(SELECT state FROM snapshots WHERE {own}{versions[0]})"
            db.execute(f"UPDATE snapshots SET state = {state} WHERE {own}{versions[1]}")
        assert await harness.service.admin.model("b", versions[0])
        with pytest.raises(StateError, match=f"a snapshot must be of .*{versions[1]}.*; got one of .*{versions[0]}"):
            await harness.service.admin.model("b", versions[1])
        await harness.service.stop()

    run(test())
