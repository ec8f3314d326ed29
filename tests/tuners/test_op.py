"""OP: Beta Thompson sampling over the points."""

import math

import numpy as np
import pytest

from syndicated import OP, Agent, InputError, LinUCB, Space
from syndicated.environments import Linear
from syndicated.streams import TUNER, Stream
from syndicated.types import Array, Choice

SPACE = Space(alpha=[0, 0.01, 0.1, 1, 10])


def learned(history: list[tuple[int, float]], rewards: tuple[float, float] = (0, 1)) -> OP:
    tuner = OP(SPACE, rewards=rewards)
    for i, reward in history:
        tuner.learn(Choice({}, (i,)), reward)
    return tuner


def test_posteriors_start_uniform() -> None:
    tuner = OP(SPACE)
    assert tuner.S.tolist() == tuner.F.tolist() == [1.0] * 5


def test_a_posterior_counts_rewards_and_what_they_lack_to_1() -> None:
    tuner = learned([(1, 1.0), (1, 0.0), (1, 0.25), (3, 0.0), (3, 0.5), (4, 1.0)])
    assert tuner.S.tolist() == [1.0, 2.25, 1.0, 1.5, 2.0]
    assert tuner.F.tolist() == [1.0, 2.75, 1.0, 2.5, 1.0]


def test_an_epochs_share_scales_the_counts() -> None:
    tuner = OP(SPACE)
    for reward in (1.0, 0.0, 0.5, 0.5):
        tuner.learn(Choice({}, (2,)), reward, 0.25)
    assert (tuner.S[2], tuner.F[2]) == (1.5, 1.5)


@pytest.mark.parametrize(("reward", "success"), [(1.7, 1.0), (50.0, 1.0), (-0.3, 0.0), (0.4, 0.4)])
def test_a_reward_outside_the_range_is_clipped_to_it(reward: float, success: float) -> None:
    plain, declared = learned([(0, reward)]), learned([(0, 250 * reward - 50)], rewards=(-50, 200))
    for tuner in (plain, declared):
        assert tuner.S[0] == pytest.approx(1 + success, rel=1e-14)
        assert tuner.F[0] == pytest.approx(2 - success, rel=1e-14)


def frequencies(tuner: OP, n: int) -> Array:
    counts = np.zeros(5)
    for t in range(n):
        counts[tuner.choose(Stream(4, TUNER, t)).index[0]] += 1
    return counts / n


@pytest.mark.parametrize(
    ("S", "F"),
    [
        pytest.param([1.0] * 5, [1.0] * 5, id="uniform"),
        pytest.param([1.0, 3.5, 8.0, 2.0, 6.0], [2.0, 3.0, 9.5, 1.5, 5.0], id="few"),
        pytest.param([300.0, 310.0, 295.0, 120.0, 5.0], [200.0, 195.0, 205.0, 80.0, 9.0], id="many"),
    ],
)
def test_draws_are_those_of_the_largest_beta_sample(S: list[float], F: list[float]) -> None:
    tuner, n, samples = OP(SPACE), 20_000, 200_000
    tuner.S, tuner.F = np.array(S), np.array(F)
    largest = np.argmax(np.random.default_rng(1).beta(S, F, (samples, 5)), axis=1)
    expected = np.bincount(largest, minlength=5) / samples
    spread = np.sqrt(expected * (1 - expected) * (1 / n + 1 / samples))
    assert (abs(frequencies(tuner, n) - expected) < 4 * spread + 1e-4).all()


def test_a_choice_names_its_point_and_states_no_probability() -> None:
    for t in range(20):
        choice = OP(SPACE).choose(Stream(4, TUNER, t))
        assert choice.params == SPACE.points[choice.index[0]]
        assert len(choice.probability) == 1
        assert math.isnan(choice.probability[0])


def test_late_rewards_in_any_order_give_the_same_posteriors() -> None:
    history = [(k % 5, (k % 7) / 8) for k in range(40)]
    forward, backward = learned(history), learned(history[::-1])
    np.testing.assert_array_equal([forward.S, forward.F], [backward.S, backward.F])


def test_an_agent_credits_the_point_it_played() -> None:
    agent = Agent(LinUCB(dim=10), OP(SPACE), seed=2)
    S, F = np.ones(5), np.ones(5)
    for world in Linear(arms=20).rounds(seed=1, horizon=200):
        decision = agent.decide(world.arms)
        assert decision.choice is not None
        reward = world.rewards[decision.arm]
        agent.learn(decision, reward)
        S[decision.choice.index] += min(1, max(0, reward))
        F[decision.choice.index] += 1 - min(1, max(0, reward))
    state = agent.tuner.state()
    assert state["S"].tolist() == pytest.approx(S.tolist(), rel=1e-12)
    assert state["F"].tolist() == pytest.approx(F.tolist(), rel=1e-12)


def test_the_papers_coin_counts_whole_successes_with_the_reward_as_their_probability() -> None:
    tuner, n = OP(SPACE, coin=True), 4000
    for _ in range(n):
        tuner.learn(Choice({}, (2,)), 0.3)
    assert tuner.S[2] + tuner.F[2] == n + 2
    assert tuner.S[2] == int(tuner.S[2])
    assert abs(tuner.S[2] / n - 0.3) < 4.5 * math.sqrt(0.3 * 0.7 / n)


def test_a_coin_that_is_no_flag_is_refused() -> None:
    with pytest.raises(InputError, match="coin must be True or False; got 1"):
        OP(SPACE, coin=1)  # type: ignore[arg-type]
