"""Uniform: any point of the space, all equally likely. What a tuner learns is worth what it gains over this."""

from dataclasses import dataclass

from syndicated.space import Space
from syndicated.streams import Stream
from syndicated.tuners.base import Tuner, check_space
from syndicated.types import Choice, Params


@dataclass(eq=False)
class Uniform(Tuner):
    """Draws a point of its space afresh for every choice and learns nothing.

    >>> choice = Uniform(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])).choose(Stream(0, 0))
    >>> len(choice.params), choice.probability
    (2, (0.25,))
    """

    space: Space

    def __post_init__(self) -> None:
        check_space(self.space)

    @property
    def points(self) -> tuple[Params, ...]:
        return self.space.points

    def choose(self, rng: Stream) -> Choice:
        i = int(rng.uniforms(1)[0] * len(self.points))
        return Choice(self.points[i], (i,), (1 / len(self.points),))
