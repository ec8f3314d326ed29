"""Columns by what they stand for: a number, a value of a category, a product of two columns."""

from typing import Any

from syndicated._validation import shorten
from syndicated.errors import InputError

MAX_COLUMNS = 10_000  # of a table; the linear policies keep the square of it

Token = tuple[str | int | None, ...]  # side, field, and within the field; or "product" and two columns


class Columns:
    """Columns in the order in which they were first asked for."""

    def __init__(self) -> None:
        self.places: dict[Token, int] = {}

    def __len__(self) -> int:
        return len(self.places)

    def of(self, *token: str | int | None) -> int:
        """The place of a column, a new one if need be."""
        place = self.places.get(token)
        if place is None:
            check_width(len(self.places) + 1)
            place = self.places[token] = len(self.places)
        return place

    def has(self, *token: str | int | None) -> bool:
        return token in self.places

    def as_list(self) -> list[list[Any]]:
        """The columns as they stand in a state."""
        return [list(token) for token in self.places]

    def restore(self, given: Any) -> None:
        """Take the columns that `as_list` gave; they are the caller's to check."""
        self.places = {tuple(token): place for place, token in enumerate(given)}


def check_width(columns: int) -> int:
    if columns > MAX_COLUMNS:
        raise InputError(f"features must have at most {MAX_COLUMNS} columns; got {shorten(columns)}")
    return columns
