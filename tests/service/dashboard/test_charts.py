"""Charts as SVG."""

import math
import re

import numpy as np
import pytest

from syndicated.service.dashboard import charts
from syndicated.service.dashboard.axis import Mark, Span, time_ticks
from syndicated.service.dashboard.curves import Progress
from syndicated.service.dashboard.formatting import Interval


def test_labels_are_moved_apart_within_bounds() -> None:
    moved = charts.spread([50.0, 50.0, 50.0, 99.0], 0, 100)
    assert moved == sorted(moved)
    assert min(np.diff(moved)) >= charts.LABEL_GAP - 1e-9
    many = charts.spread([100.0] * 12, 20, 100)
    assert (min(many), max(many)) == pytest.approx((20, 100))
    assert charts.spread([], 0, 1) == []


def test_a_number_that_is_wider_than_its_margin_is_narrowed() -> None:
    span, two = Span("decisions", 0, 10), np.array([2.0, 5.0])
    for top, narrowed in ((1.0, False), (6e5, True)):
        drawn = charts.rewards(span, Progress(two, [Interval(0.0, 0.1), Interval(top, 0.1)], two))
        assert ('textLength="38" lengthAdjust="spacingAndGlyphs">600000<' in drawn) == narrowed


def test_a_single_point_is_a_dot_and_no_point_is_nothing() -> None:
    span, one, none = Span("decisions", 0, 10), np.array([5.0]), np.array([])
    assert "<circle" in charts.rewards(span, Progress(one, [Interval(0.5, 0.1)], one))
    assert "<polyline" not in charts.rewards(span, Progress(none, [], none))
    assert "<circle" in charts.shares("t", span, one, one / 10)


def test_a_line_has_the_text_of_its_values_and_a_mark_its_title() -> None:
    span = Span("time", 0, 7200, [Mark(3600.0, "kept", "kept model <7>")])
    x, made = np.array([1800.0, 5400.0]), [Interval(0.5, 0.1), Interval(0.25, math.nan)]
    drawn = charts.rewards(span, Progress(x, [*made], x))
    assert 'data-values="0.50 ± 0.10|0.25"' in drawn
    assert 'data-places="1970-01-01 00:30:00 UTC|1970-01-01 01:30:00 UTC"' in drawn
    assert "<title>kept model &lt;7&gt;</title>" in drawn
    assert ">01:00</text>" in drawn
    gone = charts.rewards(span, Progress(x, [Interval(math.nan, math.nan), made[0]], x))
    assert 'data-values="0.50 ± 0.10" data-places="1970-01-01 01:30:00 UTC"' in gone


def test_ticks_of_time_are_round_and_few() -> None:
    for length in (0.0, 3.0, 100.0, 5e3, 4e5, 3e7, 1e9):
        found = time_ticks(1.7e9, 1.7e9 + length)
        assert len(found) <= 5 or length == 1e9
    assert [text for _, text in time_ticks(1.7e9, 1.7e9 + 4 * 86400)][:2] == ["2023-11-15", "2023-11-16"]


def test_lines_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(1000.0)
    span = Span("decisions", 0, 999)
    drawn = charts.probabilities("alpha", ["1", "2"], span, x, np.column_stack([x / 999, 1 - x / 999]))
    points = re.findall(r'points="([^"]+)"', drawn)[0].split()
    assert len(points) == charts.MAX_POINTS
    assert points[0].endswith(f",{charts.HEIGHT - charts.BOTTOM_MARGIN}.0")
    assert points[-1].endswith(f",{charts.TOP_MARGIN}.0")
