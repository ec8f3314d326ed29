"""The whole scoreboard as one figure, and what is lost on average and at worst as another.

In two steps: what is shown (data, tested) and how it is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syndicated._figures import FIGURE_STYLE, empty_figure, styled
from syndicated._formatting import ratio_number
from syndicated.experiments._plots import METHOD_COLOURS, OTHER_COLOURS
from syndicated.experiments.scoreboard._ratios import MOST_ANYWHERE, MOST_ON_AVERAGE, Ratio, Way, World, overall
from syndicated.experiments.scoreboard._worlds import BASE_TUNER, BEST_FIXED, OUR_TUNER, RIVAL_TUNER
from syndicated.tuners import TUNERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIO_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
OVERALL_TITLE = "Geometric mean"
LOSS_TICKS = (1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 6, 11, 21, 51, 101, 201, 501)
CROWDED = 1.2  # times what a way loses: the label of one that has another so near on its right is above it
MIN_LOSS = 0.01  # above the best fixed value: who loses less is drawn here
TUNERS_WITH_WHISKERS = (OUR_TUNER, RIVAL_TUNER)
# Our tuner stands out by colour and size, and is drawn last. The best fixed candidate is a tick: it is not a tuner.
_OWN = METHOD_COLOURS[OUR_TUNER]
TUNER_MARKS: dict[str, dict[str, Any]] = {
    "Uniform": {"marker": "x", "color": METHOD_COLOURS["Uniform"], "markersize": 5},
    "Theory": {"marker": "+", "color": METHOD_COLOURS["Theory"], "markersize": 6.5},
    "Corral": {"marker": "v", "color": METHOD_COLOURS["Corral"], "markersize": 5},
    "TL": {"marker": "s", "color": METHOD_COLOURS["TL"], "markersize": 4.5},
    "TL-Combined": {"marker": "s", "color": METHOD_COLOURS["TL"], "markersize": 4.5, "markerfacecolor": "white"},
    "Consensus": {"marker": "D", "color": _OWN, "markersize": 4.5, "markerfacecolor": "white"},
    RIVAL_TUNER: {"marker": "o", "color": METHOD_COLOURS["OP"], "markersize": 5.5},
    BEST_FIXED: {"marker": "|", "color": METHOD_COLOURS["Fixed"], "markersize": 12, "markeredgewidth": 2.2},
    OUR_TUNER: {"marker": "D", "color": _OWN, "markersize": 7.5, "zorder": 5},
}
PLUGIN_MARK: dict[str, Any] = {"marker": "*", "color": OTHER_COLOURS[0], "markersize": 7}  # a tuner of another package


@dataclass(frozen=True)
class BoardRow:
    """One row of the figure: a world, or all of them, and every tuner's ratio to the base's regret."""

    title: str
    group: str
    ratios: dict[str, Ratio]


def board_rows(worlds: Sequence[World]) -> list[BoardRow]:
    """One row for each world, in the order of the board, and the geometric mean last."""
    played = dict.fromkeys(label for world in worlds for label in world.regrets)
    guests = [label for label in played if label in TUNERS.plugins()]
    tuners = [label for label in (*guests, *TUNER_MARKS) if label in played]
    rows = [
        BoardRow(world.experiment.title, world.group, _known({label: world.ratio(label) for label in tuners}))
        for world in worlds
    ]
    means = _known({label: overall(worlds, label) for label in tuners})
    return [*rows, BoardRow(OVERALL_TITLE, "All worlds", means)]


def _known(ratios: dict[str, Ratio | None]) -> dict[str, Ratio]:
    return {label: each for label, each in ratios.items() if each}


def heights(rows: Sequence[BoardRow]) -> list[float]:
    """The vertical position of each row, with room for the heading of each group."""
    places: list[float] = []
    for before, row in zip([None, *rows], rows, strict=False):
        heading = 1.2 if before is None or before.group != row.group else 0.0
        places.append((places[-1] + 1 if places else 0.0) + heading)
    return places


def draw_board(worlds: Sequence[World]) -> "Figure":
    """Ratios on a log axis, one row for each world, grouped by kind."""
    rows = board_rows(worlds)
    places = heights(rows)
    with styled(FIGURE_STYLE | {"axes.grid": False}):
        figure = empty_figure(9.0, 0.27 * places[-1] + 1.6)
        ax = figure.subplots()
        _scale(ax, rows, places)
        for row, y in zip(rows, places, strict=True):
            _draw(ax, row, y)
        for row, y in {row.group: (row, y) for row, y in reversed(list(zip(rows, places, strict=True)))}.values():
            ax.text(0.0, y - 0.75, row.group, transform=ax.get_yaxis_transform(), fontweight="bold", va="center")
        if OUR_TUNER in rows[-1].ratios:
            ax.text(1.01, places[0] - 0.75, OUR_TUNER, transform=ax.get_yaxis_transform(), va="center", color=_OWN)
        _legend(figure, ax)
    return figure


@dataclass(frozen=True)
class WayMark:
    """One way to play in the figure: what it loses to the best fixed value of each world, above 1."""

    text: str
    fixed: bool
    mean: float
    worst: float
    mostly: float


def way_marks(ways: Sequence[Way]) -> list[WayMark]:
    """The ways to play, of fixed ones the value alone; who loses nothing is at the end of the axis."""
    marks = []
    for way in ways:
        text, losses = way.label.removeprefix("boldness="), (way.mean, way.worst, way.mostly)
        marks.append(WayMark(text, text != way.label, *(max(ratio - 1, MIN_LOSS) for ratio in losses)))
    return marks


def draw_trade_off(ways: Sequence[Way]) -> "Figure":
    """What each way to play loses on average and at worst to the best fixed value of each world."""
    marks = way_marks(ways)
    fixed, colour = [mark for mark in marks if mark.fixed], METHOD_COLOURS["Fixed"]
    with styled(FIGURE_STYLE):
        figure = empty_figure(7.2, 4.6)
        ax = figure.subplots()
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.plot([mark.mean for mark in fixed], [mark.worst for mark in fixed], color=colour, linewidth=0.8, alpha=0.4)
        for mark in marks:
            _draw_way(ax, mark, METHOD_COLOURS.get(mark.text, colour), above=any(_is_beside(mark, o) for o in marks))
        _scale_ways(ax, marks)
    return figure


def _is_beside(mark: WayMark, other: WayMark) -> bool:
    """Whether another is where the label would be."""
    return mark.mean < other.mean < CROWDED * mark.mean and 1 / CROWDED < other.worst / mark.worst < CROWDED


def _draw_way(ax: "Axes", mark: WayMark, colour: str, *, above: bool) -> None:
    """A point at the worst world, and a stroke to what nine of ten worlds have at most."""
    shape, size = ("D", 8) if mark.text == OUR_TUNER else ("o", 5)
    ax.plot([mark.mean] * 2, [mark.mostly, mark.worst], color=colour, linewidth=1.2, alpha=0.5, marker="_")
    ax.plot([mark.mean], [mark.worst], linestyle="none", marker=shape, markersize=size, color=colour)
    ours = mark.text in (OUR_TUNER, "Consensus")
    beside: dict[str, Any] = {"xytext": (-8, 3), "ha": "right"} if ours else {"xytext": (6, 3)}
    place = {"xytext": (0, 8), "ha": "center"} if above else beside
    ax.annotate(mark.text, (mark.mean, mark.worst), textcoords="offset points", color=colour, fontsize=9, **place)


def _scale_ways(ax: "Axes", marks: Sequence[WayMark]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ax.set_xlim(min(0.03, *(0.9 * mark.mean for mark in marks)), 2.2 * max(mark.mean for mark in marks))
    ax.set_ylim(0.1, 1.6 * max(mark.worst for mark in marks))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(FixedLocator([ratio - 1 for ratio in LOSS_TICKS]))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{1 + x:g}"))
        axis.set_minor_locator(NullLocator())
    ax.axvspan(MIN_LOSS, MOST_ON_AVERAGE - 1, color=_OWN, alpha=0.08, linewidth=0)
    ax.axhspan(MIN_LOSS, MOST_ANYWHERE - 1, color=_OWN, alpha=0.08, linewidth=0)
    ax.text(0.012, 0.015, "the bars", transform=ax.transAxes, color=_OWN, fontsize=8)
    ax.set_xlabel(f"geometric mean of the ratios to {BEST_FIXED}'s regret (log scale of what is above 1)")
    ax.set_ylabel("in the worst world; in nine of ten at most")


def _scale(ax: "Axes", rows: Sequence[BoardRow], places: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    shown = [end for row in rows for label, r in row.ratios.items() for end in _ends(label, r)]
    ax.set_xscale("log")
    ax.set_xlim(min([*shown, 0.5]) / 1.15, max([*shown, 2.0]) * 1.15)
    ax.set_ylim(places[-1] + 0.8, -0.1)
    ax.xaxis.set_major_locator(FixedLocator(RATIO_TICKS))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.set_yticks(places, [row.title for row in rows])
    ax.get_yticklabels()[-1].set_fontweight("bold")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.axvline(1, color=METHOD_COLOURS[BASE_TUNER], linewidth=1.4, label=f"{BASE_TUNER} = 1", zorder=1)
    ax.hlines(places, 0, 1, transform=ax.get_yaxis_transform(), color="#000000", alpha=0.08, linewidth=0.8)
    ax.set_xlabel(f"mean regret, as a multiple of {BASE_TUNER}'s on the same worlds (log scale; left is better)")


def _ends(label: str, ratio: Ratio) -> list[float]:
    return [ratio.value, ratio.low, ratio.high] if label in TUNERS_WITH_WHISKERS else [ratio.value]


def _draw(ax: "Axes", row: BoardRow, y: float) -> None:
    for label, ratio in row.ratios.items():
        style = TUNER_MARKS.get(label, PLUGIN_MARK)
        if label in TUNERS_WITH_WHISKERS:
            width = 2.2 if label == OUR_TUNER else 1.2
            ax.plot([ratio.low, ratio.high], [y, y], color=style["color"], linewidth=width, solid_capstyle="butt")
        ax.plot([ratio.value], [y], linestyle="none", label=label, **style)
    if OUR_TUNER in row.ratios:
        said = ratio_number(row.ratios[OUR_TUNER].value)
        ax.text(1.01, y, said, transform=ax.get_yaxis_transform(), va="center", color=_OWN)


def _legend(figure: "Figure", ax: "Axes") -> None:
    """Every kind of mark once, our tuner's first."""
    handles, labels = ax.get_legend_handles_labels()
    by_label = dict(zip(reversed(labels), reversed(handles), strict=True))
    known = [OUR_TUNER, f"{BASE_TUNER} = 1", *list(reversed(TUNER_MARKS))[1:]]
    order = [label for label in known if label in by_label] + [label for label in by_label if label not in known]
    figure.legend([by_label[label] for label in order], order, loc="outside lower center", ncols=5, frameon=False)
