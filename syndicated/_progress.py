"""Progress bars: on standard error, and in notebooks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from syndicated._extras import extra

if TYPE_CHECKING:
    from rich.progress import Progress


def progress_bars(*, transient: bool = False) -> "Progress":
    """Bars with counts and times; transient ones are gone when they are done."""
    with extra("experiments", "a progress bar"):
        from rich import progress
        from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=transient,
    )


@contextmanager
def progress_bar(title: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """The function that advances a bar by so many steps; if it is not shown, one that does nothing."""
    if not shown:
        yield lambda steps: None
        return
    with progress_bars(transient=True) as bars:
        bar = bars.add_task(title, total=total)
        yield lambda steps: bars.advance(bar, steps)
