"""Fixed: the same hyper-parameters at every round."""

from dataclasses import dataclass
from typing import ClassVar

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.tuners.base import Tuner, check_space
from syndicated.types import Choice, Params


@dataclass(eq=False)
class Fixed(Tuner):
    """Plays the one point of its space; theory fills in what the space leaves out.

    >>> Fixed(Space(alpha=[0.5])).choose(Stream(0, 0)).params
    {'alpha': 0.5}
    """

    space: Space
    draws: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_space(self.space)
        if len(self.space.points) != 1:
            raise InputError(f"Fixed takes one value for each hyper-parameter; got {shorten(self.space)}")

    @property
    def points(self) -> tuple[Params, ...]:
        return self.space.points

    def choose(self, rng: Stream) -> Choice:
        return Choice(self.points[0])
