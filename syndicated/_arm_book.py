"""The book of arms: which arm has which model of a policy that keeps one for each.

An arm gets a number with its first reward, so that proposing changes nothing. Numbers of retired arms are given again.
"""

from typing import Any

import numpy as np

from syndicated._validation import shorten
from syndicated.errors import StateError
from syndicated.types import ArmId, Ints

NO_MODEL = -1  # the number of an arm that has had no reward


class ArmBook:
    """The numbers of arms by their ids.

    >>> book = ArmBook()
    >>> book.give("tea"), book.give("coffee"), book.find(("coffee", "milk")).tolist()
    (0, 1, [1, -1])
    >>> book.retire("tea"), book.give("milk")
    (0, 0)
    """

    def __init__(self) -> None:
        self.numbers: dict[ArmId, int] = {}
        self.free: list[int] = []
        self._asked: tuple[ArmId, ...] | None = None  # the ids that were asked for last, until the book changes
        self._found: Ints = np.empty(0, dtype=np.int64)

    def find(self, ids: tuple[ArmId, ...]) -> Ints:
        """The number of each arm."""
        if ids is not self._asked and ids != self._asked:
            numbers = self.numbers
            self._found = np.array([numbers.get(id_, NO_MODEL) for id_ in ids], dtype=np.int64)
            self._asked = ids
        return self._found

    def give(self, id_: ArmId) -> int:
        """The number of an arm that has a reward; a free one, if this is its first."""
        number = self.numbers.get(id_)
        if number is None:
            number = self.free.pop() if self.free else len(self.numbers)
            self.numbers[id_] = number
            self._asked = None
        return number

    def retire(self, id_: ArmId) -> int | None:
        """Strike an arm out, and say which number it had."""
        number = self.numbers.pop(id_, None)
        if number is not None:
            self.free.append(number)
            self._asked = None
        return number

    def as_dict(self) -> dict[str, Any]:
        """The book as it stands in a state."""
        return {"ids": list(self.numbers), "numbers": list(self.numbers.values()), "free": list(self.free)}

    @classmethod
    def from_dict(cls, given: Any) -> "ArmBook":
        """The book that `as_dict` gave."""
        book = cls()
        try:
            ids, numbers, free = given["ids"], given["numbers"], given["free"]
            book.numbers, book.free = dict(zip(ids, numbers, strict=True)), list(free)
            right = len(book.numbers) == len(ids) and all(type(id_) in (str, int) for id_ in ids)
            right = right and all(type(number) is int for number in [*numbers, *free])
            right = right and sorted([*numbers, *free]) == list(range(len(numbers) + len(free)))
        except (KeyError, TypeError, ValueError):
            right = False
        if not right:
            raise StateError(f"the arms of a state must be ids with different numbers; got {shorten(given)}")
        return book
