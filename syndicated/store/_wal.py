"""SQLite's write-ahead log, read by ourselves.

SQLite reads it up to the first frame that is not what was written, and takes this for its end: so it is after a power
failure. If it is damage, what was written later is gone without a word. So the log is looked through before a journal
is opened to be written, which would overwrite it.

    header: magic, version, bytes of a page, checkpoints, two salts, two sums
    frames: number of the page, pages of the file if this ends a transaction (or 0), two salts, two sums, the page
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES, FRAME_BYTES = 32, 24  # before all frames, and before the page of each
WAL_FORMAT = 3007000
ORDERS = {0x377F0682: "<u4", 0x377F0683: ">u4"}  # in which numbers are summed up, by the magic
PAGE_SIZES = [2**k for k in range(9, 17)]
USUAL_PAGE_BYTES = 4096
CHUNK_FRAMES = 4096  # that are summed up at once
SUM_MASK = 2**32 - 1

Numbers: TypeAlias = NDArray[np.uint32]
Bytes: TypeAlias = NDArray[np.uint8]


class Wal(NamedTuple):
    """The frames of a log, and which of them are what was written; if the `header` is not, SQLite reads none."""

    header: bytes
    header_is_whole: bool
    heads: Numbers  # the numbers before the pages
    pages: Bytes
    whole: NDArray[np.bool_]

    @property
    def first_unread(self) -> int:
        """The first frame that SQLite does not read."""
        if not self.header_is_whole:
            return 0
        return len(self.whole) if self.whole.all() else int(self.whole.argmin())

    @property
    def unread(self) -> NDArray[np.intp]:
        """The frames that are what was written, and that SQLite does not read."""
        return self.first_unread + np.flatnonzero(self.whole[self.first_unread :])

    @property
    def damage(self) -> str:
        """What is damaged; empty if nothing is, or if it may be a last transaction that a power failure cut short.

        A transaction is complete on the disk before the next one begins. And a header is before its frames.
        """
        later = self.unread
        ends = later[self.heads[later, 1] > 0]
        if not len(ends) or (self.header_is_whole and later[-1] == ends[0]):
            return ""
        which = f"frame {self.first_unread + 1} of {int(later[-1]) + 1}" if self.header_is_whole else "its header"
        return f"its write-ahead log is damaged at {which}, and SQLite reads nothing of it from there on"

    def apply_to(self, file: Path) -> None:
        """Write to a file all pages that are what was written, up to the end of the last transaction."""
        ends = np.flatnonzero(self.whole & (self.heads[:, 1] > 0))
        if not len(ends):
            return
        with open(file, "r+b") as target:
            for frame in np.flatnonzero(self.whole[: ends[-1] + 1]):
                page = self.pages[frame]
                target.seek((int(self.heads[frame, 0]) - 1) * len(page))
                target.write(page.tobytes())


def read_wal(file: Path) -> Wal | None:
    """The write-ahead log of a file, if it has one; also while it is in use: what looks like damage is read again."""
    name, before = file.with_name(f"{file.name}-wal"), ""
    with suppress(FileNotFoundError):
        while (found := _read(name)) is not None and found.damage != before:
            before = found.damage
        return found
    return None


def _read(name: Path) -> Wal | None:
    data = np.fromfile(name, np.uint8)
    if not len(data):
        return None
    header = data[:HEADER_BYTES].tobytes()
    start = np.frombuffer(header.ljust(HEADER_BYTES, b"\0"), ">u4").astype(np.uint32)
    order, size = ORDERS.get(int(start[0]), "<u4"), int(start[2])
    sums = _sums(start[None, :6].astype(">u4").view(np.uint8), order, np.zeros((1, 2), np.uint32))
    is_whole = int(start[0]) in ORDERS and int(start[1]) == WAL_FORMAT and bool((sums == start[6:]).all())
    size = size if size in PAGE_SIZES else USUAL_PAGE_BYTES
    count = max(0, len(data) - HEADER_BYTES) // (FRAME_BYTES + size)
    frames = data[HEADER_BYTES : HEADER_BYTES + count * (FRAME_BYTES + size)].reshape(count, FRAME_BYTES + size)
    heads = np.ascontiguousarray(frames[:, :FRAME_BYTES]).view(">u4").astype(np.uint32)
    salts = start[4:6] if is_whole or not count else heads[0, 2:4]
    before = np.concatenate([start[None, 6:], heads[:-1, 4:]])
    whole = (heads[:, 2:4] == salts).all(axis=1) & (heads[:, 0] > 0)
    for first in range(0, count, CHUNK_FRAMES):
        part = slice(first, first + CHUNK_FRAMES)
        summed = np.concatenate([frames[part, :8], frames[part, FRAME_BYTES:]], axis=1)
        whole[part] &= (_sums(summed, order, before[part]) == heads[part, 4:]).all(axis=1)
    return Wal(header, is_whole, heads, frames[:, FRAME_BYTES:], whole)


def _sums(data: Bytes, order: str, before: Numbers) -> Numbers:
    """SQLite's sums of each row, which go on from those before it.

    For every two numbers x, y of a row: s += x + t; t += y + s. All of it is linear, so it is one product.
    """
    numbers = np.ascontiguousarray(data).view(order).astype(np.uint32)
    weights, step = _weights(numbers.shape[1] // 2)
    return before @ step + numbers @ weights


def _weights(pairs: int) -> tuple[Numbers, Numbers]:
    """What the numbers of a row, and the sums before it, are multiplied by."""
    weights, powers = list[tuple[int, int]](), [(1, 0), (0, 1)]  # of the matrix ((1, 1), (1, 2)), a step of s and t
    for _ in range(pairs):
        (a, b), (c, d) = powers
        weights += [(b, d), ((a + b) & SUM_MASK, (c + d) & SUM_MASK)]  # of y and of x, from the end on
        powers = [((p + q) & SUM_MASK, (p + 2 * q) & SUM_MASK) for p, q in powers]
    return np.array(weights[::-1], np.uint32), np.array(powers, np.uint32).T.copy()
