"""The formulas of the linear policies, each against plain loops."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

from syndicated import SGDTS, UCBGLM, Agent, Fixed, InputError, LinTS, LinUCB, Space, Theory
from syndicated._models.ridge import REFRESH_ROUNDS
from syndicated.policies import Policy
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Params

P = TypeVar("P", bound=Policy)

LAMS = (1.0, 0.01, 10.0, 0.1)
POINTS: list[Params] = [{"alpha": alpha, "lam": lam} for alpha in (0.0, 0.3, 2.0) for lam in LAMS]
SGDTS_POINTS: list[Params] = [
    {"eta0": eta0, "alpha1": a, "alpha2": b} for eta0 in (0.1, 5.0) for a, b in ((0.0, 0.0), (0.1, 1.0))
]
UNUSED = Stream(0, POLICY)


def data(n: int, dim: int = 3, seed: int = 1) -> tuple[Array, Array]:
    """n observations: features in the unit ball and rewards in [0, 1]."""
    random = np.random.default_rng(seed)
    return random.uniform(-1, 1, (n, dim)) / math.sqrt(dim), random.uniform(0, 1, n)


def taught(policy: P, X: Array, rewards: Array) -> P:
    for x, reward in zip(X, rewards, strict=True):
        policy.learn(x, float(reward), {"eta0": 1.0})
    return policy


def linear(make: type[RidgePolicy], X: Array, rewards: Array, prepared: bool = True) -> RidgePolicy:
    policy = make(dim=X.shape[1], intercept=False)
    policy.prepare(POINTS if prepared else [])
    return taught(policy, X, rewards)


def plain_V(X: Array, lam: float) -> Array:
    d = X.shape[1]
    V = np.zeros((d, d))
    for i in range(d):
        V[i, i] = lam
        for j in range(d):
            V[i, j] += math.fsum(x[i] * x[j] for x in X)
    return V


def plain_b(X: Array, rewards: Array) -> Array:
    return np.array([math.fsum(x[i] * r for x, r in zip(X, rewards, strict=True)) for i in range(X.shape[1])])


def plain_theta(X: Array, rewards: Array, lam: float) -> Array:
    return np.asarray(np.linalg.solve(plain_V(X, lam), plain_b(X, rewards)))


def plain_inverse(X: Array, lam: float) -> Array:
    return np.asarray(np.linalg.inv(plain_V(X, lam)), dtype=np.float64)


def plain_ucb(x: Array, theta: Array, inverse: Array, alpha: float) -> float:
    mean, square = 0.0, 0.0
    for i in range(len(x)):
        mean += x[i] * theta[i]
        for j in range(len(x)):
            square += x[i] * inverse[i, j] * x[j]
    return mean + alpha * math.sqrt(square)


@pytest.mark.parametrize("n", [0, 1, 2, 50, *(REFRESH_ROUNDS + k for k in (-1, 0, 1)), 2 * REFRESH_ROUNDS + 300])
@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_V_t_and_theta_t_are_their_sums(make: type[RidgePolicy], n: int) -> None:
    X, rewards = data(n)
    policy = linear(make, X, rewards)
    for lam in LAMS:
        stack, thetas, _, rows = policy._solutions([{"lam": lam}])
        found, V = stack[rows[0]], plain_V(X, lam)
        if make is LinTS:
            np.testing.assert_allclose(found @ found.T, V, rtol=1e-11, atol=1e-12)
            assert (found == np.tril(found)).all()
            assert (np.diag(found) > 0).all()
        else:
            np.testing.assert_allclose(found, np.linalg.inv(V), rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(V @ found, np.eye(len(V)), atol=1e-9)
        np.testing.assert_allclose(thetas[rows[0]], plain_theta(X, rewards, lam), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_drift_of_the_rank_one_updates_ends_at_the_refresh(make: type[RidgePolicy]) -> None:
    X, rewards = data(REFRESH_ROUNDS)
    policy = linear(make, X[:-1], rewards[:-1])
    drifted, exact = policy.model.stack * 1.01, linear(make, X[:-1], rewards[:-1], prepared=False)
    policy.model.stack = drifted
    for each in (policy, exact):
        each.learn(X[-1], float(rewards[-1]), {})
    for lam in LAMS:
        np.testing.assert_array_equal(policy.predict(X, {"lam": lam}), exact.predict(X, {"lam": lam}))
        row = policy._solutions([{"lam": lam}]).rows[0]
        np.testing.assert_array_equal(policy.model.stack[row], exact._solutions([{"lam": lam}]).stack[0])


@pytest.mark.parametrize("n", [0, 30, 1200])
def test_the_linucb_rule_is_mean_plus_alpha_times_width(n: int) -> None:
    X, rewards = data(n)
    arms = data(7, seed=2)[0]
    scores = linear(LinUCB, X, rewards).scores(arms, POINTS, UNUSED)
    for point, row in zip(POINTS, scores, strict=True):
        theta, inverse = plain_theta(X, rewards, point["lam"]), plain_inverse(X, point["lam"])
        expected = [plain_ucb(x, theta, inverse, point["alpha"]) for x in arms]
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n", [0, 30, 1200])
def test_the_lints_rule_adds_alpha_times_the_streams_normals_through_the_factor(n: int) -> None:
    X, rewards = data(n)
    arms = data(7, seed=2)[0]
    scores = linear(LinTS, X, rewards).scores(arms, POINTS, Stream(4, POLICY, 9))
    z = Stream(4, POLICY, 9).normals(3)
    for point, row in zip(POINTS, scores, strict=True):
        C = np.linalg.cholesky(plain_V(X, point["lam"]))
        sample = plain_theta(X, rewards, point["lam"]) + point["alpha"] * np.linalg.inv(C.T) @ z
        np.testing.assert_allclose(row, [math.fsum(x * sample) for x in arms], rtol=1e-9, atol=1e-10)


def test_lints_samples_have_mean_theta_and_covariance_alpha_squared_times_the_inverse_of_V() -> None:
    X, rewards = data(20)
    X[:, 1] += 0.8 * X[:, 0]
    policy, n, alpha, lam = linear(LinTS, X, rewards), 40_000, 0.7, 0.1
    unit = np.eye(3)
    draws = np.array([policy.scores(unit, [{"alpha": alpha, "lam": lam}], Stream(2, POLICY, t))[0] for t in range(n)])
    expected = alpha**2 * plain_inverse(X, lam)
    variances = np.diag(expected)
    covariance_error = np.sqrt((np.outer(variances, variances) + expected**2) / n)
    assert (abs(draws.mean(axis=0) - plain_theta(X, rewards, lam)) < 4 * np.sqrt(variances / n)).all()
    assert (abs(np.cov(draws.T) - expected) < 4 * covariance_error).all()
    assert abs(expected[0, 1]) > 20 * covariance_error[0, 1]


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_equation_3_is_the_theoretical_alpha(make: type[RidgePolicy]) -> None:
    policy = make(dim=5, intercept=False, sigma=0.7, delta=0.05, S=2.0, L=3.0)
    for t in (0, 1, 10, 9_999):
        for lam in LAMS:
            log = math.log((1 + t * 3.0 * 3.0 / lam) / 0.05)
            expected = 0.7 * math.sqrt(5 * log) + 2.0 * math.sqrt(lam)
            assert policy.theory(t, {"lam": lam})["alpha"] == pytest.approx(expected, rel=1e-14)


def test_equation_3_at_the_papers_settings() -> None:
    table1, figure2 = LinUCB(dim=5, intercept=False, sigma=0.5), LinUCB(dim=10, intercept=False, sigma=0.1)
    assert table1.theory(0, {})["alpha"] == pytest.approx(1 + 0.5 * math.sqrt(5 * math.log(10)))
    assert round(figure2.theory(10_000, {})["alpha"], 2) == 2.07


def test_equation_3_counts_the_intercept_as_a_dimension() -> None:
    with_intercept, without = LinUCB(dim=4, intercept=True).theory(7, {}), LinUCB(dim=5, intercept=False).theory(7, {})
    assert with_intercept["alpha"] == without["alpha"]


def test_theory_keeps_what_is_given() -> None:
    assert LinUCB(dim=5).theory(3, {"alpha": 0.25}) == {"lam": 1.0, "intercept": 1.0, "memory": 1.0, "alpha": 0.25}


def test_an_agent_plays_the_first_best_arm_with_rounds_counted_from_0() -> None:
    agent, X = Agent(LinUCB(dim=3, intercept=False), Theory()), data(20)[0]
    X = np.concatenate([X, X])
    for t in range(30):
        params = agent.policy.theory(t, {})
        scores = agent.policy.scores(X, [params], UNUSED)[0].tolist()
        decision = agent.decide(X)
        assert decision.params == params
        assert decision.arm == scores.index(max(scores)) < 20
        agent.learn(decision, 0.1 * t % 1)


MAKERS: dict[str, tuple[Callable[[int, bool], Policy], list[Params]]] = {
    "LinUCB": (lambda dim, intercept: LinUCB(dim=dim, intercept=intercept), POINTS),
    "LinTS": (lambda dim, intercept: LinTS(dim=dim, intercept=intercept), POINTS),
    "UCBGLM": (lambda dim, intercept: UCBGLM(dim=dim, intercept=intercept), POINTS),
    "SGDTS": (lambda dim, intercept: SGDTS(dim=dim, intercept=intercept, tau=20), SGDTS_POINTS),
}
every_policy = pytest.mark.parametrize(("make", "points"), MAKERS.values(), ids=MAKERS)


@every_policy
def test_an_intercept_is_a_constant_feature_appended_by_hand(
    make: Callable[[int, bool], Policy], points: list[Params]
) -> None:
    (X, rewards), arms = data(100), data(7, seed=2)[0]
    by_hand = [np.hstack([features, np.ones((len(features), 1))]) for features in (X, arms)]
    inside, outside = make(3, True), make(4, False)
    for policy, features in ((inside, X), (outside, by_hand[0])):
        policy.prepare(points)
        taught(policy, features, rewards)
    for point in points:
        np.testing.assert_array_equal(inside.predict(arms, point), outside.predict(by_hand[1], point))
    scores = inside.scores(arms, points, Stream(1, POLICY, 5))
    np.testing.assert_array_equal(scores, outside.scores(by_hand[1], points, Stream(1, POLICY, 5)))
    assert not np.allclose(scores, taught(make(3, False), X, rewards).scores(arms, points, Stream(1, POLICY, 5)))


@every_policy
def test_several_points_at_once_score_as_one_at_a_time(
    make: Callable[[int, bool], Policy], points: list[Params]
) -> None:
    arms, policy = data(7, seed=2)[0], make(3, True)
    policy.prepare(points)
    taught(policy, *data(100))
    together = policy.scores(arms, points, Stream(1, POLICY, 5))
    alone = [policy.scores(arms, [point], Stream(1, POLICY, 5))[0] for point in points]
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together, axis=0)) == len(points)


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_a_penalty_that_was_not_prepared_scores_as_a_prepared_one(make: type[RidgePolicy]) -> None:
    X, rewards = data(150)
    arms = data(7, seed=2)[0]
    prepared, bare = (linear(make, X, rewards, prepared) for prepared in (True, False))
    mixed = make(dim=3, intercept=False)
    mixed.prepare(POINTS[:2])
    taught(mixed, X, rewards)
    expected = prepared.scores(arms, POINTS, Stream(1, POLICY, 5))
    for policy in (bare, mixed):
        np.testing.assert_allclose(policy.scores(arms, POINTS, Stream(1, POLICY, 5)), expected, rtol=1e-4, atol=1e-6)
        for lam in LAMS:
            predicted = policy.predict(arms, {"lam": lam})
            np.testing.assert_allclose(predicted, prepared.predict(arms, {"lam": lam}), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_points_asked_again_are_scored_by_what_the_model_holds_now(make: type[RidgePolicy]) -> None:
    X, rewards = data(1100)
    arms, points = data(7, seed=2)[0], tuple(POINTS)
    policy = linear(make, X[:5], rewards[:5], True)
    young = policy.state()
    for n in range(5, 1100):
        policy.learn(X[n], float(rewards[n]), {})
        if n % 100 == 0 or n > 995:
            now = policy.scores(arms, list(points), Stream(1, POLICY, 5))
            assert policy.scores(arms, points, Stream(1, POLICY, 5)).tobytes() == now.tobytes()
    policy.restore(young)
    now = policy.scores(arms, list(points), Stream(1, POLICY, 5))
    assert policy.scores(arms, points, Stream(1, POLICY, 5)).tobytes() == now.tobytes()


def test_ucb_glms_V_is_the_sum_of_x_x_without_weights() -> None:
    X, rewards = data(150)
    arms = data(7, seed=2)[0]
    policy = linear(UCBGLM, X, rewards)
    for lam in LAMS:
        greedy, wide = policy.scores(arms, [{"alpha": alpha, "lam": lam} for alpha in (0.0, 1.0)], UNUSED)
        inverse = plain_inverse(X, lam)
        expected = [plain_ucb(x, np.zeros(3), inverse, 1.0) for x in arms]
        np.testing.assert_allclose(wide - greedy, expected, rtol=1e-9)


def test_ucb_glm_scores_in_the_models_linear_space_and_predicts_rewards() -> None:
    policy = linear(UCBGLM, *data(150))
    arms = data(7, seed=2)[0]
    for lam in LAMS:
        greedy = policy.scores(arms, [{"alpha": 0.0, "lam": lam}], UNUSED)[0]
        expected = [1 / (1 + math.exp(-score)) for score in greedy]
        np.testing.assert_allclose(policy.predict(arms, {"lam": lam}), expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [3, 30])
@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_a_penalty_that_would_be_rounded_away_is_not_and_predictions_are_right(
    make: type[RidgePolicy], dim: int
) -> None:
    agent = Agent(make(dim=dim, intercept=False), Fixed(Space(alpha=[1.0], lam=[1e-12])), seed=1)
    for column in 1e6 * np.random.default_rng(0).normal(size=(200, 4)):
        decision = agent.decide(np.repeat(column[:, None], dim, axis=1))
        agent.learn(decision, float(decision.x[0]) / 1e6)
    predicted = agent.policy.predict(np.full((1, dim), 1e6), {"lam": 1e-12})
    assert predicted == pytest.approx([1.0], abs=0.001)


@pytest.mark.parametrize(("dim", "lam", "size"), [(60, 1e-3, 10.0), (10, 1e-2, 100.0)])
def test_a_penalty_that_is_not_rounded_away_stays_as_it_was_given(dim: int, lam: float, size: float) -> None:
    """The width along the difference of two columns that were always alike is that of the prior."""
    policy, rng, apart = LinUCB(dim=dim, intercept=False), np.random.default_rng(0), np.zeros(dim)
    policy.prepare([{"alpha": 1.0, "lam": lam}])
    apart[:2] = np.array([1.0, -1.0]) / math.sqrt(2.0)
    for x in size * rng.normal(size=(2 * REFRESH_ROUNDS, dim)):
        x[1] = x[0]
        policy.learn(x, float(x[2]), {})
    assert lam * (apart @ policy.model.stack[0] @ apart) == pytest.approx(1.0, rel=1e-3)
    assert policy.predict(x[None], {"lam": lam}) == pytest.approx([x[2]], abs=1e-3)


@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_a_tiny_penalty_is_as_tiny_for_columns_of_any_unit(make: type[RidgePolicy]) -> None:
    units = np.array([1e6, 1.0, 1e-3])
    agent = Agent(make(dim=3, intercept=False), Fixed(Space(alpha=[1.0], lam=[1e-12])), seed=1)
    for arms in units * np.random.default_rng(0).normal(size=(300, 4, 3)):
        decision = agent.decide(arms)
        agent.learn(decision, float((decision.x / units).sum()))
    assert agent.policy.predict(np.diag(units), {"lam": 1e-12}) == pytest.approx(np.ones(3), abs=1e-5)


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_candidates_may_be_multiples_of_the_theoretical_alpha(make: type[RidgePolicy]) -> None:
    policy = make(dim=5)
    for t in (0, 9_999):
        alpha = policy.theory(t, {"lam": 0.1})["alpha"]
        assert policy.theory(t, {"lam": 0.1, "alpha_multiple": 3.0}) == policy.theory(
            t, {"lam": 0.1, "alpha": 3 * alpha}
        )
    assert not policy.theory_ignores_round({"alpha_multiple": 3.0})
    agent = Agent(policy, Theory(), seed=1)
    agent.policy.check({"alpha_multiple": 1.0, "lam": 1.0})
    for given in ({"alpha": 1.0}, {"boldness": 1.0}):
        with pytest.raises(InputError, match="alpha_multiple stands for"):
            agent.policy.check({"alpha_multiple": 1.0, **given})
