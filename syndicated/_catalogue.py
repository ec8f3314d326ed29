"""The catalogue: the features of arms that are known by their numbers."""

from typing import Any

import numpy as np

from syndicated._validation import check_numbers
from syndicated.errors import InputError
from syndicated.types import Array, Ints

ROOM = 8  # one in so many places of a table that grows is room for more


def with_room(table: Array, count: int, axis: int = 0) -> Array:
    """A table of at least so many rows or columns: this one, or a larger one that begins with it.

    There is more room than asked for, so that a table that grows is seldom copied.

    >>> with_room(np.ones((8, 2)), 9).shape, with_room(np.ones((8, 2)), 3).shape
    ((10, 2), (8, 2))
    """
    if count <= table.shape[axis]:
        return table
    shape = list(table.shape)
    shape[axis] = count + count // ROOM
    larger = np.zeros(shape, dtype=table.dtype)
    larger[tuple(slice(size) for size in table.shape)] = table
    return larger


def put_columns(columns: Array, numbers: Ints, new: Array) -> Array:
    """The columns with these at these numbers; in the same array if there is room."""
    columns = with_room(columns, int(numbers.max()) + 1, axis=1)
    columns[:, numbers] = new
    return columns


class Catalogue:
    """Rows of features that are added, changed and retired. A number is never given twice.

    >>> catalogue = Catalogue(np.eye(2))
    >>> catalogue.put(np.array([2, 0]), np.array([[0.5, 0.5], [9.0, 0.0]]))
    >>> catalogue.retire(1)
    >>> catalogue.rows.tolist(), catalogue.live.tolist()
    ([[9.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0, 2])
    """

    def __init__(self, rows: Array) -> None:
        self._table, self.rows = rows, rows
        self._is_retired = np.zeros(len(rows), dtype=np.bool_)
        self._live: Ints | None = np.arange(len(rows))

    @property
    def live(self) -> Ints:
        """The numbers of the arms that are not retired; the same array until that changes."""
        if self._live is None:
            self._live = np.flatnonzero(~self._is_retired)
        return self._live

    @property
    def retired(self) -> Ints:
        """The numbers of the arms that are retired."""
        return np.flatnonzero(self._is_retired)

    def check(self, arms: Any) -> Ints:
        """Numbers of arms that are not retired; None stands for all of them."""
        if arms is None:
            if not len(self.live):
                raise InputError(f"an arm must be left to decide; all {len(self.rows)} of the catalogue are retired")
            return self.live
        numbers = check_numbers(arms, len(self.rows))
        if len(self.live) < len(self.rows) and self._is_retired[numbers].any():
            retired = numbers[self._is_retired[numbers]][0]
            raise InputError(f"the arms must not be retired; got {retired}, which is")
        return numbers

    def put(self, numbers: Ints, rows: Array) -> None:
        """Give these arms these features; they are not retired then."""
        count = max(len(self.rows), int(numbers.max()) + 1)
        if rows.ndim == 3 and rows.shape[2] != self._table.shape[2]:  # sparse rows, which zeros fill up
            width = max(rows.shape[2], self._table.shape[2])
            rows, self._table = _filled_up(rows, width), _filled_up(self._table, width)
        self._table = with_room(self._table, count)
        self._table[numbers], self.rows = rows, self._table[:count]
        self._is_retired = np.append(self._is_retired, np.zeros(count - len(self._is_retired), dtype=np.bool_))
        self._is_retired[numbers], self._live = False, None

    def retire(self, number: Any) -> None:
        """Take an arm from those that are played."""
        self._is_retired[check_numbers([number], len(self.rows))], self._live = True, None

    def restore(self, retired: Ints) -> None:
        """These are the arms that are retired."""
        self._is_retired[:] = False
        self._is_retired[retired], self._live = True, None


def _filled_up(rows: Array, width: int) -> Array:
    return np.pad(rows, ((0, 0), (0, 0), (0, width - rows.shape[2])))
