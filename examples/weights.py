"""How tuners think: the probability of every candidate over time, on the same worlds.

Prints the probabilities after 4,000 rounds; given the name of a file, draws them over time into it.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from syndicated.experiments import Area, Experiment, areas, collect, run_task, shades

MIN_LABELLED = 0.06  # probability in the end, of a value that is written beside its area
ALPHA = {"alpha": [0, 0.01, 0.1, 1, 10]}
TUNERS = {
    "Consensus": {"name": "Consensus", "space": {"boldness": [1, 2, 4]}},
    "Syndicated": {"name": "Syndicated", "space": ALPHA},
    "OP": {"name": "OP", "space": ALPHA},
    "Corral": {"name": "Corral", "space": ALPHA},
}
WORLDS = {
    "new arms every round": {"name": "Linear", "dim": 10, "noise": 0.1},
    "always the same arms": {"name": "Linear", "dim": 5, "noise": 0.5, "fixed": True},
}


def played(title: str, world: dict[str, Any]) -> dict[str, Area]:
    """What each tuner drew from, over the rounds of one run."""
    policy = {"name": "LinUCB", "dim": world["dim"]}
    experiment = Experiment("weights", title, world, policy, TUNERS, horizon=4_000, repeats=1)
    result = collect(experiment, [run_task(task) for task in experiment.tasks()])
    return {tuner: areas(result, tuner)[0] for tuner in TUNERS}


def show(title: str, drawn: Mapping[str, Area]) -> None:
    print(title)
    for tuner, area in drawn.items():
        last = zip(area.values, area.p[-1], strict=True)
        print(f"  {tuner:<10}  {area.hyper:<8}  " + "  ".join(f"{value:g}: {p:.2f}" for value, p in last))


def draw(ax: Axes, area: Area) -> None:
    """The probabilities on top of each other, and the values beside them: at the end, or where they were at first."""
    ax.stackplot(area.x, area.p.T, colors=shades(len(area.values)))
    first, last = (p.cumsum() - p / 2 for p in (area.p[0], area.p[-1]))
    for k, value in enumerate(area.values):
        if area.p[-1, k] >= MIN_LABELLED:
            ax.text(1.03 * area.x[-1], last[k], f"{value:g}", va="center", fontsize=9)
        else:
            colour = "white" if 2 * k < len(area.values) else "black"
            ax.text(0.02 * area.x[-1], first[k], f"{value:g}", va="center", fontsize=9, color=colour)
    ax.set_xlim(0, area.x[-1])
    ax.set_xticks([0, area.x[-1] // 2, area.x[-1]])
    ax.set_ylim(0, 1)


def save(worlds: Mapping[str, Mapping[str, Area]], file: Path) -> None:
    figure, axes = plt.subplots(len(worlds), len(TUNERS), figsize=(11, 5.2), sharex=True, sharey=True)
    for row, (title, drawn) in zip(axes, worlds.items(), strict=True):
        for ax, (tuner, area) in zip(row, drawn.items(), strict=True):
            draw(ax, area)
            if title == next(iter(worlds)):
                ax.set_title(f"{tuner}: {area.hyper}")
        row[0].set_ylabel(f"{title}\nprobability")
    for ax in axes[-1]:
        ax.set_xlabel("round")
    figure.tight_layout(w_pad=1.5)
    with mpl.rc_context({"svg.hashsalt": "weights"}):
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def main() -> None:
    worlds = {title: played(title, world) for title, world in WORLDS.items()}
    for title, drawn in worlds.items():
        show(title, drawn)
    if len(sys.argv) > 1:
        save(worlds, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
