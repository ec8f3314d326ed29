"""Logs that are imported in pieces: between two of them others have their turn."""

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.core_service import ASK, VECTOR, Harness, PlayCore, contents, exported, refused, run

from syndicated._statefile import unpack
from syndicated.service.bandits.messages import Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.limits import Limits
from syndicated.service.core import admin, log_import, log_lines
from syndicated.service.core.log_import import LogImport
from syndicated.service.core.log_lines import LogLine, to_line
from syndicated.service.core.service import Service
from syndicated.store import open_store


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    made: Callable[[], str] = request.getfixturevalue("database")
    return str(tmp_path / "journal.db") if request.param == "sqlite" else made()


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_import, "PIECE_EVENTS", 3)
    monkeypatch.setattr(admin, "PAUSE_SECONDS", 0.0)


async def _with_log(service: Service) -> list[LogLine]:
    """The log of a bandit, every decision of which has its reward five events later."""
    await service.admin.create("", Create(name="old", spec=Spec(features=VECTOR)))
    await service.admin.create("", Create(name="new", spec=Spec(features=VECTOR)))
    open_ids = []
    for k in range(15):
        decided = await service.decisions.decide("old", DecideRequest(arms=ASK.arms, event_id=f"e{k}", subject="ann"))
        open_ids.append(decided.decision_id)
        if len(open_ids) > 5:
            await service.decisions.reward("old", RewardRequest(decision_id=open_ids.pop(0), reward=float(k % 2)))
    bandit = service.state.bandit("old")
    return [to_line(event, bandit) for event in await exported(service, "old")]


async def _begun(service: Service, lines: list[LogLine]) -> LogImport:
    """An import of which one piece was appended."""
    snapshot = await service.read(lambda batch: batch.state.bandit("new").snapshot())
    log_import = LogImport("", snapshot, service.clock(), lines)
    await service.group_commit.submit(log_import.announce, exclusive=True)
    assert not await service.group_commit.submit(log_import.append, exclusive=True)
    return log_import


async def _refuses(service: Service) -> None:
    with refused(409, "conflict"):
        await service.decisions.decide("new", ASK)
    with refused(409, "conflict"):
        await service.decisions.reward("new", RewardRequest(event_id="e0", reward=1.0))


def _arrays(service: Service, name: str) -> dict[str, bytes]:
    """What a model has learned, to the bit."""
    _, arrays = unpack(service.state.bandit(name).agent.state())
    return {name: array.tobytes() for name, array in arrays.items()}


def test_a_log_in_pieces_makes_the_same_model_and_others_have_their_turn(address: str) -> None:
    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        lines = await _with_log(service)
        log_import = await _begun(service, lines)
        await _refuses(service)
        await service.decisions.decide("old", ASK)
        with refused(409, "not-empty"):
            await service.admin.import_log("", "new", list(lines))
        while not await service.group_commit.submit(log_import.append, exclusive=True):
            await service.decisions.decide("old", ASK)
        assert log_import.counts.imported == len(lines)
        await service.admin.create("", Create(name="other", spec=Spec(features=VECTOR)))
        assert (await service.admin.import_log("", "other", list(lines))).imported == len(lines)
        models = [_arrays(service, name) for name in ("old", "new", "other")]
        assert models[0] == models[1] == models[2]
        assert (await service.decisions.reward("new", RewardRequest(event_id="e14", reward=1.0))).outcome == "learned"
        kinds = [event.kind for event in await service.admin.audit(9)]
        assert kinds == ["import", "importing", "create", "import", "importing", "create", "create"]
        await service.stop()
        with closing(open_store(address, read_only=True)) as store:
            assert contents(State.load(store, whole=True)) == contents(service.state)

    run(test())


def test_pieces_are_smaller_where_events_are_large_or_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = log_import._piece_sizes
    monkeypatch.setattr(log_import, "PIECE_BYTES", 100)
    assert list(sizes([], [])) == []
    assert list(sizes([1] * 7, [0.0] * 7)) == [3, 3, 1]
    assert list(sizes([40, 40, 40, 500, 1], [0.0] * 5)) == [2, 1, 1, 1]
    assert list(sizes([1] * 5, [0.015, 0.015, 0.5, 0.001, 0.001])) == [1, 1, 1, 2]


