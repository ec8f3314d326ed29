"""The ridge model in the data's own units: against plain sums and exact likelihoods, and what must not matter to it."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from syndicated import (
    SGDTS,
    UCBGLM,
    Agent,
    Consensus,
    EpsilonGreedy,
    Fixed,
    InputError,
    LinTS,
    LinUCB,
    Space,
    StateError,
)
from syndicated._models.known_rows import fingerprint
from syndicated._models.scaled_kernels import (
    ALIKE,
    CHECKED,
    DRIFT_ALARM,
    FOLLOWING,
    LEVEL_ALARM,
    MAX_ALIKE,
    MAX_SIZES,
    MOVING,
    NEW_SHARE,
    NO_LIMIT,
    RSS,
    SHIFT,
    SUMS,
    doubts_level,
    judge_level,
    largest_usual,
)
from syndicated._models.scaled_ridge import OWN_VARIANCES, PENALTIES, ScaledRidge
from syndicated.policies import Policy
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import ARMS, NOISE, POLICY, Stream
from syndicated.types import Array, Ints

POINT = {"boldness": 2.0}
both = pytest.mark.parametrize("make", [LinUCB, LinTS])
intercepts = pytest.mark.parametrize("intercept", [True, False])


def data(n: int, seed: int = 1) -> tuple[Array, Array]:
    """n rows of features with unlike units and origins, one of them rare, and rewards."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * [1.0, 1e-3, 100.0, 1.0] + [0.0, 0.0, 1e4, 0.0]
    X[:, 3] = random.random(n) < 0.1
    return X, 5.0 + X @ [1.0, 500.0, 0.01, -1.0] + random.normal(size=n)


def taught(
    make: type[RidgePolicy], X: Array, rewards: Array, intercept: bool = True, without: Sequence[str] = ()
) -> ScaledRidge:
    policy = make(dim=X.shape[1], intercept=intercept, without=without)
    policy.prepare([POINT])
    for x, reward in zip(X, rewards, strict=True):
        policy.learn(x, float(reward), {})
    assert isinstance(policy.model, ScaledRidge)
    return policy.model


def standardised(X: Array, centred: bool = True) -> Array:
    """Less the mean of each column, over its range; a column that is always 0 stays so."""
    ranges = np.ptp(X, axis=0)
    ranges = np.where(ranges > 0, ranges, np.maximum(np.abs(X).max(axis=0), 1e-300))
    Z: Array = (X - X.mean(axis=0) * centred) / ranges
    return Z


@both
@intercepts
@pytest.mark.parametrize("n", [1, 2, 3, 17, 300])
def test_after_a_refresh_V_theta_and_noise_are_those_of_standardised_data(
    make: type[RidgePolicy], n: int, intercept: bool
) -> None:
    X, rewards = data(n)
    model = taught(make, X, rewards, intercept, without=["relevance"])
    model._refresh()
    Z, y, N = standardised(X, intercept), rewards - rewards.mean() * intercept, n - intercept
    penalty = model.lam * np.count_nonzero(X) / n
    V = penalty * np.eye(4) + Z.T @ Z
    theta = np.linalg.solve(V, Z.T @ y)
    found = model.stack[0, :4, :4]
    np.testing.assert_allclose(found @ found.T if make is LinTS else np.linalg.inv(found), V, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.thetas[0, :4], theta, rtol=1e-6, atol=1e-7)
    if n > 2:
        noise = math.sqrt((1 + 5 / n) * (y @ y - theta @ Z.T @ y) / N)
        assert model.estimate(POINT)[1] == pytest.approx(noise * (1 - 0.8 * model.sums[NEW_SHARE]), rel=1e-6)


