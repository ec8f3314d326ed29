"""SGD-TS against plain loops written from its formula."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from syndicated import SGDTS, Agent, Consensus, Fixed, InputError, Space, TwoLayer
from syndicated.environments import Logistic
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Params

TAU, DIM, EPOCHS = 25, 3, 8
ETAS = [0.1, 10.0, 1.0, 0.01, 10.0, 1.0, 10.0, 0.1]
GREEDY: Params = {"eta0": 1.0, "alpha1": 0.0, "alpha2": 0.0}


def data(seed: int = 1) -> tuple[Array, Array]:
    """The rounds of a warm-up and EPOCHS epochs."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, ((EPOCHS + 1) * TAU, DIM))
    return X, (random.uniform(size=len(X)) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5]))).astype(np.float64)


def fit(X: Array, y: Array) -> Array:
    """The maximum-likelihood fit of the warm-up."""

    def loss(theta: Array) -> float:
        return float(np.sum(np.logaddexp(0, X @ theta) - y * (X @ theta)))

    return np.asarray(minimize(loss, np.zeros(DIM), method="BFGS", options={"gtol": 1e-7}).x)


def step(theta: Array, start: Array, rate: float, X: Array, y: Array) -> Array:
    """One step of gradient descent over an epoch, projected onto the ball of radius 2 around the start."""
    total = np.zeros(DIM)
    for x, reward in zip(X, y, strict=True):
        total += x * (1 / (1 + math.exp(-sum(x * theta))) - reward)
    moved = theta - rate * total
    length = math.sqrt(sum((moved - start) ** 2))
    return moved if length <= 2 else start + 2 * (moved - start) / length


def plain_means(X: Array, y: Array) -> tuple[list[Array], int]:
    """mean_j for every epoch j = 1, 2, ..., and how many steps ended on the edge of the ball."""
    start = fit(X[:TAU], y[:TAU])
    thetas, edges = [start], 0
    for j in range(2, EPOCHS + 1):
        epoch = slice((j - 1) * TAU, j * TAU)
        thetas.append(step(thetas[-1], start, ETAS[j - 1] / j, X[epoch], y[epoch]))
        edges += math.isclose(np.linalg.norm(thetas[-1] - start), 2)
    return [sum(thetas[:j], np.zeros(DIM)) / j for j in range(1, EPOCHS + 1)], edges


def learn(policy: SGDTS, X: Array, y: Array, eta0: float) -> None:
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), {"eta0": eta0})


def after(epochs: int) -> SGDTS:
    """A policy that has finished the warm-up and this many epochs."""
    policy, (X, y) = SGDTS(dim=DIM, intercept=False, tau=TAU), data()
    learn(policy, X[: (epochs + 1) * TAU], y[: (epochs + 1) * TAU], 1.0)
    return policy


def expected_theta(policy: SGDTS, point: Params) -> Array:
    return np.asarray(policy.scores(np.eye(DIM), [point], Stream(0, POLICY))[0])


@pytest.mark.parametrize(("horizon", "dim", "tau"), [(10_000, 10, 100), (10_000, 20, 200), (10_000, 5, 90), (3, 1, 10)])
def test_tau_is_ten_times_the_floor_of_the_larger_of_log_T_and_d(horizon: int, dim: int, tau: int) -> None:
    policy = SGDTS(dim=dim, horizon=horizon)
    assert policy.period == policy.warmup == tau


def test_tau_can_be_given() -> None:
    assert SGDTS(dim=10, tau=7).period == SGDTS(dim=10, tau=7).warmup == 7


def test_epochs_are_projected_gradient_steps_and_play_their_average() -> None:
    X, y = data()
    means, edges = plain_means(X, y)
    assert 0 < edges < EPOCHS - 1
    policy = SGDTS(dim=DIM, intercept=False, tau=TAU)
    learn(policy, X[:TAU], y[:TAU], 1.0)
    for j, (eta0, mean) in enumerate(zip(ETAS, means, strict=True), start=1):
        point = {**GREEDY, "eta0": eta0}
        np.testing.assert_allclose(expected_theta(policy, point), mean, atol=1e-5)
        learn(policy, X[j * TAU : j * TAU + 5], y[j * TAU : j * TAU + 5], eta0)
        np.testing.assert_allclose(expected_theta(policy, point), mean, atol=1e-5)
        np.testing.assert_allclose(policy.predict(X[:9], point), 1 / (1 + np.exp(-X[:9] @ mean)), atol=1e-5)
        learn(policy, X[j * TAU + 5 : (j + 1) * TAU], y[j * TAU + 5 : (j + 1) * TAU], eta0)


