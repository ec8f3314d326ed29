"""What happens when things break: services and databases killed, disks full, too many requests.

Everything is on loopback, bounded, and ends only processes that it started.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from support.live_service import free_port
from support.postgres import Server as Database

from syndicated.service.core.state import State
from syndicated.store import open_store

KEY = "syn_" + "k" * 43
SPEC = {
    "features": {"kind": "vector", "dim": 3},
    "tuner": {"name": "Syndicated", "horizon": 1000},
    "space": {"alpha": [0.1, 1.0], "lam": [0.1, 1.0]},
}
KILLS = 30


class Nursery:
    """Starts services, knows them, and ends those that are left."""

    def __init__(self, output: Path) -> None:
        self.output = output
        command = [sys.executable, str(Path(__file__).parents[1] / "support" / "fork_server.py")]
        self._nurse = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._alive: list[int] = []

    def serve(self, store: str, port: int, *more: str, largest: int = 0) -> int:
        wish = {
            "arguments": ["serve", "--store", store, "--port", str(port), "--log-level", "error", *more],
            "environment": {"SYNDICATED_ADMIN_KEY": KEY},
            "output": str(self.output),
            "largest": largest,
        }
        assert self._nurse.stdin is not None
        assert self._nurse.stdout is not None
        print(json.dumps(wish), file=self._nurse.stdin, flush=True)
        self._alive.append(int(self._nurse.stdout.readline()))
        return self._alive[-1]

    async def start(self, store: str, port: int, *more: str, largest: int = 0) -> int:
        """Start a service, and wait until it is ready."""
        pid = self.serve(store, port, *more, largest=largest)
        await ready(port)
        return pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """End a service, and wait until it has."""
        process = psutil.Process(pid)
        os.kill(pid, number)
        psutil.wait_procs([process], timeout=30)
        self._alive.remove(pid)

    def kill_all(self) -> None:
        for pid in list(self._alive):
            self.kill(pid)

    def close(self) -> None:
        assert self._nurse.stdin is not None
        assert self._nurse.stdout is not None
        self._nurse.stdin.close()
        self._nurse.stdout.close()
        self._nurse.wait(10)


@pytest.fixture(scope="module")
def nurse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("services") / "log")
    yield nursery
    nursery.close()


@pytest.fixture
def nursery(nurse: Nursery) -> Iterator[Nursery]:
    yield nurse
    nurse.kill_all()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    made: Callable[[], str] = request.getfixturevalue("database")
    return made()


async def ready(port: int, status: int = 200) -> None:
    """Wait until the service says that it is ready, or that it is not."""
    until = time.monotonic() + 30
    async with httpx.AsyncClient() as client:
        while time.monotonic() < until:
            try:
                if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == status:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.01)
    raise AssertionError(f"no service with status {status} on port {port}")


@dataclass
class Callers:
    """Callers that decide and reward, and go on after every failure; they remember what was acknowledged."""

    ports: list[int]
    bandit: str = "b"
    decided: dict[str, str] = field(default_factory=dict)
    rewarded: dict[str, float] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    stop: bool = False
    enough: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def count(self) -> int:
        return len(self.decided) + len(self.rewarded)

    async def create(self) -> None:
        async with self.client(self.ports[0]) as client:
            (await client.post("/v1/bandits", json={"name": self.bandit, "spec": SPEC})).raise_for_status()

    def client(self, port: int) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30)

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
            return None
        answer: dict[str, Any] = reply.raise_for_status().json()
        return answer

    @asynccontextmanager
    async def calling(self, count: int) -> AsyncIterator[None]:
        """So many at once, until the block ends."""
        tasks = [asyncio.create_task(self.call(k)) for k in range(count)]
        yield
        self.stop = True
        await asyncio.gather(*tasks)

    async def call(self, number: int) -> None:
        rng = np.random.default_rng(number)
        port, k = self.ports[number % len(self.ports)], 0
        async with self.client(port) as client:
            while not self.stop:
                name, k = f"{number}-{k}", k + 1
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
        await asyncio.wait_for(self.reached.wait(), 60)


async def called(nursery: Nursery, address: str, *more: str, largest: int = 0) -> tuple[Callers, int, int]:
    """The callers of a new service with a bandit, its port and its process."""
    port = free_port()
    pid = await nursery.start(address, port, *more, largest=largest)
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
    return [snapshot.state for snapshot in state.snapshots(every=True)]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), 240)

    asyncio.run(bounded())


def test_thirty_kills_lose_nothing_and_learn_nothing_twice(nursery: Nursery, address: str) -> None:
    async def test() -> None:
        rng = np.random.default_rng(7)
        callers, port, pid = await called(nursery, address)
        async with callers.calling(8):
            for _ in range(KILLS):
                await callers.until(int(rng.integers(1, 120)))
                nursery.kill(pid)
                pid = await nursery.start(address, port)
            await callers.until(50)
        nursery.kill(pid)
        check(address, callers)
        pid = await nursery.start(address, port)
        model = await callers.model(port)
        nursery.kill(pid, signal.SIGTERM)
        assert check(address, callers) == model
        print(f"{KILLS} kills, {len(callers.decided)} decisions, {len(callers.rewarded)} rewards: none lost or doubled")

    run(test)


def test_three_replicas_one_killed_are_equal_in_the_end(nursery: Nursery, database: Callable[[], str]) -> None:
    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(3)]
        pids = [nursery.serve(address, port) for port in ports]
        await asyncio.gather(*map(ready, ports))
        callers = Callers(ports)
        await callers.create()
        await _all_know(callers)
        async with callers.calling(9):
            for _ in range(3):
                await callers.until(100)
                nursery.kill(pids[1])
                await callers.until(100)
                pids[1] = await nursery.start(address, ports[1])
        expected = check(address, callers)
        assert [await callers.model(port) for port in ports] == [expected] * 3

    run(test)


async def _all_know(callers: Callers) -> None:
    """Wait until every replica has heard of the bandit."""
    for port in callers.ports:
        async with callers.client(port) as client:
            while (await client.get(f"/v1/bandits/{callers.bandit}")).status_code != 200:
                await asyncio.sleep(0.01)


def test_a_killed_database_is_answered_by_503_and_the_service_recovers(
    nursery: Nursery, database: Callable[[], str], postgres: Database
) -> None:
    async def test() -> None:
        address = database()
        callers, port, _ = await called(nursery, address)
        async with callers.calling(4):
            for _ in range(2):
                await callers.until(50)
                postgres.kill()
                await ready(port, 503)
                await asyncio.to_thread(postgres.start)
                await ready(port)
                await callers.until(50)
        assert callers.statuses.get(503, 0) > 0
        assert set(callers.statuses) <= {200, 503}
        check(address, callers)

    run(test)


def test_a_full_disk_is_refused_and_loses_nothing(nursery: Nursery, tmp_path: Path) -> None:
    async def test() -> None:
        address = str(tmp_path / "journal.db")
        callers, port, pid = await called(nursery, address, largest=1_000_000)
        async with callers.calling(4):
            await ready(port, 503)
            before = callers.count
            async with callers.client(port) as client:
                listed = await client.get("/v1/bandits")
            assert before > 20
            nursery.kill(pid)
            pid = await nursery.start(address, port)
            await callers.until(50)
        assert set(callers.statuses) <= {200, 503}
        assert listed.status_code in (200, 503)
        nursery.kill(pid, signal.SIGTERM)
        check(address, callers)

    run(test)


def test_overload_is_refused_memory_is_bounded_and_the_service_recovers(nursery: Nursery, tmp_path: Path) -> None:
    async def test() -> None:
        _, port, pid = await called(nursery, str(tmp_path / "journal.db"), "--queue", "4")
        arms = [{"id": str(i), "x": [1.0, 2.0, 3.0]} for i in range(4)]
        limits = httpx.Limits(max_connections=64)
        headers = {"Authorization": f"Bearer {KEY}"}
        base = f"http://127.0.0.1:{port}"
        statuses: dict[int, int] = {}
        async with httpx.AsyncClient(base_url=base, headers=headers, limits=limits, timeout=60) as client:

            async def ask() -> None:
                reply = await client.post("/v1/bandits/b/decide", json={"arms": arms})
                statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
                if reply.status_code == 503:
                    assert int(reply.headers["retry-after"]) > 0

            await asyncio.gather(*[ask() for _ in range(200)])
            before = psutil.Process(pid).memory_info().rss
            for _ in range(3):
                await asyncio.gather(*[ask() for _ in range(200)])
            grown = psutil.Process(pid).memory_info().rss - before
            assert set(statuses) == {200, 503}
            assert grown < 32 * 2**20
            assert (await client.post("/v1/bandits/b/decide", json={"arms": arms})).status_code == 200

    run(test)


def test_a_second_owner_is_refused_with_one_line(nursery: Nursery, tmp_path: Path) -> None:
    async def test() -> None:
        await nursery.start(str(tmp_path / "journal.db"), free_port())

    run(test)
    command = [sys.executable, "-m", "syndicated", "serve", "--store", str(tmp_path / "journal.db"), "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "must have one owner" in second.stderr
