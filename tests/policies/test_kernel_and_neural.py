"""Gaussian processes and networks: the formulas of IGP-UCB, GP-TS, NeuralUCB and NeuralTS in plain loops."""

import math
import tracemalloc

import numpy as np
import pytest

from syndicated import GPTS, IGPUCB, InputError, NeuralTS, NeuralUCB
from syndicated._models.network import Network, Settings, evaluate
from syndicated.policies import Policy
from syndicated.policies._neural_policy import NeuralPolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array

KERNEL_POINT = {"alpha": 0.7, "lam": 0.5, "lengthscale": 0.8}
SMALL = Settings(lam=0.5, eta=4.0, steps=5, width=3, depth=3)
NEURAL_POINT = {"alpha": 0.7, **{name: float(value) for name, value in SMALL._asdict().items()}}


def data(n: int = 12) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    return random.uniform(-1, 1, (n, 2)), random.uniform(0, 1, n)


def taught(policy: Policy, n: int = 12) -> None:
    for x, reward in zip(*data(n), strict=True):
        policy.learn(x, float(reward), {})


def k(x: Array, z: Array) -> float:
    return math.exp(-sum((x - z) ** 2) / (2 * 0.8**2))


def posterior(X: Array, y: Array, arms: Array) -> tuple[Array, Array]:
    """The means and covariances of arms, from the level."""
    inverse = np.linalg.inv(np.array([[k(x, z) for z in X] for x in X]) + 0.5 * np.eye(len(X)))
    across = np.array([[k(x, arm) for x in X] for arm in arms])
    prior = np.array([[k(arm, other) for other in arms] for arm in arms])
    return across @ inverse @ (y - y.mean()), prior - across @ inverse @ across.T


@pytest.mark.parametrize("cap", [300, 8])
def test_igp_ucb_is_mean_plus_alpha_deviations_of_the_posterior(cap: int) -> None:
    policy, arms = IGPUCB(dim=2, cap=cap), np.random.default_rng(2).uniform(-1, 1, (5, 2))
    taught(policy)
    X, y = data()
    mean, covariance = posterior(X[-cap:], y[-cap:], arms)
    scores = policy.scores(arms, [KERNEL_POINT], Stream(0, POLICY))[0]
    np.testing.assert_allclose(scores, mean + 0.7 * np.sqrt(np.diag(covariance)), rtol=1e-9)
    np.testing.assert_allclose(policy.predict(arms, KERNEL_POINT), mean + y[-cap:].mean(), rtol=1e-9)
    assert policy.expected(scores[0]) == pytest.approx(scores[0] + y[-cap:].mean())


def test_gp_ts_draws_all_arms_jointly() -> None:
    policy, arms = GPTS(dim=2), np.random.default_rng(2).uniform(-1, 1, (4, 2))
    taught(policy)
    mean, covariance = posterior(*data(), arms)
    draws = np.array([policy.scores(arms, [KERNEL_POINT], Stream(3, POLICY, t))[0] for t in range(4000)])
    variances = 0.49 * np.diag(covariance)
    spread = np.sqrt((np.outer(variances, variances) + (0.49 * covariance) ** 2) / 4000)
    assert (abs(draws.mean(axis=0) - mean) < 4.5 * np.sqrt(variances / 4000)).all()
    assert (abs(np.cov(draws.T) - 0.49 * covariance) < 4.5 * spread + 1e-6).all()
    assert np.isnan(policy.scores(np.array([[np.inf, 0.0]]), [KERNEL_POINT], Stream(3, POLICY))).all()


@pytest.mark.parametrize(("make", "doubt"), [(IGPUCB, 1.0), (GPTS, 2.0)])
def test_the_theoretical_alpha_follows_the_information(make: type[IGPUCB], doubt: float) -> None:
    policy, (X, _) = make(dim=2, B=2.0, sigma=0.3, delta=0.05), data()
    taught(policy)
    K = np.array([[k(x, z) for z in X] for x in X])
    information = 0.5 * math.log(np.linalg.det(np.eye(12) + K / 0.5))
    expected = 2 + 0.3 * math.sqrt(2 * (information + 1 + math.log(doubt / 0.05)))
    assert policy.theory(12, {"lam": 0.5, "lengthscale": 0.8})["alpha"] == pytest.approx(expected)
    assert policy.theory(12, {})["lam"] == 1 + 2 / 10_000


def test_natural_units_of_a_gaussian_process() -> None:
    policy, (X, y) = IGPUCB(dim=2), data()
    assert policy.theory(0, {"boldness": 2.0, "reach": 0.5, "lam": 1.0}) == {"alpha": 2, "lengthscale": 0.5, "lam": 1}
    taught(policy)
    distance = math.sqrt(np.mean([sum((x - z) ** 2) for x in X for z in X]))
    assert policy.theory(0, {"reach": 0.5})["lengthscale"] == pytest.approx(0.5 * distance)
    K = np.array([[k(x, z) for z in X] for x in X]) + 0.5 * np.eye(12)
    amplitude = math.sqrt((y - y.mean()) @ np.linalg.solve(K, y - y.mean()) / 12)
    found = policy.theory(0, {"boldness": 2.0, "lam": 0.5, "lengthscale": 0.8})["alpha"]
    assert found == pytest.approx(2 * amplitude)