@both
def test_between_refreshes_theta_and_widths_follow_each_observation(make: type[RidgePolicy]) -> None:
    X, rewards = data(400)
    model = taught(make, X[:300], rewards[:300])
    model._refresh()
    assert model.due > 340
    for n in range(300, 340):
        model.learn(X[n], float(rewards[n]))
    Z = np.column_stack([(X[:340] - model.centre) * model.unit, np.ones(340)])
    before = taught(make, X[:300], rewards[:300])
    before._refresh()
    penalty = before.lam * np.count_nonzero(X[:300]) / 300
    V = np.diag([penalty] * 4 + [0.0]) + Z.T @ Z
    theta = np.linalg.solve(V, Z.T @ (rewards[:340] - rewards[0]))
    found = model.stack[0]
    np.testing.assert_allclose(found @ found.T if make is LinTS else np.linalg.inv(found), V, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(model.thetas[0], theta, rtol=1e-7, atol=1e-9)


def exact_log_likelihood(Z: Array, y: Array, penalty: float, intercept: bool) -> float:
    """log p(y | penalty) up to a constant, with level and log noise flat, from the covariance of all rewards."""
    n = len(y)
    C = np.eye(n) + Z @ Z.T / penalty
    inverse, ones = np.linalg.inv(C), np.ones(n)
    value = -0.5 * np.linalg.slogdet(C)[1]
    square, N = y @ inverse @ y, n
    if intercept:
        level = ones @ inverse @ ones
        value -= 0.5 * math.log(level)
        square, N = square - (ones @ inverse @ y) ** 2 / level, n - 1
    return float(value - 0.5 * N * math.log(square))


@intercepts
@pytest.mark.parametrize("n", [5, 40])
def test_evidence_is_the_exact_marginal_likelihood(n: int, intercept: bool) -> None:
    X, rewards = data(n)
    model = taught(LinUCB, X, rewards, intercept, without=["relevance"])
    model._refresh()
    active = np.count_nonzero(X) / n
    found = model._spectrum().log_evidence(PENALTIES * active, n - intercept)[0]
    Z, y = standardised(X, intercept), rewards - rewards.mean() * intercept
    exact = np.array([exact_log_likelihood(Z, y, lam * active, intercept) for lam in PENALTIES])
    np.testing.assert_allclose(found - found[0], exact - exact[0], rtol=1e-6, atol=1e-7)
    weights = np.exp(exact - exact.max())
    assert model.lam == pytest.approx(weights.sum() / (weights / PENALTIES).sum(), rel=1e-6)


@both
@pytest.mark.parametrize("offset", [1e3, -1e9])
def test_a_level_of_rewards_shifts_the_predictions_and_nothing_else(make: type[RidgePolicy], offset: float) -> None:
    X, rewards = data(200)
    rewards = np.round(rewards * 2**20) / 2**20  # so that the sum is exact
    plain, shifted = taught(make, X, rewards), taught(make, X, rewards + offset)
    np.testing.assert_allclose(shifted.thetas, plain.thetas, rtol=1e-9, atol=1e-9)
    (prior, noise), (other, same) = (model.estimate(POINT) for model in (plain, shifted))
    assert (*other, same) == pytest.approx((*prior, noise), rel=1e-9)
    assert shifted.level - plain.level == offset


def _arms(t: int, K: int = 8) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(3 * K).reshape(K, 3) - 1


def _fixed_arms(t: int) -> Array:
    return _arms(0)


def _one_hot_arms(t: int) -> Array:
    return np.eye(3)


COLUMNS = np.array([1e-9, 1.0, 1e9])


@both
@pytest.mark.parametrize("arms", [_arms, _fixed_arms, _one_hot_arms])
@pytest.mark.parametrize(
    ("scale", "factor", "offset"),
    [(1e-9, 1.0, 0.0), (1e9, 1.0, 0.0), (COLUMNS, 1.0, 0.0), (1.0, 1e-9, 0.0), (1.0, 1e9, 0.0), (1.0, 1.0, 1e8)],
)
def test_an_agent_plays_the_same_whatever_the_units_of_features_and_rewards(
    make: Callable[..., Policy], arms: Callable[[int], Array], scale: float | Array, factor: float, offset: float
) -> None:
    one, other, theta = Agent(make(dim=3)), Agent(make(dim=3)), np.array([1.0, -0.5, 0.25])
    for t in range(250):
        X, noise = arms(t), float(Stream(1, NOISE, t).normals(1)[0])
        first, second = one.decide(X), other.decide(X * scale)
        assert first.arm == second.arm
        reward = round((float(X[first.arm] @ theta) + 0.3 * noise) * 2**20) / 2**20
        one.learn(first, reward)
        other.learn(second, factor * reward + offset)


@both
def test_arms_of_a_catalogue_score_like_their_features_in_natural_units(make: type[RidgePolicy]) -> None:
    catalogue = np.vstack([np.eye(4) * [1.0, 2.0, 3.0, 4.0], data(6)[0]])
    by_number, by_features = make(dim=4), make(dim=4)
    by_number.prepare([POINT], catalogue)
    by_features.prepare([POINT])
    numbers = np.arange(10)
    for t in range(60):
        played = catalogue[t % 10 if t > 12 else t % 3]
        params = by_features.theory(t, POINT)
        got = by_number.scores(numbers, [params], Stream(1, POLICY, t))
        expected = by_features.scores(catalogue, [params], Stream(1, POLICY, t))
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
        means = by_features.predict(catalogue, params)
        np.testing.assert_allclose(by_number.predict(numbers, params), means, rtol=1e-9, atol=1e-9)
        for policy in (by_number, by_features):
            policy.learn(played, float(t % 7), params)


@both
def test_other_penalties_can_be_asked_for(make: type[RidgePolicy]) -> None:
    X, rewards = data(50)
    model = taught(make, X, rewards)
    model._refresh()
    found = model.select([(model.lam, 1.0, 1.0), (2.0 * model.lam, 1.0, 1.0)])
    np.testing.assert_allclose(found.thetas[0], model.thetas[0], rtol=1e-9)
    assert np.linalg.norm(found.thetas[1, :4]) < np.linalg.norm(found.thetas[0, :4])


ODD_COLUMNS: dict[str, Callable[[int], float]] = {
    "always 0": lambda t: 0.0,
    "always the same": lambda t: 7.0,
    "the same up to rounding": lambda t: 0.1 + 0.2 if t % 2 else 0.3,
    "0 for long": lambda t: float(t > 150),
    "once very large": lambda t: 1e12 if t == 150 else t % 5 / 5,
    "a point in time": lambda t: 1.7e9 + t,
}


@both
@pytest.mark.parametrize("column", ODD_COLUMNS.values(), ids=ODD_COLUMNS)
def test_odd_columns_do_no_harm(make: Callable[..., Policy], column: Callable[[int], float]) -> None:
    agent, late = Agent(make(dim=4)), []
    for t in range(300):
        X = np.column_stack([_arms(t), np.full(8, column(t))])
        means = X[:, 0] - X[:, 1]
        decision = agent.decide(X)
        agent.learn(decision, float(means[decision.arm] + 0.1 * Stream(1, NOISE, t).normals(1)[0]))
        late.append(means.max() - means[decision.arm])
    assert np.mean(late[200:]) < 0.15


# Outliers.


def steady(n: int, seed: int = 1) -> tuple[Array, Array]:
    """Rows and rewards of an ordinary world: noise 0.1."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 3))
    return X, 2.0 + X @ [1.0, -0.5, 0.25] + 0.1 * random.normal(size=n)


@both
@pytest.mark.parametrize("outlier", [10.0, -1e6])
def test_no_single_reward_owns_the_model(make: type[RidgePolicy], outlier: float) -> None:
    X, rewards = steady(300)
    plain = taught(make, X, rewards)
    rewards[200] += outlier
    hit = taught(make, X, rewards)
    np.testing.assert_allclose(hit.thetas, plain.thetas, atol=0.02)
    assert hit.estimate(POINT)[1] == pytest.approx(plain.estimate(POINT)[1], rel=0.1)


def test_an_error_counts_up_to_seven_medians_of_the_last_unless_more_than_three_were_larger() -> None:
    sizes = np.abs(np.random.default_rng(1).normal(size=MAX_SIZES))
    median = np.sort(sizes)[MAX_SIZES // 2]
    assert largest_usual(sizes, 1000, 0.0) == pytest.approx(7 * median)
    sizes[:3] = 50.0
    assert largest_usual(sizes, 1000, 0.0) < 10.0
    sizes[3] = 40.0
    assert largest_usual(sizes, 1000, 0.0) == 40.0
    assert largest_usual(sizes, 19, 0.0) == NO_LIMIT
    assert largest_usual(sizes, 1000, 501.0) == NO_LIMIT


def test_rare_clicks_are_no_outliers() -> None:
    X, _ = steady(2000)
    clicks = (np.random.default_rng(2).random(2000) < 0.01).astype(float)
    model = taught(LinUCB, X[:0], clicks[:0])
    for x, reward in zip(X, clicks, strict=True):
        model.learn(x, reward)
        assert model.excess == 0.0
    assert model.level + model.b[-1] / model.G[-1, -1] == pytest.approx(clicks.mean())


def test_the_tuner_is_told_what_an_outlier_counted_as() -> None:
    agent = Agent(LinUCB(dim=3), Consensus(Space(boldness=[1, 2, 4])))
    for t in range(200):
        decision = agent.decide(_arms(t))
        agent.learn(decision, float(decision.x[0]) + (1e9 if t == 150 else 0.1 * t % 1))
    assert isinstance(agent.tuner, Consensus)
    assert agent.tuner.seen[3] - agent.tuner.seen[2] < 50


# A world that changes.


def changed(n: int, at: int) -> tuple[Array, Array]:
    X, rewards = steady(n)
    rewards[at:] -= 2 * X[at:] @ [1.0, -0.5, 0.25]
    return X, rewards


@both
def test_the_model_starts_again_where_the_world_has_changed_and_only_there(make: type[RidgePolicy]) -> None:
    X, rewards = changed(900, 600)
    model = taught(make, X[:600], rewards[:600])
    assert model.G[-1, -1] == 600
    for x, reward in zip(X[600:], rewards[600:], strict=True):
        model.learn(x, float(reward))
    assert 200 < model.G[-1, -1] < 300
    policy = make(dim=3)
    policy.prepare([POINT])
    policy.model = model
    means = policy.predict(np.vstack([np.eye(3), np.zeros(3)]), policy.theory(0, POINT))
    np.testing.assert_allclose(means[:3] - means[3], [-1.0, 0.5, -0.25], atol=0.1)


def test_the_suspicions_are_cusums_of_how_much_better_the_last_errors_explain_the_next() -> None:
    X, rewards = changed(400, 300)
    policy = LinUCB(dim=3)
    policy.prepare([POINT])
    model = policy.model
    assert isinstance(model, ScaledRidge)
    m, trace, level, drift = 0.0, np.zeros(3), 0.0, 0.0
    for x, reward in zip(X[:310], rewards[:310], strict=True):
        z = np.append((x - model.centre) * model.unit, 1.0)
        u, N, error = model.stack[0] @ z, model.G[-1, -1], reward - model.level - z @ model.thetas[0]
        scale, rss = 1 + z @ u, model.sums[RSS]
        policy.learn(x, float(reward), {})
        if N:
            along = N / 50 * (u[:3] @ trace)
            if N > 50:
                level = max(0.0, level + min(2.0, (error**2 - (error - m) ** 2) / (2 * scale * rss / N)))
                gain = ((error - m) ** 2 - (error - m - along) ** 2) / (2 * scale * rss / N)
                drift = max(0.0, drift + min(2.0, gain))
            cut = error - model.excess
            trace = 0.98 * trace + z[:3] * (cut - m)
            m += 0.1 * (cut - m)
        assert model.sums[LEVEL_ALARM] == pytest.approx(level, rel=1e-6, abs=1e-9)
        assert model.sums[DRIFT_ALARM] == pytest.approx(drift, rel=1e-6, abs=1e-9)
    assert drift > 1


@both
def test_a_level_that_moves_is_followed_apart_from_the_model(make: type[RidgePolicy]) -> None:
    X, rewards = steady(1500)
    season = 3 * np.sin(np.arange(1500) / 100)
    model = taught(make, X, rewards + season)
    assert model.sums[FOLLOWING] == 1.0
    assert model.G[-1, -1] > 1000
    slopes = model.thetas[0, :3] * model.unit
    np.testing.assert_allclose(slopes, [1.0, -0.5, 0.25], atol=0.1)
    assert model.level + model.thetas[0, -1] == pytest.approx(2.0 + season[-1], abs=0.5)


@both
@pytest.mark.parametrize(
    ("moved", "drift", "new_share", "kept"),
    [
        (0.3, 5.0, 1.0, True),
        (0.3, 31.0, 1.0, False),  # it is theta
        (-0.3, 0.0, 1.0, False),  # under another theta, the rows that are played would pay less, too
        (0.3, 0.0, 0.5, True),
        (0.3, 0.0, 0.49, False),  # it may be the row that is played
    ],
)
def test_where_rows_are_new_theta_is_kept_if_the_level_has_risen(
    make: type[RidgePolicy], moved: float, drift: float, new_share: float, kept: bool
) -> None:
    model = taught(make, *steady(600))
    model.sums[[LEVEL_ALARM, DRIFT_ALARM, MOVING, NEW_SHARE]] = 30.0, drift, moved, new_share
    level = model.level
    model._restart()
    if not kept:
        assert model.G[-1, -1] == model.sums[FOLLOWING] == 0.0
        return
    assert model.G[-1, -1] == pytest.approx(5 * (3 + 1))
    assert model.level == level + moved
    assert not model.doubts_level
    np.testing.assert_allclose(model.thetas[0, :3] * model.unit, [1.0, -0.5, 0.25], atol=0.05)


@both
def test_what_is_known_of_theta_outlives_a_step_of_the_level(make: type[RidgePolicy]) -> None:
    X, rewards = steady(1300)
    rewards[1200:] += 0.5
    model = taught(make, X, rewards)
    assert 20 < model.G[-1, -1] < 120
    assert model.sums[FOLLOWING] == 1.0
    assert model.level + model.thetas[0, -1] == pytest.approx(2.5, abs=0.1)
    np.testing.assert_allclose(model.thetas[0, :3] * model.unit, [1.0, -0.5, 0.25], atol=0.05)


def test_the_odds_that_rows_move_with_the_level_are_those_of_two_normal_likelihoods() -> None:
    rng, sums = np.random.default_rng(3), np.zeros(SUMS)
    for noise, level in rng.normal(0.3, 0.5, size=(40, 2)):
        before, variance, moved = sums[ALIKE], abs(noise), level + noise
        with_level, without = (-0.5 * (moved - at) ** 2 / variance for at in (level, 0.0))
        judge_level(sums, moved, level, variance)
        assert sums[ALIKE] == pytest.approx(np.clip(before + min(with_level - without, 2.0), -5.0, 5.0))
        assert sums[FOLLOWING] == 1.0 or sums[ALIKE] <= 3.0
    assert sums[FOLLOWING] == 1.0


def test_a_level_is_followed_once_the_logarithm_of_the_odds_for_it_is_above_3() -> None:
    sums = np.zeros(SUMS)
    for gain, following in ((2.0, 0.0), (0.9, 0.0), (0.2, 1.0)):
        judge_level(sums, 1.0, 1.0, 0.5 / gain)
        assert sums[FOLLOWING] == following
    assert sums[ALIKE] == pytest.approx(3.1)


def test_a_level_is_in_doubt_once_it_has_moved_three_noises_and_is_followed() -> None:
    sums = np.zeros(SUMS)
    sums[[RSS, MOVING, CHECKED]] = 100 * 0.25, 2.1, 0.5
    assert not doubts_level(sums, 100.0)
    sums[FOLLOWING] = 1.0
    assert doubts_level(sums, 100.0)
    sums[MOVING] = 1.9
    assert not doubts_level(sums, 100.0)
    sums[MOVING] = -1.1
    assert doubts_level(sums, 100.0)


ROWS = np.array([[1.0, 0.2], [0.4, 0.9], [-0.3, 0.5], [-0.8, -0.6], [0.1, -1.0], [0.6, -0.4]])


def play_rows(
    rewards: Callable[[int], Array], rounds: int, make: type[RidgePolicy] = LinUCB
) -> tuple[Agent, list[int]]:
    """An agent with the same six rows in every round, and what it played."""
    agent, noise, played = Agent(make(dim=2), seed=4), np.random.default_rng(8), []
    for t in range(rounds):
        decision = agent.decide(ROWS)
        agent.learn(decision, float(rewards(t)[decision.arm] + 0.05 * noise.normal()))
        played.append(decision.arm)
    return agent, played


@both
def test_a_level_that_rises_slowly_is_followed_where_the_same_rows_come_back(make: type[RidgePolicy]) -> None:
    agent, played = play_rows(lambda t: ROWS @ [0.5, 0.1] + 0.0004 * t, 5000, make)
    assert isinstance(agent.policy, RidgePolicy)
    model = agent.policy.model
    assert isinstance(model, ScaledRidge)
    assert model.sums[FOLLOWING] == 1.0
    assert model.G[-1, -1] > 2000  # it has not started again for long
    assert np.mean(np.array(played[2000:]) != 0) < 0.02


def rows_in_turn(model: ScaledRidge, rewards: Callable[[int], Array], rounds: int, rows: Sequence[int]) -> None:
    """Teach the model these rows of `ROWS` in turn."""
    noise = np.random.default_rng(5)
    for t in range(rounds):
        row = rows[t % len(rows)]
        model.learn(ROWS[row], float(rewards(t)[row] + 0.05 * noise.normal()))


RISE = 0.0005  # of the level in a round, a hundredth of the noise


def followed(rounds: int) -> ScaledRidge:
    """A model of six rows that follows a level, of which then only the first row is played while it rises."""
    model, means = ScaledRidge(2, True), ROWS @ [0.5, 0.1]
    rows_in_turn(model, lambda t: means, 300, range(6))
    model.sums[[FOLLOWING, ALIKE]] = 1.0, MAX_ALIKE
    rows_in_turn(model, lambda t: means + RISE * t, rounds, [0])
    return model


far = pytest.mark.parametrize("rounds", [600, 1500, 4000])


@far
def test_one_row_that_has_not_moved_refutes_a_level_however_far_that_went(rounds: int) -> None:
    model, means = followed(rounds), ROWS @ [0.5, 0.1]
    assert model.doubts_level
    rows_in_turn(model, lambda t: means, 1, [3])
    assert model.G[-1, -1] == 0.0
    assert model.sums[FOLLOWING] == 0.0


@far
def test_rows_that_have_moved_confirm_a_level_and_half_of_its_way(rounds: int) -> None:
    model, means = followed(rounds), ROWS @ [0.5, 0.1]
    moved, asked, learned = model.sums[MOVING], model.sums[CHECKED], model.G[-1, -1]
    rows_in_turn(model, lambda t: means + RISE * rounds, 1, [3])
    assert model.G[-1, -1] == learned + 1
    assert model.sums[FOLLOWING] == 1.0
    assert model.sums[CHECKED] == pytest.approx((moved + asked) / 2)


def test_a_row_that_comes_back_late_is_not_judged_by_a_shift_of_long_ago() -> None:
    """The level rises, which five rows confirm, and then falls: the sixth row falls with it."""
    model, means = ScaledRidge(2, True), ROWS @ [0.5, 0.1]
    rows_in_turn(model, lambda t: means, 900, range(6))
    rows_in_turn(model, lambda t: means, 40, [0])
    while model.G[-1, -1]:  # until the alarm
        rows_in_turn(model, lambda t: means + 0.3, 1, [0])
    assert model.sums[FOLLOWING] == 0.0
    assert model.sums[SHIFT] == pytest.approx(0.3, abs=0.2)
    rows_in_turn(model, lambda t: means + 0.3, 5, range(5))
    assert model.sums[FOLLOWING] == 1.0
    rows_in_turn(model, lambda t: means + 0.3 - RISE * t, 1200, range(5))
    before = model.sums[ALIKE]
    rows_in_turn(model, lambda t: means - 0.3, 1, [5])
    assert model.sums[ALIKE] >= before > 0.0


@both
def test_a_row_that_falls_alone_is_no_level_and_another_is_found(make: type[RidgePolicy]) -> None:
    """Theta moves from one end to the other: the row that is played, the best one, becomes the worst."""
    theta = np.array([0.5, 0.1])
    _, played = play_rows(lambda t: ROWS @ theta * (1 - t / 2000), 4000, make)
    assert np.mean(np.array(played[1000:1500]) == 0) > 0.9
    assert np.mean(np.array(played[3600:]) == 3) > 0.9


def test_without_an_intercept_no_level_is_followed() -> None:
    X, rewards = steady(500)
    model = taught(LinUCB, X, rewards, intercept=False)
    assert model.level == model.sums[FOLLOWING] == 0.0


def test_the_least_penalty_is_that_of_rewards_without_noise() -> None:
    X, _ = data(300)
    assert taught(LinUCB, X, X.sum(axis=1)).lam == pytest.approx(1e-4, rel=1e-6)


def test_the_noise_of_few_errors_counts_as_more() -> None:
    X, y = data(400)
    for n in (4, 400):
        model = taught(LinUCB, X[:n], y[:n])
        model.sums[NEW_SHARE], model._estimated = 0.0, None
        assert model.estimate({})[1] ** 2 == pytest.approx((1 + 5 / n) * model.sums[RSS] / (n - 1))


@pytest.mark.parametrize("kinds", [4, 300, 10_000])
def test_where_rows_are_new_boldness_counts_for_less(kinds: int) -> None:
    """As far as they are not among the 256 rows played last: one standard error in place of two and a half."""
    rng = np.random.default_rng(kinds)
    table, share = rng.normal(size=(kinds, 4)), 0.0
    played: list[int] = []
    model = ScaledRidge(4, True)
    for n, row in enumerate(rng.integers(kinds, size=400), start=1):
        share += (float(row not in played[-256:]) - share) / min(n + 20, 200)
        played = [*(other for other in played if other != row), row]
        model.learn(table[row], rng.normal())
    assert model.sums[NEW_SHARE] == pytest.approx(share)
    unit = model.estimate({})[1]
    model.sums[NEW_SHARE], model._estimated = 0.0, None
    assert unit == pytest.approx((1 - 0.8 * share) * model.estimate({})[1])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_rows_that_differ_in_anything_are_different(unit: float) -> None:
    rows = unit * np.vstack([np.zeros(30), np.eye(30), np.ones(30), -np.eye(30), 1 - np.eye(30)])
    assert len({fingerprint(rows, a) for a in range(len(rows))}) == len(rows)


def test_arms_that_are_equally_good_are_played_at_random_and_whatever_their_order() -> None:
    arms = [Agent(LinUCB(dim=20), seed=seed).decide(np.eye(20)).arm for seed in range(200)]
    assert np.bincount(arms, minlength=20).max() < 30  # 10 on average
    catalogue = [Agent(LinUCB(dim=20), seed=s, catalogue=np.eye(20)).decide(range(20)).arm for s in range(200)]
    assert catalogue == arms
    policy = LinUCB(dim=2)
    policy.prepare([{"boldness": 2.0}])
    alone = policy.scores(np.array([[1.0, 0.0], [0.0, 0.0]]), [policy.theory(0, {"boldness": 2.0})], Stream(1, POLICY))
    assert alone[0, 0] > alone[0, 1]


def test_in_units_that_are_given_the_first_of_equals_is_played() -> None:
    plain = Fixed(Space(alpha=[1.0]))
    assert {Agent(LinUCB(dim=20), plain, seed=seed).decide(np.eye(20)).arm for seed in range(20)} == {0}


@pytest.mark.parametrize(("make", "boldness"), [(LinUCB, 2.5), (LinTS, 0.85)])
def test_an_agent_without_a_tuner_plays_what_the_policy_advises(make: type[Policy], boldness: float) -> None:
    agent = Agent(make(dim=3))
    assert agent.tuner.points == ({"boldness": boldness},)
    assert isinstance(agent.tuner, Fixed)
    assert f"Fixed(space=Space(boldness=[{boldness}]))" in repr(agent)
    assert agent.decide(_arms(0)).propensity == 1.0


def test_boldness_may_be_nothing_and_a_stride_may_not() -> None:
    assert Agent(LinUCB(dim=3), Fixed(Space(boldness=[0.0]))).decide(_arms(0)).params["alpha"] == 0.0
    with pytest.raises(InputError, match="stride must be"):
        Agent(SGDTS(dim=3), Fixed(Space(stride=[0.0], boldness=[1.0])))


def exact_weights(Z: Array, y: Array, active: float, intercept: bool) -> Array:
    """EM by plain inverses: the weights of columns, pooled with equal ones by how likely rewards are under either."""
    n, weights = len(y), np.ones(Z.shape[1])

    def likelihoods(w: Array) -> Array:
        return np.array([exact_log_likelihood(Z * np.sqrt(w), y, lam * active, intercept) for lam in PENALTIES])

    for _ in range(3):
        found = np.exp(likelihoods(weights) - likelihoods(weights).max())
        penalty = active * found.sum() / (found / PENALTIES).sum()
        inverse = np.linalg.inv(Z.T @ Z + np.diag(penalty / weights))
        theta = inverse @ Z.T @ y
        noise2 = (y @ y - theta @ Z.T @ y) / (n - intercept)
        weights = (1.0 + (theta**2 / noise2 + np.diag(inverse)) * penalty) / 2.0
    prior = -0.5 * np.sum(np.log(weights) + 1.0 / weights - 1.0)
    gain = np.logaddexp.reduce(likelihoods(weights)) - np.logaddexp.reduce(likelihoods(np.ones(len(weights)))) + prior
    share = 1.0 / (1.0 + math.exp(3.0 - gain))
    pooled: Array = share * weights + (1.0 - share)
    return pooled


@both
@intercepts
@pytest.mark.parametrize("n", [20, 40, 400])
def test_columns_weigh_what_they_tell_as_far_as_rewards_are_likelier_so(
    make: type[RidgePolicy], n: int, intercept: bool
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 8)) * 10.0 ** np.arange(-4, 4)
    rewards = 3.0 * intercept + X[:, 2] * 100.0 + 0.5 * rng.normal(size=n)
    model = taught(make, X, rewards, intercept, without=["outliers"])
    model._refresh()
    Z, y = standardised(X, intercept), rewards - rewards.mean() * intercept
    expected = exact_weights(Z, y, 8.0, intercept)
    assert expected.argmax() == 2
    np.testing.assert_allclose((model.unit * np.ptp(X, axis=0)) ** 2, expected, rtol=1e-5)
    if n == 400:
        assert expected[2] > 10.0 * np.delete(expected, 2).max()
        assert "1 of 8 features" in model.chosen["relevance"]


def test_columns_that_are_always_0_do_not_matter_for_weights() -> None:
    X = np.random.default_rng(2).normal(size=(300, 8))
    rewards = X[:, 1] + 0.3 * np.random.default_rng(3).normal(size=300)
    wide = np.column_stack([X, np.zeros((300, 30))])
    plain, zeros, left_out = (
        taught(LinUCB, *given) for given in ((X, rewards), (wide, rewards), (wide, rewards, True, ["relevance"]))
    )
    np.testing.assert_allclose(zeros.unit[:8], plain.unit)
    assert plain.chosen["relevance"] == "1 of 8 features tell more than the others, and weigh more"
    assert zeros.chosen["relevance"] == "1 of 38 features tell more than the others, and weigh more"
    assert "relevance" not in left_out.chosen


def test_rows_of_mostly_zeros_are_not_weighed() -> None:
    rng = np.random.default_rng(1)
    arms = rng.integers(8, size=200)
    rewards = np.where(arms == 3, 10.0, 0.0) + rng.normal(size=200)
    model = taught(LinUCB, np.eye(8)[arms], rewards)
    assert set(model.unit) == {1.0}
    assert "relevance" not in model.chosen


def test_without_noise_columns_are_not_weighed() -> None:
    X = np.random.default_rng(1).normal(size=(40, 3))
    model = taught(LinUCB, X, np.full(40, 7.0))
    model._refresh()
    np.testing.assert_allclose(model.unit, 1.0 / np.ptp(X, axis=0))


def _effects_data(n: int, kinds: int, spread: float) -> tuple[Ints, Array, Array]:
    """Which of some rows was played in each of n rounds, the rows, and rewards with effects of the rows."""
    rng = np.random.default_rng(3)
    rows, effects = rng.normal(size=(kinds, 3)) * [1.0, 100.0, 1e-3], spread * rng.normal(size=kinds)
    played = np.minimum(rng.geometric(0.1, size=n) - 1, kinds - 1)
    return played, rows, 7.0 + rows[played] @ [1.0, 0.01, 500.0] + effects[played] + 0.3 * rng.normal(size=n)


def _covariance(Z: Array, played: Ints, penalty: float, variance: float) -> Array:
    """Of all rewards, over the noise's variance: what is linear, the effects of rows, and noise."""
    same = (played[:, None] == played).astype(float)
    C: Array = np.eye(len(Z)) + Z @ Z.T / penalty + variance * same
    return C


@both
@intercepts
def test_effects_of_rows_are_those_of_the_exact_posterior(make: type[RidgePolicy], intercept: bool) -> None:
    played, rows, rewards = _effects_data(150, 12, 0.6)
    rewards -= 7.0 * (not intercept)
    policy, learned = make(dim=3, intercept=intercept), []
    policy.prepare([POINT])
    model = policy.model
    assert isinstance(model, ScaledRidge)
    for n, x, reward in zip(range(170), rows[[*played, *played[:20]]], [*rewards, *rewards[:20] + 0.1], strict=True):
        policy.learn(x, float(reward), {})
        learned.append(policy.usual(float(reward)))
        if n == 149:
            model._refresh()
            penalty = model.lam * np.count_nonzero(rows[played]) / 150
        if n in (149, 169):  # at a refresh, and 20 observations after it
            assert model.own_variance > 0.0
            _check_posterior(policy, model, rows, np.resize(played, n + 1), np.array(learned), penalty)


def _check_posterior(
    policy: RidgePolicy, model: ScaledRidge, rows: Array, played: Ints, rewards: Array, penalty: float
) -> None:
    every, flat = (rows - model.centre) * model.unit, 1e6 * policy.intercept  # a level of which nothing is known
    C = _covariance(every[played], played, penalty, model.own_variance) + flat
    cross = every @ every[played].T / penalty + model.own_variance * (np.arange(len(rows))[:, None] == played) + flat
    expected, params = cross @ np.linalg.solve(C, rewards - model.origin) + model.level, policy.theory(0, POINT)
    np.testing.assert_allclose(policy.predict(rows, params), expected, rtol=1e-4, atol=1e-4)
    if isinstance(policy, LinUCB):
        prior = np.einsum("ij,ij->i", every, every) / penalty + model.own_variance + flat
        left = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(C, cross.T))
        bonus = policy.scores(rows, [params], Stream(0, POLICY))[0] - policy.predict(rows, params) + model.level
        np.testing.assert_allclose(bonus, params["alpha"] * np.sqrt(left), rtol=1e-3)


