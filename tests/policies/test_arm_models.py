"""Models of arms against plain formulas: separate regressions, one dense one with shared columns, exact fits."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from support.copies import finish

from syndicated._models import arm_models
from syndicated._models.arm_kernels import (
    LEFT,
    MAX_STALE,
    MIN_CLICK_VARIANCE,
    NOW,
    find_beaten,
    leave_cut_rows,
    unit_of,
    visit,
)
from syndicated._models.arm_models import ARM, HOPE, ArmModels
from syndicated.policies import ArmUCB
from syndicated.streams import POLICY, Stream
from syndicated.types import ArmRows, Array, Ints

Data = tuple[Array, Ints, Array]


def _data(n: int, K: int, d: int, seed: int, *, clicks: bool) -> Data:
    rng = np.random.default_rng(seed)
    X, arms = rng.normal(size=(n, d)) * np.logspace(-3, 3, d) + 10.0 * np.logspace(-3, 3, d), rng.integers(K, size=n)
    f = 0.8 * ((X / np.logspace(-3, 3, d) - 10.0) @ rng.normal(size=d)) + rng.normal(size=K)[arms]
    return X, arms, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(float) if clicks else 50.0 + f + rng.normal(size=n)


def _learned(data: Data, **options: Any) -> ArmModels:
    model = ArmModels(**{"dim": data[0].shape[1], "logistic": False, "hybrid": False, "variance": 4.0, **options})
    for x, arm, reward in zip(*data, strict=True):
        model.learn(int(arm), x, float(reward))
    return model


def _scaled(model: ArmModels, X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), np.clip((X - model.center) * model.weight, -5, 5)])


def _rows(X: Array, arm: int) -> ArmRows:
    return ArmRows(np.ascontiguousarray(X), np.full(len(X), arm))


@pytest.mark.parametrize("n", [1, 7, 60, 64, 65, 300])
def test_linear_models_of_arms_are_separate_ridge_regressions(n: int) -> None:
    X, arms, rewards = data = _data(n, 3, 4, seed=n, clicks=False)
    model = _learned(data)
    level, prior = rewards.mean(), np.append(1.0, np.full(4, model.slope_variance))
    for arm in range(3):
        mine = arms == arm
        Z, z = _scaled(model, X[mine]), _scaled(model, X[:5])
        P = np.linalg.inv(Z.T @ Z + np.diag(1 / prior))
        theta = P @ Z.T @ (rewards[mine] - level)
        means, sds = model.beliefs(_rows(X[:5], arm if mine.any() else -1))
        np.testing.assert_allclose(means, level + z @ theta, rtol=1e-6)
        np.testing.assert_allclose(
            sds, unit_of(model.sums, False) * np.sqrt(np.einsum("ki,ij,kj->k", z, P, z)), rtol=1e-6
        )


@pytest.mark.parametrize("n", [5, 64, 200])
def test_a_hybrid_is_one_dense_regression_on_shared_and_own_columns(n: int) -> None:
    X, arms, rewards = data = _data(n, 4, 3, seed=n + 1, clicks=False)
    model = _learned(data, hybrid=True)
    level, prior = rewards.mean(), np.append(1.0, np.full(3, model.slope_variance))
    own, common = (1 - model.share) * prior, model.share * prior

    def dense(X: Array, arms: Ints) -> Array:
        Z, out = _scaled(model, X), np.zeros((len(X), 5, 4))
        out[:, 0], out[np.arange(len(X)), arms + 1] = Z, Z
        return out.reshape(len(X), -1)

    Z = dense(X, arms)
    P = np.linalg.inv(Z.T @ Z + np.diag(1 / np.concatenate([common, *[own] * 4])))
    theta = P @ Z.T @ (rewards - level)
    for arm in range(4):
        z = dense(X[:5], np.full(5, arm))
        means, sds = model.beliefs(_rows(X[:5], arm if (arms == arm).any() else -1))
        np.testing.assert_allclose(means, level + z @ theta, rtol=1e-6)
        np.testing.assert_allclose(
            sds, unit_of(model.sums, False) * np.sqrt(np.einsum("ki,ij,kj->k", z, P, z)), rtol=1e-6
        )


def test_what_retired_arms_have_shown_is_kept_where_rows_grow() -> None:
    rng = np.random.default_rng(1)
    models = ArmModels(2, False, True, 2.0)
    for n in range(80):
        models.learn(n % 3, rng.normal(size=2), float(rng.normal()))
    models.retire(1)
    shifts = models.retired[:, -1].copy()
    assert np.any(shifts)
    models.learn(0, rng.normal(size=4), 1.0)
    np.testing.assert_array_equal(models.retired[:, -1], [*shifts, 0.0, 0.0])
    np.testing.assert_allclose(models.retired[:, :-1], models.retired[:, :-1].T, atol=1e-12)


@pytest.mark.parametrize(("logistic", "hybrid"), [(False, False), (False, True), (True, False)])
def test_arms_that_find_room_are_learned_as_they_are_without_to_the_bit(
    logistic: bool, hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied to larger arrays or not; wider rows, a restart, an arm that goes, and a copy that is under way."""

    def play(least: int) -> list[dict[str, Any]]:
        monkeypatch.setattr(arm_models, "MIN_ROOM_BYTES", least)
        monkeypatch.setattr(arm_models, "ROOM_BYTES", 2**20)
        rng, states = np.random.default_rng(3), []
        models = ArmModels(2, logistic, hybrid, 2.0)
        for n in range(400):
            if n == 100:
                models.retire(1)
            if n == 200:
                again = ArmModels(2, logistic, hybrid, 2.0)
                again.restore(models.state())
                models = again
            if n == 250:
                arrays, copies = models.begin_state()
            models.learn(int(rng.integers(1 + n // 4)), rng.normal(size=2 if n < 50 else 3), float(n % 2))
        finish(copies)
        states += [arrays, models.state()]
        return states

    for with_room, without in zip(play(0), play(2**40), strict=True):
        assert with_room.keys() == without.keys()
        assert all(np.array_equal(with_room[name], without[name]) for name in without)


def test_arms_that_come_later_find_room_so_that_nothing_large_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_models, "MIN_ROOM_BYTES", 2**10)
    models, rooms = ArmModels(4, False, False, 2.0), list[Any]()
    for number in range(1000):
        models.learn(number, np.ones(4), 1.0)
        late = number >= arm_models.EARLY_ROWS  # the models of before start again
        if late and models.covariances.base is not (rooms or [None])[-1]:
            rooms.append(models.covariances.base)
    assert len(rooms) <= 3
    assert len(models.covariances) < 1500


def test_models_that_start_again_have_new_arrays_and_nothing_is_left_in_the_room_for_later_arms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arm_models, "MIN_ROOM_BYTES", 0)
    monkeypatch.setattr(arm_models, "ROOM_BYTES", 2**18)
    models = ArmModels(4, True, True, 2.0)
    for number in range(100):
        models.learn(number, np.ones(4), 1.0)
    before = {name: getattr(models, name) for name in arm_models.OF_ARMS}
    models._forget()
    for name, array in before.items():
        now = getattr(models, name)
        assert now.shape == array.shape
        assert now.base is not array.base
        assert not now.base.any()


def test_room_for_later_arms_is_in_no_copy_of_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_models, "MIN_ROOM_BYTES", 0)
    monkeypatch.setattr(arm_models, "ROOM_BYTES", 2**22)
    models = ArmModels(4, True, False, 2.0)
    models.learn(0, np.ones(4), 1.0)
    packed = pickle.dumps(models)
    assert len(packed) < 2**20
    again = pickle.loads(packed)
    for number in range(20):
        models.learn(number, np.ones(4), 1.0)
        again.learn(number, np.ones(4), 1.0)
    state = models.state()
    assert all(np.array_equal(array, state[name]) for name, array in again.state().items())


