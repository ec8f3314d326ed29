"""A journal in one SQLite file, owned by one process.

A large snapshot is in pieces, so that nobody waits for the whole of it to be written. The pieces of those of bandit b
are rows of the same table, of a bandit ~b, which is negative, with numbers of their own as `seq`. In the place of its
state the snapshot has a text, where others have bytes:

    the size of its state, the number of its first piece, that of its last one

A piece that no snapshot names is never read: one of a snapshot that was dropped, or that never came to its end.
"""

import fcntl
import json
import logging
import os
import sqlite3
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, ClassVar

from syndicated.errors import InputError
from syndicated.store._base import DamageError, Event, Snapshot, StoreError, by_bandit, by_key
from syndicated.store._seal import seal
from syndicated.store._sql import COLUMNS, SQL, Kind
from syndicated.store._wal import read_wal

log = logging.getLogger("syndicated")

ROW_PLACES = f"({', '.join('?' * len(Event._fields))})"
MAX_STATEMENT_ROWS = 512  # few, so that a statement is short: the event loop's thread gets its turn after each
MAX_FAULTS = 10  # of the file that are told
PIECE_BYTES = 2**20  # of snapshots that are written, or dropped, at once: others wait meanwhile
PAGE_BYTES = 4096
PIECES_SCHEMA = 2  # the version of the tables once there are pieces, which a program of before would misread
LOCK_SECONDS = 2.0  # that another program may hold the file's lock before the journal counts as away


