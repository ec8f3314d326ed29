"""Every journal keeps what was appended, in order, all or nothing; and every kind of journal is tested here."""

import shutil
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.postgres import Server

import syndicated.store
from syndicated import InputError, MissingExtraError
from syndicated.store import (
    Event,
    Held,
    Snapshot,
    SQLite,
    Store,
    StoreConflictError,
    StoreError,
    UnknownCommitError,
    _base,
    _postgres,
    _sql,
    _sqlite,
    check_group,
    copy,
    form_group,
    open_store,
)
from syndicated.store._postgres import Postgres
from syndicated.store._postgres_connection import ANSWER_SECONDS, BoundedConnection
from syndicated.store._sql import SQL

KINDS = ["sqlite", "postgres"]
STORED = Path(__file__).parent / "data"
SECRET = "hunter2"
HANG_SECONDS = 600  # only so that a test that hangs ends


class Journals:
    """Makes journals of each kind, and closes what was opened."""

    def __init__(self, folder: Path, database: Callable[[], str]) -> None:
        self._folder, self._database = folder, database
        self._stores: list[Store] = []

    def address(self, kind: str) -> str:
        return self._database() if kind == "postgres" else str(self._folder / f"{len(self._stores)}.db")

    def open(self, address: str, *, read_only: bool = False) -> Any:
        self._stores.append(open_store(address, read_only=read_only))
        return self._stores[-1]

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def journals(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Journals]:
    made = Journals(tmp_path, lambda: request.getfixturevalue("database")())
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(kind: str, journals: Journals) -> str:
    return journals.address(kind)


@pytest.fixture
def store(address: str, journals: Journals) -> Any:
    return journals.open(address)


def _add(store: Store, events: Iterable[Event]) -> None:
    """Append events in one batch, with the sequence numbers that come next."""
    with store.batch() as last:
        store.append([event._replace(seq=last + i) for i, event in enumerate(events, start=1)])


def _decisions(count: int, **fields: Any) -> list[Event]:
    return [Event(0, 1, "decide", float(i), **fields) for i in range(count)]


def _all(store: Store) -> list[Event]:
    return [event for event, _ in store.after(0)]


def test_every_kind_of_journal_is_tested_here() -> None:
    files = Path(syndicated.store.__file__).parent.glob("_[!_]*.py")
    shared = {"_base", "_group", "_postgres_connection", "_salvage", "_seal", "_sql", "_wal"}
    assert {file.stem for file in files} - shared == {f"_{kind}" for kind in KINDS}


def test_a_new_journal_is_empty_and_has_a_secret_of_its_own(kind: str, journals: Journals) -> None:
    one, other = (journals.open(journals.address(kind)) for _ in range(2))
    assert (one.last(), _all(one), one.snapshots()) == (0, [], [])
    assert len(one.secret) == 32
    assert one.secret != other.secret


def test_new_journals_become_a_group_that_stays_as_it_is(kind: str, journals: Journals) -> None:
    stores = [journals.open(journals.address(kind)) for _ in range(3)]
    ordered = form_group(stores)
    assert [store.id for store in ordered] == sorted(store.id for store in stores)
    assert form_group(stores[::-1]) == ordered
    assert all(store.group == [each.id for each in ordered] for store in stores)
    new = journals.open(journals.address(kind))
    for wrong, fault in (
        (stores[:2], "number 1 is one of 3, of which 1 are missing; 0 others were given"),
        ([*stores, new], "number 1 is one of 3, of which 0 are missing; 1 others were given"),
        ([new, stores[0]], "number 2 is one of 3, of which 2 are missing; 1 others were given"),
        (stores[2:], "number 1 is one of 3, of which 2 are missing"),
        ([stores[0], *stores], "different journals; got one of them, or a copy of it, twice"),
    ):
        with pytest.raises(InputError, match=fault):
            check_group(wrong)
    assert not new.group


def test_a_journal_that_was_used_alone_stays_alone_and_a_copy_stays_in_its_group(kind: str, journals: Journals) -> None:
    alone, *both = (journals.open(journals.address(kind)) for _ in range(3))
    _add(alone, _decisions(1))
    assert form_group([alone]) == [alone]
    with pytest.raises(InputError, match="is one of 1, of which 0 are missing; 1 others were given"):
        form_group([alone, both[0]])
    assert not both[0].group
    pair = form_group(both)
    twin = journals.open(journals.address(kind))
    copy(pair[0], twin)
    assert form_group([pair[1], twin])[0] is twin
    with pytest.raises(InputError, match="a copy of it, twice"):
        form_group([twin, *pair])


def test_the_order_has_no_gaps_over_many_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sql, "CHUNK_EVENTS", 7)
    for size in (1, 0, 30, 2):
        _add(store, _decisions(size))
    assert store.last() == 33
    assert [event.seq for event in _all(store)] == list(range(1, 34))
    assert [event.seq for event, _ in store.after(30)] == [31, 32, 33]


