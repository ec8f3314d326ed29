"""A journal in PostgreSQL, shared by any number of processes."""

import re
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from syndicated._extras import extra
from syndicated.errors import InputError
from syndicated.store._base import Event, UnknownCommitError, by_key
from syndicated.store._seal import seal
from syndicated.store._sql import COLUMNS, SQL

with extra("postgres", "a journal in PostgreSQL"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

LOCK = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'syndicat', 'big')})"
TYPES = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}  # by SQLite's
ARRAYS = "?::bigint[], ?::bigint[], ?::text[], ?::float8[], ?::bigint[], ?::float8[], ?::text[], ?::text[], ?::bytea[]"
MAKE_SCHEMA = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'syndicated') THEN CREATE SCHEMA syndicated; END IF;
END $$;
"""
FIRST_CONNECT_SECONDS, CONNECT_SECONDS = 10, 2  # when it is opened there is nobody who waits for an answer
ANSWER_SECONDS = 2.5  # after which a server that has not answered counts as away
# The server gives up a little before its client does, so that the reason is told. And a process that hangs in the
# middle of a batch is cut off: the others must not wait for it.
SESSION = """
SET search_path = syndicated;
SET synchronous_commit = on;
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = '2s';
SET default_transaction_read_only = {};
"""
VIEW = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = '60s'  -- nobody waits for one that reads
"""
TIMEOUTS = "SET lock_timeout = '1500ms'; SET statement_timeout = '2s'"
NO_TIMEOUTS = "SET lock_timeout = 0; SET statement_timeout = 0"


class BoundedConnection(psycopg.Connection[Any]):
    """A connection on which nothing waits for ever: a server that does not answer in time has lost it."""

    seconds: float | None = ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None or self.seconds is None:
            return super().wait(gen, interval, timeout)
        begin = time.monotonic()
        try:
            return super().wait(gen, interval, self.seconds)
        except psycopg.OperationalError:
            if time.monotonic() - begin < self.seconds:
                raise
            self.pgconn.finish()  # whatever it would answer later is of no use
            raise psycopg.OperationalError(f"no answer within {self.seconds:g} s") from None


class Postgres(SQL):
    """The journal in the schema `syndicated` of a database.

    A batch holds an advisory lock, so that sequence numbers are committed in order and a reader that asks for what
    is after the last one it saw misses none. A process that waits is woken by a notification.
    """

    shared: ClassVar[bool] = True
    _error: ClassVar[type[Exception]] = psycopg.Error
    _in_list: ClassVar[str] = "= ANY(?)"
    name = "the journal"

    def __init__(self, address: str, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self._address = _parsed(address)
        self._reconnects = True  # but not within a transaction, which is lost with the connection
        self._listener: BoundedConnection | None = None
        self._ended = False
        self._connect()
        self._address["connect_timeout"] = min(int(self._address["connect_timeout"]), CONNECT_SECONDS)

    def append(self, events: Sequence[Event]) -> None:
        if events:
            seq, bandit, kind, at, ref, learn, *rest = map(list, zip(*map(seal, events), strict=True))
            columns = [seq, bandit, kind, _floats(at), ref, _floats(learn), *rest]
            insert = f"INSERT INTO log ({COLUMNS}) SELECT * FROM unnest({ARRAYS})"
            self._run(f"WITH added AS ({insert}) SELECT pg_notify('syndicated', '')", *columns)

    def keyed(self, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        pairs = list(keys)
        where = "(bandit, key) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))"
        return by_key(self._events(where, [bandit for bandit, _ in pairs], [key for _, key in pairs]))

    def scrub(self) -> None:
        """Nothing: the server removes dead rows when it vacuums the table."""

    def wait(self, seconds: float) -> None:
        """The first time, and after a lost connection, it returns at once: something may have been missed."""
        with self._errors(unrelated=True):
            if self._listener is None or self._listener.closed:
                self._listener = BoundedConnection.connect(**self._address, autocommit=True)
                if self._ended:  # by another thread, which did not see this connection
                    self._listener.close()
                    return
                self._listener.execute("LISTEN syndicated")
            else:
                list(self._listener.notifies(timeout=seconds, stop_after=1))

    def close(self) -> None:
        self._reconnects, self._ended = False, True
        self._db.close()
        if self._listener is not None:
            self._listener.close()

    def _connect(self) -> None:
        with self._errors():
            self._db = BoundedConnection.connect(**self._address, autocommit=True, prepare_threshold=None)
            try:
                self._db.execute(SESSION.format("on" if self.read_only else "off") + TIMEOUTS)
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    @contextmanager
    def _patience(self) -> Iterator[None]:
        self._db.seconds = None
        self._db.execute(NO_TIMEOUTS)
        try:
            yield
        finally:
            self._db.execute(TIMEOUTS)
            self._db.seconds = ANSWER_SECONDS

    def _connected(self) -> psycopg.Connection[Any]:
        if self._reconnects and self._db.closed:
            self._connect()
        return self._db

    @contextmanager
    def _transaction(self, *, exclusive: bool) -> Iterator[None]:
        committing = False
        with self._errors():
            try:
                with self._connected().transaction():
                    self._reconnects = False
                    try:
                        self._db.execute(LOCK if exclusive else VIEW)
                        yield
                    finally:
                        self._reconnects = True
                    committing = self._wrote
            except psycopg.Error:
                if committing and self._db.closed:
                    raise UnknownCommitError(f"{self.name} was lost while it committed") from None
                raise

    def _list_value(self, values: Iterable[Any]) -> list[Any]:
        return list(values)

    def _execute(self, query: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        return self._connected().execute(query.replace("?", "%b"), values, binary=True)

    def _tables(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT tablename FROM pg_tables WHERE schemaname = 'syndicated'")}

    def _script(self, script: str) -> None:
        self._db.execute(MAKE_SCHEMA + re.sub(rf"\b({'|'.join(TYPES)})\b", lambda match: TYPES[match[0]], script))


def _parsed(address: str) -> dict[str, Any]:
    """The parts of an address; an error does not repeat it, because it may hold a password."""
    try:
        parts: dict[str, Any] = {"connect_timeout": FIRST_CONNECT_SECONDS, **conninfo_to_dict(address)}
    except psycopg.ProgrammingError:
        parts = {"dbname": "@"}
    if "@" in parts.get("dbname", ""):  # a slash in the password ends the host
        form = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE with a percent-encoded password"
        raise InputError(f"the address of a journal must be {form}; got another form")
    return parts


def _floats(values: list[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]