def test_the_first_step_is_zero_whatever_eta0() -> None:
    policy = after(0)
    for eta0 in (0.01, 1.0, 100.0):
        np.testing.assert_array_equal(expected_theta(policy, {**GREEDY, "eta0": eta0}), policy.start)


def test_within_an_epoch_eta0_no_longer_matters() -> None:
    policy, (X, y) = after(2), data()
    before = [expected_theta(policy, {**GREEDY, "eta0": eta0}) for eta0 in (0.1, 5.0)]
    assert not np.allclose(before[0], before[1])
    policy.learn(X[0], float(y[0]), {"eta0": 5.0})
    within = [expected_theta(policy, {**GREEDY, "eta0": eta0}) for eta0 in (0.1, 5.0)]
    np.testing.assert_array_equal(within, [before[1], before[1]])


def test_the_first_fit_exists_for_a_separable_warm_up_and_for_one_class() -> None:
    X = data()[0][:TAU]
    for y in ((X[:, 0] > 0).astype(np.float64), np.ones(TAU), np.zeros(TAU)):
        policy = SGDTS(dim=DIM, intercept=False, tau=TAU)
        learn(policy, X, y, 1.0)
        gradient = (expit(X @ policy.start) - y) @ X + 1e-6 * policy.start
        assert abs(gradient).max() <= 1.001e-6


def test_g1_and_g2_are_the_theoretical_rates() -> None:
    policy = SGDTS(dim=4, intercept=False, horizon=5_000, sigma=0.3, tau=50)
    for t in (50, 99, 100, 149, 150, 4_999):
        j = t // 50
        g1 = 0.3 * math.sqrt(4 / 2 * math.log(1 + 2 * j * 50 / 4) + 2 * math.log(5_000))
        g2 = 50 / 0.1 * math.sqrt(1 + math.log(j))
        expected = {"eta0": 0.1, "alpha1": g1, "alpha2": g2}
        assert policy.theory(t, {"eta0": 0.1}) == pytest.approx(expected, rel=1e-14)


def test_theory_takes_eta0_as_1_and_keeps_what_is_given() -> None:
    policy = SGDTS(dim=4, tau=50)
    assert policy.theory(500, {})["eta0"] == 1.0
    assert policy.theory(500, {"alpha1": 0.5, "alpha2": 2.0}) == {"eta0": 1.0, "alpha1": 0.5, "alpha2": 2.0}


@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_the_draw_is_the_mean_plus_the_spread_of_epoch_j_times_the_streams_normals(epochs: int) -> None:
    policy, arms = after(epochs), data(2)[0][:6]
    scores = policy.scores(arms, [{"eta0": 0.5, "alpha1": 0.3, "alpha2": 2.0}], Stream(3, POLICY, 8))[0]
    mean = expected_theta(policy, {**GREEDY, "eta0": 0.5})
    spread = math.sqrt((2 * 0.3**2 + 2 * 2.0**2) / (epochs + 1))
    np.testing.assert_allclose(scores, arms @ (mean + spread * Stream(3, POLICY, 8).normals(DIM)), rtol=1e-12)


def test_swapping_alpha1_and_alpha2_changes_nothing() -> None:
    policy, arms = after(3), data(2)[0]
    points = [{"eta0": 1.0, "alpha1": a, "alpha2": b} for a, b in ((0.3, 2.0), (2.0, 0.3), (2.0, 2.0))]
    scores = policy.scores(arms, points, Stream(3, POLICY, 8))
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.allclose(scores[0], scores[2])


def test_one_draw_serves_a_whole_epoch() -> None:
    X = data(2)[0]
    agent = Agent(SGDTS(dim=DIM, tau=TAU), Fixed(Space(alpha1=[3.0], alpha2=[3.0])), seed=5)
    arms = []
    for t in range((EPOCHS + 1) * TAU):
        decision = agent.decide(X)
        arms.append(decision.arm)
        agent.learn(decision, float(t % 2))
    epochs = [set(arms[start : start + TAU]) for start in range(TAU, len(arms), TAU)]
    assert len(set(arms[:TAU])) > 1
    assert all(len(epoch) == 1 for epoch in epochs)
    assert len(set.union(*epochs)) > 1


