"""The paper's Table 1, LinUCB rows, to the last printed digit, by the order of random numbers of the authors."""

import math

import numpy as np
import pytest

from syndicated import Agent, Fixed, LinUCB, Space, Theory
from syndicated.tuners import Tuner

DIM, ARMS, HORIZON, NOISE = 5, 100, 10_000, 0.5
SEEDS = range(1, 6)

pytestmark = pytest.mark.no_cover  # two hundred thousand rounds: nothing new is covered, and tracing doubles their time


def regret(seed: int, fixed: bool, tuner: Tuner) -> float:
    """The regret of a run whose theta, features and noise come off one legacy stream, in this order."""
    random = np.random.RandomState(seed)
    bound = 1 / math.sqrt(DIM)
    theta = random.uniform(-bound, bound, DIM)
    features = random.uniform(-bound, bound, (1 if fixed else HORIZON, ARMS, DIM))
    agent = Agent(LinUCB(dim=DIM, intercept=False, sigma=NOISE), tuner)
    total = 0.0
    for t in range(HORIZON):
        X = features[0 if fixed else t]
        means = (X @ theta + 1) / 2
        decision = agent.decide(X)
        agent.learn(decision, random.normal(means[decision.arm], NOISE))
        total += means.max() - means[decision.arm]
    return total


def alpha(value: float) -> Tuner:
    return Fixed(Space(alpha=[value]))


@pytest.mark.parametrize(
    ("fixed", "tuner", "printed", "by_seed"),
    [
        pytest.param(True, alpha(4.0), "357.21 (188.72)", [706.6, 392.6, 187.7, 287.1, 212.0], id="fixed-4.0"),
        pytest.param(True, Theory(), "364.99 (151.54)", None, id="fixed-theory"),
        pytest.param(False, alpha(1.5), "312.69 (42.53)", [290.0, 289.2, 351.2, 373.4, 259.6], id="changing-1.5"),
        pytest.param(False, Theory(), "582.59 (523.60)", None, id="changing-theory"),
    ],
)
def test_linucb_gives_the_number_that_table_1_prints(
    fixed: bool, tuner: Tuner, printed: str, by_seed: list[float] | None
) -> None:
    regrets = [regret(seed, fixed, tuner) for seed in SEEDS]
    assert f"{np.mean(regrets):.2f} ({np.std(regrets):.2f})" == printed
    assert by_seed is None or np.round(regrets, 1).tolist() == by_seed
