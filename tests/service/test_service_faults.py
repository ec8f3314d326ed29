"""What happens when things break: services and databases killed, disks full, too many requests.

Everything is on loopback, bounded, and ends only processes that it started.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
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
HANG_SECONDS = 1200  # only so that a test that hangs ends: none comes near it, also not on a busy machine


class ServiceProcesses:
    """Starts services as forks of a process that has imported everything, knows them, and ends those that are left."""

    def __init__(self, output: Path) -> None:
        self.output = output
        command = [sys.executable, str(Path(__file__).parents[1] / "support" / "fork_server.py")]
        self._fork_server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        self._alive.append(int(self._fork_server.stdout.readline()))
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


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcesses]:
    processes = ServiceProcesses(tmp_path_factory.mktemp("services") / "log")
    yield processes
    processes.close()


@pytest.fixture
def processes(fork_server: ServiceProcesses) -> Iterator[ServiceProcesses]:
    yield fork_server
    fork_server.kill_all()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    made: Callable[[], str] = request.getfixturevalue("database")
    return made()


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
    return [snapshot.state for snapshot in state.snapshots(every=True)]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(test(), HANG_SECONDS)

    asyncio.run(bounded())


def test_expectation_22_thirty_kills_lose_nothing_and_learn_nothing_twice(
    processes: ServiceProcesses, address: str
) -> None:
    async def test() -> None:
        rng = np.random.default_rng(7)
        callers, port, pid = await called(processes, address)
        async with callers.calling(8):
            for _ in range(KILLS):
                await callers.until(int(rng.integers(1, 120)))
                processes.kill(pid)
                pid = await processes.start(address, port)
            await callers.until(50)
        processes.kill(pid)
        check(address, callers)
        pid = await processes.start(address, port)
        model = await callers.model(port)
        processes.kill(pid, signal.SIGTERM)
        assert check(address, callers) == model
        print(f"{KILLS} kills, {len(callers.decided)} decisions, {len(callers.rewarded)} rewards: none lost or doubled")

    run(test)


def test_three_replicas_one_killed_are_equal_in_the_end(
    processes: ServiceProcesses, database: Callable[[], str]
) -> None:
    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(3)]
        pids = [processes.serve(address, port) for port in ports]
        await asyncio.gather(*map(ready, ports))
        callers = Callers(ports)
        await callers.create()
        await _all_know(callers)
        async with callers.calling(9):
            for _ in range(3):
                await callers.until(100)
                processes.kill(pids[1])
                await callers.until(100)
                pids[1] = await processes.start(address, ports[1])
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
    processes: ServiceProcesses, database: Callable[[], str], postgres: Database
) -> None:
    async def test() -> None:
        address = database()
        callers, port, _ = await called(processes, address)
        async with callers.calling(4):
            for _ in range(2):
                await callers.until(50)
                callers.refused.clear()
                postgres.kill()
                await callers.refused.wait()
                await ready(port, 503)
                await asyncio.to_thread(postgres.start)
                await ready(port)
                await callers.until(50)
        assert set(callers.statuses) <= {200, 503}
        check(address, callers)

    run(test)


def test_a_database_that_hangs_is_answered_by_503_and_nothing_waits_for_it(
    processes: ServiceProcesses, database: Callable[[], str], postgres: Database
) -> None:
    async def test() -> None:
        address = database()
        callers, port, pid = await called(processes, address)
        other = free_port()
        other_pid = await processes.start(address, other)
        async with callers.calling(4), callers.client(port) as client:
            await callers.until(20)
            callers.refused.clear()
            with postgres.hanging():
                await callers.refused.wait()
                await ready(port, 503)
                assert (await client.get("/v1/bandits")).status_code == 503
                processes.kill(other_pid, signal.SIGTERM)
            await ready(port)
            await callers.until(20)
        assert set(callers.statuses) <= {200, 503}
        processes.kill(pid, signal.SIGTERM)
        check(address, callers)

    run(test)


def test_a_replica_that_is_stopped_stops_no_other(processes: ServiceProcesses, database: Callable[[], str]) -> None:
    """Wherever it is stopped, also while it holds what others wait for."""

    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(2)]
        pids = [processes.serve(address, port) for port in ports]
        await asyncio.gather(*map(ready, ports))
        callers, stopped = Callers(ports[:1]), Callers(ports[1:])
        await callers.create()
        await _all_know(Callers(ports))
        async with callers.calling(3), stopped.calling(3):
            for _ in range(3):
                await callers.until(20)
                os.kill(pids[1], signal.SIGSTOP)
                await callers.until(20)
                os.kill(pids[1], signal.SIGCONT)
                await stopped.until(5)
        check(address, callers)
        assert set(callers.statuses) <= {200, 503}

    run(test)


def test_workers_share_a_port_and_another_takes_the_place_of_one_that_is_killed(
    processes: ServiceProcesses, database: Callable[[], str]
) -> None:
    async def test() -> None:
        address, port = database(), free_port()
        supervisor = psutil.Process(await processes.start(address, port, "--workers", "2"))
        callers = Callers([port])
        await callers.create()
        async with callers.calling(6):
            await callers.until(30)
            killed, _ = await _workers(supervisor)
            killed.kill()
            await callers.until(30)
            both = await _workers(supervisor, without=killed)
            await callers.until(30)
        processes.kill(supervisor.pid, signal.SIGTERM)
        assert not any(worker.is_running() for worker in both)
        check(address, callers)
        supervisor = psutil.Process(await processes.start(address, port, "--workers", "2"))
        both = await _workers(supervisor)
        processes.kill(supervisor.pid)
        psutil.wait_procs(both, timeout=HANG_SECONDS)  # nobody is left behind

    run(test)


async def _workers(supervisor: psutil.Process, without: psutil.Process | None = None) -> list[psutil.Process]:
    """The two workers of a service, when there are two."""
    while True:
        found = [worker for worker in supervisor.children() if worker != without]
        if len(found) == 2:
            return found
        await asyncio.sleep(0.01)


def test_a_full_disk_is_refused_and_loses_nothing(processes: ServiceProcesses, tmp_path: Path) -> None:
    async def test() -> None:
        address = str(tmp_path / "journal.db")
        callers, port, pid = await called(processes, address, max_file_bytes=1_000_000)
        async with callers.calling(4):
            await ready(port, 503)
            before = callers.count
            async with callers.client(port) as client:
                listed = await client.get("/v1/bandits")
            assert before > 20
            processes.kill(pid)
            pid = await processes.start(address, port)
            await callers.until(50)
        assert set(callers.statuses) <= {200, 503}
        assert listed.status_code in (200, 503)
        processes.kill(pid, signal.SIGTERM)
        check(address, callers)

    run(test)


def test_overload_is_refused_memory_is_bounded_and_the_service_recovers(
    processes: ServiceProcesses, tmp_path: Path
) -> None:
    async def test() -> None:
        callers, port, pid = await called(processes, str(tmp_path / "journal.db"), "--queue", "4")
        body = {"arms": [{"id": str(i), "x": [1.0, 2.0, 3.0]} for i in range(4)]}
        statuses = await flood(port, pid, body)
        before = psutil.Process(pid).memory_info().rss
        for _ in range(9):
            statuses += await flood(port, pid, body)
        grown = psutil.Process(pid).memory_info().rss - before
        assert set(statuses) == {200, 503}
        assert grown < 32 * 2**20
        async with callers.client(port) as client:
            assert (await client.post("/v1/bandits/b/decide", json=body)).status_code == 200

    run(test)


async def flood(port: int, pid: int, body: dict[str, Any], count: int = 64) -> list[int]:
    """The statuses of requests that a service meets all at once: it stands still until every one of them was sent."""
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/bandits/b/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    os.kill(pid, signal.SIGSTOP)
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in streams:
        writer.write(head.encode() + content)
        await writer.drain()
    os.kill(pid, signal.SIGCONT)
    statuses = []
    for reader, writer in streams:
        reply = await reader.read()
        writer.close()
        statuses.append(int(reply.split(b" ", 2)[1]))
        assert (statuses[-1] == 503) == (b"\r\nretry-after: 1\r\n" in reply)
    return statuses


def test_a_second_owner_is_refused_with_one_line(processes: ServiceProcesses, tmp_path: Path) -> None:
    async def test() -> None:
        await processes.start(str(tmp_path / "journal.db"), free_port())

    run(test)
    command = [sys.executable, "-m", "syndicated", "serve", "--store", str(tmp_path / "journal.db"), "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert "must have one owner" in second.stderr
