"""Features as people have them: from a request's context and arms to the table of numbers that an agent takes.

{"kind": "vector", "dim": 10}                arms bring lists of numbers
{"kind": "hashed", "dim": 64, "seed": 0}     context and arms bring JSON objects, whose parts are hashed to columns
{"kind": "ids", "arms": ["a", "b"]}          arms bring nothing but their ids

>>> encoder = Encoder.of({"kind": "vector", "dim": 2, "context": 1})
>>> encoder.table([0.5], [Arm("a", x=[1, 0]), Arm("b", x=[0, 1])]).tolist()
[[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]
"""

import inspect
import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from syndicated.compiled import compiled
from syndicated.errors import LIMIT, InputError, check_arms, check_count, check_features, shorten
from syndicated.types import Array, Ints

WIDEST = 10_000  # columns of a table; the linear policies keep the square of it
MOST = 10_000_000  # numbers of a table, and pairs of tokens in a request: a tenth of a second
LONGEST = 256  # characters of a text whose hash is kept

_GOLDEN, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_27, _30, _31, _63 = (np.uint64(bits) for bits in (27, 30, 31, 63))

Word = np.uint64
Words = npt.NDArray[np.uint64]
Context = list[float] | dict[str, Any] | None
Parts = tuple[bytes, bytes]  # 64-bit keys and floats


class Arm(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An arm of a request: its id, and `x` or `features` or nothing, as the kind of features wants."""

    id: str
    x: list[float] | None = None
    features: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """An arm that one encoder has checked and hashed: raw memory, so that many arms join fast."""

    id: str
    keys: bytes
    values: bytes


class Encoder(ABC):
    """Turns contexts and arms into tables of `dim` columns; it has no state, and any thread may use it."""

    kind: ClassVar[str]
    dim: int

    @staticmethod
    def of(spec: Mapping[str, Any]) -> "Encoder":
        """The encoder that the `features` part of a bandit's spec describes."""
        if not isinstance(spec, Mapping):
            raise InputError(f"features must be an object; got {shorten(spec)}")
        arguments = dict(spec)
        kind = arguments.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"features.kind must be one of {', '.join(KINDS)}; got {shorten(kind)}")
        known = inspect.signature(KINDS[kind]).parameters
        for name in arguments:
            if name not in known:
                raise InputError(f"features of kind {kind} have {', '.join(known)}; got {shorten(name)}")
        return KINDS[kind](**arguments)

    def prepare(self, arm: Arm, path: str = "arm") -> Prepared:
        """Check and hash an arm once, for any number of tables; `path` is its name in messages."""
        return Prepared(arm.id, *self._parts(arm, path))

    def table(self, context: Context, arms: Sequence[Arm | Prepared]) -> Array:
        """The features of every arm in this context, (K, dim)."""
        if not arms:
            raise InputError(f"arms must be a list of at least one arm; got {shorten(arms)}")
        if len(arms) * self.dim > MOST:
            raise InputError(f"arms must be at most {MOST // self.dim} with {self.dim} columns; got {len(arms)}")
        given = self._context(context)
        return self._fill(given, self._all(arms))

    def rows(self, context: Context, X: npt.ArrayLike) -> Array:
        """The table of arms that came as a table already, such as a binary body's."""
        raise InputError(f"a table of arms needs features of kind vector; these are of kind {self.kind}")

    def _all(self, arms: Sequence[Arm | Prepared]) -> list[Parts]:
        return [
            (arm.keys, arm.values) if isinstance(arm, Prepared) else self._parts(arm, f"arms[{k}]")
            for k, arm in enumerate(arms)
        ]

    @abstractmethod
    def _context(self, context: Context) -> Parts: ...

    @abstractmethod
    def _parts(self, arm: Arm, path: str) -> Parts: ...

    @abstractmethod
    def _fill(self, context: Parts, arms: list[Parts]) -> Array: ...

    def _numbers(self, context: Context, size: int) -> bytes:
        """A context of `size` numbers as raw memory."""
        if context and not size:
            self._absent("context", context)
        return _floats("context", context, size) if size else b""

    def _width(self, columns: int) -> int:
        if columns > WIDEST:
            raise InputError(f"features must have at most {WIDEST} columns; got {columns}")
        return columns

    def _absent(self, path: str, value: object) -> NoReturn:
        raise InputError(f"{path} must be absent with these features of kind {self.kind}; got {shorten(value)}")


