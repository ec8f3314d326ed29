"""The demo: what it shows, and that its figure says no more than the evidence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import made

from syndicated.cli import main
from syndicated.experiments.paper._demo import DEMO, OURS, apart, draw_demo, story

FINALS = {label: [100.0, 110.0, 120.0, 105.0, 95.0] for label in DEMO.tuners}


def test_our_agent_plays_with_nothing_set_in_the_worlds_of_the_others() -> None:
    tasks = {task.tuner_name: task for task in replace(DEMO, repeats=1).tasks()}
    assert tasks[OURS].environment == tasks["Syndicated"].environment
    assert tasks[OURS].seed == tasks["Syndicated"].seed
    assert tasks[OURS].policy["intercept"] is True
    assert tasks["Syndicated"].policy["intercept"] is False


def test_the_title_says_how_far_ahead_the_evidence_sets_it() -> None:
    far = made(DEMO, FINALS | {OURS: [10.0, 11.0, 12.0, 10.5, 9.5]})
    assert story(far) == "Nothing set: 10 times less regret than the best of these methods of the paper"
    for unsettled in ([90.0, 120.0, 110.0, 101.0, 99.0], [300.0, 310.0, 320.0, 305.0, 295.0]):
        assert story(made(DEMO, FINALS | {OURS: unsettled})) == "Cumulative regret"


def test_labels_are_a_gap_apart_and_stay_in_their_order() -> None:
    moved = apart(np.array([0.1, 0.1, 0.12, 0.5]), 0.06)
    assert moved == pytest.approx([0.1, 0.16, 0.22, 0.5])


def test_every_line_has_its_label_beside_its_end() -> None:
    figure = draw_demo(made(DEMO, FINALS))
    figure.draw_without_rendering()
    labels = list(figure.axes[0].texts)
    assert {text.get_text().strip().split("  ")[0] for text in labels} == set(DEMO.tuners)
    boxes = [text.get_window_extent() for text in labels]
    assert all(one is two or not one.overlaps(two) for one in boxes for two in boxes)
    assert all(figure.bbox.contains(box.x1, box.y1) for box in boxes)


def test_the_command_writes_a_table_and_a_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--horizon", "20", "--repeats", "2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert OURS in capsys.readouterr().out
    assert all((tmp_path / f"demo.{suffix}").exists() for suffix in ("csv", "png", "svg"))
