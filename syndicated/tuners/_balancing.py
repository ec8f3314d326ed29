"""What the tuners that balance regret share: counts, sums, and bounds on the mean reward of every point.

radius(n) = c sqrt(log(M log(n) / delta) / n),  where log(n) is at least 1
"""

from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_flag, check_number
from syndicated.streams import Stream
from syndicated.tuners.base import Adaptive
from syndicated.types import Array, Choice


@dataclass(eq=False)
class Balancing(Adaptive):
    """Plays the point with the least potential: what regret its plays may have cost, by its own estimate."""

    c: float = 1.0
    delta: float = 0.01
    shared: bool = False
    n: Array = field(init=False, repr=False)
    U: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("c", self.c, low=0.0)
        check_number("delta", self.delta, low=1e-300, high=1.0)
        check_flag("shared", self.shared)
        self.n, self.U = np.zeros(len(self.points)), np.zeros(len(self.points))

    @property
    def slots(self) -> int:
        return 1 if self.shared else len(self.points)

    def potentials(self) -> Array:
        """What is balanced: the point with the least plays."""
        raise NotImplementedError

    def probabilities(self) -> list[Array]:
        p = np.zeros(len(self.points))
        p[np.argmin(self.potentials())] = 1.0
        return [p]

    def choose(self, rng: Stream) -> Choice:
        i = int(np.argmin(self.potentials()))
        return Choice(self.points[i], (i,), (1.0,), slot=0 if self.shared else i)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        i = choice.index[0]
        self.n[i] += share
        self.U[i] += share * self.rescale(reward)
        self.balance(i)

    def balance(self, i: int) -> None:
        """Estimate again what regret point i has, after a reward of its own."""
        raise NotImplementedError

    def bounds(self) -> tuple[Array, Array]:
        """A lower and an upper bound on the mean reward of every point; infinite for one that was not played."""
        n = np.where(self.n > 0.0, self.n, np.inf)
        mean = self.U / n
        logs = np.maximum(1.0, np.log(np.maximum(self.n, 1.0)))
        radius = self.c * np.sqrt(np.log(len(n) * logs / self.delta) / n)
        radius[self.n == 0.0] = np.inf
        return mean - radius, mean + radius
