"""The cost of what surrounds a round: opening a stream, saving a state."""

import io
from functools import partial

import numpy as np
from measure import Section, Side, interleave, ratio
from rounds import SPACE

from syndicated import Agent, LinUCB, Syndicated
from syndicated.streams import ARMS, Stream


def streams(count: int = 100, blocks: int = 200) -> Section:
    """Open the stream of a round and draw from it; numpy needs a new generator for that."""

    def ours(n: int) -> None:
        for t in range(count):
            Stream(1, ARMS, t).uniforms(n)

    def theirs(n: int) -> None:
        for t in range(count):
            np.random.Generator(np.random.Philox(key=[1, ARMS], counter=[0, t, 0, 0])).random(n)

    rows = []
    for n in (4, 1000):
        mine, other = interleave([partial(ours, n), partial(theirs, n)], blocks).T / count
        rows.append(ratio(f"open it and draw {n:,} uniforms", "Generator(Philox)", mine, other))
    return Section("A stream of random numbers", rows)


def states(dim: int = 400, blocks: int = 40) -> Section:
    """state() and restore() of an agent whose arrays weigh some megabytes, against one array of that weight."""
    agent = Agent(LinUCB(dim=dim), Syndicated(SPACE), seed=1)
    data = agent.state()
    array, file = np.zeros(len(data) // 8), io.BytesIO()
    np.save(file, array)

    def save() -> None:
        np.save(io.BytesIO(), array)

    def load() -> None:
        file.seek(0)
        np.load(file)

    sides: list[Side] = [agent.state, save, partial(agent.restore, data), load]
    state, saved, restore, loaded = interleave(sides, blocks).T / (len(data) / 1e6)
    rows = [ratio("state()", "numpy.save", state, saved), ratio("restore()", "numpy.load", restore, loaded)]
    return Section("A saved state, a megabyte", rows)
