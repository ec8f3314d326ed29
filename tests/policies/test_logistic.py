"""UCB-GLM's fit is the exact optimum at every round: against the gradient, scipy and scikit-learn."""

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from syndicated import UCBGLM, Agent
from syndicated._models.logistic import sigmoid, sigmoids
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Params

LAMS = (0.01, 0.1, 1.0)
POINTS: list[Params] = [{"alpha": 1.0, "lam": lam} for lam in LAMS]
ROUNDS, DIM = 100, 4
Ridge = Literal["lam", "inverse"]

both_modes = pytest.mark.parametrize("ridge", ["lam", "inverse"])


def penalty(ridge: Ridge, lam: float) -> float:
    return lam if ridge == "lam" else 1 / lam


def features(seed: int = 1) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, (ROUNDS, DIM))


def noisy(X: Array) -> Array:
    """Zeros and ones of a logistic model."""
    means = 1 / (1 + np.exp(-X @ np.linspace(-1.5, 2, DIM)))
    return (np.random.default_rng(2).uniform(size=len(X)) < means).astype(np.float64)


def separable(X: Array) -> Array:
    return (X[:, 0] > 0).astype(np.float64)


def ones(X: Array) -> Array:
    return np.ones(len(X))


def zeros(X: Array) -> Array:
    return np.zeros(len(X))


def fractional(X: Array) -> Array:
    return np.random.default_rng(3).uniform(size=len(X))


def fits(X: Array, y: Array, ridge: Ridge) -> Iterator[tuple[int, float, Array]]:
    """(n, lam, theta) after each of the rounds n = 1, 2, ... and for each penalty."""
    policy = UCBGLM(dim=DIM, intercept=False, ridge=ridge)
    policy.prepare(POINTS)
    for n, (x, reward) in enumerate(zip(X, y, strict=True), start=1):
        policy.learn(x, float(reward), {})
        for (lam, *_), theta in zip(policy._kept.priors, policy.fits, strict=True):
            yield n, lam, theta


def plain_gradient(X: Array, y: Array, ridge: float, theta: Array) -> Array:
    total = ridge * theta
    for x, reward in zip(X, y, strict=True):
        total = total + x * (1 / (1 + math.exp(-sum(x * theta))) - reward)
    return total


def stable_gradient(X: Array, y: Array, ridge: float, theta: Array) -> Array:
    return np.asarray((expit(X @ theta) - y) @ X + ridge * theta)


def plain_loss(theta: Array, X: Array, y: Array, ridge: float) -> float:
    z = X @ theta
    return float(np.sum(np.logaddexp(0, z) - y * z) + ridge / 2 * theta @ theta)


def by_scipy(X: Array, y: Array, ridge: float) -> Array:
    def jac(theta: Array, *_: object) -> Array:
        return stable_gradient(X, y, ridge, theta)

    found = minimize(plain_loss, np.zeros(X.shape[1]), (X, y, ridge), method="BFGS", jac=jac, options={"gtol": 1e-7})
    return np.asarray(found.x)


def by_scikit_learn(X: Array, y: Array, C: float) -> Array:
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, solver="newton-cholesky")
    return np.asarray(model.fit(X, y).coef_[0])


def distance(ridge: float) -> float:
    """How far from the optimum a gradient of 1e-6 in each entry can be, for this least curvature."""
    return math.sqrt(DIM) * 1e-6 / ridge


@both_modes
@pytest.mark.parametrize("rewards", [noisy, separable, ones, zeros, fractional])
def test_the_gradient_vanishes_at_every_round(ridge: Ridge, rewards: Callable[[Array], Array]) -> None:
    X = features()
    y = rewards(X)
    for n, lam, theta in fits(X, y, ridge):
        assert abs(plain_gradient(X[:n], y[:n], penalty(ridge, lam), theta)).max() <= 1.001e-6


@both_modes
@pytest.mark.parametrize("rewards", [noisy, separable, ones, fractional])
def test_the_fit_is_the_least_loss_that_scipy_finds(ridge: Ridge, rewards: Callable[[Array], Array]) -> None:
    X = features()
    y = rewards(X)
    for n, lam, theta in fits(X, y, ridge):
        if n <= 5 or n % 10 == 0:
            expected = by_scipy(X[:n], y[:n], penalty(ridge, lam))
            np.testing.assert_allclose(theta, expected, rtol=0, atol=distance(penalty(ridge, lam)))


@pytest.mark.no_cover
@pytest.mark.parametrize("rewards", [noisy, separable])
def test_lam_is_the_inverse_of_scikit_learns_C(rewards: Callable[[Array], Array]) -> None:
    X = features()
    y = rewards(X)
    for n, lam, theta in fits(X, y, "lam"):
        if len(set(y[:n])) == 2:
            np.testing.assert_allclose(theta, by_scikit_learn(X[:n], y[:n], 1 / lam), rtol=0, atol=distance(lam))


@pytest.mark.no_cover
@pytest.mark.parametrize("rewards", [noisy, separable])
def test_lam_is_scikit_learns_C_in_the_papers_mode(rewards: Callable[[Array], Array]) -> None:
    X = features()
    y = rewards(X)
    for n, lam, theta in fits(X, y, "inverse"):
        if len(set(y[:n])) == 2:
            np.testing.assert_allclose(theta, by_scikit_learn(X[:n], y[:n], lam), rtol=0, atol=distance(1 / lam))


