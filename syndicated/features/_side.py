"""One side of a table, the context or the arms: its fields, or the vector that it is."""

import struct
from typing import Any

import numpy as np

from syndicated._validation import check_count, shorten
from syndicated.errors import InputError
from syndicated.features._base import Parts
from syndicated.features._columns import Columns
from syndicated.features._fields import Field, Row, field_of, kind_of
from syndicated.features._tokens import within
from syndicated.features._values import is_missing, pack_plain, read_vector
from syndicated.types import Array

NO_PARTS: Parts = (b"", b"")
LEARNED = "learned"  # in place of a schema: the fields are those that come


class Side:
    """The fields of a side by their names, or the columns of its vector.

    `given` is a schema (names and kinds), a list of names, the size of a vector, None for nothing, or "learned".
    """

    def __init__(self, name: str, given: Any, columns: Columns) -> None:
        self.name, self.columns = name, columns
        self.fields: dict[str, Field] = {}
        self.names: list[str] | None = None  # of all fields that there may be; None if there may be any
        self.vector = b""  # the places of a vector's columns
        self._plain: tuple[str, ...] | None = (
            None  # the names, if all fields are numbers, and the places of their columns
        )
        self._places = b""
        self._packer = struct.Struct("")  # of these numbers
        self.grows = given == LEARNED or isinstance(given, list)
        if isinstance(given, dict):
            self._take_schema(given)
        elif isinstance(given, list):
            self.names = _check_names(name, given)
        elif given is None:
            self.names = []
        elif isinstance(given, str) and not self.grows:
            must = "an object of names and kinds, a list of names, the size of a vector, or 'learned'"
            raise InputError(f"features.{name} must be {must}; got {shorten(given)}")
        elif not self.grows:
            self.names = []
            self._take_vector(check_count(f"features.{name}", given))

    def _take_schema(self, schema: dict[str, Any]) -> None:
        self.names = _check_names(self.name, list(schema))
        self.grows = "category" in schema.values()
        for name, kind in schema.items():
            path = within(f"features.{self.name}", name)
            self.fields[name] = field_of(self.columns, self.name, name, kind, path, grows=False)
        self._note()

    def read(self, path: str, given: Any) -> Parts:
        """What a context or an arm says, as places of columns and their values."""
        if isinstance(given, dict):
            return self._read_object(path, given)
        if given is None:
            return self._miss() if self.vector or self.fields else NO_PARTS
        if not self.vector:
            if self.fields or self.names is not None:
                raise InputError(f"{path} must be an object of fields; got {shorten(given)}")
            self._take_vector(len(read_vector(path, given)))
        return self.vector, read_vector(path, given, len(self.vector) // 8).tobytes()

    def plain(self, given: Any) -> Array | None:
        """The numbers of what is given, if that is all it has, and none is missing."""
        if type(given) is dict:
            return pack_plain(given.values()) if tuple(given) == self._plain else None
        if not self.vector or not isinstance(given, np.ndarray | list):
            return None
        numbers = pack_plain(given)
        return numbers if numbers is not None and 8 * len(numbers) == len(self.vector) else None

    def pack(self, given: Any, table: memoryview, row: int = 0) -> bool:
        """Write a list or an object into a row of a table, if it has nothing but numbers; whether it has."""
        if type(given) is dict:
            if tuple(given) != self._plain:
                return False
            given = given.values()
        elif type(given) is not list or not self.vector:
            return False
        try:
            self._packer.pack_into(table, row * self._packer.size, *given)
        except (struct.error, OverflowError, TypeError, ValueError):
            return False
        return True

    def pack_all(self, given: Any) -> Array | None:
        """A row for each of many lists or objects, or a copy of a table, if there is nothing but numbers in it."""
        size = self._packer.size // 8
        if type(given) is np.ndarray:  # a masked one has gaps
            is_table = self.vector and given.shape[1:] == (size,) and given.dtype.kind in "fiub"
            return np.array(given, dtype=np.float64, order="C") if is_table else None
        table = np.empty((len(given), size))
        data = table.data
        return table if all(self.pack(each, data, row) for row, each in enumerate(given)) else None

    @property
    def plain_places(self) -> bytes:
        """The places of the columns that `plain` gives the numbers of."""
        return self.vector or self._places

    def _read_object(self, path: str, given: dict[str, Any]) -> Parts:
        if self.vector:
            raise InputError(f"{path} must be a list of {len(self.vector) // 8} numbers; got {shorten(given)}")
        numbers = self.plain(given)
        if numbers is not None:
            return self._places, numbers.tobytes()
        if dict in map(type, given.values()):
            given = _flat(given)
        row: Row = {}
        for name, value in given.items():
            field = self.fields.get(name) or self._new_field(path, name, value)
            if field is not None:
                field.read(path, value, row)
        if len(given) != len(self.fields) or given.keys() != self.fields.keys():
            self._miss_absent(given, row)
        return pack_row(row)

    def _new_field(self, path: str, name: Any, value: Any) -> Field | None:
        """A field that was not known before; None if its value does not tell what it is."""
        if not isinstance(name, str):
            raise InputError(f"{path} must have names that are text; got {shorten(name)}")
        where = within(path, name)
        if self.names is not None and name not in self.names:
            raise InputError(f"{where} must be one of the fields {', '.join(self.names) or '(none)'}")
        if is_missing(value) or (isinstance(value, list | tuple) and not value):
            return None
        kind = kind_of(where, value)
        field = self.fields[name] = field_of(self.columns, self.name, name, kind, where, grows=True)
        self._note()
        return field

    def _miss_absent(self, given: dict[str, Any], row: Row) -> None:
        for name, field in self.fields.items():
            if name not in given:
                field.miss(row)

    def _miss(self) -> Parts:
        """Nothing was given: all numbers are missing."""
        if self.vector:
            return self.vector, np.full(len(self.vector) // 8, np.nan).tobytes()
        row: Row = {}
        self._miss_absent({}, row)
        return pack_row(row)

    def _take_vector(self, size: int) -> None:
        self.vector = struct.pack(f"{size}Q", *[self.columns.of(self.name, j) for j in range(size)])
        self._packer = struct.Struct(f"{size}d")

    def _note(self) -> None:
        """Keep what makes objects of numbers fast to read."""
        columns = [getattr(field, "column", None) for field in self.fields.values()]
        self._plain = None if None in columns else tuple(self.fields)
        self._places = b"" if self._plain is None else struct.pack(f"{len(columns)}Q", *columns)
        if not self.vector:
            self._packer = struct.Struct(f"{len(columns)}d")

    def forget_after(self, count: int) -> None:
        """Drop the fields that came after the first ones, and a vector that has no columns."""
        while len(self.fields) > count:
            self.fields.popitem()
        if not self.columns.has(self.name, 0):
            self.vector = b""
        self._note()

    def restore(self, kinds: dict[str, Any]) -> None:
        """Take the fields that `as_dict` gave, whose columns are known."""
        for name, kind in kinds.items():
            if name not in self.fields:
                self.fields[name] = field_of(self.columns, self.name, name, kind, name, grows=True)
        size = sum(len(token) == 2 and token[0] == self.name and type(token[1]) is int for token in self.columns.places)
        if size:
            self._take_vector(size)
        self._note()

    def as_dict(self) -> dict[str, Any]:
        """The fields that were learned, as they stand in a state."""
        return {name: field.kind for name, field in self.fields.items()}


def _flat(given: dict[str, Any]) -> dict[str, Any]:
    """The object with those within it taken apart, one level deep."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        flat |= {f"{name}.{inner}": part for inner, part in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def pack_row(row: Row) -> Parts:
    return struct.pack(f"{len(row)}Q", *row), struct.pack(f"{len(row)}d", *row.values())


def _check_names(side: str, names: list[Any]) -> list[str]:
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InputError(f"features.{side} must have different names; got {shorten(names)}")
    return names
