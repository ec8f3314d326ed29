"""What an export, an import and a pruning of a long log do to those who decide meanwhile, in one run.

Callers decide over a few connections, first alone, then while a log is exported, alone again, while it is imported into
another bandit, and while it is pruned: its bandit is kept, and told to retain a second. Server and callers share the
machine's cores; a reply counts when it is durable (SQLite).

    python benchmarks/interference.py [DECISIONS]
"""

import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import uvloop
from load import Load, fire, request
from rich import box
from rich.console import Console
from rich.table import Table
from service import _create, _key, free_port, server

DECISIONS = int(sys.argv[1]) if sys.argv[1:] else 20_000
CONNECTIONS = 8
QUIET = 2000  # decisions of a block without anything beside it


def beside(work: Callable[[], None], port: int, message: bytes) -> Load:
    """Decisions for as long as the work takes."""
    thread = threading.Thread(target=work)

    def messages() -> Iterator[bytes]:
        thread.start()
        while thread.is_alive():
            yield message

    load = uvloop.run(fire(port, messages(), CONNECTIONS))
    thread.join()
    return load


def main() -> None:
    sys.setswitchinterval(1e-4)  # the work has a thread of this process, and must not hold up its clock
    rng = np.random.default_rng(0)
    arms = [{"id": f"a{k}", "x": x} for k, x in enumerate(np.round(rng.normal(size=(20, 10)), 6).tolist())]
    body, port = json.dumps({"arms": arms}).encode(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        serve = [sys.executable, "-m", "syndicated", "serve", "--store", str(Path(folder) / "journal.db")]
        limit = ["--body-limit", str(2**30), "--port", str(port)]
        with server(*serve, *limit, port=port) as serving:
            key = _key(serving)
            for name in ("long", "new", "hot"):
                _create(port, key, name, 10)
            client = httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=3600
            )
            decided = request("/v1/bandits/long/decide", body, key)
            uvloop.run(fire(port, itertools.repeat(decided, DECISIONS), 64))
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

            hot = request("/v1/bandits/hot/decide", body, key)
            loads = {}
            for what, work in (("an export", export), ("an import", import_), ("a pruning", prune)):
                loads[f"alone, before {what}"] = uvloop.run(fire(port, itertools.repeat(hot, QUIET), CONNECTIONS))
                loads[f"during {what}"] = beside(work, port, hot)
            lines = exported[0].count(b"\n")
    table = Table("decide", "decisions", "requests/s", "p50 ms", "p99 ms", "longest ms", box=box.MARKDOWN)
    for what, load in loads.items():
        milliseconds = [f"{load.quantile(share) * 1e3:.1f}" for share in (0.5, 0.99, 1.0)]
        table.add_row(what, str(len(load.latencies)), f"{load.rate:.0f}", *milliseconds)
    console = Console(width=110)
    console.print(table)
    console.print(
        f"the log had {lines} lines; statuses: {sorted({s for load in loads.values() for s in load.statuses})}"
    )


if __name__ == "__main__":
    main()
