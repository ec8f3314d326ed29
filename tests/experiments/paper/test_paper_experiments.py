"""The paper's experiments, as data."""

import numpy as np
import pytest

from syndicated import SGDTS
from syndicated.environments.movielens import factors
from syndicated.experiments.paper import _experiments as paper


def test_the_papers_experiments_have_the_papers_sizes() -> None:
    assert [len(e.tasks()) for e in paper.TABLE1] == [22 * 5] * 4
    assert [len(e.tasks()) for e in paper.FIGURE2] == [7 * 10] * 6
    assert [len(e.tasks()) for e in paper.FIGURE3] == [6 * 10] * 2
    for experiment in [*paper.TABLE1, *paper.FIGURE2, *paper.FIGURE3]:
        assert experiment.horizon == 10_000
        assert experiment.policy["intercept"] is False
        movies = experiment.environment["name"] == "MovieLens"
        for task in experiment.tasks()[: len(experiment.tuners)]:
            world, policy = task.world(), task.agent().policy
            assert world.arms == (1_000 if movies else 100)
            assert policy.dim == world.dim == (20 if movies else 5 if "table1" in experiment.name else 10)
            assert not isinstance(policy, SGDTS) or policy.period == (200 if movies else 100)


def test_theory_knows_the_length_of_the_movies_features() -> None:
    longest = np.linalg.norm(factors(20)[1], axis=1).max()
    lengths = {e.policy["L"] for e in paper.FIGURE2 if e.environment["name"] == "MovieLens"}
    assert list(lengths) == [pytest.approx(longest, abs=5e-5)]
