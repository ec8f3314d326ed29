"""The world of named arms with contexts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated.environments import Contexts
from syndicated.experiments import Experiment, run_experiments


def test_means_are_the_formula() -> None:
    world = Contexts(dim=3, arms=4, low=-1.0, high=5.0)
    theta = world.theta(seed=2)
    assert np.abs(theta[:, 0]).max() <= 1.0
    assert np.linalg.norm(theta[:, 1:], axis=1) == pytest.approx(np.ones(4))
    for seen in world.rounds(seed=2, horizon=20):
        arms: Any = seen.arms
        x = arms.x[0]
        assert np.linalg.norm(x) == pytest.approx(1.0)
        expected = [-1 + 6 * (1 + (level + 2 * sum(x * slopes)) / 3) / 2 for level, *slopes in theta.tolist()]
        assert seen.means == pytest.approx(np.array(expected))


def test_a_fixed_context_is_the_same_in_every_round() -> None:
    rounds = list(Contexts(dim=2, arms=3, fixed=True, late=5).rounds(seed=1, horizon=10))
    contexts: Any = [seen.arms for seen in rounds]
    assert all(np.array_equal(each.x, contexts[0].x) for each in contexts)
    assert rounds[0].means.argmin() == rounds[-1].means.argmax()


def test_contexts_may_be_categories() -> None:
    contexts: Any = [seen.arms for seen in Contexts(dim=3, arms=2, one_hot=True).rounds(seed=1, horizon=40)]
    assert {tuple(each.x[0]) for each in contexts} == {tuple(row) for row in np.eye(3)}


def test_an_arm_may_keep_its_context() -> None:
    contexts: Any = [seen.arms for seen in Contexts(dim=3, arms=50, lifetime=10).rounds(seed=1, horizon=40)]
    kept = [np.mean((now.x == before.x).all(axis=1)) for before, now in pairwise(contexts)]
    assert 0.85 < np.mean(kept) < 0.95


def test_each_arm_has_a_model_of_its_own(tmp_path: Path) -> None:
    """A context tells a policy with one model for all arms nothing about which of them is best."""
    policies = {name: {"name": name, "dim": 3} for name in ("ArmUCB", "LinUCB")}
    tuner = {"name": "Fixed", "space": {"boldness": [1.0]}}
    experiment = Experiment(
        name="contexts",
        title="contexts",
        environment={"name": "Contexts", "dim": 3, "arms": 5},
        policy=policies["ArmUCB"],
        policies=policies,
        tuners=dict.fromkeys(policies, tuner),
        horizon=600,
        repeats=1,
        watched=False,
    )
    (run,) = run_experiments([experiment], tmp_path)
    regrets = {task.tuner_name: curve["regret"][-1] for task, curve in zip(run.tasks, run.curves, strict=True)}
    assert 4 * regrets["ArmUCB"] < regrets["LinUCB"]


@pytest.mark.parametrize(("shape", "low"), [("square", 0.5), ("cosine", 0.0)])
def test_means_that_are_bent_stay_in_the_range(shape: Any, low: float) -> None:
    means = np.array([seen.means for seen in Contexts(dim=2, shape=shape).rounds(seed=1, horizon=200)])
    assert low <= means.min() < low + 0.05
    assert 0.9 < means.max() <= 1.0
