"""What the tuners that corral copies of a policy share: log-barrier mirror descent over M of them.

q = (1 - 1/T) p + 1/(T M);   after the loss l of copy i, which was drawn with probability q_i:   L = (l / q_i) e_i
p <- the p' with 1/p'_j = 1/p_j + eta_j (L_j - nu), nu such that Σ p' = 1
where 1/q_j has passed rho_j:  rho_j = 2/q_j,  eta_j grows by the factor e^(1/log T)
"""

import math
from dataclasses import dataclass, field

import numpy as np

from syndicated._compiled import compiled
from syndicated._validation import check_number
from syndicated.tuners.base import Adaptive
from syndicated.types import Array


@dataclass(eq=False)
class Corralling(Adaptive):
    """The master over M copies: its probabilities, rates and thresholds."""

    eta: float | None = None
    p: Array = field(init=False, repr=False)
    etas: Array = field(init=False, repr=False)
    rho: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        M = len(self.space.points)
        eta = math.sqrt(M / self.horizon) if self.eta is None else check_number("eta", self.eta, low=1e-300)
        self.p, self.etas, self.rho = np.full(M, 1 / M), np.full(M, eta), np.full(M, 2.0 * M)
        self._growth = math.exp(1 / math.log(max(self.horizon, 3)))

    def mixed(self) -> Array:
        """q, what is drawn from."""
        gamma = 1 / self.horizon
        return (1 - gamma) * self.p + gamma / len(self.p)

    def charge(self, i: int, loss: float) -> None:
        """A step of mirror descent after copy i had a loss, which is already divided by its probability."""
        self.p = log_barrier_step(self.p, self.etas, i, loss)
        q = self.mixed()
        passed = 1 / q > self.rho
        self.rho[passed] = 2 / q[passed]
        self.etas[passed] *= self._growth


@compiled("f8[::1](f8[::1], f8[::1], i8, f8)")
def log_barrier_step(p: Array, etas: Array, played: int, loss: float) -> Array:
    """p' with 1/p'_j = 1/p_j + eta_j (L_j - nu) and Σ p' = 1, where L is `loss` at `played` and 0 elsewhere.

    Σ p' rises with nu and is 1 between the least and the largest L: bisection, to the last bit and from below, where
    every 1/p' is positive.
    """
    low, high = min(0.0, loss), max(0.0, loss)
    nu = 0.5 * (low + high)
    while nu not in (low, high):
        total = 0.0
        for j in range(len(p)):
            inverse = 1.0 / p[j] + etas[j] * ((loss if j == played else 0.0) - nu)
            total += 1.0 / inverse if inverse > 0.0 else np.inf
        if total < 1.0:
            low = nu
        else:
            high = nu
        nu = 0.5 * (low + high)
    out = 1.0 / (1.0 / p - etas * low)
    out[played] = 1.0 / (1.0 / p[played] + etas[played] * (loss - low))
    return out / np.sum(out)