def test_a_large_snapshot_comes_back_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in slices, or written in pieces."""
    monkeypatch.setattr(_postgres, "SLICE_BYTES", 4)
    monkeypatch.setattr(_sqlite, "PIECE_BYTES", 4)
    with store.batch():
        store.save([Snapshot(1, seq, 0.5, bytes(range(seq))) for seq in (0, 3, 4, 9)], keep=9)
    for seq in (0, 3, 4, 9):
        assert store.snapshot(1, seq) == Snapshot(1, seq, 0.5, bytes(range(seq)))
    assert [len(snapshot.state) for snapshot in store.snapshots(1)] == [9, 4, 3, 0]
    assert store.snapshot_sizes(1) == [(seq, 0.5, seq) for seq in (9, 4, 3, 0)]
    assert store.snapshots() == [Snapshot(1, 9, 0.5, bytes(range(9)))]
    assert store.snapshot(1, 5) is store.snapshot(2, 9) is None


def test_snapshots_are_saved_beside_a_batch_all_or_nothing(journals: Journals, database: Callable[[], str]) -> None:
    """Nobody waits for them: a server takes in 200 MB in several seconds, more than a batch has."""
    store = journals.open(database())
    with store.batch():
        store.save_beside([Snapshot(1, 3, 0.0, b"a"), Snapshot(2, 3, 0.0, b"b")], keep=1)
        assert [snapshot.state for snapshot in store.snapshots()] == [b"a", b"b"]
    with pytest.raises(StoreError):
        store.save_beside([Snapshot(1, 4, 0.0, b"c"), Snapshot(2**63, 4, 0.0, b"d")], keep=1)
    assert store.save_beside([Snapshot(2, 5, 0.0, b"e")], keep=1, after=3)
    assert not store.save_beside([Snapshot(2, 6, 0.0, b"f")], keep=1, after=4)  # another was first
    assert [snapshot.seq for bandit in (1, 2) for snapshot in store.snapshots(bandit)] == [3, 5]


def test_what_is_read_or_saved_beside_a_batch_gives_up_a_hung_server_as_soon_as_the_batch(
    journals: Journals, database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, connection = journals.open(database()), BoundedConnection
    connect_seconds, seconds, connect = list[int](), list[float](), connection.connect

    def counted(**address: Any) -> BoundedConnection:
        connect_seconds.append(int(address["connect_timeout"]))
        return connect(**address)

    def timed(self: Postgres, kind: Any, count: int = 0) -> Any:
        seconds.append(self._db.seconds or 0.0)
        return transaction(self, kind, count)

    transaction = Postgres._transaction
    monkeypatch.setattr(connection, "connect", counted)
    monkeypatch.setattr(Postgres, "_transaction", timed)
    store.reader().close()
    store.save_beside([Snapshot(1, 3, 0.0, b"a")], keep=1)
    store.save_beside([Snapshot(1, 4, 0.0, bytes(_postgres.SAVE_RATE))], keep=1)
    assert connect_seconds == 3 * [_postgres.CONNECT_SECONDS]
    assert [round(each, 3) for each in seconds] == [
        ANSWER_SECONDS,
        ANSWER_SECONDS + 1,
    ]


def test_large_events_are_read_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory at once is bounded in bytes, whatever events are: by 1000 here, of 400 each."""
    monkeypatch.setattr(_sql, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(_sql, "CHUNK_EVENTS", 20)
    read, read_rows = list[int](), _sql.SQL._rows

    def note(self: _sql.SQL, query: str, *values: Any) -> list[tuple[Any, ...]]:
        rows = read_rows(self, query, *values)
        read.append(sum(len(value) for row in rows for value in row if isinstance(value, bytes)))
        return rows

    _add(store, _decisions(40, body=bytes(range(1, 101)) * 4))
    _add(store, [Event(0, 1, "reward", 1.0, ref=ref, learn=1.0, body=bytes(range(50))) for ref in range(1, 41)])
    monkeypatch.setattr(_sql.SQL, "_rows", note)
    assert [event.seq for event, _ in store.after(0)] == list(range(1, 81))
    assert max(read[1:]) < 1000 < read[0]  # the first look tells how large they are
    read.clear()
    assert [event.seq for event, _ in store.after(0, upto=19)] == list(range(1, 20))  # few, as they are followed
    assert [about and about.seq for _, about in store.after(40, upto=59)] == list(range(1, 20))
    assert 800 < max(read) < 1000
    read.clear()
    with store.view():
        assert [event.seq for event, _ in store.after(0, upto=19)] == list(range(1, 20))
    assert len(read) > 1  # of one moment all the same
    pages = [[event.seq for event in store.recent(1, ["decide"], 30, before)] for before in (None, 39, 2)]
    assert pages == [[40, 39], [38, 37], [1]]
    monkeypatch.setattr(_sql, "CHUNK_BYTES", 1)
    assert [event.seq for event in store.recent(1, ["decide"], 30)] == [40]


@pytest.mark.parametrize("limit", [1, 3, 30])
def test_the_latest_events_go_on_behind_damaged_ones(
    store: SQL, limit: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _add(store, _decisions(20, body=bytes(range(1, 101))))
    monkeypatch.setattr(_sql, "CHUNK_BYTES", 400)
    store._run("UPDATE log SET body = ? WHERE seq BETWEEN 5 AND 19", b"\xc1\x00damaged")
    seen: list[int] = []
    while page := store.recent(1, ["decide"], limit, seen[-1] if seen else None):
        seen += [event.seq for event in page]
    assert seen == [20, 4, 3, 2, 1]
    assert "event 5 of bandit 1 is not what was written" in caplog.text


def test_chunks_are_of_so_many_events_or_fewer_if_they_are_large() -> None:
    events = [Event(k, 1, "decide", 0.0, body=bytes(size)) for k, size in enumerate((1, 1, 1, 9, 1))]
    chunks = [[event.seq for event in chunk] for chunk in _base.in_chunks(events, 2, 9)]
    assert chunks == [[0, 1], [2, 3], [4]]


def test_events_are_read_by_their_numbers(store: Store) -> None:
    _add(store, _decisions(3))
    _add(store, [Event(0, 1, "reward", 1.0, ref=ref, learn=1.0) for ref in (1, 2, 3)])
    found = [(event.seq, about and about.seq) for event, about in store.after(1, upto=5, numbers=[1, 2, 4, 5, 6, 9])]
    assert found == [(2, None), (4, 1), (5, 2)]
    assert list(store.after(0, numbers=[])) == []


def test_decisions_that_the_reader_has_are_not_read_again(store: Store) -> None:
    _add(store, _decisions(3))
    _add(store, [Event(0, 1, "reward", 1.0, ref=ref, learn=1.0) for ref in (1, 2, 3)])
    found = [(event.ref, about and about.seq) for event, about in store.after(3, known_from=2)]
    assert found == [(1, 1), (2, None), (3, None)]


def test_decisions_are_held_with_the_events_about_them(store: Store) -> None:
    _add(store, _decisions(2, body=b"b"))
    _add(store, [Event(0, 1, kind, 1 / 3, ref=1, learn=0.1, body=b"\x00b") for kind in ("reward", "activate")])
    with store.entry(1):
        decision, about = _all(store)[0], _all(store)[2:]
        assert store.hold([1, 2, 99]) == {1: (about, None), 2: ([], None)}
        assert store.hold([1, 2, 99], [1, 99]) == {1: (about, decision), 2: ([], None)}
        assert store.hold([]) == {}


def test_a_batch_that_raises_leaves_nothing(store: Store) -> None:
    _add(store, _decisions(2))
    before, secret = _all(store), store.secret

    def fail() -> None:
        with store.batch() as last:
            store.append([Event(last + 1, 1, "decide", 0.0)])
            store.save([Snapshot(1, 2, 0.0, b"")], keep=1)
            store.prune(1, 9.0, 9)
            store.set_origin(b"other", has_gaps=False)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (_all(store), store.snapshots(), store.secret) == (before, [], secret)
    _add(store, _decisions(1))
    assert store.last() == 3


def test_a_doubled_key_is_refused_and_nothing_is_left(store: Store) -> None:
    _add(store, _decisions(1, key="a"))
    before = _all(store)
    again = Event(0, 1, "reward", 1.0, key="b")
    for wrong in ([again, _decisions(1, key="a")[0]], [again, again]):
        with pytest.raises(StoreError, match=r"^the journal.* cannot be used: .*"):
            _add(store, wrong)
        assert _all(store) == before
    _add(store, [again._replace(bandit=2, key="a")])
    assert store.last() == 2


def test_a_batch_in_which_something_failed_keeps_nothing(store: Store) -> None:
    def go_on() -> None:
        with store.batch():
            with pytest.raises(StoreError):
                store.append([Event(1, 1, "decide", 0.0), Event(1, 1, "decide", 0.0)])
            with suppress(StoreError):
                store.append([Event(1, 1, "decide", 0.0)])

    with pytest.raises(StoreError, match=r"^the journal.* keeps nothing of a batch in which something failed$"):
        go_on()
    assert store.last() == 0
    _add(store, _decisions(1))
    assert store.last() == 1


def test_what_is_written_by_itself_is_all_or_nothing(
    kind: str, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sqlite, "MAX_STATEMENT_ROWS", 3)
    store = journals.open(journals.address(kind))
    for size in (1, 3, 7):
        store.write([event._replace(seq=store.last() + i) for i, event in enumerate(_decisions(size), start=1)])
    assert [event.seq for event in _all(store)] == list(range(1, 12))
    for size in (2, 3, 8):
        events = [Event(12 + i, 1, "decide", 0.0) for i in range(size)]
        with pytest.raises(StoreError, match="cannot be used"):
            store.write([*events[:-1], events[0]])
        assert store.last() == 11
    store.write([Event(12 + i, 1 + i % 2, "decide", 0.0, key=f"k{i}") for i in range(8)])
    keys = [(1 + i % 2, f"k{i}") for i in range(8)]
    found = store.keyed([(2, "k0"), (1, "k1"), *keys, (1, "k8")])
    assert {key: event.seq for key, event in found.items()} == {key: 12 + i for i, key in enumerate(keys)}


def test_an_ear_that_fails_does_not_fail_a_batch(journals: Journals) -> None:
    class Deaf:
        closed = False

        def notifies(self, **more: Any) -> NoReturn:
            raise psycopg.OperationalError("the connection was lost")

        def close(self) -> None:
            pass

    store = journals.open(journals.address("postgres"))
    store._listener = Deaf()
    with store.batch():
        store.append([Event(1, 1, "decide", 0.0)])
        with pytest.raises(StoreError, match="the connection was lost"):
            store.wait(0.0)
    assert store.last() == 1


def test_a_doubled_sequence_number_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="cannot be used"), store.batch():
        store.append([Event(1, 1, "decide", 0.0), Event(1, 1, "decide", 0.0)])
    assert store.last() == 0


def test_numbers_bytes_and_words_come_back_to_the_bit(store: Store) -> None:
    floats = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5e-17, 2.0**53 + 2, 1784999999.1234567, 0, 3, True]
    words = [
        "",
        "käse",
        "日本",
        "\U0001f9c0",
        "'; DROP TABLE log; --",
        "%s ? :a $1",
        "{a,b}",
        "NULL",
        "\\x00",
        "é e\u0301",
    ]
    bodies = [b"", bytes(range(256)), b"\x00" * 70_000, b"'", b"\\x", *[b"x"] * 5]
    events = [
        Event(0, 2**62 + i, word, at, 2**62 - i, at, word, word, body)
        for i, (at, word, body) in enumerate(zip(floats, words, bodies, strict=True))
    ]
    _add(store, events)
    expected = [event._replace(seq=i) for i, event in enumerate(events, start=1)]
    assert _all(store) == expected
    for found, event in zip(_all(store), expected, strict=True):
        assert (type(found.at), type(found.learn), type(found.body)) == (float, float, bytes)
        assert struct.pack("d", found.at) == struct.pack("d", event.at)
        assert store.keyed([(event.bandit, event.kind)]) == {(event.bandit, event.kind): event}
        assert store.recent(event.bandit, [event.kind], 1) == [event]
    snapshot = Snapshot(2**62, 2**62, 0.1, bytes(range(256)) * 1000)
    with store.batch():
        store.save([snapshot], keep=1)
    assert store.snapshots() == [snapshot]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
SMALL = st.integers(0, 2)
TIMES = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)  # SQLite knows no -0.0
EVENTS = st.builds(
    Event,
    seq=st.just(0),
    bandit=SMALL,
    kind=st.sampled_from(["decide", "reward", "käse"]),
    at=st.sampled_from([0.0, 1.0, 2.5]) | TIMES,
    ref=st.none() | st.integers(1, 20),
    learn=st.none() | TIMES,
    key=st.none() | TEXT,
    subject=st.none() | st.sampled_from("xy"),
    body=st.binary(max_size=4),
)


