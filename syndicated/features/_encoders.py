"""Encoders: from a context and arms, as programs have them, to the table of numbers that an agent takes.

{"kind": "vector", "dim": 10}                arms bring lists of numbers
{"kind": "hashed", "dim": 64, "seed": 0}     context and arms bring JSON objects, whose parts are hashed to columns
{"kind": "ids", "arms": ["a", "b"]}          arms bring nothing but their ids

>>> from syndicated.features import Arm, Encoder
>>> encoder = Encoder.from_spec({"kind": "vector", "dim": 2, "context": 1})
>>> encoder.table([0.5], [Arm("a", x=[1, 0]), Arm("b", x=[0, 1])]).tolist()
[[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]
"""

import inspect
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated._validation import MAX_MAGNITUDE, check_arms, check_count, shorten
from syndicated.errors import InputError
from syndicated.features._arm import ArmFields, PreparedArm
from syndicated.features._hashing import hash_text, scatter
from syndicated.features._tokens import check_feature, pack_numbers, tokens_of
from syndicated.types import Array

MAX_COLUMNS = 10_000  # of a table; the linear policies keep the square of it
MAX_CELLS = 10_000_000  # numbers of a table, and pairs of tokens in a request: a tenth of a second

Context = list[float] | dict[str, Any] | None
Parts = tuple[bytes, bytes]  # 64-bit keys and floats


class Encoder(ABC):
    """Turns contexts and arms into tables of `dim` columns; it has no state, and any thread may use it."""

    kind: ClassVar[str]
    dim: int

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    @staticmethod
    def from_spec(spec: Mapping[str, Any]) -> "Encoder":
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

    def prepare(self, arm: ArmFields, path: str = "arm") -> PreparedArm:
        """Check and hash an arm once, for any number of tables; `path` is its name in messages."""
        return PreparedArm(arm.id, *self._parts(arm, path))

    def table(self, context: Context, arms: Sequence[ArmFields | PreparedArm]) -> Array:
        """The features of every arm in this context, (K, dim)."""
        if not arms:
            raise InputError(f"arms must be a list of at least one arm; got {shorten(arms)}")
        if len(arms) * self.dim > MAX_CELLS:
            raise InputError(f"arms must be at most {MAX_CELLS // self.dim} with {self.dim} columns; got {len(arms)}")
        given = self._context(context)
        return self._fill(given, self._all(arms))

    def with_context(self, context: Context, X: npt.ArrayLike) -> Array:
        """The features of arms that are a table already, such as a binary body's, with the context's beside them."""
        raise InputError(f"a table of arms needs features of kind vector; these are of kind {self.kind}")

    def _all(self, arms: Sequence[ArmFields | PreparedArm]) -> list[Parts]:
        return [
            (arm.keys, arm.values) if isinstance(arm, PreparedArm) else self._parts(arm, f"arms[{k}]")
            for k, arm in enumerate(arms)
        ]

    @abstractmethod
    def _context(self, context: Context) -> Parts: ...

    @abstractmethod
    def _parts(self, arm: ArmFields, path: str) -> Parts: ...

    @abstractmethod
    def _fill(self, context: Parts, arms: list[Parts]) -> Array: ...

    def _numbers(self, context: Context, size: int) -> bytes:
        """A context of `size` numbers as raw memory."""
        if context and not size:
            self._refuse("context", context)
        return pack_numbers("context", context, size) if size else b""

    def _width(self, columns: int) -> int:
        if columns > MAX_COLUMNS:
            raise InputError(f"features must have at most {MAX_COLUMNS} columns; got {columns}")
        return columns

    def _refuse(self, path: str, value: object) -> NoReturn:
        raise InputError(f"{path} must be absent with these features of kind {self.kind}; got {shorten(value)}")


