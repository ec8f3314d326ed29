"""What a round costs with nothing set: against its floor, how it grows, catalogues, and other libraries.

    python benchmarks/performance.py --page docs/performance.md     write the page and its figure

Rows of features with `Agent(LinUCB(dim))`, decide and learn through the public API, beside the same arithmetic in plain
compiled loops and in six lines of NumPy; in blocks, the sides in turn, processor time of one thread.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
from floor import Floor, Rounds
from measure import Side, interleave
from pairs import ARMS, DIM, pair_table

from syndicated import Agent, LinUCB, Space, Syndicated
from syndicated._files import write
from syndicated._models.scaled_ridge import ScaledRidge
from syndicated.datasets.movielens import cache
from syndicated.experiments._formatting import table, versions
from syndicated.experiments.bakeoff._peers import Peers, _worker, end_worker, install_peers, play_peer
from syndicated.experiments.bakeoff.peer_worker import peak_memory
from syndicated.types import Array, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = ((10, 5), (100, 10), (1000, 20), (100, 100))
SIDES = ("compiled floor", "NumPy, six lines", "decide + learn")
BATCHES, BATCH_BLOCKS = (32, 256, 2048), 30  # contexts of a batch
MAX_BATCH_ROWS = 300_000
COUNT, BLOCKS = 32, 60  # rounds of a block, and blocks
MAX_FLOORS = 3.0
GROWTH = {
    "K (arms), d = 10": [(K, 10) for K in (10, 30, 100, 300, 1000, 3000, 10_000)],
    "d (features), K = 100": [(100, d) for d in (2, 5, 10, 20, 50, 100, 200)],
}
CANDIDATES = (2, 4, 8, 16, 32, 64, 128)
AXES = {"alpha": [0.1, 1.0], "lam": [0.1, 1.0], "intercept": [0.0, 1.0], "memory": [0.99, 1.0]}
AGES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
CATALOGUE = 1_000_000, 32
PEER_SIZE, PEER_ROUNDS = (10, 20), 1500


Curve = tuple[str, Sequence[int], Array]  # the axis, its points, microseconds


class Lines:
    """LinUCB as one would write it first: no tuning, no units, no checks."""

    def __init__(self, dim: int) -> None:
        self.inverse, self.b = np.eye(dim), np.zeros(dim)

    def play(self, rounds: Rounds) -> None:
        for X, rewards in rounds:
            theta = self.inverse @ self.b
            arm = int(np.argmax(X @ theta + np.sqrt(np.einsum("ai,ij,aj->a", X, self.inverse, X))))
            u = self.inverse @ X[arm]
            self.inverse -= np.outer(u, u) / (1 + X[arm] @ u)
            self.b += rewards[arm] * X[arm]


def play(agent: Agent, rounds: Rounds) -> None:
    for X, rewards in rounds:
        decision = agent.decide(X)
        agent.learn(decision, rewards[decision.arm])


def play_batch(agent: Agent, tables: Array, rewards: Array) -> None:
    decisions = agent.decide_many(tables)
    agent.learn_many(decisions, [rewards[n, decision.arm] for n, decision in enumerate(decisions)])


def play_model(model: ScaledRidge, boldness: Array, rounds: Rounds) -> None:
    for X, rewards in rounds:
        arm = (model.best(X, boldness) or [0])[0]
        model.learn(X[arm], rewards[arm])


def draw_rounds(arms: int, dim: int, count: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(arms + dim)
    tables = rng.uniform(-1, 1, (count, arms, dim))
    return tables, tables @ rng.normal(size=dim) + rng.normal(size=(count, arms))


def sides(arms: int, dim: int, count: int) -> list[Side]:
    tables, rewards = draw_rounds(arms, dim, count)
    rounds: Rounds = [(X, each.tolist()) for X, each in zip(tables, rewards, strict=True)]
    floor, lines, agent = Floor(dim, [1.0]), Lines(dim), Agent(LinUCB(dim=dim))
    return [lambda: floor.play(rounds), lambda: lines.play(rounds), lambda: play(agent, rounds)]


def round_table() -> str:
    rows = []
    for arms, dim in SIZES:
        seconds = interleave(sides(arms, dim, COUNT), BLOCKS)[BLOCKS // 6 :] / COUNT
        micros, ratios = 1e6 * np.median(seconds, axis=0), np.median(seconds[:, 2:3] / seconds[:, :2], axis=0)
        cells = [*(f"{each:,.1f}" for each in micros), *(f"{each:.2f}" for each in ratios)]
        rows.append([str(arms), str(dim), *cells, "yes" if ratios[0] <= MAX_FLOORS else "no"])
    head = ["K", "d", *(f"{side}, µs" for side in SIDES), "over floor", "over NumPy", f"at most {MAX_FLOORS:g} floors"]
    return table(head, rows)


def grown() -> Iterator[Curve]:
    """Microseconds of decide + learn along each axis; the points of an axis in turn."""
    for axis, sizes in GROWTH.items():
        varied = [arms if axis.startswith("K") else dim for arms, dim in sizes]
        counts = [max(4, min(COUNT, 20_000 // arms)) for arms, _ in sizes]
        yield axis, varied, _quiet([sides(*size, count)[2] for size, count in zip(sizes, counts, strict=True)], counts)
    yield "t (rounds before), K = 100, d = 10", AGES, _quiet([_aged(age) for age in AGES], [COUNT] * len(AGES))
    spaces = [Space(alpha=np.geomspace(0.01, 10, n)) for n in CANDIDATES]
    yield "candidates of alpha, Syndicated", CANDIDATES, _quiet([_tuned(s) for s in spaces], [COUNT] * len(spaces))
    names, axes = list(AXES), range(1, len(AXES) + 1)
    spaces = [Space(**{name: AXES[name] for name in names[:n]}) for n in axes]
    yield "axes of two candidates, Syndicated", axes, _quiet([_tuned(space) for space in spaces], [COUNT] * len(spaces))


def _tuned(space: Space) -> Side:
    """Rounds of an agent with these candidates."""
    agent, (tables, rewards) = Agent(LinUCB(dim=10), Syndicated(space)), draw_rounds(100, 10, COUNT)
    rounds: Rounds = [(X, each.tolist()) for X, each in zip(tables, rewards, strict=True)]
    return lambda: play(agent, rounds)


def _quiet(rounds: Sequence[Side], counts: Sequence[int]) -> Array:
    """Microseconds of a round, of the quietest quarter of the blocks."""
    return np.asarray(1e6 * np.quantile(interleave(rounds, 40), 0.25, axis=0) / counts)


def _aged(age: int) -> Side:
    """Rounds of an agent that has had so many."""
    agent = Agent(LinUCB(dim=10))
    tables, rewards = draw_rounds(100, 10, COUNT)
    while agent.round < age:
        play_batch(agent, tables, rewards)
    rounds: Rounds = [(X, each.tolist()) for X, each in zip(tables, rewards, strict=True)]
    return lambda: play(agent, rounds)


def exponent(x: Sequence[int], micros: Array) -> float:
    """The slope of the upper half on logarithmic scales."""
    half = len(x) // 2
    return float(np.polyfit(np.log(x[half:]), np.log(micros[half:]), 1)[0])


def draw_growth(curves: Sequence[Curve]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 3.3), layout="constrained")
    for axes, (axis, x, micros) in zip(figure.subplots(1, len(curves), sharey=True), curves, strict=True):
        axes.plot(x, micros, marker="o")
        axes.set(xscale="log", yscale="log", xlabel=axis, title=f"grows like the power {exponent(x, micros):.2f}")
        if x[-1] < 100 * x[0]:  # less than two decades: the points themselves, not powers of ten
            axes.xaxis.minorticks_off()
            axes.set_xticks(x, [str(each) for each in x])
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("µs a round, decide + learn")
    return figure


def catalogue_table() -> str:
    arms, dim = CATALOGUE
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(arms, dim)), rng.normal(size=dim)
    agent, decide, learn = Agent(LinUCB(dim=dim), catalogue=X), [], []
    for _ in range(40):
        begin = process_time()
        decision = agent.decide()
        between = process_time()
        agent.learn(decision, float(decision.x @ theta))
        decide.append(between - begin)
        learn.append(process_time() - between)
    begin = process_time()
    agent.decide(k=10)
    slate, copied, to = process_time() - begin, [], np.empty_like(X)
    changes = catalogue_changes(agent, X)
    for _ in range(5):
        begin = process_time()
        to[:] = X
        copied.append(process_time() - begin)
    read, copy_size = arms * (dim + 1) * 8 / 1e9, 2 * X.nbytes / 1e9
    rows = [
        ["decide among all arms", f"{1e3 * np.median(decide):.1f} ms", f"{read / np.median(decide):.1f} GB/s read"],
        ["the ten best of them", f"{1e3 * slate:.1f} ms", ""],
        ["learn", f"{1e3 * np.median(learn):.1f} ms", f"{1e3 * max(learn):.0f} ms when units are estimated again"],
        *([what, f"{1e3 * seconds:.2f} ms", ""] for what, seconds in changes.items()),
        ["copy the features", f"{1e3 * np.median(copied):.1f} ms", f"{copy_size / np.median(copied):.1f} GB/s"],
    ]
    return table(["what", "time", ""], rows, texts=3)


def catalogue_changes(agent: Agent, X: Array) -> dict[str, float]:
    """Seconds of one change of a catalogue, and of a decision among a few of its arms."""
    agent.add(X[:1])  # the first one makes room
    few = np.arange(0, len(X), len(X) // 100)
    calls: dict[str, Callable[[int], object]] = {
        "add one arm": lambda n: agent.add(X[n : n + 1]),
        "add a thousand": lambda n: agent.add(X[1000 * n : 1000 * n + 1000]),
        "change the features of one": lambda n: agent.add({n: -X[n]}),
        "retire one": agent.retire,
        "decide among a hundred of them": lambda n: agent.decide(few + 10 + n),
    }
    return {what: float(np.median([_seconds(call, n) for n in range(9)])) for what, call in calls.items()}


def _seconds(call: Callable[[int], object], n: int) -> float:
    begin = process_time()
    call(n)
    return process_time() - begin


def peer_table(peers: Peers) -> str:
    """Every library on one problem: which of K classes a row belongs to, reward 1 if it is right."""
    arms, columns = PEER_SIZE
    rng = np.random.default_rng(1)
    x = rng.normal(size=(PEER_ROUNDS, columns))
    labels = np.argmax(x @ rng.normal(size=(columns, arms)), axis=1)
    rows = []
    for player, version in peers.players.items():
        found = play_peer(peers.python, player, 1, x, labels, arms)
        end_worker(_worker(peers.python))  # a process each, whose memory is its own
        rows.append([player, version, found["seconds"], np.mean(found["rewards"]), found["memory"]])
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        rows.append(["Agent(), nothing set", "here", *pool.submit(_play_ours, x, labels, arms).result()])
    rows.sort(key=lambda row: row[2])
    cells = [
        [
            name,
            version,
            f"{1e6 * seconds / PEER_ROUNDS:,.0f}",
            f"{reward:.3f}",
            "" if memory is None else f"{memory / 1e6:,.0f} MB",
        ]
        for name, version, seconds, reward, memory in rows
    ]
    missing = "".join(f"\nNot there: {name}, {reason}.\n" for name, reason in peers.missing.items())
    return table(["player", "library", "µs a round", "mean reward", "peak memory"], cells, texts=2) + missing


def _play_ours(x: Array, labels: Ints, arms: int) -> tuple[float, float, int | None]:
    """The seconds, the mean reward and the peak memory of a process with nothing but this in it."""
    agent, ids, earned = Agent(seed=1), [f"arm{a}" for a in range(arms)], 0.0
    agent.learn(agent.decide(x[0].tolist(), arms=ids), 0.0)  # loads the kernels
    agent, begin = Agent(seed=1), process_time()
    for context, label in zip(x.tolist(), labels.tolist(), strict=True):
        decision = agent.decide(context, arms=ids)
        agent.learn(decision, float(decision.place == label))
        earned += decision.place == label
    return process_time() - begin, earned / len(x), peak_memory()


def thread_row(arms: int = 200_000, dim: int = 20, rounds: int = 30) -> str:
    """How many processors two agents use at once in two threads of one process."""
    X = np.random.default_rng(3).normal(size=(arms, dim))
    agents = [Agent(LinUCB(dim=dim), catalogue=X, seed=seed) for seed in range(2)]
    for agent in agents:
        agent.learn(agent.decide(), 0.0)

    def side(agent: Agent) -> None:
        for _ in range(rounds):
            agent.decide()

    threads = [Thread(target=side, args=(agent,)) for agent in agents]
    wall, used = perf_counter(), process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return f"{(process_time() - used) / (perf_counter() - wall):.1f}"


def batch_table() -> str:
    rows = []
    for arms, dim in SIZES[:3]:
        cells: list[str] = []
        for count in BATCHES:
            if arms * count > MAX_BATCH_ROWS:
                cells.append("")
                continue
            tables, rewards = draw_rounds(arms, dim, count)
            rounds: Rounds = [(X, each.tolist()) for X, each in zip(tables, rewards, strict=True)]
            agent, batch, model = Agent(LinUCB(dim=dim)), Agent(LinUCB(dim=dim)), ScaledRidge(dim, True)
            three: list[Side] = [
                partial(play, agent, rounds),
                partial(play_batch, batch, tables, rewards),
                partial(play_model, model, np.array([2.5]), rounds),
            ]
            seconds = interleave(three, BATCH_BLOCKS)[BATCH_BLOCKS // 6 :] / count
            loop, together, alone = 1e6 * np.median(seconds, axis=0)
            times = np.median(seconds[:, 0] / seconds[:, 1])
            cells.append(f"{loop:.1f}, {together:.1f}, {alone:.1f}: **{times:.1f}**")
        rows.append([str(arms), str(dim), *cells])
    return table(["K", "d", *(f"{count:,} contexts" for count in BATCHES)], rows)


BATCH_TEXT = """\
`decide_many` and `learn_many` give what the loop over `decide` and `learn` gives, to the bit. Microseconds a round of
the loop, of the batch, and of the model alone (the best row, and learning it), and how many times as fast the batch
is. What a batch saves is the Python around the arithmetic, so it cannot be much faster than the model alone, and
where there are many arms, the loop is not much slower than that. Of what a batch takes at 10 arms, about half makes
and keeps the decisions, which are objects.
"""


INTRO = f"""\
# Performance

