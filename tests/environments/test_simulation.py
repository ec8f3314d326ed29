"""The simulated worlds: the paper's formulas to the bit, other ranges of rewards, and parameters that change."""

import math
from typing import Any

import numpy as np
import pytest

from syndicated.environments import Linear, Logistic, Revenue
from syndicated.environments.base import Round
from syndicated.errors import InputError
from syndicated.streams import ARMS, CHANGE, NOISE, OUTLIERS, SPREAD, THETA, TURNOVER, VALUE, Stream
from syndicated.types import Array

SEED, ROUNDS = 7, 300


def thetas(world: Linear, rounds: int) -> list[Array]:
    """The parameter of every round: means are linear in it, so they tell it."""
    return [np.asarray(np.linalg.pinv(each.arms) @ each.means) for each in world.rounds(SEED, rounds)]


@pytest.mark.parametrize("shift", [True, False])
def test_the_papers_world_is_its_formula_to_the_bit(shift: bool) -> None:
    theta = (2 * Stream(SEED, THETA).uniforms(3) - 1) * (1 / math.sqrt(3))
    for t, each in enumerate(Linear(dim=3, arms=5, shift=shift).rounds(SEED, 20)):
        X = (1 / math.sqrt(3) * (2 * Stream(SEED, ARMS, t).uniforms(15) - 1)).reshape(5, 3)
        means = (X @ theta + 1) / 2 if shift else X @ theta
        assert each.means.tolist() == means.tolist()
        assert each.rewards.tolist() == (means + 0.1 * Stream(SEED, NOISE, t).normals(1)[0]).tolist()


@pytest.mark.parametrize("shift", [True, False])
def test_another_range_is_the_same_world_in_other_units(shift: bool) -> None:
    plain = Linear(dim=3, arms=5, shift=shift).rounds(SEED, 20)
    wide = Linear(dim=3, arms=5, shift=shift, low=-50, high=200).rounds(SEED, 20)
    for one, other in zip(plain, wide, strict=True):
        assert other.arms.tolist() == one.arms.tolist()
        assert other.means.tolist() == pytest.approx((-50 + 250 * one.means).tolist())
        assert other.rewards.tolist() == pytest.approx((-50 + 250 * one.rewards).tolist())


def test_theta_changes_in_the_rounds_that_its_own_stream_says_and_to_the_next_address() -> None:
    world = Linear(dim=3, arms=5, shift=False, change=20)
    k = 0
    for t, theta in enumerate(thetas(world, ROUNDS)):
        k += t > 0 and Stream(SEED, CHANGE, t).uniforms(1)[0] < 1 / 20
        expected = (2 * Stream(SEED, THETA, k).uniforms(3) - 1) / math.sqrt(3)
        assert theta.tolist() == pytest.approx(expected.tolist())
    assert 5 <= k <= 30


def test_arms_and_noise_of_a_changing_world_are_those_of_the_quiet_one() -> None:
    quiet, changing = (Linear(dim=3, arms=5, change=change).rounds(SEED, 50) for change in (0, 5))
    for one, other in zip(quiet, changing, strict=True):
        assert one.arms.tolist() == other.arms.tolist()
        assert (one.rewards - one.means).tolist() == pytest.approx((other.rewards - other.means).tolist())


def test_theta_changes_about_once_in_so_many_rounds() -> None:
    counts = [sum(Linear(change=100).changes(seed, t) for t in range(1000)) for seed in range(20)]
    assert np.mean(counts) == pytest.approx(10, abs=4 * math.sqrt(10 / 20))


def test_a_world_may_change_in_every_round_but_begins_where_the_quiet_one_does() -> None:
    first, second = thetas(Linear(dim=3, arms=5, shift=False, change=1), 2)
    assert first.tolist() == pytest.approx(Linear(dim=3).theta(SEED).tolist())
    assert second.tolist() == pytest.approx(Linear(dim=3).theta(SEED, 1).tolist())


