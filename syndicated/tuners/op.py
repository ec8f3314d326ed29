"""OP: Thompson sampling over the points with Beta posteriors.

    draw s_j ~ Beta(S_j, F_j) for every point, play the largest;   y ~ Bernoulli(reward):  S_i += y, F_i += 1 - y

There is no guarantee: the points' rewards drift while the policy learns, and Beta posteriors assume they do not. One
shared model; a choice costs O(n); no horizon is needed.

Bouneffouf and Claeys, *Hyper-parameter tuning for the contextual bandit*, 2020 (OPLINUCB).
"""

import math
from dataclasses import dataclass, field

import numpy as np

from syndicated import _special
from syndicated._validation import check_flag
from syndicated.streams import Stream
from syndicated.tuners._draws import QUADRATURE_QUANTILES, coin, probability_of_largest
from syndicated.tuners.base import Adaptive, could_draw_unstated
from syndicated.types import Array, Choice


@dataclass(eq=False)
class OP(Adaptive):
    """Beta Thompson sampling over the points of the space; a reward outside the range is clipped to it.

    Instead of a coin thrown for each reward, S and F get its expectations y and 1 - y: the same mean with less noise,
    and a late reward needs no coin of its own. Where a choice lasts an epoch, each reward is its share of the epoch's
    mean; sums of rewards would all be clipped to the same success. `horizon` serves the warm-up only. The probability
    of a draw has no closed form: choices state it as NaN, and `probabilities` integrates it numerically.

    With `coin`, the paper's coin is thrown. Its address is the reward and how many came before it, so that the order of
    late rewards then matters.

    >>> from syndicated.space import Space
    >>> tuner = OP(Space(alpha=[0.1, 1.0]))
    >>> tuner.learn(Choice({"alpha": 1.0}, (1,)), 0.75)
    >>> tuner.S.tolist(), tuner.F.tolist()
    ([1.0, 1.75], [1.0, 1.25])
    """

    coin: bool = False
    S: Array = field(init=False, repr=False)
    F: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("coin", self.coin)
        self.S, self.F = np.ones(len(self.points)), np.ones(len(self.points))

    def probabilities(self) -> list[Array]:
        """By quadrature over the quantiles of each point's posterior."""
        x = _special.betaincinv(self.S[:, None], self.F[:, None], QUADRATURE_QUANTILES)
        S, F = self.S[:, None, None], self.F[:, None, None]
        return [probability_of_largest(x, lambda values: _special.betainc(S, F, values))]

    def choose(self, rng: Stream) -> Choice:
        samples = _special.betaincinv(self.S, self.F, rng.uniforms(len(self.points)))
        i = int(np.argmax(samples))
        return Choice(self.points[i], (i,), (math.nan,))

    def could_draw(self, choice: Choice) -> bool:
        return could_draw_unstated(choice, super().could_draw)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        y = min(1.0, max(0.0, self.rescale(reward)))
        if self.coin:
            y = float(coin(y, float(self.S.sum() + self.F.sum())) < y)
        self.S[choice.index[0]] += share * y
        self.F[choice.index[0]] += share * (1.0 - y)
