"""BanditOverBandit: EXP3 over blocks of rounds, at the end of each of which the policy begins anew.

    a block has H rounds, ceil(sqrt(T)) by default;   draw i from p for the whole block, play it with a new policy
    y = the mean reward of the block;   log w_i += (beta/n) y / p_i,   p as in EXP3 with ceil(T/H) for T

For worlds that change: each candidate is judged by what it earns from nothing, so that one that forgets (`memory`, or a
window) is not judged by what the others have learned. The paper's candidates are windows 1, ..., H; its H has a factor
d^(2/3), and it maps sums to [0, 1] by a bound on their noise, where we use the declared range. One model at a time; a
round costs what the policy costs; needs T. Regret of order d^(2/3) (B + 1)^(1/4) T^(3/4) for a parameter whose changes
add up to B, by a proof with the gap that SW-LinUCB's has: d^(7/8) is proven (Zhao and Zhang 2021).

Cheung, Simchi-Levi and Zhu, *Learning to optimize under non-stationarity*, AISTATS 2019.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_count
from syndicated.streams import Stream
from syndicated.tuners import _exp3
from syndicated.tuners.base import Adaptive
from syndicated.types import Array, Choice

ALMOST_1 = 1.0 - 1e-9  # the sum of a block's shares, as rounding leaves it


@dataclass(eq=False)
class BanditOverBandit(Adaptive):
    """Bandit-over-bandit on the points of the space. A block ends with the H-th reward, whenever it comes.

    >>> from syndicated.space import Space
    >>> BanditOverBandit(Space(memory=[0.9, 0.99, 1.0]), horizon=10_000).period
    100
    """

    block: int | None = None
    logw: Array = field(init=False, repr=False)
    done: float = field(init=False, repr=False)  # the share of the block whose rewards came

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block is not None:
            check_count("block", self.block)
        self.logw, self.done = np.zeros(len(self.points)), 0.0
        self._beta = _exp3.rate(len(self.points), math.ceil(self.horizon / self.period))

    @property
    def period(self) -> int:
        return self.block or math.ceil(math.sqrt(self.horizon))

    def probabilities(self) -> list[Array]:
        return [_exp3.probabilities(self.logw, self._beta)]

    def choose(self, rng: Stream) -> Choice:
        i, p = _exp3.draw(self.logw, self._beta, float(rng.uniforms(1)[0]))
        return Choice(self.points[i], (i,), (p,))

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        gain = self._beta / len(self.logw) * share * self.rescale(reward) / choice.probability[0]
        _exp3.credit(self.logw, choice.index[0], gain)
        self.done = (self.done if self.done < ALMOST_1 else 0.0) + share

    def replaced(self) -> Mapping[int, int | None]:
        return {0: None} if self.done >= ALMOST_1 else {}