def test_theta_drifts_in_even_steps_from_one_address_to_the_next() -> None:
    ends = [Linear(dim=3).theta(SEED, k) for k in range(4)]
    for t, theta in enumerate(thetas(Linear(dim=3, arms=5, shift=False, drift=10), 30)):
        k, part = t // 10, t % 10 / 10
        assert theta.tolist() == pytest.approx(((1 - part) * ends[k] + part * ends[k + 1]).tolist())


def test_a_drifting_theta_jumps_one_address_ahead_where_it_changes() -> None:
    world, changes = Linear(dim=3, arms=5, shift=False, drift=10, change=5), 0
    for t, theta in enumerate(thetas(world, 40)):
        changes += world.changes(SEED, t)
        k, part = changes + t // 10, t % 10 / 10
        expected = (1 - part) * world.theta(SEED, k) + part * world.theta(SEED, k + 1)
        assert theta.tolist() == pytest.approx(expected.tolist())
    assert changes > 2


@pytest.mark.parametrize("fixed", [True, False])
def test_arms_come_and_go_when_their_stream_says(fixed: bool) -> None:
    rounds = list(Linear(dim=3, arms=5, lifetime=4, fixed=fixed).rounds(SEED, 60))
    replaced = 0
    for t in range(1, 60):
        gone = Stream(SEED, TURNOVER, t).uniforms(5) < 1 / 4
        same = (rounds[t].arms == rounds[t - 1].arms).all(axis=1)
        assert (same == ~gone).all()
        replaced += gone.sum()
    assert 40 < replaced < 110


def test_shapes_bend_the_linear_value_in_units_of_its_usual_size() -> None:
    worlds = [Linear(dim=4, arms=6, shift=False, shape=s).rounds(SEED, 50) for s in ("linear", "square", "cosine")]
    units = []
    for line, square, cosine in zip(*worlds, strict=True):
        u = line.means * 6
        units += u.tolist()
        assert square.means.tolist() == pytest.approx((u * u / 9).tolist())
        assert cosine.means.tolist() == pytest.approx([math.cos(3 * each) for each in u])
    assert 0.3 < np.std(units) < 2  # 1 on average over theta*


def test_tails_are_those_of_students_t() -> None:
    draws = np.array(
        [each.rewards[0] - each.means[0] for each in Linear(arms=2, tails=3, noise=2.0).rounds(SEED, 4000)]
    )
    z = Stream(SEED, NOISE, 0).normals(4)
    assert draws[0] == pytest.approx(2.0 * z[0] / math.sqrt((z[1] ** 2 + z[2] ** 2 + z[3] ** 2) / 3))
    assert np.mean(abs(draws) > 2 * 3.182) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


def test_spread_gives_every_arm_noise_of_its_own_size() -> None:
    phi = Stream(SEED, SPREAD).normals(3)
    for t, each in enumerate(Linear(dim=3, arms=5, spread=2.0).rounds(SEED, 20)):
        expected = 0.1 * Stream(SEED, NOISE, t).normals(1)[0] * np.exp(2.0 * each.arms @ phi)
        assert (each.rewards - each.means).tolist() == pytest.approx(expected.tolist())


def test_the_rate_is_that_of_an_arm_with_value_0() -> None:
    for one, other in zip(Logistic(arms=5).rounds(SEED, 9), Logistic(arms=5, rate=0.01).rounds(SEED, 9), strict=True):
        odds = [m / (1 - m) for m in one.means]
        assert other.means.tolist() == pytest.approx([o / 99 / (1 + o / 99) for o in odds])


def test_revenue_is_a_purchase_times_an_amount() -> None:
    world = Revenue(dim=3, arms=4, rate=0.3, value=5.0, sigma=1.0)
    theta, phi = world.theta(SEED), (2 * Stream(SEED, VALUE).uniforms(3) - 1) / math.sqrt(3)
    for t, each in enumerate(world.rounds(SEED, 50)):
        u, z = Stream(SEED, NOISE, t).uniforms(1)[0], Stream(SEED, VALUE, t + 1).normals(1)[0]
        for x, mean, reward in zip(each.arms, each.means, each.rewards, strict=True):
            p = 1 / (1 + math.exp(-(x @ theta + math.log(3 / 7))))
            m = 5.0 * math.exp(x @ phi)
            assert mean == pytest.approx(p * m)
            assert reward == pytest.approx(m * math.exp(z - 0.5) if u < p else 0.0)