class Vector(Encoder):
    """Every arm brings `x`, a list of `dim` numbers; with a context of n numbers its row is [context, x]."""

    kind = "vector"

    def __init__(self, *, dim: object = None, context: object = 0) -> None:
        self._size = check_count("features.dim", dim)
        self._given = check_count("features.context", context, low=0)
        self.dim = self._width(self._given + self._size)

    def rows(self, context: Context, X: npt.ArrayLike) -> Array:
        return self._beside(self._context(context), check_arms(X, self._size))

    def _context(self, context: Context) -> Parts:
        return b"", self._numbers(context, self._given)

    def _parts(self, arm: Arm, path: str) -> Parts:
        if arm.features is not None:
            self._absent(f"{path}.features", arm.features)
        return b"", _floats(f"{path}.x", arm.x, self._size)

    def table(self, context: Context, arms: Sequence[Arm | Prepared]) -> Array:
        """All lists at once, which is faster; where that cannot be, arm by arm."""
        lists = [arm.x for arm in arms if isinstance(arm, Arm) and isinstance(arm.x, list) and arm.features is None]
        with suppress(ValueError):
            X = np.array(lists)
            if X.dtype == np.float64 and X.shape == (len(arms), self._size) and X.size <= MOST:
                return self._beside(self._context(context), X)
        return super().table(context, arms)

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        return self._beside(context, _join(arms, 1, np.float64).reshape(len(arms), self._size))

    def _beside(self, context: Parts, X: Array) -> Array:
        wrong = _beyond(X)
        if wrong >= 0:
            k, j = divmod(wrong, self._size)
            _number(f"arms[{k}].x[{j}]", float(X[k, j]))
        if not self._given:
            return X
        table = np.empty((len(X), self.dim))
        table[:, : self._given] = np.frombuffer(context[1])
        table[:, self._given :] = X
        return table


