"""Features in units of their own: the units, and that what was learned is the same in new ones."""

import math
from typing import Any

import numpy as np
import pytest

from syndicated import GLMTSL, GLMUCB, GLOC, SGDTS, UCBGLM, Agent, LaplaceTS
from syndicated._models.glm import LOGISTIC, gradient
from syndicated._models.units import Units
from syndicated.policies import POLICIES
from syndicated.policies._scaled_policy import ScaledPolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Params

SCALED = [policy for policy in POLICIES.values() if issubclass(policy, ScaledPolicy)]
SIZES = np.array([1e-6, 1.0, 1e6])
scaled = pytest.mark.parametrize("make", SCALED, ids=lambda make: make.__name__)


def data(n: int = 60) -> tuple[Array, Array]:
    """Rows whose first one is far too small to tell the units."""
    random = np.random.default_rng(2)
    X = random.normal(size=(n, 3))
    X[0] /= 100
    y = random.uniform(size=n) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.5]))
    return X * SIZES, y.astype(np.float64)


def point(policy: ScaledPolicy) -> Params:
    return policy.theory(9, policy.space.points[0])


def taught(make: Any, catalogue: Array | None = None, **given: Any) -> tuple[Any, Array, Array]:
    """A policy in natural units that has learned all data, the rows in its units, and the rewards."""
    policy, (X, y) = make(dim=3, **given), data()
    policy.prepare(policy.space.points, catalogue)
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), point(policy))
    return policy, policy.units.columns(X, policy.size).T, y


def test_units_are_the_root_mean_squares_of_what_is_not_0() -> None:
    X, _ = data()
    X[::3, 1] = 0.0
    units = Units(3, natural=True)
    changes = [units.learn(x) is not None for x in X]
    exact = [np.sqrt(np.mean(column[column != 0.0] ** 2)) for column in X.T]
    assert 1 / units.inverse == pytest.approx(exact, rel=0.3)
    assert changes[0]
    assert sum(changes) < 10
    assert not any(changes[40:])


def test_a_column_has_its_unit_from_its_first_value_on() -> None:
    units = Units(2, natural=True)
    factors = units.learn(np.array([0.0, -4.0]))
    assert factors is not None
    assert factors.tolist() == [1.0, 1.0]
    assert units.row(np.array([-7.0, 2.0]), 3).tolist() == [-1.0, 0.5, 1.0]
    assert units.learn(np.array([2.0, 4.0])) is not None
    assert units.row(np.array([-7.0, 2.0]), 2).tolist() == [-3.5, 0.5]


def test_factors_lead_from_the_units_of_before_to_those_of_now() -> None:
    X, _ = data()
    units, row = Units(3, natural=True), np.empty(0)
    for x in X:
        before, factors = units.row(X[0], 3), units.learn(x)
        if factors is not None and len(row):
            assert before * factors == pytest.approx(units.row(X[0], 3))
        row = x


@pytest.mark.parametrize("make", [UCBGLM, GLMUCB, GLMTSL])
def test_the_fit_is_that_of_the_rows_in_their_own_units(make: Any) -> None:
    policy, Z, y = taught(make)
    theta = policy.fits[-1] if isinstance(policy, UCBGLM) else policy.model.theta(1.0)
    assert abs(gradient(LOGISTIC, np.ascontiguousarray(Z), y, np.ones(4), theta, 4)).max() <= 2e-6
    if isinstance(policy, UCBGLM):
        np.testing.assert_allclose(np.linalg.inv(policy.model.stack[-1]), np.eye(4) + Z.T @ Z, rtol=1e-6, atol=1e-6)


def test_without_an_intercept_the_fit_is_that_of_the_rows_in_units_of_their_range() -> None:
    policy, Z, y = taught(UCBGLM)
    span = np.sqrt(policy.weights[:3])
    assert span == pytest.approx(np.ptp(Z[:, :3], axis=0), rel=0.25)
    R, theta = Z[:, :3] / span, policy.fits[0, :3] * span
    slopes = [sum((1 / (1 + np.exp(-r @ theta)) - v) * r[j] for r, v in zip(R, y, strict=True)) for j in range(3)]
    assert slopes == pytest.approx(-theta, abs=2e-6)
    V = np.linalg.inv(policy.model.stack[0])[:3, :3]
    np.testing.assert_allclose(V / np.outer(span, span), np.eye(3) + R.T @ R, rtol=1e-6, atol=1e-6)


