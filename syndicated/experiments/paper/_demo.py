"""The demo: an agent with nothing set in the paper's first simulation, beside the paper's own methods."""

from typing import TYPE_CHECKING

import numpy as np

from syndicated._figures import empty_figure, styled
from syndicated.agent import default_tuner
from syndicated.experiments._experiment import Experiment
from syndicated.experiments._plots import METHOD_COLOURS, colour_of, regret_lines
from syndicated.experiments._results import Result, not_apart, summary
from syndicated.experiments.paper._experiments import FIGURE2
from syndicated.policies import LinUCB
from syndicated.spec import spec_of
from syndicated.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "Agent(LinUCB), nothing set"
SHOWN = ("Theory", "OP", "Syndicated")  # of the paper's methods; all of them: `syndicated reproduce figure2`
MIN_LABEL_GAP = 0.06  # of the height of the figure
BAR_STEP = 0.015  # of its width, from one interval to the next

_SIMULATION, _NOTHING_SET = FIGURE2[0], LinUCB(dim=10)
DEMO = Experiment(
    name="demo",
    title="the paper's LinUCB simulation",
    environment=_SIMULATION.environment,
    policy=_SIMULATION.policy,
    tuners={
        OURS: spec_of(default_tuner(_NOTHING_SET)),
        **{label: _SIMULATION.tuners[label] for label in SHOWN},
    },
    policies={OURS: spec_of(_NOTHING_SET)},
    repeats=6,
    watched=False,
)


def story(result: Result) -> str:
    """What the figure shows, in a line; nothing that the evidence does not settle."""
    rows = summary(result)
    if rows[0].tuner != OURS or not_apart(rows, result.experiment.repeats):
        return "Cumulative regret"
    least = min(row.mean for row in rows[1:]) / rows[0].mean
    return f"Nothing set: {least:.0f} times less regret than the best of these methods of the paper"


def apart(places: Array, gap: float) -> Array:
    """Rising places moved up as little as needed to be a gap apart.

    >>> apart(np.array([0.1, 0.11, 0.5]), 0.05).round(2).tolist()
    [0.1, 0.15, 0.5]
    """
    steps = gap * np.arange(len(places))
    moved: Array = np.maximum.accumulate(places - steps) + steps
    return moved


def draw_demo(result: Result) -> "Figure":
    """Regret over rounds, every line labelled at its end, where a bar has its 95% interval."""
    lines = sorted(regret_lines(result), key=lambda line: float(line.mean[-1]))
    top, end = 1.08 * max(float(line.high[-1]) for line in lines), float(lines[0].x[-1])
    labels = apart(np.array([line.mean[-1] for line in lines]) / top, MIN_LABEL_GAP)
    with styled():
        figure = empty_figure(7.6, 4.4)
        ax = figure.subplots()
        for i, (line, place) in enumerate(zip(lines, labels, strict=True)):
            ours = line.label == OURS
            colour = METHOD_COLOURS["Consensus"] if ours else colour_of(line.label)
            ax.plot(line.x, line.mean, color=colour, linewidth=2.6 if ours else 1.4)
            ax.vlines(end * (0.99 - BAR_STEP * i), line.low[-1], line.high[-1], color=colour, linewidth=1.2)
            text = f"  {line.label}  {line.mean[-1]:,.0f}"
            weight = "bold" if ours else "normal"
            ax.annotate(text, (1.0, float(place)), xycoords="axes fraction", va="center", color=colour, weight=weight)
        ax.set_xlim(0, end)
        ax.set_ylim(0, top)
        ax.set_xlabel(
            f"round (means of {result.experiment.repeats} worlds of {result.experiment.title}, 95% intervals)"
        )
        ax.set_ylabel("cumulative regret: what was missed")
        ax.set_title(story(result), loc="left", weight="bold")
    return figure