def test_one_choice_serves_a_whole_epoch_and_is_credited_with_its_mean_reward() -> None:
    space = Space(eta0=[0.01, 0.1, 1, 10])
    agent, by_epoch = Agent(SGDTS(dim=10, tau=20), TwoLayer(space, horizon=50), seed=5), TwoLayer(space, horizon=50)
    choices, rewards = [], []
    for world in Logistic(arms=5).rounds(seed=1, horizon=400):
        decision = agent.decide(world.arms)
        choices.append(decision.choice)
        rewards.append(float(world.rewards[decision.arm]))
        agent.learn(decision, rewards[-1])
    for start in range(20, 400, 20):
        choice = choices[start]
        assert choice is not None
        assert choices[start : start + 20] == [choice] * 20
        by_epoch.learn(choice, float(np.mean(rewards[start : start + 20])))
    assert len({choice.index for choice in choices if choice is not None}) == 4
    assert agent.tuner.state()["logw"].tolist() == pytest.approx(by_epoch.logw.tolist(), rel=1e-12)


@pytest.mark.parametrize("extra", [0, 1, 13])
def test_scoring_and_predicting_change_nothing(extra: int) -> None:
    policy, (X, y) = after(3), data(2)
    learn(policy, X[:extra], y[:extra], 1.0)
    before = policy.state()
    for eta0 in (0.1, 10.0):
        policy.scores(X, [{"eta0": eta0, "alpha1": 1.0, "alpha2": 1.0}], Stream(3, POLICY, 8))
        policy.predict(X, {"eta0": eta0})
    for name, array in policy.state().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_short_start_is_a_penalised_fit_and_epochs_follow_it() -> None:
    X, y = data()
    short, plain = SGDTS(dim=DIM, intercept=False, tau=TAU, random_rounds=5), SGDTS(dim=DIM, intercept=False, tau=TAU)
    assert (short.warmup, short.period) == (5, TAU)
    learn(short, X[:5], y[:5], 1.0)
    slope = X[:5].T @ (1 / (1 + np.exp(-X[:5] @ short.start)) - y[:5]) + short.start
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)  # the gradient of the fit with penalty 1
    learn(short, X[5 : 5 + TAU], y[5 : 5 + TAU], 1.0)
    assert short.epoch == 2
    learn(plain, X[:TAU], y[:TAU], 1.0)
    assert plain.epoch == 1


def test_a_start_that_takes_most_of_the_run_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="SGDTS plays 5,000 random rounds of a horizon of 10,000; give it"):
        Agent(SGDTS(dim=500))
    Agent(SGDTS(dim=500, tau=50))
    Agent(SGDTS(dim=500, random_rounds=500))


def test_more_random_rounds_than_an_epoch_has_are_refused() -> None:
    with pytest.raises(InputError, match="random_rounds must be at most tau, 7; got 8"):
        SGDTS(dim=2, tau=7, random_rounds=8)


def test_with_no_tuner_the_advised_point_is_played_and_earns_more_than_choosing() -> None:
    policy, regrets = SGDTS(dim=5, horizon=2000), {}
    assert policy.advised == {"boldness": 0.25, "stride": 10.0}
    for name, tuner in (("advised", None), ("chosen", Consensus(policy.space))):
        total = 0.0
        for seed in (7101, 7102, 7103):
            agent = Agent(policy, tuner, seed=seed)
            for each in Logistic(dim=5, arms=20).rounds(seed, 2000):
                decision = agent.decide(each.arms)
                agent.learn(decision, each.reward(decision))
                total += each.regret(decision)
        regrets[name] = total
    assert regrets["advised"] < regrets["chosen"]


@pytest.mark.parametrize("by_number", [False, True])
def test_one_point_is_played_by_one_call_as_by_its_scores(by_number: bool) -> None:
    random = np.random.default_rng(5)
    rows, (X, y) = random.uniform(-1, 1, (40, DIM)), data()
    policy, point = SGDTS(dim=DIM, intercept=False, tau=TAU), {"eta0": 0.5, "alpha1": 0.3, "alpha2": 0.1}
    policy.prepare([point], rows if by_number else None)
    for t in range(len(X)):
        # Few arms of a catalogue are looked up one by one, many by reading all of it.
        numbers = random.permutation(40)[: 2 if t % 2 else 30]
        arms = numbers if by_number else rows[numbers]
        scores = policy.scores(arms, [point], Stream(1, POLICY, t))
        assert policy.best(arms, (point,), t, Stream(1, POLICY, t)) == [int(scores[0].argmax())]
        policy.learn(X[t], float(y[t]), point)
