"""The log as a Parquet file, for those who have pyarrow."""

import io
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import msgspec

from syndicated._extras import extra
from syndicated.errors import MissingExtraError
from syndicated.service.core.log_lines import LogLine
from syndicated.service.core.problems import Problem

NUMBERS = ("at", "learn", "value", "propensity", "default")
COUNTS = ("seq", "ref", "epoch", "version", "place", "count", "round")
FLAGS = ("deferred", "explored", "agrees")
TEXTS = ("bandit", "kind", "key", "subject", "outcome", "by", "arm")
JSON = ("params", "choice", "top", "arms", "X", "context")  # as text


def find() -> Any:
    """pyarrow, or the problem that it is not there."""
    try:
        with extra("parquet", "format=parquet"):
            import_module("pyarrow.parquet")
            return import_module("pyarrow")
    except MissingExtraError as error:
        raise Problem(501, "not-installed", str(error)) from None


async def write(chunks: AsyncIterator[Sequence[LogLine]], arrow: Any) -> AsyncIterator[bytes]:
    """The file in parts, one group of rows for each chunk."""
    schema, out = _schema(arrow), _Sink()
    with arrow.parquet.ParquetWriter(out, schema) as writer:
        async for lines in chunks:
            writer.write_table(arrow.Table.from_pylist([_row(line) for line in lines], schema=schema))
            yield out.take()
    yield out.take()


def _schema(arrow: Any) -> Any:
    kinds = {
        **dict.fromkeys(NUMBERS, arrow.float64()),
        **dict.fromkeys(COUNTS, arrow.int64()),
        **dict.fromkeys(FLAGS, arrow.bool_()),
        **dict.fromkeys([*TEXTS, *JSON], arrow.string()),
        "x": arrow.list_(arrow.float64()),
    }
    return arrow.schema([(name, kinds[name]) for name in LogLine.__struct_fields__])


def _row(line: LogLine) -> dict[str, Any]:
    row = msgspec.structs.asdict(line)
    decided = line.epoch is not None
    for name in (*FLAGS, "round"):
        row[name] = row[name] if decided else None
    for name in JSON:
        row[name] = msgspec.json.encode(row[name]).decode() if decided and row[name] is not None else None
    return row


class _Sink(io.RawIOBase):
    """A file of which what was written can be taken away; it still knows how long it is."""

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
