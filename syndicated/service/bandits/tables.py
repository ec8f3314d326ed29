"""The table of all arms of a decision as the log keeps it: what arms have in common once, of each what is its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from syndicated.service.bandits.records import Decided, PackedTable
from syndicated.types import Array

SMALL = np.dtype("<u2")  # of counts and numbers of columns
MAX_SMALL = 2**16 - 1


def pack_arms(ids: Sequence[str], numbers: Mapping[str, int]) -> list[str | int]:
    """Ids for the log: in place of an arm that was ever registered, its number."""
    return [numbers.get(id_, id_) for id_ in ids]


def unpack_arms(arms: Sequence[str | int] | None, numbers: Mapping[str, int]) -> list[str] | None:
    """The ids that `pack_arms` was given; `numbers` may be later ones."""
    if arms is None:
        return None
    registered = list(numbers)
    return [registered[arm] if isinstance(arm, int) else arm for arm in arms]


def pack_table(X: Array, place: int) -> dict[str, Any]:
    """The fields of a decision for the table of its arms, of which the one at `place` is played.

    The usual row has the middle value of every column, and of each arm are kept the columns where it differs. A table
    that would not become smaller is kept whole.
    """
    K, dim = X.shape
    if dim > MAX_SMALL:
        return {"X": X.tobytes()}
    usual = np.partition(X, K // 2, axis=0)[K // 2]
    differs = _bits(X) != _bits(usual)
    count = int(np.count_nonzero(differs))
    base = b"" if not differs[place].any() else usual.tobytes()
    if len(base) + 2 * K + 10 * count >= 8 * K * dim:
        return {"X": X.tobytes()}
    if not count:
        return {"table": PackedTable()}
    counts, columns = differs.sum(axis=1), differs.nonzero()[1]
    parts = counts.astype(SMALL).tobytes(), columns.astype(SMALL).tobytes(), X[differs].tobytes()
    return {"table": PackedTable(base, *parts)}


def unpack_table(decided: Decided) -> Array | None:
    """The features of all arms of a decision, if they were logged."""
    packed = decided.table
    if packed is None:
        return None if decided.X is None else np.frombuffer(decided.X).reshape(decided.count, -1)
    X = np.tile(np.frombuffer(packed.base or decided.x), (decided.count, 1))
    if packed.counts:
        rows = np.repeat(np.arange(decided.count), np.frombuffer(packed.counts, SMALL))
        X[rows, np.frombuffer(packed.columns, SMALL)] = np.frombuffer(packed.values)
    return X


def _bits(X: Array) -> Any:
    """Floats as whole numbers: -0.0 is not 0.0."""
    return np.ascontiguousarray(X).view(np.int64)
