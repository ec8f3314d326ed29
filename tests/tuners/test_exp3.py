"""EXP3 of the top layer: Algorithms 1 and 2 against plain loops with weights."""

import math

import numpy as np
import pytest

from syndicated import SGDTS, Agent, LinTS, LinUCB, Space, Syndicated, TwoLayer
from syndicated._compiled import compiled
from syndicated.environments import Environment, Linear, Logistic
from syndicated.policies import Policy
from syndicated.streams import TUNER, Stream
from syndicated.tuners._exp3 import credit, draw, probabilities, rate
from syndicated.types import Array, Choice

SPACE = Space(alpha=[0, 0.01, 0.1, 1, 10], lam=[0.01, 0.1, 1])
HORIZON = 500


def plain_p(weights: list[float], beta: float) -> list[float]:
    """Line 5 of Algorithm 1."""
    return [beta / len(weights) + (1 - beta) * w / sum(weights) for w in weights]


def plain_update(weights: list[float], beta: float, drawn: int, reward: float) -> None:
    """Lines 8 and 9 of Algorithm 1: the reward over its probability, 0 for all that were not drawn."""
    p = plain_p(weights, beta)
    for j in range(len(weights)):
        estimate = reward / p[j] if j == drawn else 0.0
        weights[j] *= math.exp(beta / len(weights) * estimate)


def played(tuner: Syndicated, rounds: int, seed: int = 1) -> list[tuple[Choice, float]]:
    """Choices and the rewards that the tuner learned for them at once."""
    history = []
    rewards = np.random.default_rng(seed).uniform(size=rounds)
    for t in range(rounds):
        choice = tuner.choose(Stream(seed, TUNER, t))
        tuner.learn(choice, rewards[t] * (1 + choice.index[0]) / 5)
        history.append((choice, rewards[t] * (1 + choice.index[0]) / 5))
    return history


@pytest.mark.parametrize(("n", "beta"), [(3, 0.01385), (5, 0.02164), (15, 0.04862), (100, 0.1637)])
def test_beta_at_ten_thousand_rounds(n: int, beta: float) -> None:
    assert float(f"{rate(n, 10_000):.4g}") == beta


def test_beta_is_the_square_root_and_at_most_1() -> None:
    assert rate(7, 999) == pytest.approx(math.sqrt(7 * math.log(7) / ((math.e - 1) * 999)), rel=1e-15)
    assert rate(50, 10) == 1.0


def test_beta_is_0_for_a_single_candidate_which_is_always_drawn() -> None:
    assert rate(1, 10_000) == 0.0
    tuner = Syndicated(Space(alpha=[0.5], lam=[0.1, 1.0]))
    for choice, _ in played(tuner, 50):
        assert choice.index[0] == 0
        assert choice.probability[0] == 1.0
    assert tuner.logw[0] == 0.0


@pytest.mark.parametrize("make", [TwoLayer, Syndicated])
def test_p_j_and_the_importance_weighted_update_are_those_of_plain_weights(make: type[Syndicated]) -> None:
    tuner = make(SPACE, horizon=HORIZON)
    sizes = [15] if make is TwoLayer else [5, 3]
    weights = [[1.0] * n for n in sizes]
    betas = [math.sqrt(n * math.log(n) / ((math.e - 1) * HORIZON)) for n in sizes]
    rewards = np.random.default_rng(3).uniform(size=HORIZON)
    for t in range(HORIZON):
        choice = tuner.choose(Stream(2, TUNER, t))
        reward = float(rewards[t]) if choice.index[0] == 2 else 0.2
        for axis in range(len(sizes)):
            p = plain_p(weights[axis], betas[axis])
            np.testing.assert_allclose(tuner.probabilities()[axis], p, rtol=1e-10)
            assert choice.probability[axis] == pytest.approx(p[choice.index[axis]], rel=1e-10)
            plain_update(weights[axis], betas[axis], choice.index[axis], reward)
        tuner.learn(choice, reward)
    assert tuner.probabilities()[0][2] > 2 / sizes[0]


