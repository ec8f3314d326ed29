"""The diagonal model against plain loops and optimisers, its units, and its policies on sparse rows."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

from syndicated import Agent, DiagonalTS, DiagonalUCB, InputError, LinUCB
from syndicated._models.diagonal import Diagonal
from syndicated._models.logistic import logistic_gain
from syndicated.checks import POLICY_CHECKS
from syndicated.policies._diagonal_policy import DiagonalPolicy
from syndicated.streams import Stream
from syndicated.types import Array

DIM, NONZEROS, VARIANCE = 12, 4, 4.0
POINTS = [{"boldness": 0.5}, {"boldness": 2.0}]

policies = pytest.mark.parametrize("policy", [DiagonalUCB, DiagonalTS])
links = pytest.mark.parametrize("link", ["logistic", "linear"])


def data(count: int = 60, seed: int = 1) -> tuple[Array, Array]:
    """Sparse rows as (count, 2, NONZEROS), and rewards of 0 or 1."""
    random = np.random.default_rng(seed)
    columns = np.sort([random.choice(DIM, NONZEROS, replace=False) for _ in range(count)])
    rows = np.stack([columns, random.normal(size=columns.shape)], axis=1).astype(np.float64)
    return rows, (random.random(count) < 0.4).astype(np.float64)


def table(rows: Array) -> Array:
    """The same rows with all their zeros."""
    X = np.zeros((len(rows), DIM))
    for x, (columns, values) in zip(X, rows, strict=True):
        x[columns.astype(int)] = values
    return X


def taught(policy: DiagonalPolicy, rows: Array, rewards: Array) -> DiagonalPolicy:
    for row, reward in zip(rows, rewards, strict=True):
        policy.learn(row, float(reward), POINTS[0])
    return policy


def scores(policy: DiagonalPolicy, rows: Array) -> Array:
    return policy.scores(rows, POINTS, Stream(3, 4, 5))


# formulas


def plain_loop(rows: Array, rewards: Array, logistic: bool) -> tuple[dict[int, float], dict[int, float], float]:
    """Theta and the precision of each column in the columns' own units, and the noise."""
    theta, h, largest = dict.fromkeys(range(DIM), 0.0), dict.fromkeys(range(DIM), 0.0), dict.fromkeys(range(DIM), 0.0)
    errors, seen = [], 0
    for t, ((columns, values), reward) in enumerate(zip(rows, rewards, strict=True)):
        x = {int(column): float(value) for column, value in zip(columns, values, strict=True)}
        seen += len(x)
        for i in x:
            largest[i] = max(largest[i], abs(x[i]))
        q = {i: h[i] + seen / (t + 1) / VARIANCE * largest[i] ** 2 for i in x}
        m, s = sum(theta[i] * x[i] for i in x), sum(x[i] ** 2 / q[i] for i in x)
        if logistic:
            gain = bisect(lambda g, m=m, s=s, r=reward: g - (r - expit(m + s * g)), reward - 1, reward)
            p = expit(m + s * gain)
            weight = p * (1 - p)
        else:
            error = reward - rewards[0] - m
            gain, weight = error / (1 + s), 1.0
            errors.append(error**2 / (1 + s))
        for i in x:
            theta[i] += gain * x[i] / q[i]
            h[i] += weight * x[i] ** 2
    noise = 1.0 if logistic else math.sqrt(sum(errors) / (len(errors) - 1))
    return theta, {i: h[i] + seen / len(rows) / VARIANCE * largest[i] ** 2 for i in h}, noise


