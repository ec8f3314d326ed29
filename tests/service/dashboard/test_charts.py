"""Charts as SVG."""

import re

import numpy as np
import pytest

from syndicated.service.dashboard import charts


def test_labels_are_moved_apart_within_bounds() -> None:
    moved = charts.spread([50.0, 50.0, 50.0, 99.0], 0, 100)
    assert moved == sorted(moved)
    assert min(np.diff(moved)) >= charts.LABEL_GAP - 1e-9
    many = charts.spread([100.0] * 12, 20, 100)
    assert (min(many), max(many)) == pytest.approx((20, 100))
    assert charts.spread([], 0, 1) == []


def test_a_single_point_is_a_dot_and_no_point_is_nothing() -> None:
    one, none = np.array([5.0]), np.array([])
    assert "<circle" in charts.band("t", 10, one, one, one - 1, one + 1)
    assert "<polyline" not in charts.band("t", 10, none, none, none, none)
    assert "<circle" in charts.shares("t", 10, one, one / 10)


def test_lines_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(1000.0)
    drawn = charts.probabilities("alpha", ["1", "2"], x, np.column_stack([x / 999, 1 - x / 999]))
    points = re.findall(r'points="([^"]+)"', drawn)[0].split()
    assert len(points) == charts.MAX_POINTS
    assert points[0].endswith(f",{charts.HEIGHT - charts.BOTTOM_MARGIN}.0")
    assert points[-1].endswith(f",{charts.TOP_MARGIN}.0")
