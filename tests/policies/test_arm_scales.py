"""Models of arms in two scales: many are brought to a new one a few at a time, and decide meanwhile as they should."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.copies import finish

from syndicated import Agent, StateError
from syndicated._models import arm_models
from syndicated._models.arm_information import Change, log_evidence, seen_by_common, solve
from syndicated._models.arm_kernels import BEFORE, FOLLOWING, MAX_SCALED, NOW, ORIGIN, unit_of
from syndicated._models.arm_models import ArmModels
from syndicated._statefile import pack, unpack
from syndicated.policies import ArmUCB
from syndicated.streams import POLICY, Stream
from syndicated.types import ArmRows, Array, Ints

KINDS = [(False, False), (False, True), (True, False), (True, True)]  # logistic, hybrid
PLAIN = ("outliers", "restarts", "trials")  # what a dense regression has not
D = 4  # parameters of an arm


def _slow_to_move(patch: pytest.MonkeyPatch, arms_with_a_reward: float, at_once: int = 1) -> None:
    patch.setattr(arm_models, "MAX_AT_ONCE", at_once * D**2)
    patch.setattr(arm_models, "WITH_EACH_REWARD", arms_with_a_reward * D**2)


def _rounds(n: int, K: int, seed: int) -> list[tuple[int, Array, float]]:
    """Rewards of arms; later rows are wider, so that scales change, and none so wide that it is cut."""
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal(size=(n, D - 1)), -1.5, 1.5) * np.linspace(1.0, 3.0, n)[:, None] + [0.0, 2.0, -1.0]
    arms = rng.integers(K, size=n)
    rewards = 5.0 + X @ [1.0, -0.5, 0.2] + rng.normal(size=K)[arms] + rng.normal(size=n)
    return list(zip(arms.tolist(), X, rewards.tolist(), strict=True))


def _learn(model: ArmModels, rounds: Sequence[tuple[int, Array, float]]) -> None:
    for arm, x, reward in rounds:
        model.learn(arm, x, float(reward > 5.0) if model.logistic else reward)


def _until_behind(model: ArmModels, rounds: list[tuple[int, Array, float]], least: int = 2) -> int:
    """Learn until so many arms are behind: how many rewards that took."""
    for n, one in enumerate(rounds):
        _learn(model, [one])
        if np.count_nonzero(model.behind) >= least:
            return n + 1
    raise AssertionError("scales have not changed")


def _dense(model: ArmModels, rounds: Sequence[tuple[int, Array, float]], scales: Ints) -> tuple[Array, Array]:
    """The mean and the covariance of all parameters in one regression: the shared ones, then those of each arm.

    Each arm has its rows in its own scale, and the prior of that; what is shared has the scale of now.
    """
    priors = np.concatenate([model._common_prior if model.hybrid else np.zeros(D), *model._priors[scales]])
    Z = np.array([_row(model, x, arm, scales) for arm, x, _ in rounds])
    rewards = np.array([reward for _, _, reward in rounds])
    used = priors > 0.0
    P = np.zeros((len(priors), len(priors)))
    P[np.ix_(used, used)] = np.linalg.inv(Z[:, used].T @ Z[:, used] + np.diag(1 / priors[used]))
    return P @ Z.T @ (rewards - rewards.mean()), P


def _row(model: ArmModels, x: Array, arm: int, scales: Ints) -> Array:
    row = np.zeros((1 + len(scales), D))
    for place, scale in ((0, NOW), (1 + arm, scales[arm])):
        row[place] = [1.0, *((x - model.centers[scale]) * model.weights[scale])]
    return row.ravel()


def _assert_dense(model: ArmModels, rounds: list[tuple[int, Array, float]], scales: Ints) -> None:
    theta, P = _dense(model, rounds, scales)
    level, unit = np.mean([reward for _, _, reward in rounds]), unit_of(model.sums, False)
    for arm in np.flatnonzero(model.plays).tolist():
        means, sds = model.beliefs(ArmRows(np.array([x for _, x, _ in rounds[:5]]), np.full(5, arm)))
        rows = np.array([_row(model, x, arm, scales) for _, x, _ in rounds[:5]])
        np.testing.assert_allclose(means, level + rows @ theta, rtol=1e-7)
        np.testing.assert_allclose(sds, unit * np.sqrt(np.einsum("ki,ij,kj->k", rows, P, rows)), rtol=1e-7)


@pytest.mark.parametrize("hybrid", [False, True])
def test_arms_in_two_scales_are_one_dense_regression_while_they_move_and_afterwards(
    hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_to_move(monkeypatch, 0.0)
    rounds, model = _rounds(600, 6, seed=1), ArmModels(D - 1, False, hybrid, 4.0, without=PLAIN)
    _learn(model, rounds[:200])
    n = 200 + _until_behind(model, rounds[200:])
    _assert_dense(model, rounds[:n], model.behind[:6])
    _learn(model, rounds[n : n + 60])
    assert set(model.behind[:6].tolist()) == {NOW, BEFORE}
    _assert_dense(model, rounds[: n + 60], model.behind[:6])
    _slow_to_move(monkeypatch, 0.5)
    for m in range(n + 60, n + 80):
        _learn(model, rounds[m : m + 1])
        _assert_dense(model, rounds[: m + 1], model.behind[:6])
    assert not model.behind.any()


def test_an_arm_that_goes_while_it_is_behind_leaves_what_it_has_shown_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _slow_to_move(monkeypatch, 0.0)
    rounds, model = _rounds(600, 6, seed=2), ArmModels(D - 1, False, True, 4.0, without=PLAIN)
    _learn(model, rounds[:200])
    n = 200 + _until_behind(model, rounds[200:])
    scales = model.behind[:6].copy()
    gone = int(np.flatnonzero(scales)[-1])
    model.retire(gone)
    _assert_dense(model, rounds[:n], scales)
    later = [(arm, x, reward) for arm, x, reward in rounds[n:] if arm != gone][:60]
    _learn(model, later)
    _assert_dense(model, [*rounds[:n], *later], scales)


@pytest.mark.parametrize(("logistic", "hybrid"), KINDS)
def test_arms_move_one_at_a_time_and_the_next_look_at_scales_waits_for_the_last(
    logistic: bool, hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_to_move(monkeypatch, 1 / 8, at_once=3)
    model, moved, looks = ArmModels(D - 1, logistic, hybrid, 4.0), 0, 0
    for n, one in enumerate(_rounds(4000, 30, seed=3)):
        before, refresh_at = model.behind.copy(), model.refresh_at
        _learn(model, [one])
        if model.refresh_at != refresh_at:
            late = np.count_nonzero(before) <= ((n + 1) % 8 == 0)  # the last one has just come
            assert late or n < arm_models.EARLY_ROWS  # when all start again
            looks += 1
            assert np.count_nonzero(model.behind) in (0, max(0, np.count_nonzero(model.plays) - 3))
        elif before.any():
            came = np.count_nonzero(before) - np.count_nonzero(model.behind)
            assert came == ((n + 1) % 8 == 0)
            moved += int(came)
    assert moved >= 54
    assert looks > 10


@pytest.mark.parametrize(("logistic", "hybrid"), KINDS)
def test_models_that_are_restored_while_arms_move_go_on_to_the_bit(
    logistic: bool, hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rows that grow wider, an arm that goes, new arms, and a copy that is under way meanwhile."""
    _slow_to_move(monkeypatch, 0.25)
    model = ArmModels(D - 1, logistic, hybrid, 4.0)
    rounds = _rounds(900, 12, seed=4)
    n = _until_behind(model, rounds, least=6)
    arrays, copies = model.begin_state()
    other = ArmModels(D - 1, logistic, hybrid, 4.0)
    other.restore(model.state())
    assert other.behind.any()
    for each in (model, other):
        each.retire(int(np.flatnonzero(each.behind)[-1]))
        _learn(each, rounds[n : n + 3])
        _learn(each, [(13, np.append(x, 7.0), reward) for _, x, reward in rounds[n + 3 : n + 5]])
        assert each.behind.any()
        _learn(each, [(arm, np.append(x, 1.0), reward) for arm, x, reward in rounds[n + 5 :]])
    finish(copies)
    again = ArmModels(D - 1, logistic, hybrid, 4.0)
    _learn(again, rounds[:n])
    _assert_same(again.state(), arrays)
    _assert_same(model.state(), other.state())


