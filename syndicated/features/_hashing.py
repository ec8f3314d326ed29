"""Tokens as columns: the hash of a text, and the sums of hashed tokens and of their pairs, as tables or sparse rows."""

from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated.types import Array, Ints

MAX_CACHED_CHARACTERS = 256  # of a text whose hash is kept

_GOLDEN, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_27, _30, _31, _63 = (np.uint64(bits) for bits in (27, 30, 31, 63))

Word = np.uint64
Words = npt.NDArray[np.uint64]


def hash_text(seed: int, text: str) -> int:
    """64 bits of a text. Those of long texts are not cached, because the cache is bounded by the number of texts."""
    return _cached_hash(seed, text) if len(text) <= MAX_CACHED_CHARACTERS else _cached_hash.__wrapped__(seed, text)


@lru_cache(maxsize=2**16)
def _cached_hash(seed: int, text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, salt=seed.to_bytes(16, "little")).digest(), "little")


@compiled("u8(u8, u8)")
def _pair(context: Word, arm: Word) -> Word:
    """The hash of a pair: mixed well (the end of SplitMix64), so that tokens in one column have pairs in different."""
    z = context * _GOLDEN + arm
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled("void(f8[::1], u8, f8)")
def _add(row: Array, key: Word, value: float) -> None:
    column = key % np.uint64(len(row))
    row[column] += -value if key >> _63 else value


@compiled("void(f8[::1], u8[::1], f8[::1])")
def fill_row(row: Array, keys: Words, values: Array) -> None:
    """Fill a row with the sums of tokens."""
    row[:] = 0.0
    for i in range(len(keys)):
        _add(row, keys[i], values[i])


@compiled("void(u8[::1], f8[::1], u8[::1], f8[::1], i8[::1], b1, f8[:, ::1])")
def scatter(
    given: Words, floats: Array, keys: Words, values: Array, ends: Ints, interactions: bool, table: Array
) -> None:
    """Fill the row of every arm with the sums of the context's tokens, the arm's own, and the pairs of both."""
    level = np.empty(table.shape[1])
    fill_row(level, given, floats)
    start = 0
    for k in range(len(table)):
        row = table[k]
        for i in range(len(level)):
            row[i] = level[i]
        for j in range(start, ends[k]):
            _add(row, keys[j], values[j])
            if interactions:
                for i in range(len(given)):
                    _add(row, _pair(given[i], keys[j]), floats[i] * values[j])
        start = ends[k]


@compiled("void(f8[:, ::1], i8, u8, f8, i8)")
def _put(row: Array, place: int, key: Word, value: float, dim: int) -> None:
    row[0, place] = np.float64(key % np.uint64(dim))
    row[1, place] = -value if key >> _63 else value


@compiled("i8(f8[:, ::1], i8)")
def _merge(row: Array, count: int) -> int:
    """Sort the first entries by column and add up those of one column, in the order they had; gives how many remain."""
    order = np.argsort(row[0, :count], kind="mergesort")
    entries = row[:, :count].copy()
    row[:] = 0.0
    last = -1
    for place in order:
        if last < 0 or row[0, last] != entries[0, place]:
            last += 1
            row[0, last] = entries[0, place]
        row[1, last] += entries[1, place]
    return last + 1


@compiled("i8(u8[::1], f8[::1], u8[::1], f8[::1], i8[::1], b1, i8, f8[:, :, ::1])")
def scatter_sparse(
    given: Words, floats: Array, keys: Words, values: Array, ends: Ints, interactions: bool, dim: int, rows: Array
) -> int:
    """`scatter` into sparse rows (K, 2, n), n enough for all tokens; gives how many entries the longest row has."""
    longest, start = 0, 0
    for k in range(len(rows)):
        count = 0
        for i in range(len(given)):
            _put(rows[k], count, given[i], floats[i], dim)
            count += 1
        for j in range(start, ends[k]):
            _put(rows[k], count, keys[j], values[j], dim)
            count += 1
            for i in range(len(given) if interactions else 0):
                _put(rows[k], count, _pair(given[i], keys[j]), floats[i] * values[j], dim)
                count += 1
        longest = max(longest, _merge(rows[k], count))
        start = ends[k]
    return longest
