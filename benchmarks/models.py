"""What models of arms earn on real data played as bandits: two tables in Markdown, for docs/models.md.

    python benchmarks/models.py [--data NAME] [--rows 1000] [--repeats 5] [--seed 101] [--jobs 1] [--out results]

A row of a set is the context, its classes are the arms, and the right one pays 1. Linear models: dense (LinUCB on rows
of K(1 + d) columns, a block for each arm), per arm, hybrid. Logistic models: the exact fit (UCBGLM on the dense rows)
and those of constant cost. Differences have 95 % intervals and are paired, since every player meets the same orders of
the rows. Finished passes are kept in the folder.
"""

import argparse
import os
from functools import cache
from pathlib import Path

import numpy as np

from syndicated._blas import ONE_BLAS_THREAD
from syndicated.datasets.classification import fetch, find_sets, load
from syndicated.experiments._executors import processes_for
from syndicated.experiments._formatting import table
from syndicated.experiments._results import interval
from syndicated.experiments._run import run_tasks
from syndicated.experiments.bakeoff._tasks import Pass, PassTask, run_pass

SETS = ("wine", "breast-cancer", "phishing", "image-segments", "mnist", "digits")
LINEAR = {"per arm": "ArmUCB per-arm linear", "hybrid": "ArmUCB hybrid linear", "dense": "LinUCB, dense rows"}
LOGISTIC = {"per arm": "ArmUCB per-arm logistic", "hybrid": "ArmUCB hybrid logistic", "exact": "UCBGLM, dense rows"}
MAX_COLUMNS = {LINEAR["dense"]: 200, LOGISTIC["exact"]: 200}  # of dense rows: wider ones take minutes a pass

Passes = dict[tuple[str, str], list[Pass]]  # by set and player, an entry for each order of the rows


def plays(player: str, columns: int) -> bool:
    """Whether a player takes dense rows of so many columns, if it takes such rows."""
    return columns <= MAX_COLUMNS.get(player, columns)


def play(names: list[str], rows: int, seeds: range, jobs: int, folder: Path) -> Passes:
    widths = {name: dense_columns(name) for name in names}
    players = [*LINEAR.values(), *LOGISTIC.values()]
    pairs = [(name, player) for name in names for player in players if plays(player, widths[name])]
    tasks = [PassTask(*pair, rows, seed) for seed in seeds for pair in pairs]
    passes = run_tasks(tasks, folder, processes_for(run_pass, jobs), lambda task: print(task, flush=True))
    found: Passes = {pair: [] for pair in pairs}
    for task, outcome in zip(tasks, passes, strict=True):
        found[task.data, task.player].append(outcome)
    return found


@cache
def dense_columns(name: str) -> int:
    rows = load(find_sets([name])[0])
    return len(rows.classes) * (1 + int(rows.x.shape[1]))


def rewards_table(passes: Passes, names: list[str], players: dict[str, str]) -> str:
    """The rewards of a round, those of the others less the first one's, and microseconds of a round."""
    first, *others = players
    rows = []
    for name in names:
        own = {label: passes.get((name, player), []) for label, player in players.items()}
        rounds, arms = own[first][0]["rounds"], own[first][0]["arms"]
        cells = [name, f"{rounds:,}", str(arms), str(dense_columns(name) // arms - 1)]
        cells += [f"{np.mean(_rewards(each)):.3f}" if each else "" for each in own.values()]
        cells += [_difference(own[label], own[first]) for label in others]
        rows.append([*cells, *(_micros(each) for each in own.values())])
    head = ["set", "rounds", "K", "d", *players, *(f"{label} - {first}" for label in others)]
    return table([*head, *(f"{label}, µs" for label in players)], rows)


def _rewards(passes: list[Pass]) -> list[float]:
    return [each["reward"] / each["rounds"] for each in passes]


def _difference(passes: list[Pass], others: list[Pass]) -> str:
    if not passes:
        return ""
    gains = np.subtract(_rewards(passes), _rewards(others))
    low, high = interval(gains)
    return f"{gains.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def _micros(passes: list[Pass]) -> str:
    return f"{1e6 * np.median([each['seconds'] / each['rounds'] for each in passes]):,.0f}" if passes else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], help="only this set; may be repeated")
    parser.add_argument("--rows", type=int, default=1_000, help="of a set, at most (default 1000)")
    parser.add_argument("--repeats", type=int, default=5, help="orders of the rows (default 5)")
    parser.add_argument("--seed", type=int, default=101, help="of the first order (default 101)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder (default results)")
    options = parser.parse_args()
    names = options.data or list(SETS)
    fetch(find_sets(names))
    seeds = range(options.seed, options.seed + options.repeats)
    passes = play(names, options.rows, seeds, options.jobs, options.out / "models")
    for players in (LINEAR, LOGISTIC):
        print("\n" + rewards_table(passes, names, players))


if __name__ == "__main__":
    os.environ.update(ONE_BLAS_THREAD)
    main()
