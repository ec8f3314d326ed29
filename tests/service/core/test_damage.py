"""Damage to a journal: it is found and named, an older snapshot and the log take its place, the rest is saved."""

import asyncio
import math
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import psycopg
import pytest
from support.core_service import ASK, VECTOR, Clock, Harness, PlayCore, contents, run

from syndicated.cli import main
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Arm, Create, KeyRequest, RewardRequest, Spec
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import decode, encode
from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch
from syndicated.service.core.journal_check import repair, verify
from syndicated.service.core.service import Service
from syndicated.store import DamageError, Event, Snapshot, SQLite, StoreError, _sql, _sqlite, open_store
from syndicated.store._seal import COMPRESSED, seal, unseal
from syndicated.store._sql import SQL
from syndicated.store.backup import backup, restore

Change = Callable[[sqlite3.Connection], object]


def _save_nothing(batch: Batch) -> None:
    pass


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal with two snapshots of each bandit, and events after them."""

    async def fill() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create("a")
        await core.service.admin.create_key("", KeyRequest(name="k", scopes=["read"]))
        for _ in range(2):
            await core.create(f"n{core.service.state.seq}")
            await core.service.admin.put_arms("", "a", [Arm(f"r{core.service.state.seq}", x=[1.0, 2.0, 3.0])])
            for value in (0.0, 1.0, 0.5):
                await core.reward((await core.decide("a", subject="me")).decision_id, value, "a")
            await core.service.admin.save_model("a")
        await core.reward((await core.decide("a")).decision_id, 1.0, "a")
        core.service.group_commit.snapshots.save_at_once = _save_nothing  # type: ignore[method-assign]
        await core.service.stop()

    run(fill())
    return tmp_path / "journal.db"


def _change(file: Path, change: Change) -> None:
    with closing(sqlite3.connect(file)) as db:
        change(db)
        db.commit()


def _loaded(file: Path) -> list[bytes]:
    with closing(SQLite(file, read_only=True)) as store, store.view():
        return contents(State.load(store))


def _faults(file: Path) -> list[str]:
    with closing(SQLite(file, read_only=True)) as store:
        return verify(store)


def _damage_snapshots(which: str) -> Change:
    return lambda db: db.execute(f"UPDATE snapshots SET state = substr(state, 1, length(state) - 9) WHERE {which}")


def test_expectation_30_a_whole_journal_is_whole(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--store", str(file)]) == 0
    assert "the journal is whole, up to event" in capsys.readouterr().out


@pytest.mark.parametrize("newest", ["bandit != 0", "bandit = 0", "bandit >= 0"])
def test_expectation_30_a_damaged_snapshot_falls_back_to_an_older_one_and_the_log(file: Path, newest: str) -> None:
    before = _loaded(file)
    _change(file, _damage_snapshots(f"seq = (SELECT max(seq) FROM snapshots) AND {newest}"))
    assert _loaded(file) == before
    assert all(fault.startswith("the snapshot of bandit") for fault in _faults(file))
    _change(file, _damage_snapshots("bandit >= 0"))  # all of them: the whole log
    assert _loaded(file) == before
    _change(file, lambda db: db.execute("DELETE FROM log WHERE seq = 5"))
    with pytest.raises(DamageError, match=r"of bandit \d+ is damaged or lost, and the log from \d+ to \d+ lacks 1"):
        _loaded(file)


PIECE_DAMAGE = {
    "a changed piece": "UPDATE snapshots SET state = zeroblob(length(state)) WHERE {piece}",
    "a piece cut short": "UPDATE snapshots SET state = substr(state, 2) WHERE {piece}",
    "a piece of another type": "UPDATE snapshots SET state = 'x' WHERE {piece}",
    "a missing piece": "DELETE FROM snapshots WHERE {piece}",
    "other numbers of pieces": "UPDATE snapshots SET state = '5000 1 99999999999999' WHERE {own}",
    "no numbers of pieces": "UPDATE snapshots SET state = 'x' WHERE {own}",
    "a number": "UPDATE snapshots SET state = 7 WHERE {own}",
}


@pytest.mark.parametrize("damage", PIECE_DAMAGE)
def test_expectation_30_a_snapshot_of_which_a_piece_is_damaged_falls_back_to_an_older_one_and_is_made_anew(
    file: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "PIECE_BYTES", 500)

    async def go_on(times: int) -> None:
        for _ in range(times):
            core = Harness(file, Clock())
            await core.reward((await core.decide("a")).decision_id, 1.0, "a")
            await core.service.stop()

    run(go_on(2))
    before = _loaded(file)
    with closing(SQLite(file, read_only=True)) as store:
        bandit, at = State.load(store).names["a"].id, store.last()
        ((last,),) = store._rows("SELECT max(seq) FROM snapshots WHERE bandit = ?", ~bandit)
    where = {"piece": f"bandit = {~bandit} AND seq = {last}", "own": f"bandit = {bandit} AND seq = {at}"}
    _change(file, lambda db: db.execute(PIECE_DAMAGE[damage].format(**where)))
    assert _faults(file) == [f"the snapshot of bandit {bandit} at {at} is damaged"]
    assert _loaded(file) == before
    repaired = repair(str(file), file.with_name("saved.db"))
    assert repaired.can_start
    assert _loaded(file.with_name("saved.db")) == before
    assert _faults(file.with_name("saved.db")) == []
    run(go_on(1))
    with closing(SQLite(file, read_only=True)) as store:
        assert contents(State.load(store)) == contents(State.load(store, whole=True))
    assert _faults(file) == [f"the snapshot of bandit {bandit} at {at} is damaged"]  # it is none of the last any more


def test_expectation_30_an_erasure_first_saves_what_a_damaged_snapshot_does_not_have(file: Path) -> None:
    """What is rebuilt from the log would be lost with the events that are erased."""

    async def erase() -> None:
        core = Harness(file, Clock())
        await core.service.stop()  # so that nothing is after the snapshots
        _change(file, _damage_snapshots("seq > (SELECT min(seq) FROM snapshots)"))
        core = Harness(file, Clock())
        await core.service.admin.erase("", "me")
        assert _loaded(file) == core.contents()
        await core.service.stop()

    run(erase())


def test_expectation_30_nothing_is_pruned_before_a_damaged_snapshot_is_replaced(file: Path) -> None:
    """The log up to a snapshot that cannot be read is all that there is of it."""

    async def prune() -> None:
        core = Harness(file, Clock())
        await core.service.admin.update("", "a", {"retention": 100.0})
        await core.service.stop()
        _change(file, _damage_snapshots("seq > (SELECT min(seq) FROM snapshots)"))
        core = Harness(file, Clock())
        core.service.group_commit.snapshots.save_at_once = _save_nothing  # type: ignore[method-assign]
        await core.pass_time(1000.0)
        assert _loaded(file) == core.contents()
        await core.snapshots_are_taken()
        await core.pass_time(8000.0)
        assert [event.kind for event in await core.service.admin.audit(1)] == ["prune"]
        assert _loaded(file) == core.contents()
        await core.service.stop()

    run(prune())


@pytest.fixture
def pruned(tmp_path: Path) -> Path:
    """A journal with two saves of a bandit, at 7 and 13. Its events were dropped up to 12: the log's last one stays."""

    async def fill() -> None:
        core = Harness(tmp_path / "pruned.db", Clock())
        await core.create(retention=1000.0)
        for _ in range(2):
            for value in (0.0, 1.0, 0.5):
                await core.reward((await core.decide()).decision_id, value)
            await core.service.admin.save_model("b")
        core.service.group_commit.snapshots.save_at_once = _save_nothing  # type: ignore[method-assign]
        await core.pass_time(5000.0)
        assert core.learned == 6
        await core.service.stop()

    run(fill())
    return tmp_path / "pruned.db"