@intercepts
def test_effects_of_rows_are_chosen_by_the_exact_likelihood(intercept: bool) -> None:
    played, rows, rewards = _effects_data(80, 12, 0.5)
    rewards -= 7.0 * (not intercept)
    model = taught(LinUCB, rows[played], rewards, intercept, without=["relevance"])
    model._refresh()
    plays, active = model.known[0][model.known[0] > 0], np.count_nonzero(rows[played]) / len(played)
    Z, y = rows[played] * model.unit, rewards

    def exact(variance: float) -> float:
        values = []
        for lam in PENALTIES:
            C, ones = _covariance(Z, played, lam * active, variance), np.ones(len(y))
            inverse = np.linalg.inv(C)
            value, square = -0.5 * np.linalg.slogdet(C)[1], y @ inverse @ y
            if intercept:
                square -= (ones @ inverse @ y) ** 2 / (ones @ inverse @ ones)
                value -= 0.5 * math.log(ones @ inverse @ ones)
            values.append(value - 0.5 * (len(y) - intercept) * math.log(square))
        return float(np.logaddexp.reduce(values))

    found = model._marginals(plays, np.array([0.0, *OWN_VARIANCES]))
    expected = [exact(v) for v in (0.0, *OWN_VARIANCES)]
    np.testing.assert_allclose(np.array(found) - found[0], np.array(expected) - expected[0], rtol=1e-5, atol=1e-5)
    expected[0] += 3.0 + math.log(5)
    weights = np.exp(np.array(expected) - max(expected))
    assert model.own_variance == pytest.approx(weights[1:] @ OWN_VARIANCES / weights.sum(), rel=1e-4)


