"""RegretBalancing: points are played so that their regret bounds stay equal; those that break theirs are eliminated.

    play i = argmin over the active of R_i(n_i),  R_i(n) = C_i sqrt(n)
    eliminate i where  U_i/n_i + R_i(n_i)/n_i + radius(n_i)  <  max_j U_j/n_j - radius(n_j)

n_i counts the plays of point i and U_i sums its rewards. Regret of order (C*² + M) sqrt(T) up to logarithms, C* the
constant of the best point whose bound holds. Needs no horizon. Copies are private, one a point, and cost what one
costs, since one plays in a round.

Pacchiano, Dann, Gentile and Bartlett, *Regret bound balancing and elimination for model selection in bandits and RL*,
2020; Abbasi-Yadkori, Pacchiano and Phan, *Regret balancing for bandit and RL model selection*, 2020.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from syndicated._validation import check_number, shorten
from syndicated.errors import InputError
from syndicated.tuners._balancing import Balancing
from syndicated.types import Array


@dataclass(eq=False)
class RegretBalancing(Balancing):
    """Regret balancing with elimination on the points of the space.

    `constants` are C of every point, or one for all. With `shared`, all points play from one model that learns
    every reward, which no bound covers and which usually earns more. `horizon` serves the warm-up only; rewards must be
    within their range for the bounds to hold.

    >>> from syndicated.space import Space
    >>> RegretBalancing(Space(alpha=[0.1, 1.0])).slots
    2
    """

    constants: tuple[float, ...] = (1.0,)
    active: npt.NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        M = len(self.points)
        if not isinstance(self.constants, (tuple, list)) or len(self.constants) not in (1, M):
            raise InputError(f"constants must be one number, or {M}, one a point; got {shorten(self.constants)}")
        for each in self.constants:
            check_number("a constant of a regret bound", each, low=1e-300)
        self._constants = np.broadcast_to(np.array(self.constants, dtype=np.float64), M)
        self.active = np.ones(M, dtype=np.bool_)

    def potentials(self) -> Array:
        R: Array = self._constants * np.sqrt(self.n)
        return np.where(self.active, R, np.inf)

    def balance(self, i: int) -> None:
        lower, upper = self.bounds()
        with np.errstate(divide="ignore"):
            broken = upper + self._constants / np.sqrt(self.n) < lower.max()
        self.active &= ~broken