LOST_SAVES = {
    "the last is deleted": ("DELETE FROM snapshots WHERE seq > 7", 8),
    "the last is damaged": ("UPDATE snapshots SET state = substr(state, 1, 9) WHERE seq > 7", 8),
    "all are deleted": ("DELETE FROM snapshots", 1),
}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("change", "first"), LOST_SAVES.values(), ids=LOST_SAVES)
def test_expectation_30_a_lost_save_is_named_if_what_only_it_had_was_pruned(
    pruned: Path, change: str, first: int, kind: str, database: Callable[[], str]
) -> None:
    """An older model would be silently wrong."""
    address = str(pruned)
    if kind == "sqlite":
        _change(pruned, lambda db: db.execute(change))
    else:
        address = database()
        restore(pruned, address)
        with psycopg.connect(address) as connection:
            connection.execute("SET search_path = syndicated")
            connection.execute(change)
    lacking = f"the newest snapshot of bandit 1 is damaged or lost, and the log from {first} to 12 lacks events, which"
    with closing(open_store(address, read_only=True)) as store:
        with pytest.raises(DamageError, match=lacking):
            State.load(store)
        assert verify(store)[-1].startswith(f"no service can start from it: {lacking}")
    repaired = repair(address, pruned.with_name("saved.db"))
    assert re.match(r"the (newest )?snapshot of bandit 1 .*(is lost|is damaged)", repaired.faults[-1])
    assert repaired.can_start
    assert _faults(pruned.with_name("saved.db")) == []


