"""Two things that every picture of a run over time needs: fewer rounds, and probabilities by hyper-parameter."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syndicated.types import Array, Ints, Params


def evenly_spaced(first: int, last: int, most: int) -> Ints:
    """At most `most` of the whole numbers from `first` to `last`, evenly spaced, both ends included.

    >>> evenly_spaced(0, 9, most=4).tolist(), evenly_spaced(1, 3, most=4).tolist()
    ([0, 3, 6, 9], [1, 2, 3])
    """
    return np.unique(np.linspace(first, last, min(last - first + 1, most)).round().astype(int))


@dataclass(frozen=True, eq=False)
class Marginal:
    """The probabilities of the values of one hyper-parameter, a column for each value, in increasing order."""

    name: str
    values: list[float]
    p: Array


def marginals(axis: Sequence[Params], p: Array) -> list[Marginal]:
    """The marginals of the probabilities `p` (rounds, candidates) of an axis, by hyper-parameter.

    A candidate may set several hyper-parameters. Those with a single value are left out: there is nothing to choose.

    >>> pair, = marginals([{"a": 2.0, "b": 0.0}, {"a": 1.0, "b": 0.0}], np.array([[0.25, 0.75]]))
    >>> pair.name, pair.values, pair.p.tolist()
    ('a', [1.0, 2.0], [[0.75, 0.25]])
    """
    found = []
    for name in axis[0]:
        values = sorted({point[name] for point in axis})
        belongs = np.array([[point[name] == value for value in values] for point in axis], dtype=float)
        if len(values) > 1:
            found.append(Marginal(name, values, p @ belongs))
    return found
