"""The simulated worlds: the paper's formulas to the bit, other ranges of rewards, and parameters that change."""

import math

import numpy as np
import pytest

from syndicated.environments import Linear
from syndicated.streams import ARMS, CHANGE, NOISE, THETA, Stream
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
    counts = [sum(Linear(change=100).changes(seed, t) for t in range(1000)) for seed in range(50)]
    assert np.mean(counts) == pytest.approx(10, abs=4 * math.sqrt(10 / 50))


def test_a_world_may_change_in_every_round_but_begins_where_the_quiet_one_does() -> None:
    first, second = thetas(Linear(dim=3, arms=5, shift=False, change=1), 2)
    assert first.tolist() == pytest.approx(Linear(dim=3).theta(SEED).tolist())
    assert second.tolist() == pytest.approx(Linear(dim=3).theta(SEED, 1).tolist())
