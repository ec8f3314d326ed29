"""Results: paired differences, intervals, what is evidence, and the tidy table."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support.experiments import SMALL, made, made_up, spread

from syndicated.experiments import Run, evidence_text, print_results, run, summary, write_table
from syndicated.experiments._results import CURVE_COLUMNS, check_published, direction, interval
from syndicated.experiments.paper import PAPER
from syndicated.experiments.paper._report import report

PANEL = PAPER["figure2"][0]


def test_the_summary_compares_world_by_world() -> None:
    rows = summary(made_up(A=[10, 20, 30], B=[12, 21, 33]))
    assert [row.tuner for row in rows] == ["A", "B"]
    assert rows[1].difference == pytest.approx(2.0)
    assert 1.0 <= rows[1].low <= 2.0 <= rows[1].high <= 3.0
    assert rows[0].std == pytest.approx(np.std([10, 20, 30]))
    assert rows[0].error == pytest.approx(np.std([10, 20, 30], ddof=1) / np.sqrt(3))
    assert (rows[0].published, rows[1].published) == ((10.0, 1.0), None)


@pytest.mark.parametrize(("n", "covered"), [(5, 0.93), (10, 0.95), (30, 0.95)])
def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says(n: int, covered: float) -> None:
    """Resampled means of 5 values cannot go far enough out for all of the 95%: 93% were measured over 2,000 samples."""
    rng = np.random.default_rng(0)
    ends = [interval(rng.normal(size=n)) for _ in range(1000)]
    assert np.mean([low <= 0 <= high for low, high in ends]) == pytest.approx(covered, abs=0.025)


def test_a_mean_of_five_varies_more_than_the_mean_of_all() -> None:
    check = check_published(made_up(A=list(range(50))))[0]
    narrow, wide = (high - low for low, high in (check.mean_interval, check.five_interval))
    assert wide / narrow == pytest.approx(np.sqrt(50 / 5), rel=0.1)


def test_the_tidy_table_has_a_row_for_every_kept_round(tmp_path: Path) -> None:
    tasks = SMALL.tasks()
    curves = run(tasks, tmp_path)
    write_table(tmp_path / "all.csv", [Run(SMALL, tasks, curves)])
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    assert tuple(rows[0]) == CURVE_COLUMNS
    assert len(rows) == 9 * 50
    assert float(rows[-1]["regret"]) == curves[-1]["regret"][-1]


@pytest.mark.parametrize(
    ("ends", "repeats", "settled"),
    [
        ((1.2, 1.9), 5, 1),
        ((0.2, 0.9), 5, -1),
        ((0.2, 1.9), 500, 0),
        ((1.0, 1.9), 500, 0),  # its end is equality itself
        ((1.2, 1.9), 4, 0),  # too few repeats
    ],
)
def test_an_interval_settles_what_it_excludes_if_the_repeats_are_enough(
    ends: tuple[float, float], repeats: int, settled: int
) -> None:
    assert direction(*ends, repeats, equal=1.0) == settled


def test_the_terminal_says_what_the_report_says(capsys: pytest.CaptureFixture[str]) -> None:
    for repeats in (4, 5):
        result = made(PANEL, {label: values[:repeats] for label, values in spread(PANEL).items()})
        said = evidence_text(summary(result), repeats)
        assert ("settle nothing" in said) == (repeats < 5)
        print_results(Console(width=140), [result])
        assert said in capsys.readouterr().out
        assert said in report({"figure2": [result]}, {})


def test_a_panel_names_only_whom_the_evidence_sets_apart() -> None:
    experiment = replace(PANEL, tuners={name: {"name": "Theory"} for name in "ABC"})
    finals = {"A": [10.0, 11, 9, 10, 10], "B": [10.5, 9, 11, 12, 10], "C": [20.0, 21, 22, 20, 21]}
    said = evidence_text(summary(made(experiment, finals)), repeats=5)
    assert said == "A has the least mean regret. The evidence sets it apart from C, but not from B."
    few = evidence_text(summary(made(experiment, finals)), repeats=4)
    assert few == "A has the least mean regret. Fewer than 5 repeats settle nothing."
