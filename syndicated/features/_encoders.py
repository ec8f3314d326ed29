"""Encoders that have no state: vectors, hashed objects, ids.

{"kind": "vector", "dim": 10}                arms bring lists of numbers
{"kind": "hashed", "dim": 64, "seed": 0}     context and arms bring JSON objects, whose parts are hashed to columns
{"kind": "ids", "arms": ["a", "b"]}          arms bring nothing but their ids

>>> from syndicated.features import Arm, Encoder
>>> encoder = Encoder.from_spec({"kind": "vector", "dim": 2, "context": 1})
>>> encoder.table([0.5], [Arm("a", x=[1, 0]), Arm("b", x=[0, 1])]).tolist()
[[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]
"""

import struct
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from syndicated._missing import first_invalid
from syndicated._validation import MAX_MAGNITUDE, check_arms, check_count, shorten
from syndicated.errors import InputError
from syndicated.features._arm import ArmFields, InlineArm, PreparedArm
from syndicated.features._base import MAX_CELLS, Context, Encoder, Parts, join
from syndicated.features._columns import check_width
from syndicated.features._hashing import hash_text, scatter
from syndicated.features._tokens import check_feature, pack_numbers, tokens_of
from syndicated.types import ArmId, Array


class Vector(Encoder):
    """Every arm brings `x`, a list of `dim` numbers; with a context of n numbers its row is [context, x]."""

    kind = "vector"

    def __init__(self, *, dim: object = None, context: object = 0) -> None:
        self._size = check_count("features.dim", dim)
        self._given = check_count("features.context", context, low=0)
        self.dim = check_width(self._given + self._size)

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
        return self._beside_context(context, join(arms, 1, np.float64).reshape(len(arms), self._size))

    def _beside_context(self, context: Parts, X: Array) -> Array:
        wrong = first_invalid(X)
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
        self.dim = check_width(check_count("features.dim", dim))
        self._seed = check_count("features.seed", seed, low=0)
        if not isinstance(interactions, bool):
            raise InputError(f"features.interactions must be true or false; got {shorten(interactions)}")
        self._interactions = interactions

    def _context(self, context: Context) -> Parts:
        return self._tokens("context", "context", {} if context is None else context)

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.x is not None:
            self._refuse(f"{path}.x", arm.x)
        if isinstance(arm, InlineArm):
            return self._tokens("arm", path, arm.features or {})
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
        given, floats = join([context], 0, np.uint64), join([context], 1, np.float64)
        keys, values = join(arms, 0, np.uint64), join(arms, 1, np.float64)
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
        self.dim = check_width(self._slots * (1 + self._given))

    def _context(self, context: Context) -> Parts:
        return b"", self._numbers(context, self._given)

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        for name, value in (("x", arm.x), ("features", arm.features)):
            if value is not None:
                self._refuse(f"{path}.{name}", value)
        return struct.pack("Q", self._column(arm.id, path)), b""

    def _column(self, arm: ArmId, path: str) -> int:
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
        table[np.arange(len(arms)), join(arms, 0, np.uint64)] = block
        return table.reshape(len(arms), self.dim)


def _check_ids(arms: object) -> list[str]:
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise InputError(f"features.arms must be a list of ids, at least one; got {shorten(arms)}")
    if len(set(arms)) != len(arms):
        raise InputError(f"features.arms must be different ids; got {shorten(arms)}")
    return arms
