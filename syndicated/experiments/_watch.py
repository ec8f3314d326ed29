"""What is recorded while an agent plays: its tuner's probabilities, and the parts of its regret.

The paper splits the regret into three parts: the cost of the random arms of the warm-up (Quantity C), what the tuner
lost against its best candidate on the same history (Quantity B), and what that candidate itself lost (Quantity A). The
best candidate is the one that would have lost least over the run. To save time, what every candidate would have played
is computed only in every `SAMPLING_STEP`-th round, and counted that many times.
"""

import numpy as np

from syndicated.agent import Agent
from syndicated.environments import Round
from syndicated.types import Array, Ints

SAMPLING_STEP = 4


class Watch:
    """Called before every round of a run. After the run it has the probabilities (`trace`) and the parts (`split`)."""

    def __init__(self, agent: Agent, horizon: int, kept: Ints) -> None:
        self.agent, self.trace = agent, [np.zeros((len(kept), len(axis))) for axis in agent.tuner.axes()]
        self._places = {int(t) - 1: place for place, t in enumerate(kept)}
        self._losses = np.zeros((len(agent.tuner.points), -(-horizon // SAMPLING_STEP)))

    def __call__(self, t: int, world: Round) -> None:
        if t in self._places:
            for axis, p in zip(self.trace, self.agent.tuner.probabilities(), strict=True):
                axis[self._places[t]] = p
        if t % SAMPLING_STEP == 0 and len(self._losses) > 1 and t >= self.agent.player.warmup:
            arms = self.agent.player.arms_of_points(world.arms, self.agent.round)
            self._losses[:, t // SAMPLING_STEP] = world.regrets(arms)

    def split(self, regret: Array) -> tuple[Array, Array]:
        """The cumulative parts of the regret that are due to warm-up and to tuning; the rest is due to learning."""
        warmup, tuning = np.zeros(len(regret)), np.zeros(len(regret))
        warmup[: self.agent.player.warmup] = regret[: self.agent.player.warmup]
        if len(self._losses) > 1:
            best = self._losses[self._losses.sum(axis=1).argmin()]
            tuning[::SAMPLING_STEP] = SAMPLING_STEP * (regret[::SAMPLING_STEP] - best)
            tuning[: self.agent.player.warmup] = 0.0
        return np.cumsum(warmup), np.cumsum(tuning)
