"""The log as a Parquet file; needs pyarrow."""

import io
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import msgspec

from syndicated._extras import extra
from syndicated.errors import MissingExtraError
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.problems import Problem
from syndicated.service.core.export import Export
from syndicated.service.core.log_lines import LogLine, to_json, to_line
from syndicated.store import Event

GROUP_EVENTS = 1000  # in a row group
NUMBER_FIELDS = ("at", "learn", "value", "propensity", "default")
COUNT_FIELDS = ("seq", "ref", "epoch", "version", "place", "count", "round")
FLAG_FIELDS = ("deferred", "explored", "agrees", "sparse")
TEXT_FIELDS = ("bandit", "kind", "key", "subject", "outcome", "by", "arm")
JSON_FIELDS = ("params", "choice", "top", "arms", "X", "context", "ranking")  # as JSON text


def load_pyarrow() -> Any:
    """pyarrow; without it, a problem that names the extra."""
    try:
        with extra("parquet", "format=parquet"):
            import_module("pyarrow.parquet")
            return import_module("pyarrow")
    except MissingExtraError as error:
        raise Problem(501, "not-installed", str(error)) from None


async def parquet_file(export: Export, arrow: Any) -> AsyncIterator[bytes]:
    """The bytes of the file in parts, with a row group for each."""
    schema, out = _schema(arrow), _Sink()
    with arrow.parquet.ParquetWriter(out, schema) as writer:

        def write(events: Sequence[Event], bandit: Bandit) -> bytes:
            rows = [_row(to_line(event, bandit, table=to_json)) for event in events]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))
            return out.take()

        async for part in export.pieces(write, GROUP_EVENTS):
            yield part
    yield out.take()


def _schema(arrow: Any) -> Any:
    kinds = {
        **dict.fromkeys(NUMBER_FIELDS, arrow.float64()),
        **dict.fromkeys(COUNT_FIELDS, arrow.int64()),
        **dict.fromkeys(FLAG_FIELDS, arrow.bool_()),
        **dict.fromkeys([*TEXT_FIELDS, *JSON_FIELDS], arrow.string()),
        "x": arrow.list_(arrow.float64()),
    }
    return arrow.schema([(name, kinds[name]) for name in LogLine.__struct_fields__])


def _row(line: LogLine) -> dict[str, Any]:
    row = msgspec.structs.asdict(line)
    decided = line.epoch is not None
    for name in (*FLAG_FIELDS, "round"):
        row[name] = row[name] if decided else None
    for name in JSON_FIELDS:
        row[name] = msgspec.json.encode(row[name]).decode() if decided and row[name] is not None else None
    return row


class _Sink(io.RawIOBase):
    """A file in memory that hands over what was written so far, and still knows its whole length."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._length += len(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)
