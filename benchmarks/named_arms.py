"""Named arms beside Vowpal Wabbit: what a round costs, and that it costs the same after 10^3 and after 10^6 rounds.

    python benchmarks/named_arms.py                          print the tables
    python benchmarks/named_arms.py --page docs/speed.md     write the page and its figure too

A model for each arm, the default tuner, decide and learn through `Agent.for_arms`: the context is a list of d numbers,
the K arms are ids. Vowpal Wabbit plays the same rows through its text interface in the environment that
`syndicated bakeoff` makes. Both sides in turn, in blocks; processor time of one thread.
"""

import argparse
import os
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from syndicated import Agent
from syndicated._files import write
from syndicated.datasets.movielens import cache
from syndicated.experiments._formatting import table, versions
from syndicated.experiments.bakeoff._peers import Peers, install_peers, play_peer
from syndicated.types import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = ((2, 10), (10, 60), (20, 50), (26, 16), (50, 50), (500, 20))
LINKS = ("linear", "logistic")
WABBIT = "VW epsilon"  # the default exploration of --cb_explore_adf, and its fastest
BLOCK, BLOCKS = 100, 15
FLAT_SIZE, FLAT_ROUNDS = (10, 20), 1_000_000
MAX_RATIO, MAX_MEDIAN_RATIO = 1.0, 0.25


class Ours:
    """An agent that goes on from block to block, with rewards 0 and 1 that depend on the context and the arm."""

    def __init__(self, arms: int, columns: int, link: str) -> None:
        self._agent = Agent.for_arms(policy={"name": "ArmUCB", "models": "per-arm", "link": link}, seed=1)
        self._rng = np.random.default_rng(arms)
        self._ids = [f"arm{i}" for i in range(arms)]
        self._thetas = self._rng.normal(size=(columns, arms)) / np.sqrt(columns)

    def seconds(self, rounds: int) -> float:
        """Of a round, in the mean of so many."""
        x = self._rng.normal(size=(rounds, len(self._thetas)))
        rewards = (self._rng.random((rounds, len(self._ids))) < 1 / (1 + np.exp(-x @ self._thetas))).astype(float)
        contexts, begin = x.tolist(), thread_time()
        for context, earned in zip(contexts, rewards, strict=True):
            decision = self._agent.decide(context, arms=self._ids)
            self._agent.learn(decision, earned[decision.place])
        return (thread_time() - begin) / rounds


def wabbit_seconds(peers: Peers, arms: int, columns: int, block: int) -> float:
    """Of a round of Vowpal Wabbit, in the mean of a block."""
    rng = np.random.default_rng(block)
    x, labels = rng.normal(size=(BLOCK, columns)), rng.integers(arms, size=BLOCK)
    seconds: float = play_peer(peers.python, WABBIT, 1, x, labels, arms)["seconds"]
    return seconds / BLOCK


def compare(peers: Peers, arms: int, columns: int) -> Array:
    """Seconds of a round: a row a block, the columns Vowpal Wabbit and both links. Every arm has been played before."""
    sides = [Ours(arms, columns, link) for link in LINKS]
    for side in sides:
        side.seconds(max(200, 2 * arms))
    wabbit_seconds(peers, arms, columns, 0)
    rows = [
        [wabbit_seconds(peers, arms, columns, block), *(side.seconds(BLOCK) for side in sides)]
        for block in range(BLOCKS)
    ]
    return np.array(rows)


def speed_table(peers: Peers) -> str:
    rows, ratios = [], []
    for arms, columns in SIZES:
        seconds = compare(peers, arms, columns)
        medians = 1e6 * np.median(seconds, axis=0)
        own = np.median(seconds[:, 1:] / seconds[:, :1], axis=0)
        ratios.append(own)
        rows.append([str(arms), str(columns), *(f"{each:,.0f}" for each in medians), *(f"{each:.2f}" for each in own)])
    middle = np.median(ratios, axis=0)
    rows.append(["median", "", "", "", "", *(f"{each:.2f}" for each in middle)])
    head = ["K", "d", "Vowpal Wabbit, µs", *(f"{link}, µs" for link in LINKS), *(f"{link}, ratio" for link in LINKS)]
    holds = "holds" if np.max(ratios) <= MAX_RATIO and middle.max() <= MAX_MEDIAN_RATIO else "does not hold"
    bar = f"The bar, at most {MAX_RATIO:g} everywhere and at most {MAX_MEDIAN_RATIO:g} at the median, {holds}."
    return f"{table(head, rows)}\n{bar}\n"


def flat_curve(link: str, rounds: int) -> tuple[list[int], list[float]]:
    """Microseconds of a round around rounds that are evenly spaced on a logarithmic scale, from 1,000 on."""
    ours, played, micros = Ours(*FLAT_SIZE, link), 0, []
    marks = np.unique(np.geomspace(1_000, rounds, 13).astype(int))
    for mark in marks:
        for _ in range(played, int(mark) - BLOCK, BLOCK):
            ours.seconds(BLOCK)
        micros.append(1e6 * float(np.median([ours.seconds(BLOCK // 5) for _ in range(5)])))
        played = int(mark)
    return marks.tolist(), micros


def draw_flat(curves: dict[str, tuple[list[int], list[float]]]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for link, (marks, micros) in curves.items():
        axes.plot(marks, micros, marker="o", label=link)
    arms, columns = FLAT_SIZE
    axes.set(xscale="log", xlabel="round", ylabel="µs a round", title=f"A model for each arm, K={arms}, d={columns}")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def flat_table(curves: dict[str, tuple[list[int], list[float]]]) -> str:
    marks = next(iter(curves.values()))[0]
    rows = [[f"{mark:,}", *(f"{micros[i]:.1f}" for _, micros in curves.values())] for i, mark in enumerate(marks)]
    return table(["round", *(f"{link}, µs" for link in curves)], rows)


INTRO = f"""\
# Speed of named arms

What a round costs, decide and learn together, through `Agent.for_arms` with a model for each of K arms, a context of d
numbers and the default tuner, beside Vowpal Wabbit's text interface (`--cb_explore_adf -q`) in one run: medians of
{BLOCKS} blocks of {BLOCK} rounds, both in turn, processor time of one thread.
`python benchmarks/named_arms.py --page docs/speed.md` writes this page; nothing here is written by hand.
"""


def page(speed: str, flat: str, peers: Peers) -> str:
    lines = [[name, value] for name, value in versions().items()]
    lines.append(["Vowpal Wabbit", peers.players[WABBIT].split()[-1]])
    return "\n".join(
        [
            INTRO,
            speed,
            "## A round's cost does not depend on t\n",
            "![Microseconds of a round against the round](speed.svg)\n",
            flat,
            "## Versions\n",
            table(["what", "value"], lines, texts=2),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="write the page to this file, and the figure beside it")
    parser.add_argument("--rounds", type=int, default=FLAT_ROUNDS, help="of the curve (default 1000000)")
    options = parser.parse_args()
    peers = install_peers(cache() / "bakeoff-peers", say=print)
    if WABBIT not in peers.players:
        raise SystemExit(f"Vowpal Wabbit is not here: {peers.missing['vowpalwabbit']}")
    speed = speed_table(peers)
    print(speed)
    curves = {link: flat_curve(link, options.rounds) for link in LINKS}
    flat = flat_table(curves)
    print(flat)
    if options.page:
        write(options.page, page(speed, flat, peers))
        draw_flat(curves).savefig(options.page.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