What a round costs with nothing set, decide and learn together. Medians of {BLOCKS} blocks of {COUNT} rounds in one
process, the sides in turn, processor time of one thread. Ratios say more than microseconds: both sides were measured in
the same seconds on the same core. `make bench` writes this page; nothing here is written by hand.

## One round of LinUCB

The *compiled floor* is the arithmetic of one round in plain compiled loops: K optimistic scores, the best of them, one
rank-one update. *NumPy, six lines* is LinUCB as one would write it first. Both tune nothing, know no units, and check
nothing.
"""


THREADS = """\
- Kernels release the GIL. Two agents of 200,000 arms that decided at once in two threads of one process used {used}
  processors. An agent itself is for one thread at a time.
- Experiments use processes. Each of them has one thread of BLAS, unless the environment says otherwise, so that they
  do not compete for the cores ([_executors.py](../syndicated/experiments/_executors.py)).
- A free-threaded Python has not run it. Where this page was made, none could be had: not by `uv python install 3.14t`,
  not from the package index, whose wheels are made for an interpreter and do not bring one, and not from Debian 12,
  which has 3.11. NumPy, llvmlite and Numba have wheels for it.
"""


def growth_table(curves: Sequence[Curve]) -> str:
    head, rows = ["along", "grows like the power", *(f"{n}." for n in range(1, 8))], []
    for axis, x, micros in curves:
        cells = [axis, f"{exponent(x, micros):.2f}", *(f"{each:,.0f}" for each in micros)]
        rows.append(cells + [""] * (len(head) - len(cells)))
    return table(head, rows)


def page(rounds: str, batches: str, curves: Sequence[Curve], catalogue: str, others: str, pairs: str, used: str) -> str:
    (arms, dim), (classes, columns) = CATALOGUE, PEER_SIZE
    parts = {
        "Batches": f"{BATCH_TEXT}\n{batches}",
        "How it grows": "![Microseconds of a round against K, d, t, candidates and axes](performance.svg)\n\n"
        "Microseconds at the points of the figure, in the quietest quarter of 40 blocks; powers: the larger half.\n\n"
        + growth_table(curves),
        f"A catalogue of {arms:,} arms with {dim} features": catalogue,
        "Other libraries": f"One problem in one run, through each library's own API: K={classes}, {columns} columns, "
        f"{PEER_ROUNDS:,} rounds,\nreward 1 for the right arm. More sizes beside Vowpal Wabbit: [speed.md](speed.md); "
        f"real data: [bakeoff.md](bakeoff.md).\n\n{others}",
        "Every policy with every tuner": f"K = {ARMS}, d = {DIM}, the policy's own candidates, the first rounds of a "
        f"run.\n\n{pairs}",
        "Threads": THREADS.format(used=used),
        "Versions": table(["what", "value"], [list(pair) for pair in versions().items()], texts=2),
    }
    return "\n".join([INTRO, rounds, *(f"## {title}\n\n{text}" for title, text in parts.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True, help="the page; its figure is written beside it")
    options = parser.parse_args()
    peers = install_peers(cache() / "bench-peers", say=print, small=True)
    rounds, batches = round_table(), batch_table()
    print(rounds, batches, sep="\n")
    curves = list(grown())
    catalogue, others = catalogue_table(), peer_table(peers)
    print(catalogue, others, sep="\n")
    pairs, used = pair_table(), thread_row()
    print(pairs, used, sep="\n")
    write(options.page, page(rounds, batches, curves, catalogue, others, pairs, used))
    draw_growth(curves).savefig(options.page.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
