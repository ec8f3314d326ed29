"""`syndicated bakeoff`: real classified data played as bandits, by the policies here and by other libraries."""

import argparse
import os
import sys
import time
from pathlib import Path

from syndicated._extras import extra
from syndicated._progress import progress_bars
from syndicated._validation import check_count
from syndicated.cli.options import TASKS_ARE_KEPT, console
from syndicated.datasets.classification import fetch, find_sets
from syndicated.datasets.movielens import cache
from syndicated.experiments import bakeoff
from syndicated.experiments._executors import processes_for
from syndicated.experiments._formatting import time_text
from syndicated.experiments._run import run_tasks
from syndicated.experiments.bakeoff._tasks import FIRST_SEED, MAX_ROWS, REPEATS


def add_bakeoff(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", action="append", default=[], metavar="NAME", help="only this set; may be repeated")
    command.add_argument("--player", action="append", default=[], metavar="LABEL", help="only this; may be repeated")
    command.add_argument("--no-peers", action="store_true", help="leave out other libraries")
    command.add_argument("--rows", type=int, default=MAX_ROWS, help=f"of a set, at most (default {MAX_ROWS})")
    command.add_argument("--repeats", type=int, default=REPEATS, help=f"orders of the rows (default {REPEATS})")
    command.add_argument("--seed", type=int, default=FIRST_SEED, help=f"of the first order (default {FIRST_SEED})")
    command.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    command.add_argument("--out", "--output", type=Path, default=Path("results"), help="folder (default results)")
    command.set_defaults(command=_bakeoff, interrupted=TASKS_ARE_KEPT)


def _bakeoff(options: argparse.Namespace) -> None:
    with extra("experiments", "this command"):
        import platformdirs  # noqa: F401
        import rich.progress  # noqa: F401
    sets, jobs = find_sets(options.data), check_count("jobs", options.jobs)
    fetch(sets)
    peers = bakeoff.no_peers() if options.no_peers else bakeoff.install_peers(cache() / "bakeoff-peers", say=_say)
    for name, reason in peers.missing.items():
        _say(f"left out: {name}, {reason}")
    bake_off = bakeoff.BakeOff(sets, options.player, peers, options.rows, options.repeats, options.seed)
    tasks, started = bake_off.tasks(), time.perf_counter()
    with progress_bars() as progress:
        bars = {one.name: progress.add_task(one.name, total=sum(t.data == one.name for t in tasks)) for one in sets}
        executor = processes_for(bakeoff.run_pass, jobs)
        passes = run_tasks(tasks, options.out / "tasks", executor, lambda task: progress.advance(bars[task.data]))
    board = bakeoff.gather(sets, tasks, passes)
    bakeoff.write_rewards(options.out / "bakeoff.csv", tasks, passes)
    wall = {"Time on the wall, this command": time_text(time.perf_counter() - started)}
    bakeoff.write_page(options.out / "bakeoff.md", board, bake_off, wall)
    bakeoff.print_board(console(), board)
    print(f"every pass: {options.out / 'bakeoff.csv'}\nthe page: {options.out / 'bakeoff.md'}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