@pytest.mark.parametrize(("logistic", "hybrid"), KINDS)
def test_many_rewards_are_learned_as_one_after_the_other_while_arms_move(
    logistic: bool, hybrid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_to_move(monkeypatch, 0.25)
    one, many = (ArmModels(D - 1, logistic, hybrid, 4.0) for _ in range(2))
    rounds = _rounds(900, 12, seed=5)
    _learn(one, rounds)
    for start in range(0, 900, 90):
        arms, X, rewards = zip(*rounds[start : start + 90], strict=True)
        paid = np.array(rewards)
        many.learn_many(np.array(arms), np.array(X), (paid > 5.0).astype(float) if logistic else paid)
    _assert_same(one.state(), many.state())


@pytest.mark.parametrize("logistic", [False, True])
def test_the_compiled_choice_is_that_of_the_scores_while_arms_move(
    logistic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _slow_to_move(monkeypatch, 0.0)
    model, rounds = ArmModels(D - 1, logistic, False, 4.0), _rounds(900, 12, seed=6)
    n = _until_behind(model, rounds, least=6)
    numbers, boldness = np.array([*range(12), -1]), np.array([0.5, 2.0])
    for _, x, _ in rounds[n:]:
        rows = ArmRows(np.tile(x, (13, 1)), numbers)
        scores = model.ucb_scores(rows, boldness, Stream(1, POLICY, 1), guarded=True)
        assert model.ucb_best(rows, boldness, Stream(1, POLICY, 1), guarded=True) == scores.argmax(axis=1).tolist()


def test_a_column_that_is_seen_first_while_arms_move_counts_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _slow_to_move(monkeypatch, 0.0)
    rounds = [(arm, x * [1.0, 1.0, 0.0], reward) for arm, x, reward in _rounds(600, 6, seed=7)]
    model = ArmModels(D - 1, False, False, 4.0, without=PLAIN)
    n = _until_behind(model, rounds)
    arm, alone = int(np.flatnonzero(model.behind)[0]), np.array([[0.0, 0.0, 4.0]])
    before = model.beliefs(ArmRows(alone, np.array([arm])))[0]
    _learn(model, [(arm, x + np.array([0.0, 0.0, 4.0]), reward + 30.0) for _, x, reward in rounds[n : n + 20]])
    assert model.beliefs(ArmRows(alone, np.array([arm])))[0] > before + 10.0
    _slow_to_move(monkeypatch, 6.0)
    _learn(model, rounds[n + 20 : n + 21])
    assert not model.behind.any()
    assert model.beliefs(ArmRows(alone, np.array([arm])))[0] > before + 10.0


def test_the_share_is_judged_by_the_arms_that_have_most_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, judged = np.random.default_rng(8), list[int]()

    def counted(known: Array, *given: Any) -> float:
        judged.append(len(known))
        return log_evidence(known, *given)

    monkeypatch.setattr(arm_models, "log_evidence", counted)
    monkeypatch.setattr(arm_models, "MAX_WEIGHED", 10 * D**2)  # ten arms
    model, other = (ArmModels(D - 1, False, True, 4.0) for _ in range(2))
    for _ in range(2000):
        arm = int(rng.integers(10)) if rng.random() < 0.9 else 10 + int(rng.integers(30))
        x = rng.normal(size=D - 1)
        reward = float(x @ [2.0, -1.0, 0.5]) + (arm if arm < 10 else 0.0) + 0.1 * rng.normal()
        model.learn(arm, x, reward)
        if arm < 10:
            other.learn(arm, x, reward)
    assert max(judged) == 10
    assert model.share == other.share


def test_states_of_before_arms_could_be_behind_have_one_scale() -> None:
    policy, rng = ArmUCB(dim=D - 1, models="hybrid"), np.random.default_rng(9)
    for n in range(100):
        policy.learn_arm(n % 3, rng.normal(size=D - 1), float(n % 2), {})
    state = policy.state()
    pairs = {"center": "centers", "weight": "weights", "slope_variance": "slope_variances", "share": "shares"}
    new = {f"{part}.{name}" for part in ("logistic", "linear") for name in (*pairs.values(), "behind")}
    old = {name: array for name, array in state.items() if name not in new}
    for part in ("logistic", "linear"):
        old |= {f"{part}.{name}": state[f"{part}.{now}"][NOW] for name, now in pairs.items()}
    upgraded, again = policy.upgraded(old), policy.fresh()
    assert upgraded.keys() == state.keys()
    assert again.invalid_array(upgraded) is None
    again.restore(upgraded)
    rows = ArmRows(rng.normal(size=(4, D - 1)), np.array([0, 1, 2, -1]))
    for mine, other in zip(policy.model.beliefs(rows), again.model.beliefs(rows), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", ["logistic.share", "linear.center"])
def test_a_state_of_before_that_lacks_a_part_of_its_scale_is_refused(name: str) -> None:
    head, arrays = unpack((Path(__file__).parents[1] / "core" / "data" / "armucb.state").read_bytes())
    left = {of: array for of, array in arrays.items() if of != f"policy0/{name}"}
    assert len(left) == len(arrays) - 1
    with pytest.raises(StateError, match="arrays"):
        Agent.for_arms(models="per-arm", seed=6).restore(pack(head, left))


def test_a_copy_under_way_when_all_models_start_again_is_of_the_moment_when_it_began() -> None:
    model, rounds = ArmModels(D - 1, True, True, 4.0), _rounds(200, 12, seed=11)
    _learn(model, rounds[:150])
    before = model.state()
    arrays, copies = model.begin_state()
    model._forget()
    _learn(model, rounds[150:])
    finish(copies)
    _assert_same(arrays, before)


@pytest.mark.parametrize("logistic", [False, True])
def test_what_retired_arms_have_shown_of_the_others_outlives_the_early_restarts(logistic: bool) -> None:
    model, rounds = ArmModels(D - 1, logistic, True, 4.0, without=PLAIN), _rounds(90, 5, seed=12)
    for n, one in enumerate(rounds):
        if n == 20:
            model.retire(int(np.flatnonzero(model.plays)[-1]))
        _learn(model, [one])
        if n > 40:
            played = np.flatnonzero(model.plays)
            seen = seen_by_common(model._priors[NOW], model.covariances[played], model.own[played])
            covariance, common = solve(seen + model.retired, model._common_prior)
            np.testing.assert_allclose(model.common, common, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(model.common_covariance, covariance, rtol=1e-6, atol=1e-9)
    assert model.retired.any()


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("first", [0.0, 1e4])
def test_early_restarts_see_what_retired_arms_have_shown_in_their_scale_and_from_their_origin(
    logistic: bool, first: float
) -> None:
    rng, model = np.random.default_rng(1), ArmModels(2, logistic, True, 4.0)

    def shown() -> Array:
        """What retired arms have shown, of features as they are and rewards as they came."""
        known = Change.of(model.center, model.weight, np.zeros(2), np.ones(2)).seen(model.retired)
        known[:, -1] += model.sums[ORIGIN] * known[:, 0]
        return known

    for n in range(7):
        model.learn(n % 2, rng.normal(size=2) + 5.0, float(n % 2) if n or logistic else first)
    model.retire(1)
    before = shown()
    for n in range(50):
        model.learn(2, 3.0 * rng.normal(size=2), float(n % 2))
        np.testing.assert_allclose(shown(), before, rtol=1e-6, atol=1e-6)


def test_a_new_level_leaves_nothing_of_arms_that_were_retired_before() -> None:
    model, rounds = ArmModels(D - 1, False, True, 4.0), _rounds(300, 5, seed=13)
    _learn(model, rounds[:200])
    model.retire(2)
    assert model.retired.any()
    _learn(model, [(arm, x, reward + 1000.0 * (1 + n // 5)) for n, (arm, x, reward) in enumerate(rounds[200:])])
    assert model.sums[FOLLOWING] == 1.0
    assert not model.retired.any()


def test_rows_that_are_cut_keep_no_site_for_good_if_the_share_alone_changes() -> None:
    rng = np.random.default_rng(14)
    model = ArmModels(D - 1, True, True, 4.0)
    _learn(model, [(n % 4, rng.standard_t(2.0, size=D - 1), 10.0 * (n % 3)) for n in range(60)])
    wide = model.weight * (np.abs(model.rows[:4, :12] - model.center))
    assert wide.max() > MAX_SCALED
    before = model.sites.copy()
    model._move_to(model.center, model.weight, model.slope_variance, 0.35 if model.share == 0.2 else 0.2)
    assert np.array_equal(model.sites, before)
    model._move_to(model.center, 2.0 * model.weight, model.slope_variance, model.share)
    assert not np.array_equal(model.sites, before)


@pytest.mark.parametrize(
    ("name", "value"), [("behind", -1), ("behind", 2), ("slope_variances", 0.0), ("shares", 0.0), ("shares", 1.0)]
)
def test_a_state_with_a_scale_or_a_prior_that_cannot_be_is_refused(name: str, value: float) -> None:
    model = ArmModels(D - 1, False, True, 4.0)
    _learn(model, _rounds(100, 3, seed=10))
    state: dict[str, Any] = model.state()
    assert model.invalid_array(state) is None
    state[name][1] = value
    assert model.invalid_array(state) == name


def test_a_state_with_an_arm_behind_that_was_never_played_is_refused() -> None:
    model = ArmModels(D - 1, False, True, 4.0)
    _learn(model, [(2, x, reward) for _, x, reward in _rounds(100, 3, seed=10)])
    state: dict[str, Any] = model.state()
    state["behind"][1] = BEFORE
    assert model.invalid_array(state) == "behind"


def _assert_same(mine: dict[str, Any], other: dict[str, Any]) -> None:
    assert {name for name in mine.keys() | other.keys() if mine[name].tobytes() != other[name].tobytes()} == set()