def test_the_fit_is_exact_when_separable_data_turn_round_under_a_small_penalty() -> None:
    X, lam = 30 * features(), 1e-4
    y = np.where(np.arange(ROUNDS) < ROUNDS // 2, separable(X), 1 - separable(X))
    policy = UCBGLM(dim=DIM, intercept=False)
    policy.prepare([{"lam": lam}])
    for n in range(1, ROUNDS + 1):
        policy.learn(X[n - 1], float(y[n - 1]), {})
        assert abs(stable_gradient(X[:n], y[:n], lam, policy.fits[0])).max() <= 1.001e-6


@both_modes
def test_a_fit_that_was_not_kept_is_the_same_optimum(ridge: Ridge) -> None:
    X = features()
    y = noisy(X)
    policy = UCBGLM(dim=DIM, intercept=False, ridge=ridge)
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), {})
    for lam in LAMS:
        theta = policy.scores(np.eye(DIM), [{"alpha": 0.0, "lam": lam}], Stream(0, POLICY))[0]
        assert abs(plain_gradient(X, y, penalty(ridge, lam), theta)).max() <= 1.001e-6


@both_modes
def test_the_intercept_in_use_is_the_one_under_which_recent_rewards_were_likelier(ridge: Ridge) -> None:
    X = features()
    y = np.concatenate([noisy(X[:40]), zeros(X[40:80]), ones(X[80:])])
    tables = {0.0: X, 1.0: np.hstack([X, np.ones((ROUNDS, 1))])}
    likelihoods = dict.fromkeys(tables, 0.0)
    policy = UCBGLM(dim=DIM, ridge=ridge)
    policy.prepare([{"boldness": 1.0, "lam": 0.5}])
    used = []
    for n, reward in enumerate(y.tolist()):
        for intercept, table in tables.items():
            p = 1 / (1 + math.exp(-table[n] @ by_scipy(table[:n], y[:n], penalty(ridge, 0.5))))
            likelihoods[intercept] = 0.999 * likelihoods[intercept] + math.log(p if reward else 1 - p)
        policy.learn(X[n], reward, {})
        np.testing.assert_allclose(policy.likelihoods, list(likelihoods.values()), rtol=1e-4)
        if n > 0:
            used.append(policy.theory(n, {"boldness": 1.0, "lam": 0.5})["intercept"])
            assert used[-1] == max(likelihoods, key=lambda intercept: likelihoods[intercept])
    assert len(set(used)) == 2


@pytest.mark.parametrize("prepared", [True, False])
def test_without_its_intercept_a_policy_plays_as_one_that_has_none(prepared: bool) -> None:
    X = features()
    both, none = UCBGLM(dim=DIM), UCBGLM(dim=DIM, intercept=False)
    for policy in (both, none):
        policy.prepare([{"boldness": 1.0}] if prepared else [])
        for x, reward in zip(X, noisy(X), strict=True):
            policy.learn(x, float(reward), {})
    point = {"alpha": 0.7, "lam": 1.0, "intercept": 0.0}
    got, expected = (policy.scores(X[:9], [point], Stream(0, POLICY)) for policy in (both, none))
    np.testing.assert_allclose(got, expected, rtol=0, atol=distance(1.0))
    np.testing.assert_allclose(both.predict(X[:9], point), none.predict(X[:9], point), rtol=0, atol=distance(1.0))


def test_points_with_an_alpha_keep_the_policys_intercept() -> None:
    for intercept in (True, False):
        policy = UCBGLM(dim=DIM, intercept=intercept)
        policy.prepare(POINTS)
        assert [prior.intercept for prior in policy._kept.priors] == [intercept] * len(LAMS)
        assert policy.theory(3, POINTS[0]) == {**POINTS[0], "intercept": intercept}


def test_an_agent_with_a_catalogue_goes_on_from_a_state_to_the_bit() -> None:
    X = features()[:8]
    agents = [Agent(UCBGLM(dim=DIM), seed=3, catalogue=X) for _ in range(2)]
    y, intercepts = noisy(features()), set()
    for t in range(ROUNDS):
        if t == ROUNDS // 2:
            agents[1].restore(agents[0].state())
        for agent in agents if t >= ROUNDS // 2 else agents[:1]:
            decision = agent.decide(range(8))
            agent.learn(decision, y[t])
            intercepts.add(decision.params["intercept"])
    assert agents[0].state() == agents[1].state()
    assert intercepts == {0.0, 1.0}


def test_sigmoids_of_many_numbers_are_those_of_each_up_to_rounding() -> None:
    z = np.concatenate([np.random.default_rng(4).normal(0, 3, 1000), np.linspace(-690, 690, 1001), [0.0, 800.0]])
    many = z.copy()
    sigmoids(many)
    np.testing.assert_allclose(many, [sigmoid(each) for each in z], rtol=1e-15)


def test_sigmoids_stay_finite_and_leave_what_is_no_number() -> None:
    many = np.array([-np.inf, np.inf, np.nan])
    sigmoids(many)
    assert 0 < many[0] < 1e-300
    assert many[1] == 1
    assert np.isnan(many[2])
