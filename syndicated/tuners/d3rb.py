"""D3RB: regret balancing that doubles a point's regret coefficient whenever its rewards refute it.

    play i = argmin phi_j,  phi_j = d_j sqrt(n_j)                      (d_j = dmin at first)
    d_i *= 2  where  U_i/n_i + d_i/sqrt(n_i) + radius(n_i)  <  max_j U_j/n_j - radius(n_j)

n_i counts the plays of point i and U_i sums its rewards. Regret of order d M sqrt(T) + d² sqrt(M T), d the coefficient
that the best point really had: no bound has to be known beforehand. Needs no horizon. Copies are private, one a point,
and cost what one costs, since one plays in a round.

Pacchiano, Dann and Gentile, *Data-driven online model selection with regret guarantees*, AISTATS 2024, algorithm 1.
"""

from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_number
from syndicated.tuners._balancing import Balancing
from syndicated.types import Array


@dataclass(eq=False)
class D3RB(Balancing):
    """Doubling data-driven regret balancing on the points of the space.

    With `shared`, all points play from one model that learns every reward, which no bound covers and which usually
    earns more. `horizon` serves the warm-up only; rewards must be within their range for the bounds to hold.

    >>> from syndicated.space import Space
    >>> from syndicated.types import Choice
    >>> tuner = D3RB(Space(alpha=[0.1, 1.0]))
    >>> for i, reward in [(0, 0.1), (1, 0.9)] * 400:
    ...     tuner.learn(Choice(tuner.points[i], (i,), (1.0,), slot=i), reward)
    >>> tuner.d.tolist()
    [16.0, 1.0]
    """

    dmin: float = 1.0
    d: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("dmin", self.dmin, low=1e-300)
        self.d = np.full(len(self.points), float(self.dmin))

    def potentials(self) -> Array:
        phi: Array = self.d * np.sqrt(np.maximum(self.n, 1.0))
        return phi

    def balance(self, i: int) -> None:
        lower, upper = self.bounds()
        if upper[i] + self.d[i] / np.sqrt(self.n[i]) < lower.max():
            self.d[i] *= 2.0