class SQLite(SQL):
    """The journal in a file. A second process that would write to it is refused; others may read."""

    shared: ClassVar[bool] = False
    _error: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error, UnicodeDecodeError)  # of a damaged schema's texts
    _in_list: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    _state_bytes: ClassVar[str] = "CASE typeof(state) WHEN 'text' THEN CAST(state AS INTEGER) ELSE length(state) END"
    _own_schema: ClassVar[int] = PIECES_SCHEMA

    def __init__(self, file: Path, *, read_only: bool = False) -> None:
        if file.is_dir():
            raise InputError(f"a journal must be a file; got the folder {str(file)!r}")
        self.name, self.read_only, self._file = f"the journal {file}", read_only, file
        self._files = (str(file), f"{file}-wal")
        self._lock = None if read_only else _lock_file(file)
        try:
            wal = None if read_only else read_wal(file)
            if wal is not None and wal.damage:
                raise DamageError(f"{self.name} is damaged: {wal.damage}; see `syndicated repair`")
            with self._errors():
                self._db = sqlite3.connect(
                    f"{file.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
                    uri=True,
                    isolation_level=None,
                    check_same_thread=False,
                    timeout=LOCK_SECONDS,
                )
                self._db.text_factory = _text
                values = self._db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
                self._max_rows = min(MAX_STATEMENT_ROWS, values // len(Event._fields))
                self._db.execute("PRAGMA synchronous = FULL")
                self._db.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten in its page
                self._prepare()
                if not read_only:
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._version()  # whoever reads makes the write-ahead log, if it is not there
                    if wal is not None:
                        # Of what a power failure cut short, which after the next one would look like damage, and of
                        # what was erased just before the end.
                        self.scrub()
                    self._inodes = self._current_inodes()
        except StoreError:
            self.close()
            raise

    def write(self, events: Sequence[Event]) -> None:
        if len(events) <= self._max_rows:
            self._check_files()
            self.append(events)  # a statement is a transaction
        else:
            super().write(events)

    def append(self, events: Sequence[Event], next_count: int = 0, summary: bytes = b"") -> None:
        with self._errors():
            for start in range(0, len(events), self._max_rows):
                part = events[start : start + self._max_rows]
                values = list(chain.from_iterable(map(seal, part)))
                self._db.execute(f"INSERT INTO log ({COLUMNS}) VALUES {', '.join([ROW_PLACES] * len(part))}", values)

    def keyed(self, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        pairs, found = list(keys), []
        for start in range(0, len(pairs), self._max_rows):
            part = pairs[start : start + self._max_rows]
            wanted = f"(VALUES {', '.join(['(?, ?)'] * len(part))}) w CROSS JOIN log e"  # in this order: by the index
            where = f"seq IN (SELECT e.seq FROM {wanted} ON e.bandit = w.column1 AND e.key = w.column2)"
            found += self._events(where, *chain.from_iterable(part))
        return by_key(found)

    def decisions(self, after: Mapping[int, int], limit: int) -> dict[int, list[Event]]:
        where = "bandit = ? AND seq > ? AND kind = 'decide' ORDER BY seq LIMIT ?"
        return by_bandit(event for bandit, seq in after.items() for event in self._events(where, bandit, seq, limit))

    def save(self, snapshots: Sequence[Snapshot], keep: int) -> None:
        for _ in self.save_steps(snapshots, keep):
            pass

    def save_steps(self, snapshots: Sequence[Snapshot], keep: int) -> Iterator[None]:
        done = 0
        for size in self._save_rows(snapshots, keep):
            done += size
            if done >= PIECE_BYTES:
                yield
                done = 0

    def _save_rows(self, snapshots: Sequence[Snapshot], keep: int) -> Iterator[int]:
        """Save row by row; the bytes of each. What is not large, all together, is in the last transaction itself."""
        for (bandit,) in self._rows("SELECT DISTINCT ~bandit FROM snapshots WHERE bandit < 0 ORDER BY 1"):
            yield from self._drop_pieces(bandit)
        rows, room = list[Snapshot](), PIECE_BYTES
        for snapshot in snapshots:
            if len(snapshot.state) <= room:
                room -= len(snapshot.state)
                rows.append(snapshot)
            else:
                rows.append(snapshot._replace(state=(yield from self._write_pieces(snapshot))))
        with self._not_overwriting():  # a large one of before there were pieces is dropped whole
            super().save(rows, keep)

    def _write_pieces(self, snapshot: Snapshot) -> Generator[int, None, Any]:
        """Write the pieces of a snapshot; what it has in the place of its state."""
        if self._version() < PIECES_SCHEMA:
            self._run("UPDATE meta SET value = ? WHERE name = 'schema'", b"%d" % PIECES_SCHEMA)
        ((last,),) = self._rows("SELECT coalesce(max(seq), 0) FROM snapshots WHERE bandit = ~?", snapshot.bandit)
        first, state = last + 1, memoryview(snapshot.state)
        for start in range(0, len(state), PIECE_BYTES):
            last, piece = last + 1, state[start : start + PIECE_BYTES]
            self._run("INSERT INTO snapshots VALUES (~?, ?, ?, ?)", snapshot.bandit, last, snapshot.at, piece)
            yield len(piece)
        return f"{len(state)} {first} {last}"

    def _drop_pieces(self, bandit: int) -> Iterator[int]:
        """Drop the pieces that no snapshot of a bandit names; the bytes that this reads and frees."""
        numbers = [number for (number,) in self._rows("SELECT seq FROM snapshots WHERE bandit = ~?", bandit)]
        texts = self._rows("SELECT state FROM snapshots WHERE bandit = ? AND typeof(state) = 'text'", bandit)
        yield PAGE_BYTES * len(texts)
        named = [_piece_numbers(text) for (text,) in texts]
        for number in numbers:
            if not any(number in one for one in named):
                where, piece = "FROM snapshots WHERE bandit = ~? AND seq = ?", (bandit, number)
                ((size,),) = self._rows(f"SELECT coalesce(length(state), 0) {where}", *piece)
                with self._not_overwriting():
                    self._run(f"DELETE {where}", *piece)
                yield size

    @contextmanager
    def _not_overwriting(self) -> Iterator[None]:
        """Let snapshots be dropped without overwriting their pages, which takes long.

        They have nothing that is ever erased, see docs/service-internals.md.
        """
        self._rows("PRAGMA secure_delete = OFF")
        try:
            yield
        finally:
            self._rows("PRAGMA secure_delete = ON")

    def snapshot(self, bandit: int, seq: int) -> Snapshot | None:
        try:
            with self.view():  # so that its pieces are of the same moment
                found = super().snapshot(bandit, seq)
                return None if found is None else found._replace(state=self._joined(bandit, found.state))
        except StoreError as error:  # a page of the file: an older snapshot and the log take its place
            log.error("the snapshot of bandit %s at %s: %s", bandit, seq, error)
        return Snapshot(bandit, seq, 0.0, b"")

    def _joined(self, bandit: int, state: Any) -> bytes:
        """The state of a snapshot, of what it has in its place if that is in pieces."""
        if isinstance(state, bytes):
            return state
        pieces = list[bytes]()
        for number in _piece_numbers(state):
            rows = self._rows("SELECT state FROM snapshots WHERE bandit = ~? AND seq = ?", bandit, number)
            if not rows or not isinstance(rows[0][0], bytes):
                raise DamageError(f"{self.name} is damaged: piece {number} is missing or none")
            pieces.append(rows[0][0])
        return b"".join(pieces)

    def file_faults(self) -> list[str]:
        wal = read_wal(self._file)
        try:
            found = [str(line) for (line,) in self._rows(f"PRAGMA integrity_check({MAX_FAULTS})")]
        except StoreError as error:
            return [str(error)]
        found += [] if wal is None else [wal.damage]
        faults = [f"the file is damaged: {fault}" for fault in found if fault not in ("", "ok")]
        return [" ".join(fault.split()) for fault in faults]

    def scrub(self) -> None:
        """Empty the write-ahead log, which has pages of before the erasure. It does not wait for readers."""
        with self._errors():
            self._db.execute("PRAGMA busy_timeout = 0")
            try:
                ((in_the_way, _, _),) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                self._db.execute(f"PRAGMA busy_timeout = {int(1000 * LOCK_SECONDS)}")
        self.has_traces = bool(in_the_way)

    def reader(self) -> "SQLite":
        return SQLite(self._file, read_only=True)

    def give_up_numbers(self) -> None:
        """Nothing: numbers are not reserved."""

    def begin_job(self) -> None:
        """Nothing: there is no server."""

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _transaction(self, kind: Kind, count: int = 0) -> Iterator[None]:
        if kind != "view":
            self._check_files()
        with self._errors():
            self._db.execute("BEGIN" if kind == "view" else "BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("ROLLBACK" if kind == "view" else "COMMIT")  # of what a damaged file gave, too
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _check_files(self) -> None:
        """Refuse to write to files that are no longer where the next start looks: all of it would be lost."""
        if hasattr(self, "_inodes") and self._current_inodes() != self._inodes:
            raise StoreError(f"{self.name} cannot be used: its file was moved, removed or replaced; put it back")

    def _current_inodes(self) -> list[tuple[int, int] | None]:
        """What is at the places of the file and its write-ahead log."""
        return [_inode(name) for name in self._files]

    @property
    def _in_transaction(self) -> bool:
        return self._db.in_transaction

    def _list_value(self, values: Iterable[Any]) -> str:
        return json.dumps(list(values))

    def _execute(self, query: str, values: Sequence[Any]) -> sqlite3.Cursor:
        return self._db.execute(query, values)

    def _tables(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _script(self, script: str) -> None:
        for statement in script.split(";"):
            self._run(statement)


def _piece_numbers(text: Any) -> range:
    """The numbers of the pieces that a snapshot names; none if that is damaged, as the snapshot then is."""
    try:
        _, first, last = map(int, text.split())
    except (AttributeError, ValueError):
        return range(0)
    return range(first, last + 1)


def _text(data: bytes) -> str:
    """A text of a row; of a damaged one too, which is then no row that was written."""
    return data.decode(errors="surrogateescape")


def _inode(file: str) -> tuple[int, int] | None:
    """Which file of the disk has this name, if one has."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lock_file(file: Path) -> IO[bytes]:
    """Take the lock that makes this process the only owner of the file, until it ends."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{file}.lock", "a+b")  # noqa: SIM115
        if not file.exists():
            file.touch(mode=0o600)  # keys' hashes and the secret of ids are for its owner exclusive
    except OSError as error:
        raise StoreError(f"the journal {file} cannot be opened: {error}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        owner = lock.read().decode() or "another process"
        lock.close()
        raise StoreError(f"the journal {file} must have one owner; it is in use by {owner}") from None
    lock.truncate(0)
    lock.write(b"process %d" % os.getpid())
    lock.flush()
    return lock
