"""The policies on generalised linear models, each against plain loops."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from syndicated import GLMTSL, GLMUCB, GLOC, UCBGLM, GradientLaplaceTS, InputError, LaplaceTS
from syndicated.policies import Policy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array

MEANS: dict[str, Callable[[float], float]] = {
    "logistic": lambda z: 1 / (1 + math.exp(-z)),
    "probit": norm.cdf,
    "poisson": math.exp,
    "identity": lambda z: z,
}
SLOPES: dict[str, Callable[[float], float]] = {
    "logistic": lambda z: math.exp(-z) / (1 + math.exp(-z)) ** 2,
    "probit": norm.pdf,
    "poisson": math.exp,
    "identity": lambda z: 1.0,
}
LINKS = list(MEANS)


def data(link: str = "logistic", n: int = 40) -> tuple[Array, Array]:
    random = np.random.default_rng(1)
    X, theta = random.uniform(-1, 1, (n, 3)), np.array([1.0, -0.5, 0.8])
    means = [MEANS[link](z) for z in X @ theta]
    draw: dict[str, Callable[[float], float]] = {
        "poisson": random.poisson,
        "identity": lambda m: m + random.normal(0, 0.3),
    }
    return X, np.array([float(draw[link](m) if link in draw else random.uniform() < m) for m in means])


def taught(policy: Policy, X: Array, y: Array) -> None:
    policy.prepare([{"alpha": 1.0, "lam": 0.5}] if "lam" in policy.hyper else [])
    for t, (x, r) in enumerate(zip(X, y, strict=True)):
        policy.learn(x, float(r), policy.theory(t, {}))


def equation(link: str, X: Array, y: Array, lam: float, theta: Array) -> Array:
    """Σ x (mu(x'theta) - y) + lam theta."""
    total = lam * theta
    for x, r in zip(X, y, strict=True):
        total = total + x * (MEANS[link](x @ theta) - r)
    return total


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("make", [UCBGLM, GLMUCB, GLMTSL])
def test_the_fit_solves_the_equation_of_its_link(make: Any, link: str) -> None:
    X, y = data(link)
    policy = make(dim=3, intercept=False, link=link)
    taught(policy, X, y)
    theta = policy.fits[0] if isinstance(policy, UCBGLM) else policy.model.theta(0.5)
    assert abs(equation(link, X, y, 0.5, theta)).max() <= 1.001e-6
    means = policy.predict(X[:5], {"lam": 0.5})
    np.testing.assert_allclose(means, [MEANS[link](x @ theta) for x in X[:5]], rtol=1e-9)
    assert policy.rewards == make(dim=3, link=link).rewards
    score = means[0] if make is GLMUCB else X[0] @ theta
    assert policy.expected(score) == pytest.approx(means[0])


@pytest.mark.parametrize("make", [UCBGLM, GLMUCB, GLMTSL, GLOC])
def test_unknown_links_are_refused(make: type[GLMUCB]) -> None:
    with pytest.raises(InputError, match="link must be one of logistic, probit, poisson, identity; got 'cubic'"):
        make(dim=3, link="cubic")


@pytest.mark.parametrize("link", LINKS)
def test_glm_ucb_adds_its_bonus_to_the_mean(link: str) -> None:
    X, y = data(link)
    policy = GLMUCB(dim=3, intercept=False, link=link)
    taught(policy, X, y)
    theta, M = policy.model.theta(0.5), 0.5 * np.eye(3)
    for x in X:
        M += np.outer(x, x)
    scores = policy.scores(X[:6], [{"alpha": 0.7, "lam": 0.5}], Stream(0, POLICY))[0]
    expected = [MEANS[link](x @ theta) + 0.7 * math.sqrt(x @ np.linalg.solve(M, x)) for x in X[:6]]
    np.testing.assert_allclose(scores, expected, rtol=1e-9)


def test_glm_ucb_projects_onto_the_radius_by_the_distance_of_means() -> None:
    X, y = data()
    policy = GLMUCB(dim=3, intercept=False, radius=0.3)
    taught(policy, X, y)
    fit, M = policy.model.theta(0.5), 0.5 * np.eye(3) + X.T @ X

    def distance(theta: Array) -> float:
        change = equation("logistic", X, y, 0.5, theta) - equation("logistic", X, y, 0.5, fit)
        return float(change @ np.linalg.solve(M, change))

    def bounded(theta: Array) -> float:
        return distance(theta * min(1.0, 0.3 / float(np.linalg.norm(theta))))

    best = min((minimize(bounded, start, method="Nelder-Mead").fun for start in 0.3 * np.eye(3)), default=0.0)
    found = policy._theta(0.5)
    assert np.linalg.norm(found) <= 0.3 + 1e-12
    assert distance(found) <= best * (1 + 1e-4)
    free = GLMUCB(dim=3, intercept=False, radius=99.0)
    taught(free, X, y)
    np.testing.assert_array_equal(free._theta(0.5), free.model.theta(0.5))


def test_glm_ucbs_rho_is_the_theoretical_alpha() -> None:
    policy = GLMUCB(dim=4, intercept=False, S=2.0, L=0.5, delta=0.05, horizon=2_000)
    kappa = math.sqrt(3 + 2 * math.log(1 + 2 * 0.25 / 0.1))
    logs = math.log(100) * math.log(2 * 4 * 2_000 / 0.05)
    rho = 2 * 0.25 * kappa / SLOPES["logistic"](1.0) * math.sqrt(2 * 4 * logs)
    assert policy.theory(99, {"lam": 0.1})["alpha"] == pytest.approx(rho)


def test_the_first_round_of_glm_ucb_counts_as_the_second_and_links_without_a_largest_reward_have_1() -> None:
    for link in LINKS:
        policy = GLMUCB(dim=4, intercept=False, link=link, S=0.0, delta=0.05, horizon=2_000)
        logs = math.log(2) * math.log(2 * 4 * 2_000 / 0.05)
        rho = 2 * math.sqrt(3 + 2 * math.log(3)) * math.sqrt(2 * 4 * logs)  # with S = 0, k_mu is c_mu
        assert [policy.theory(t, {})["alpha"] for t in (0, 1)] == pytest.approx([rho, rho])


@pytest.mark.parametrize("dim", [1, 4, 30])
@pytest.mark.parametrize("horizon", [10, 10_000])
@pytest.mark.parametrize("delta", [0.001, 0.5])
def test_a_multiple_of_1_over_kappa_covers_the_alpha_of_li_lu_and_zhou(dim: int, horizon: int, delta: float) -> None:
    policy = UCBGLM(dim=dim, intercept=False, sigma=0.5, delta=delta)
    kappa = SLOPES["logistic"](2.0)
    theirs = 0.5 / kappa * math.sqrt(dim / 2 * math.log(1 + 2 * horizon / dim) + math.log(1 / delta))
    assert policy.theory(horizon, {"alpha_multiple": 1 / kappa})["alpha"] >= theirs


def test_boldness_of_glm_ucb_is_in_units_of_the_fits_error() -> None:
    X, y = data()
    policy = GLMUCB(dim=3, intercept=False)
    assert policy.theory(0, {"boldness": 2.0})["alpha"] == pytest.approx(2 * 0.5)
    taught(policy, X, y)
    theta = policy.model.theta(1.0)
    error = math.sqrt(sum((r - MEANS["logistic"](x @ theta)) ** 2 for x, r in zip(X, y, strict=True)) / len(y))
    expected = 2 * error * math.sqrt(math.log(len(y) + math.e))
    assert policy.theory(7, {"boldness": 2.0})["alpha"] == pytest.approx(expected)


@pytest.mark.parametrize("link", LINKS)
def test_glm_tsl_draws_from_the_laplace_posterior(link: str) -> None:
    X, y = data(link)
    policy = GLMTSL(dim=3, intercept=False, link=link)
    taught(policy, X, y)
    theta, H = policy.model.theta(0.5), 0.5 * np.eye(3)
    for x in X:
        H += SLOPES[link](x @ theta) * np.outer(x, x)
    z = Stream(3, POLICY, 5).normals(3)
    sample = theta + 0.7 * np.linalg.solve(np.linalg.cholesky(H).T, z)
    scores = policy.scores(X[:6], [{"alpha": 0.7, "lam": 0.5}], Stream(3, POLICY, 5))[0]
    np.testing.assert_allclose(scores, X[:6] @ sample, rtol=1e-9)


def test_glm_tsls_theoretical_alpha() -> None:
    policy = GLMTSL(dim=4, intercept=False, S=2.0, sigma=0.5, horizon=2_000)
    low = SLOPES["logistic"](2.0)
    expected = 0.5 * 0.5 / low * math.sqrt(4 * math.log(500) + 2 * math.log(2_000))
    assert policy.theory(9, {})["alpha"] == pytest.approx(expected)


def laplace(X: Array, y: Array, lam: float) -> tuple[Array, Array]:
    """m and q after all observations, each minimum found by a general solver."""
    m, q = np.zeros(3), np.full(3, lam)
    for x, r in zip(X, y, strict=True):

        def loss(w: Array, m: Array = m, q: Array = q, x: Array = x, r: float = r) -> float:
            return float(0.5 * sum(q * (w - m) ** 2) + np.logaddexp(0, x @ w) - r * (x @ w))

        m = minimize(loss, m, method="BFGS", options={"gtol": 1e-9}).x
        p = 1 / (1 + math.exp(-x @ m))
        q = q + p * (1 - p) * x * x
    return m, q


@pytest.mark.parametrize("make", [LaplaceTS, GradientLaplaceTS])
def test_laplace_ts_moves_to_the_likeliest_weights_and_draws_around_them(make: type[LaplaceTS]) -> None:
    X, y = data(n=25)
    X = np.sign(X) * np.where(np.arange(25) > 0, 0.9 + abs(X.T) / 5, 1.0).T  # whose own units are 1 and stay so
    policy = make(dim=3, intercept=False, lam=2.0)
    taught(policy, X, y)
    m, q = laplace(X, y, 2.0)
    exact = make is LaplaceTS
    np.testing.assert_allclose(policy.m, m, atol=1e-6 if exact else 1e-3)
    np.testing.assert_allclose(policy.q, q, rtol=1e-6 if exact else 1e-3)
    z = Stream(3, POLICY, 5).normals(3)
    scores = policy.scores(X[:6], [{"alpha": 0.5}], Stream(3, POLICY, 5))[0]
    np.testing.assert_allclose(scores, X[:6] @ (policy.m + 0.5 * z / np.sqrt(policy.q)), rtol=1e-9)


def test_a_gradient_step_that_would_go_uphill_is_halved_and_a_small_one_stays_behind() -> None:
    x, found = np.array([1.0, -1.0, 0.0]), []
    for eta in (1e6, 1.0, 1e-4):
        policy = GradientLaplaceTS(dim=3, intercept=False)
        policy.learn(x, 1.0, {"eta": eta})
        found.append(policy.m[0])
    exact = LaplaceTS(dim=3, intercept=False)
    exact.learn(x, 1.0, {})
    np.testing.assert_allclose(found[:2], exact.m[0], atol=1e-3)
    assert found[2] < 0.1 * exact.m[0]


def test_stride_counts_newton_steps_of_the_best_known_coordinate() -> None:
    policy = GradientLaplaceTS(dim=2, intercept=False, lam=4.0)
    assert policy.theory(0, {"stride": 0.5}) == {"alpha": 1.0, "eta": 0.125}


@pytest.mark.parametrize("link", LINKS)
def test_gloc_is_ridge_on_the_predictions_of_online_newton_steps(link: str) -> None:
    X, y = data(link)
    S, lam, sigma, delta = 0.6, 0.5, 0.4, 0.2
    policy = GLOC(dim=3, intercept=False, link=link, S=S, L=1.5, lam=lam, sigma=sigma, delta=delta)
    taught(policy, X, y)
    kappa = min(SLOPES[link](z) for z in (-0.9, 0.9))
    A, V, learner, xz, edges = np.eye(3), lam * np.eye(3), np.zeros(3), np.zeros(3), 0
    losses = zs = 0.0
    for x, r in zip(X, y, strict=True):
        z = float(x @ learner)
        g = MEANS[link](z) - r
        A, V, xz, zs = A + np.outer(x, x), V + np.outer(x, x), xz + z * x, zs + z * z
        losses += g * g * float(x @ np.linalg.solve(A, x)) / (2 * kappa)
        target = learner - g / kappa * np.linalg.solve(A, x)
        learner = target
        if np.linalg.norm(target) > S:
            edges += 1

            def far(v: Array, target: Array = target, A: Array = A) -> float:
                gap = v - target
                return float(gap @ A @ gap)

            ball = {"type": "ineq", "fun": lambda v: S**2 - v @ v}
            start = target * S / np.linalg.norm(target)
            learner = minimize(far, start, constraints=[ball], method="SLSQP", options={"ftol": 1e-14}).x
    assert edges > 0
    theta = np.linalg.solve(V, xz)
    np.testing.assert_allclose(policy.predict(X[:4], {}), [MEANS[link](x @ theta) for x in X[:4]], rtol=1e-4, atol=1e-5)
    scores = policy.scores(X[:4], [{"alpha": 0.3}], Stream(0, POLICY))[0]
    expected = [x @ theta + 0.3 * math.sqrt(x @ np.linalg.solve(V, x)) for x in X[:4]]
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)
    B = losses + 2 * kappa * S**2
    log = math.log(2 / delta * math.sqrt(1 + 2 / kappa * B + 4 * sigma**4 / (kappa**4 * delta**2)))
    beta = 1 + 4 / kappa * B + 8 * sigma**2 / kappa**2 * log + lam * S**2 - (zs - theta @ xz)
    assert policy.theory(9, {})["alpha"] == pytest.approx(math.sqrt(beta), rel=1e-4)


def test_boldness_of_gloc_counts_standard_errors_of_the_linear_value() -> None:
    policy = GLOC(dim=2, intercept=False)
    assert policy.theory(0, {"boldness": 1.0}) == {"alpha": 2.0}
    policy.learn(np.array([1.0, 0.0]), 1.0, {})
    assert policy.theory(0, {"boldness": 1.0}) == {"alpha": pytest.approx(1 / 0.5)}
