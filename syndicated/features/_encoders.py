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
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from syndicated._missing import first_invalid
from syndicated._validation import MAX_MAGNITUDE, check_arms, check_count, shorten
from syndicated.errors import InputError
from syndicated.features._arm import ArmFields, InlineArm, PreparedArm
from syndicated.features._base import MAX_CELLS, Context, Encoder, Parts, join
from syndicated.features._columns import MAX_COLUMNS, check_width
from syndicated.features._hashing import Words, hash_text, scatter, scatter_sparse
from syndicated.features._tokens import check_feature, id_token, pack_numbers, tokens_of
from syndicated.types import ArmId, Array, Ints

MAX_HASHED_COLUMNS = 2**22  # a policy keeps four numbers for each
MAX_ENTRIES = 2_000_000  # of sparse rows: a tenth of a second to sort


class Vector(Encoder):
    """Every arm brings `x`, a list of `dim` numbers; with a context of n numbers its row is [context, x]."""

    kind = "vector"
    complete = True

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
        K, size = len(arms), self._size
        # Truth values would be packed as numbers: where the first is one, or a whole number, each is looked at.
        if len(lists) == K and set(map(len, lists)) == {size} and K * size <= MAX_CELLS and type(lists[0][0]) is float:
            X = np.empty((K, size))
            with suppress(struct.error):
                struct.pack_into(f"{K * size}d", X.data, 0, *chain.from_iterable(lists))
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
    """Context and arms bring JSON objects; their tokens, and the pairs of both, are hashed to `dim` columns.

    With `ids` an arm's id is a token too. Beyond 10,000 columns that is the default, and rows are sparse.
    """

    kind = "hashed"
    complete = True

    def __init__(
        self, *, dim: object = None, seed: object = 0, interactions: object = True, ids: object = None
    ) -> None:
        self.dim = check_count("features.dim", dim)
        if self.dim > MAX_HASHED_COLUMNS:
            raise InputError(f"features.dim must be at most {MAX_HASHED_COLUMNS}; got {shorten(dim)}")
        self.sparse = self.dim > MAX_COLUMNS
        self._seed = check_count("features.seed", seed, low=0)
        self._interactions = _check_switch("features.interactions", interactions)
        self.takes_ids = self.sparse if ids is None else _check_switch("features.ids", ids)

    def _context(self, context: Context) -> Parts:
        return self._tokens("context", "context", {} if context is None else context)

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.x is not None:
            self._refuse(f"{path}.x", arm.x)
        features = {} if arm.features is None and (self.takes_ids or isinstance(arm, InlineArm)) else arm.features
        own = [(id_token(arm.id, path), 1.0)] if self.takes_ids else []
        return self._tokens("arm", path if isinstance(arm, InlineArm) else f"{path}.features", features, own)

    def _tokens(self, side: str, path: str, thing: object, own: Sequence[tuple[str, float]] = ()) -> Parts:
        """The tokens' hashes and values, in an order that does not depend on the object's."""
        if not isinstance(thing, dict):
            raise InputError(f"{path} must be an object; got {shorten(thing)}")
        tokens = [(hash_text(self._seed, f"{side}\x1f{text}"), value) for text, value in tokens_of(path, thing)]
        tokens += [(hash_text(self._seed, text), value) for text, value in own]
        tokens.sort()
        keys, values = [key for key, _ in tokens], [value for _, value in tokens]
        return struct.pack(f"{len(keys)}Q", *keys), struct.pack(f"{len(values)}d", *values)

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        given, floats = join([context], 0, np.uint64), join([context], 1, np.float64)
        keys, values = join(arms, 0, np.uint64), join(arms, 1, np.float64)
        pairs = len(given) * len(keys)
        if self._interactions and pairs > MAX_CELLS:
            raise InputError(f"context and arms must have at most {MAX_CELLS} pairs of tokens; got {pairs}")
        counts = [len(part) // 8 for part, _ in arms]
        tokens = given, floats, keys, values, np.array(list(accumulate(counts))), self._interactions
        if self.sparse:
            return self._fill_sparse(tokens, len(given) + max(counts) * (1 + self._interactions * len(given)))
        table = np.empty((len(arms), self.dim))
        scatter(*tokens, table)
        if first_invalid(table) >= 0:
            check_sums(table)
        return table

    def _fill_sparse(self, tokens: tuple[Words, Array, Words, Array, Ints, bool], longest: int) -> Array:
        count = len(tokens[4])
        if count * longest > MAX_ENTRIES:
            must = f"the arms, times the tokens and pairs of one of them, must be at most {MAX_ENTRIES}"
            raise InputError(f"{must}; got {count} times {longest}")
        rows = np.empty((count, 2, longest))
        used = scatter_sparse(*tokens, self.dim, rows)
        check_sums(rows[:, 1])
        return np.ascontiguousarray(rows[:, :, :used])


def _check_switch(path: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{path} must be true or false; got {shorten(value)}")
    return value


def check_sums(values: Array) -> None:
    """Refuse sums of tokens that are too large, naming the arm."""
    sizes = np.abs(values).max(axis=1, initial=0.0)
    if not sizes.max() <= MAX_MAGNITUDE:
        k = int(np.argmax(sizes))
        raise InputError(
            f"arms[{k}] must have columns of at most {MAX_MAGNITUDE:g} in size; one adds up to {sizes[k]:g}"
        )


class Ids(Encoder):
    """Arms bring their ids alone: a column for each of the listed `arms`, or `dim` columns that ids hash to.

    With a context of n numbers every arm has a block of 1 + n columns, and fills it with [1, context].
    """

    kind = "ids"
    takes_ids = True
    complete = True

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

    def context_of(self, x: Array) -> list[float] | None:
        """The context of a row."""
        if not self._given:
            return None
        blocks = x.reshape(self._slots, 1 + self._given)
        context: list[float] = blocks[int(np.argmax(blocks[:, 0])), 1:].tolist()
        return context

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
            return hash_text(self._seed, id_token(arm, path)) % self._slots
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