def test_rows_that_never_come_back_have_no_effects_and_those_that_do_only_if_they_show_them() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    rewards = rows @ [1.0, 2.0, 3.0] + rng.normal(size=200)
    assert taught(LinUCB, rows, rewards).own_variance == 0.0
    played, rows, rewards = _effects_data(2000, 12, 0.0)
    model = taught(LinUCB, rows[played], rewards)
    model._refresh()
    assert model.own_variance < 0.01
    played, rows, rewards = _effects_data(2000, 12, 0.3)
    model = taught(LinUCB, rows[played], rewards)
    model._refresh()
    assert 0.3 < model.own_variance < 10.0  # the truth is 1


@both
@pytest.mark.parametrize("by_number", [False, True])
def test_rows_that_pay_what_their_features_do_not_say_are_told_apart(make: type[RidgePolicy], by_number: bool) -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(20, 3))
    means = rows @ [0.1, 0.0, -0.1] + 0.5 * rng.normal(size=20)
    agent = Agent(make(dim=3), catalogue=rows if by_number else None, seed=1)
    played = []
    for _ in range(600):
        decision = agent.decide(np.arange(20) if by_number else rows)
        agent.learn(decision, means[decision.arm] + 0.1 * rng.normal())
        played.append(decision.arm)
    assert isinstance(agent.policy, RidgePolicy)
    assert isinstance(agent.policy.model, ScaledRidge)
    assert agent.policy.model.own_variance > 0.0
    assert played[-200:].count(int(means.argmax())) > 150


