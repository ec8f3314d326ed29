"""Regret balancing: three tuners against plain loops."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from syndicated import D3RB, ED2RB, Agent, InputError, LinUCB, RegretBalancing, Space
from syndicated.environments import Linear
from syndicated.streams import NOISE, TUNER, Stream
from syndicated.tuners._balancing import Balancing

M, C, DELTA = 3, 0.3, 0.05
SPACE = Space(alpha=[0.1, 1.0, 10.0])


class Plain:
    """Counts and sums in lists; `play` and `learn` of each algorithm in its own words."""

    def __init__(self) -> None:
        self.n, self.u = [0] * M, [0.0] * M
        self.d, self.phi, self.active = [1.0] * M, [1.0] * M, [True] * M

    def radius(self, i: int) -> float:
        return C * math.sqrt(math.log(M * max(1.0, math.log(self.n[i])) / DELTA) / self.n[i])

    def best_lower(self) -> float:
        return max(self.u[j] / self.n[j] - self.radius(j) for j in range(M) if self.n[j])

    def count(self, i: int, reward: float) -> float:
        self.n[i] += 1
        self.u[i] += reward
        return self.u[i] / self.n[i] + self.radius(i)


class PlainElimination(Plain):
    constants = (0.5, 1.0, 2.0)

    def play(self) -> int:
        return min((j for j in range(M) if self.active[j]), key=lambda j: self.constants[j] * math.sqrt(self.n[j]))

    def learn(self, i: int, reward: float) -> None:
        self.count(i, reward)
        for j in range(M):
            if self.n[j]:
                upper = self.u[j] / self.n[j] + self.radius(j) + self.constants[j] * math.sqrt(self.n[j]) / self.n[j]
                self.active[j] = self.active[j] and upper >= self.best_lower()


class PlainDoubling(Plain):
    def play(self) -> int:
        return min(range(M), key=lambda j: self.phi[j])

    def learn(self, i: int, reward: float) -> None:
        if self.count(i, reward) + self.d[i] * math.sqrt(self.n[i]) / self.n[i] < self.best_lower():
            self.d[i] *= 2
        self.phi[i] = self.d[i] * math.sqrt(self.n[i])


class PlainEstimating(PlainDoubling):
    def learn(self, i: int, reward: float) -> None:
        upper = self.count(i, reward)
        d = max(1.0, math.sqrt(self.n[i]) * (self.best_lower() - upper))
        self.phi[i] = min(max(d * math.sqrt(self.n[i]), self.phi[i]), 2 * self.phi[i])


FAMILY: list[tuple[Callable[..., Balancing], Callable[[], Any]]] = [
    (lambda space, **more: RegretBalancing(space, constants=PlainElimination.constants, **more), PlainElimination),
    (D3RB, PlainDoubling),
    (ED2RB, PlainEstimating),
]


@pytest.mark.parametrize(("make", "plain"), FAMILY, ids=["RegretBalancing", "D3RB", "ED2RB"])
def test_a_tuner_plays_what_its_plain_loop_plays(make: Callable[..., Balancing], plain: Callable[[], Any]) -> None:
    tuner, loop = make(SPACE, c=C, delta=DELTA, rewards=(-1, 3)), plain()
    plays = np.zeros(M)
    for t in range(3000):
        i = loop.play()
        choice = tuner.choose(Stream(1, TUNER, t))
        assert (choice.index, choice.slot, choice.probability) == ((i,), i, (1.0,))
        y = (0.2, 0.9, 0.5)[i] + 0.1 * (Stream(1, NOISE, t).uniforms(1)[0] - 0.5)
        loop.learn(i, y)
        tuner.learn(choice, 4 * y - 1)
        plays[i] += 1
    assert plays.argmax() == 1
    assert plays[1] > 2000


def test_eliminated_points_stay_out_and_doubled_ones_come_back_now_and_then() -> None:
    gone, doubled = RegretBalancing(SPACE, c=C), D3RB(SPACE, c=C)
    for tuner in (gone, doubled):
        for t in range(2000):
            choice = tuner.choose(Stream(1, TUNER, t))
            tuner.learn(choice, float(choice.index[0] == 1))
    assert gone.active.tolist() == [False, True, False]
    assert doubled.d[0] > doubled.d[1] == 1.0
    before = doubled.n[0]
    for t in range(2000):
        choice = doubled.choose(Stream(1, TUNER, t))
        doubled.learn(choice, float(choice.index[0] == 1))
    assert doubled.n[0] > before


def test_a_shared_model_learns_every_reward() -> None:
    world = Linear(dim=3, arms=5)
    private, shared = (Agent(LinUCB(dim=3), D3RB(SPACE, shared=each), seed=1) for each in (False, True))
    for agent in (private, shared):
        for round_ in world.rounds(seed=1, horizon=30):
            decision = agent.decide(round_.arms)
            agent.learn(decision, round_.rewards[decision.arm])
    assert (len(private.player.policies), len(shared.player.policies)) == (3, 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"constants": (1.0, 2.0)}, r"constants must be one number, or 3, one a point; got \(1.0, 2.0\)"),
        ({"constants": (0.0,)}, "a constant of a regret bound must be"),
        ({"delta": 2.0}, "delta must be"),
        ({"shared": 1}, "shared must be True or False; got 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RegretBalancing(SPACE, **wrong)
