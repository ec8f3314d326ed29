"""How the tables keep the body of an event: with a checksum of the whole event, and compressed if it is mostly zeros.

    0xc1, 0 or 1, CRC-32 of the event (4 bytes), the body or, with 1, the body compressed

MessagePack never begins with 0xc1, so bodies of journals from before there were checksums are told apart. They are read
as they are, and so are those that were erased, which are empty.
"""

import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from syndicated.store._base import DamageError, Event

PLAIN, COMPRESSED = b"\xc1\x00", b"\xc1\x01"
HEAD = 6  # bytes before the body
MIN_COMPRESSED = 512  # bytes
ZEROS = 0.25  # the share of zeros from which on a body is compressed
LARGE, LARGE_ZEROS = 2**20, 0.75  # of more bytes, which takes 20 ms a MiB where few are zeros; others wait for it
MAX_BODY = 2**30  # bytes of a body that was compressed
LEVEL = 1

FIELD_TYPES = (int, int, str, float, int | None, float | None, str | None, str | None, bytes)  # of an event

_pack_numbers = struct.Struct("<qqdqd").pack


class PackedBody(bytes):
    """A large body that is packed when it is made, on any thread, and not while others wait for its event."""

    def __init__(self, body: bytes) -> None:
        self.packed = _pack(body)


def seal(event: Event) -> tuple[Any, ...]:
    """The row of an event."""
    mark, body = event.body.packed if isinstance(event.body, PackedBody) else _pack(event.body)
    return *event[:-1], mark + _checksum(event, body) + body


def _pack(body: bytes) -> tuple[bytes, bytes]:
    """A body as it is kept, and the mark before it."""
    if len(body) >= MIN_COMPRESSED and body.count(0) > (LARGE_ZEROS if len(body) > LARGE else ZEROS) * len(body):
        return COMPRESSED, zlib.compress(body, LEVEL)
    return PLAIN, body


def unseal(row: Sequence[Any], journal: str) -> Event:
    """The event of a row; one that is not what was written is refused."""
    try:
        data = row[-1]
        mark, checksum, body = data[:2], data[2:HEAD], data[HEAD:]
        if mark[:1] != PLAIN[:1]:
            whole, body = _is_event(row) and _checksum(row, body) != checksum, data  # or only the first byte is damaged
        else:
            whole = mark in (PLAIN, COMPRESSED) and _checksum(row, body) == checksum
            if whole and mark == COMPRESSED:
                body = zlib.decompressobj().decompress(body, MAX_BODY)
    except (struct.error, TypeError, AttributeError, UnicodeError, zlib.error):
        whole = False
    if not whole:
        what = f"event {row[0]} of bandit {row[1]}"
        raise DamageError(f"{journal} is damaged: {what} is not what was written; see `syndicated repair`")
    return Event._make((*row[:-1], body))


def _is_event(row: Sequence[Any]) -> bool:
    """Whether what has no checksum could be an event: rows of a damaged file may hold anything."""
    return all(isinstance(value, kind) for value, kind in zip(row, FIELD_TYPES, strict=True))


def _checksum(row: Sequence[Any], body: bytes) -> bytes:
    seq, bandit, kind, at, ref, learn, key, subject, _ = row
    # Zeros without a sign, as SQLite gives them back.
    learned = math.nan if learn is None else learn + 0.0
    numbers = _pack_numbers(seq, bandit, at + 0.0, -1 if ref is None else ref, learned)
    text = f"{kind}\0{key or ''}\0{subject or ''}".encode("utf-8", "surrogatepass")
    return zlib.crc32(body, zlib.crc32(numbers + text)).to_bytes(4, "little")
