"""The decision service on loopback, beside a bare Starlette route that sends the same body back, in one run.

Server and load share the machine's cores. A reply counts when it is durable: SQLite, synchronous=FULL.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import uvloop
from load import Load, fire, request
from rich import box
from rich.console import Console
from rich.table import Table

from syndicated.store import SQLite
from syndicated_client import join_body

BLOCKS, REQUESTS, CONNECTIONS = 7, 3000, 64
SPACE = {"alpha": [0, 0.01, 0.1, 1, 10], "lam": [0.01, 0.1, 1]}


def echo() -> None:
    """The route to compare with."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def back(call: Request) -> Response:
        return Response(await call.body(), media_type="application/json")

    app = Starlette(routes=[Route("/echo", back, methods=["POST"])])
    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", loop="uvloop", http="httptools", access_log=False)


@contextmanager
def server(*command: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """A process that answers on this port, until the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu(pid: int) -> float:
    """Seconds that a process has computed, by the scheduler's counters of its threads."""
    counters = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(counter.read_text().split()[0]) for counter in counters) / 1e9


class Measured:
    """The same load several times, in turn with others."""

    def __init__(self, what: str, pid: int, port: int, message: Callable[[], Iterator[bytes]], requests: int) -> None:
        self.what, self.pid, self.port, self.message, self.requests = what, pid, port, message, requests
        self.loads: list[Load] = []
        self.computed: list[float] = []

    def block(self) -> None:
        before = cpu(self.pid)
        messages = itertools.islice(self.message(), self.requests)
        self.loads.append(uvloop.run(fire(self.port, messages, CONNECTIONS)))
        self.computed.append((cpu(self.pid) - before) / self.requests)

    def row(self, against: "Measured | None") -> list[str]:
        statuses = {status for load in self.loads for status in load.statuses}
        pairs = [] if against is None else list(zip(against.loads, self.loads, strict=True))
        return [
            self.what,
            f"{median(load.rate for load in self.loads):.0f}",
            f"{median(load.quantile(0.5) for load in self.loads) * 1e3:.1f}",
            f"{median(load.quantile(0.99) for load in self.loads) * 1e3:.1f}",
            f"{median(self.computed) * 1e6:.0f}",
            f"{median(own.rate / other.rate for other, own in pairs):.2f}" if pairs else "",
            ", ".join(map(str, sorted(statuses))),
        ]


def main() -> None:
    rng = np.random.default_rng(0)
    small = json.dumps({"arms": [{"id": f"a{k}", "x": x} for k, x in enumerate(_table(rng, 20, 10).tolist())]}).encode()
    X = _table(rng, 1000, 20)
    large = json.dumps({"arms": [{"id": str(k), "x": x} for k, x in enumerate(X.tolist())]}).encode()
    binary = join_body({}, X)
    bare, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "journal.db"
        serve = [sys.executable, "-m", "syndicated", "serve", "--store", str(file), "--port", str(port)]
        with (
            server(sys.executable, __file__, "echo", str(bare), port=bare) as echoing,
            server(*serve, port=port) as serving,
        ):
            key = _key(serving)
            for name, dim in (("small", 10), ("large", 20)):
                _create(port, key, name, dim)
            kind = "application/x-syndicated"
            decide = "/v1/bandits/small/decide"
            measured = [
                Measured("echo, 20 x 10", echoing.pid, bare, _same(request("/echo", small, key)), REQUESTS),
                Measured("decide, 20 x 10", serving.pid, port, _same(request(decide, small, key)), REQUESTS),
            ]
            measured.append(Measured("reward", serving.pid, port, _rewards(measured[1], key), REQUESTS))
            decide = "/v1/bandits/large/decide"
            few = REQUESTS // 10
            measured += [
                Measured("echo, 1000 x 20 JSON", echoing.pid, bare, _same(request("/echo", large, key)), few),
                Measured("decide, 1000 x 20 JSON", serving.pid, port, _same(request(decide, large, key)), few),
                Measured("decide, 1000 x 20 binary", serving.pid, port, _same(request(decide, binary, key, kind)), few),
            ]
            for _ in range(BLOCKS):
                for each in measured:
                    each.block()
        against = [None, measured[0], measured[0], None, measured[3], measured[3]]
        table = Table("what", "requests/s", "p50 ms", "p99 ms", "CPU us", "of echo", "statuses", box=box.SIMPLE_HEAD)
        for each, other in zip(measured, against, strict=True):
            table.add_row(*each.row(other))
        console = Console()
        console.width = max(console.width, 110)
        console.print(table)
        console.print(_lost(file, [measured[1], measured[4], measured[5]]))


def _table(rng: np.random.Generator, arms: int, dim: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    return np.round(rng.normal(size=(arms, dim)), 6)


def _same(message: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: itertools.repeat(message)


def _rewards(decisions: Measured, key: str) -> Callable[[], Iterator[bytes]]:
    """The rewards of the decisions of the last block."""

    def messages() -> Iterator[bytes]:
        for body in decisions.loads[-1].bodies:
            reward = {"decision_id": json.loads(body)["decision_id"], "reward": 1.0}
            yield request("/v1/bandits/small/reward", json.dumps(reward).encode(), key)

    return messages


def _key(serving: subprocess.Popen[str]) -> str:
    """The admin key, from what the first start prints."""
    assert serving.stdout is not None
    for line in serving.stdout:
        found = re.search(r"syn_[\w-]+", line)
        if found:
            return found.group()
    raise SystemExit("the service printed no key")


def _create(port: int, key: str, name: str, dim: int) -> None:
    spec = {
        "features": {"kind": "vector", "dim": dim},
        "tuner": {"name": "Syndicated", "horizon": 100_000},
        "space": SPACE,
    }
    body = {"name": name, "spec": spec}
    headers = {"Authorization": f"Bearer {key}"}
    httpx.post(f"http://127.0.0.1:{port}/v1/bandits", json=body, headers=headers).raise_for_status()


def _lost(file: Path, decided: Sequence[Measured]) -> str:
    """Whether the journal has every decision that was answered."""
    answered = {
        int(json.loads(body)["decision_id"].partition("-")[0], 16)
        for each in decided
        for load in each.loads
        for body in load.bodies
    }
    store = SQLite(file, read_only=True)
    kept = {event.seq for event, _ in store.after(0) if event.kind == "decide"}
    store.close()
    return f"{len(answered)} decisions were answered; {len(answered - kept)} of them are not in the journal"


if __name__ == "__main__":
    if sys.argv[1:2] == ["echo"]:
        echo()
    else:
        main()
