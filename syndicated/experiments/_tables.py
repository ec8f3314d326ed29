"""Results as text for a terminal: tables, and a sentence that says what is evidence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from syndicated.experiments._results import Check, Result, SummaryRow, check_published, evidence_text, summary

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_results(console: "Console", results: Sequence[Result]) -> None:
    """A table for each experiment, and what is evidence in it."""
    for result in results:
        rows = summary(result)
        console.print(_table(result, rows))
        console.print(evidence_text(rows, result.experiment.repeats), highlight=False)
        console.print()


def empty_table(title: str) -> "Table":
    """A table with a title over its left end."""
    from rich.table import Table

    return Table(title=title, title_justify="left")


def print_published(console: "Console", results: Sequence[Result]) -> None:
    """The paper's printed numbers beside ours."""
    table = empty_table("The paper's numbers beside ours")
    for name in ("experiment", "row"):
        table.add_column(name)
    for name in (
        "paper: mean (std)",
        "ours: mean (std)",
        "95% interval of our mean",
        "95% of means of 5 repeats",
    ):
        table.add_column(name, justify="right")
    for result in results:
        for check in check_published(result):
            table.add_row(
                result.experiment.title,
                check.tuner,
                f"{check.published[0]:.2f} ({check.published[1]:.2f})",
                f"{check.mean:.2f} ({check.std:.2f})",
                _inside(check, check.mean_interval),
                _inside(check, check.five_interval),
            )
    console.print(table)


def _inside(check: Check, ends: tuple[float, float]) -> str:
    return f"{ends[0]:.0f} to {ends[1]:.0f}: paper {'inside' if check.inside(ends) else 'outside'}"


def _table(result: Result, rows: Sequence[SummaryRow]) -> "Table":
    e = result.experiment
    repeats = f"{e.repeats} repeat{'s' if e.repeats > 1 else ''}"
    table = empty_table(f"{e.title}: regret after {e.horizon:,} rounds, {repeats}")
    table.add_column("tuner")
    published = any(row.published for row in rows)
    headings = ["mean", "std", "std. error", "above the best", "95% interval"]
    for name in headings + ["paper: mean (std)"] * published:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [f"{row.mean:.1f}", f"{row.std:.1f}", f"{row.error:.1f}" if e.repeats > 1 else "–"]
        best = row is rows[0]
        cells += ["best", ""] if best else [f"{row.difference:.1f}", f"{row.low:.1f} to {row.high:.1f}"]
        if published:
            cells.append("{:.2f} ({:.2f})".format(*row.published) if row.published else "")
        table.add_row(row.tuner, *cells)
    return table
