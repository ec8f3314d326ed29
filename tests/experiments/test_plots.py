"""Figures: what is shown, and that it fits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import ROUNDS, made, made_up, spread

from syndicated._series import evenly_spaced
from syndicated.experiments import _plots as plots
from syndicated.experiments.paper import _experiments as paper


def test_a_line_is_a_mean_with_its_band() -> None:
    drawn = plots.line("A", np.array([1, 2]), np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert drawn.mean.tolist() == [2.0, 4.0]
    assert (drawn.high - drawn.mean).tolist() == pytest.approx([1.96 * 1.0, 1.96 * 2.0])


def test_grid_lines_are_ordered_by_alpha_beside_theory() -> None:
    made = made_up(**{"alpha=10.0": [7.0, 7.0], "alpha=2.0": [5.0, 6.0], "Theory": [1.0, 2.0]})
    fixed, theory = plots.grid_lines(made)
    assert fixed.x.tolist() == [2.0, 10.0]
    assert fixed.mean.tolist() == [5.5, 7.0]
    assert theory.mean.tolist() == [1.5, 1.5]


@pytest.mark.parametrize(("panels", "shown"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (6, (2, 3))])
def test_panels_stand_in_rows_of_three_at_most(panels: int, shown: tuple[int, int]) -> None:
    figure = plots.draw_regret([made_up(A=[10, 20, 30], B=[12, 21, 33])] * panels)
    grid = figure.axes[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    assert (grid.nrows, grid.ncols) == shown
    assert sum(ax.get_visible() for ax in figure.axes) == panels


@pytest.mark.parametrize("panels", [1, 2, 3, 6])
def test_the_legend_of_all_methods_fits_into_the_figure(panels: int) -> None:
    figure = plots.draw_regret([made_up(**{label: [10.0, 20.0] for label in paper.FIGURE2[0].tuners})] * panels)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width


def test_figures_are_written_twice_and_are_reproducible(tmp_path: Path) -> None:
    results = [made_up(A=[10, 20, 30], B=[12, 21, 33])]
    files = [plots.save_figure(plots.draw_regret(results), tmp_path / name) for name in ("one", "two")]
    assert [file.suffix for file in files[0]] == [".png", ".svg"]
    assert files[0][1].read_bytes() == files[1][1].read_bytes()


def test_a_product_is_shown_by_its_marginals() -> None:
    experiment = replace(
        paper.FIGURE2[0], tuners={"TL": {"name": "TwoLayer", "space": {"alpha": [0.1, 1], "lam": [2, 3, 4]}}}
    )
    result = made(experiment, {"TL": [1.0]})
    trace = np.tile([0.05, 0.10, 0.15, 0.20, 0.24, 0.26], (len(ROUNDS), 1))
    alpha, lam = plots.areas(replace(result, traces={"TL": [trace]}), "TL")
    assert (alpha.hyper, alpha.values, lam.hyper, lam.values) == ("alpha", [0.1, 1.0], "lam", [2.0, 3.0, 4.0])
    assert np.allclose(alpha.p, [0.30, 0.70])
    assert np.allclose(lam.p, [0.25, 0.34, 0.41])


def test_separate_axes_are_shown_as_they_are_and_no_choice_is_not_shown() -> None:
    experiment = paper.FIGURE2[0]
    result = made(experiment, spread(experiment))
    traces = [np.tile([0.1, 0.2, 0.3, 0.15, 0.25], (3, 1)), np.tile([0.5, 0.3, 0.2], (3, 1))]
    shown = plots.areas(replace(result, traces={"Syndicated": traces}), "Syndicated")
    assert [area.p.tolist() for area in shown] == [trace.tolist() for trace in traces]
    assert plots.areas(result, "Theory") == []


def test_thinning_keeps_both_ends() -> None:
    assert evenly_spaced(0, 199, 60)[[0, -1]].tolist() == [0, 199]
    assert len(evenly_spaced(0, 199, 60)) == 60
    assert evenly_spaced(0, 2, 60).tolist() == [0, 1, 2]


def test_the_parts_of_the_regret_sum_to_it() -> None:
    experiment = paper.FIGURE3[0]
    for split in plots.splits(made(experiment, spread(experiment))):
        assert split.warmup + split.tuning + split.learning == pytest.approx(split.regret)
        assert (split.warmup, split.tuning) == (split.regret / 4, -split.regret / 8)


def test_a_method_looks_the_same_in_every_figure() -> None:
    drawn = [plots.draw_regret([made(e, spread(e))]) for e in (paper.FIGURE2[0], paper.FIGURE3[0])]
    colours = [{line.get_label(): line.get_color() for line in figure.axes[0].lines} for figure in drawn]
    assert colours[0].keys() - {"Theory"} == colours[1].keys()
    assert all(colours[0][label] == colour for label, colour in colours[1].items())