@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_arms_of_a_catalogue_with_effects_of_their_own_score_like_their_features(make: type[RidgePolicy]) -> None:
    played, rows, rewards = _effects_data(120, 12, 0.6)
    by_number, by_row = make(dim=3), make(dim=3)
    by_number.prepare([POINT], rows)
    by_row.prepare([POINT])
    for n, x, reward in zip(range(120), rows[played], rewards, strict=True):
        by_number.learn(x, float(reward), {})
        by_row.learn(x, float(reward), {})
        if n > 60:
            found, expected = (
                policy.scores(arms, [policy.theory(0, POINT)], Stream(0, POLICY))
                for policy, arms in ((by_number, np.arange(12)), (by_row, rows))
            )
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert by_row.model.own_variance > 0.0  # type: ignore[union-attr]


def test_rows_of_a_very_large_catalogue_have_no_effects() -> None:
    """Each would have to be looked up for every decision."""
    played, rows, rewards = _effects_data(120, 12, 0.6)
    for arms, own in ((10_000, True), (10_001, False)):
        policy = LinUCB(dim=3)
        policy.prepare([POINT], np.resize(rows, (arms, 3)))
        for x, reward in zip(rows[played], rewards, strict=True):
            policy.learn(x, float(reward), {})
        assert isinstance(policy.model, ScaledRidge)
        assert (policy.model.own_variance > 0.0) == own