def test_ranges_are_those_of_all_rows_up_to_a_quarter_and_columns_without_one_keep_their_size() -> None:
    policy, X = UCBGLM(dim=3, intercept=False), data()[0]
    policy.prepare([{"boldness": 1.0}])
    X[:, 1], X[:, 2] = 7.0, 1e6 + 1e-3 * X[:, 2] / SIZES[2]
    for n, x in enumerate(X, start=1):
        policy.learn(x, float(n % 2), {})
        if policy.units.due == n + math.ceil(0.25 * n):
            assert np.sqrt(policy.weights[0]) == pytest.approx(np.ptp(policy.X[:n, 0]) or 1.0, rel=0.25)
            assert policy.weights[1:] == pytest.approx([1.0, 1.0 if n == 1 else 1e-4])
    assert np.isfinite(policy.fits).all()


def test_weights_stay_1_where_a_penalty_is_given() -> None:
    policy, (X, y) = UCBGLM(dim=3), data()
    policy.prepare([{"boldness": 1.0, "lam": 1.0}])
    for x, reward in zip(X / SIZES, y, strict=True):
        policy.learn(x, float(reward), {})
    assert policy.weights.tolist() == [1.0] * 4


class InUnitsOfSize(UCBGLM):
    """As before a model through the origin counted columns in units of their range."""

    def _weigh(self) -> None:
        pass

    def _rebuild(self, factors: Array) -> None:
        self.weights = np.ones(self.size)
        super()._rebuild(factors)


def factor_regret(policy: UCBGLM, seed: int) -> float:
    """Of 500 rounds of items whose first factor is far from 0 and tells nearly all, through the origin."""
    random = np.random.default_rng(seed)
    items, agent, regret = random.normal(scale=0.3, size=(500, 12)), Agent(policy, seed=seed), 0.0
    items[:, 0] += 1.5
    means = 1 / (1 + np.exp(-items @ np.append(2.0, random.normal(scale=0.05, size=11))))
    for _ in range(500):
        offered = random.choice(500, size=100, replace=False)
        decision = agent.decide(items[offered])
        agent.learn(decision, float(random.uniform() < means[offered[decision.arm]]))
        regret += float(means[offered].max() - means[offered[decision.arm]])
    return regret


def test_a_column_far_from_0_is_found_to_tell_the_level_of_rewards() -> None:
    before, after = (sum(factor_regret(make(dim=12), seed) for seed in range(4)) for make in (InUnitsOfSize, UCBGLM))
    assert after < 0.6 * before


def test_what_was_chosen_is_said() -> None:
    agent = Agent(UCBGLM(dim=1), seed=1)
    assert agent.policy.chosen == {}
    for t in range(40):
        agent.learn(agent.decide([[10.0 + t % 2]]), 1.0)
    assert agent.policy.chosen["intercept"] == "no intercept, as rewards were likelier without"
    for t in range(200):
        agent.learn(agent.decide([[10.0 if t % 2 else -10.0]]), 1.0)
    assert agent.policy.chosen["intercept"] == "an intercept, as rewards were likelier with it"
    assert "an intercept, as" in repr(agent)


@pytest.mark.parametrize("point", [{"boldness": 1.0}, {"alpha": 1.0}])
def test_nothing_is_said_of_an_intercept_that_the_points_give(point: dict[str, float]) -> None:
    policy = UCBGLM(dim=1)
    policy.prepare([{**point, "intercept": each} for each in (0.0, 1.0)])
    policy.learn(np.ones(1), 1.0, {})
    assert policy.chosen == {}


def test_a_state_from_before_ranges_goes_on_as_it_was_and_in_units_of_range_from_the_next_look_on() -> None:
    older, policy = taught(InUnitsOfSize)[0], UCBGLM(dim=3)
    policy.prepare(policy.space.points)
    policy.restore(policy.upgraded({name: array for name, array in older.state().items() if name != "weights"}))
    assert policy.weights.tolist() == [1.0] * 4
    (X, y), same = data(), []
    for x, reward in zip(X, y, strict=True):
        same.append(policy.state()["fits"].tolist() == older.state()["fits"].tolist())
        for each in (policy, older):
            each.learn(x, float(reward), {})
    assert same[:5] == [True] * 5
    assert not same[-1]