def test_a_choice_names_the_point_that_was_drawn() -> None:
    for choice, _ in played(Syndicated(SPACE), 50):
        a, b = choice.index
        assert choice.params == {"alpha": SPACE.axes["alpha"][a], "lam": SPACE.axes["lam"][b]}
    for choice, _ in played(TwoLayer(SPACE), 50):
        assert choice.params == SPACE.points[choice.index[0]]


@pytest.mark.parametrize("make", [TwoLayer, Syndicated])
def test_stated_probabilities_equal_the_frequencies_of_draws(make: type[Syndicated]) -> None:
    tuner, n = make(SPACE, horizon=HORIZON), 20_000
    played(tuner, 2 * HORIZON)
    stated = tuner.probabilities()
    counts = [np.zeros(len(p)) for p in stated]
    for t in range(n):
        choice = tuner.choose(Stream(8, TUNER, t))
        for axis, i in enumerate(choice.index):
            counts[axis][i] += 1
            assert math.isclose(choice.probability[axis], stated[axis][i], rel_tol=1e-12)
    for p, count in zip(stated, counts, strict=True):
        assert p.sum() == pytest.approx(1.0, rel=1e-14)
        assert p.max() > 1.5 * p.min()
        assert (abs(count / n - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


def test_the_axes_of_syndicated_are_drawn_independently() -> None:
    tuner, n = Syndicated(SPACE, horizon=HORIZON), 20_000
    counts = np.zeros((5, 3))
    for t in range(n):
        counts[tuner.choose(Stream(9, TUNER, t)).index] += 1
    p = np.outer(*tuner.probabilities())
    assert (abs(counts / n - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


@compiled("void(f8[::1], f8, f8[::1], f8[::1], f8[::1], f8[::1])")
def _long_run(logw: Array, beta: float, uniforms: Array, rewards: Array, drawn: Array, gains: Array) -> None:
    n = len(logw)
    for t in range(len(uniforms)):
        i, p = draw(logw, beta, uniforms[t])
        gains[t] = beta / n * rewards[t] / p
        drawn[t] = i
        credit(logw, i, gains[t])


def test_ten_million_rounds_neither_overflow_nor_lose_precision() -> None:
    n, rounds, parts = 5, 10**7, 10
    random = np.random.default_rng(4)
    logw, beta = np.zeros(n), rate(n, rounds)
    sums: list[list[float]] = [[] for _ in range(n)]
    for _ in range(parts):
        uniforms, rewards = random.uniform(size=(2, rounds // parts))
        drawn, gains = np.empty((2, rounds // parts))
        _long_run(logw, beta, uniforms, 1 - 0.1 * rewards, drawn, gains)
        for j in range(n):
            sums[j].append(math.fsum(gains[drawn == j].tolist()))
    exact = [math.fsum(parts) for parts in sums]
    assert max(exact) > math.log(np.finfo(np.float64).max)
    weights = [math.exp(gain - max(exact)) for gain in exact]
    np.testing.assert_allclose(probabilities(logw, beta), plain_p(weights, beta), rtol=1e-11)


def test_weights_far_apart_neither_overflow_nor_vanish_below_beta_over_n() -> None:
    tuner = TwoLayer(SPACE.only("alpha"))
    for _ in range(1000):
        tuner.learn(Choice({}, (2,), (0.001,)), 1.0)
    beta = rate(5, 10_000)
    expected = [beta / 5, beta / 5, 1 - beta + beta / 5, beta / 5, beta / 5]
    np.testing.assert_allclose(tuner.probabilities()[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("policy", "world", "axis"),
    [
        pytest.param(LinUCB(dim=10), Linear(arms=20), "alpha", id="LinUCB"),
        pytest.param(LinTS(dim=10), Linear(arms=20), "lam", id="LinTS"),
        pytest.param(SGDTS(dim=10, tau=20), Logistic(arms=20), "eta0", id="SGDTS"),
    ],
)
def test_syndicated_on_one_axis_is_twolayer_to_the_bit(policy: Policy, world: Environment, axis: str) -> None:
    space = Space(**{axis: [0.01, 0.1, 1, 10]})
    agents = [Agent(policy, make(space, horizon=600), seed=3) for make in (Syndicated, TwoLayer)]
    for round_ in world.rounds(seed=1, horizon=600):
        first, second = (agent.decide(round_.arms) for agent in agents)
        assert (first.arm, first.params, first.choice) == (second.arm, second.params, second.choice)
        assert first.propensity == second.propensity
        for agent, decision in zip(agents, (first, second), strict=True):
            agent.learn(decision, round_.rewards[decision.arm])
        logw = [agent.tuner.state()["logw"] for agent in agents]
        np.testing.assert_array_equal(logw[0], logw[1])
    assert len(np.unique(agents[0].tuner.state()["logw"])) == 4


@pytest.mark.parametrize("make", [TwoLayer, Syndicated])
def test_an_epochs_rewards_by_shares_are_one_reward_of_their_mean(make: type[Syndicated]) -> None:
    tau, rewards = 100, np.random.default_rng(5).uniform(size=(30, 100))
    shared, whole = make(SPACE, horizon=99), make(SPACE, horizon=99)
    for t, epoch in enumerate(rewards):
        choice = whole.choose(Stream(2, TUNER, t))
        whole.learn(choice, float(epoch.mean()))
        for reward in epoch:
            shared.learn(choice, float(reward), 1 / tau)
        np.testing.assert_allclose(shared.logw, whole.logw, rtol=0, atol=1e-12)
    assert np.ptp(whole.logw) > 0.1


@pytest.mark.parametrize("make", [TwoLayer, Syndicated])
def test_late_rewards_in_any_order_give_the_weights_of_prompt_ones(make: type[Syndicated]) -> None:
    prompt, late = make(SPACE, horizon=HORIZON), make(SPACE, horizon=HORIZON)
    history = played(prompt, HORIZON)
    for k in np.random.default_rng(6).permutation(HORIZON):
        late.learn(*history[k])
    np.testing.assert_allclose(late.logw, prompt.logw, rtol=0, atol=1e-11)
    assert np.ptp(prompt.logw) > 0.1


def test_the_largest_log_weight_of_each_axis_is_0() -> None:
    tuner = Syndicated(SPACE, horizon=HORIZON)
    played(tuner, HORIZON)
    assert tuner.logw[:5].max() == tuner.logw[5:].max() == 0.0


def gain(tuner: Syndicated, reward: float) -> float:
    """What one reward adds to the log weight of the first of two candidates, relative to the second."""
    fresh = tuner.fresh()
    fresh.learn(Choice({}, (0,), (0.5,)), reward)
    return float(fresh.logw[0] - fresh.logw[1])


def test_a_reward_outside_the_declared_range_is_extrapolated_linearly() -> None:
    tuner = TwoLayer(Space(alpha=[0, 1]), horizon=100)
    unit = rate(2, 100) / 2 / 0.5
    for reward in (-3.0, -0.25, 0.0, 0.5, 1.0, 1.75, 40.0):
        assert gain(tuner, reward) == pytest.approx(unit * reward, rel=1e-14)


def test_a_declared_range_is_rescaled_to_0_1() -> None:
    declared = TwoLayer(Space(alpha=[0, 1]), horizon=100, rewards=(-50, 200))
    plain = TwoLayer(Space(alpha=[0, 1]), horizon=100)
    for reward in (-300.0, -50.0, 0.0, 75.0, 200.0, 210.0):
        assert gain(declared, reward) == pytest.approx(gain(plain, (reward + 50) / 250), rel=1e-14)


def test_rescaled_rewards_give_the_same_decisions() -> None:
    plain, declared = (TwoLayer(SPACE, horizon=HORIZON, rewards=range_) for range_ in ((0, 1), (-50, 200)))
    rewards = np.random.default_rng(7).uniform(size=HORIZON)
    for t in range(HORIZON):
        choices = [tuner.choose(Stream(2, TUNER, t)) for tuner in (plain, declared)]
        assert choices[0].index == choices[1].index
        plain.learn(choices[0], float(rewards[t]))
        declared.learn(choices[1], float(250 * rewards[t] - 50))
    np.testing.assert_allclose(plain.logw, declared.logw, rtol=0, atol=1e-11)