def test_where_memory_is_counted_before_it_is_used_arms_find_no_more_room_than_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arm_models, "MIN_ROOM_BYTES", 0)
    monkeypatch.setattr(arm_models, "ROOM_BYTES", 2**62)
    models = ArmModels(4, False, False, 2.0)
    for number in range(50):
        models.learn(number, np.ones(4), 1.0)
    room = models.covariances.base
    assert room is not None
    assert 50 <= len(room) < 100


def test_a_hybrid_goes_on_knowing_what_retired_arms_have_shown() -> None:
    data = _data(300, 4, 3, seed=5, clicks=False)
    kept, retired = _learned(data, hybrid=True), _learned(data, hybrid=True)
    retired.retire(2)
    new = _rows(data[0][:5], -1)
    for mine, other in zip(kept.beliefs(new), retired.beliefs(new), strict=True):
        np.testing.assert_allclose(mine, other)
    back = _rows(data[0][:5], 2)
    np.testing.assert_allclose(retired.beliefs(back)[0], retired.beliefs(new)[0])


def _exact_fit(Z: Array, rewards: Array, prior: Array) -> tuple[Array, Array]:
    """The most likely parameters of a logistic regression and the covariance there, by Newton's method."""
    theta = np.zeros(Z.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-Z @ theta))
        H = (Z.T * (p * (1 - p))) @ Z + np.diag(1 / prior)
        theta += np.linalg.solve(H, Z.T @ (rewards - p) - theta / prior)
    return theta, np.asarray(np.linalg.inv(H), dtype=np.float64)