def test_a_policy_in_units_of_range_goes_on_from_a_state_to_the_bit() -> None:
    policy, other, (X, y) = taught(UCBGLM)[0], UCBGLM(dim=3), data()
    other.prepare(other.space.points)
    other.restore(policy.state())
    for x, reward in zip(X, y, strict=True):
        for each in (policy, other):
            each.learn(x, float(reward), {})
    assert {name: a.tobytes() for name, a in policy.state().items()} == {
        name: a.tobytes() for name, a in other.state().items()
    }


def test_a_state_whose_weights_are_no_squares_is_refused() -> None:
    policy = taught(UCBGLM)[0]
    assert policy.invalid_array(policy.state()) is None
    assert policy.invalid_array({**policy.state(), "weights": np.array([1.0, 0.0, 1.0, 1.0])}) == "weights"


def test_gloc_has_the_moments_of_the_rows_in_their_own_units() -> None:
    policy, Z, _ = taught(GLOC, lam=2.0)
    np.testing.assert_allclose(policy.A, np.eye(4) + Z.T @ Z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(policy.inverse), 2 * np.eye(4) + Z.T @ Z, rtol=1e-6, atol=1e-6)


def test_what_rewards_said_stays_in_new_units() -> None:
    policy, factors = taught(LaplaceTS, lam=2.0)[0], np.array([0.5, 2.0, 4.0, 1.0])
    precision, shift = policy.q - 2.0, policy.q * policy.m
    policy._rescale(factors)
    np.testing.assert_allclose(policy.q - 2.0, precision * factors**2)
    np.testing.assert_allclose(policy.q * policy.m, shift * factors)


def test_the_theta_of_sgd_ts_predicts_the_same_in_new_units() -> None:
    policy, (X, _), factors = taught(SGDTS, tau=50)[0], data(), np.array([0.5, 2.0, 4.0])
    before = policy.predict(X, point(policy))
    policy.units.inverse *= factors
    policy._rescale(np.append(factors, 1.0))
    np.testing.assert_allclose(policy.predict(X, point(policy)), before, rtol=1e-9)


@scaled
def test_arms_of_a_catalogue_score_like_their_features_in_natural_units(make: Any) -> None:
    X, _ = data()
    by_number, by_features = taught(make, X)[0], taught(make)[0]
    numbers, points = np.array([3, 0, 17, 3]), [point(by_features)]
    scores = by_features.scores(X[numbers], points, Stream(1, POLICY))
    np.testing.assert_allclose(by_number.scores(numbers, points, Stream(1, POLICY)), scores, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("make", [make for make in SCALED if make._feature_units], ids=lambda make: make.__name__)
def test_a_given_value_is_in_the_units_that_features_come_in(make: Any) -> None:
    policy = make(dim=3)
    theory: Params = policy.theory(0, {})
    given: list[list[Params]] = [[], [{}], [theory], [*policy.space.points, theory]]
    for points in given:
        policy.prepare(points)
        policy.learn(SIZES, 1.0, policy.theory(0, {}))
        assert policy.units.inverse.tolist() == [1.0, 1.0, 1.0]


@scaled
def test_a_state_of_before_goes_on_in_the_units_that_features_came_in(make: Any) -> None:
    X, y = data()
    policy, older = make(dim=3), make(dim=3)
    older.units = Units(3, natural=False)
    for x, reward in zip(X / SIZES, y, strict=True):
        older.learn(x, float(reward), older.theory(0, {}))
    arrays = {name: array for name, array in older.state().items() if not name.startswith("units.")}
    policy.prepare([] if policy._feature_units else policy.space.points)
    policy.restore(policy.upgraded(arrays))
    assert policy.upgraded(policy.state()).keys() == policy.state().keys()
    policy.learn(SIZES, 1.0, policy.theory(0, {}))
    older.learn(SIZES, 1.0, older.theory(0, {}))
    given = X / SIZES, policy.theory(9, {})
    np.testing.assert_array_equal(policy.predict(*given), older.predict(*given))


def test_an_agent_with_nothing_set_has_natural_units() -> None:
    for make in SCALED:
        policy = Agent(make(dim=3)).policy
        assert isinstance(policy, ScaledPolicy)
        assert policy.units.natural
