"""How long a service takes to start on a journal of a million events, at worst: just before its next snapshot.

The log is that of one bandit (20 arms of 10 features, LinUCB tuned by Syndicated on 15 points), made of 4,000 real
events over and over, since the time of a fold does not depend on what it learns. Beside it, a start without any
snapshot on a part of the log.

    python benchmarks/start.py [EVENTS]
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from service import SPACE

from syndicated._compiled import load_all
from syndicated.service.bandits.messages import Arm, Create, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.state import State
from syndicated.service.commit.snapshots import EVENTS_PER_SNAPSHOT
from syndicated.service.core.service import Service
from syndicated.store import SQLite

EVENTS = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
REAL = 4000
PART = 50_000  # events of a start without a snapshot
CHUNK = 1000


async def play(file: Path) -> None:
    """A decision, its reward, and so on."""
    rng = np.random.default_rng(0)
    features, tuner = {"kind": "vector", "dim": 10}, {"name": "Syndicated", "horizon": 100_000}
    service = Service(SQLite(file))
    service.start()
    await service.admin.create("", Create(name="b", spec=Spec(features=features, tuner=tuner, space=SPACE)))
    for _ in range(REAL // 200):
        arms = [[Arm(f"a{k}", x=x) for k, x in enumerate(rng.normal(size=(20, 10)).tolist())] for _ in range(100)]
        asked = [service.decisions.decide("b", DecideRequest(arms=list(each))) for each in arms]
        decided = await asyncio.gather(*asked)
        rewards = [RewardRequest(decision_id=each.decision_id, reward=float(rng.integers(2))) for each in decided]
        await asyncio.gather(*(service.decisions.reward("b", each) for each in rewards))
    await service.stop()


def extend(file: Path) -> None:
    """Repeat the events of the bandit, with numbers that go on, and move the snapshots to where the last may be."""
    store = SQLite(file)
    state = State.load(store)
    real = [event for event, _ in store.after(1)]
    seq, events, moved = store.last(), [], 0
    while seq < EVENTS:
        by_old: dict[int, int] = {}
        for event in real:
            seq += 1
            by_old[event.seq] = seq
            events.append(event._replace(seq=seq, ref=None if event.ref is None else by_old[event.ref]))
    for start in range(0, len(events), CHUNK):
        with store.batch():
            store.append(events[start : start + CHUNK])
    moved = seq - EVENTS_PER_SNAPSHOT
    state.seq = state.events = moved
    with store.batch():
        store.save(state.snapshots(), keep=1)
    store.close()


def seconds(file: Path, *, whole: bool = False, upto: int | None = None) -> tuple[float, int]:
    """How long a start takes to load the state, and how many events it folds."""
    store, begin = SQLite(file, read_only=True), time.perf_counter()
    state = State.load(store, whole=whole, upto=upto)
    took = time.perf_counter() - begin
    store.close()
    return took, state.seq - (0 if whole else state.snapped)


def main() -> None:
    load_all()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.db"
        asyncio.run(play(file))
        extend(file)
        took, folded = seconds(file)
        print(f"a journal of {EVENTS:,} events, with the last snapshot {folded:,} events ago: {took:.1f} s")
        took, folded = seconds(file, whole=True, upto=PART)
        print(f"without a snapshot: {took:.1f} s for {folded:,} events, so {took / folded * EVENTS:.0f} s for all")


if __name__ == "__main__":
    main()
