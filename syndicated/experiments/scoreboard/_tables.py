"""The scoreboard as text for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syndicated.experiments._tables import empty_table
from syndicated.experiments.scoreboard._ratios import World, findings, overall
from syndicated.experiments.scoreboard._worlds import BASE_TUNER, OUR_TUNER

if TYPE_CHECKING:
    from rich.console import Console


def print_board(console: "Console", worlds: Sequence[World]) -> None:
    """Every tuner's geometric mean over the worlds, and which bars are met."""
    table = empty_table(f"Mean regret as a multiple of {BASE_TUNER}'s, over {len(worlds)} worlds")
    table.add_column("tuner")
    for name in ("geometric mean", "95% interval", "verdict"):
        table.add_column(name, justify="right")
    for tuner in dict.fromkeys(label for world in worlds for label in world.regrets):
        ratio = overall(worlds, tuner)
        if ratio and tuner != BASE_TUNER:
            table.add_row(tuner, f"{ratio.value:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}", ratio.verdict)
    console.print(table)
    if any(OUR_TUNER in world.regrets for world in worlds):
        _print_findings(console, worlds)


def _print_findings(console: "Console", worlds: Sequence[World]) -> None:
    console.print(f"What is asked of {OUR_TUNER}:")
    for found in findings(worlds):
        worst = f", {found.worst[1]:.3f} in {found.worst[0]}" if found.worst else ""
        console.print(f"{found.bar.text}: at most {found.bar.most:g}{worst}: {found.verdict}", highlight=False)
