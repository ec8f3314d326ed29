"""What a policy that keeps models of arms must make true besides; `make` is called with `dim` and `intercept`."""

from collections.abc import Callable

import numpy as np
from numpy.testing import assert_allclose

from syndicated.checks._common import DIM, checks_of, holds, restores_to_the_bit, state_of
from syndicated.policies.base import ArmPolicy
from syndicated.streams import ARMS, NOISE, POLICY, Stream
from syndicated.types import ArmRows, Array

MakeArmPolicy = Callable[..., ArmPolicy]

ARM_COUNT = 3


def _x(t: int, dim: int = DIM) -> Array:
    return 2 * Stream(2, ARMS, t).uniforms(dim) - 1


def _teach(policy: ArmPolicy, start: int = 0) -> bytes:
    """Rewards of three arms in turn; the scores that they lead to."""
    for t in range(start, start + 90):
        reward = float(Stream(2, NOISE, t).uniforms(1)[0] < (t % ARM_COUNT + 1) / 4)
        policy.learn_arm(t % ARM_COUNT, _x(t), reward, policy.theory(t, {}))
    return _scores(policy, np.array([0, 1, 2, -1])).tobytes()


def _taught(make: MakeArmPolicy) -> ArmPolicy:
    policy = make(dim=DIM, intercept=True)
    _teach(policy)
    return policy


def _scores(policy: ArmPolicy, numbers: object, x: Array | None = None) -> Array:
    order = np.array(numbers)
    rows = np.tile(_x(7) if x is None else x, (len(order), 1))
    scores: Array = policy.scores(ArmRows(rows, order), [policy.theory(9, {})], Stream(2, POLICY, 0))[0]
    return scores


def arms_are_known_by_their_numbers(make: MakeArmPolicy) -> None:
    policy = _taught(make)
    scores, turned = _scores(policy, [0, 1, 2]), _scores(policy, [2, 0, 1])
    holds((turned == scores[[2, 0, 1]]).all(), "the score of an arm depends on its place")


def best_arms_with_models_are_those_with_the_largest_scores(make: MakeArmPolicy) -> None:
    for policy in (make(dim=DIM, intercept=True), _taught(make)):
        points, rows = policy.space.points, np.tile(_x(7), (5, 1))
        arms = ArmRows(rows, np.array([2, -1, 0, -1, 1]))
        filled = [policy.theory(9, point) for point in points]
        largest = policy.scores(arms, filled, Stream(2, POLICY, 0)).argmax(axis=1).tolist()
        played = policy.best(arms, points, 9, Stream(2, POLICY, 0))
        holds(played == largest, f"the best arms are {played}; those with the largest scores are {largest}")


def an_arm_with_better_rewards_is_believed_better(make: MakeArmPolicy) -> None:
    policy = _taught(make)
    if policy.params().get("models") != "shared":
        means = policy.predict(ArmRows(np.tile(_x(7), (ARM_COUNT, 1)), np.arange(ARM_COUNT)), policy.theory(9, {}))
        holds(means[0] < means[2], f"arms that pay 0.25 and 0.75 are believed to pay {means[0]:.2f} and {means[2]:.2f}")


def arms_without_a_model_are_scored(make: MakeArmPolicy) -> None:
    for policy in (make(dim=DIM, intercept=True), _taught(make)):
        scores = _scores(policy, [-1, -1])
        holds(np.isfinite(scores).all(), f"arms that were never played have the scores {scores}")


def scoring_arms_is_pure(make: MakeArmPolicy) -> None:
    policy = _taught(make)
    before = state_of(policy)
    first, second = _scores(policy, [0, -1, 2]), _scores(policy, [0, -1, 2])
    holds((first == second).all(), "the same arms gave other scores")
    holds(state_of(policy) == before, "scores changed the state")


def models_of_arms_restore_to_the_bit(make: MakeArmPolicy) -> None:
    restores_to_the_bit(_taught(make), make(dim=DIM, intercept=True), lambda each: _teach(each, start=1000))


def a_retired_arm_is_as_if_never_played(make: MakeArmPolicy) -> None:
    policy = _taught(make)
    policy.retire_arm(1)
    if policy.params().get("models") != "shared":
        retired, never = _scores(policy, [1])[0], _scores(policy, [-1])[0]
        assert_allclose(retired, never, rtol=1e-6, atol=1e-6, err_msg="a retired arm is not like one never played")
    _teach(policy, start=1000)


def rows_may_grow_and_late_ones_be_short(make: MakeArmPolicy) -> None:
    """A column that an arm's rows did not have was 0; a wide row is no worse known for it."""
    policy, wide = _taught(make), _taught(make)
    wide.learn_arm(0, np.append(_x(3), 0.0), 1.0, wide.theory(0, {}))
    policy.learn_arm(0, _x(3), 1.0, policy.theory(0, {}))
    scores, padded = _scores(policy, [0, 1, -1]), _scores(wide, [0, 1, -1], np.append(_x(7), 0.0))
    assert_allclose(padded, scores, rtol=1e-9, atol=1e-9, err_msg="a column of zeros changed the scores")
    short = _scores(wide, [0, 1, -1])
    assert_allclose(short, padded, rtol=1e-9, atol=1e-9, err_msg="a missing column is not 0")
    for t in range(5):
        wide.learn_arm(0, np.append(_x(t), 1.0), 0.0, wide.theory(0, {}))
    without, with_it = (_scores(wide, [0], np.append(_x(7), value)) for value in (0.0, 1.0))
    holds(without != with_it, "nothing was learned of a new column")


ARM_POLICY_CHECKS = checks_of(globals(), MakeArmPolicy)
