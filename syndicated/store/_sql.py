"""What the journals in SQL share: tables, migrations and queries, in SQLite's dialect; `?` stands for a value."""

import logging
import math
import secrets
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any, ClassVar, Literal

from syndicated.store._base import (
    CHUNK_BYTES,
    CHUNK_EVENTS,
    LARGE_BYTES,
    MAX_SEQ,
    SCHEMA_VERSION,
    DamageError,
    Event,
    Held,
    Snapshot,
    Store,
    StoreBusyError,
    StoreConflictError,
    StoreError,
    by_ref,
)
from syndicated.store._seal import unseal

log = logging.getLogger("syndicated")

COLUMNS = ", ".join(Event._fields)
LARGE = f"SELECT {COLUMNS} FROM log WHERE seq = ?"
FIRST_CHUNK_EVENTS = 16  # that are read first where many may come, to see how large they are
MAX_SECRET = 64  # bytes, as many as a hash takes
CHUNK_GROWTH = 8  # times as many as before that are read at most
TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
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
)
"""
Kind = Literal["batch", "entry", "save", "view"]  # of transactions
MIGRATIONS: dict[int, str] = {}  # from each older version of the tables to the next


class SQL(Store):
    """A journal in tables; a subclass says how statements and lists of values get to them."""

    _error: ClassVar[tuple[type[Exception], ...]]  # the roots of the database's errors
    _conflicts: ClassVar[tuple[type[Exception], ...]] = ()  # those of them that say that another process was first
    _busy: ClassVar[tuple[type[Exception], ...]] = ()  # those that say that it still holds what is waited for
    _in_list: ClassVar[str]  # the operator for "is in this list", with the list's place
    _for_update: ClassVar[str] = ""  # what keeps others from the rows that a query has found
    _state_bytes: ClassVar[str] = "length(state)"  # the size of a snapshot
    _own_schema: ClassVar[int] = SCHEMA_VERSION  # a later version, up to which journals of this kind may come by use
    name: str  # of the journal, in messages
    read_only: bool
    _failed = _wrote = False

    @abstractmethod
    def _list_value(self, values: Iterable[Any]) -> Any:
        """Values as the list that `_in_list` takes."""

    @abstractmethod
    def _execute(self, query: str, values: Sequence[Any]) -> Any:
        """Run a statement; its cursor."""

    @abstractmethod
    def _transaction(self, kind: Kind, count: int = 0) -> AbstractContextManager[Any]:
        """All or nothing: a batch, without other batches; an entry of so many events; or a view."""

    @property
    @abstractmethod
    def _in_transaction(self) -> bool:
        """Whether there is one under way."""

    @abstractmethod
    def _tables(self) -> set[str]:
        """The names of the tables."""

    @abstractmethod
    def _script(self, script: str) -> None:
        """Run statements that define tables."""

    @contextmanager
    def batch(self, patience: float = math.inf) -> Iterator[int]:
        with self._writing("batch"):
            yield self.last()

    @contextmanager
    def entry(self, count: int) -> Iterator[list[int]]:
        with self._writing("entry"):
            yield self.reserve(count)

    @contextmanager
    def _writing(self, kind: Kind, count: int = 0) -> Iterator[Any]:
        """What `_transaction` gives, but it keeps nothing if something fails."""
        if self.read_only:
            raise StoreError(f"{self.name} was opened to be read; it cannot be written")
        with self._transaction(kind, count) as begun:
            self._failed = self._wrote = False
            yield begun
            if self._failed:
                raise StoreError(f"{self.name} keeps nothing of a batch in which something failed")

    def reserve(self, count: int) -> list[int]:
        last = self.last()
        return list(range(last + 1, last + 1 + count))

    def settled(self) -> int:
        return self.last()

    def hold(self, refs: Iterable[int], unread: Iterable[int] = ()) -> dict[int, Held]:
        query = f"SELECT seq FROM log WHERE seq {self._in_list} AND body <> ? ORDER BY seq"
        held = [seq for (seq,) in self._rows(query, self._list_value(refs), b"")]
        wanted = list(unread)
        about, events = self.about(held), self.events(wanted) if wanted else {}
        return {seq: Held(about.get(seq, []), events.get(seq)) for seq in held}

    def view(self) -> AbstractContextManager[None]:
        return nullcontext() if self._in_transaction else self._transaction("view")

    def save(self, snapshots: Sequence[Snapshot], keep: int) -> None:
        again = "ON CONFLICT (bandit, seq) DO UPDATE SET at = excluded.at, state = excluded.state"
        for snapshot in snapshots:
            self._run(f"INSERT INTO snapshots (bandit, seq, at, state) VALUES (?, ?, ?, ?) {again}", *snapshot)
        kept = "SELECT seq FROM snapshots WHERE bandit = ? ORDER BY seq DESC LIMIT ?"
        for bandit in {snapshot.bandit for snapshot in snapshots}:
            self._run(f"DELETE FROM snapshots WHERE bandit = ? AND seq NOT IN ({kept})", bandit, bandit, keep)

    def last(self) -> int:
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM log")[0][0])

    def after(
        self,
        seq: int,
        bandit: int | None = None,
        upto: int | None = None,
        numbers: Sequence[int] | None = None,
        known_from: int = MAX_SEQ,
        bodiless: str = "",
    ) -> Iterator[tuple[Event, Event | None]]:
        of: list[tuple[str, Any]] = [("", known_from)]
        if bandit is not None:
            of.append(("e.bandit = ? AND", bandit))
        if upto is not None:
            of.append(("e.seq <= ? AND", upto))
        if numbers is not None:
            if not numbers:
                return
            of.append((f"e.seq {self._in_list} AND", self._list_value(numbers)))
        *own, body = (f"e.{name}" for name in Event._fields)
        small = f"CASE WHEN e.kind = ? THEN ? WHEN length({body}) <= {LARGE_BYTES} THEN {body} END"
        columns = ", ".join([*own, small, *(f"d.{name}" for name in Event._fields)])
        found = f"""FROM log e LEFT JOIN log d ON d.seq = e.ref AND d.seq < ?
            WHERE {" ".join(where for where, _ in of)} e.seq > ? ORDER BY e.seq LIMIT ?"""
        query = f"SELECT {columns} {found}"
        sizes = f"SELECT e.seq, coalesce(length({small}), 0) + coalesce(length(d.body), 0) {found}"
        values, width = [bodiless, b"", *(value for _, value in of)], len(Event._fields)
        limit = first = min(FIRST_CHUNK_EVENTS, CHUNK_EVENTS)
        # Few are read with one statement, which is of one moment also outside of a transaction, if they are not large.
        count = MAX_SEQ if upto is None else upto - seq if numbers is None else len(numbers)
        few = first <= count < CHUNK_EVENTS and not self._in_transaction
        if few:
            limit = self._count_fitting(sizes, *values, seq)
        while limit and (rows := self._rows(query, *values, seq, limit)):
            for row in rows:
                about = None if row[width] is None else self._read(row[width:])
                # What is large is read alone: many of them together would take longer than a statement has.
                whole = [row[:width]] if row[width - 1] is not None else self._rows(LARGE, row[0])
                for own_row in whole:  # none if another process has just dropped it
                    yield unseal(own_row, self.name), about
            if len(rows) < limit:
                break
            seq, size = rows[-1][0], sum(len(row[width - 1] or b"") + len(row[-1] or b"") for row in rows)
            limit = self._count_fitting(sizes, *values, seq) if few else _next_limit(limit, size)

    def _count_fitting(self, query: str, *values: Any) -> int:
        """How many of the events whose sizes are asked for may be read at once; 0 if there is none."""
        sizes = self._rows(query, *values, CHUNK_EVENTS)
        count = len(_fitting(sizes))
        return CHUNK_EVENTS if 0 < count == len(sizes) else count

    def count(self, after: int, before: int) -> int:
        return int(self._rows("SELECT count(*) FROM log WHERE seq > ? AND seq < ?", after, before)[0][0])

    def salvage(self, first: int, upto: int) -> tuple[list[Event], list[int]]:
        between = "FROM log WHERE seq BETWEEN ? AND ?"
        try:
            ((size,),) = self._rows(f"SELECT coalesce(sum(length(body)), 0) {between}", first, upto)
            fits = first == upto or size <= CHUNK_BYTES
            rows = self._rows(f"SELECT {COLUMNS} {between} ORDER BY seq", first, upto) if fits else None
        except StoreError:
            if first == upto:
                return [], [first]
            rows = None
        if rows is None:
            middle = (first + upto) // 2  # if a page of the file cannot be read: what is not on it can
            (left, bad), (right, worse) = self.salvage(first, middle), self.salvage(middle + 1, upto)
            return left + right, bad + worse
        # Pages of a damaged file may be found twice, or in the place of others.
        read = {row[0]: self._read(row) for row in rows if first <= row[0] <= upto}
        return [event for event in read.values() if event is not None], [seq for seq in read if read[seq] is None]

    def events(self, seqs: Iterable[int]) -> dict[int, Event]:
        return {event.seq: event for event in self._events(f"seq {self._in_list}", self._list_value(seqs))}

    def about(self, refs: Iterable[int]) -> dict[int, list[Event]]:
        return by_ref(self._events(f"ref {self._in_list} ORDER BY seq", self._list_value(refs)))

    def recent(self, bandit: int, kinds: Sequence[str], limit: int, before: int | None = None) -> list[Event]:
        where = f"bandit = ? AND kind {self._in_list} AND seq < ? ORDER BY seq DESC LIMIT ?"
        of, before, count = (bandit, self._list_value(kinds)), MAX_SEQ if before is None else before, limit
        if limit == 1 and (found := self._events(where, *of, before, 1)):
            return found
        sizes = "SELECT seq, coalesce(length(body), 0) FROM log"
        while seqs := _fitting(self._rows(f"{sizes} WHERE {where}", *of, before, count)):
            found = self._events(f"seq {self._in_list} ORDER BY seq DESC", self._list_value(seqs))
            if found:
                return found[:limit]
            before, count = seqs[-1], CHUNK_EVENTS  # all of them are damaged
        return []

    def snapshots(self, bandit: int | None = None) -> list[Snapshot]:
        # Negative ones are of pieces, see _sqlite.py.
        newest = "SELECT bandit, max(seq) FROM snapshots WHERE bandit >= 0 GROUP BY bandit ORDER BY bandit"
        own = "SELECT bandit, seq FROM snapshots WHERE bandit = ? ORDER BY seq DESC"
        keys = self._rows(newest) if bandit is None else self._rows(own, bandit)
        # One by one, since together they may be very large. Another process may have dropped one meanwhile.
        found = [self.snapshot(id_, seq) for id_, seq in keys]
        return [snapshot for snapshot in found if snapshot is not None]

    def snapshot(self, bandit: int, seq: int) -> Snapshot | None:
        rows = self._rows("SELECT at, state FROM snapshots WHERE bandit = ? AND seq = ?", bandit, seq)
        return Snapshot(bandit, seq, *rows[0]) if rows else None

    def snapshot_sizes(self, bandit: int) -> list[tuple[int, float, int]]:
        query = f"SELECT seq, at, {self._state_bytes} FROM snapshots WHERE bandit = ? ORDER BY seq DESC"
        rows = [(seq, at, size) for seq, at, size in self._rows(query, bandit) if isinstance(at, float)]
        return [(int(seq), at, int(size)) for seq, at, size in rows if isinstance(seq, int) and math.isfinite(at)]

    def prune(self, bandit: int, before: float, upto: int, limit: int = sys.maxsize) -> list[int]:
        where = "bandit = ? AND at < ? AND seq <= ? AND seq < (SELECT max(seq) FROM log)"
        needed = "EXISTS (SELECT 1 FROM log later WHERE later.ref = log.seq AND later.seq > ?)"
        query = f"SELECT seq FROM log WHERE {where} AND NOT {needed} ORDER BY seq LIMIT ?{self._for_update}"
        found = {seq for (seq,) in self._rows(query, bandit, before, upto, upto, limit)}
        # Who held one of them meanwhile may have added to it, which only a statement after that one sees.
        late = f"SELECT ref FROM log WHERE ref {self._in_list} AND seq > ?"
        dropped = sorted(found.difference(ref for (ref,) in self._rows(late, self._list_value(found), upto)))
        self._run(f"DELETE FROM log WHERE seq {self._in_list}", self._list_value(dropped))
        return dropped

    # In the order of `+seq`, so that a subject's events are found by its name: for the first or the last ones in the
    # order of `seq` PostgreSQL may look through the whole log.

    def last_about(self, subject: str) -> int:
        return int(self._rows("SELECT coalesce(max(+seq), 0) FROM log WHERE subject = ?", subject)[0][0])

    def count_about(self, subject: str, upto: int) -> int:
        return int(self._rows("SELECT count(*) FROM log WHERE subject = ? AND seq <= ?", subject, upto)[0][0])

    def erase(self, subject: str, upto: int = MAX_SEQ, limit: int = sys.maxsize) -> int:
        emptied = "body = ?, learn = NULL, key = NULL, subject = NULL"
        first = "SELECT seq FROM log WHERE subject = ? AND seq <= ? ORDER BY +seq LIMIT ?"
        return self._run(f"UPDATE log SET {emptied} WHERE seq IN ({first})", b"", subject, upto, limit)

    def touch(self) -> None:
        self._run("UPDATE meta SET value = value WHERE name = 'schema'")

    @property
    def secret(self) -> bytes:
        found = self._meta("secret")
        if found is None or not 0 < len(found) <= MAX_SECRET:
            raise DamageError(f"{self.name} is damaged: it has no secret, which its ids are made with")
        return found

    @property
    def has_gaps(self) -> bool:
        return self.shared or self._meta("gaps") is not None

    @property
    def group(self) -> list[str]:
        return (self._meta("group") or b"").decode(errors="replace").split()

    def _meta(self, name: str) -> bytes | None:
        """What the journal says of itself, if it does."""
        rows = self._rows("SELECT value FROM meta WHERE name = ?", name)
        if rows and not isinstance(rows[0][0], bytes):
            raise DamageError(f"{self.name} is damaged: its {name} is not what was written")
        return rows[0][0] if rows else None

    def join(self, group: Sequence[str]) -> None:
        value = " ".join(group).encode()
        self._run("INSERT INTO meta VALUES ('group', ?) ON CONFLICT (name) DO NOTHING", value)

    def set_origin(self, secret: bytes, *, has_gaps: bool) -> None:
        self._run("UPDATE meta SET value = ? WHERE name = 'secret'", secret)
        if has_gaps:
            self._run("INSERT INTO meta VALUES ('gaps', ?)", b"")

    def _events(self, where: str, *values: Any) -> list[Event]:
        rows = self._rows(f"SELECT {COLUMNS} FROM log WHERE {where}", *values)
        return [event for event in map(self._read, rows) if event is not None]

    def _read(self, row: Sequence[Any]) -> Event | None:
        """The event of a row that is looked up; a damaged one is as if it were not there."""
        try:
            return unseal(row, self.name)
        except DamageError as error:
            log.error("%s", error)
            return None

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._errors():
            rows: list[tuple[Any, ...]] = self._execute(query, values).fetchall()
            return rows

    def _run(self, query: str, *values: Any) -> int:
        self._wrote = True
        with self._errors():
            return int(self._execute(query, values).rowcount)

    @contextmanager
    def _errors(self, *, unrelated: bool = False) -> Iterator[None]:
        """The database's errors as StoreErrors of one line. Then the batch keeps nothing, unless `unrelated`."""
        try:
            yield
        except self._error as error:
            self._failed = self._failed or not unrelated
            reason = (str(error) or type(error).__name__).splitlines()[0]
            kinds = ((self._conflicts, StoreConflictError), (self._busy, StoreBusyError), (Exception, StoreError))
            kind = next(kind for errors, kind in kinds if isinstance(error, errors))
            raise kind(f"{self.name} cannot be used: {reason}") from None

    def _prepare(self) -> None:
        """Make the tables of a new journal, bring those of an older version up to date, and refuse others."""
        if not self.read_only and not self._is_current():
            with self._patience(), self._transaction("batch"):
                self._migrate()
        if "meta" not in self._tables() or not (version := self._version()):
            raise StoreError(f"{self.name} must hold a journal; got another database")
        if version not in self._schemas:
            raise StoreError(f"{self.name} must have schema {' or '.join(map(str, self._schemas))}; got {version}")

    def _is_current(self) -> bool:
        """Whether there is nothing to make or to bring up to date: then opening takes no lock."""
        return "meta" in self._tables() and self._version() in self._schemas

    @property
    def _schemas(self) -> range:
        """The versions that can be used as they are."""
        return range(SCHEMA_VERSION, max(SCHEMA_VERSION, self._own_schema) + 1)

    def _patience(self) -> AbstractContextManager[None]:
        """Let statements take long: those that make and migrate tables."""
        return nullcontext()

    def _migrate(self) -> None:
        tables = self._tables()
        if not tables:
            self._script(TABLES)
            for name, value in (("schema", b"%d" % SCHEMA_VERSION), ("secret", secrets.token_bytes(32))):
                self._run("INSERT INTO meta VALUES (?, ?)", name, value)
        while "meta" in tables and (version := self._version()) in MIGRATIONS:
            self._script(MIGRATIONS[version])
            self._run("UPDATE meta SET value = ? WHERE name = 'schema'", b"%d" % (version + 1))

    def _version(self) -> int:
        """The version of the tables; 0 if they tell none."""
        try:
            return int(self._rows("SELECT value FROM meta WHERE name = 'schema'")[0][0])
        except (IndexError, TypeError, ValueError):
            return 0


def _next_limit(limit: int, size: int) -> int:
    """How many events to read after so many of this size together."""
    return max(1, min(CHUNK_GROWTH * limit, CHUNK_EVENTS, limit * CHUNK_BYTES // max(1, size)))


def _fitting(sizes: Sequence[tuple[Any, ...]]) -> list[int]:
    """The numbers of the first events, one at least, that fit into a chunk."""
    totals = accumulate(size for _, size in sizes)
    return [seq for k, ((seq, _), total) in enumerate(zip(sizes, totals, strict=True)) if not k or total <= CHUNK_BYTES]