def _visit_all(model: ArmModels, arm: int) -> None:
    for place in range(int(model.plays[arm])):
        z, reward = _scaled(model, model.rows[arm, place : place + 1])[0], model.rewards[arm, place]
        parts = model.own[arm], model.covariances[arm], NOW, model.centers, model.weights, *model._model[4:]
        visit(z, reward, True, model.sites[arm], place, *parts)


@pytest.mark.parametrize("fractions", [False, True])
def test_a_logistic_model_whose_rows_are_all_at_hand_comes_to_the_exact_fit(fractions: bool) -> None:
    X, arms, rewards = _data(60, 2, 3, seed=3, clicks=True)
    if fractions:
        rewards = np.round(0.25 + 0.5 * rewards + 0.2 * np.random.default_rng(0).random(60), 3)
    model = _learned((X, arms, rewards), logistic=True)
    for arm in list(range(2)) * 200:
        _visit_all(model, arm)
    prior = np.append(1.0, np.full(3, model.slope_variance))
    for arm in range(2):
        mine, z = arms == arm, _scaled(model, X[:5])
        theta, P = _exact_fit(_scaled(model, X[mine]), rewards[mine], prior)
        means, sds = model.beliefs(_rows(X[:5], arm))
        np.testing.assert_allclose(means, z @ theta, rtol=1e-6)
        np.testing.assert_allclose(sds, np.sqrt(np.einsum("ki,ij,kj->k", z, P, z)), rtol=MAX_STALE / 2)


def test_a_precision_that_has_hardly_changed_leaves_the_covariance_as_it_is() -> None:
    model = _learned(_data(60, 1, 3, seed=3, clicks=True), logistic=True)
    for _ in range(5):
        _visit_all(model, 0)
    covariance, own = model.covariances.copy(), model.own.copy()
    model.rewards[0, 0] = abs(model.rewards[0, 0] - 0.02)  # a little less of it moves the mean
    _visit_all(model, 0)
    assert np.array_equal(model.covariances, covariance)
    assert not np.array_equal(model.own, own)


