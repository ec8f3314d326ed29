"""The numbers of a bandit's page, without HTML."""

from typing import Any

import numpy as np
import pytest
from support.dashboard_site import AXES, VECTOR

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Spec
from syndicated.service.dashboard.bandit_view import compared_with, gains, tallies
from syndicated.service.dashboard.curves import curves, history_rows, joint, progress
from syndicated.types import Array


def bandit_of(**spec: Any) -> Bandit:
    return Bandit(1, "b", Spec(**({"features": VECTOR} | spec)), 1)


def test_a_hold_out_is_compared_with_all_that_the_bandit_ran_and_the_floor_with_the_model() -> None:
    bandit = bandit_of(holdout=0.1, fallback="uniform")
    history, spec = bandit.history, bandit.spec
    assert (gains(history, spec), compared_with(history, spec)) == ([], ["the hold-out"])
    history.tallies = {"agent": [9, 4, 3.0, 3.0], "warmup": [9, 4, 1.0, 1.0], "holdout": [10, 5, 1.0, 1.0]}
    (found,) = gains(history, spec)
    assert (found.against, found.few, found.joined) == ("the hold-out, which is uniform play", True, False)
    assert found.difference.mean == pytest.approx(4 / 8 - 1 / 5)
    assert found.difference.half == pytest.approx(1.96 * np.hypot(np.sqrt(0.25 / 7), np.sqrt(0.16 / 4)))
    history.tallies["floor"] = [9, 4, 1.0, 1.0]
    held, uniform = gains(history, spec)
    assert held.difference.mean == pytest.approx(5 / 12 - 1 / 5)
    assert uniform.difference.mean == pytest.approx(3 / 4 - 1 / 4)
    assert uniform.joined
    del history.tallies["floor"]
    assert [each.decisions for each in tallies(history)] == [9, 9, 10]
    assert tallies(history)[0].reward.mean == 0.75


def rows_of(counts: list[int], rewards: list[int], sums: list[float], explored: list[int]) -> Array:
    return np.column_stack([np.zeros(len(counts)), counts, rewards, sums, sums, explored]).astype(float)


def test_stretches_hold_the_differences_between_rows() -> None:
    rows = rows_of([0, 25, 50, 75], [0, 10, 30, 30], [0, 5, 5, 5], [0, 25, 25, 30])
    found = progress(rows)
    assert found.x.tolist() == [12.5, 37.5, 62.5]
    assert [each.mean for each in found.rewards[:2]] == [0.5, 0.0]
    assert np.isnan(found.rewards[2].mean)
    assert found.explored.tolist() == [1.0, 0.0, 0.2]
    assert found.rewards[0].half == pytest.approx(1.96 * np.sqrt(0.25 / 9))
    rows[:, 0] = [100.0, 110.0, 130.0, 160.0]
    assert progress(rows, "time").x.tolist() == [105.0, 120.0, 145.0]


def test_the_first_decisions_are_one_stretch() -> None:
    found = progress(rows_of([0, 1], [0, 0], [0, 0], [0, 1]))
    assert (found.x.tolist(), found.explored.tolist()) == ([0.5], [1.0])


def test_marginals_add_up_to_one() -> None:
    bandit = bandit_of(space=AXES)
    shown = curves(bandit, history_rows(bandit), "decisions")
    assert [(each.name, each.labels) for each in shown] == [("alpha", ["0", "0.1", "1"]), ("lam", ["0.1", "1"])]
    assert all(np.allclose(each.p.sum(axis=1), 1) for each in shown)
    assert len(joint(bandit)) == 6
