"""The benchmarks: ratios within one run, as one table. Speed is reported, not asserted; see README.md."""

from collections.abc import Callable, Sequence
from time import perf_counter

from glm import against_scikit_learn
from measure import Row, Section
from pieces import states, streams
from rich import box
from rich.console import Console
from rich.table import Table
from rounds import against_the_floor, of_every_policy, of_every_tuner, part_by_part, with_nothing_set
from threadpoolctl import threadpool_limits

MEASUREMENTS: Sequence[Callable[[], Section]] = (
    lambda: against_the_floor(arms=100, dim=10, count=50, blocks=400),
    lambda: against_the_floor(arms=1000, dim=20, count=10, blocks=300),
    against_scikit_learn,
    with_nothing_set,
    part_by_part,
    of_every_policy,
    of_every_tuner,
    streams,
    states,
)


def main() -> None:
    begin = perf_counter()
    # Matrices this small gain nothing from more threads, and threads that wait for each other would count as work.
    threadpool_limits(1)
    with Console(stderr=True).status("measuring, about a minute and a half"):
        sections = [measure() for measure in MEASUREMENTS]
    console = Console()
    console.width = max(console.width, 140)
    console.print(table(sections))
    console.print(f"measured in {perf_counter() - begin:.0f} seconds")


def table(sections: Sequence[Section]) -> Table:
    out = Table("what", "time", "against", "ratio", "quartiles", "bar", "holds", box=box.SIMPLE_HEAD)
    for column in out.columns:
        column.no_wrap, column.justify = True, "right" if column.header in ("time", "ratio", "quartiles") else "left"
    for section in sections:
        out.add_row(f"[bold]{section.title}")
        for row in section.rows:
            out.add_row(*cells(row))
        out.add_section()
    return out


def cells(row: Row) -> list[str]:
    low, middle, high = row.quartiles
    holds = "" if not row.bar else "yes" if row.holds else "no"
    numbers = f"{middle:.2f}", f"{low:.2f} - {high:.2f}"
    return [f"  {row.what}", duration(row.seconds), row.against, *numbers, row.bar, holds]


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds / 1e-6:.2f} µs"


if __name__ == "__main__":
    main()