@pytest.mark.parametrize("logistic", [False, True])
def test_arms_that_cannot_be_best_are_found_without_their_standard_deviations(logistic: bool) -> None:
    X, arms, rewards = _data(400, 6, 4, seed=9, clicks=logistic)
    model, boldness, beaten = _learned((X, arms, rewards), logistic=logistic), np.array([0.35, 0.7]), 0
    numbers = np.array([0, 1, 2, 3, 4, 5, -1])
    for x in X[:100]:
        rows, out = ArmRows(np.tile(x, (7, 1)), numbers), np.zeros(7, dtype=np.bool_)
        scores = model.ucb_scores(rows, boldness, Stream(1, POLICY, 1), guarded=True)
        find_beaten(out, rows.x, numbers, 0.7, 1.0, logistic, model.centers, model.weights, *model._model[:6])
        assert not out[scores.argmax(axis=1)].any()
        assert model.ucb_best(rows, boldness, Stream(1, POLICY, 1), guarded=True) == scores.argmax(axis=1).tolist()
        beaten += out.sum()
    assert beaten > 100


@pytest.mark.parametrize("models", ["per-arm", "hybrid", "shared"])
@pytest.mark.parametrize("clicks", [False, True])
def test_the_compiled_choice_is_that_of_the_scores_while_decisions_wait(models: str, clicks: bool) -> None:
    X, arms, rewards = _data(60, 6, 3, seed=3, clicks=clicks)
    policy, points = ArmUCB(dim=3, models=models), ({"boldness": 0.5}, {"boldness": 2.0})
    rng, waits = np.random.default_rng(0), 0
    for n, (x, arm, reward) in enumerate(zip(X, arms, rewards, strict=True)):
        policy.learn_arm(int(arm), x, float(reward), {})
        known = np.where(np.isin(np.arange(7), arms[: n + 1]), np.arange(7), -1)
        for t in (n, n + 5, 3 * n + 20):
            rows = ArmRows(rng.normal(size=(7, 3)), rng.permutation(known))
            played = policy.best(rows, points, t, Stream(1, POLICY, t))
            assert played == policy.scores(rows, points, Stream(1, POLICY, t)).argmax(axis=1).tolist()
            waits += played != policy.scores(rows, points, Stream(1, POLICY, 0)).argmax(axis=1).tolist()
    assert (waits > 20) == (models != "shared")


@pytest.mark.parametrize("numbers", [[2, 0, 1], [2, -1, 0], [1, -1, 0, 2, -1], [-1, -1]])
@pytest.mark.parametrize("hybrid", [False, True])
def test_ties_and_bonuses_are_drawn_in_the_order_of_numbers(numbers: list[int], hybrid: bool) -> None:
    model = _learned(_data(60, 3, 2, seed=8, clicks=False), hybrid=hybrid)
    K, rows = len(numbers), ArmRows(np.random.default_rng(1).normal(size=(len(numbers), 2)), np.array(numbers))
    rng, boldness, unknown = Stream(1, POLICY, 5), np.array([[1.0], [3.0]]), np.array(numbers) < 0
    given = rows, np.append(boldness, 0.0)
    *plain, means = model.ucb_scores(*given, Stream(1, POLICY, 5), guarded=True, breaks_ties=False)
    sds = (plain - means) / boldness
    if unknown.sum() > 1:
        sds = sds * np.where(unknown, 1.0 + 1e-9 * rng.uniforms(K), 1.0)
    draws = np.zeros(K)
    if not unknown.all():
        draws[np.argsort(numbers, kind="stable")] = rng.normals(K)
    *drawn, greedy = model.ucb_scores(*given, Stream(1, POLICY, 5), guarded=True, wide=0.4)
    np.testing.assert_allclose(drawn, means + boldness * sds * (1.0 + 0.4 * draws), rtol=1e-13)
    assert np.array_equal(greedy, means)


def test_the_boldness_of_points_that_come_again_is_in_units_of_the_link_that_decides() -> None:
    policy, copy, points = ArmUCB(dim=1), ArmUCB(dim=1), ({"boldness": 1.0}, {"boldness": 2.0})
    arms, bolder = _rows(np.ones((1, 1)), 0), ({"boldness": 1.0}, {"boldness": 3.0})
    for reward in (1.0, 0.0, 0.5, 2.0):
        for each in (policy, copy):
            each.learn_arm(0, np.ones(1), reward, {})
        known, anew = (
            policy.scores(arms, points, Stream(1, POLICY, 1)),
            copy.scores(arms, list(points), Stream(1, POLICY, 1)),
        )
        assert known.tobytes() == anew.tobytes()
    more = policy.scores(arms, bolder, Stream(1, POLICY, 1))
    assert more[0] == anew[0]
    assert more[1] > anew[1]