# Parts that can be left out


def _without(part: str, X: Array, rewards: Array) -> tuple[ScaledRidge, ScaledRidge]:
    """Models that learned the same, without and with a part."""
    policies = LinUCB(dim=X.shape[1], without=[part]), LinUCB(dim=X.shape[1])
    for policy in policies:
        policy.prepare([POINT])
        policy.learn_many(X, rewards, [{}] * len(X))
    models = [policy.model for policy in policies]
    assert all(isinstance(model, ScaledRidge) for model in models)
    return models[0], models[1]  # type: ignore[return-value]


def test_the_discount_of_new_rows_can_be_left_out() -> None:
    X, rewards = data(300)
    without, whole = _without("discount", X, rewards)
    share = whole.sums[NEW_SHARE]
    assert share > 0.9
    assert without.sums[NEW_SHARE] == share
    assert whole.estimate(POINT)[1] == pytest.approx((1 - 0.8 * share) * without.estimate(POINT)[1])
    assert without.best(X, np.ones(1)) is not None
    assert without.estimate(POINT)[1] == pytest.approx(whole.estimate(POINT)[1] / (1 - 0.8 * share))
    assert "boldness 1 is 1 standard errors" in without.chosen["new rows"]


def test_effects_of_rows_can_be_left_out() -> None:
    played, rows, rewards = _effects_data(80, 12, 0.5)
    without, whole = _without("effects", rows[played], rewards)
    assert whole.own_variance > 0.0 == without.own_variance