def plain_output(layers: list[Array], x: Array) -> float:
    h = np.concatenate([x, x]) / math.sqrt(2)
    for W in layers[:-1]:
        h = np.array([max(0.0, float(row @ h)) for row in W])
    return math.sqrt(6) * float(layers[-1][0] @ h)


def test_a_network_starts_at_0_and_its_gradients_are_those_of_differences() -> None:
    network, X = Network(SMALL, 2), data(4)[0]
    np.testing.assert_allclose(network.evaluate(X)[0], 0.0, atol=1e-12)
    random = np.random.default_rng(3)
    weights = network.first + 0.3 * random.normal(size=len(network.first))
    f, g = evaluate(network._layers(weights), X)
    for n, x in enumerate(X):
        assert f[n] == pytest.approx(plain_output(network._layers(weights), x))
        for i in range(len(weights)):
            shifted = weights.copy()
            shifted[i] += 1e-6
            rise = (plain_output(network._layers(shifted), x) - f[n]) / 1e-6
            assert g[n, i] == pytest.approx(rise, abs=1e-4)


def test_the_first_weights_have_equal_blocks_and_opposite_ends() -> None:
    first, second, last = Network(SMALL, 2)._layers(SMALL.start(2))
    for W, half in ((first, 2), (second, 3)):
        np.testing.assert_array_equal(W[:3, :half], W[3:, half:])
        assert not W[:3, half:].any()
    np.testing.assert_array_equal(last[0, :3], -last[0, 3:])
    wide = Settings(1.0, 1.0, 1, 200, 2)
    inner, outer = Network(wide, 50)._layers(wide.start(50))
    assert inner[:200, :50].std() == pytest.approx(math.sqrt(4 / 400), rel=0.05)
    assert outer[0, :200].std() == pytest.approx(math.sqrt(2 / 400), rel=0.2)


def test_training_is_gradient_descent_from_the_start_with_halved_steps() -> None:
    X, y = data()
    network, m = Network(SMALL, 2), 6
    network.train(X, y)
    target, weights = y - y.mean(), network.first.copy()

    def loss(w: Array) -> float:
        f = [plain_output(network._layers(w), x) for x in X]
        return float(0.5 * sum((f - target) ** 2) + m * 0.5 / 2 * sum((w - network.first) ** 2))

    f, g = evaluate(network._layers(weights), X)
    step = 4.0 / (sum(sum(row**2) for row in g) + m * 0.5)
    for _ in range(5):
        f, g = evaluate(network._layers(weights), X)
        gradient = sum((f[n] - target[n]) * g[n] for n in range(len(y))) + m * 0.5 * (weights - network.first)
        if loss(weights - step * gradient) <= loss(weights):
            weights = weights - step * gradient
        else:
            step /= 2
    np.testing.assert_allclose(network.weights, weights, rtol=1e-9, atol=1e-12)
    assert loss(weights) < loss(network.first)


def test_training_has_one_array_of_gradients_at_a_time() -> None:
    """They take memory by every weight at every row."""
    rng, network = np.random.default_rng(4), Network(Settings(1.0, 8.0, 4, 8, 3), 20)
    X, y = rng.normal(size=(2000, 20)), rng.normal(size=2000)
    network.train(X[:10], y[:10])  # what is imported and made once
    tracemalloc.start()
    network.train(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * X.itemsize * len(X) * len(network.first)


@pytest.mark.parametrize("make", [NeuralUCB, NeuralTS])
def test_neural_scores_are_output_and_width_of_the_gradients(make: type[NeuralPolicy]) -> None:
    policy, (X, y) = make(dim=2, intercept=False), data()
    taught(policy)
    twin, Z = Network(SMALL, 2), np.full(len(SMALL.start(2)), 0.5)
    due = 1
    for n in range(12):
        Z += twin.evaluate(X[n : n + 1])[1][0] ** 2 / 6
        if n + 1 == due:
            twin.train(X[: n + 1], y[: n + 1])
            due = max(n + 2, math.ceil(1.3 * (n + 1)))
    f, g = twin.evaluate(X[:3])
    widths = np.array([math.sqrt(sum(row**2 / Z) / 6) for row in g])
    if make is NeuralTS:
        z = np.empty(3)
        z[np.lexsort(X[:3].T)] = Stream(3, POLICY, 5).normals(3)
        widths = math.sqrt(0.5) * widths * z
    scores = policy.scores(X[:3], [NEURAL_POINT], Stream(3, POLICY, 5))[0]
    np.testing.assert_allclose(scores, f + 0.7 * widths, rtol=1e-9, atol=1e-12)


def test_boldness_of_a_network_counts_the_rewards_standard_deviations() -> None:
    policy = NeuralUCB(dim=2)
    assert policy.theory(0, {"boldness": 2.0})["alpha"] == 2.0
    taught(policy)
    assert policy.theory(0, {"boldness": 2.0})["alpha"] == pytest.approx(2 * np.std(data()[1]))


def test_widths_depths_and_steps_are_whole() -> None:
    for name in ("steps", "width", "depth"):
        with pytest.raises(InputError, match=rf"{name} must be a whole number; got 1\.5"):
            NeuralUCB(dim=2).check({name: 1.5})
