"""Corral: log-barrier mirror descent over independent copies of the policy, one for each point.

    draw i from q, play copy i, see loss l = 1 - reward;   L = (l / q_i) e_i
    p <- a step of mirror descent with the log barrier (see _corralling.py);   q = (1 - 1/T) p + 1/(T M)

Only the copy that played learns, from the reward as it came: a reward divided by its probability would ruin a
least-squares fit. Agarwal et al. give all copies a loss divided by its probability, 0 for those that did not play.
Copies are private; one plays in a round, at O(M) more than it costs itself, and all are kept. Their bound is of order
sqrt(M T) + M R, R the regret of the best copy if it tolerates such losses; needs T.

Agarwal, Luo, Neyshabur and Schapire, *Corralling a band of bandit algorithms*, COLT 2017.
"""

from dataclasses import dataclass

from syndicated.streams import Stream
from syndicated.tuners._corralling import Corralling
from syndicated.tuners._draws import drawn
from syndicated.types import Array, Choice


@dataclass(eq=False)
class Corral(Corralling):
    """Corral on the points of the space: the paper's Corral on one axis, Corral-Combined on the product.

    `eta` is the first learning rate, by default sqrt(M/T): the paper does not give its own.

    >>> from syndicated.space import Space
    >>> Corral(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0])).slots
    6
    """

    @property
    def slots(self) -> int:
        return len(self.points)

    def probabilities(self) -> list[Array]:
        return [self.mixed()]

    def choose(self, rng: Stream) -> Choice:
        q = self.mixed()
        i = drawn(q.tolist(), rng.uniforms(1)[0])
        return Choice(self.points[i], (i,), (float(q[i]),), slot=i)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        self.charge(choice.index[0], share * (1.0 - self.rescale(reward)) / choice.probability[0])
