"""ChampionChallenger: one point plays until another is surely better, as a confidence sequence says.

    play the champion, but with probability eps_t = eps (t + 1)^(-1/3) any point, all equally likely
    every point j that would have played the same arm gets  a_j = (y - 1/2) / q,  q = Σ their probabilities; others 0
    for the champion k:  m_j = mean of a_j - a_k,  v_j its variance over the t rewards
    j becomes champion where  m_j > sqrt(2 (t v_j rho² + 1) / (t² rho²) log(sqrt(t v_j rho² + 1) (n - 1) / alpha))

with rho² = (log(1 - 2 log a) - 2 log a)/1000, a = alpha/(n - 1). The largest such difference wins. The bound holds at
all times together, for many rewards (it is asymptotic), so that looking after every reward costs nothing: while k is
champion, one that is not better is promoted with probability alpha at most. (Half of it: the sequence has two sides.)
One shared model; every point is asked for its arm; O(n²) a reward. No horizon is needed. There is no bound on the
regret, which is at least of order T^(2/3), what the trials cost.

The tests of Vowpal Wabbit's epsilon_decay and automl are of this kind, and so is ChaCha (Wu et al., ICML 2021). The
sequence: Waudby-Smith et al., *Time-uniform central limit theory and asymptotic confidence sequences*, 2021.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from syndicated._validation import check_number
from syndicated.streams import Stream
from syndicated.tuners._draws import drawn
from syndicated.tuners.base import MIN_PROBABILITY, Adaptive, could_share
from syndicated.types import Array, Choice, Params

TIGHTEST_AT = 1000.0  # the sum of variances, t v, that the sequence is tightest for, nearly


@dataclass(eq=False)
class ChampionChallenger(Adaptive):
    """A champion and its challengers on the points of the space, the first of which is the first champion.

    `epsilon` is eps, the share of trials at first; `alpha` is how probable a wrong promotion may be. `horizon` serves
    the warm-up only.

    >>> from syndicated.space import Space
    >>> tuner = ChampionChallenger(Space(boldness=[1, 2]), epsilon=0.5)
    >>> [p.tolist() for p in tuner.probabilities()]
    [[0.75, 0.25]]
    """

    epsilon: float = 1.0
    alpha: float = 0.05
    sums: Array = field(init=False, repr=False)
    squares: Array = field(init=False, repr=False)
    count: float = field(init=False, repr=False)
    champion: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, low=0.0, high=1.0)
        check_number("alpha", self.alpha, low=1e-300, high=1.0)
        n = len(self.points)
        self.sums, self.squares, self.count, self.champion = np.zeros(n), np.zeros((n, n)), 0.0, 0

    def probabilities(self) -> list[Array]:
        trials = self.epsilon * (self.count + 1.0) ** (-1 / 3)
        p = np.full(len(self.points), trials / len(self.points))
        p[self.champion] += 1.0 - trials
        return [p]

    def choose(self, rng: Stream) -> Choice:
        p = tuple(self.probabilities()[0].tolist())
        i = drawn(p, rng.uniforms(1)[0])
        return Choice(self.points[i], (i,), (p[i],), candidate_probabilities=p)

    def rivals(self, choice: Choice) -> Sequence[Params]:
        return self.points

    def could_draw(self, choice: Choice) -> bool:
        drawn_among = choice.agreeing or choice.index
        return could_share(self, choice, super().could_draw) and (
            sum(choice.candidate_probabilities[j] for j in drawn_among) >= MIN_PROBABILITY
        )

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        agreeing = list(choice.agreeing or choice.index)
        credit = (self.rescale(reward) - 0.5) / sum(choice.candidate_probabilities[j] for j in agreeing)
        self.sums[agreeing] += share * credit
        self.squares[np.ix_(agreeing, agreeing)] += share * credit * credit
        self.count += share
        lead = self.lead()
        if lead.max() > 0.0:
            self.champion = int(lead.argmax())

    def lead(self) -> Array:
        """By how much every point is surely better than the champion; the champion itself by 0."""
        k, t = self.champion, self.count
        means = (self.sums - self.sums[k]) / t
        squares = (self.squares.diagonal() + self.squares[k, k] - 2.0 * self.squares[k]) / t
        variances = np.maximum(squares - means * means, 0.0)
        lead: Array = means - radius(t, variances, self.alpha / max(1, len(means) - 1))
        lead[k] = 0.0
        return lead


def radius(t: float, variances: Array, alpha: float) -> Array:
    """Half the width of the confidence sequence for a mean, after t numbers with these variances."""
    rho2 = max(1.0, math.log(1.0 - 2.0 * math.log(alpha)) - 2.0 * math.log(alpha)) / TIGHTEST_AT  # 0 if alpha is 1
    spread = t * variances * rho2 + 1.0
    found: Array = np.sqrt(2.0 * spread / (t * t * rho2) * np.log(np.sqrt(spread) / alpha))
    return found
