"""What curves are drawn over: decisions or time, and what happened to the model meanwhile."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from syndicated._formatting import number

By = Literal["decisions", "time"]

SECONDS = (1, 2, 5, 10, 15, 30)
DAY = 86400.0
TIME_STEPS = [
    *SECONDS,
    *(60 * k for k in SECONDS),
    *(3600 * k for k in (1, 2, 3, 6, 12)),
    *(DAY * k for k in (1, 2, 7, 14, 28, 91, 182, 364, 728)),
]  # between the ticks of an axis of time


@dataclass(frozen=True)
class Scale:
    """A linear map from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


@dataclass(frozen=True)
class Mark:
    """Something that happened to the model, at a place of the axis."""

    x: float
    kind: str  # a class of the style sheet: kept, load, epoch
    text: str


@dataclass(frozen=True)
class Span:
    """What curves are drawn over: decisions or time, from where to where, and what happened meanwhile."""

    by: By
    low: float
    high: float
    marks: Sequence[Mark] = ()

    def text(self, x: float) -> str:
        """A place in words.

        >>> Span("decisions", 0, 10).text(7.5), Span("time", 0, 10).text(7.5)
        ('decision 7', '1970-01-01 00:00:07 UTC')
        """
        if self.by == "decisions":
            return f"decision {math.floor(x):,}"
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(x))

    def ticks(self) -> list[tuple[float, str]]:
        if self.by == "decisions":
            return [(x, number(x)) for x in ticks(self.low, self.high, 4) if x.is_integer()]
        return time_ticks(self.low, self.high)


def time_ticks(low: float, high: float, most: int = 4) -> list[tuple[float, str]]:
    """Round times for an axis, in UTC.

    >>> time_ticks(0, 7200, 3)
    [(0.0, '00:00'), (3600.0, '01:00'), (7200.0, '02:00')]
    """
    step = next((step for step in TIME_STEPS if step >= (high - low) / most), TIME_STEPS[-1])
    shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < DAY else "%Y-%m-%d"
    places = [k * float(step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(x, time.strftime(shape, time.gmtime(x))) for x in places]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers for an axis.

    >>> ticks(0, 1), ticks(0, 3000, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 1000.0, 2000.0, 3000.0])
    """
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= span / most * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
