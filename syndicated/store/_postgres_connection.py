"""Connections to PostgreSQL on which nothing waits for ever, and on which several statements wait for one answer."""

import math
import select
import struct
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import filterfalse
from typing import Any

from syndicated._extras import extra
from syndicated.store._base import Event
from syndicated.store._seal import seal

with extra("postgres", "a journal in PostgreSQL"):
    import psycopg
    from psycopg import pq
    from psycopg.adapt import Transformer

ANSWER_SECONDS = 2.5  # after which a server that has not answered counts as away
INT8, TEXT, FLOAT8, BYTEA = 20, 25, 701, 17  # the server's numbers of types, which are the same everywhere
# Values of more bytes are sent before others are queued: libpq moves all of its queue whenever it has sent a piece.
LARGE_BYTES = 64 * 2**10
_pack_head = struct.Struct(">IIiqIiqIi").pack
_pack_int = struct.Struct(">Iiq").pack
_pack_float = struct.Struct(">Iid").pack
_pack_size = struct.Struct(">Ii").pack

Statement = tuple[bytes, Sequence[bytes]]  # the name of a prepared one, and its values in binary form


class WaitBudget:
    """How long the answers of a server may still take, those to all statements of one job together."""

    seconds = math.inf


class BoundedConnection(psycopg.Connection[Any]):
    """A connection on which nothing waits for ever: a server that does not answer in time has lost it."""

    seconds: float | None = ANSWER_SECONDS
    budget = WaitBudget()
    _end = math.inf  # of the time for what is sent together, by the monotonic clock

    def wait(self, gen: Generator[Any, Any, Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        if timeout is not None or self.seconds is None:
            return super().wait(gen, interval, timeout)
        begin, seconds = time.monotonic(), self._seconds_left()
        try:
            return super().wait(gen, interval, seconds)
        except psycopg.OperationalError:
            if time.monotonic() - begin < seconds:
                raise
            raise self._give_up() from None
        finally:
            self.budget.seconds -= time.monotonic() - begin

    def prepare(self, queries: Mapping[bytes, str]) -> None:
        """Prepare statements, by their names."""
        send = self.pgconn.send_prepare
        self._together([partial(send, name, query.encode()) for name, query in queries.items()], len(queries))

    def run_together(self, *statements: Statement, needed: int | None = None) -> list[list[Any]]:
        """Run prepared statements, up to the first that fails; the rows of each of those before it.

        Raises what it failed with, unless as many as are needed succeeded. One answer of the server is waited for, and
        its libpq is called here: psycopg's own pipeline costs three times the processor time.
        """
        sends = [partial(self._send, *statement) for statement in statements]
        return self._together(sends, len(statements) if needed is None else needed)

    def _send(self, name: bytes, values: Sequence[bytes]) -> None:
        binary = pq.Format.BINARY
        self.pgconn.send_query_prepared(name, values, [binary] * len(values), binary)
        if sum(map(len, values)) > LARGE_BYTES:
            self._flush()

    def _together(self, sends: Iterable[Callable[[], None]], needed: int) -> list[list[Any]]:
        pgconn, begin = self.pgconn, time.monotonic()
        self._end = begin + self._seconds_left()
        try:
            pgconn.enter_pipeline_mode()
            for send in sends:
                send()
            pgconn.pipeline_sync()
            self._flush()
            results = self._read_results()
            pgconn.exit_pipeline_mode()
        except BaseException:
            pgconn.finish()  # what it would answer later would be taken for the answer to something else
            raise
        finally:
            self.budget.seconds -= time.monotonic() - begin
        if len(results) <= needed and not _succeeded(results[-1]):
            raise psycopg.errors.error_from_result(results[-1])
        return [self._rows_of(result) for result in results if _succeeded(result)]

    def _rows_of(self, result: pq.abc.PGresult) -> list[Any]:
        if not result.ntuples:
            return []
        values = Transformer(self)
        values.set_pgresult(result)
        return values.load_rows(0, result.ntuples, tuple)

    def _flush(self) -> None:
        """Send what is queued."""
        while self.pgconn.flush():
            self._await(select.POLLIN | select.POLLOUT)
            self.pgconn.consume_input()  # or both sides would wait for the other to read

    def _read_results(self) -> list[pq.abc.PGresult]:
        """The results up to the first that failed."""
        pgconn, results = self.pgconn, list[pq.abc.PGresult]()
        while True:
            while pgconn.is_busy():
                self._await(select.POLLIN)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                if self.closed:
                    reasons = map(psycopg.errors.error_from_result, filterfalse(_succeeded, results))
                    raise next(reasons, psycopg.OperationalError("the connection was lost"))
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            elif result.status != pq.ExecStatus.PIPELINE_ABORTED:
                results.append(result)

    def is_cut(self) -> bool:
        """Whether the server has said something that nobody asked for: it has ended this connection."""
        return self.closed or bool(self._poll(select.POLLIN, 0.0))

    def _await(self, event: int) -> None:
        if not self._poll(event, self._end - time.monotonic()):
            raise self._give_up()

    def _poll(self, event: int, seconds: float) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self.pgconn.socket, event)
        return poll.poll(None if seconds == math.inf else 1000 * max(0.0, seconds))

    def _seconds_left(self) -> float:
        return max(0.0, min(math.inf if self.seconds is None else self.seconds, self.budget.seconds))

    def _give_up(self) -> psycopg.OperationalError:
        self.pgconn.finish()  # whatever it would answer later is of no use
        return psycopg.OperationalError(f"no answer within {self.seconds:g} s")


def _succeeded(result: pq.abc.PGresult) -> bool:
    return result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


def packed_int(value: int) -> bytes:
    return value.to_bytes(4, "big")


def packed_long(value: int) -> bytes:
    """A number of 8 bytes."""
    return value.to_bytes(8, "big")


def packed_ints(values: Sequence[int]) -> bytes:
    """An array of numbers of 8 bytes, in the server's binary form."""
    parts = [part for value in values for part in (8, value)]
    return struct.pack(f">iiIii{'iq' * len(values)}", 1, 0, INT8, len(values), 1, *parts)


def packed_rows(events: Iterable[Event], row_type: int) -> bytes:
    """The rows of events as one value, an array of rows of the table, in the server's binary form.

    It costs the server less than an array for each column, and is no `COPY`, whose end would have to be waited for.
    """
    rows = [_packed_row(*seal(event)) for event in events]
    parts = [part for row in rows for part in (packed_int(len(row)), row)]
    return struct.pack(">iiIii", 1, 0, row_type, len(rows), 1) + b"".join(parts)


def _packed_row(
    seq: int,
    bandit: int,
    kind: str,
    at: float,
    ref: int | None,
    learn: float | None,
    key: str | None,
    subject: str | None,
    body: bytes,
) -> bytes:
    """The number of columns, and the type, the size and the bytes of each."""
    name = kind.encode()
    return b"".join(
        (
            _pack_head(9, INT8, 8, seq, INT8, 8, bandit, TEXT, len(name)),
            name,
            _pack_float(FLOAT8, 8, at),
            _pack_size(INT8, -1) if ref is None else _pack_int(INT8, 8, ref),
            _pack_size(FLOAT8, -1) if learn is None else _pack_float(FLOAT8, 8, learn),
            _packed_text(key),
            _packed_text(subject),
            _pack_size(BYTEA, len(body)),
            body,
        )
    )


def _packed_text(text: str | None) -> bytes:
    if text is None:
        return _pack_size(TEXT, -1)
    data = text.encode()
    return _pack_size(TEXT, len(data)) + data
