"""Fields: what a context or an arm is described by, and the columns that each takes."""

import math
from typing import Any

import numpy as np

from syndicated._validation import MAX_MAGNITUDE, check_count, shorten
from syndicated.errors import InputError
from syndicated.features._columns import Columns
from syndicated.features._hashing import hash_text
from syndicated.features._tokens import within
from syndicated.features._values import is_missing, is_number, read_number, read_vector

MAX_VALUES = 50  # of a category whose values are learned; later ones share a column
KINDS = "'number', 'category', a list of values, {'hashed': 16} or {'numbers': 8}"

NUMBER_TYPES = frozenset({float, int, bool, np.float64})  # those that are read fast

Row = dict[int, float]


class Field:
    """One field of a side; `kind` is how a schema would say it. Columns are added only to those that `grow`."""

    kind: Any
    grows = True

    def __init__(self, columns: Columns, side: str, name: str) -> None:
        self.columns, self.side, self.name = columns, side, name

    def read(self, path: str, value: Any, row: Row) -> None:
        """Add what a value says to a row; `path` is that of the object it stands in."""
        raise NotImplementedError

    def miss(self, row: Row) -> None:
        """Add to a row what is said by a value that is missing: nothing, unless it is a number."""


class NumberField(Field):
    """A number: its column, and if it may grow another one, which says that it is missing."""

    kind = "number"

    def __init__(self, columns: Columns, side: str, name: str, grows: bool) -> None:
        super().__init__(columns, side, name)
        self.grows = grows
        self.column = columns.of(side, name)

    def read(self, path: str, value: Any, row: Row) -> None:
        if type(value) in NUMBER_TYPES and abs(value) <= MAX_MAGNITUDE:
            row[self.column] = value
            return
        number = read_number(within(path, self.name), value)
        if math.isnan(number):
            self.miss(row)
        else:
            row[self.column] = number

    def miss(self, row: Row) -> None:
        row[self.column] = math.nan
        if self.grows:
            row[self.columns.of(self.side, self.name, None)] = 1.0


class NumbersField(Field):
    """A list of numbers, such as an embedding: a column for each."""

    grows = False

    def __init__(self, columns: Columns, side: str, name: str, size: int) -> None:
        super().__init__(columns, side, name)
        self.kind = {"numbers": size}
        self.places = [columns.of(side, name, j) for j in range(size)]

    def read(self, path: str, value: Any, row: Row) -> None:
        if is_missing(value):
            self.miss(row)
        else:
            numbers = read_vector(within(path, self.name), value, len(self.places))
            row.update(zip(self.places, numbers.tolist(), strict=True))

    def miss(self, row: Row) -> None:
        row.update(dict.fromkeys(self.places, math.nan))


class CategoryField(Field):
    """A text, or a list of texts: a column for each value as they come, up to `MAX_VALUES`; then one for the others."""

    kind: Any = "category"

    def read(self, path: str, value: Any, row: Row) -> None:
        for text in [value] if type(value) is str else _texts(within(path, self.name), value):
            column = self.column_of(path, text)
            row[column] = row.get(column, 0.0) + 1.0

    def column_of(self, path: str, text: str) -> int:
        token = self.side, self.name, text
        known = self.columns.places.get(token)
        if known is not None:
            return known
        if len(self._values()) >= MAX_VALUES:
            return self.columns.of(self.side, self.name, "", "others")
        return self.columns.of(*token)

    def _values(self) -> list[Any]:
        return [token for token in self.columns.places if token[:2] == (self.side, self.name) and len(token) == 3]


class ListedField(CategoryField):
    """A category whose values are known beforehand."""

    grows = False

    def __init__(self, columns: Columns, side: str, name: str, values: list[str]) -> None:
        super().__init__(columns, side, name)
        self.kind = values
        self.places = {value: columns.of(side, name, value) for value in values}

    def column_of(self, path: str, text: str) -> int:
        if text not in self.places:
            must = f"{within(path, self.name)} must be one of {', '.join(self.places)}"
            raise InputError(f"{must}; got {shorten(text)}")
        return self.places[text]


class HashedField(CategoryField):
    """A category whose values are hashed to some columns; those that share one are the same to the model."""

    grows = False

    def __init__(self, columns: Columns, side: str, name: str, size: int) -> None:
        super().__init__(columns, side, name)
        self.kind = {"hashed": size}
        self.places = [columns.of(side, name, j) for j in range(size)]

    def column_of(self, path: str, text: str) -> int:
        return self.places[hash_text(0, f"{self.side}\x1f{self.name}\x1f{text}") % len(self.places)]


def field_of(columns: Columns, side: str, name: str, kind: Any, path: str, grows: bool) -> Field:
    """The field of a kind, as a schema says it."""
    if kind == "number":
        return NumberField(columns, side, name, grows)
    if kind == "category":
        return CategoryField(columns, side, name)
    if isinstance(kind, list) and kind and all(isinstance(value, str) for value in kind):
        if len(set(kind)) == len(kind):
            return ListedField(columns, side, name, kind)
    elif isinstance(kind, dict) and len(kind) == 1:
        ((how, size),) = kind.items()
        if how in ("hashed", "numbers"):
            made = HashedField if how == "hashed" else NumbersField
            return made(columns, side, name, check_count(f"{path}.{how}", size))
    raise InputError(f"{path} must be {KINDS}; got {shorten(kind)}")


def kind_of(path: str, value: Any) -> Any:
    """The kind of a field whose first value this is."""
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "category"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple) and value:
        if all(isinstance(each, str) for each in value):
            return "category"
        if all(is_number(each) or is_missing(each) for each in value):
            return {"numbers": len(value)}
    raise InputError(
        f"{path} must be a number, a text, a truth value, or a list of numbers or texts; got {shorten(value)}"
    )


def _texts(path: str, value: Any) -> list[str]:
    """The texts of a category's value; whole numbers and truth values (1 and 0) are texts here."""
    if is_missing(value):
        return []
    if not isinstance(value, list | tuple):
        return [_text(path, value)]
    return list(dict.fromkeys(_text(f"{path}[{j}]", each) for j, each in enumerate(value)))


def _text(path: str, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if not is_number(value) or float(value) % 1 != 0.0:
        raise InputError(f"{path} must be a text, a truth value or a whole number; got {shorten(value)}")
    return str(int(value))
