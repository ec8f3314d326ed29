"""How time is taken: in short blocks, the sides in turn, so that noise hits all of them equally."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import thread_time

import numpy as np

from syndicated.types import Array

Side = Callable[[], object]


@dataclass(frozen=True, eq=False)
class Row:
    """One line of the table: what a unit of work costs, and its ratio to another, block by block."""

    what: str
    against: str
    seconds: float
    ratios: Array
    at_most: float | None = None
    at_least: float | None = None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, middle, high = np.quantile(self.ratios, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)

    @property
    def bar(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"

    @property
    def holds(self) -> bool:
        ratio = self.quartiles[1]
        return (self.at_most is None or ratio <= self.at_most) and (self.at_least is None or ratio >= self.at_least)


@dataclass(frozen=True)
class Section:
    """Rows that belong together."""

    title: str
    rows: Sequence[Row]


def interleave(sides: Sequence[Side], blocks: int) -> Array:
    """Seconds of this thread's processor time: a row a block, a column a side. Who begins alternates."""
    seconds = np.empty((blocks, len(sides)))
    for block in range(blocks):
        order = range(len(sides)) if block % 2 else reversed(range(len(sides)))
        for side in order:
            seconds[block, side] = seconds_of(sides[side])
    return seconds


def seconds_of(side: Side) -> float:
    begin = thread_time()
    side()
    return thread_time() - begin


def over(call: Callable[..., object], *columns: Iterable[object]) -> Side:
    """A side that makes one call for each row of the columns."""
    calls = list(zip(*columns, strict=True))

    def side() -> None:
        for arguments in calls:
            call(*arguments)

    return side


def ratio(what: str, against: str, mine: Array, other: Array, at_most: float | None = None) -> Row:
    """What one side costs in units of another, from their blocks."""
    return Row(what, against, float(np.median(mine)), mine / other, at_most=at_most)