class Hashed(Encoder):
    """Context and arms bring JSON objects; their tokens, and the pairs of both, are hashed to `dim` columns."""

    kind = "hashed"

    def __init__(self, *, dim: object = None, seed: object = 0, interactions: object = True) -> None:
        self.dim = self._width(check_count("features.dim", dim))
        self._seed = check_count("features.seed", seed, low=0)
        if not isinstance(interactions, bool):
            raise InputError(f"features.interactions must be true or false; got {shorten(interactions)}")
        self._interactions = interactions

    def _context(self, context: Context) -> Parts:
        return self._tokens("context", "context", {} if context is None else context)

    def _parts(self, arm: Arm, path: str) -> Parts:
        if arm.x is not None:
            self._absent(f"{path}.x", arm.x)
        return self._tokens("arm", f"{path}.features", arm.features)

    def _tokens(self, side: str, path: str, thing: object) -> Parts:
        """The tokens' hashes and values, in an order that does not depend on the object's."""
        if not isinstance(thing, dict):
            raise InputError(f"{path} must be an object; got {shorten(thing)}")
        tokens = [(_hash(self._seed, f"{side}\x1f{text}"), value) for text, value in _texts(path, thing)]
        tokens.sort()
        keys, values = [key for key, _ in tokens], [value for _, value in tokens]
        return struct.pack(f"{len(keys)}Q", *keys), struct.pack(f"{len(values)}d", *values)

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        given, floats = _join([context], 0, np.uint64), _join([context], 1, np.float64)
        keys, values = _join(arms, 0, np.uint64), _join(arms, 1, np.float64)
        pairs = len(given) * len(keys)
        if self._interactions and pairs > MOST:
            raise InputError(f"context and arms must have at most {MOST} pairs of tokens; got {pairs}")
        ends = np.cumsum([len(part) // 8 for part, _ in arms], dtype=np.int64)
        table = np.empty((len(arms), self.dim))
        _scatter(given, floats, keys, values, ends, self._interactions, table)
        sizes = np.abs(table).max(axis=1)
        if not sizes.max() <= LIMIT:
            k = int(np.argmax(sizes))
            raise InputError(f"arms[{k}] must have columns of at most {LIMIT:g} in size; one adds up to {sizes[k]:g}")
        return table


class Ids(Encoder):
    """Arms bring their ids alone: a column for each of the listed `arms`, or `dim` columns that ids hash to.

    With a context of n numbers every arm has a block of 1 + n columns, and fills it with [1, context].
    """

    kind = "ids"

    def __init__(self, *, arms: object = None, dim: object = None, seed: object = None, context: object = 0) -> None:
        if (arms is None) == (dim is None):
            raise InputError("features of kind ids must have either arms, a list of ids, or dim, a number of columns")
        if arms is not None and seed is not None:
            raise InputError(
                f"features.seed is for ids that are hashed to dim columns, not for arms; got {shorten(seed)}"
            )
        self._columns = {} if arms is None else {arm: column for column, arm in enumerate(_check_ids(arms))}
        self._slots = len(self._columns) or check_count("features.dim", dim)
        self._seed = 0 if seed is None else check_count("features.seed", seed, low=0)
        self._given = check_count("features.context", context, low=0)
        self.dim = self._width(self._slots * (1 + self._given))

    def _context(self, context: Context) -> Parts:
        return b"", self._numbers(context, self._given)

    def _parts(self, arm: Arm, path: str) -> Parts:
        for name, value in (("x", arm.x), ("features", arm.features)):
            if value is not None:
                self._absent(f"{path}.{name}", value)
        return struct.pack("Q", self._column(arm.id, path)), b""

    def _column(self, arm: str, path: str) -> int:
        if not isinstance(arm, str):
            raise InputError(f"{path}.id must be a string; got {shorten(arm)}")
        if not self._columns:
            return _hash(self._seed, f"id\x1f{arm}") % self._slots
        if arm not in self._columns:
            raise InputError(f"{path}.id must be one of features.arms; got {shorten(arm)}")
        return self._columns[arm]

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        table = np.zeros((len(arms), self._slots, 1 + self._given))
        block = np.concatenate(([1.0], np.frombuffer(context[1])))
        table[np.arange(len(arms)), _join(arms, 0, np.uint64)] = block
        return table.reshape(len(arms), self.dim)


KINDS: dict[str, type[Vector] | type[Hashed] | type[Ids]] = {cls.kind: cls for cls in (Vector, Hashed, Ids)}


def split_body(data: bytes) -> tuple[bytes, Array]:
    """A binary body as its JSON head and its table of arms.

    The body is the length of the head (32 bits), the head, and K * d numbers of 32 bits in the order of rows, all
    little-endian. The head's `shape` is [K, d]; its `arms`, if it has them, are K ids.
    """
    length = int.from_bytes(data[:4], "little")
    if len(data) < 4 + length:
        raise InputError(f"a binary body must hold 4 bytes and a head of {length}; got {len(data)} bytes")
    head = bytes(data[4 : 4 + length])
    K, d = _shape(head)
    rest = len(data) - 4 - length
    if rest != 4 * K * d:
        raise InputError(f"a binary body of shape [{K}, {d}] must have {4 * K * d} bytes after its head; got {rest}")
    X = np.frombuffer(data, "<f4", offset=4 + length).reshape(K, d).astype(np.float64)
    check_features(X)
    return head, X


def join_body(head: Mapping[str, Any], X: Array) -> bytes:
    """The binary body of a request: what `split_body` splits.

    >>> head, X = split_body(join_body({"context": [0.5]}, np.ones((3, 2))))
    >>> head, X.shape
    (b'{"context":[0.5],"shape":[3,2]}', (3, 2))
    """
    arms = check_arms(X, X.shape[-1])
    with np.errstate(over="ignore"):
        numbers = arms.astype("<f4")
    check_features(numbers.astype(np.float64))
    text = json.dumps({**head, "shape": arms.shape}, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + numbers.tobytes()


def _shape(head: bytes) -> tuple[int, int]:
    try:
        thing = json.loads(head)
    except (ValueError, RecursionError):
        raise InputError(f"the head of a binary body must be JSON; got {shorten(head)}") from None
    if not isinstance(thing, dict):
        raise InputError(f"the head of a binary body must be an object; got {shorten(thing)}")
    shape = thing.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        raise InputError(f"shape must be [K, d]; got {shorten(shape)}")
    K, d = check_count("shape[0]", shape[0]), check_count("shape[1]", shape[1])
    ids = thing.get("arms")
    if ids is not None and (not isinstance(ids, list) or len(ids) != K):
        raise InputError(f"arms must be a list of shape[0] = {K} ids; got {shorten(ids)}")
    return K, d


def _check_ids(arms: object) -> list[str]:
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise InputError(f"features.arms must be a list of ids, at least one; got {shorten(arms)}")
    if len(set(arms)) != len(arms):
        raise InputError(f"features.arms must be different ids; got {shorten(arms)}")
    return arms


def _join(parts: list[Parts], which: int, dtype: type[Any]) -> npt.NDArray[Any]:
    """One array of all parts; of a bytearray, because compiled code takes only arrays that can be written."""
    return np.frombuffer(bytearray().join([part[which] for part in parts]), dtype)


def _floats(path: str, x: object, size: int) -> bytes:
    """A list of numbers as raw memory, each checked."""
    if not isinstance(x, list) or len(x) != size:
        raise InputError(f"{path} must be a list of {size} numbers; got {shorten(x)}")
    return struct.pack(f"{size}d", *[_number(f"{path}[{j}]", value) for j, value in enumerate(x)])


def _number(path: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{path} must be a number; got {shorten(value)}")
    if not abs(value) <= LIMIT:
        raise InputError(f"{path} must be finite and at most {LIMIT:g} in size; got {shorten(value)}")
    return float(value)


def _texts(path: str, thing: dict[str, Any]) -> list[tuple[str, float]]:
    """The tokens of an object, before they are hashed: a text that tells what it is, and its value."""
    tokens: list[tuple[str, float]] = []
    for name, value in thing.items():
        if isinstance(value, dict):
            for inner, within in value.items():
                _add_texts(tokens, path, f"{name}.{inner}", within)
        else:
            _add_texts(tokens, path, name, value)
    return tokens


def _add_texts(tokens: list[tuple[str, float]], path: str, name: str, value: object) -> None:
    if isinstance(value, str):
        tokens.append((f"{name}\x1f{value}", 1.0))
    elif isinstance(value, bool):
        tokens.append((f"{name}\x1f{'true' if value else 'false'}", 1.0))
    elif isinstance(value, (int, float)):
        tokens.append((name, float(value) if abs(value) <= LIMIT else _number(_within(path, name), value)))
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        tokens.extend((f"{name}\x1f{each}", 1.0) for each in set(value))
    elif value is not None:
        kinds = "a number, a string, true, false, null or a list of strings"
        raise InputError(f"{_within(path, name)} must be {kinds}; got {shorten(value)}")


def _within(path: str, name: str) -> str:
    return f"{path}.{name if name.isprintable() and len(name) <= 60 else shorten(name)}"


def _hash(seed: int, text: str) -> int:
    """64 bits of a text; those of long texts are not kept, because the number of texts kept is what is bounded."""
    return _kept(seed, text) if len(text) <= LONGEST else _kept.__wrapped__(seed, text)


@lru_cache(maxsize=2**16)
def _kept(seed: int, text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, salt=seed.to_bytes(16, "little")).digest(), "little")


@compiled("i8(f8[:, ::1])")
def _beyond(X: Array) -> int:
    """The place of the first number that is not finite or too large; -1 if there is none."""
    for place, x in enumerate(X.flat):
        if not abs(x) <= LIMIT:
            return place
    return -1


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


@compiled("void(u8[::1], f8[::1], u8[::1], f8[::1], i8[::1], b1, f8[:, ::1])")
def _scatter(
    given: Words, floats: Array, keys: Words, values: Array, ends: Ints, interactions: bool, table: Array
) -> None:
    """Fill the row of every arm with the sums of the context's tokens, the arm's own, and the pairs of both."""
    level = np.zeros(table.shape[1])
    for i in range(len(given)):
        _add(level, given[i], floats[i])
    start = 0
    for k in range(len(table)):
        row = table[k]
        row[:] = level
        for j in range(start, ends[k]):
            _add(row, keys[j], values[j])
            if interactions:
                for i in range(len(given)):
                    _add(row, _pair(given[i], keys[j]), floats[i] * values[j])
        start = ends[k]
