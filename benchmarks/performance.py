"""What a round costs with nothing set: against its floor, how it grows, catalogues, and other libraries.

    python benchmarks/performance.py --page docs/performance.md     write the page and its figure

Rows of features with `Agent(LinUCB(dim))`, decide and learn through the public API, beside the same arithmetic in plain
compiled loops and in six lines of NumPy; in blocks, the sides in turn, processor time of one thread.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from floor import ColumnFloor, Floor, Rounds
from measure import Side, interleave
from pairs import ARMS, DIM, pair_table
from threads import measured

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
SIDES = ("compiled floor", "floor by columns", "NumPy, six lines", "decide + learn")
BATCHES, BATCH_BLOCKS = (32, 256, 2048), 30  # contexts of a batch
MAX_BATCH_ROWS = 300_000
COUNT, BLOCKS, WARM_UP = 32, 50, 10  # rounds of a block, blocks, and blocks before them
MAX_FLOORS = 3.0
MAX_MICROS = {(10, 5): 10.0}  # the bar of the smallest size, where Python is nearly all of it
GROWTH = {
    "K (arms), d = 10": [(K, 10) for K in (10, 30, 100, 300, 1000, 3000, 10_000)],
    "d (features), K = 100": [(100, d) for d in (2, 5, 10, 20, 50, 100, 200)],
}
CANDIDATES = (2, 4, 8, 16, 32, 64, 128)
AXES = {"alpha": [0.1, 1.0], "lam": [0.1, 1.0], "intercept": [0.0, 1.0], "memory": [0.99, 1.0]}
AGES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
CATALOGUE = 1_000_000, 32
PEER_SIZE, PEER_ROUNDS, PEER_PASSES = (10, 20), 1500, 3
REPLAYED = 1_000_000  # logged rounds
OURS = "Agent(), nothing set"


Played = tuple[float, float, int | None]  # seconds, mean reward, bytes
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


def play_named(agent: Agent, contexts: list[list[float]], ids: list[str], rewards: Array) -> None:
    for context, paid in zip(contexts, rewards, strict=True):
        decision = agent.decide(context, arms=ids)
        agent.learn(decision, paid[decision.place])


def play_named_batch(agent: Agent, contexts: list[list[float]], ids: list[str], rewards: Array) -> None:
    decisions = agent.decide_many(contexts, arms=ids)
    agent.learn_many(decisions, [rewards[n, decision.place] for n, decision in enumerate(decisions)])


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
    by_columns: Rounds = [(np.ascontiguousarray(X.T), each) for X, each in rounds]
    floor, columns, lines, agent = Floor(dim, [1.0]), ColumnFloor(dim), Lines(dim), Agent(LinUCB(dim=dim))
    return [
        lambda: floor.play(rounds),
        lambda: columns.play(by_columns),
        lambda: lines.play(rounds),
        lambda: play(agent, rounds),
    ]


def round_table() -> str:
    rows = []
    for arms, dim in SIZES:
        seconds = interleave(sides(arms, dim, COUNT), WARM_UP + BLOCKS)[WARM_UP:] / COUNT
        micros, ratios = 1e6 * np.median(seconds, axis=0), np.median(seconds[:, -1:] / seconds[:, :-1], axis=0)
        cells = [*(f"{each:,.1f}" for each in micros), *(f"{each:.2f}" for each in ratios)]
        most = MAX_MICROS.get((arms, dim))
        bar = f"{MAX_FLOORS:g} floors" if most is None else f"{most:g} µs"
        holds = ratios[0] <= MAX_FLOORS if most is None else micros[-1] <= most
        rows.append([str(arms), str(dim), *cells, f"at most {bar}: {'holds' if holds else 'does not hold'}"])
    overs = ("over floor", "over floor by columns", "over NumPy")
    return table(["K", "d", *(f"{side}, µs" for side in SIDES), *overs, "bar"], rows)


def grown() -> Iterator[Curve]:
    """Microseconds of decide + learn along each axis; the points of an axis in turn."""
    for axis, sizes in GROWTH.items():
        varied = [arms if axis.startswith("K") else dim for arms, dim in sizes]
        counts = [max(4, min(COUNT, 20_000 // arms)) for arms, _ in sizes]
        yield axis, varied, _quiet([sides(*size, count)[-1] for size, count in zip(sizes, counts, strict=True)], counts)
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
    slate, copied, half = process_time() - begin, [], arms // 2
    changes = catalogue_changes(agent, X)
    peak = (peak_memory() or 0) / 1e9
    for _ in range(5):
        begin = process_time()
        X[:half] = X[half:]
        copied.append(process_time() - begin)
    read, copy_size = arms * (dim + 1) * 8 / 1e9, X.nbytes / 1e9
    rows = [
        ["decide among all arms", f"{1e3 * np.median(decide):.1f} ms", f"{read / np.median(decide):.1f} GB/s read"],
        ["the ten best of them", f"{1e3 * slate:.1f} ms", ""],
        ["learn", f"{1e3 * np.median(learn):.1f} ms", f"{1e3 * max(learn):.0f} ms when units are estimated again"],
        *([what, f"{1e3 * seconds:.2f} ms", ""] for what, seconds in changes.items()),
        ["copy half of the features", f"{1e3 * np.median(copied):.1f} ms", f"{copy_size / np.median(copied):.1f} GB/s"],
        ["peak memory of the process, with the features", "", f"{peak:.2f} GB"],
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
    found: dict[str, list[Played]] = {}
    for _ in range(PEER_PASSES):  # all players in turn
        for player in peers.players:
            one = play_peer(peers.python, player, 1, x, labels, arms)
            end_worker(_worker(peers.python))  # a process each, whose memory is its own
            found.setdefault(player, []).append((one["seconds"], float(np.mean(one["rewards"])), one["memory"]))
        found.setdefault(OURS, []).append(_alone(_play_ours, x, labels, arms))
    cells = []
    for player, passes in sorted(found.items(), key=lambda each: _median_seconds(each[1])):
        _, reward, memory = passes[0]
        micros, regret = 1e6 * _median_seconds(passes) / PEER_ROUNDS, (1.0 - reward) * PEER_ROUNDS
        used = "" if memory is None else f"{memory / 1e6:,.0f} MB"
        library = peers.players.get(player, "here")
        cells.append([player, library, f"{micros:,.0f}", f"{reward:.3f}", f"{regret:,.0f}", used])
    missing = "".join(f"\nNot there: {name}, {reason}.\n" for name, reason in peers.missing.items())
    return table(["player", "library", "µs a round", "mean reward", "regret", "peak memory"], cells, texts=2) + missing


def _median_seconds(passes: Sequence[Played]) -> float:
    return float(np.median([seconds for seconds, _, _ in passes]))


def _alone(call: Callable[..., Any], *given: object) -> Any:
    """What a call gives in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(call, *given).result()


