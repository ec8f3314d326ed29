"""Figures in two steps: what is shown (data, tested) and how it is drawn."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from syndicated._figures import FIGURE_STYLE, empty_figure, shades, styled
from syndicated._series import evenly_spaced, marginals
from syndicated.experiments._results import Result
from syndicated.spec import build
from syndicated.tuners import TUNERS
from syndicated.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart, and a dash for the product ("Combined") methods.
# A method has its own colour, so that it looks the same in every figure.
METHOD_COLOURS = {
    "Theory": "#000000",
    "OP": "#E69F00",
    "Corral": "#CC79A7",
    "TL": "#0072B2",
    "TwoLayer": "#0072B2",
    "Syndicated": "#D55E00",
    "Fixed": "#009E73",
    "Uniform": "#999999",
    "Default": "#6A00A8",
    "Consensus": "#6A00A8",
}
OTHER_COLOURS = ["#56B4E9", "#009E73", "#999999", "#F0E442"]
PART_COLOURS = {"warm-up": "#999999", "tuning": "#E69F00", "learning": "#56B4E9"}
GREEK_LETTERS = {"alpha": "α", "lam": "λ", "eta0": "η₀", "alpha1": "α⁽¹⁾", "alpha2": "α⁽²⁾"}
MAX_AREA_ROUNDS = 60
# Inlined figures: text stays text, in the reader's own font.
INLINE_STYLE: dict[Any, Any] = FIGURE_STYLE | {"svg.fonttype": "none", "path.simplify_threshold": 0.2}


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
    """Regret over rounds, one line for each tuner."""
    return [line(label, result.rounds, curves) for label, curves in result.curves.items()]


def grid_lines(result: Result) -> list[Line]:
    """Final regret over the grid of alpha, and theory's as a level line."""
    alphas = {label: float(label.removeprefix("alpha=")) for label in result.curves if label != "Theory"}
    x = np.array(sorted(alphas.values()))
    final = np.array([result.final(label) for label in sorted(alphas, key=lambda label: alphas[label])]).T
    theory = np.repeat(result.final("Theory")[:, None], len(x), axis=1)
    return [line("alpha fixed", x, final), line("alpha(t) by theory", x, theory)]


@dataclass(frozen=True, eq=False)
class Area:
    """The probability of every value of one hyper-parameter (rounds, values) over rounds."""

    hyper: str
    values: list[float]
    x: Array
    p: Array


def areas(result: Result, tuner: str) -> list[Area]:
    """The tuner's probabilities over rounds, one area for each hyper-parameter that it has a choice in."""
    kept = evenly_spaced(0, len(result.rounds) - 1, MAX_AREA_ROUNDS)
    axes = build(TUNERS, result.experiment.tuners[tuner]).axes()
    return [
        Area(each.name, each.values, result.rounds[kept], each.p)
        for axis, trace in zip(axes, result.traces[tuner], strict=True)
        for each in marginals(axis, np.asarray(trace)[kept])
    ]


@dataclass(frozen=True)
class Split:
    """A tuner's mean regret at the horizon and its parts, as the paper defines them. `tuning` is negative if the tuner
    did better than its best single candidate."""

    tuner: str
    regret: float
    warmup: float
    tuning: float
    learning: float


def splits(result: Result) -> list[Split]:
    """One split for each tuner, in the order of the experiment."""
    return [_split(result, tuner) for tuner in result.curves]


def _split(result: Result, tuner: str) -> Split:
    regret, warmup, tuning = (
        float(part[tuner][:, -1].mean()) for part in (result.curves, result.warmup, result.tuning)
    )
    return Split(tuner, regret, warmup, tuning, regret - warmup - tuning)


def draw_regret(results: Sequence[Result]) -> "Figure":
    """Panels of regret over rounds."""
    return _panels(results, [regret_lines(r) for r in results], "round", "cumulative regret")


def draw_grid(results: Sequence[Result]) -> "Figure":
    """Panels of final regret over alpha."""
    return _panels(results, [grid_lines(r) for r in results], "alpha", "cumulative regret at the horizon")


def draw_published(result: Result) -> "Figure":
    """A panel of final regret over alpha, with the paper's printed numbers."""
    figure = draw_grid([result])
    ax, published = figure.axes[0], dict(result.experiment.published)
    theory = published.pop("Theory", None)
    with styled():
        for label, (mean, std) in published.items():
            alpha = float(label.removeprefix("alpha="))
            bar = ax.errorbar(alpha, mean, std, fmt="D", color="#000000", markerfacecolor="white", capsize=3)
            bar.set_label("paper: best of the grid, ± std")
            ax.set_ylim(top=max(ax.get_ylim()[1], 1.05 * (mean + std)))
        if theory:
            ax.set_ylim(top=max(ax.get_ylim()[1], 1.05 * theory[0]))
            ax.axhline(theory[0], color="#000000", linestyle=":", linewidth=1.2, label="paper: α(t) by theory")
        _legend(figure, ax, columns=2)
    return figure


