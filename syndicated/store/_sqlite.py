"""A journal in one SQLite file, owned by one process."""

import fcntl
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
LOCK_SECONDS = 2.0  # that another program may hold the file's lock before the journal counts as away


class SQLite(SQL):
    """The journal in a file. A second process that would write to it is refused; others may read."""

    shared: ClassVar[bool] = False
    _error: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error, UnicodeDecodeError)  # of a damaged schema's texts
    _in_list: ClassVar[str] = "IN (SELECT value FROM json_each(?))"

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

    def append(self, events: Sequence[Event]) -> None:
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

    def snapshot(self, bandit: int, seq: int) -> Snapshot | None:
        try:
            found = super().snapshot(bandit, seq)
            if found is None or isinstance(found.state, bytes):
                return found
        except StoreError as error:  # a page of the file: an older snapshot and the log take its place
            log.error("the snapshot of bandit %s at %s: %s", bandit, seq, error)
        return Snapshot(bandit, seq, 0.0, b"")

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
