"""Theory, the empty tuner: every hyper-parameter at its theoretical value (the paper's Theoretical-Explore)."""

from dataclasses import dataclass
from typing import ClassVar

from syndicated.streams import Stream
from syndicated.tuners.base import Tuner
from syndicated.types import Choice


@dataclass(eq=False)
class Theory(Tuner):
    """Chooses nothing, so that theory fills in everything.

    >>> Theory().choose(Stream(0, 0)).params
    {}
    """

    draws: ClassVar[bool] = False

    def choose(self, rng: Stream) -> Choice:
        return Choice({})
