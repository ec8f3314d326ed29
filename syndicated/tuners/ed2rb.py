"""ED2RB: regret balancing with regret coefficients that are estimated from the rewards.

    play i = argmin phi_j                                              (phi_j = dmin at first)
    d_i   = max(dmin, sqrt(n_i) (max_j [U_j/n_j - radius(n_j)] - U_i/n_i - radius(n_i)))
    phi_i = d_i sqrt(n_i), but neither less than before nor more than twice that

n_i counts the plays of point i and U_i sums its rewards. Regret of order d M sqrt(T) + d² sqrt(M T), d the coefficient
that the best point really had. Needs no horizon. Copies are private, one a point, and cost what one costs, since one
plays in a round.

Pacchiano, Dann and Gentile, *Data-driven online model selection with regret guarantees*, AISTATS 2024, algorithm 2.
"""

from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_number
from syndicated.tuners._balancing import Balancing
from syndicated.types import Array


@dataclass(eq=False)
class ED2RB(Balancing):
    """Estimating data-driven regret balancing on the points of the space.

    With `shared`, all points play from one model that learns every reward, which no bound covers and which usually
    earns more. `horizon` serves the warm-up only; rewards must be within their range for the bounds to hold.

    >>> from syndicated.space import Space
    >>> ED2RB(Space(alpha=[0.1, 1.0]), shared=True).slots
    1
    """

    dmin: float = 1.0
    phi: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("dmin", self.dmin, low=1e-300)
        self.phi = np.full(len(self.points), float(self.dmin))

    def potentials(self) -> Array:
        return self.phi

    def balance(self, i: int) -> None:
        lower, upper = self.bounds()
        d = max(self.dmin, np.sqrt(self.n[i]) * (lower.max() - upper[i]))
        self.phi[i] = np.clip(d * np.sqrt(self.n[i]), self.phi[i], 2.0 * self.phi[i])
