"""Backups of a journal in use, and what is restored from them."""

import asyncio
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from syndicated.cli import main
from syndicated.service import Limits
from syndicated.service.bandits.messages import Arm, Create, DecideReply, DecideRequest, KeyRequest, RewardRequest, Spec
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.state import State
from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.service.http.auth import Gate
from syndicated.store import Event, SQLite, Store, StoreError, open_store
from syndicated.store.backup import backup, restore

ARMS = [Arm("a", x=[1.0, 0.0]), Arm("b", x=[0.0, 1.0])]


async def _create(service: Service) -> list[str]:
    """A bandit, a key that works and one that was revoked; the keys' secrets."""
    await service.admin.create("", Create(name="shop", spec=Spec(features={"kind": "vector", "dim": 2})))
    keys = [
        await service.admin.create_key("", KeyRequest(name=name, scopes=["decide"])) for name in ("works", "revoked")
    ]
    await service.admin.revoke_key("", keys[1].id)
    return [key.secret or "" for key in keys]


async def _play(service: Service, event_id: str) -> DecideReply:
    answer = await service.decisions.decide("shop", DecideRequest(arms=list(ARMS), event_id=event_id))
    await service.decisions.reward(
        "shop", RewardRequest(decision_id=answer.decision_id, reward=float(answer.arm == "a"))
    )
    return answer


def _models(store: Store, *, whole: bool = False) -> list[bytes]:
    return [snapshot.state for snapshot in State.load(store, whole=whole).snapshots()]


def _events(store: Store, upto: int) -> list[Event]:
    return [event for event, _ in store.after(0) if event.seq <= upto]


@pytest.mark.parametrize(("of", "to"), [("sqlite", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite")])
def test_expectation_23_a_backup_of_a_busy_service_is_restored_as_it_was(
    of: str, to: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def address(kind: str, name: str) -> str:
        return str(tmp_path / name) if kind == "sqlite" else str(request.getfixturevalue("database")())

    journal, other, file = address(of, "journal.db"), address(to, "other.db"), tmp_path / "kept" / "backup.db"
    secrets: list[str] = []
    answers: list[DecideReply] = []

    async def write(service: Service, until: asyncio.Event) -> None:
        while not until.is_set():
            answers.append(await _play(service, f"visit {len(answers)}"))

    async def serve() -> DecideReply:
        service = Service(open_store(journal))
        service.start()
        secrets.extend(await _create(service))
        open_ = await service.decisions.decide("shop", DecideRequest(arms=list(ARMS), event_id="open"))
        await _play(service, "before")
        await service.admin.save_model("shop")
        end = asyncio.Event()
        writer = asyncio.create_task(write(service, end))
        while not answers:
            await asyncio.sleep(0)
        await asyncio.to_thread(backup, journal, file)
        end.set()
        await writer
        await _play(service, "after")
        await service.stop()
        return open_

    open_ = asyncio.run(serve())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["backup.db"]
    restore(file, other)
    with closing(open_store(journal)) as source, closing(open_store(other)) as store:
        last = store.last()
        assert 8 < last < source.last()
        assert _events(store, last) == _events(source, last)
        assert [snapshot.bandit for snapshot in store.snapshots()] == [0, 1]
        assert _models(store) == _models(store, whole=True)

    async def go_on() -> None:
        service = Service(open_store(other))
        service.start()
        gate = Gate(Services([service]), Limits())
        assert gate.check(secrets[0], "decide").name == "works"
        with pytest.raises(Problem, match="valid key"):
            gate.check(secrets[1], "decide")
        again = await service.decisions.decide("shop", DecideRequest(arms=list(ARMS), event_id="open"))
        assert (again.decision_id, again.repeated) == (open_.decision_id, True)
        reply = await service.decisions.reward("shop", RewardRequest(decision_id=open_.decision_id, reward=1.0))
        assert reply.outcome == "learned"
        await service.stop()

    asyncio.run(go_on())


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with some decisions."""
    file = tmp_path / "journal.db"

    async def serve() -> None:
        service = Service(SQLite(file))
        service.start()
        await _create(service)
        for k in range(5):
            await _play(service, str(k))
        await service.stop()

    asyncio.run(serve())
    return file


class Torn(SQLite):
    """A journal that cannot be read to its end."""

    def after(self, seq: int, *args: Any, **named: Any) -> Iterator[tuple[Event, Event | None]]:
        yield from list(super().after(seq, *args, **named))[:3]
        raise StoreError("torn")


def test_a_backup_that_fails_leaves_nothing(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syndicated.store.backup.open_store", lambda address, read_only: Torn(journal))
    with pytest.raises(StoreError, match="torn"):
        backup(str(journal), tmp_path / "new" / "backup.db")
    assert list((tmp_path / "new").iterdir()) == []


def test_the_commands(journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "backup.db", tmp_path / "other.db"
    assert main(["backup", "--store", str(journal), str(file)]) == 0
    assert main(["restore", str(file), "--store", f"sqlite:{other}"]) == 0
    with closing(open_store(str(journal))) as first, closing(open_store(str(other))) as second:
        count = first.last()
        assert _models(first) == _models(second)
    assert capsys.readouterr().out == f"{file} has {count} events\nthe journal has the {count} events of {file}\n"
    assert main(["backup", "--store", str(journal), str(file)]) == 2
    assert main(["restore", str(file), "--store", str(other)]) == 2
    assert main(["restore", str(tmp_path / "none.db"), "--store", str(other)]) == 2
    assert main(["backup", "--store", str(tmp_path / "none.db"), str(tmp_path / "more.db")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"syndicated: a backup must go into a new file; {file} exists"
    assert lines[1] == f"syndicated: a copy must go into an empty journal; got one with {count} events"
    assert lines[2] == f"syndicated: a backup must be a file; there is no {tmp_path / 'none.db'}"
    assert lines[3] == f"syndicated: a backup must be of a journal; there is no file {tmp_path / 'none.db'}"
    assert len(lines) == 4
    assert not (tmp_path / "more.db").exists()


def test_the_journal_may_be_named_by_the_environment(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNDICATED_STORE", str(journal))
    assert main(["backup", str(tmp_path / "backup.db")]) == 0
