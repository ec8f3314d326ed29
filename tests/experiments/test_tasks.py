"""Experiments and their tasks: what is paired, what a task's key depends on, and what is refused."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from support.experiments import SMALL

from syndicated import InputError, LinUCB, Space
from syndicated.experiments._experiment import RESULTS_VERSION
from syndicated.policies import POLICIES
from syndicated.spec import Spec


def test_tasks_pair_every_tuner_with_every_world() -> None:
    tasks = SMALL.tasks()
    assert len(tasks) == 9
    assert {task.seed for task in tasks if task.tuner_name == "TL"} == {1, 2, 3}
    assert len({task.key for task in tasks}) == 9


@pytest.mark.parametrize("how", [{"delay": 5}, {"lost": 0.5}])
def test_late_or_lost_rewards_are_another_task_and_prompt_ones_are_the_same_as_ever(how: dict[str, Any]) -> None:
    late = replace(SMALL, **how)
    assert {(task.delay, task.lost) for task in late.tasks()} == {(late.delay, late.lost)}
    assert not {task.key for task in SMALL.tasks()} & {task.key for task in late.tasks()}
    first = SMALL.tasks()[0]
    names = ("environment", "policy", "tuner", "horizon", "seed")
    text = json.dumps({"version": RESULTS_VERSION, **{name: getattr(first, name) for name in names}})
    assert first.key == hashlib.sha256(text.encode()).hexdigest()[:24]


def test_another_horizon_or_seed_is_another_task() -> None:
    keys = {task.key for task in SMALL.tasks()}
    assert not keys & {task.key for task in replace(SMALL, horizon=51).tasks()}
    assert not keys & {task.key for task in replace(SMALL, seed=9).tasks()}
    assert keys == {task.key for task in replace(SMALL, title="another title").tasks()}


def test_tuners_get_the_experiments_horizon_unless_they_say_their_own() -> None:
    own = {"name": "TwoLayer", "space": {"alpha": [1]}, "horizon": 7}
    tasks = replace(SMALL, tuners={"own": own, "TL": SMALL.tuners["TL"]}).tasks()
    assert [task.tuner["horizon"] for task in tasks[:2]] == [7, 50]


def test_a_tuner_may_play_with_another_setting_of_the_policy() -> None:
    plain = {"name": "LinUCB", "dim": 3, "intercept": False}
    tasks = replace(SMALL, policies={"Theory": plain}).tasks()
    assert [task.policy for task in tasks[:3]] == [SMALL.policy, plain, SMALL.policy]
    same = [one.key == other.key for one, other in zip(tasks, SMALL.tasks(), strict=True)]
    assert same[:3] == [True, False, True]
    assert not tasks[1].agent().policy.intercept


class _Spacious(LinUCB):
    """A policy with a space of its own, which depends on how it was made."""

    @property
    def space(self) -> Space:
        return Space(alpha=[0.5, self.sigma])


def test_a_tuner_without_a_space_gets_the_policys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES.built_in, "Spacious", _Spacious)
    tuners: dict[str, Spec] = {"TL": {"name": "TwoLayer"}, "own": {"name": "TwoLayer", "space": {"alpha": [1]}}}
    policies = [{"name": "Spacious", "dim": 3, "sigma": sigma} for sigma in (0.25, 0.125)]
    one, other = (replace(SMALL, policy=policy, tuners=tuners).tasks() for policy in policies)
    assert [dict(point) for point in one[0].agent().tuner.points] == [{"alpha": 0.5}, {"alpha": 0.25}]
    assert [dict(point) for point in one[1].agent().tuner.points] == [{"alpha": 1.0}]
    assert one[0].tuner != other[0].tuner


def test_sizes_of_an_experiment_are_checked() -> None:
    with pytest.raises(InputError, match="repeats must be a whole number of at least 1; got 0"):
        replace(SMALL, repeats=0)
    with pytest.raises(InputError, match="horizon must be a whole number of at least 1; got -5"):
        replace(SMALL, horizon=-5)
    with pytest.raises(InputError, match="seed must be a whole number of at least 0; got -1"):
        replace(SMALL, seed=-1)
    with pytest.raises(InputError, match="delay must be a whole number of at least 0; got -1"):
        replace(SMALL, delay=-1)
    with pytest.raises(InputError, match=r"lost must be between 0 and 1; got 1\.5"):
        replace(SMALL, lost=1.5)