@pytest.mark.parametrize("width", [2, 3, 4])
def test_before_the_first_reward_features_are_in_units_of_the_largest_at_hand(width: int) -> None:
    model = ArmModels(dim=3, logistic=True, hybrid=False, variance=2.0)
    X = np.array([[-4.0, 0.0, 0.5, 7.0], [2.0, 0.0, 0.0, 1.0]])[:, :width]
    units = np.array([4.0, 1.0, 0.5])[:width]
    Z = np.column_stack([np.ones(2), X[:, :3] / units])
    variances = Z**2 @ np.append(1.0, np.full(min(width, 3), model.slope_variance))
    np.testing.assert_allclose(model.beliefs(_rows(X, -1))[1], np.sqrt(variances), rtol=1e-14)


@pytest.mark.parametrize("boldness", [0.0, 1e-3])
def test_arms_whose_scores_are_equal_after_rounding_are_not_left_out(boldness: float) -> None:
    """An explanation takes the first largest score, and must come to the same arm."""
    rng, policy, point = np.random.default_rng(0), ArmUCB(dim=2, link="linear"), {"boldness": boldness}
    for t in range(80):
        policy.learn_arm(t % 6, np.round(rng.normal(size=2)), 1e15 + np.round(rng.normal()), {})
    for X in np.round(rng.normal(size=(100, 6, 2))):
        arms, stream = ArmRows(X, np.arange(6)), Stream(1, POLICY, 80)
        assert policy.best(arms, [point], 80, stream) == policy.scores(arms, [point], stream).argmax(axis=1).tolist()


def test_a_logistic_model_at_constant_cost_stays_close_to_the_exact_fit() -> None:
    X, arms, rewards = data = _data(3000, 2, 3, seed=4, clicks=True)
    model = _learned(data, logistic=True)
    prior = np.append(1.0, np.full(3, model.slope_variance))
    for arm in range(2):
        mine, z = arms == arm, _scaled(model, X[:50])
        theta, P = _exact_fit(_scaled(model, X[mine]), rewards[mine], prior)
        means, sds = model.beliefs(_rows(X[:50], arm))
        exact = np.sqrt(np.einsum("ki,ij,kj->k", z, P, z))
        assert np.all(np.abs(means - z @ theta) < 0.5 * exact)
        np.testing.assert_allclose(sds, exact, rtol=0.1)


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("logistic", [False, True])
def test_units_of_features_do_not_matter(logistic: bool, hybrid: bool) -> None:
    X, arms, rewards = _data(200, 3, 4, seed=6, clicks=logistic)
    plain = _learned((X, arms, rewards), logistic=logistic, hybrid=hybrid)
    units = np.array([1e-9, 1.0, 1e9, 1e3])
    scaled = _learned((X * units, arms, rewards), logistic=logistic, hybrid=hybrid)
    for arm in (0, 1, 2, -1):
        for mine, other in zip(
            plain.beliefs(_rows(X[:9], arm)), scaled.beliefs(_rows(X[:9] * units, arm)), strict=True
        ):
            np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("n", [60, 300])
def test_columns_of_0_and_1_stay_as_they_are(n: int) -> None:
    X, arms, rewards = _data(n, 3, 4, seed=6, clicks=True)
    X[:, 1:3] = np.random.default_rng(6).random((n, 2)) < 0.3
    model = _learned((X, arms, rewards), logistic=True)
    assert np.array_equal(_scaled(model, X)[:, 2:4], X[:, 1:3])
    assert not np.any(_scaled(model, X)[:, [1, 4]] == X[:, [0, 3]])


