"""Figures in two steps: what is shown (data, tested) and how it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from syndicated.experiments.results import Result
from syndicated.types import Array

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "syndicated",
}
# Okabe and Ito's colours, which colour-blind readers can tell apart, and a dash for the product ("Combined") methods.
COLOURS = ["#000000", "#E69F00", "#CC79A7", "#CC79A7", "#0072B2", "#0072B2", "#D55E00", "#009E73", "#56B4E9"]


@dataclass(frozen=True, eq=False)
class Line:
    """A mean with its 95% band (normal approximation over repeats)."""

    label: str
    x: Array
    mean: Array
    low: Array
    high: Array


def line(label: str, x: Array, values: Array) -> Line:
    """The mean over the first axis and its band."""
    mean, n = values.mean(axis=0), len(values)
    half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(mean)
    return Line(label, x, mean, mean - half, mean + half)


def regret_lines(result: Result) -> list[Line]:
    """Regret over rounds, one line a tuner."""
    return [line(label, result.rounds, curves) for label, curves in result.curves.items()]


def grid_lines(result: Result) -> list[Line]:
    """Final regret over the grid of alpha, and theory's as a level line."""
    alphas = {label: float(label.removeprefix("alpha=")) for label in result.curves if label != "Theory"}
    x = np.array(sorted(alphas.values()))
    final = np.array([result.final(label) for label in sorted(alphas, key=lambda label: alphas[label])]).T
    theory = np.repeat(result.final("Theory")[:, None], len(x), axis=1)
    return [line("alpha fixed", x, final), line("alpha(t) by theory", x, theory)]


def draw_regret(results: Sequence[Result]) -> Figure:
    """Panels of regret over rounds."""
    return _panels(results, [regret_lines(r) for r in results], "round", "cumulative regret")


def draw_grid(results: Sequence[Result]) -> Figure:
    """Panels of final regret over alpha."""
    return _panels(results, [grid_lines(r) for r in results], "alpha", "cumulative regret at the horizon")


def save(figure: Figure, stem: Path) -> list[Path]:
    """The figure as PNG and SVG."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with mpl.rc_context(STYLE):
        figure.savefig(files[0], dpi=160, metadata={"Software": None})
        figure.savefig(files[1], metadata={"Date": None})
    return files


def _panels(results: Sequence[Result], lines: Sequence[Sequence[Line]], x: str, y: str) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(results) + 0.4, 4.4), layout="constrained")
        axes = figure.subplots(1, len(results), squeeze=False)[0]
        for ax, result, drawn in zip(axes, results, lines, strict=True):
            _draw(ax, drawn)
            repeats = result.experiment.repeats
            ax.set_title(f"{result.experiment.title} ({repeats} repeat{'s' if repeats > 1 else ''})")
            ax.set_xlabel(x)
        axes[0].set_ylabel(y)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=min(3 * len(results) + 1, len(labels)), frameon=False
        )
    return figure


def _draw(ax: Axes, lines: Sequence[Line]) -> None:
    for i, each in enumerate(lines):
        colour = COLOURS[i % len(COLOURS)] if len(lines) > 2 else ("#0072B2", "#D55E00")[i]
        style = "--" if each.label.endswith("Combined") else "-"
        ax.plot(each.x, each.mean, style, color=colour, label=each.label, linewidth=1.6)
        ax.fill_between(each.x, each.low, each.high, color=colour, alpha=0.08, linewidth=0)
    ax.set_xlim(lines[0].x[0] if lines[0].x[0] > 1 else 0, lines[0].x[-1])
    ax.set_ylim(bottom=0)
