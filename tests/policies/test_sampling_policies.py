"""Policies that draw an arm by its predicted reward, and RegCB: their probabilities and formulas in plain loops."""

import math

import numpy as np
import pytest

from syndicated import EpsilonGreedy, LinUCB, RegCB, SquareCB
from syndicated._models import arm_draws
from syndicated._models.arm_draws import order_of, preferred
from syndicated._models.scaled_ridge import ScaledRidge
from syndicated.policies import Policy, epsilongreedy, squarecb
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Ints, Params

DRAWS = 4000


def data(n: int = 30) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    return random.uniform(-1, 1, (n, 3)), random.uniform(0, 1, n)


def taught(policy: RidgePolicy) -> RidgePolicy:
    for x, reward in zip(*data(), strict=True):
        policy.learn(x, float(reward), {})
    return policy


def frequencies(policy: Policy, arms: Array, point: Params) -> Array:
    played = [int(policy.scores(arms, [point], Stream(5, POLICY, t))[0].argmax()) for t in range(DRAWS)]
    return np.bincount(played, minlength=len(arms)) / DRAWS


def close(found: Array, expected: Array) -> bool:
    return bool((abs(found - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / DRAWS) + 1e-12).all())


@pytest.mark.no_cover
def test_epsilon_greedy_plays_any_arm_with_probability_epsilon() -> None:
    policy, arms = taught(EpsilonGreedy(dim=3)), data(5)[0]
    best = int(policy.predict(arms, {"lam": 1.0}).argmax())
    expected = np.full(5, 0.3 / 5)
    expected[best] += 0.7
    assert close(frequencies(policy, arms, {"epsilon": 0.3, "lam": 1.0}), expected)
    assert frequencies(policy, arms, {"epsilon": 0.0, "lam": 1.0})[best] == 1


@pytest.mark.no_cover
def test_squarecb_draws_by_the_inverse_of_the_gaps() -> None:
    policy, arms, alpha = taught(SquareCB(dim=3)), data(6)[0], 0.5
    means = policy.predict(arms, {"lam": 1.0})
    best, gamma = int(means.argmax()), math.sqrt(6 * 31) / alpha
    expected = np.array([0.0 if a == best else 1 / (6 + gamma * (means[best] - means[a])) for a in range(6)])
    expected[best] = 1 - expected.sum()
    assert close(frequencies(policy, arms, {"alpha": alpha, "lam": 1.0}), expected)
    assert frequencies(policy, arms, {"alpha": 0.0, "lam": 1.0})[best] == 1


@pytest.mark.parametrize("make", [EpsilonGreedy, SquareCB])
def test_the_best_arm_is_the_one_that_is_predicted_to_be_best_also_by_effects_of_rows(make: type[RidgePolicy]) -> None:
    random, policy = np.random.default_rng(0), make(dim=2)
    arms, values, point = random.normal(size=(12, 2)), 3 * random.normal(size=12), {"boldness": 0.0}
    policy.prepare([point])
    for place in random.integers(12, size=400):
        policy.learn(arms[place], float(values[place] + 0.1 * random.normal()), {})
    assert isinstance(policy.model, ScaledRidge)
    assert policy.model.own_variance > 0
    params = policy.theory(400, point)
    best = int(policy.predict(arms, params).argmax())
    assert best == int(values.argmax())
    assert int(policy.scores(arms, [params], Stream(5, POLICY))[0].argmax()) == best


@pytest.mark.parametrize("make", [EpsilonGreedy, SquareCB])
def test_the_arm_that_is_drawn_does_not_depend_on_the_order(make: type[RidgePolicy]) -> None:
    policy, arms = taught(make(dim=3)), data(7)[0]
    point = {"epsilon": 1.0, "alpha": 9.0, "lam": 1.0}
    for t in range(20):
        one, other = (policy.scores(X, [point], Stream(5, POLICY, t))[0] for X in (arms, arms[::-1].copy()))
        np.testing.assert_array_equal(one, other[::-1])


def test_a_preferred_arm_is_above_all_others_at_any_level() -> None:
    for level in (0.0, 1e17, -1e17):
        scores = preferred(level + np.array([0.0, 64.0, 32.0]), 2)
        assert scores.argmax() == 2
    assert preferred(np.array([1.0, 2.0]), 1).tolist() == [1.0, 2.0]


def test_the_theoretical_epsilon_falls_with_the_third_root_of_t() -> None:
    assert EpsilonGreedy(dim=3).theory(26, {})["epsilon"] == pytest.approx(1 / 3)
    assert EpsilonGreedy(dim=3).theory(26, {"epsilon": 0.2, "lam": 3.0})["epsilon"] == 0.2


def test_regcb_finds_what_the_search_over_weights_of_a_fake_observation_finds() -> None:
    X, y = data()
    policy, lam, beta = RegCB(dim=3, intercept=False), 0.5, 0.8
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), {})

    def fit(arm: Array, weight: float) -> Array:
        """The regressor after a fake observation of the arm with a large reward."""
        V = lam * np.eye(3) + X.T @ X + weight * np.outer(arm, arm)
        return np.asarray(np.linalg.solve(V, X.T @ y + weight * 10 * arm))

    def loss(theta: Array) -> float:
        return float(np.sum((y - X @ theta) ** 2) + lam * theta @ theta)

    scores = policy.scores(X[:4], [{"beta": beta, "lam": lam}], Stream(0, POLICY))[0]
    for arm, score in zip(X[:4], scores, strict=True):
        low, high, least = 0.0, 100.0, loss(fit(arm, 0.0))
        for _ in range(100):
            weight = (low + high) / 2
            low, high = (weight, high) if loss(fit(arm, weight)) - least <= beta else (low, weight)
        assert score == pytest.approx(arm @ fit(arm, low), rel=1e-6)


def test_regcb_is_linucb_with_the_root_of_beta() -> None:
    regcb, linucb, arms = taught(RegCB(dim=3)), taught(LinUCB(dim=3)), data(5)[0]
    for t in (0, 50):
        beta, alpha = regcb.theory(t, {"lam": 2.0})["beta"], linucb.theory(t, {"lam": 2.0})["alpha"]
        assert beta == pytest.approx(alpha**2)
    one = regcb.scores(arms, [{"beta": 0.49, "lam": 2.0}], Stream(0, POLICY))
    np.testing.assert_allclose(one, linucb.scores(arms, [{"alpha": 0.7, "lam": 2.0}], Stream(0, POLICY)), rtol=1e-12)


@pytest.mark.parametrize("values", [2, 3, 1_000_000])
def test_arms_are_in_the_order_of_all_their_features(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_draws, "FEW_CELLS", 0)
    for seed in range(20):
        size = 1 + seed % 7, 1 + 3 * seed
        columns = np.random.default_rng(seed).integers(values, size=size).astype(np.float64) - 1.0
        columns[-1] = 1.0  # an intercept
        np.testing.assert_array_equal(order_of(columns), np.lexsort(columns))


@pytest.mark.parametrize("make", [EpsilonGreedy, SquareCB])
def test_arms_are_sorted_once_for_all_candidates(
    make: type[EpsilonGreedy | SquareCB], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Array] = []

    def counted(columns: Array) -> Ints:
        seen.append(columns)
        return order_of(columns)

    for module in (epsilongreedy, squarecb):
        monkeypatch.setattr(module, "order_of", counted)
    policy = make(dim=3)
    policy.prepare(policy.space.points)
    points = [policy.theory(0, point) for point in policy.space.points]
    assert len(policy.scores(np.eye(3), points, Stream(5, POLICY, 0))) > 1
    assert len(seen) == 1
