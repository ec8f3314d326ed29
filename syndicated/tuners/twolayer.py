"""TwoLayer: one EXP3 over whole points (Algorithm 1 of the paper).

On a space of one axis this is the paper's TL; on several it is TL-Combined, one EXP3 over their product, whose regret,
at most 2 sqrt((e - 1) n T log n), grows with the product n. It is Syndicated with the points as its only axis: one
shared model; a choice costs O(n); needs T, unless another layer takes EXP3's place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syndicated.tuners.syndicated import Syndicated
from syndicated.types import Params


@dataclass(eq=False)
class TwoLayer(Syndicated):
    """One EXP3 over the points of the space.

    >>> from syndicated.space import Space
    >>> tuner = TwoLayer(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0]))
    >>> [p.round(3).tolist() for p in tuner.probabilities()]
    [[0.167, 0.167, 0.167, 0.167, 0.167, 0.167]]
    """

    def axes(self) -> list[Sequence[Params]]:
        return [self.space.points]