def test_expectation_27_rewards_that_take_long_to_learn_are_imported_one_by_one(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_import, "PIECE_EVENTS", 200)
    monkeypatch.setattr(log_lines, "time", SimpleNamespace(thread_time=count().__next__))
    pieces = list[int]()

    def noted(log_import: LogImport, batch: Batch) -> bool:
        last = append(log_import, batch)
        pieces.append(len(batch.events))
        return last

    append = LogImport.append
    monkeypatch.setattr(LogImport, "append", noted)

    async def test(core: Harness) -> None:
        lines = await _with_log(core.service)
        assert (await core.service.admin.import_log("", "new", list(lines))).imported == len(lines)
        assert pieces == [1] * (len(lines) - 1) + [2]  # and the event that says that it is done
        assert _arrays(core.service, "new") == _arrays(core.service, "old")

    play_core(test)


def test_an_import_that_has_begun_is_not_refused_because_others_wait(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(core: Harness) -> None:
        service, append, full = core.service, LogImport.append, Limits(waiting_requests=0)
        lines = await _with_log(service)
        count = len(lines)

        def fill(log_import: LogImport, batch: Batch) -> bool:
            service.group_commit.limits = full
            return append(log_import, batch)

        monkeypatch.setattr(LogImport, "append", fill)
        assert (await service.admin.import_log("", "new", lines)).imported == count
        with refused(503, "overload"):
            await service.decisions.decide("new", ASK)

    play_core(test)


def test_an_import_beside_a_decision_of_another_process_is_refused_and_the_bandit_goes_on(address: str) -> None:
    """It was made before that process knew of the import."""

    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        lines = await _with_log(service)

        def decide(batch: Batch) -> None:
            bandit = batch.state.bandit("new")
            arms = bandit.registered.table(ASK, None)
            decided, turn = bandit.propose(ASK, arms, batch.turn(bandit))
            batch.decide(bandit, decided, turn, ASK)

        snapshot = await service.read(lambda batch: batch.state.bandit("new").snapshot())
        log_import = LogImport("", snapshot, service.clock(), lines)
        await service.group_commit.submit(log_import.announce, exclusive=True)
        await service.group_commit.submit(decide, exclusive=True)
        with refused(409, "not-empty"):
            await service.group_commit.submit(log_import.append, exclusive=True)
        await service.decisions.decide("new", ASK)
        assert [event.kind for event in await exported(service, "new")] == ["decide", "decide"]
        await service.stop()
        with closing(open_store(address, read_only=True)) as store:
            assert contents(State.load(store, whole=True)) == contents(service.state)

    run(test())


def test_an_import_that_ended_early_leaves_a_bandit_that_decides_nothing_until_its_name_is_used_again(
    address: str,
) -> None:
    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        lines = await _with_log(service)
        await _begun(service, lines)
        await service.admin.update("", "new", {"window": 1e-9, "default_reward": 0.25, "retention": 1e-9})
        await service.stop()
        service = Service(open_store(address))
        service.start()
        for due in list(service.windows.due()):
            await service.group_commit.submit(due, exclusive=True)
        await _refuses(service)
        assert len(await exported(service, "new")) == log_import.PIECE_EVENTS
        await service.admin.retire("", "new")
        await service.admin.create("", Create(name="new", spec=Spec(features=VECTOR)))
        given = list(lines)
        assert (await service.admin.import_log("", "new", given)).imported == len(lines)
        assert not given  # freed one by one, on another thread
        await service.decisions.decide("new", ASK)
        await service.stop()

    run(test())


def test_an_import_into_a_bandit_that_was_changed_meanwhile_is_refused(address: str) -> None:
    async def test() -> None:
        service = Service(open_store(address))
        service.start()
        log_import = await _begun(service, await _with_log(service))
        await service.admin.update("", "new", {"seed": 5})
        with refused(409, "conflict"):
            await service.group_commit.submit(log_import.append, exclusive=True)
        await service.stop()

    run(test())
