"""What a run gave, as text for a terminal: tables, and a sentence that claims no more than the evidence."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from syndicated.experiments.results import Result, Row, check_published, summary
from syndicated.experiments.scoreboard.ratios import World, findings, overall
from syndicated.experiments.scoreboard.worlds import BASE


def print_results(console: Console, results: Sequence[Result]) -> None:
    """A table an experiment, and what of it is evidence."""
    for result in results:
        rows = summary(result)
        console.print(_table(result, rows))
        console.print(_verdict(rows), highlight=False)
        console.print()


def print_published(console: Console, results: Sequence[Result]) -> None:
    """The paper's printed numbers beside ours."""
    table = Table(title="The paper's numbers beside ours", title_justify="left")
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
                _inside(check.published[0], check.mean_interval),
                _inside(check.published[0], check.five_interval),
            )
    console.print(table)


def print_board(console: Console, worlds: Sequence[World]) -> None:
    """Every tuner's geometric mean over the worlds, and what became of the bars."""
    table = Table(title=f"Mean regret as a multiple of {BASE}'s, over {len(worlds)} worlds", title_justify="left")
    table.add_column("tuner")
    for name in ("geometric mean", "95% interval", "verdict"):
        table.add_column(name, justify="right")
    for tuner in dict.fromkeys(label for world in worlds for label in world.regrets):
        ratio = overall(worlds, tuner)
        if ratio and tuner != BASE:
            table.add_row(tuner, f"{ratio.value:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}", ratio.verdict)
    console.print(table)
    for found in findings(worlds):
        worst = f", {found.worst[1]:.3f} in {found.worst[0]}" if found.worst else ""
        console.print(f"{found.bar.text}: at most {found.bar.most:g}{worst}: {found.verdict}", highlight=False)


def _inside(value: float, ends: tuple[float, float]) -> str:
    low, high = ends
    return f"{low:.0f} to {high:.0f}: paper {'inside' if low <= value <= high else 'outside'}"


def _table(result: Result, rows: Sequence[Row]) -> Table:
    e = result.experiment
    repeats = f"{e.repeats} repeat{'s' if e.repeats > 1 else ''}"
    table = Table(title=f"{e.title}: regret after {e.horizon:,} rounds, {repeats}", title_justify="left")
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


def _verdict(rows: Sequence[Row]) -> str:
    best, others = rows[0], rows[1:]
    close = [row.tuner for row in others if row.low <= 0]
    if not others:
        return f"{best.tuner}: nothing to compare with."
    if not close:
        return f"{best.tuner} has the least regret; every paired interval excludes 0."
    return f"{best.tuner} has the least mean, but the evidence does not set it apart from {', '.join(close)}."
