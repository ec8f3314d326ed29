"""The parts of policies on models of arms that can be left out."""

from pathlib import Path

import numpy as np
import pytest

from syndicated import Agent
from syndicated._models.arm_kernels import FOLLOWING
from syndicated.errors import InputError, StateError
from syndicated.policies import ArmTS, ArmUCB
from syndicated.policies._arm_policy import ArmModelPolicy
from syndicated.streams import POLICY, Stream
from syndicated.types import ArmRows, Array

ALIKE, POINT = np.ones(1), {"boldness": 1.0}


def _pair(part: str, rewards: Array, X: Array | None = None, arms: int = 2) -> list[ArmUCB]:
    """Policies that learned the same rewards of arms in turn, without and with a part."""
    rows = np.ones((len(rewards), 1)) if X is None else X
    policies = [ArmUCB(dim=rows.shape[1], without=[part]), ArmUCB(dim=rows.shape[1])]
    for policy in policies:
        for n, (x, reward) in enumerate(zip(rows, rewards, strict=True)):
            policy.learn_arm(n % arms, x, float(reward), {})
    return policies


def _noise(n: int) -> Array:
    return np.random.default_rng(5).normal(size=n)


def test_the_cut_of_outliers_can_be_left_out() -> None:
    rewards = _noise(300)
    rewards[[20, 200]] += 1e4
    without, whole = _pair("outliers", rewards, np.random.default_rng(6).normal(size=(300, 2)))
    x = ArmRows(np.zeros((1, 2)), np.zeros(1, dtype=np.int64))
    assert abs(whole.predict(x, {})[0]) < 1.0 < 10.0 < without.predict(x, {})[0]


def test_restarts_where_the_level_moves_can_be_left_out() -> None:
    without, whole = _pair("restarts", _noise(600) + np.linspace(0.0, 60.0, 600))
    assert (whole.linear.sums[FOLLOWING], without.linear.sums[FOLLOWING]) == (1.0, 0.0)


def test_restarts_of_an_arm_that_falls_can_be_left_out() -> None:
    clicks = (np.random.default_rng(7).random(800) < np.where(np.arange(800) < 600, 0.9, 0.1)).astype(float)
    without, whole = _pair("restarts", clicks, arms=1)
    assert whole.logistic.plays[0] < 300 < 800 == without.logistic.plays[0]


def test_trials_of_arms_that_went_unplayed_can_be_left_out() -> None:
    rewards = _noise(400)
    for policy, tried in zip(_pair("trials", rewards, arms=1), (-1, 1), strict=True):
        policy.learn_arm(1, ALIKE, 0.0, {})
        for reward in rewards:
            policy.learn_arm(0, ALIKE, float(reward), {})
        rows = ArmRows(np.ones((2, 1)), np.arange(2))
        assert policy.model.tried(rows, 801, trial=True) == tried
        policy.learn_arm(1, ALIKE, 5.0, {})
        assert bool(policy.model.trial[0]) == (tried == 1)


@pytest.mark.parametrize("numbers", [[0, 1, 2], [2, 0, 1]])
def test_the_look_at_neglected_arms_can_be_left_out(numbers: list[int]) -> None:
    rows = ArmRows(np.ones((3, 1)), np.array(numbers))
    without, whole = _pair("neglect", _noise(60), arms=3)
    for policy in (without, whole):
        for reward in _noise(300):
            policy.learn_arm(0, ALIKE, float(reward), {})
    means, sds = whole.model.beliefs(rows)
    plain, more = (policy.scores(rows, [POINT], Stream(1, POLICY, 7))[0] for policy in (without, whole))
    neglected = np.array(numbers) > 0
    assert plain == pytest.approx(means + sds)
    assert (more[neglected] > plain[neglected]).all()
    for policy, scores in ((without, plain), (whole, more)):
        assert policy.best(rows, (POINT,), 7, Stream(1, POLICY, 7)) == [int(scores.argmax())]


def test_the_spread_of_decisions_that_wait_can_be_left_out() -> None:
    rows = ArmRows(np.ones((2, 1)), np.arange(2))
    without, whole = _pair("spread", _noise(40))
    late = [[p.scores(rows, [POINT], Stream(1, POLICY, t))[0, 0] for t in range(60, 80)] for p in (without, whole)]
    assert len(set(late[0])) == 1
    assert len(set(late[1])) == 20
    played = [{p.best(rows, (POINT,), t, Stream(1, POLICY, t))[0] for t in range(60, 120)} for p in (without, whole)]
    assert [len(arms) for arms in played] == [1, 2]


@pytest.mark.parametrize(
    ("make", "without", "said"),
    [
        (ArmUCB, ["speed"], "without must be a list of some of neglect, outliers, restarts, spread, trials for ArmUCB"),
        (ArmTS, ["neglect"], "without must be a list of some of outliers, restarts, trials for ArmTS; got"),
        (ArmUCB, "trials", "without must be a list of some of"),
    ],
)
def test_only_parts_that_a_policy_has_can_be_left_out(
    make: type[ArmModelPolicy], without: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        make(dim=2, without=without)


def test_what_is_left_out_is_part_of_the_policy(tmp_path: Path) -> None:
    agent = Agent.for_arms(policy={"name": "ArmUCB", "without": ["trials"]}, seed=1)
    agent.learn(agent.decide([1.0], arms=["a", "b"]), 0.5)
    agent.save(tmp_path / "agent.state")
    loaded = Agent.load(tmp_path / "agent.state").policy
    assert isinstance(loaded, ArmUCB)
    assert (loaded.without, loaded.linear.without) == (("trials",), ("trials",))
    with pytest.raises(StateError):
        Agent.for_arms(policy={"name": "ArmUCB"}, seed=1).restore(agent.state())