def test_expectation_30_a_pruning_that_did_not_tell_what_it_dropped_is_no_reason_to_refuse_a_start(
    pruned: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of before did not."""
    with closing(SQLite(pruned, read_only=True)) as store:
        (event,) = store.recent(0, ["prune"], 1)
    old = seal(event._replace(body=encode({k: v for k, v in decode(event.body).items() if k != "last"})))
    _change(pruned, lambda db: db.execute("UPDATE log SET body = ? WHERE seq = ?", (old[-1], event.seq)))
    _change(pruned, lambda db: db.execute("DELETE FROM snapshots WHERE seq > 7"))
    _loaded(pruned)
    assert caplog.messages == [f"the log lacks up to 5 of its last events, up to {event.seq}; see `syndicated verify`"]


def test_expectation_30_a_lost_save_is_made_anew_if_an_older_one_has_what_was_pruned(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"

    async def fill() -> None:
        core = Harness(file, Clock())
        await core.create()
        for _ in range(2):
            core.clock.now += 600.0
            await core.reward((await core.decide()).decision_id, 1.0)
            await core.service.admin.save_model("b")
        core.service.group_commit.snapshots.save_at_once = _save_nothing  # type: ignore[method-assign]
        await core.service.admin.update("", "b", {"retention": 500.0})
        await core.pass_time(10.0)
        assert [event.kind for event in await core.service.admin.audit(1)] == ["prune"]
        await core.service.stop()

    run(fill())
    before = _loaded(file)
    _change(file, lambda db: db.execute("DELETE FROM snapshots WHERE seq > 3"))
    assert _loaded(file) == before


DAMAGE = {
    "a changed reward": "UPDATE log SET learn = 0.25 WHERE seq = (SELECT max(seq) FROM log)",
    "a changed body": "UPDATE log SET body = CAST(substr(body, 1, 9) || X'00' AS BLOB) WHERE seq = %d",
    "a body cut short": "UPDATE log SET body = substr(body, 1, 4) WHERE seq = %d",
    "another kind of seal": "UPDATE log SET body = CAST(X'C107' || substr(body, 3) AS BLOB) WHERE seq = %d",
    "another type": "UPDATE log SET bandit = 'x' WHERE seq = %d",
    "a number as a body": "UPDATE log SET body = 7 WHERE seq = %d",
    "a text as a body": "UPDATE log SET body = 'x' WHERE seq = %d",
    "another type without a checksum": "UPDATE log SET at = 'x', body = X'' WHERE seq = %d",
    "a body whose type is damaged": "UPDATE log SET body = CAST(body AS TEXT) WHERE seq = %d",
    "a text that is none": "UPDATE log SET kind = CAST(X'FF' AS TEXT) WHERE seq = %d",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_expectation_30_a_damaged_event_is_named_and_the_rest_is_saved(
    file: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(SQLite(file, read_only=True)) as store:
        last = store.last()
    _change(file, lambda db: db.execute(damage.replace("%d", str(last))))
    with pytest.raises(DamageError, match=rf"is damaged: event {last} of bandit \w+ is not what was written"):
        _loaded(file)
    assert main(["serve", "--port", "0", "--store", str(file)]) == 2
    assert main(["verify", "--store", str(file)]) == 2
    seen = capsys.readouterr()
    assert f"event {last} is damaged" in seen.out
    assert "Traceback" not in seen.err
    saved = file.with_name("saved.db")
    assert main(["repair", "--store", str(file), str(saved)]) == 0
    assert f"left out: event {last} is damaged" in capsys.readouterr().out
    assert _faults(saved) == []
    assert main(["repair", "--store", str(file), str(saved)]) == 2


def test_expectation_30_gaps_are_named(file: Path) -> None:
    _change(file, lambda db: db.execute("DELETE FROM log WHERE seq BETWEEN 4 AND 6"))
    assert _faults(file) == ["3 events are missing that were not pruned, among 4 to 6"]


def test_expectation_30_events_that_are_missing_at_the_end_are_named(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(SQLite(file, read_only=True)) as store:
        last, snapped = store.last(), store.snapshots(0)[0].seq
    _change(file, lambda db: db.execute(f"DELETE FROM log WHERE seq = {last - 1}"))  # after the snapshots
    _loaded(file)
    assert caplog.messages == [f"the log lacks up to 1 of its last events, up to {last}; see `syndicated verify`"]
    _change(file, lambda db: db.execute(f"DELETE FROM log WHERE seq >= {snapped - 1}"))  # learned, and gone
    assert _faults(file) == [f"2 events are missing that were not pruned, among {snapped - 1} to {snapped}"]
    assert caplog.messages[-1] == f"the log lacks up to 2 of its last events, up to {snapped}; see `syndicated verify`"


EMPTIED = {
    "a bandit's beginning": ("body = X''", "kind = 'create'", "event {} is damaged"),
    "a decision": ("body = X''", "kind = 'decide'", "1 of the events {0} to {0} are empty and were not erased"),
    "a reward, with zeros": ("body = zeroblob(length(body))", "kind = 'reward'", "event {} is damaged"),
}


@pytest.mark.parametrize(("change", "which", "fault"), EMPTIED.values(), ids=EMPTIED)
def test_expectation_30_events_that_were_emptied_and_not_erased_are_named(
    file: Path, change: str, which: str, fault: str
) -> None:
    """Those of before there were checksums have none, and neither have those that were erased."""
    with closing(sqlite3.connect(file)) as db:
        ((seq,),) = db.execute(f"SELECT min(seq) FROM log WHERE {which}").fetchall()
    _change(file, lambda db: db.execute(f"UPDATE log SET {change} WHERE seq = {seq}"))
    assert _faults(file) == [fault.format(seq)]
    repair(str(file), file.with_name("saved.db"))


def test_expectation_30_what_was_erased_or_pruned_is_no_damage(file: Path) -> None:
    async def erase() -> None:
        core = Harness(file, Clock())
        assert await core.service.admin.erase("", "me")
        await core.service.stop()

    run(erase())
    assert _faults(file) == []


@pytest.mark.parametrize("body", [{"bandit": "x", "count": "y"}, {"bandit": None, "count": 0.5}, [1], 7, {}])
@pytest.mark.parametrize("kind", ["prune", "erase", "arms", "import"])
def test_expectation_30_whatever_an_event_says_a_check_and_a_repair_end(file: Path, kind: str, body: object) -> None:
    """A checksum says that an event is what was written, and not that a service wrote it."""
    with closing(SQLite(file)) as store:
        store.write([Event(store.last() + 1, 0, kind, 0.0, body=encode(body))])
    _faults(file)
    repair(str(file), file.with_name("saved.db"))


SNAPSHOT_ROWS = ["seq = 1", "seq = seq + 2", f"seq = {2**63 - 1}", "seq = 'x'", "at = 'x'", "at = X'00'", "at = 9e999"]
SNAPSHOT_ROWS += ["at = at + 1", "bandit = 99", "bandit = 'x'", "state = CAST(state AS TEXT)", "state = 5"]
SNAPSHOT_ROWS += ["state = (SELECT state FROM snapshots s WHERE s.bandit = snapshots.bandit ORDER BY seq LIMIT 1)"]


@pytest.mark.parametrize("change", SNAPSHOT_ROWS)
@pytest.mark.parametrize("bandit", [0, 1])
def test_expectation_30_a_snapshot_is_of_the_bandit_the_event_and_the_time_that_its_row_says(
    file: Path, bandit: int, change: str
) -> None:
    before = _loaded(file)
    which = f"bandit = {bandit} AND seq = (SELECT max(seq) FROM snapshots)"
    _change(file, lambda db: db.execute(f"UPDATE snapshots SET {change} WHERE {which}"))
    assert _loaded(file) == before
    assert re.match(r"the (newest )?snapshot of bandit \w+", _faults(file)[0])
    with closing(SQLite(file, read_only=True)) as store:
        assert all(math.isfinite(at) for _, at, _ in store.snapshot_sizes(bandit))
    assert repair(str(file), file.with_name("saved.db")).can_start
    assert _loaded(file.with_name("saved.db")) == before
    backup(str(file), file.with_name("backup.db"))
    assert _loaded(file.with_name("backup.db")) == before


@pytest.mark.parametrize("which", ["bandit = 1 AND seq > 10", "bandit = 1", "bandit = 0 AND seq > 10", "bandit = 0"])
def test_expectation_30_a_snapshot_that_is_lost_is_made_anew(
    file: Path, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An older one is intact, but is not what the bandit was."""
    before, bandit = _loaded(file), which[len("bandit = ")]
    _change(file, lambda db: db.execute(f"DELETE FROM snapshots WHERE {which}"))
    assert _loaded(file) == before
    assert caplog.messages == [f"the newest snapshot of bandit {bandit} is lost, an older one and the log are used"]
    assert _faults(file) == [f"the newest snapshot of bandit {bandit} is lost"]
    assert repair(str(file), file.with_name("saved.db")).faults == _faults(file)
    assert (_faults(file.with_name("saved.db")), _loaded(file.with_name("saved.db"))) == ([], before)
    _change(file, lambda db: db.execute("DELETE FROM log WHERE seq = 5"))
    if "seq" not in which:
        with pytest.raises(DamageError, match=f"bandit {bandit} is damaged or lost, and the log from 1 to 18 lacks 1 "):
            _loaded(file)


@pytest.mark.parametrize("service", ["DELETE FROM snapshots WHERE {}", "UPDATE snapshots SET state = X'' WHERE {}"])
def test_expectation_30_a_lost_snapshot_is_noticed_also_if_that_of_the_service_is_lost_or_damaged(
    file: Path, service: str
) -> None:
    """They may have been on one page. The one of the service that is left does not know of what came after it."""
    before = _loaded(file)
    _change(file, lambda db: db.execute(service.format("bandit = 0 AND seq > 10")))
    _change(file, lambda db: db.execute("DELETE FROM snapshots WHERE bandit = 1 AND seq > 10"))
    assert _loaded(file) == before
    assert "the newest snapshot of bandit 1 is lost" in _faults(file)
    assert "the newest snapshot of bandit 1 is lost" in repair(str(file), file.with_name("saved.db")).faults
    assert (_faults(file.with_name("saved.db")), _loaded(file.with_name("saved.db"))) == ([], before)


def test_expectation_30_a_name_stays_with_its_last_bandit_when_an_earlier_one_is_made_anew(tmp_path: Path) -> None:
    async def fill() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create("a")
        await core.service.admin.retire("", "a")
        await core.create("a")
        await core.service.stop()

    run(fill())
    _change(tmp_path / "journal.db", _damage_snapshots("bandit = 1"))
    with closing(SQLite(tmp_path / "journal.db", read_only=True)) as store:
        state = State.load(store)
    assert (state.rebuilt, state.names["a"].id, state.bandits[1].retired) == ({1}, 3, True)


def test_expectation_30_an_index_that_lacks_events_is_named_and_repaired(file: Path) -> None:
    """By it the service would not find an event that it has."""
    other = "replace(sql, 'key IS NOT NULL', 'key IS NULL')"  # of which it has none
    change = f"PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = {other} WHERE name = 'log_key'"
    _change(file, lambda db: db.executescript(change))
    assert any("the file is damaged: " in fault and "log_key" in fault for fault in _faults(file))
    repair(str(file), file.with_name("saved.db"))
    assert _faults(file.with_name("saved.db")) == []


NO_SECRET = "it has no secret, which its ids are made with"
META = {
    "DELETE FROM meta WHERE name = 'secret'": NO_SECRET,
    "UPDATE meta SET value = X'' WHERE name = 'secret'": NO_SECRET,
    "UPDATE meta SET value = zeroblob(100) WHERE name = 'secret'": NO_SECRET,
    "UPDATE meta SET value = 'x' WHERE name = 'secret'": "its secret is not what was written",
    "INSERT INTO meta VALUES ('group', 5)": "its group is not what was written",
}


@pytest.mark.parametrize("change", META)
def test_expectation_30_a_journal_without_its_secret_or_its_group_is_refused_in_one_line(
    file: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _change(file, lambda db: db.execute(change))
    commands = ["serve", "--port", "0"], ["verify"], ["repair", str(file.with_name("saved.db"))]
    for command in commands:
        assert main([*command, "--store", str(file)]) == 2
        assert capsys.readouterr().err.splitlines()[-1].endswith(META[change])


@pytest.mark.parametrize("which", [0, 1, -1])
def test_expectation_30_a_snapshot_on_a_page_that_cannot_be_read_is_a_damaged_one(
    file: Path, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the service, of a bandit that has an older one, and of one that has no other."""
    before, read = _loaded(file), SQL.snapshot
    with closing(SQLite(file, read_only=True)) as store:
        newest = store.snapshots()[which]

    def malformed(self: SQL, bandit: int, seq: int) -> Snapshot | None:
        if (bandit, seq) == (newest.bandit, newest.seq):
            raise StoreError("the database disk image is malformed")
        return read(self, bandit, seq)

    monkeypatch.setattr(SQL, "snapshot", malformed)
    assert _loaded(file) == before
    fault = f"the snapshot of bandit {newest.bandit} at {newest.seq} is damaged"
    assert _faults(file) == repair(str(file), file.with_name("saved.db")).faults == [fault]
    monkeypatch.undo()
    assert _loaded(file.with_name("saved.db")) == before


def test_expectation_30_a_repair_that_fails_leaves_no_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SQL, "salvage", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        repair(str(file), file.with_name("saved.db"))
    assert all(each.name.startswith("journal.db") for each in file.parent.iterdir())


def test_expectation_30_snapshots_that_cannot_be_listed_are_left_out(file: Path) -> None:
    before = _loaded(file)
    _change(file, lambda db: db.execute("ALTER TABLE snapshots RENAME TO lost"))
    assert any("the snapshots cannot be read" in fault for fault in _faults(file))
    repaired = repair(str(file), file.with_name("saved.db"))
    assert repaired.snapshots == 0
    assert _loaded(file.with_name("saved.db")) == before


def test_expectation_30_unused_numbers_are_no_damage_and_missing_events_are(
    database: Callable[[], str], tmp_path: Path
) -> None:
    address, file = database(), tmp_path / "copy.db"

    async def fill() -> None:
        service = Service(open_store(address))
        service.start()
        await service.admin.create("", Create(name="b", spec=Spec(features=VECTOR)))
        for _ in range(2):
            for value in (0.0, 1.0):
                id_ = (await service.decisions.decide("b", ASK)).decision_id
                await service.decisions.decision("b", id_)  # reserves a number, and has no use for it
                await service.decisions.reward("b", RewardRequest(decision_id=id_, reward=value))
            await service.admin.save_model("b")
        await service.stop()

    run(fill())
    with closing(open_store(address, read_only=True)) as store:
        assert verify(store) == []
        last = store.last()
    assert backup(address, file) == 9 < last
    before = _loaded(file)
    assert _faults(file) == []
    _change(file, _damage_snapshots("bandit != 0 AND seq = (SELECT max(seq) FROM snapshots)"))
    assert _loaded(file) == before
    _change(file, lambda db: db.execute(f"DELETE FROM log WHERE seq = {last}"))
    lost, damaged, no_start = _faults(file)
    assert re.fullmatch(rf"1 events are missing that were not pruned, among \d+ to {last}", lost)
    assert "the snapshot of bandit" in damaged
    assert "lacks 1 events" in no_start


def test_expectation_30_what_cannot_be_folded_ends_in_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An event of before there were checksums, whose body is no MessagePack."""
    _change(file, lambda db: db.execute("UPDATE log SET body = X'FF00' WHERE seq = (SELECT max(seq) FROM log)"))
    _change(file, lambda db: db.execute("UPDATE log SET kind = 'closed' WHERE seq = (SELECT max(seq) FROM log)"))
    assert main(["serve", "--port", "0", "--store", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "kind 'closed', cannot be read" in line
    assert any("no service can start from it" in fault for fault in _faults(file))


def test_expectation_30_of_decisions_that_are_folded_together_the_damaged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create("a")
        for _ in range(5):
            await core.decide("a")
        core.service.group_commit.snapshots.save_at_once = _save_nothing  # type: ignore[method-assign]
        await core.service.stop()

    run(fill())
    with closing(SQLite(tmp_path / "journal.db", read_only=True)) as store, monkeypatch.context() as failing:
        failing.setattr(Bandit, "fold_decisions", lambda *given: 1 / 0)  # after all were read: it may be any of them
        with pytest.raises(DamageError, match="one of the events 2 to 6 of bandit 1, kind 'decide', cannot be read"):
            State.load(store)
    _change(tmp_path / "journal.db", lambda db: db.execute("UPDATE log SET body = X'FF00' WHERE seq = 4"))
    with closing(SQLite(tmp_path / "journal.db", read_only=True)) as store:
        state = State.load(store, upto=1)
        with pytest.raises(DamageError, match="event 4 of bandit 1, kind 'decide', cannot be read"):
            state.follow(store, 6, {})
    assert (state.seq, state.bandit("a").history.count) == (3, 2)  # those before it, and none of them twice


def test_expectation_30_pages_that_cannot_be_read_are_left_out(file: Path) -> None:
    with closing(SQLite(file)) as store:
        last = store.last()
        bodies = [encode({"of": bytes([k]) * 9000}) for k in range(1, 6)]
        store.write([Event(last + k, 0, "create", 0.0, body=body) for k, body in enumerate(bodies, 1)])
    _change(file, lambda db: db.execute("PRAGMA journal_mode = DELETE"))
    data = file.read_bytes()
    place = data.index(bytes([3]) * 3000)
    file.write_bytes(data[:place] + bytes(3000) + data[place + 3000 :])
    repaired = repair(str(file), file.with_name("saved.db"))
    assert repaired.faults[0] == f"event {last + 3} is damaged"
    assert repaired.events == last + 4
    assert not repaired.can_start  # these are no events
    assert main(["repair", "--store", str(file), str(file.with_name("again.db"))]) == 2


@pytest.fixture
def killed(file: Path, tmp_path: Path) -> Path:
    """The files of a process that was killed: most of its events are in the write-ahead log."""
    copy = tmp_path / "killed" / "journal.db"
    copy.parent.mkdir()
    with closing(SQLite(file)) as store:
        last = store.last()
        for k in range(1, 101):
            store.write([Event(last + k, 0, "erase", 0.0, body=encode({"actor": "", "count": 0}))])
        for ending in ("", "-wal"):
            copyfile(f"{file}{ending}", f"{copy}{ending}")
    return copy


def _flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize(("place", "what"), [(20, "its header"), (32 + 24 + 4000, "frame 1 of "), (0.3, "frame ")])
def test_expectation_30_a_damaged_write_ahead_log_is_named_and_what_follows_is_saved(
    killed: Path, place: float, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQLite takes it for the end of its log, without a word."""
    log = killed.with_name("journal.db-wal")
    with closing(SQLite(killed, read_only=True)) as store:
        last = store.last()
    _flip(log, int(place if place > 1 else place * log.stat().st_size))
    with closing(SQLite(killed, read_only=True)) as store:
        assert store.last() < last
    named = f"journal.db is damaged: its write-ahead log is damaged at {what}"
    with pytest.raises(DamageError, match=named):
        SQLite(killed)
    assert main(["verify", "--store", str(killed)]) == 2
    assert f"its write-ahead log is damaged at {what}" in capsys.readouterr().out
    repaired = repair(str(killed), killed.with_name("saved.db"))
    assert repaired.faults[0].startswith(f"its write-ahead log is damaged at {what}")
    assert repaired.can_start
    with closing(SQLite(killed.with_name("saved.db"))) as store:
        assert store.last() == last
        assert repaired.events >= last - 1


@pytest.mark.parametrize("cut", [False, True])
def test_expectation_30_a_write_that_was_cut_short_is_no_damage(killed: Path, cut: bool) -> None:
    """As by a power failure: it was not acknowledged, and the service starts without it."""
    log = killed.with_name("journal.db-wal")
    with closing(SQLite(killed, read_only=True)) as store:
        last = store.last()
    if cut:
        log.write_bytes(log.read_bytes()[:-100])
    else:
        _flip(log, log.stat().st_size - 100)
    with closing(SQLite(killed)) as store:
        assert store.last() == last - 1


def test_expectation_30_neither_are_two_that_were_cut_short_one_after_the_other(killed: Path) -> None:
    """The second one writes over the beginning of the first, whose end is still there."""
    for count in (60, 1):
        log, next_ = killed.with_name("journal.db-wal"), killed.parent / "next" / "journal.db"
        next_.parent.mkdir()
        with closing(SQLite(killed)) as store:
            last, before = store.last(), log.read_bytes()
            store.write([Event(last + k, 0, "erase", 0.0, body=bytes([k]) * 900) for k in range(1, count + 1)])
            for ending in ("", "-wal"):
                copyfile(f"{killed}{ending}", f"{next_}{ending}")
            after = log.read_bytes()
        killed, log = next_, next_.with_name("journal.db-wal")
        _flip(log, next((k for k, byte in enumerate(before) if byte != after[k]), len(before)) + 100)
    with closing(SQLite(killed)) as store:
        assert store.last() == last


def test_expectation_30_neither_is_the_rest_of_a_log_that_was_begun_anew(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with closing(SQLite(file)) as store:
        last = store.last()
        for k in range(1, 11):
            store.write([Event(last + k, 0, "erase", 0.0, body=b"x" * 900)])
            if k == 9:
                store._rows("PRAGMA wal_checkpoint(RESTART)")
        for ending in ("", "-wal"):
            copyfile(f"{file}{ending}", f"{copy}{ending}")
    with closing(SQLite(copy)) as store:
        assert store.last() == last + 10


def test_expectation_30_a_damaged_first_page_is_made_anew(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, saved = _loaded(file), file.with_name("saved.db")
    _change(file, lambda db: db.execute("PRAGMA journal_mode = DELETE"))
    data = file.read_bytes()
    for place in (0, data.index(b"CREATE TABLE log"), data.index(b"log_bandit")):
        file.write_bytes(data[:place] + b"\xef" * 3 + data[place + 3 :])
        with pytest.raises(StoreError):  # and no other error, of a text that is none
            SQLite(file)
        assert main(["verify", "--store", str(file)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert repair(str(file), saved).can_start
        assert _loaded(saved) == before
        saved.unlink()


def _with_full_pages(file: Path) -> tuple[int, bytes]:
    """Add 100 events to a journal that fill its pages; the last number before them, and what the file has then."""
    with closing(SQLite(file)) as store:
        last = store.last()
        store.write([Event(last + k, 0, "erase", 0.0, body=encode({"count": "x" * 900})) for k in range(1, 101)])
    _change(file, lambda db: db.execute("PRAGMA journal_mode = DELETE"))
    return last, file.read_bytes()


def test_expectation_30_of_a_file_that_was_cut_short_the_beginning_is_saved(file: Path) -> None:
    last, data = _with_full_pages(file)
    file.write_bytes(data[: len(data) - 50_000])
    repaired = repair(str(file), file.with_name("saved.db"))
    assert last < repaired.events < last + 100
    assert any(fault.startswith(f"nothing after event {repaired.events} can be read") for fault in repaired.faults)
    assert repaired.can_start


def test_expectation_30_pages_that_are_there_twice_are_saved_once(file: Path) -> None:
    last, data = _with_full_pages(file)
    pages = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    full = [k for k, page in enumerate(pages) if page.count(b"x") > 2000]
    pages[full[5]] = pages[full[9]]
    file.write_bytes(b"".join(pages))
    repaired = repair(str(file), file.with_name("saved.db"))
    assert last + 90 < repaired.events < last + 100
    assert repaired.can_start


def test_expectation_30_a_bandit_of_which_nothing_is_left_is_left_out(file: Path) -> None:
    """No service could start from its decisions alone."""
    with closing(SQLite(file, read_only=True)) as store:
        bandit = State.load(store).names["a"].id
    _change(file, lambda db: db.execute("DELETE FROM log WHERE seq = ?", (bandit,)))
    _change(file, lambda db: db.execute("DELETE FROM snapshots WHERE bandit = ?", (bandit,)))
    repaired = repair(str(file), file.with_name("saved.db"))
    assert repaired.faults[-1] == f"what bandit {bandit} was made of is lost, and with it all its events"
    assert repaired.can_start


def test_expectation_30_the_last_number_of_a_damaged_file_may_be_any(file: Path) -> None:
    _change(file, lambda db: db.execute("UPDATE log SET seq = 1 << 61 WHERE seq = (SELECT max(seq) FROM log)"))
    assert f"event {2**61} is damaged" in _faults(file)


def test_expectation_30_a_list_of_decisions_goes_on_behind_damaged_ones(
    play_core: PlayCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sql, "CHUNK_BYTES", 1)  # every decision is a page of the list

    async def test(harness: Harness) -> None:
        await harness.create()
        ids = harness.service.decisions.ids
        seqs = [ids.seq((await harness.decide()).decision_id) for _ in range(5)]
        body = harness.service.group_commit.store.events([seqs[2]])[seqs[2]].body
        update = "UPDATE log SET body = ? WHERE seq = ?"
        _change(harness.file, lambda db: db.execute(update, (COMPRESSED + body, seqs[2])))
        pages = [[event.seq for event in page] async for page in harness.service.admin.latest("b", 10)]
        assert pages == [[seqs[4]], [seqs[3]], [seqs[1]], [seqs[0]]]
        _change(harness.file, lambda db: db.execute(update, (body, seqs[2])))  # as it was without its checksum

    play_core(test)


def test_expectation_30_a_request_that_is_refused_leaves_no_gap(tmp_path: Path) -> None:
    """Among others of its batch, and at the last moment: a context with a number that the log cannot have."""

    async def test() -> None:
        core = Harness(tmp_path / "journal.db", Clock())
        await core.create(features={"kind": "open"}, log="all")
        asked = [core.decide(arms=["a", "b"], context={"n": n}) for n in (10**30, 1, 10**30, 2)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(answer, Problem) for answer in answers] == [True, False, True, False]
        await core.service.stop()

    run(test())
    assert _faults(tmp_path / "journal.db") == []


def test_expectation_30_an_event_whose_mark_is_damaged_is_none_of_before_checksums() -> None:
    row = seal(Event(1, 2, "decide", 3.0, body=b"body"))
    with pytest.raises(DamageError):
        unseal((*row[:-1], b"\x81" + row[-1][1:]), "")


def test_bodies_of_zeros_are_compressed_and_others_are_not() -> None:
    for body in (b"", b"x", bytes(10_000), bytes(range(1, 256)) * 40):
        event = Event(1, 2, "decide", 3.0, 4, 5.0, "k", "s", body)
        sealed = seal(event)
        assert unseal(sealed, "") == event
        assert (sealed[-1][:2] == COMPRESSED) == (body == bytes(10_000))
        assert len(sealed[-1]) <= (100 if body == bytes(10_000) else len(body) + 6)


def test_large_bodies_are_compressed_only_if_that_is_quick() -> None:
    """If they are mostly zeros: others wait for it."""
    for share, compressed in ((4, False), (8, True)):
        body = (bytes(share) + bytes(range(1, 9 - share)) + bytes([9])) * 2**17
        sealed = seal(Event(1, 2, "decide", 3.0, body=body))
        assert (sealed[-1][:2] == COMPRESSED) == compressed
        assert unseal(sealed, "").body == body
