"""Evaluations as text for a terminal."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from syndicated.evaluate._estimates import Estimate, Evaluation
from syndicated.evaluate._log import Log

if TYPE_CHECKING:
    from rich.console import Console


def print_evaluations(console: "Console", title: str, log: Log, found: Mapping[str, Evaluation]) -> None:
    """A table with the log's own mean reward and every target's estimates, what was left out, and every warning."""
    from rich.table import Table

    first = next(iter(found.values()))
    console.print(f"{title}: reward a round, from a log of {first.rounds:,} rounds", highlight=False)
    table = Table()
    for name in ("player", "estimator"):
        table.add_column(name)
    for name in ("mean reward", f"{100 * first.confidence:g}% interval", "accepted", "effective", "rewarded"):
        table.add_column(name, justify="right")
    table.add_row("the log", "mean", *_cells(first.logged), "", "", "", end_section=True)
    for label, each in found.items():
        table.add_row(label, "DR", *_cells(each.dr), *_counts(each))
        table.add_row("", "SNIPS", *_cells(each.snips), "", "", "")
        table.add_row("", "IPS", *_cells(each.ips), "", "", "")
        table.add_row("", "DR less the log", *_cells(each.gain), "", "", "", end_section=True)
    console.print(table)
    console.print(_about(first), highlight=False, soft_wrap=True)
    console.print(f"Left out: {log.left_out}.", highlight=False)
    for label, each in found.items():
        for warning in each.warnings:
            console.print(f"Warning, {label}: {warning}.", highlight=False, soft_wrap=True)


def _about(found: Evaluation) -> str:
    """What the estimates are about."""
    if not found.accepted:
        return "The target learned nothing: it is the same in all rounds of the log."
    about = f"Each is about the target's own first rounds, as many as were accepted; the log had {found.rounds:,}."
    if found.histories == 1:
        return f"{about}\nOne history of each target: another --seed, or more --histories, shows how much it matters."
    return f"{about}\nMeans over {found.histories} histories of each target; the intervals include how far they differ."


def _counts(found: Evaluation) -> tuple[str, str, str]:
    return f"{found.accepted:,}", f"{found.effective:,.0f}", f"{found.rewarded:,.0f}"


def _cells(estimate: Estimate) -> tuple[str, str]:
    """The value and its interval, with two digits of half its width."""
    if not math.isfinite(estimate.value):
        return "–", "–"
    half = (estimate.high - estimate.low) / 2
    if not math.isfinite(half):
        return f"{estimate.value:.4g}", "–"
    places = min(9, max(0, 1 - math.floor(math.log10(half)))) if half > 0 else 4
    return f"{estimate.value:.{places}f}", f"{estimate.low:.{places}f} to {estimate.high:.{places}f}"
