"""What is not known beforehand: objects of any fields, or lists of numbers, in a fixed number of columns.

{"kind": "open"}     or with {"dim": 64, "seed": 0}, which are the defaults
"""

import struct
from collections.abc import Sequence

import numpy as np

from syndicated._missing import repeat_first
from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.features._arm import ArmFields, InlineArm
from syndicated.features._base import Context, Parts, join
from syndicated.features._columns import check_width
from syndicated.features._encoders import Hashed, check_sums
from syndicated.features._hashing import fill_row
from syndicated.features._tokens import pack_numbers
from syndicated.types import ArmId, Array

DEFAULT_COLUMNS = 64
NOTHING: Parts = b"", b""  # what an arm brings that brings nothing but its id


class Open(Hashed):
    """Fields of objects are hashed to `dim` columns; the numbers of a list have the first ones, each its own.

    Arms may bring objects too, or nothing but their ids: it is for policies that keep a model for each arm.

    >>> from syndicated.features import Arm
    >>> Open(dim=4).table([2.5, 1.0], [Arm("tea"), Arm("milk")]).tolist()
    [[2.5, 1.0, 0.0, 0.0], [2.5, 1.0, 0.0, 0.0]]
    """

    kind = "open"

    def __init__(self, *, dim: object = DEFAULT_COLUMNS, seed: object = 0) -> None:
        super().__init__(dim=dim, seed=seed, interactions=False, ids=False)
        check_width(self.dim)
        self.takes_ids = True

    def rows(self, context: Context, ids: Sequence[ArmId]) -> Array:
        """All rows are that of the context."""
        if not ids:
            return super().rows(context, ids)  # which refuses it
        self._check_cells(len(ids))
        table, given = np.empty((len(ids), self.dim)), [self._context(context)]
        fill_row(table[0], join(given, 0, np.uint64), join(given, 1, np.float64))
        if not repeat_first(table):
            check_sums(table[:1])
        return table

    def _context(self, context: Context) -> Parts:
        if not isinstance(context, list):
            return super()._context(context)
        if len(context) > self.dim:
            raise InputError(f"context must be at most {self.dim} numbers, or features.dim larger; got {len(context)}")
        # A key below dim is the number of a column, and its highest bit, the sign, is not set.
        return struct.pack(f"{len(context)}Q", *range(len(context))), pack_numbers("context", context, len(context))

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.x is not None:
            raise InputError(
                f"{path}.x must be absent with features of kind {self.kind}, which take lists as context alone; "
                f"got {shorten(arm.x)}"
            )
        if arm.features is None:
            return NOTHING
        return self._tokens("arm", path if isinstance(arm, InlineArm) else f"{path}.features", arm.features)
