"""StochasticCorral: Corral over smoothed copies of the policy, for worlds whose rewards are stochastic.

    draw i from q and a fair coin:   heads: play copy i, which learns the reward as it came
                                     tails: play what copy i was at a random one of its plays; nothing but q learns
    after the loss l = 1 - reward of either:   a step of Corral's mirror descent with (l / q_i) e_i

So the master sees of every copy the mean of what it has been, which changes little from one play to the next, however
fast the copy itself learns: that is what its bound needs. The paper makes two rounds of a call, first the one, then the
other; a coin gives each as often. The random past is one snapshot a copy, replaced by its n-th state with
probability 1/n: it is uniform over all of them, and costs two copies of the policy a point instead of one a play.

Regret of order c sqrt(M T), c sqrt(T) the regret of the best copy, if the rate eta was chosen for it: 1 / (c sqrt(T));
otherwise c² sqrt(T). Copies are private; needs T.

Pacchiano et al., *Model selection in contextual stochastic bandit problems*, NeurIPS 2020.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from syndicated.streams import Stream
from syndicated.tuners._corralling import Corralling
from syndicated.tuners._draws import coin, drawn
from syndicated.types import Array, Choice, Params

NO_SNAPSHOT = 0


@dataclass(eq=False)
class StochasticCorral(Corralling):
    """Stochastic Corral on the points of the space, each of which is there twice: as it learns, and as it once was.

    `eta` is the first learning rate, by default sqrt(M/T). Which states become snapshots depends on the order of late
    rewards.

    >>> from syndicated.space import Space
    >>> StochasticCorral(Space(alpha=[0.1, 1.0, 10.0])).slots
    6
    """

    plays: Array = field(init=False, repr=False)
    snapshot: int = field(init=False, repr=False)  # the copy to be taken after the last reward, counted from 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.plays, self.snapshot = np.zeros(len(self.p)), NO_SNAPSHOT

    @property
    def points(self) -> tuple[Params, ...]:
        return 2 * self.space.points

    @property
    def slots(self) -> int:
        return len(self.points)

    def frozen(self, slot: int) -> bool:
        return slot >= len(self.p)

    def probabilities(self) -> list[Array]:
        return [np.tile(0.5 * self.mixed(), 2)]

    def choose(self, rng: Stream) -> Choice:
        p = self.probabilities()[0].tolist()
        i = drawn(p, rng.uniforms(1)[0])
        return Choice(self.points[i], (i,), (p[i],), slot=i)

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        i, M = choice.index[0], len(self.p)
        self.charge(i % M, share * (1.0 - self.rescale(reward)) / (2.0 * choice.probability[0]))
        self.snapshot = NO_SNAPSHOT
        if not self.frozen(i):
            self.plays[i] += share
            if coin(abs(reward), float(self.plays.sum())) * (self.plays[i] + 1.0) < share:
                self.snapshot = i + 1

    def replaced(self) -> Mapping[int, int | None]:
        return {} if self.snapshot == NO_SNAPSHOT else {len(self.p) + self.snapshot - 1: self.snapshot - 1}
