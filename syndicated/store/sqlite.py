"""A journal in one SQLite file, owned by one process."""

import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

from syndicated.store.base import CHUNK, SCHEMA, Event, Snapshot, Store, StoreError, by_key, by_ref

COLUMNS = ", ".join(Event._fields)
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, bandit INTEGER NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL,
    ref INTEGER, learn REAL, key TEXT, subject TEXT, body BLOB NOT NULL
);
CREATE INDEX log_bandit ON log (bandit, seq);
CREATE INDEX log_ref ON log (ref) WHERE ref IS NOT NULL;
CREATE UNIQUE INDEX log_key ON log (bandit, key) WHERE key IS NOT NULL;
CREATE INDEX log_subject ON log (subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (
    bandit INTEGER NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, state BLOB NOT NULL, PRIMARY KEY (bandit, seq)
);
"""
MIGRATIONS: dict[int, str] = {}  # from each older version of the tables to the next


class SQLite(Store):
    """The journal in a file. A second process that would write to it is refused; others may read."""

    shared: ClassVar[bool] = False

    def __init__(self, file: Path, *, read_only: bool = False) -> None:
        self.file = file
        self._lock = None if read_only else _own(file)
        try:
            self._db = sqlite3.connect(
                f"{file.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            with _errors():
                self._db.execute("PRAGMA synchronous = FULL")
                if not read_only:
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._migrate()
                self._check_version()
        except StoreError:
            self.close()
            raise
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"the journal {file} cannot be opened: {error}") from None

    @contextmanager
    def batch(self) -> Iterator[int]:
        with self._transaction():
            yield self.last()

    def append(self, events: Sequence[Event]) -> None:
        with _errors():
            self._db.executemany(f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", events)

    def save(self, snapshots: Sequence[Snapshot], keep: int) -> None:
        with _errors():
            self._db.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", snapshots)
            for bandit in {snapshot.bandit for snapshot in snapshots}:
                older = "SELECT seq FROM snapshots WHERE bandit = ? ORDER BY seq DESC LIMIT -1 OFFSET ?"
                self._db.execute(f"DELETE FROM snapshots WHERE bandit = ? AND seq IN ({older})", (bandit, bandit, keep))

    def last(self) -> int:
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM log")[0][0])

    def after(self, seq: int, bandit: int | None = None) -> Iterator[tuple[Event, Event | None]]:
        of = "" if bandit is None else "e.bandit = :bandit AND"
        own, other = (", ".join(f"{table}.{name}" for name in Event._fields) for table in "ed")
        query = f"""SELECT {own}, {other} FROM log e LEFT JOIN log d ON d.seq = e.ref
            WHERE {of} e.seq > :seq ORDER BY e.seq LIMIT {CHUNK}"""
        while rows := self._rows(query, {"seq": seq, "bandit": bandit}):
            width = len(Event._fields)
            for row in rows:
                yield Event(*row[:width]), None if row[width] is None else Event(*row[width:])
            seq = rows[-1][0]

    def events(self, seqs: Iterable[int]) -> dict[int, Event]:
        found = self._events("seq IN (SELECT value FROM json_each(?))", json.dumps(list(seqs)))
        return {event.seq: event for event in found}

    def about(self, refs: Iterable[int]) -> dict[int, list[Event]]:
        return by_ref(self._events("ref IN (SELECT value FROM json_each(?)) ORDER BY seq", json.dumps(list(refs))))

    def keyed(self, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        return by_key(event for bandit, key in keys for event in self._events("bandit = ? AND key = ?", bandit, key))

    def due(self, bandit: int, after: int, until: float, limit: int) -> list[Event]:
        where = "bandit = ? AND seq > ? AND kind = 'decide' AND at <= ? ORDER BY seq LIMIT ?"
        return self._events(where, bandit, after, until, limit)

    def recent(self, bandit: int, kinds: Sequence[str], limit: int) -> list[Event]:
        where = "bandit = ? AND kind IN (SELECT value FROM json_each(?)) ORDER BY seq DESC LIMIT ?"
        return self._events(where, bandit, json.dumps(list(kinds)), limit)

    def snapshots(self, bandit: int | None = None) -> list[Snapshot]:
        if bandit is None:
            newest = "SELECT bandit, max(seq) AS seq FROM snapshots GROUP BY bandit"
            rows = self._rows(f"SELECT s.* FROM snapshots s JOIN ({newest}) USING (bandit, seq) ORDER BY bandit")
        else:
            rows = self._rows("SELECT * FROM snapshots WHERE bandit = ? ORDER BY seq DESC", (bandit,))
        return [Snapshot(*row) for row in rows]

    def prune(self, bandit: int, before: float, upto: int) -> int:
        where = "bandit = ? AND at < ? AND seq <= ? AND seq < (SELECT max(seq) FROM log)"
        with _errors():
            return self._db.execute(f"DELETE FROM log WHERE {where}", (bandit, before, upto)).rowcount

    def erase(self, subject: str) -> int:
        with _errors():
            return self._db.execute(
                "UPDATE log SET body = x'', key = NULL, subject = NULL WHERE subject = ?", (subject,)
            ).rowcount

    @property
    def secret(self) -> bytes:
        return bytes(self._rows("SELECT value FROM meta WHERE name = 'secret'")[0][0])

    def adopt(self, secret: bytes) -> None:
        with _errors():
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'secret'", (secret,))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _errors():
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _errors():
                self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _events(self, where: str, *values: Any) -> list[Event]:
        return [Event(*row) for row in self._rows(f"SELECT {COLUMNS} FROM log WHERE {where}", values)]

    def _rows(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        with _errors():
            return self._db.execute(query, values).fetchall()

    def _migrate(self) -> None:
        """Make the tables of a new file, or bring those of an older version up to date."""
        if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
            with self._transaction():
                self._script(TABLES)
                meta = [("schema", b"%d" % SCHEMA), ("secret", secrets.token_bytes(32))]
                self._db.executemany("INSERT INTO meta VALUES (?, ?)", meta)
        while (version := self._version()) in MIGRATIONS:
            with self._transaction():
                self._script(MIGRATIONS[version])
                self._db.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (b"%d" % (version + 1),))

    def _script(self, script: str) -> None:
        for statement in script.split(";"):
            self._db.execute(statement)

    def _version(self) -> int:
        return int(self._rows("SELECT value FROM meta WHERE name = 'schema'")[0][0])

    def _check_version(self) -> None:
        if self._version() != SCHEMA:
            raise StoreError(f"the journal {self.file} must have schema {SCHEMA}; got {self._version()}")


def _own(file: Path) -> IO[bytes]:
    """Hold the lock that makes this process the file's one owner, until it ends."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{file}.lock", "a+b")  # noqa: SIM115
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


@contextmanager
def _errors() -> Iterator[None]:
    """SQLite's errors as the store's."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the journal cannot be used: {error}") from None