class Vector(Encoder):
    """Every arm brings `x`, a list of `dim` numbers; with a context of n numbers its row is [context, x]."""

    kind = "vector"

    def __init__(self, *, dim: object = None, context: object = 0) -> None:
        self._size = check_count("features.dim", dim)
        self._given = check_count("features.context", context, low=0)
        self.dim = self._width(self._given + self._size)

    def with_context(self, context: Context, X: npt.ArrayLike) -> Array:
        return self._beside_context(self._context(context), check_arms(X, self._size))

    def _context(self, context: Context) -> Parts:
        return b"", self._numbers(context, self._given)

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.features is not None:
            self._refuse(f"{path}.features", arm.features)
        return b"", pack_numbers(f"{path}.x", arm.x, self._size)

    def table(self, context: Context, arms: Sequence[ArmFields | PreparedArm]) -> Array:
        """All lists at once, which is faster; if one of them is not a list of floats, arm by arm, to say which."""
        lists = [
            arm.x
            for arm in arms
            if not isinstance(arm, PreparedArm) and isinstance(arm.x, list) and arm.features is None
        ]
        with suppress(ValueError):
            X = np.array(lists)
            if X.dtype == np.float64 and X.shape == (len(arms), self._size) and X.size <= MAX_CELLS:
                return self._beside_context(self._context(context), X)
        return super().table(context, arms)

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        return self._beside_context(context, _join(arms, 1, np.float64).reshape(len(arms), self._size))

    def _beside_context(self, context: Parts, X: Array) -> Array:
        wrong = _first_invalid(X)
        if wrong >= 0:
            k, j = divmod(wrong, self._size)
            check_feature(f"arms[{k}].x[{j}]", float(X[k, j]))
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

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.x is not None:
            self._refuse(f"{path}.x", arm.x)
        return self._tokens("arm", f"{path}.features", arm.features)

    def _tokens(self, side: str, path: str, thing: object) -> Parts:
        """The tokens' hashes and values, in an order that does not depend on the object's."""
        if not isinstance(thing, dict):
            raise InputError(f"{path} must be an object; got {shorten(thing)}")
        tokens = [(hash_text(self._seed, f"{side}\x1f{text}"), value) for text, value in tokens_of(path, thing)]
        tokens.sort()
        keys, values = [key for key, _ in tokens], [value for _, value in tokens]
        return struct.pack(f"{len(keys)}Q", *keys), struct.pack(f"{len(values)}d", *values)

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        given, floats = _join([context], 0, np.uint64), _join([context], 1, np.float64)
        keys, values = _join(arms, 0, np.uint64), _join(arms, 1, np.float64)
        pairs = len(given) * len(keys)
        if self._interactions and pairs > MAX_CELLS:
            raise InputError(f"context and arms must have at most {MAX_CELLS} pairs of tokens; got {pairs}")
        ends = np.cumsum([len(part) // 8 for part, _ in arms], dtype=np.int64)
        table = np.empty((len(arms), self.dim))
        scatter(given, floats, keys, values, ends, self._interactions, table)
        sizes = np.abs(table).max(axis=1)
        if not sizes.max() <= MAX_MAGNITUDE:
            k = int(np.argmax(sizes))
            raise InputError(
                f"arms[{k}] must have columns of at most {MAX_MAGNITUDE:g} in size; one adds up to {sizes[k]:g}"
            )
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

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        for name, value in (("x", arm.x), ("features", arm.features)):
            if value is not None:
                self._refuse(f"{path}.{name}", value)
        return struct.pack("Q", self._column(arm.id, path)), b""

    def _column(self, arm: str, path: str) -> int:
        if not isinstance(arm, str):
            raise InputError(f"{path}.id must be a string; got {shorten(arm)}")
        if not self._columns:
            return hash_text(self._seed, f"id\x1f{arm}") % self._slots
        if arm not in self._columns:
            raise InputError(f"{path}.id must be one of features.arms; got {shorten(arm)}")
        return self._columns[arm]

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        table = np.zeros((len(arms), self._slots, 1 + self._given))
        block = np.concatenate(([1.0], np.frombuffer(context[1])))
        table[np.arange(len(arms)), _join(arms, 0, np.uint64)] = block
        return table.reshape(len(arms), self.dim)


KINDS: dict[str, type[Vector] | type[Hashed] | type[Ids]] = {cls.kind: cls for cls in (Vector, Hashed, Ids)}


def _check_ids(arms: object) -> list[str]:
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise InputError(f"features.arms must be a list of ids, at least one; got {shorten(arms)}")
    if len(set(arms)) != len(arms):
        raise InputError(f"features.arms must be different ids; got {shorten(arms)}")
    return arms


def _join(parts: list[Parts], which: int, dtype: type[Any]) -> npt.NDArray[Any]:
    """One array of all parts; of a bytearray, because compiled code takes only arrays that can be written."""
    return np.frombuffer(bytearray().join([part[which] for part in parts]), dtype)


@compiled("i8(f8[:, ::1])")
def _first_invalid(X: Array) -> int:
    """The place of the first number that is not finite or too large; -1 if there is none."""
    for place, x in enumerate(X.flat):
        if not abs(x) <= MAX_MAGNITUDE:
            return place
    return -1