class Model(RuleBasedStateMachine):
    """A journal next to plain lists that must tell the same."""

    def __init__(self, store: SQL) -> None:
        super().__init__()
        self.store = store
        self.log: list[Event] = []
        self.saved: list[Snapshot] = []
        with store.batch():
            store._run("DELETE FROM log")
            store._run("DELETE FROM snapshots")

    @property
    def last(self) -> int:
        return self.log[-1].seq if self.log else 0

    @rule(events=st.lists(EVENTS, max_size=5))
    def append(self, events: list[Event]) -> None:
        log = [*self.log, *(event._replace(seq=self.last + i) for i, event in enumerate(events, start=1))]
        keys = [(event.bandit, event.key) for event in log if event.key is not None]
        if len(set(keys)) == len(keys):
            _add(self.store, events)
            self.log = log
        else:
            with pytest.raises(StoreError):
                _add(self.store, events)

    @rule(
        bandits=st.lists(SMALL, max_size=3), seq=st.integers(0, 9), keep=st.integers(1, 3), state=st.binary(max_size=3)
    )
    def save(self, bandits: list[int], seq: int, keep: int, state: bytes) -> None:
        new = [Snapshot(bandit, seq + i, 0.5, state) for i, bandit in enumerate(bandits)]
        with self.store.batch():
            self.store.save(new, keep)
        places = {(snapshot.bandit, snapshot.seq): snapshot for snapshot in [*self.saved, *new]}
        newest = sorted(places.values(), key=lambda snapshot: -snapshot.seq)
        of = {bandit: [snapshot for snapshot in newest if snapshot.bandit == bandit] for bandit in range(3)}
        self.saved = [s for bandit, found in of.items() for s in (found[:keep] if bandit in bandits else found)]

    @rule(bandit=SMALL, before=st.sampled_from([0.5, 2.0, 1e300]), upto=st.integers(0, 20))
    def prune(self, bandit: int, before: float, upto: int) -> None:
        needed = {e.ref for e in self.log if e.seq > upto}
        old = [e for e in self.log if e.bandit == bandit and e.at < before and e.seq <= upto and e.seq < self.last]
        gone = [event for event in old if event.seq not in needed]
        with self.store.batch():
            assert sorted(self.store.prune(bandit, before, upto)) == [event.seq for event in gone]
        self.log = [event for event in self.log if event not in gone]

    @rule(subject=st.sampled_from("xyz"), limit=st.integers(1, 20))
    def erase(self, subject: str, limit: int) -> None:
        of = [event.seq for event in self.log if event.subject == subject]
        assert self.store.last_about(subject) == max(of, default=0)
        assert self.store.count_about(subject, self.last // 2) == sum(seq <= self.last // 2 for seq in of)
        with self.store.batch():
            assert self.store.erase(subject, limit=limit) == min(len(of), limit)
        blank = [event._replace(learn=None, key=None, subject=None, body=b"") for event in self.log]
        pairs = zip(self.log, blank, strict=True)
        self.log = [erased if event.seq in of[:limit] else event for event, erased in pairs]

    @rule(seq=st.integers(0, 20), bandit=st.none() | SMALL)
    def after(self, seq: int, bandit: int | None) -> None:
        by_seq = {event.seq: event for event in self.log}
        behind = [e for e in self.log if e.seq > seq and bandit in (None, e.bandit)]
        assert list(self.store.after(seq, bandit)) == [(e, by_seq.get(e.ref or 0)) for e in behind]

    @rule(numbers=st.lists(st.integers(0, 25)), more=st.lists(st.tuples(SMALL, TEXT), max_size=3))
    def look_up(self, numbers: list[int], more: list[tuple[int, str]]) -> None:
        assert self.store.events(iter(numbers)) == {e.seq: e for e in self.log if e.seq in numbers}
        refs = {event.ref for event in self.log} & set(numbers)
        assert self.store.about(iter(numbers)) == {ref: [e for e in self.log if e.ref == ref] for ref in refs}
        keys = {(event.bandit, event.key): event for event in self.log if event.key is not None}
        asked = [*more, *(key for key, event in keys.items() if event.seq in numbers)]
        assert self.store.keyed(iter(asked)) == {key: keys[key] for key in asked if key in keys}

    @rule(after=st.dictionaries(SMALL, st.integers(0, 9)), limit=st.integers(1, 5))
    def decisions(self, after: dict[int, int], limit: int) -> None:
        of = {b: [e for e in self.log if e.bandit == b and e.kind == "decide" and e.seq > after[b]] for b in after}
        assert self.store.decisions(after, limit) == {b: found[:limit] for b, found in of.items() if found}

    @rule()
    def touch(self) -> None:
        with self.store.batch():
            self.store.touch()

    @rule(bandit=SMALL, kinds=st.lists(st.sampled_from(["decide", "käse", "none"])), limit=st.integers(1, 5))
    def recent(self, bandit: int, kinds: list[str], limit: int) -> None:
        of = [e for e in reversed(self.log) if e.bandit == bandit and e.kind in kinds]
        assert self.store.recent(bandit, kinds, limit) == of[:limit]
        for last in of[:1]:
            assert self.store.recent(bandit, kinds, limit, before=last.seq) == of[1 : 1 + limit]

    @invariant()
    def the_same(self) -> None:
        assert self.store.last() == self.last
        assert _all(self.store) == self.log
        of = [[s for s in self.saved if s.bandit == bandit] for bandit in range(3)]
        assert [self.store.snapshots(bandit) for bandit in range(3)] == of
        assert self.store.snapshots() == [found[0] for found in of if found]
        assert self.store.snapshot_sizes(1) == [(s.seq, s.at, len(s.state)) for s in of[1]]


def test_a_journal_tells_what_plain_lists_tell(store: SQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite, "PIECE_BYTES", 1)  # so that there are pieces of snapshots
    few = settings(max_examples=25, stateful_step_count=20)
    run_state_machine_as_test(lambda: Model(store), settings=few)  # type: ignore[arg-type]


@pytest.mark.parametrize(("before", "upto", "left"), [(3.0, 9, [3, 4, 5]), (9.0, 3, [4, 5]), (9.0, 9, [5])])
def test_pruning_ends_before_its_time_with_its_event_and_before_the_last(
    store: Store, before: float, upto: int, left: list[int]
) -> None:
    _add(store, [event._replace(at=float(at)) for at, event in enumerate(_decisions(5), start=1)])
    with store.batch():
        assert {*store.prune(1, before, upto), *left} == {1, 2, 3, 4, 5}
    assert [event.seq for event in _all(store)] == left


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("target", KINDS)
def test_a_copy_is_the_same_journal(
    store: Store, target: str, pruned: bool, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_base, "CHUNK_EVENTS", 4)
    _add(store, [*_decisions(9, subject="me", body=b"\x00\xff"), Event(0, 1, "reward", 9.0, 3, 0.1, "ü")])
    with store.batch():
        store.save([Snapshot(b, seq, 0.1, b"%d" % seq) for b in (1, 2) for seq in (3, 5)], keep=2)
    if pruned:
        with store.batch():
            assert len(store.prune(1, 5.0, 4)) == 3  # the reward after them is about one of the four
    twin = journals.open(journals.address(target))
    assert copy(store, twin) == len(_all(store)) == (7 if pruned else 10)
    assert list(twin.after(0)) == list(store.after(0))
    assert (twin.secret, twin.last()) == (store.secret, 10)
    assert [twin.snapshots(bandit) for bandit in (None, 1, 2)] == [store.snapshots(bandit) for bandit in (None, 1, 2)]
    with pytest.raises(StoreError, match=r"^a copy must go into an empty journal; got one with 10 events$"):
        copy(store, twin)


def test_a_view_stays_as_it_was(address: str, store: Store, journals: Journals) -> None:
    reader = journals.open(address, read_only=True)
    _add(store, _decisions(1))
    with reader.view():
        assert reader.last() == 1
        _add(store, _decisions(1))
        assert reader.last() == 1
    assert reader.last() == 2


def test_a_journal_is_copied_as_it_was_at_one_moment(
    address: str, store: Store, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(store, _decisions(9))
    reader, twin = journals.open(address, read_only=True), journals.open(journals.address("sqlite"))
    before, append = list(store.after(0)), twin.append

    def meanwhile(events: list[Event]) -> None:
        append(events)
        _add(store, _decisions(1))
        with store.batch():
            store.save([Snapshot(1, 8, 0.0, b"")], keep=1)
            store.prune(1, 9.0, 8)

    monkeypatch.setattr(_base, "CHUNK_EVENTS", 4)
    monkeypatch.setattr(_sql, "CHUNK_EVENTS", 4)
    monkeypatch.setattr(twin, "append", meanwhile)
    assert copy(reader, twin) == 9
    assert list(twin.after(0)) == before
    assert twin.snapshots() == []


@pytest.mark.parametrize("target", KINDS)
def test_a_copy_that_fails_leaves_the_journal_empty(
    target: str, tmp_path: Path, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_base, "CHUNK_EVENTS", 4)
    source, twin = journals.open(str(tmp_path / "source.db")), journals.open(journals.address(target))
    _add(source, _decisions(9))
    secret = twin.secret
    with monkeypatch.context() as patch:
        patch.setattr(source, "snapshots", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copy(source, twin)
    assert (twin.last(), twin.secret) == (0, secret)
    assert copy(source, twin) == 9


def test_a_reader_sees_what_is_committed_and_cannot_write(address: str, store: Store, journals: Journals) -> None:
    reader = journals.open(address, read_only=True)
    with store.batch():
        store.append([Event(1, 1, "decide", 0.0)])
        assert reader.last() == 0
    assert _all(reader) == _all(store) == [Event(1, 1, "decide", 0.0)]
    with (
        pytest.raises(StoreError, match=r"^the journal.* was opened to be read; it cannot be written$"),
        reader.batch(),
    ):
        pytest.fail("a reader wrote")
    writes: list[Callable[[], object]] = [lambda: reader.append(_decisions(1)), lambda: reader.erase("me")]
    for write in writes:
        with pytest.raises(StoreError, match=r"read-?only"):
            write()
    assert store.last() == 1


def test_a_reader_makes_no_journal(address: str, journals: Journals) -> None:
    with pytest.raises(StoreError, match=r"^the journal.* (unable to open database file|must hold a journal; .*)$"):
        journals.open(address, read_only=True)


def test_a_closed_journal_stays_closed(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.last()


def test_a_newer_journal_is_refused(address: str, store: SQL, journals: Journals) -> None:
    with store.batch():
        store._run("UPDATE meta SET value = ? WHERE name = 'schema'", b"99")
    store.close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"^the journal.* must have schema 1( or 2)?; got 99$"):
            journals.open(address, read_only=read_only)


def test_an_older_journal_is_migrated(
    address: str, store: Store, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(store, _decisions(3))
    before, secret = _all(store), store.secret
    store.close()
    scripts = {
        1: "ALTER TABLE log ADD COLUMN weight REAL DEFAULT 0.1; CREATE TABLE notes (seq INTEGER, text BLOB)",
        2: "ALTER TABLE log ADD COLUMN place INTEGER",
    }
    monkeypatch.setattr(_sql, "SCHEMA_VERSION", 3)
    with pytest.raises(StoreError, match=r"must have schema 3; got 1$"):
        journals.open(address, read_only=True)
    monkeypatch.setattr(_sql, "MIGRATIONS", scripts)
    for _ in range(2):
        migrated = journals.open(address)
        assert (_all(migrated), migrated.secret) == (before, secret)
        assert migrated._rows("SELECT DISTINCT weight, place FROM log") == [(0.1, None)]
        assert migrated._version() == 3
        migrated.close()


def test_a_migration_that_fails_changes_nothing(
    address: str, store: Store, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    scripts = {1: "ALTER TABLE log ADD COLUMN weight REAL", 2: "ALTER TABLE missing ADD COLUMN place INTEGER"}
    with monkeypatch.context() as patch:
        patch.setattr(_sql, "SCHEMA_VERSION", 3)
        patch.setattr(_sql, "MIGRATIONS", scripts)
        with pytest.raises(StoreError, match="missing"):
            journals.open(address)
    again = journals.open(address)
    with pytest.raises(StoreError, match="weight"):
        again._rows("SELECT weight FROM log")


# SQLite


@pytest.mark.parametrize("schema", [1, 2])
def test_expectation_23_a_stored_journal_of_each_schema_opens(schema: int, tmp_path: Path, journals: Journals) -> None:
    """Each was made once: `store = open_store(str(STORED / "journal-1.db")); _write_stored(store); store.close()`.

    That of schema 2 with `PIECE_BYTES` = 100, so that its snapshot is in three pieces.
    """
    file = tmp_path / "stored.db"
    shutil.copy(STORED / f"journal-{schema}.db", file)
    reader = journals.open(str(file), read_only=True)
    assert reader.secret == b"s" * 32
    reader.close()
    store, twin = journals.open(str(file)), journals.open(str(tmp_path / "twin.db"))
    _write_stored(twin)
    assert list(store.after(0)) == list(twin.after(0))
    assert store.last() == 4
    assert store.snapshots() == twin.snapshots() == [Snapshot(1, 3, 3.5, bytes(range(256)))]
    assert store.keyed([(1, "käse")])[1, "käse"].ref == 2
    tables = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    assert store._rows(tables) == twin._rows(tables)  # other tables are another schema, and need a migration
    assert (store._version(), store._rows("SELECT count(*) FROM snapshots WHERE bandit < 0")) == (
        (1, [(0,)]) if schema == 1 else (2, [(3,)])
    )


def _write_stored(store: Store) -> None:
    with store.batch():
        store.set_origin(b"s" * 32, has_gaps=False)
        store.append(
            [
                Event(1, 0, "bandit", 0.1, body=b"{}"),
                Event(2, 1, "decide", 1.5, subject="me", body=bytes(range(256))),
                Event(3, 1, "reward", 2.5, 2, 1 / 3, "käse", "me"),
                Event(4, 1, "reward", 3.5, 1, 5e-324),
            ]
        )
        store.save([Snapshot(1, 3, 3.5, bytes(range(256)))], keep=1)


def test_a_file_has_one_owner_at_a_time(tmp_path: Path, journals: Journals) -> None:
    file = tmp_path / "new" / "a.db"
    first = journals.open(f"sqlite:{file}")
    with pytest.raises(StoreError, match=r"^the journal .*a\.db must have one owner; it is in use by process \d+$"):
        journals.open(str(file))
    _add(first, _decisions(1))
    assert [path.stat().st_mode & 0o077 for path in (file, file.with_name("a.db-wal"))] == [0, 0]
    first.close()
    assert journals.open(str(file)).last() == 1


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_nothing_is_written_to_a_file_that_was_moved_or_replaced(
    ending: str, tmp_path: Path, journals: Journals
) -> None:
    """It would be acknowledged, and gone with the process."""
    store = journals.open(str(tmp_path / "a.db"))
    _add(store, _decisions(1))
    place, aside = tmp_path / f"a.db{ending}", tmp_path / "aside"
    place.rename(aside)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"a\.db cannot be used: its file was moved, removed or replaced"):
            store.write([Event(2, 1, "decide", 0.5)])
        with pytest.raises(StoreError, match="was moved"), store.batch():
            raise AssertionError
        place.write_bytes(b"another file")
    assert store.last() == 1
    aside.rename(place)
    store.write([Event(2, 1, "decide", 0.5)])
    assert store.last() == 2


def test_a_lock_of_another_program_is_not_waited_for_long(
    tmp_path: Path, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _sqlite.LOCK_SECONDS < 3.0
    monkeypatch.setattr(_sqlite, "LOCK_SECONDS", 0.0)
    store = journals.open(str(tmp_path / "a.db"))
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="database is locked"):
            store.write([Event(1, 1, "decide", 0.5)])
    store.write([Event(1, 1, "decide", 0.5)])


def test_another_file_is_refused_and_not_touched(tmp_path: Path, journals: Journals) -> None:
    foreign, text = tmp_path / "foreign.db", tmp_path / "text.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE notes (name TEXT)")
    db.close()
    text.write_text("not a journal " * 1000)
    for file, message in (
        (foreign, "must hold a journal; got another database"),
        (text, "cannot be used: file is not a database"),
    ):
        before = file.read_bytes()
        for read_only in (False, True):
            with pytest.raises(StoreError) as caught:
                journals.open(str(file), read_only=read_only)
            assert str(caught.value) == f"the journal {file} {message}"
        assert file.read_bytes() == before


@pytest.mark.parametrize("columns", ["1 AS name, 2 AS value", "'schema' AS name, 'x' AS value", "3 AS other"])
def test_a_table_of_the_same_name_makes_no_journal(columns: str, tmp_path: Path, journals: Journals) -> None:
    with sqlite3.connect(tmp_path / "a.db") as db:
        db.execute(f"CREATE TABLE meta AS SELECT {columns}")
    db.close()
    with pytest.raises(StoreError, match=r"a\.db (must hold a journal; got another database|.*no such column: value)$"):
        journals.open(str(tmp_path / "a.db"))


def test_a_damaged_file_gives_one_clear_line(tmp_path: Path, journals: Journals) -> None:
    file = tmp_path / "a.db"
    store = journals.open(str(file))
    _add(store, _decisions(2000, body=b"x" * 100))
    store.close()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 4] + b"\xff" * (len(whole) - len(whole) // 4))
    damaged = journals.open(str(file))
    with pytest.raises(StoreError, match=r"^the journal .*a\.db cannot be used: database disk image is malformed$"):
        list(damaged.after(0))


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^a journal must be a file; got the folder '.*'$"):
        SQLite(tmp_path)
    assert list(tmp_path.parent.glob(f"{tmp_path.name}.lock")) == []


def test_a_folder_that_cannot_be_made_gives_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"^the journal .* cannot be opened: .*"):
        SQLite(tmp_path / "file" / "a.db")


def test_a_full_disk_keeps_nothing_of_the_batch_and_heals(tmp_path: Path, journals: Journals) -> None:
    store = journals.open(str(tmp_path / "a.db"))
    _add(store, _decisions(3))
    before = _all(store)
    pages = store._rows("PRAGMA page_count")[0][0]
    store._rows(f"PRAGMA max_page_count = {pages + 2}")
    large = _decisions(100, body=b"x" * 1000)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"^the journal .*a\.db cannot be used: database or disk is full$"):
            _add(store, large)
        assert _all(store) == before
    store._rows("PRAGMA max_page_count = 1000000")
    _add(store, large)
    assert store.last() == 103


def test_nobody_else_appends_to_a_file_so_waiting_is_sleeping(
    tmp_path: Path, journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    journals.open(str(tmp_path / "a.db")).wait(0.25)
    assert slept == [0.25]


# PostgreSQL


def test_replicas_may_start_at_once(database: Callable[[], str], journals: Journals) -> None:
    address, start = database(), threading.Barrier(3)
    secrets: list[bytes] = []

    def replica() -> None:
        start.wait(HANG_SECONDS)
        store = Postgres(address)
        secrets.append(store.secret)
        store.close()

    _together([replica] * 3)
    assert len(secrets) == 3
    assert len(set(secrets)) == 1


def _together(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()


def test_a_reader_behind_three_writers_sees_every_event_once_and_in_order(
    database: Callable[[], str], journals: Journals
) -> None:
    address, batches = database(), 100
    reader = journals.open(address)
    seen: list[Event] = []

    def write(bandit: int) -> None:
        store = Postgres(address)
        for i in range(batches):
            with store.batch() as last:
                store.append([Event(last + j, bandit, "decide", float(i), key=f"{i}.{j}") for j in (1, 2)])
        store.close()

    def read() -> None:
        while len(seen) < 3 * 2 * batches:
            seen.extend(event for event, _ in reader.after(seen[-1].seq if seen else 0))
            reader.wait(1)

    _together([read, *(partial(write, bandit) for bandit in (1, 2, 3))])
    assert [event.seq for event in seen] == list(range(1, 601))
    for bandit in (1, 2, 3):
        own = [event.key for event in seen if event.bandit == bandit]
        assert own == [f"{i}.{j}" for i in range(batches) for j in (1, 2)]


def test_entries_wait_for_nobody_and_are_settled_when_all_before_them_have_ended(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    slow, quick, reader = (journals.open(address) for _ in range(3))
    _add(slow, _decisions(3))
    with slow.entry(1) as (number,):
        with quick.entry(2) as numbers:
            quick.append([Event(seq, 1, "decide", 0.0, body=b"b") for seq in numbers])
        assert [number, *numbers] == [4, 5, 6]
        assert (reader.settled(), reader.last()) == (3, 6)
        monkeypatch.setattr(_postgres, "ANSWER_SECONDS", 0.02)
        with pytest.raises(StoreError, match=r"another process has not ended what it began to write$"), reader.batch():
            pass
        slow.append([Event(number, 1, "decide", 0.0)])
    assert reader.settled() == 6
    assert [event.seq for event, _ in reader.after(3, upto=5, numbers=[5])] == [5]
    with suppress(InterruptedError), slow.entry(1):
        raise InterruptedError
    assert (reader.settled(), reader.last()) == (7, 6)
    with reader.batch() as last:
        assert (last, reader.reserve(1)) == (6, [8])


def test_who_hangs_in_the_middle_of_its_events_is_cut_off_by_others(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    stopped, other = journals.open(address), journals.open(address)
    monkeypatch.setattr(_postgres, "CUT_OFF_SECONDS", 0.0)

    def hang(connection: BoundedConnection, sends: Sequence[Callable[[], None]], needed: int) -> NoReturn:
        """Of what is sent together the server gets the first, and not the commit."""
        connection.pgconn.enter_pipeline_mode()
        sends[0]()
        connection.pgconn.send_flush_request()
        assert not connection.pgconn.flush()
        assert other.settled() == 0
        monkeypatch.setattr(_postgres, "STATEMENT_SECONDS", 0)
        assert any(other.settled() for _ in range(10_000))
        connection.pgconn.finish()
        raise psycopg.OperationalError("it goes on, and its connection is lost")

    with ExitStack() as entry:
        (number,) = entry.enter_context(stopped.entry(1))
        stopped.append([Event(number, 1, "decide", 0.0)])
        monkeypatch.setattr(BoundedConnection, "_together", hang)
        with pytest.raises(UnknownCommitError, match="lost while it committed"):
            entry.close()
    monkeypatch.undo()
    with stopped.entry(1) as (number,):
        stopped.append([Event(number, 1, "decide", 0.0)])
    assert [event.seq for event in _all(other)] == [2]


def _enter(store: Store, key: str | None = None, *, next_count: int = 0) -> int:
    """Write an event as an entry of its own; its number."""
    with store.entry(1) as (number, *_):
        store.append([Event(number, 1, "decide", 0.0, key=key)], next_count)
    return number


def test_an_entry_that_follows_at_once_has_its_numbers_from_the_one_before(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    busy, other = journals.open(address), journals.open(address)
    exchanges: list[int] = []
    together = BoundedConnection._together

    def counted(connection: BoundedConnection, sends: Any, needed: int) -> Any:
        exchanges.append(needed)
        return together(connection, sends, needed)

    monkeypatch.setattr(BoundedConnection, "_together", counted)
    numbers = [_enter(busy, next_count=2), _enter(busy, next_count=1), _enter(busy)]
    assert (numbers, exchanges) == ([1, 2, 4], [2, 2, 2, 2])
    assert not busy.is_ahead
    _enter(busy, next_count=1)
    with busy.entry(3) as more:  # than were reserved: there is another exchange for the rest
        busy.append([Event(number, 1, "decide", 0.0) for number in more])
    assert (more, exchanges[4:]) == ([6, 7, 8], [2, 2, 1, 2])
    assert [event.seq for event in _all(other)] == [1, 2, 4, 5, 6, 7, 8]


def test_numbers_that_were_reserved_ahead_hold_up_others_until_they_are_given_up(
    database: Callable[[], str], journals: Journals
) -> None:
    address = database()
    busy, other = journals.open(address), journals.open(address)
    _enter(busy, next_count=3)
    assert busy.is_ahead
    assert _enter(other) == 5
    assert other.settled() == 1
    busy.give_up_numbers()
    assert not busy.is_ahead
    assert other.settled() == 5
    _enter(busy, next_count=3)
    assert busy.settled() == 9  # any call gives them up
    _enter(busy, next_count=3)
    with busy.batch() as last:
        assert last == 10


def test_numbers_that_were_reserved_ahead_are_never_used_after_the_server_has_ended_their_transaction(
    database: Callable[[], str], journals: Journals
) -> None:
    address = database()
    busy, other = journals.open(address), journals.open(address)
    _enter(busy, next_count=3)
    other._rows("SELECT pg_terminate_backend(?)", busy._db.info.backend_pid)
    while not busy._db.is_cut():
        pass
    assert _enter(other) == 5
    assert other.settled() == 5
    assert _enter(busy) == 6
    assert [event.seq for event in _all(other)] == [1, 5, 6]


def test_what_follows_on_numbers_whose_transaction_the_server_has_ended_is_answered(
    database: Callable[[], str], journals: Journals
) -> None:
    """A process that was stopped between two entries, so long that the server gave it up, goes on as if it had not."""
    address = database()
    stopped, other = journals.open(address), journals.open(address)
    for use in (stopped.settled, stopped.give_up_numbers):
        last = _enter(stopped, next_count=1)
        _cut(stopped._db, other)
        while not stopped._db.is_cut():
            pass
        use()
        assert not stopped.is_ahead
        assert stopped.last() == last


def test_what_is_wrong_with_numbers_for_later_does_not_undo_an_entry(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = journals.open(database())
    monkeypatch.setattr(_postgres, "_reserving", lambda count: (b"reserve", (b"bad",)))
    with pytest.raises(StoreError, match="insufficient data"), store.entry(1):
        pass
    monkeypatch.undo()
    with store.entry(1) as (number,):
        monkeypatch.setattr(_postgres, "_reserving", lambda count: (b"reserve", (b"bad",)))
        store.append([Event(number, 1, "decide", 0.0)], 1)
    monkeypatch.undo()
    assert not store.is_ahead
    assert [_enter(store), store.last()] == [2, 2]


def test_a_conflict_leaves_nothing_of_an_entry_and_no_numbers(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    one, other = journals.open(address), journals.open(address)
    _enter(other, next_count=1)
    _enter(one, "k")
    with pytest.raises(StoreConflictError, match="duplicate key"):
        _enter(other, "k", next_count=1)
    assert not other.is_ahead
    assert other.settled() == 3
    assert [event.seq for event in _all(one)] == [1, 3]


def test_an_entry_larger_than_what_a_connection_takes_at_once_is_written(
    database: Callable[[], str], journals: Journals
) -> None:
    store, body = journals.open(database()), bytes(range(256)) * 2**16
    with store.entry(2) as numbers:
        store.append([Event(number, 1, "decide", 0.0, body=body) for number in numbers])
    assert [event.body == body for event in _all(store)] == [True, True]


def test_a_large_entry_is_sent_in_parts_and_nothing_is_queued_behind_one(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, body = journals.open(database()), bytes(range(256)) * 2**12
    send, sizes = BoundedConnection._send, list[int]()

    def watch(connection: BoundedConnection, name: bytes, values: Sequence[bytes]) -> None:
        send(connection, name, values)
        sizes.append(sum(map(len, values)))
        assert sizes[-1] < 1000 or not connection.pgconn.flush()

    monkeypatch.setattr(BoundedConnection, "_send", watch)
    with store.entry(9) as numbers:
        store.append([Event(number, 1, "decide", 0.0, body=body) for number in numbers], 1)
    assert max(sizes) < 3 * len(body)
    assert store.is_ahead
    assert [event.body == body for event in _all(store)] == [True] * 9


def test_who_uses_a_key_second_is_told_and_decisions_are_held(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    one, other = journals.open(address), journals.open(address)
    _add(one, [*_decisions(2, body=b"b"), *_decisions(1, subject="me")])
    with one.batch():
        one.erase("me")
    with one.entry(1) as (number,):
        one.append([Event(number, 1, "decide", 0.0, key="k")])
    with pytest.raises(StoreConflictError, match="duplicate key"), other.entry(1) as (number,):
        other.append([Event(number, 1, "decide", 0.0, key="k")])
    other._db.execute("SET lock_timeout = '1ms'")
    with one.entry(1):
        assert one.hold([1, 3, 99]) == {1: ([], None)}
        with other.entry(1):
            assert other.hold([2]) == {2: ([], None)}
        with pytest.raises(StoreError, match="lock timeout"), other.entry(1):
            other.hold([1])


def test_who_waits_for_a_decision_is_told_what_was_added_meanwhile(
    database: Callable[[], str], journals: Journals
) -> None:
    address = database()
    one, other, reader = (journals.open(address) for _ in range(3))
    _add(one, _decisions(2, body=b"b"))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    def hold() -> dict[int, Held]:
        with other.entry(1):
            held: dict[int, Held] = other.hold([1, 2])
        return held

    with ThreadPoolExecutor(1) as pool:
        with one.entry(1) as (number,):
            one.hold([1])
            held = pool.submit(hold)
            while not held.done() and not reader._rows(waiting):
                pass
            reward = Event(number, 1, "reward", 1 / 3, ref=1, learn=0.1, subject="me", body=b"\x00b")
            one.append([reward])
        assert held.result(HANG_SECONDS) == {1: ([reward], None), 2: ([], None)}


def test_a_decision_whose_reward_is_on_its_way_is_not_pruned(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    one, other, reader = (journals.open(address) for _ in range(3))
    _add(one, _decisions(3, body=b"b"))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with one.batch(), ThreadPoolExecutor(1) as pool:
        with other.entry(1) as (number,):
            assert other.hold([1]) == {1: ([], None)}
            other.append([Event(number, 1, "reward", 9.0, ref=1, learn=1.0)])
            pruned = pool.submit(one.prune, 1, 9.0, 2)
            while not pruned.done() and not reader._rows(waiting):
                pass
        assert pruned.result(HANG_SECONDS) == [2]
    assert [event.seq for event in _all(one)] == [1, 3, 4]


def test_the_time_is_that_of_the_server(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = journals.open(database())
    monkeypatch.setattr(_base, "_START", _base._START + 3600)
    with store.entry(1):
        pass
    assert -3700 < store.clock_offset < -3500
    monkeypatch.undo()
    with store.batch():
        assert -100 < store.clock_offset < 100


def test_an_answer_that_is_read_late_does_not_change_the_time(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, together = journals.open(database()), BoundedConnection._together

    def read_late(connection: BoundedConnection, sends: Any, needed: int) -> Any:
        answers = together(connection, sends, needed)
        monkeypatch.setattr(_base, "_START", _base._START + 3600)
        return answers

    with store.entry(1) as (number,):
        store.append([Event(number, 1, "decide", 0.0)], next_count=1)
        monkeypatch.setattr(BoundedConnection, "_together", read_late)
    assert store.is_ahead
    assert -100 < store.clock_offset < 100
    store.give_up_numbers()
    with store.entry(1):
        pass
    assert -3700 < store.clock_offset < -3500


def test_a_journal_of_before_numbers_were_reserved_goes_on(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    before = journals.open(address)
    _add(before, _decisions(3))
    before._db.execute("DROP SEQUENCE log_numbers")
    before.close()
    assert journals.open(address, read_only=True).last() == 3
    after = journals.open(address)
    with after.entry(2) as numbers:
        assert numbers == [4, 5]


def test_who_waits_is_woken_by_a_notification(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    reader, writer = journals.open(address), journals.open(address)
    reader.wait(3600)  # the first time only begins to listen
    woken = threading.Event()

    def wait() -> None:
        reader.wait(3600)
        woken.set()

    _together([wait, lambda: _add(writer, _decisions(1))])
    assert woken.is_set()


def test_waiting_ends_without_a_notification(database: Callable[[], str], journals: Journals) -> None:
    reader = journals.open(database())
    for _ in range(3):
        reader.wait(0.001)


def test_a_batch_notifies_once_and_only_if_it_appended(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    reader, writer = journals.open(address), journals.open(address)
    reader.wait(0)
    with writer.batch():
        writer.append([])
        writer.save([Snapshot(1, 1, 0.0, b"")], keep=1)
    with writer.batch():
        writer.append([Event(1, 1, "decide", 0.0)])
        writer.append([Event(2, 1, "decide", 0.0)])
    writer._rows("SELECT pg_notify('syndicated', 'end')")
    payloads: list[str] = []
    while "end" not in payloads:
        payloads += [notify.payload for notify in reader._listener.notifies(timeout=HANG_SECONDS, stop_after=1)]
        assert payloads
    assert payloads == ["", "end"]


def test_a_lost_connection_loses_the_batch_and_the_next_call_reconnects(
    database: Callable[[], str], journals: Journals
) -> None:
    address = database()
    store, other = journals.open(address), journals.open(address)
    store.wait(0)

    def lose() -> None:
        with store.batch() as last:
            store.append([Event(last + 1, 1, "decide", 0.0)])
            _cut(store._db, other)
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be used"):
                    store.append([Event(last + 1, 1, "decide", 0.0)])  # outside the transaction it would be kept

    for count in range(2):
        with pytest.raises(StoreError, match=r"^the journal keeps nothing of a batch"):
            lose()
        assert other.last() == count
        _add(store, _decisions(1))
    _cut(store._db, other)
    _fails(store.last)
    for _ in range(9):
        assert store.last() == 2


def _cut(connection: psycopg.Connection, by: SQL) -> None:
    by._rows("SELECT pg_terminate_backend(?, 60000)", connection.info.backend_pid)


def _fails(use: Callable[[], object]) -> None:
    """It fails with one line; if not at once, then when the connection is known to be lost."""

    def twice() -> None:
        use()
        use()

    with pytest.raises(StoreError, match=r"^the journal cannot be used: [^\n]+$"):
        twice()


def test_a_reader_that_lost_its_listener_listens_again(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    reader, other = journals.open(address), journals.open(address)
    reader.wait(0)
    _cut(reader._listener, other)
    _fails(lambda: reader.wait(60))
    reader.wait(3600)
    _together([lambda: reader.wait(3600), lambda: _add(other, _decisions(1))])


def test_a_server_killed_with_signal_9_loses_nothing_acknowledged(
    postgres: Server, database: Callable[[], str], journals: Journals
) -> None:
    store = journals.open(database())
    store.wait(0)
    acknowledged: list[int] = []
    errors: list[str] = []
    enough = threading.Event()

    def write() -> None:
        try:
            while True:
                with store.batch() as last:
                    store.append([Event(last + 1, 1, "decide", 0.5, key=str(last + 1))])
                acknowledged.append(last + 1)
                if last == 50:
                    enough.set()
        except StoreError as error:
            errors.append(str(error))

    def kill() -> None:
        assert enough.wait(HANG_SECONDS)
        postgres.kill()

    try:
        _together([write, kill])
        assert len(errors) == 1
        for use in (store.last, store.snapshots, lambda: store.wait(60)):
            _fails(use)
    finally:
        postgres.start()
    assert acknowledged == list(range(1, len(acknowledged) + 1))
    assert store.last() - len(acknowledged) in (0, 1)  # a commit whose answer was lost may be there
    assert [event.seq for event in _all(store)] == list(range(1, store.last() + 1))
    _add(store, _decisions(1))
    store.wait(0)


def test_sessions_choose_durability_and_isolation_themselves(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    with psycopg.connect(address, autocommit=True) as db:
        for setting in ("synchronous_commit = off", "default_transaction_isolation = 'serializable'"):
            db.execute(f"ALTER DATABASE {db.info.dbname} SET {setting}")
    store = journals.open(address)
    assert store._rows("SHOW synchronous_commit") == [("on",)]
    assert store._rows("SHOW idle_in_transaction_session_timeout") == [("2s",)]
    with store.batch():
        assert store._rows("SHOW transaction_isolation") == [("read committed",)]


def test_the_journal_has_a_schema_of_its_own(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    with psycopg.connect(address) as db:
        db.execute("CREATE TABLE log (mine TEXT); CREATE SCHEMA syndicated")
    store = journals.open(address)
    _add(store, _decisions(1))
    assert store._rows("SELECT count(*) FROM public.log") == [(0,)]
    types = "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_schema = 'syndicated' ORDER BY 1"
    assert store._rows(types) == [("bigint",), ("bytea",), ("double precision",), ("text",)]


def test_another_schema_of_that_name_is_refused(database: Callable[[], str], journals: Journals) -> None:
    address = database()
    with psycopg.connect(address) as db:
        db.execute("CREATE SCHEMA syndicated; CREATE TABLE syndicated.notes (name TEXT)")
    with pytest.raises(StoreError, match=r"^the journal must hold a journal; got another database$"):
        journals.open(address)


def test_expectation_28_a_connection_lost_in_a_commit_leaves_it_unknown(journals: Journals) -> None:
    address = journals.address("postgres")
    store = journals.open(address)
    assert isinstance(store, Postgres)

    def lose_it(events: list[Event]) -> None:
        with store.batch(), psycopg.connect(address) as other:
            if events:
                store.append(events)
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [store._db.info.backend_pid])

    with pytest.raises(UnknownCommitError, match=r"^the journal was lost while it committed$"):
        lose_it([Event(1, 0, "test", 0.0)])
    with pytest.raises(StoreError) as lost:
        lose_it([])
    assert type(lost.value) is StoreError
    assert store.last() == 0


def _pieces(store: SQL) -> list[tuple[int, int, int]]:
    """The bandit, the number and the size of each piece of a snapshot."""
    return store._rows("SELECT ~bandit, seq, length(state) FROM snapshots WHERE bandit < 0")


def _save(store: SQL, snapshots: list[Snapshot], keep: int, steps: int = sys.maxsize) -> int:
    """Save in steps, at most so many of them; how many there were. With none is more changed than two pieces."""
    saving, count, before = store.save_steps(snapshots, keep), 0, _pieces(store)
    while count < steps:
        with store.batch():
            done = next(saving, "end") == "end"
        count, after = count + 1, _pieces(store)
        assert sum(size for _, _, size in set(after) ^ set(before)) < 2 * _sqlite.PIECE_BYTES
        before = after
        if done:
            break
    return count


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite, "PIECE_BYTES", 10)
    monkeypatch.setattr(_sqlite, "PAGE_BYTES", 0)


@pytest.mark.usefixtures("_small_pieces")
def test_a_large_snapshot_is_saved_and_dropped_in_steps(journals: Journals) -> None:
    """So that others have their turn in between; and so are many small ones."""
    store = journals.open(journals.address("sqlite"))

    def made(seq: int) -> list[Snapshot]:
        sizes = [3, 35, *[4] * 6]
        return [Snapshot(bandit, seq, 0.5, bytes([seq]) * size) for bandit, size in enumerate(sizes)]

    counts = [_save(store, made(seq), keep=2) for seq in range(1, 6)]
    # 35 bytes, and 5 times 4 that do not fit into the last transaction, at least 10 a step. Since the fourth time there
    # is as much to be dropped.
    assert counts == [6, 6, 6, 11, 11]
    assert store.snapshots() == made(5)
    assert [store.snapshots(bandit) for bandit in range(8)] == [[s, o] for s, o in zip(made(5), made(4), strict=True)]
    assert sum(size for _, _, size in _pieces(store)) == 3 * 55  # those of the one that was dropped last, too
    assert _save(store, [Snapshot(1, 6, 0.5, b"small")], keep=1) == 6  # which drops what is left of all bandits
    assert len(_pieces(store)) == 2 * 4 + 2 * 5
    assert store.snapshots(1) == [Snapshot(1, 6, 0.5, b"small")]


@pytest.mark.usefixtures("_small_pieces")
def test_what_is_to_be_dropped_is_looked_for_in_steps(journals: Journals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 bandits 20,000 snapshots are asked for their pieces."""
    store = journals.open(journals.address("sqlite"))
    saved = [Snapshot(bandit, 1, 0.5, bytes(20)) for bandit in range(5)]
    assert _save(store, saved, keep=1) == 11
    monkeypatch.setattr(_sqlite, "PAGE_BYTES", 5)
    assert _save(store, [snapshot._replace(seq=2, state=b"") for snapshot in saved], keep=1) == 3


@pytest.mark.usefixtures("_small_pieces")
def test_a_snapshot_that_is_dropped_while_it_is_read_is_read_whole(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, joined = journals.address("sqlite"), SQLite._joined
    store, saved = journals.open(address), Snapshot(1, 7, 0.5, b"o" * 25)
    _save(store, [saved], keep=1)

    def drop(reader: SQLite, *arguments: Any) -> bytes:
        for seq in (8, 9):
            _save(store, [Snapshot(1, seq, 0.5, b"")], keep=1)
        assert _pieces(store) == []
        return joined(reader, *arguments)

    monkeypatch.setattr(SQLite, "_joined", drop)
    assert journals.open(address, read_only=True).snapshot(1, 7) == saved


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("seq", [7, 8])
@pytest.mark.parametrize("steps", range(6))
def test_a_snapshot_counts_with_its_last_step_and_what_is_left_of_another_is_dropped_unread(
    seq: int, steps: int, journals: Journals
) -> None:
    """After a kill in the middle of it the older one is in force, also if this was to replace it."""
    address = journals.address("sqlite")
    store, old, new = journals.open(address), Snapshot(1, 7, 0.5, b"o" * 25), Snapshot(1, seq, 1.5, b"n" * 45)
    _save(store, [old], keep=1)
    _save(store, [new], keep=1, steps=steps)
    store.close()
    store = journals.open(address)
    assert store.snapshots() == ([new] if steps == 5 else [old])
    assert store.snapshot_sizes(1) == [((seq, 1.5, 45) if steps == 5 else (7, 0.5, 25))]
    twin = journals.open(journals.address("sqlite"))
    copy(store, twin)
    assert (twin.snapshots(), len(_pieces(twin))) == (store.snapshots(), 5 if steps == 5 else 3)
    for state, pieces in ((b"p" * 60, 6 + (5 if steps == 5 else 3)), (b"", 6), (b"", 0)):  # with those in force before
        newest = Snapshot(1, 9, 2.5, state)
        _save(store, [newest], keep=1)
        assert (store.snapshots(1), len(_pieces(store))) == ([newest], pieces)


@pytest.mark.usefixtures("_small_pieces")
def test_what_a_full_disk_left_of_a_save_is_dropped_by_the_next_one_of_any_bandit(journals: Journals) -> None:
    store = journals.open(journals.address("sqlite"))
    old = Snapshot(1, 7, 0.5, b"o" * 25)
    _save(store, [old], keep=1)
    ((pages,),) = store._rows("PRAGMA page_count")
    store._rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full"):
        _save(store, [Snapshot(2, 8, 0.5, bytes(10**5))], keep=1)
    store._rows("PRAGMA max_page_count = 1000000")
    assert {bandit for bandit, _, _ in _pieces(store)} == {1, 2}
    _save(store, [Snapshot(0, 9, 0.5, b"")], keep=1)
    assert [bandit for bandit, _, _ in _pieces(store)] == [1, 1, 1]
    assert store.snapshots() == [Snapshot(0, 9, 0.5, b""), old]


def test_a_file_is_of_the_next_schema_once_it_has_pieces(journals: Journals) -> None:
    """A program of before would take them for snapshots of bandits; it goes on with files without any."""
    store = journals.open(journals.address("sqlite"))
    with store.batch():
        store.save([Snapshot(1, 1, 0.5, bytes(_sqlite.PIECE_BYTES))], keep=1)
    assert (store._version(), _pieces(store)) == (1, [])
    _save(store, [Snapshot(1, 2, 0.5, bytes(_sqlite.PIECE_BYTES + 1))], keep=1, steps=1)
    assert (store._version(), _pieces(store)) == (2, [(1, 1, _sqlite.PIECE_BYTES)])


@pytest.mark.usefixtures("_small_pieces")
def test_a_subject_is_looked_up_by_its_name_and_not_through_the_whole_log(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = journals.open(journals.address("postgres"))
    _add(store, _decisions(20_000, body=b"x" * 100) + _decisions(500, body=b"x" * 100, subject="ann"))
    store._run("ANALYZE log")
    execute, plans = Postgres._execute, list[str]()

    def explain(self: Postgres, query: str, values: Sequence[Any]) -> Any:
        plan = execute(self, f"EXPLAIN {query}", values).fetchall()
        plans.append("".join(line for (line,) in plan))
        return execute(self, query, values)

    monkeypatch.setattr(Postgres, "_execute", explain)
    with store.batch():
        plans.clear()
        assert store.last_about("ann") == 20_500
        assert store.count_about("ann", 20_500) == 500
        assert store.erase("ann", limit=10) == 10
    plans = [plan for plan in plans if " log " in plan]
    assert len(plans) == 3
    assert all("Index Scan on log_subject" in plan or "using log_subject" in plan for plan in plans)


def test_what_is_erased_is_overwritten_after_snapshots_were_dropped(tmp_path: Path) -> None:
    """Those are not, since nothing in them is ever erased, and it would take long."""
    with closing(SQLite(tmp_path / "journal.db")) as store:
        store.write([Event(1, 1, "decide", 0.0, subject="a person", body=b"what a person said")])
        for seq in range(3):
            _save(store, [Snapshot(1, seq, 0.5, bytes(25))], keep=1)
        with store.batch():
            store.erase("a person")
        store.scrub()
        for part in tmp_path.iterdir():
            assert b"person" not in part.read_bytes(), part


def test_erasure_reaches_the_write_ahead_log(tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    store = SQLite(file)
    text = b"what a person said " * 500
    store.write([Event(1, 1, "decide", 0.0, subject="a person", body=text)])
    with store.batch():
        assert store.erase("a person") == 1
    store.scrub()
    for part in tmp_path.iterdir():
        assert b"person" not in part.read_bytes(), part
    store.close()


def test_erasure_reaches_the_write_ahead_log_once_readers_are_gone(tmp_path: Path) -> None:
    def has_traces() -> bool:
        return any(b"person" in part.read_bytes() for part in tmp_path.iterdir())

    file = tmp_path / "journal.db"
    store = SQLite(file)
    store.write([Event(1, 1, "decide", 0.0, subject="a person")])
    with closing(SQLite(file, read_only=True)) as reader, reader.view():
        assert reader.last() == 1
        with store.batch():
            store.erase("a person")
        store.scrub()
        assert (store.has_traces, has_traces()) == (True, True)
    store.scrub()
    assert (store.has_traces, has_traces()) == (False, False)
    store.write([Event(2, 1, "decide", 0.0, subject="a person")])
    with store.batch():
        store.erase("a person")
    for ending in ("", "-wal"):  # as a process leaves them that is killed before it scrubs
        shutil.copyfile(f"{file}{ending}", tmp_path / f"killed.db{ending}")
    store.close()
    assert has_traces()
    SQLite(tmp_path / "killed.db").close()
    assert not has_traces()


def test_a_time_of_minus_zero_is_no_damage(store: Store) -> None:
    _add(store, [Event(0, 1, "decide", -0.0)])
    assert [event.at for event, _ in store.after(0)] == [0.0]


def test_what_postgres_refuses_is_a_store_error(database: Callable[[], str], journals: Journals) -> None:
    store = journals.open(database())
    with pytest.raises(StoreError, match=r"^the journal cannot be used: .*0x00$"):
        _add(store, _decisions(1, key="a\0b"))
    assert store.last() == 0


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hun/hunter2@localhost/db",
        "postgresql://me:hunter2@localhost/db?nonsense=1",
        "postgresql://me:hunter2@[localhost/db",
        "postgresql://me:%zzhunter2@localhost/db",
        "postgersql://me:hunter2@localhost/db",
    ],
)
def test_a_wrong_address_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InputError, match=r"^(the address of )?a journal must be .*; got .*$") as caught:
        open_store(address)
    assert SECRET not in str(caught.value)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(StoreError, match=r"^the journal cannot be used: [^\n]+$") as caught:
        open_store(f"postgresql://me:{SECRET}@127.0.0.1:1/db")
    assert SECRET not in str(caught.value)


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "syndicated.store._postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        MissingExtraError, match=r"^a journal in PostgreSQL needs psycopg: pip install 'syndicated\[postgres\]'$"
    ):
        open_store("postgresql://localhost/db")


def test_a_server_that_is_slow_has_lost_the_job_and_not_only_the_statement(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its answers comes in time: callers waited for the sum of them."""
    store = journals.open(journals.address("postgres"))
    monkeypatch.setattr(_postgres, "ANSWER_SECONDS", 0.5)
    store.begin_job()
    with pytest.raises(StoreError, match="no answer"):
        _ask_slowly(store, 6)
    monkeypatch.setattr(_postgres, "ANSWER_SECONDS", 60.0)
    store.begin_job()
    _ask_slowly(store, 1)
    monkeypatch.setattr(_postgres, "ANSWER_SECONDS", 0.5)
    store.begin_job()
    with store.view():  # which may read long
        _ask_slowly(store, 6)
    with store.batch():
        store.begin_job()
        store.save([Snapshot(1, 0, 0.0, b"large")], keep=1)
        _ask_slowly(store, 6)


def _ask_slowly(store: Any, times: int) -> None:
    for _ in range(times):
        assert store._rows("SELECT 1 FROM pg_sleep(0.1)")


def test_what_an_entry_tells_others_have_for_some_seconds(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    teller, other = (journals.open(address) for _ in range(2))

    def tell(summary: bytes) -> int:
        with teller.entry(2) as numbers:
            teller.append([Event(seq, 1, "decide", 0.0) for seq in numbers], 0, summary)
        return int(numbers[-1])

    with suppress(InterruptedError), teller.entry(1) as (lost,):
        teller.append([Event(lost, 1, "decide", 0.0)], 0, b"lost")
        raise InterruptedError
    first, _, last = [tell(each) for each in (b"one", b"", b"x" * 9000)]
    told = [b"one", b"x" * 9000]
    assert other.summaries(0, last) == (told, last)
    assert other.summaries(0, last - 1) == (told[:1], last - 1)
    assert other.summaries(first, last) == (told[1:], last)
    assert teller.summaries(0, last) == ([], last)
    assert journals.open(address, read_only=True).summaries(0, last) == ([], last)
    monkeypatch.setattr(_postgres, "MAX_SUMMARIES", 1)
    assert other.summaries(0, last) == (told[:1], first)
    monkeypatch.undo()
    monkeypatch.setattr(_postgres, "SUMMARY_SECONDS", 0.0)
    for store, left in ((other, told), (teller, [])):
        store._next_drop = 0.0
        with store.batch():
            store.settled()
            assert other.summaries(0, last) == (told, last)  # none is dropped within a transaction
        store.settled()
        assert other.summaries(0, last) == (left, last)
    tell(b"two")
    monkeypatch.setattr(_postgres, "SUMMARY_SECONDS_OF_OTHERS", 0.0)
    other._next_drop = 0.0
    other.settled()
    assert other.summaries(0, last + 9) == ([], last + 9)
    unlogged = "SELECT relpersistence FROM pg_class WHERE oid = 'summaries'::regclass"
    assert other._rows(unlogged) == [("u",)]


def test_who_hangs_in_an_erasure_holds_up_nobody_who_drops_what_is_old(
    database: Callable[[], str], journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = database()
    teller, eraser = (journals.open(address) for _ in range(2))
    with teller.entry(1) as (seq,):
        teller.append([Event(seq, 1, "decide", 0.0)], 0, b"told")
    monkeypatch.setattr(_postgres, "SUMMARY_SECONDS", 0.0)
    with eraser.batch():
        eraser.erase("ann")
        teller._next_drop = 0.0
        assert teller.settled() >= seq  # an error if it had to wait


def test_what_was_told_by_a_clock_that_was_ahead_is_dropped_too(
    database: Callable[[], str], journals: Journals
) -> None:
    teller = journals.open(database())
    with teller.entry(1) as (seq,):
        teller.append([Event(seq, 1, "decide", 0.0)], 0, b"told")
    teller._run("UPDATE summaries SET at = at + 3600")
    teller._next_drop = 0.0
    teller.settled()
    assert teller._rows("SELECT count(*) FROM summaries") == [(0,)]


def test_a_role_that_may_not_use_the_table_of_what_is_told_does_without(
    database: Callable[[], str], journals: Journals
) -> None:
    address = database()
    owner = journals.open(address)
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("CREATE ROLE teller LOGIN")
        db.execute("GRANT USAGE ON SCHEMA syndicated TO teller")
        db.execute("GRANT ALL ON ALL TABLES IN SCHEMA syndicated TO teller")
        db.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA syndicated TO teller")
        db.execute("REVOKE DELETE ON syndicated.summaries FROM teller")
        with closing(open_store(address.replace("postgres:@", "teller:@"))) as role:
            with role.entry(1) as (seq,):
                role.append([Event(seq, 1, "decide", 0.0, subject="ann")], 0, b"told")
            with owner.entry(1) as (other,):
                owner.append([Event(other, 1, "decide", 0.0)], 0, b"told")
            assert role.settled() == other
            assert role.summaries(0, other) == ([], other)
            assert owner.summaries(0, other) == ([], other)
            assert [event.seq for event, _ in role.after(0)] == [seq, other]
            with role.batch():
                assert role.erase("ann") == 1
        db.execute("DROP OWNED BY teller; DROP ROLE teller")


def test_a_file_of_one_owner_has_nobody_to_tell(tmp_path: Path) -> None:
    with closing(SQLite(tmp_path / "journal.db")) as store:
        with store.entry(1) as numbers:
            store.append([Event(numbers[0], 1, "decide", 0.0)], 0, b"summary")
        assert store.summaries(0, 9) == ([], 9)


def test_a_journal_of_before_processes_told_each_other_is_opened_while_others_write(
    database: Callable[[], str], journals: Journals
) -> None:
    """As the first replica of a new version does: no number is given twice."""
    address, given, ended = database(), list[int](), threading.Event()
    one, admin = journals.open(address), journals.open(address)

    def write() -> None:
        while not ended.is_set():
            with one.entry(1) as (number,):
                given.append(number)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(40):
            admin._run("DROP TABLE summaries")
            journals.open(address).close()
        ended.set()
        writing.result(HANG_SECONDS)
    assert len(given) == len(set(given)) > 0


def test_events_with_numbers_far_apart_are_read_at_one_moment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _add(store, _decisions(3000))
    asked = list[str]()

    def watch(query: str, *values: Any) -> Any:
        asked.append(query)
        return type(store)._rows(store, query, *values)  # type: ignore[attr-defined]

    monkeypatch.setattr(store, "_rows", watch)
    numbers = list(range(100, 3000, 100))
    assert [event.seq for event, _ in store.after(0, upto=3000, numbers=numbers)] == numbers
    assert [query.startswith("SELECT e.seq, coalesce(length") for query in asked] == [True, False]  # sizes come first
    asked.clear()
    assert list(store.after(3000, upto=3100, numbers=list(range(3001, 3100)))) == []
    assert len(asked) == 1  # what is not there need not be read
