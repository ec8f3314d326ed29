"""The numbers of a bandit's page, without HTML."""

from typing import Any

import numpy as np
import pytest
from support.dashboard_site import AXES, VECTOR

from syndicated.service.core.bandit import Bandit
from syndicated.service.core.messages import Spec
from syndicated.service.dashboard.bandit_view import tallies, uplift
from syndicated.service.dashboard.curves import curves, history_rows, joint, progress
from syndicated.types import Array


def bandit_of(**spec: Any) -> Bandit:
    return Bandit(1, "b", Spec(**({"features": VECTOR} | spec)), 1)


def test_a_hold_out_is_compared_with_all_that_the_bandit_ran() -> None:
    history = bandit_of().history
    assert uplift(history) is None
    history.tallies = {"agent": [9, 4, 3.0, 3.0], "warmup": [9, 4, 1.0, 1.0], "holdout": [10, 5, 1.0, 1.0]}
    found = uplift(history)
    assert found is not None
    assert found.mean == pytest.approx(4 / 8 - 1 / 5)
    assert found.half == pytest.approx(1.96 * np.hypot(np.sqrt(0.25 / 7), np.sqrt(0.16 / 4)))
    assert [each.decisions for each in tallies(history)] == [9, 9, 10]
    assert tallies(history)[0].reward.mean == 0.75


def rows_of(counts: list[int], rewards: list[int], sums: list[float], explored: list[int]) -> Array:
    return np.column_stack([np.zeros(len(counts)), counts, rewards, sums, sums, explored]).astype(float)


def test_stretches_hold_the_differences_between_rows() -> None:
    rows = rows_of([0, 25, 50, 75], [0, 10, 30, 30], [0, 5, 5, 5], [0, 25, 25, 30])
    found = progress(rows)
    assert found.decisions.tolist() == [12.5, 37.5, 62.5]
    assert found.mean[:2].tolist() == [0.5, 0.0]
    assert np.isnan(found.mean[2])
    assert found.explored.tolist() == [1.0, 0.0, 0.2]
    assert found.high[0] - found.mean[0] == pytest.approx(1.96 * np.sqrt(0.25 / 9))


def test_the_first_decisions_are_one_stretch() -> None:
    found = progress(rows_of([0, 1], [0, 0], [0, 0], [0, 1]))
    assert (found.decisions.tolist(), found.explored.tolist()) == ([0.5], [1.0])


def test_marginals_add_up_to_one() -> None:
    bandit = bandit_of(space=AXES)
    shown = curves(bandit, history_rows(bandit))
    assert [(each.name, each.labels) for each in shown] == [("alpha", ["0", "0.1", "1"]), ("lam", ["0.1", "1"])]
    assert all(np.allclose(each.p.sum(axis=1), 1) for each in shown)
    assert len(joint(bandit)) == 6
