"""Objects of fields, and vectors: each number has a column, and each value of a category.

{"kind": "fields", "context": {"age": "number", "country": ["fr", "de"]}, "arm": {"price": "number"}}
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from syndicated._missing import first_invalid, repeat_first
from syndicated._validation import shorten
from syndicated.errors import InputError, StateError
from syndicated.features._arm import ArmFields, InlineArm, PreparedArm
from syndicated.features._base import Context, Encoder, Parts, join
from syndicated.features._columns import Columns
from syndicated.features._side import Side
from syndicated.types import ArmId, Array


class Fields(Encoder):
    """Context and arms bring objects of fields, or vectors: each number has a column, and each value of a category.

    A row is [context, arm], and with `interactions` the products of both. A missing number is NaN in its row. With a
    whole schema the encoder has no state. Sides that are learned take the fields that come, and grow.

    >>> from syndicated.features import Arm
    >>> encoder = Fields(context={"age": "number", "country": ["fr", "de"]}, arm={"price": "number"})
    >>> encoder.table({"age": 31, "country": "de"}, [Arm("tea", features={"price": 2.5}), Arm("milk")]).tolist()
    [[31.0, 0.0, 1.0, 2.5], [31.0, 0.0, 1.0, nan]]
    """

    kind = "fields"
    takes_ids = True

    def __init__(self, *, context: object = None, arm: object = None, interactions: object = False) -> None:
        if not isinstance(interactions, bool):
            raise InputError(f"features.interactions must be true or false; got {shorten(interactions)}")
        self._columns = Columns()
        self._sides = Side("context", context, self._columns), Side("arm", arm, self._columns)
        self._interactions, self._known_columns = interactions, -1
        self.grows = any(side.grows for side in self._sides)
        self._grow()

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Fields):
            return self is other
        return (self.state(), self._interactions) == (other.state(), other._interactions)

    def state(self) -> dict[str, Any]:
        context, arm = (side.as_dict() for side in self._sides)
        return {"columns": self._columns.as_list(), "context": context, "arm": arm}

    def restore(self, learned: Any) -> None:
        if not self.grows and learned != self.state():
            raise StateError(f"the features of a state must be {self.state()}; got {shorten(learned)}")
        try:
            self._columns.restore(learned["columns"])
            for side in self._sides:
                side.restore(learned[side.name])
            self._grow()
            right = self.state() == learned
        except (InputError, KeyError, TypeError):
            right = False
        if not right:
            raise StateError(f"the features of a state must be what this encoder learned; got {shorten(learned)}")

    def table(self, context: Context, arms: Sequence[ArmFields | PreparedArm]) -> Array:
        table: Array = self._learning(super().table, context, arms)
        return table

    def prepare_all(self, arms: Sequence[ArmFields]) -> list[PreparedArm]:
        prepared: list[PreparedArm] = self._learning(super().prepare_all, arms)
        return prepared

    def plain_rows(self, context: Context, count: int) -> Array | None:
        if not self._context_is_row:
            return None
        self._check_cells(count)
        table = np.empty((count, self.dim))
        return table if self._sides[0].pack(context, table.data) and repeat_first(table) else None

    def plain_contexts(self, contexts: Any) -> Array | None:
        rows = self._sides[0].pack_all(contexts) if self._context_is_row else None
        return rows if rows is not None and first_invalid(rows) < 0 else None

    def rows(self, context: Context, ids: Sequence[ArmId]) -> Array:
        row: Array | None = self._sides[0].plain(context) if self._context_is_row else None
        if row is None:
            row = self._learning(self._bare_row, context)
        self._check_cells(len(ids))
        table = np.empty((len(ids), self.dim))
        table[:] = row
        return table

    def _bare_row(self, context: Context) -> Array:
        """The row of an arm that brings nothing."""
        row: Array = self._fill(self._context(context), [self._sides[1].read("arms[0]", None)])
        return row

    def _learning(self, make: Callable[..., Any], *arguments: object) -> Any:
        """What is made, with its new columns; they are kept only if all of it is valid."""
        if not self.grows:
            return make(*arguments)
        before, fields = len(self._columns), [len(side.fields) for side in self._sides]
        try:
            return make(*arguments)
        except InputError:
            while len(self._columns) > before:
                self._columns.places.popitem()
            for side, count in zip(self._sides, fields, strict=True):
                side.forget_after(count)
            self._grow()
            raise

    def _context(self, context: Context) -> Parts:
        return self._sides[0].read("context", context)

    def _parts(self, arm: ArmFields, path: str) -> Parts:
        if arm.x is not None and arm.features is not None:
            raise InputError(f"{path} must have x or features; got both")
        given = arm.features if arm.x is None else arm.x
        if not isinstance(arm, InlineArm):
            path = f"{path}.features" if arm.x is None else f"{path}.x"
        return self._sides[1].read(path, given)

    def _all(self, arms: Sequence[ArmFields | PreparedArm]) -> list[Parts]:
        """All arms, twice if some of them have brought new columns, which others may miss."""
        before = len(self._columns)
        parts = super()._all(arms)
        return parts if len(self._columns) == before else super()._all(arms)

    def _grow(self) -> None:
        """Have columns for the products of all others, and know how many there are."""
        if self._known_columns == len(self._columns):
            return
        if self._interactions:
            self._of_context, self._of_arms = (
                [place for token, place in self._columns.places.items() if token[0] == side.name]
                for side in self._sides
            )
            pairs = [[self._columns.of("product", c, a) for a in self._of_arms] for c in self._of_context]
            self._pairs = np.array(pairs, dtype=np.int64).reshape(len(self._of_context), len(self._of_arms))
        self._known_columns = len(self._columns)
        self.dim = max(1, len(self._columns))
        self._context_is_row = self._sides[0].plain_places == np.arange(self.dim).tobytes()  # if all of it is numbers

    def _fill(self, context: Parts, arms: list[Parts]) -> Array:
        if self.grows:
            self._grow()
        row = np.zeros(self.dim)
        row[np.frombuffer(context[0], np.int64)] = np.frombuffer(context[1])
        table = np.empty((len(arms), self.dim))
        table[:] = row
        lengths = [len(keys) // 8 for keys, _ in arms]
        if any(lengths):
            table[np.repeat(np.arange(len(arms)), lengths), join(arms, 0, np.int64)] = join(arms, 1, np.float64)
        if self._interactions:
            self._multiply(table)
        return table

    def _multiply(self, table: Array) -> None:
        """The products of the context's columns and the arms'. With 0, also that of a missing number is 0."""
        context, arms = table[:, self._of_context, None], table[:, None, self._of_arms]
        products = context * arms
        products[(context == 0.0) | (arms == 0.0)] = 0.0
        table[:, self._pairs] = products