def test_the_cut_of_outliers_can_be_left_out() -> None:
    X, rewards = data(200)
    rewards[150] += 1e4
    without, whole = _without("outliers", X, rewards)
    assert whole.sums[RSS] < 1e4 < 1e6 < without.sums[RSS]


def test_the_weights_of_columns_can_be_left_out() -> None:
    X = np.random.default_rng(2).normal(size=(300, 6))
    without, whole = _without("relevance", X, X[:, 0] + 0.3 * np.random.default_rng(3).normal(size=300))
    weights = (whole.unit / without.unit) ** 2
    assert weights[0] > 10.0 * weights[1:].max()
    assert "relevance" not in without.chosen


def test_restarts_can_be_left_out() -> None:
    X, rewards = data(400)
    rewards[200:] *= -1.0
    without, whole = _without("restarts", X, rewards)
    assert whole.G[-1, -1] < 250 < 400 == without.G[-1, -1]


def test_trials_can_be_left_out() -> None:
    X, rewards = data(50)
    without, whole = _without("trials", X, rewards)
    new = X + 1.0
    assert whole.untried(new).all()
    assert not without.untried(new).any()


@pytest.mark.parametrize(
    ("make", "without", "said"),
    [
        (
            LinUCB,
            ["speed"],
            "must be a list of some of discount, effects, outliers, relevance, restarts, trials for LinUCB; got",
        ),
        (
            LinTS,
            "trials",
            "without must be a list of some of discount, effects, outliers, relevance, restarts, trials for LinTS; got",
        ),
        (
            EpsilonGreedy,
            ["trials"],
            "without must be a list of some of effects, outliers, relevance, restarts for EpsilonGreedy",
        ),
        (UCBGLM, ["effects"], "without must be empty for UCBGLM; got"),
    ],
)
def test_only_parts_that_a_policy_has_can_be_left_out(make: type[RidgePolicy], without: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make(dim=2, without=without)


def test_what_is_left_out_is_part_of_the_policy(tmp_path: Path) -> None:
    policy = LinUCB(dim=2, without=("trials",))
    assert policy.fresh().without == ("trials",)
    assert policy.get_params()["without"] is policy.without
    Agent(policy, seed=1).save(tmp_path / "agent.state")
    assert Agent.load(tmp_path / "agent.state").policy.parameters() == policy.parameters()
    with pytest.raises(StateError):
        Agent(LinUCB(dim=2), seed=1).restore(Agent(policy, seed=1).state())
