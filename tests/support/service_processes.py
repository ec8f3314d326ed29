"""Services as processes of their own, and callers that remember what was acknowledged."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from support.live_service import free_port
from syndicated.service.bandits.state import State
from syndicated.store import open_store

KEY = "syn_" + "k" * 43
SPEC = {
    "features": {"kind": "vector", "dim": 3},
    "tuner": {"name": "Syndicated", "horizon": 1000},
    "space": {"alpha": [0.1, 1.0], "lam": [0.1, 1.0]},
}
HANG_SECONDS = 1200  # only so that a test that hangs ends: none comes near it, also not on a busy machine


class ServiceProcesses:
    """Starts services as forks of a process that has imported everything, knows them, and ends those that are left.

    They are of this version, or of another one whose files are in `tree`.
    """

    def __init__(self, output: Path, tree: Path | None = None) -> None:
        self.output, self._tree = output, tree
        command, environment = [sys.executable, str(Path(__file__).parent / "fork_server.py")], dict(os.environ)
        if tree is not None:
            command, environment["PYTHONPATH"] = [*command, "--on-demand"], str(tree)
        self._fork_server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._alive: list[int] = []

    def serve(self, store: str, port: int, *more: str, max_file_bytes: int = 0) -> int:
        order = {
            "arguments": ["serve", "--store", store, "--port", str(port), "--log-level", "error", *more],
            "environment": {"SYNDICATED_ADMIN_KEY": KEY},
            "output": str(self.output),
            "max_file_bytes": max_file_bytes,
        }
        assert self._fork_server.stdin is not None
        assert self._fork_server.stdout is not None
        print(json.dumps(order), file=self._fork_server.stdin, flush=True)
        pid, package = self._fork_server.stdout.readline().split(maxsplit=1)
        assert self._tree is None or Path(package).is_relative_to(self._tree)
        self._alive.append(int(pid))
        return self._alive[-1]

    async def start(self, store: str, port: int, *more: str, max_file_bytes: int = 0) -> int:
        """Start a service, and wait until it is ready."""
        pid = self.serve(store, port, *more, max_file_bytes=max_file_bytes)
        await ready(port)
        return pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """End a service, and wait until it has."""
        process = psutil.Process(pid)
        os.kill(pid, number)
        psutil.wait_procs([process], timeout=HANG_SECONDS)
        self._alive.remove(pid)

    def kill_all(self) -> None:
        for pid in list(self._alive):
            self.kill(pid)

    def close(self) -> None:
        assert self._fork_server.stdin is not None
        assert self._fork_server.stdout is not None
        self._fork_server.stdin.close()
        self._fork_server.stdout.close()
        self._fork_server.wait(HANG_SECONDS)


async def ready(port: int, status: int = 200) -> None:
    """Wait until the service says that it is ready, or that it is not."""
    async with httpx.AsyncClient(timeout=HANG_SECONDS) as client:
        while True:
            try:
                if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == status:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.01)


@dataclass
class Callers:
    """Callers that decide and reward, and go on after every failure; they remember what was acknowledged."""

    ports: list[int]
    bandit: str = "b"
    prefix: str = ""  # of their event ids
    decided: dict[str, str] = field(default_factory=dict)
    rewarded: dict[str, float] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    stop: bool = False
    enough: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    refused: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def count(self) -> int:
        return len(self.decided) + len(self.rewarded)

    async def create(self) -> None:
        async with self.client(self.ports[0]) as client:
            (await client.post("/v1/bandits", json={"name": self.bandit, "spec": SPEC})).raise_for_status()

    def client(self, port: int) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=HANG_SECONDS)

    async def model(self, port: int) -> bytes:
        async with self.client(port) as client:
            return (await client.get(f"/v1/bandits/{self.bandit}/models/current")).raise_for_status().content

    async def ask(self, client: httpx.AsyncClient, verb: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None if there was none, or the service could not."""
        try:
            reply = await client.post(f"/v1/bandits/{self.bandit}/{verb}", json=body)
        except httpx.TransportError:
            return None
        self.statuses[reply.status_code] = self.statuses.get(reply.status_code, 0) + 1
        if reply.status_code in (502, 503):
            self.refused.set()
            return None
        answer: dict[str, Any] = reply.raise_for_status().json()
        return answer

    @asynccontextmanager
    async def calling(self, count: int) -> AsyncIterator[None]:
        """So many at once, until the block ends; if one fails, it ends."""
        async with asyncio.TaskGroup() as group:
            for k in range(count):
                group.create_task(self.call(k))
            yield
            self.stop = True

    async def call(self, number: int) -> None:
        rng = np.random.default_rng(number)
        port, k = self.ports[number % len(self.ports)], 0
        async with self.client(port) as client:
            while not self.stop:
                name, k = f"{self.prefix}{number}-{k}", k + 1
                arms = [{"id": str(i), "x": x} for i, x in enumerate(rng.normal(size=(4, 3)).tolist())]
                decision = await self.again(client, "decide", {"arms": arms, "event_id": name})
                if decision is None:
                    return
                self.decided[name] = decision["decision_id"]
                reward = {"decision_id": decision["decision_id"], "reward": float(rng.integers(2))}
                if await self.again(client, "reward", reward) is None:
                    return
                self.rewarded[decision["decision_id"]] = reward["reward"]
                if self.enough and self.count >= self.enough:
                    self.reached.set()

    async def again(self, client: httpx.AsyncClient, verb: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Ask until there is an answer."""
        while not self.stop:
            answer = await self.ask(client, verb, body)
            if answer is not None:
                return answer
            await asyncio.sleep(0.005)
        return None

    async def until(self, more: int) -> None:
        """Wait until so many more things were acknowledged."""
        self.enough = self.count + more
        self.reached.clear()
        await self.reached.wait()


async def called(
    processes: ServiceProcesses, address: str, *more: str, max_file_bytes: int = 0
) -> tuple[Callers, int, int]:
    """The callers of a new service with a bandit, its port and its process."""
    port = free_port()
    pid = await processes.start(address, port, *more, max_file_bytes=max_file_bytes)
    callers = Callers([port])
    await callers.create()
    return callers, port, pid


def check(address: str, callers: Callers) -> bytes:
    """Nothing that was acknowledged is lost or doubled, and snapshots with a tail are the whole log, to the bit; the
    model that the log makes."""
    with closing(open_store(address, read_only=True)) as store:
        state, whole = State.load(store), State.load(store, whole=True)
        assert contents(state) == contents(whole)
        decided: dict[str, int] = {}
        learned: dict[int, list[float]] = {}
        for event, _ in store.after(0):
            if event.kind == "decide" and event.key is not None:
                assert event.key not in decided
                decided[event.key] = event.seq
            elif event.ref is not None and event.learn is not None:
                learned.setdefault(event.ref, []).append(event.learn)
    lost = [name for name, id_ in callers.decided.items() if decided.get(name) != number(id_)]
    assert not lost
    assert not [id_ for id_, reward in callers.rewarded.items() if learned.get(number(id_)) != [reward]]
    assert not [seq for seq, rewards in learned.items() if len(rewards) > 1]
    return whole.names[callers.bandit].agent.state()


def number(id_: str) -> int:
    return int(id_.partition("-")[0], 16)


def contents(state: State) -> list[bytes]:
    return [snapshot.state for snapshot in state.snapshots()]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), HANG_SECONDS)

    asyncio.run(bounded())


async def all_know(callers: Callers) -> None:
    """Wait until every replica has heard of the bandit."""
    for port in callers.ports:
        async with callers.client(port) as client:
            while (await client.get(f"/v1/bandits/{callers.bandit}")).status_code != 200:
                await asyncio.sleep(0.01)