def _play_ours(x: Array, labels: Ints, arms: int) -> Played:
    """The seconds, the mean reward and the peak memory of a process with nothing but this in it."""
    agent, ids, earned = Agent(seed=1), [f"arm{a}" for a in range(arms)], 0.0
    agent.learn(agent.decide(x[0].tolist(), arms=ids), 0.0)  # loads the kernels
    agent, begin = Agent(seed=1), process_time()
    for context, label in zip(x.tolist(), labels.tolist(), strict=True):
        decision = agent.decide(context, arms=ids)
        agent.learn(decision, float(decision.place == label))
        earned += decision.place == label
    return process_time() - begin, earned / len(x), peak_memory()


def thread_table(free_threaded: Path | None) -> str:
    """What a second thread brings, here and in a free-threaded interpreter, if one is given."""
    found = [measured()]
    if free_threaded is not None:
        command = [str(free_threaded), str(Path(__file__).with_name("threads.py"))]
        found.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    return table(list(found[0]), [list(each.values()) for each in found], texts=1)


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
    rows.append([f"{SIZES[0][0]} with ids, `ArmUCB`", str(SIZES[0][1]), *map(named_batch, BATCHES)])
    return table(["K", "d", *(f"{count:,} contexts" for count in BATCHES)], rows)


def named_batch(count: int) -> str:
    """Microseconds a round of the loop and of the batch, for arms with ids and rewards 0 and 1."""
    arms, dim = SIZES[0]
    rng, ids = np.random.default_rng(3), [f"arm{arm}" for arm in range(arms)]
    given = rng.normal(size=(count, dim)).tolist(), ids, rng.integers(2, size=(count, arms)).astype(np.float64)
    two: list[Side] = [partial(play_named, Agent(), *given), partial(play_named_batch, Agent(), *given)]
    seconds = interleave(two, BATCH_BLOCKS)[BATCH_BLOCKS // 6 :] / count
    loop, together = 1e6 * np.median(seconds, axis=0)
    return f"{loop:.1f}, {together:.1f}: **{np.median(seconds[:, 0] / seconds[:, 1]):.1f}**"


def replay_table() -> str:
    """Logged rounds played again: rows, and contexts with named arms."""
    arms, dim = SIZES[0]
    rng = np.random.default_rng(5)
    tables, places = rng.normal(size=(REPLAYED, arms, dim)), rng.integers(arms, size=REPLAYED)
    rewards = tables[np.arange(REPLAYED), places, 0]
    few, ids = REPLAYED // 50, [f"arm{arm}" for arm in range(arms)]
    contexts = [row.tolist() for row in tables[:few, 0]]
    logs: dict[str, tuple[Callable[[], object], int]] = {
        f"{REPLAYED:,} rounds of rows, `LinUCB`": (lambda: Agent().replay(tables, places, rewards), REPLAYED),
        f"{few:,} rounds of named arms, `ArmUCB`": (
            lambda: Agent().replay(contexts, places[:few], rewards[:few], arms=ids),
            few,
        ),
    }
    rows = []
    for what, (replay, count) in logs.items():
        begin = process_time()
        replay()
        seconds = process_time() - begin
        rows.append([what, f"{seconds:.1f} s", f"{1e6 * seconds / count:.1f} µs"])
    return table([f"`replay`, K = {arms}, d = {dim}", "time", "a round"], rows, texts=1)


BATCH_TEXT = """\
`decide_many` and `learn_many` give what the loop over `decide` and `learn` gives, to the bit. Microseconds a round of
the loop, of the batch, and of the model alone (the best row, and learning it), and how many times as fast the batch
is. What a batch saves is the Python around the arithmetic, so it cannot be much faster than the model alone, and
where there are many arms, the loop is not much slower than that. Of what a batch takes at 10 arms, about half makes
and keeps the decisions, which are objects. Of arms with ids, the row has the loop and the batch.
"""


CATALOGUE_TEXT = """\
A reward changes what is known of every arm: the squared widths of all of them are kept up to date, in one pass over the
features at the speed of memory, so that a decision is one such pass, too.
"""


INTRO = f"""\
# Performance

What a round costs with nothing set, decide and learn together. Medians of {BLOCKS} blocks of {COUNT} rounds in one
process, the sides in turn, processor time of one thread. Ratios say more than microseconds: both sides were measured in
the same seconds on the same core. `make bench` writes this page; nothing here is written by hand.

## One round of LinUCB

The *compiled floor* is the arithmetic of one round in plain compiled loops: K optimistic scores, the best of them, one
rank-one update. The *floor by columns* is the same with the features stored (d, K), so that the compiler works on
several arms at once: rows, which is what people have, would first have to be turned. *NumPy, six lines* is LinUCB as
one would write it first. All three tune nothing, know no units, and check nothing. A round can take less than the first
floor, because its kernels turn a few rows at a time and then work on several arms at once.
"""


THREADS = """\
How many times the rounds of one thread two of them play in the same time, each with an agent of its own; an agent
itself is for one thread at a time. Kernels release the GIL, so large rounds gain in any interpreter. Small ones are
mostly Python, and gain where there is no GIL.

{table}
{free_threaded}
Experiments use processes. Each of them has one thread of BLAS, unless the environment says otherwise, so that they do
not compete for the cores ([_executors.py](../syndicated/experiments/_executors.py)).
"""
NOT_FREE_THREADED = """
No free-threaded interpreter was given to this run: `make bench FREE_THREADED=.../python3.14t`.
"""


def growth_table(curves: Sequence[Curve]) -> str:
    head, rows = ["along", "grows like the power", *(f"{n}." for n in range(1, 8))], []
    for axis, x, micros in curves:
        cells = [axis, f"{exponent(x, micros):.2f}", *(f"{each:,.0f}" for each in micros)]
        rows.append(cells + [""] * (len(head) - len(cells)))
    return table(head, rows)


def page(
    rounds: str,
    batches: str,
    replayed: str,
    curves: Sequence[Curve],
    catalogue: str,
    others: str,
    pairs: str,
    threads: str,
) -> str:
    (arms, dim), (classes, columns) = CATALOGUE, PEER_SIZE
    parts = {
        "Batches and logs": f"{BATCH_TEXT}\n{batches}\n{replayed}",
        "How it grows": "![Microseconds of a round against K, d, t, candidates and axes](performance.svg)\n\n"
        "Microseconds at the points of the figure, in the quietest quarter of 40 blocks; powers: the larger half.\n\n"
        + growth_table(curves),
        f"A catalogue of {arms:,} arms with {dim} features": f"{CATALOGUE_TEXT}\n{catalogue}",
        "Other libraries": f"One problem in one run, through each library's own API: K={classes}, {columns} columns, "
        f"{PEER_ROUNDS:,} rounds,\nreward 1 for the right arm; medians of {PEER_PASSES} passes, all players in turn. "
        "More sizes beside Vowpal Wabbit: [speed.md](speed.md); "
        f"real data: [bakeoff.md](bakeoff.md).\n\n{others}",
        "Every policy with every tuner": f"K = {ARMS}, d = {DIM}, the policy's own candidates, the first rounds of a "
        f"run.\n\n{pairs}",
        "Threads": threads,
        "Versions": table(["what", "value"], [list(pair) for pair in versions().items()], texts=2),
    }
    return "\n".join([INTRO, rounds, *(f"## {title}\n\n{text}" for title, text in parts.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True, help="the page; its figure is written beside it")
    parser.add_argument("--free-threaded", type=Path, help="an interpreter without the GIL that has syndicated, too")
    options = parser.parse_args()
    peers = install_peers(cache() / "bench-peers", say=print, small=True)
    rounds, batches, replayed = round_table(), batch_table(), _alone(replay_table)
    print(rounds, batches, replayed, sep="\n")
    curves = list(grown())
    catalogue, others = _alone(catalogue_table), peer_table(peers)
    print(catalogue, others, sep="\n")
    given = options.free_threaded
    free = NOT_FREE_THREADED if given is None else ""
    pairs, threads = pair_table(), THREADS.format(table=thread_table(given), free_threaded=free)
    print(pairs, threads, sep="\n")
    write(options.page, page(rounds, batches, replayed, curves, catalogue, others, pairs, threads))
    draw_growth(curves).savefig(options.page.with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
