"""A journal in PostgreSQL, shared by any number of processes."""

import math
import re
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar

from syndicated._extras import extra
from syndicated.errors import InputError
from syndicated.store._base import (
    CHUNK_EVENTS,
    MAX_SEQ,
    Event,
    Held,
    Snapshot,
    StoreBusyError,
    UnknownCommitError,
    by_bandit,
    by_key,
    in_chunks,
    steady_time,
)
from syndicated.store._postgres_connection import (
    ANSWER_SECONDS,
    BoundedConnection,
    Statement,
    WaitBudget,
    packed_int,
    packed_ints,
    packed_long,
    packed_rows,
)
from syndicated.store._sql import COLUMNS, SQL, Kind

with extra("postgres", "a journal in PostgreSQL"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

LOCK = f"""
SET LOCAL idle_in_transaction_session_timeout = '4s';  -- an administrator's request may compute a while
SET LOCAL lock_timeout = {{}};
SELECT pg_advisory_xact_lock({int.from_bytes(b"syndicat", "big")})
"""
# A transaction that reserves numbers holds, shared, the advisory lock of the last number that was given out before: so
# all can see who has yet to end, and nobody waits. MARKS is what these locks have in common, above the 48 bits of one.
MARKS = int.from_bytes(b"sn", "big")
MARK = f"""
SELECT pg_advisory_xact_lock_shared(({MARKS}::bigint << 48) + last_value), last_value,
    extract(epoch FROM clock_timestamp())::float8 AS at
FROM log_numbers
"""
RESERVE = f"""
WITH mark AS MATERIALIZED ({MARK})
SELECT nextval('log_numbers'), mark.at FROM mark, generate_series(1, {{}}) WHERE mark.last_value >= 0
"""
# The last number is read before the locks: who reserved a smaller one has its lock by then, or has ended.
SETTLED = f"""
SELECT least(n.last_value, (
    SELECT min(((classid::bigint << 32) | objid::bigint) & ((1::bigint << 48) - 1)) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = {MARKS} AND n.last_value >= 0
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)) FROM log_numbers n
"""
NUMBERS = """
DO $$ BEGIN
    IF to_regclass('log_numbers') IS NULL THEN  -- or else others may be reserving some, and it must not be set back
        CREATE SEQUENCE log_numbers MINVALUE 0 START 0;
        PERFORM setval('log_numbers', (SELECT coalesce(max(seq), 0) FROM log));
    END IF;
END $$
"""
# What entries have told others, for some seconds. It is not in the write-ahead log: after a crash it is empty, and
# events are read in its place.
SUMMARIES = """
CREATE UNLOGGED TABLE IF NOT EXISTS summaries (
    last bigint PRIMARY KEY, writer bigint NOT NULL, body bytea NOT NULL,
    at double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp())
);
ALTER TABLE summaries ALTER body SET STORAGE EXTERNAL
"""
DROP_SUMMARIES = """
DELETE FROM summaries WHERE last IN (
    SELECT last FROM summaries
    WHERE abs(extract(epoch FROM clock_timestamp()) - at) > CASE WHEN writer = ? THEN ? ELSE ? END
    FOR UPDATE SKIP LOCKED  -- who is erasing has them, and may hang
)
"""
MAY_TELL = """
SELECT bool_and(has_table_privilege('summaries', needed))
FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) needed
"""
MAX_SUMMARIES = 32  # that are read at once
SUMMARY_SECONDS, SUMMARY_SECONDS_OF_OTHERS = 10.0, 60.0  # after which they are dropped: others may have ended
TYPES = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea"}  # by SQLite's
# What an entry is made of, prepared once for each connection.
PREPARED = {
    b"begin": "BEGIN",
    b"reserve": RESERVE.format("$1"),
    b"insert": f"INSERT INTO log ({COLUMNS}) SELECT {COLUMNS} FROM unnest($1::log[])",
    b"summarize": "INSERT INTO summaries (last, writer, body) VALUES ($1, $2, $3)",
    b"summaries": """
        SELECT last, body FROM summaries WHERE last > $1 AND last <= $2 AND writer <> $3 ORDER BY last LIMIT $4
    """,
    b"hold": "SELECT seq FROM log WHERE seq = ANY($1::bigint[]) AND body <> '' ORDER BY seq FOR NO KEY UPDATE",
    b"events": f"SELECT {COLUMNS} FROM log WHERE seq = ANY($1::bigint[])",
    b"about": f"SELECT {COLUMNS} FROM log WHERE ref = ANY($1::bigint[]) ORDER BY seq",
    b"commit": "COMMIT",
    b"commit and chain": "COMMIT AND CHAIN",
}
OF_WRITERS = {b"reserve", b"summarize", b"summaries"}  # an older journal, which can be read, has no tables for these
HOLDING = [  # after which others may have to wait
    PREPARED[name] for name in (b"reserve", b"insert", b"summarize", b"hold", b"about", b"events")
]
# No timeout of the server ends who hangs between two of several statements that are sent together: the others do.
CUT_OFF = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND query = ANY(?) AND state = 'active'
AND wait_event = 'ClientRead' AND query_start < clock_timestamp() - ? * interval '1 second'
"""
CUT_OFF_SECONDS = 1.0  # between looks for such processes
MAKE_SCHEMA = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'syndicated') THEN CREATE SCHEMA syndicated; END IF;
END $$;
"""
FIRST_CONNECT_SECONDS, CONNECT_SECONDS = 10, 2  # when it is opened there is nobody who waits for an answer
SETTLE_SECONDS = 0.002  # between looks at whether others have ended
LOCK_SECONDS = 1.5  # of waiting for what another process holds
STATEMENT_SECONDS = 2  # after which a server gives up itself
# The server gives up a little before its client does, so that the reason is told. And a process that hangs in the
# middle of a batch is cut off: the others must not wait for it.
SESSION = """
SET search_path = syndicated;
SET client_encoding = 'UTF8';
SET synchronous_commit = on;
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = '2s';
SET default_transaction_read_only = {};
"""
VIEW = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = '60s'  -- nobody waits for one that reads
"""
SAVE_RATE = 4 * 2**20  # bytes of snapshots that the server must take in, in a second; it is about ten times as many
SAVE = f"""
SELECT pg_advisory_xact_lock({int.from_bytes(b"snapshot", "big")});  -- one process at a time
SET LOCAL statement_timeout = {{}}
"""
SLICE_BYTES = 16 * 2**20  # of a snapshot that are read at once
BEGIN = {"batch": LOCK, "save": SAVE, "view": VIEW}  # what transactions begin with, by their kind
TIMEOUTS = f"SET lock_timeout = '{LOCK_SECONDS}s'; SET statement_timeout = '{STATEMENT_SECONDS}s'"
NO_TIMEOUTS = "SET lock_timeout = 0; SET statement_timeout = 0"


class Postgres(SQL):
    """The journal in the schema `syndicated` of a database.

    Entries of several processes are written at the same time and wait for nobody. A smaller number may be committed
    after a larger one, so readers go as far as `settled` says. Batches exclude each other by an advisory lock, and wake
    those that wait by a notification.
    """

    shared: ClassVar[bool] = True
    _error: ClassVar[tuple[type[Exception], ...]] = (psycopg.Error,)
    _conflicts: ClassVar[tuple[type[Exception], ...]] = (
        psycopg.errors.UniqueViolation,
        psycopg.errors.DeadlockDetected,
    )
    _busy: ClassVar[tuple[type[Exception], ...]] = (psycopg.errors.LockNotAvailable,)
    _in_list: ClassVar[str] = "= ANY(?)"
    _for_update: ClassVar[str] = " FOR NO KEY UPDATE"
    name = "the journal"

    def __init__(self, address: str, *, read_only: bool = False, beside: bool = False) -> None:
        """`beside` one that is in use somebody waits for an answer, so this gives up as soon as that one would."""
        self.read_only, self._origin = read_only, address
        self._address = _parsed(address)
        if beside:
            self._limit_connect_seconds()
        self._reconnects = True  # but not within a transaction, which is lost with the connection
        self._exclusive = False  # whether a batch is under way
        self._next_cut_off = 0.0  # by the monotonic clock
        self._ahead: list[int] = []  # numbers for the next entry, which the open transaction has reserved
        self._appended: list[Event] = []  # by an entry, which is sent together with its commit
        self._next_count = 0  # numbers to reserve with it
        self._summary = b""  # of it
        self._writer = secrets.randbits(62)  # who it is that tells others of its entries
        self._tells = False  # whether this role may tell, or be told, anything
        self._next_drop = 0.0  # of old summaries, by the monotonic clock
        self._budget = WaitBudget()
        self._listener: BoundedConnection | None = None
        self._ended = False
        self._connect()
        self._limit_connect_seconds()

    def _limit_connect_seconds(self) -> None:
        self._address["connect_timeout"] = min(int(self._address["connect_timeout"]), CONNECT_SECONDS)

    @property
    def is_ahead(self) -> bool:
        return bool(self._ahead)

    def give_up_numbers(self) -> None:
        with self._errors():
            self._connected()

    @contextmanager
    def batch(self, patience: float = math.inf) -> Iterator[int]:
        with self._writing("batch", max(1, int(1000 * min(patience, LOCK_SECONDS)))):
            before = steady_time()
            ((_, mark, at),) = self._rows(MARK)
            self._set_clock(at, before)
            self._exclusive = True
            try:
                self._await_settled(mark, min(patience, ANSWER_SECONDS))
                yield int(self._rows("SELECT coalesce(max(seq), 0) FROM log WHERE seq <= ?", mark)[0][0])
            finally:
                self._exclusive = False

    @contextmanager
    def entry(self, count: int) -> Iterator[list[int]]:
        with self._writing("entry", count) as numbers:
            yield numbers

    def reserve(self, count: int) -> list[int]:
        with self._errors():
            return self._reserve(count)

    def _begin(self, kind: Kind, count: int) -> list[Any]:
        return _last_rows(self._db.execute(f"BEGIN; {BEGIN[kind].format(count)}"))

    def _begin_entry(self, count: int) -> list[int]:
        """Begin a transaction that has reserved numbers, or go on in the one that has."""
        ahead, self._ahead = self._ahead, []
        if not ahead:
            return self._reserve(count, (b"begin", ()))
        return ahead if len(ahead) >= count else ahead + self._reserve(count - len(ahead))

    def _reserve(self, count: int, *before: Statement) -> list[int]:
        """Reserve numbers after other statements that are sent together with this one."""
        begin = steady_time()
        return self._numbers(self._db.run_together(*before, _reserving(count))[-1], begin)

    def _commit_entry(self) -> None:
        """Append, commit and, if another entry is to follow at once, reserve its numbers: all of it is sent as one."""
        inserts = _inserting(self._appended, self._row_type)
        if self._summary and self._tells:
            whose = packed_long(self._appended[-1].seq), packed_long(self._writer)
            inserts.append((b"summarize", (*whose, self._summary)))
        if not self._next_count:
            self._db.run_together(*inserts, (b"commit", ()))
            return
        begin, needed = steady_time(), [*inserts, (b"commit and chain", ())]
        reserved = self._db.run_together(*needed, _reserving(self._next_count), needed=len(needed))[len(needed) :]
        if reserved:
            self._ahead = self._numbers(reserved[0], begin)
        else:  # this one is committed, whatever is wrong with the next
            with suppress(psycopg.Error):
                self._db.rollback()

    def _numbers(self, reserved: Sequence[tuple[int, float]], before: float) -> list[int]:
        """The numbers of rows that also have the server's clock, which was asked between `before` and now."""
        self._set_clock(reserved[0][1], before)
        return [number for number, _ in reserved]

    def _set_clock(self, at: float, before: float) -> None:
        """See how far the server's clock is ahead of ours, which was asked between `before` and now.

        What was known is kept as far as it can be true: an answer may be read long after it was given.
        """
        self.clock_offset = min(max(self.clock_offset, at - steady_time()), at - before)

    def begin_job(self) -> None:
        self._budget.seconds = ANSWER_SECONDS

    def settled(self) -> int:
        """Now and then it cuts off who hangs, and drops old summaries; not within a batch, which sees others as they
        were when it began.
        """
        if not self._exclusive and time.monotonic() >= self._next_cut_off:
            self._next_cut_off = time.monotonic() + CUT_OFF_SECONDS
            self._rows(CUT_OFF, HOLDING, STATEMENT_SECONDS)
        if self._tells and not self._in_transaction and time.monotonic() >= self._next_drop:
            self._next_drop = time.monotonic() + SUMMARY_SECONDS
            self._run(DROP_SUMMARIES, self._writer, SUMMARY_SECONDS, SUMMARY_SECONDS_OF_OTHERS)
        return int(self._rows(SETTLED)[0][0])

    def _await_settled(self, mark: int, seconds: float) -> None:
        """Wait until all that reserved numbers up to a mark have ended; those that hang are cut off."""
        end = time.monotonic() + seconds
        while self.settled() < mark:
            if time.monotonic() > end:
                raise StoreBusyError(
                    f"{self.name} cannot be used: another process has not ended what it began to write"
                )
            time.sleep(SETTLE_SECONDS)

    def append(self, events: Sequence[Event], next_count: int = 0, summary: bytes = b"") -> None:
        """Only batches notify: the database notifies for one transaction at a time, and entries wait for nobody."""
        if not events:
            return
        self._wrote = True
        if self._in_transaction and not self._exclusive:
            self._appended, self._next_count, self._summary = [*self._appended, *events], next_count, summary
            return
        with self._errors():
            self._connected().run_together(*_inserting(events, self._row_type))
        if not self._exclusive:
            return
        self._rows("SELECT pg_notify('syndicated', '')")
        beyond, last = "(SELECT last_value FROM log_numbers) < ?", events[-1].seq  # a copy's were not reserved
        self._rows(f"SELECT setval('log_numbers', ?::bigint) WHERE {beyond}", last, last)

    def summaries(self, after: int, upto: int) -> tuple[list[bytes], int]:
        if not self._tells:
            return [], upto
        values = [*map(packed_long, (after, upto, self._writer, MAX_SUMMARIES))]
        with self._errors():
            (found,) = self._connected().run_together((b"summaries", values))
        return [body for _, body in found], found[-1][0] if len(found) == MAX_SUMMARIES else upto

    def erase(self, subject: str, upto: int = MAX_SEQ, limit: int = sys.maxsize) -> int:
        erased = super().erase(subject, upto, limit)
        if self._tells:
            self._run("DELETE FROM summaries")  # after that has waited for whoever writes about the same decisions
        return erased

    def hold(self, refs: Iterable[int], unread: Iterable[int] = ()) -> dict[int, Held]:
        """Sent as one, so that one answer is waited for; what was added while the first waited the others see."""
        numbers, wanted = (packed_ints(list(refs)),), list(unread)
        statements: list[Statement] = [(b"hold", numbers), (b"about", numbers)]
        if wanted:
            statements.append((b"events", (packed_ints(wanted),)))
        with self._errors():
            held, about, *read = self._connected().run_together(*statements)
        events = {event.seq: event for rows in read for event in map(self._read, rows) if event is not None}
        found = {seq: Held([], events.get(seq)) for (seq,) in held}
        for event in filter(None, map(self._read, about)):
            if event.ref in found:
                found[event.ref].about.append(event)
        return found

    def save(self, snapshots: Sequence[Snapshot], keep: int) -> None:
        """The last ones of a process may be many, and large: then nobody waits for them."""
        self._budget.seconds = math.inf
        super().save(snapshots, keep)

    def save_beside(self, snapshots: Sequence[Snapshot], keep: int, after: int | None = None) -> bool:
        seconds = sum(len(snapshot.state) for snapshot in snapshots) / SAVE_RATE
        with closing(Postgres(self._origin, beside=True)) as other:
            other.begin_job()
            other._db.seconds = ANSWER_SECONDS + seconds
            with other._writing("save", int(1000 * (STATEMENT_SECONDS + seconds))):
                saved = other.snapshot_sizes(snapshots[0].bandit)[:1]
                if after is not None and saved and saved[0][0] > after:
                    return False
                other.save(snapshots, keep)
        return True

    def snapshot(self, bandit: int, seq: int) -> Snapshot | None:
        """In slices: a statement has little time, and a large state takes long to arrive."""
        query = "SELECT at, substring(state FROM ?::int FOR ?::int) FROM snapshots WHERE bandit = ? AND seq = ?"
        at, slices = 0.0, list[bytes]()
        while not slices or len(slices[-1]) == SLICE_BYTES:
            rows = self._rows(query, len(slices) * SLICE_BYTES + 1, SLICE_BYTES, bandit, seq)
            if not rows:
                return None
            at = rows[0][0]
            slices.append(rows[0][1])
        return Snapshot(bandit, seq, at, b"".join(slices))

    def keyed(self, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        pairs = list(keys)
        where = "(bandit, key) IN (SELECT * FROM unnest(?::bigint[], ?::text[]))"
        return by_key(self._events(where, [bandit for bandit, _ in pairs], [key for _, key in pairs]))

    def decisions(self, after: Mapping[int, int], limit: int) -> dict[int, list[Event]]:
        own = "SELECT seq FROM log WHERE bandit = w.bandit AND seq > w.after AND kind = 'decide' ORDER BY seq LIMIT ?"
        wanted = "unnest(?::bigint[], ?::bigint[]) w (bandit, after)"
        where = f"seq IN (SELECT e.seq FROM {wanted}, LATERAL ({own}) e) ORDER BY seq"
        return by_bandit(self._events(where, list(after), list(after.values()), limit))

    def scrub(self) -> None:
        """Nothing: the server removes dead rows when it vacuums the table."""

    def reader(self) -> "Postgres":
        return Postgres(self._origin, read_only=True, beside=True)

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
            begin = time.monotonic()
            try:
                self._db = BoundedConnection.connect(**self._address, autocommit=True, prepare_threshold=None)
            finally:
                self._budget.seconds -= time.monotonic() - begin
            self._db.budget = self._budget
            try:
                self._db.execute(SESSION.format("on" if self.read_only else "off") + TIMEOUTS)
                self._prepare()
                of_reader = {name: query for name, query in PREPARED.items() if name not in OF_WRITERS}
                self._db.prepare(of_reader if self.read_only else PREPARED)
                ((self._row_type,),) = self._rows("SELECT 'log'::regtype::oid::bigint")
                self._tells = not self.read_only and bool(self._rows(MAY_TELL)[0][0])
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

    def _connected(self) -> BoundedConnection:
        """The connection, outside of a transaction or in the one that is under way."""
        if self._reconnects:
            if self._goes_on():  # but no entry has followed
                self._ahead = []
                self._db.rollback()
            if self._db.closed:
                self._connect()
        return self._db

    def _goes_on(self) -> bool:
        """Whether there is a transaction that has reserved the numbers of an entry, which can go on in it.

        If the server has ended it, nobody may use these numbers any more: others have gone on after them. So it does
        with who was stopped for 2 s, and that is no reason to refuse what is asked now.
        """
        if self._ahead and self._db.is_cut():
            self._ahead = []
            self._db.close()
        return bool(self._ahead)

    @contextmanager
    def _transaction(self, kind: Kind, count: int = 0) -> Iterator[list[Any]]:
        """It gives the numbers of an entry, or the rows of what it begins with, which is sent together with BEGIN."""
        committing = False
        if kind == "view":  # which may read long
            self._budget.seconds = math.inf
        with self._errors():
            db = self._db if kind == "entry" and self._goes_on() else self._connected()
            try:
                self._reconnects = False
                try:
                    yield self._begin_entry(count) if kind == "entry" else self._begin(kind, count)
                finally:
                    self._reconnects = True
                committing = self._wrote and kind != "view"
                if self._appended:
                    self._commit_entry()
                else:
                    db.commit()
            except BaseException as error:
                with suppress(psycopg.Error):
                    db.rollback()
                if committing and db.closed and isinstance(error, psycopg.Error):
                    raise UnknownCommitError(f"{self.name} was lost while it committed") from None
                raise
            finally:
                self._appended, self._summary = [], b""

    @property
    def _in_transaction(self) -> bool:
        return not self._reconnects

    def _list_value(self, values: Iterable[Any]) -> list[Any]:
        return list(values)

    def _execute(self, query: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        return self._connected().execute(query.replace("?", "%b"), values, binary=True)

    def _tables(self) -> set[str]:
        return {name for (name,) in self._rows("SELECT tablename FROM pg_tables WHERE schemaname = 'syndicated'")}

    def _is_current(self) -> bool:
        own = "to_regclass('log_numbers') IS NOT NULL AND to_regclass('summaries') IS NOT NULL"
        return super()._is_current() and bool(self._rows(f"SELECT {own}")[0][0])

    def _migrate(self) -> None:
        super()._migrate()
        if "log" in self._tables():
            self._db.execute(NUMBERS)
            self._db.execute(SUMMARIES)

    def _script(self, script: str) -> None:
        self._db.execute(MAKE_SCHEMA + re.sub(rf"\b({'|'.join(TYPES)})\b", lambda match: TYPES[match[0]], script))


def _reserving(count: int) -> Statement:
    return b"reserve", (packed_int(count),)


def _inserting(events: Iterable[Event], row_type: int) -> list[Statement]:
    return [(b"insert", (packed_rows(chunk, row_type),)) for chunk in in_chunks(events, CHUNK_EVENTS)]


def _last_rows(cursor: psycopg.Cursor[Any]) -> list[Any]:
    """The rows of the last of several statements, if it has any."""
    while cursor.nextset():
        pass
    return cursor.fetchall() if cursor.description else []


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
