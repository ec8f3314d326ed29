"""What a second thread brings, in this interpreter: two agents, each in a thread of its own.

    python benchmarks/threads.py        prints one line of JSON: the interpreter, and for small and for large rounds
                                        how many times the rounds of one thread two of them play in the same time

`performance.py` asks for it, of its own interpreter and of a free-threaded one that it is told.
"""

import json
import sys
from collections.abc import Callable, Sequence
from threading import Thread
from time import perf_counter

import numpy as np

from syndicated import Agent, LinUCB

BLOCKS = 9
SMALL, LARGE = "K = 10, d = 5, decide and learn", "200,000 arms with 20 features, decide"
Play = Callable[[], None]


def _small(seed: int, rounds: int = 2000) -> Play:
    tables = np.random.default_rng(seed).normal(size=(rounds, 10, 5))
    agent = Agent(LinUCB(dim=5), seed=seed)

    def play() -> None:
        for X in tables:
            decision = agent.decide(X)
            agent.learn(decision, float(decision.x[0]))

    return play


def _large(seed: int, rounds: int = 10) -> Play:
    X = np.random.default_rng(3).normal(size=(200_000, 20))
    agent = Agent(LinUCB(dim=20), catalogue=X, seed=seed)
    agent.learn(agent.decide(), 0.0)

    def play() -> None:
        for _ in range(rounds):
            agent.decide()

    return play


def gain(plays: Sequence[Play]) -> float:
    """How many times the rounds of one thread these play at once, each in its own; the median of blocks in turn."""
    times = []
    for play in plays:
        play()  # loads the kernels, and fills the caches
    for _ in range(BLOCKS):
        begin = perf_counter()
        plays[0]()
        alone, threads = perf_counter() - begin, [Thread(target=play) for play in plays]
        begin = perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.append(len(plays) * alone / (perf_counter() - begin))
    return float(np.median(times))


def measured() -> dict[str, str]:
    """The interpreter, whether it has a GIL, and what two threads bring."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    name = f"{sys.version.split()[0]}, {'with' if has_gil else 'without'} the GIL"
    pairs = {SMALL: [_small(seed) for seed in (1, 2)], LARGE: [_large(seed) for seed in (1, 2)]}
    return {"Python": name} | {size: f"{gain(pair):.1f}" for size, pair in pairs.items()}


if __name__ == "__main__":
    print(json.dumps(measured()))