def test_a_column_that_is_always_1_is_no_second_level() -> None:
    X, arms, rewards = _data(60, 3, 4, seed=6, clicks=True)
    wide = np.insert(X, 0, 1.0, axis=1)
    without, model = _learned((X, arms, rewards), logistic=True), _learned((wide, arms, rewards), logistic=True)
    for arm in (0, -1):
        np.testing.assert_allclose(model.beliefs(_rows(wide, arm)), without.beliefs(_rows(X, arm)))


@pytest.mark.parametrize("hybrid", [False, True])
def test_units_of_rewards_do_not_matter(hybrid: bool) -> None:
    X, arms, rewards = _data(200, 3, 4, seed=7, clicks=False)
    plain = _learned((X, arms, rewards), hybrid=hybrid)
    other = _learned((X, arms, 1e3 * rewards + 1e12), hybrid=hybrid)
    for arm in (0, 1, 2, -1):
        means, sds = plain.beliefs(_rows(X[:9], arm))
        shifted, wider = other.beliefs(_rows(X[:9], arm))
        np.testing.assert_allclose((shifted - 1e12) / 1e3, means, atol=1e-5)
        np.testing.assert_allclose(wider / 1e3, sds, rtol=1e-5)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_new_scale_late_gives_the_model_that_had_it_from_the_start(
    hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, arms, rewards = _data(400, 3, 4, seed=8, clicks=False)
    X[200:] = X.mean(axis=0) + 1.4 * (X[200:] - X.mean(axis=0))
    X = np.minimum(X, X.mean(axis=0) + 1.5 * X.std(axis=0))  # nothing is cut off in either scale
    model = _learned((X, arms, rewards), hybrid=hybrid)
    whole = ArmModels(dim=4, logistic=False, hybrid=hybrid, variance=4.0)
    monkeypatch.setattr(arm_models, "REFRESH_GROWTH", np.inf)
    for name in ("centers", "weights", "slope_variances", "shares"):
        getattr(whole, name)[NOW] = getattr(model, name)[NOW]
    whole.refresh_at = 10**9
    whole._set_priors()
    if hybrid:
        whole.common_covariance = np.diag(whole._common_prior)
    for x, arm, reward in zip(X, arms, rewards, strict=True):
        whole.learn(int(arm), x, float(reward))
    for arm in (0, 1, 2, -1):
        mine, other = model.beliefs(_rows(X[:9], arm)), whole.beliefs(_rows(X[:9], arm))
        np.testing.assert_allclose(mine[0], other[0], rtol=1e-6)
        np.testing.assert_allclose(
            mine[1] / unit_of(model.sums, False), other[1] / unit_of(whole.sums, False), rtol=1e-6
        )


@pytest.mark.parametrize("hybrid", [False, True])
def test_no_covariance_grows_beyond_the_prior_where_rows_are_far_out_and_scales_change(hybrid: bool) -> None:
    """One row nearly always, others that are new now and then: far out at first, and less so as scales grow."""
    rng = np.random.default_rng(5)
    model, rows = ArmModels(dim=3, logistic=True, hybrid=hybrid, variance=8.0), rng.normal(size=(3, 3))
    for t in range(1500):
        if t % 500 == 0:
            rows[rng.integers(3)] = rng.normal(size=3)
        x = rows[0 if rng.random() < 0.97 else rng.integers(3)]
        model.learn(0, x, float(rng.random() < 1 / (1 + np.exp(-x[0]))))
        prior = model._priors[NOW]
        assert np.linalg.eigvalsh(model.covariances[0] / np.sqrt(np.multiply.outer(prior, prior))).max() < 1 + 1e-9


def test_a_copy_that_is_under_way_while_rows_are_cut_in_a_new_scale_has_their_sites_of_before() -> None:
    rng = np.random.default_rng(5)
    model, left = ArmModels(dim=2, logistic=True, hybrid=False, variance=8.0), 0
    for t in range(800):
        before, (arrays, copies) = model.state(), model.begin_state()
        model.learn(t % 2, rng.normal(size=2) * (4.0 if t > 200 else 1.0), float(rng.integers(2)))
        finish(copies)
        assert {name for name, array in before.items() if not np.array_equal(array, arrays[name])} == set()
        left += int(np.sum(model.sites[:, ::2] == LEFT) > np.sum(before["sites"][:, ::2] == LEFT))
    assert left > 0


def test_rows_that_are_cut_in_one_of_two_scales_are_left_and_places_without_a_row_are_not() -> None:
    rows, sites, plays = np.zeros((2, 4, 2)), np.full((2, 8), 0.2), np.array([3, 0])
    rows[0, :3] = [[1.0, 1.0], [6.1, 1.0], [1.0, -1.6]]
    centers, weights = np.ones((2, 2)), np.array([[0.5, 2.0], [1.0, 1.0]])
    leave_cut_rows(np.arange(2), centers, weights, plays, rows, sites)
    assert sites[:, ::2].tolist() == [[0.2, LEFT, LEFT, 0.2], [0.2] * 4]
    assert sites[:, 1::2].tolist() == [[0.2] * 4] * 2


@pytest.mark.parametrize("hybrid", [False, True])
def test_no_covariance_grows_beyond_the_prior_where_categories_are_new(hybrid: bool) -> None:
    rng = np.random.default_rng(1)
    model = ArmModels(dim=30, logistic=True, hybrid=hybrid, variance=8.0)
    for t in range(1200):
        x = np.zeros(30)
        x[min(29, int(rng.exponential(2 + t / 100)))] = x[rng.integers(3)] = 1.0
        model.learn(0, x, float(rng.random() < 0.1 + 0.8 * x[0]))
        prior = model._priors[NOW]
        assert np.linalg.eigvalsh(model.covariances[0] / np.sqrt(np.multiply.outer(prior, prior))).max() < 1 + 1e-9


@pytest.mark.parametrize("logistic", [False, True])
def test_rows_that_begin_to_differ_late_do_not_part_a_model_from_its_copy(logistic: bool) -> None:
    model, copy = (ArmModels(dim=1, logistic=logistic, hybrid=False, variance=2.0) for _ in range(2))
    for t in range(100):
        model.learn(t % 2, np.array([1.0 if t < 98 else float(t)]), float(t % 3 == 0))
    copy.restore(model.state())
    arms, boldness = ArmRows(np.ones((3, 1)), np.array([0, 1, -1])), np.ones(1)
    mine, other = (each.ucb_scores(arms, boldness, Stream(1, POLICY, 1), guarded=True) for each in (model, copy))
    assert mine.tobytes() == other.tobytes()


@pytest.mark.parametrize("n", [120, 900])
def test_after_the_first_fraction_linear_models_know_the_rows_that_logistic_ones_kept(n: int) -> None:
    X, arms, rewards = _data(n, 3, 4, seed=10, clicks=True)
    rewards[-1] = 0.5
    auto, linear = ArmUCB(dim=4), ArmUCB(dim=4, link="linear")
    for x, arm, reward in zip(X, arms.tolist(), rewards.tolist(), strict=True):
        assert auto.is_logistic
        auto.learn_arm(arm, x, reward, {})
        linear.learn_arm(arm, x, reward, {})
    assert not auto.is_logistic
    assert auto.model.count == n
    assert np.array_equal(auto.model.plays[:3], linear.model.plays[:3])  # by which neglected arms are found
    for arm in range(3):
        (means, sds), (all_means, all_sds) = (model.beliefs(_rows(X[:20], arm)) for model in (auto.model, linear.model))
        assert np.all(np.abs(means - all_means) < (0.05 if n == 120 else 2.0) * sds)
        np.testing.assert_allclose(sds, all_sds * np.sqrt(max(1.0, n / 3 / 64)), rtol=0.01 if n == 120 else 0.2)


def test_rows_may_be_narrower_than_the_models_before_anything_is_known() -> None:
    model = ArmModels(dim=5, logistic=True, hybrid=False, variance=8.0)
    means, sds = model.beliefs(ArmRows(np.ones((2, 3)), np.array([-1, -1])))
    assert np.isfinite(means).all()
    assert np.isfinite(sds).all()


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_arm_that_falls_starts_again_with_its_last_rows(hybrid: bool) -> None:
    """Errors of the last ten plays or so are negative, and are told by those before: the sum passes 10 + log t."""
    X, arms, _ = _data(300, 1, 2, seed=11, clicks=True)
    model = _learned((X, arms, np.ones(300)), logistic=True, hybrid=hybrid)
    for n in range(300):
        (m, suspicion), (mean, sd) = model.falls[0].tolist(), model.beliefs(_rows(X[n : n + 1], 0))
        p = 1 / (1 + np.exp(-mean[0]))
        variance = max(p * (1 - p), MIN_CLICK_VARIANCE)
        error = -p / np.sqrt(variance + (variance * sd[0]) ** 2)
        expected = max(0.0, suspicion + min((2 * error - m) * m / 2, 2.0)) if m < 0 else suspicion
        model.learn(0, X[n], 0.0)
        if model.plays[0] == 10:
            assert expected > 10 + np.log(model.count)
            break
        np.testing.assert_allclose(model.falls[0], [0.9 * m + 0.1 * error, expected], rtol=1e-9, atol=1e-12)
    assert 5 <= n < 40
    assert model.count == 301 + n
    assert model.rewards[0, :10].tolist() == [1.0] * max(0, 9 - n) + [0.0] * min(10, n + 1)


@pytest.mark.parametrize("logistic", [False, True])
def test_an_arm_is_watched_from_five_plays_for_each_parameter_on(logistic: bool) -> None:
    X, _, _ = _data(200, 1, 4, seed=12, clicks=logistic)
    model = _learned((X, np.zeros(200, dtype=np.int64), (np.arange(200) % 2).astype(float)), logistic=logistic)
    few = _learned((X[:25], np.zeros(25, dtype=np.int64), np.zeros(25)), logistic=logistic)
    assert few.size == 5
    assert not few.falls.any()
    assert model.falls[0, 0] != 0.0


def _after_long(last: int, logistic: bool) -> ArmModels:
    """Models of two arms after 1,000 rewards, of which the second arm had its last one as the `last`."""
    models, rng = ArmModels(1, logistic, hybrid=False, variance=2.0), np.random.default_rng(3)
    for n in range(1, 1001):
        arm = int(n % 2 == 0 if n < last else n == last)
        models.learn(arm, np.ones(1), float(rng.random() < (0.6, 0.4)[arm]))
    return models


@pytest.mark.parametrize("logistic", [False, True])
def test_an_arm_is_on_trial_if_it_had_none_of_the_last_three_tenths_of_all_rewards(logistic: bool) -> None:
    rows = ArmRows(np.ones((2, 1)), np.arange(2))
    for last, on_trial in ((700, True), (701, False)):
        models = _after_long(last, logistic)
        assert models.tried(rows, 1000, trial=True) == (1 if on_trial else -1)
        models.learn(1, np.ones(1), 1.0)
        assert (models.trial[ARM] == 2) == on_trial


@pytest.mark.parametrize("logistic", [False, True])
def test_hope_for_an_arm_is_the_likelihood_that_it_pays_half_a_noise_or_logit_more_than_the_best(
    logistic: bool,
) -> None:
    models = _after_long(500, logistic)
    (best, own), (_, sd) = models.beliefs(ArmRows(np.ones((2, 1)), np.arange(2)))
    unit = 1.0 if logistic else unit_of(models.sums, logistic)
    risen = best + 0.5 * unit
    models.learn(1, np.ones(1), 1.0)
    if logistic:
        gain = np.log(1.0 + np.exp(-own)) - np.log(1.0 + np.exp(-risen))
    else:
        spread = np.sqrt(unit**2 + sd**2)
        gain = norm.logpdf(1.0, risen, spread) - norm.logpdf(1.0, own, spread)
    assert 0.0 < gain < 2.0
    assert models.trial[HOPE] == pytest.approx(0.5 + gain)