def bisect(f: Callable[..., float], low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if f(middle) > 0 else (middle, high)
    return low


@links
def test_means_and_deviations_are_those_of_the_formula(link: str) -> None:
    rows, rewards = data()
    policy = taught(DiagonalUCB(dim=DIM, intercept=False, link=link, variance=VARIANCE), rows, rewards)
    theta, q, noise = plain_loop(rows, rewards, link == "logistic")
    for (columns, values), mine in zip(rows, scores(policy, rows).T, strict=True):  # rows that change no unit
        mean = sum(theta[int(i)] * x for i, x in zip(columns, values, strict=True))
        deviation = math.sqrt(sum(x**2 / q[int(i)] for i, x in zip(columns, values, strict=True)))
        assert_allclose(mine, [mean + 0.5 * noise * deviation, mean + 2.0 * noise * deviation], rtol=1e-9)


@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
def test_a_reward_moves_theta_to_the_most_likely_one(reward: float) -> None:
    rows, rewards = data(20)
    model = taught(DiagonalUCB(dim=DIM, intercept=False), rows[:-1], rewards[:-1]).model
    before, precision = model.theta.copy(), model.h + NONZEROS / model.variance
    columns, u = rows[-1, 0].astype(int), rows[-1, 1] / model.sizes[rows[-1, 0].astype(int)]
    assert (np.abs(u) <= 1).all(), "a row that changes no units"

    def loss(theta: Array) -> float:
        z = u @ theta[columns]
        return float(np.sum(precision * (theta - before) ** 2) / 2 + np.logaddexp(0, z) - reward * z)

    model.learn(rows[-1], reward)
    assert_allclose(model.theta, minimize(loss, before, options={"gtol": 1e-9}).x, atol=1e-7)


@pytest.mark.parametrize("mean", [-40.0, -3.0, 0.0, 0.5, 600.0])
@pytest.mark.parametrize("square", [1e-9, 0.7, 8.0, 1e6])
@pytest.mark.parametrize("reward", [0.0, 0.25, 1.0])
def test_the_gain_solves_its_equation(mean: float, square: float, reward: float) -> None:
    gain = logistic_gain(mean, square, reward)
    assert reward - 1 <= gain <= reward
    exact = bisect(lambda g: g - (reward - float(expit(mean + square * g))), reward - 1, reward)
    assert gain == pytest.approx(exact, abs=1e-12)


def test_columns_that_never_meet_are_ridge_regressions() -> None:
    random = np.random.default_rng(2)
    X, rewards = np.eye(3)[random.integers(3, size=50)], random.normal(5.0, 1.0, 50)
    policy = taught(DiagonalUCB(dim=3, intercept=False, link="linear", variance=VARIANCE), X, rewards)
    ridge = LinUCB(dim=3, intercept=False)
    for x, reward in zip(X, rewards, strict=True):
        ridge.learn(x, float(reward - rewards[0]), {})
    assert_allclose(policy.predict(np.eye(3), {}) - rewards[0], ridge.predict(np.eye(3), {"lam": 1 / VARIANCE}))


def test_a_draw_has_the_deviations_that_optimism_adds() -> None:
    rows, rewards = data()
    sampled, hopeful = (taught(policy(dim=DIM, link="linear"), rows, rewards) for policy in (DiagonalTS, DiagonalUCB))
    draws = np.array([sampled.scores(rows[:5], [{"boldness": 2.0}], Stream(1, 4, t))[0] for t in range(4000)])
    means, bounds = (hopeful.scores(rows[:5], [{"boldness": c}], Stream(1, 4))[0] for c in (0.0, 2.0))
    assert_allclose(draws.std(axis=0), bounds - means, rtol=4.5 / math.sqrt(8000))
    assert (np.abs(draws.mean(axis=0) - means) < 4.5 * (bounds - means) / math.sqrt(4000)).all()


def test_arms_share_the_draw_of_a_column() -> None:
    policy = DiagonalTS(dim=DIM, intercept=False)
    one, other = scores(policy, np.array([[[5.0], [1.0]], [[5.0], [-1.0]]])).T
    assert (one == -other).all()


def test_normals_at_places_are_those_of_the_whole_stream() -> None:
    places = np.array([[0, 7, 2], [9, 9, 1]])
    assert (Stream(1, 2, 3).normals_at(places) == Stream(1, 2, 3).normals(10)[places]).all()


# what must not matter


@links
@policies
@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_rows_are_the_table_of_their_numbers(policy: Any, link: str, intercept: bool) -> None:
    rows, rewards = data()
    sparse = taught(policy(dim=DIM, link=link, intercept=intercept), rows, rewards)
    dense = taught(policy(dim=DIM, link=link, intercept=intercept), table(rows), rewards)
    for name, array in sparse.state().items():
        assert array.tobytes() == dense.state()[name].tobytes(), name
    assert (scores(sparse, rows) == scores(dense, table(rows))).all()
    assert (sparse.predict(rows, {}) == dense.predict(table(rows), {})).all()


@links
@policies
def test_zeros_that_fill_up_a_row_are_no_entries(policy: Any, link: str) -> None:
    rows, rewards = data()
    wider = np.concatenate([rows, np.zeros((len(rows), 2, 3))], axis=2)
    short, filled = (
        taught(policy(dim=DIM, link=link), rows, rewards),
        taught(policy(dim=DIM, link=link), wider, rewards),
    )
    assert (scores(short, rows) == scores(filled, wider)).all()


@links
@policies
def test_units_of_columns_do_not_matter(policy: Any, link: str) -> None:
    rows, rewards = data()
    other = rows.copy()
    other[:, 1] *= 2.0 ** np.random.default_rng(3).integers(-40, 40, DIM)[rows[:, 0].astype(int)]
    one, two = taught(policy(dim=DIM, link=link), rows, rewards), taught(policy(dim=DIM, link=link), other, rewards)
    assert (scores(one, rows) == scores(two, other)).all()


@policies
def test_units_and_origin_of_linear_rewards_do_not_matter(policy: Any) -> None:
    rows, rewards = data()
    one = taught(policy(dim=DIM, link="linear"), rows, rewards)
    two = taught(policy(dim=DIM, link="linear"), rows, 2.0**20 * rewards - 2.0**50)
    assert (2.0**20 * scores(one, rows) == scores(two, rows)).all()
    assert one.expected(0.25) == rewards[0] + 0.25


def test_a_large_value_of_a_column_does_not_bring_a_large_bonus() -> None:
    rows, rewards = data()
    policy = taught(DiagonalUCB(dim=DIM, intercept=False), rows, rewards)
    huge = policy.model.beliefs(np.array([[[3.0], [1e9]]]))[1]
    assert huge <= math.sqrt(VARIANCE / NONZEROS)


# the policies


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@policies
def test_the_linear_link_passes_the_shared_checks(policy: Any, check: Callable[[Any], None]) -> None:
    check(partial(policy, link="linear"))


@pytest.mark.parametrize(
    ("given", "message"), [({"link": "probit"}, "link must be one"), ({"variance": 0}, "variance")]
)
def test_parameters_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DiagonalUCB(dim=2, **given)


@policies
def test_clicks_on_hashed_columns_are_learned(policy: Any) -> None:
    """2^18 columns of which a row has 50: twenty arms with tokens of their own, and those of a visitor."""
    random, gains = np.random.default_rng(5), []
    agent = Agent(policy(dim=2**18), seed=1)
    own = random.choice(2**17, (20, 40), replace=False)
    weights = random.normal(0.0, 1.0, 20)
    for _ in range(400):
        visitor = 2**17 + random.choice(2**17, 10, replace=False)
        columns = np.sort(np.concatenate([own, np.tile(visitor, (20, 1))], axis=1))
        decision = agent.decide(np.stack([columns, np.ones((20, 50))], axis=1).astype(np.float64))
        agent.learn(decision, float(random.random() < expit(weights[decision.arm])))
        gains.append(expit(weights[decision.arm]) - expit(weights).mean())
    assert decision.x.shape == (2, 50)
    assert np.mean(gains[-100:]) > 0.2, f"only {np.mean(gains[-100:]):.2f} more than random arms"
    assert len(agent.state()) < 3.2 * 8 * 2**18


def test_a_model_is_as_large_as_its_columns() -> None:
    assert sum(array.nbytes for array in Diagonal(2**18, True, 4.0).state().values()) == 3 * 8 * 2**18 + 32