def test_worlds_refuse_what_they_cannot_be() -> None:
    with pytest.raises(InputError, match=r"tails must be 0 or at least 2.*got 1"):
        Linear(tails=1)
    with pytest.raises(InputError, match="shape must be 'linear', 'square' or 'cosine'; got 'round'"):
        Linear(shape="round")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rate must be between"):
        Logistic(rate=1.0)


# What may be harder than the paper's.


def rounds(horizon: int = 40, **changed: Any) -> list[Round]:
    return list(Linear(**{"dim": 3, "arms": 3, **changed}).rounds(SEED, horizon))


def test_features_in_another_unit_have_the_same_rewards() -> None:
    for one, other in zip(rounds(), rounds(unit=1e-6), strict=True):
        assert other.arms.tolist() == (1e-6 * one.arms).tolist()
        assert other.rewards.tolist() == one.rewards.tolist()


def test_one_hot_arms_have_independent_means_over_the_whole_range() -> None:
    uniforms = Stream(SEED, THETA).uniforms(3)
    for each in rounds(5, one_hot=True, low=2, high=6):
        assert each.arms.tolist() == np.eye(3).tolist()
        assert each.means.tolist() == pytest.approx((2 + 4 * uniforms).tolist())


def test_clicks_are_as_likely_as_their_means() -> None:
    played = rounds(4000, one_hot=True, clicks=True, low=0.2, high=0.5)
    assert {reward for each in played for reward in each.rewards.tolist()} == {0.0, 1.0}
    shares = np.mean([each.rewards for each in played], axis=0)
    assert shares.tolist() == pytest.approx(played[0].means.tolist(), abs=4 * math.sqrt(0.25 / 4000))


@pytest.mark.parametrize(("season", "trend"), [(0.5, 0.0), (0.0, 2.0)])
def test_a_level_moves_all_rewards_alike(season: float, trend: float) -> None:
    plain, moved = rounds(2000, fixed=True), rounds(2000, fixed=True, season=season, trend=trend)
    for t, (one, other) in enumerate(zip(plain, moved, strict=True)):
        level = season * math.sin(2 * math.pi * t / 2500) + trend * t / 10_000
        assert (other.means - one.means).tolist() == pytest.approx([level] * 3)
        assert (other.rewards - one.rewards).tolist() == pytest.approx([level] * 3)


def test_outliers_are_a_share_of_rewards_and_100_times_the_noise_away() -> None:
    plain, struck = rounds(3000, low=0, high=4), rounds(3000, low=0, high=4, outliers=0.05)
    away = [float((other.rewards - one.rewards)[0]) for one, other in zip(plain, struck, strict=True)]
    assert {round(each, 6) for each in away} == {0.0, 40.0, -40.0}
    draws = np.array([Stream(SEED, OUTLIERS, t).uniforms(2) for t in range(3000)])
    assert [each != 0.0 for each in away] == (draws[:, 0] < 0.05).tolist()
    assert all(one.means.tolist() == other.means.tolist() for one, other in zip(plain, struck, strict=True))


def test_the_worst_arm_becomes_the_best_one_when_it_is_late() -> None:
    played = rounds(20, fixed=True, late=10)
    before, after = played[9].means, played[10].means
    assert after.argmax() == before.argmin()
    assert after.max() == pytest.approx(before.max() + 0.25)
    assert np.delete(after, after.argmax()).tolist() == np.delete(before, before.argmin()).tolist()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"one_hot": 1}, "one_hot must be True or False; got 1"),
        ({"clicks": "yes"}, "clicks must be True or False; got 'yes'"),
        ({"late": 5}, "an arm can become the best one later only where arms are fixed or one-hot"),
        ({"outliers": 2}, "outliers must be"),
        ({"unit": 0}, "unit must be"),
    ],
)
def test_worlds_that_cannot_be_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rounds(**changed)