def draw_split(result: Result) -> "Figure":
    """Mean regret at the horizon as stacked bars, one for each tuner; negative parts go to the left of 0."""
    found = splits(result)
    with styled():
        from matplotlib.ticker import MaxNLocator, StrMethodFormatter

        figure = empty_figure(5.0, 4.4)
        ax = figure.subplots()
        names = [split.tuner for split in found]
        parts = {
            "warm-up": [split.warmup for split in found],
            "tuning": [split.tuning for split in found],
            "learning": [split.learning for split in found],
        }
        right, left = np.zeros(len(found)), np.zeros(len(found))
        for part in ("warm-up", "learning", "tuning"):
            width = np.array(parts[part])
            start = np.where(width < 0, left, right)
            ax.barh(names, width, left=start, height=0.62, color=PART_COLOURS[part], label=part)
            left, right = left + np.minimum(width, 0), right + np.maximum(width, 0)
        ax.plot([split.regret for split in found], names, "D", color="#000000", markersize=5, label="regret")
        ax.axvline(0, color="#000000", linewidth=0.8)
        ax.spines["left"].set_visible(False)
        ax.invert_yaxis()
        ax.use_sticky_edges = False
        ax.margins(x=0.05)
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)
        ax.set_title("Where the regret comes from")
        ax.set_xlabel("mean cumulative regret at the horizon")
        ax.xaxis.set_major_locator(MaxNLocator(6))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        _legend(figure, ax, columns=4)
    return figure


def draw_area(area: Area) -> "Figure":
    """The probability of every value as a stacked area, the least value at the bottom."""
    with styled(FIGURE_STYLE | {"font.size": 8, "axes.grid": False, "axes.linewidth": 0.6}):
        figure = empty_figure(1.95, 1.3, layout=None)
        ax = figure.add_axes((0.23, 0.22, 0.73, 0.7))
        colours = shades(len(area.values))
        ax.stackplot(area.x, area.p.T, colors=colours, edgecolor="white", linewidth=0.3)
        ax.set_xlim(float(area.x[0]), max(float(area.x[-1]), float(area.x[0]) + 1))
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.5, 1], ["0", "½", "1"])
        ax.set_xticks([float(area.x[0]), float(area.x[-1])], ["1", f"{int(area.x[-1]):,}"])
        ax.get_xticklabels()[-1].set_horizontalalignment("right")
        ax.set_ylabel(f"P({GREEK_LETTERS.get(area.hyper, area.hyper)})")
        ax.set_xlabel("round", labelpad=-7)
    return figure


def _legend(figure: "Figure", ax: "Axes", columns: int) -> None:
    for old in figure.legends:
        old.remove()
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def inline(figure: "Figure", name: str) -> str:
    """The figure as an SVG element to put into a page: as wide as its place, and all its ids begin with `name`."""
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with styled(INLINE_STYLE | {"svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata=nothing)
    body = text.getvalue().partition("<svg")[2]
    head, _, body = body.partition(">")
    view = re.findall(r'viewBox="([^"]+)"', head)[0]
    body = re.sub(r"<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    return f'<svg viewBox="{view}" aria-hidden="true">{_small(_own_ids(body, name))}'


def _own_ids(svg: str, name: str) -> str:
    """Only the ids that something refers to, each with the figure's name in front."""
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    return re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)


def _small(svg: str) -> str:
    """Hundredths of a point are enough, line breaks are not needed, and the font is the page's."""
    svg = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), svg)
    svg = re.sub(r"(font(?:-family)?: [^;\"]*?)'[^;\"]*", r"\1sans-serif", svg)
    return re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><").strip()


def save_figure(figure: "Figure", stem: Path) -> list[Path]:
    """The figure as PNG and SVG."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with styled():
        figure.savefig(files[0], dpi=160, metadata={"Software": None})
        figure.savefig(files[1], metadata={"Date": None})
    return files


def _panels(results: Sequence[Result], lines: Sequence[Sequence[Line]], x: str, y: str) -> "Figure":
    wide = 2 if len(results) == 4 else min(3, len(results))
    high = -(-len(results) // wide)
    with styled():
        figure = empty_figure(4.6 * wide + 0.4, 3.8 * high + 0.6)
        axes = figure.subplots(high, wide, squeeze=False)
        for ax in axes.flat[len(results) :]:
            ax.set_visible(False)
        for ax, result, drawn in zip(axes.flat, results, lines, strict=False):
            _draw(ax, drawn)
            repeats = result.experiment.repeats
            ax.set_title(f"{result.experiment.title} ({repeats} repeat{'s' if repeats > 1 else ''})")
        for ax in axes[-1]:
            ax.set_xlabel(x)
        for ax in axes[:, 0]:
            ax.set_ylabel(y)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        columns = min(3 * wide, len(labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def colour_of(label: str, place: int = 0) -> str:
    """The colour of a method: its own, or that of its place among the others."""
    own = {"alpha fixed": METHOD_COLOURS["TL"], "alpha(t) by theory": METHOD_COLOURS["Syndicated"]}
    return (METHOD_COLOURS | own).get(label.removesuffix("-Combined"), OTHER_COLOURS[place % len(OTHER_COLOURS)])


def _draw(ax: "Axes", lines: Sequence[Line]) -> None:
    for i, each in enumerate(lines):
        colour = colour_of(each.label, i)
        style = "--" if each.label.endswith("Combined") else "-"
        ax.plot(each.x, each.mean, style, color=colour, label=each.label, linewidth=1.6)
        ax.fill_between(each.x, each.low, each.high, color=colour, alpha=0.08, linewidth=0)
    ax.set_xlim(lines[0].x[0] if lines[0].x[0] > 1 else 0, lines[0].x[-1])
    ax.set_ylim(bottom=0)
