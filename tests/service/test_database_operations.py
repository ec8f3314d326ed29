"""What operators do to the database of a service that is in use, with real PostgreSQL servers: a standby takes over, a
moment of the past is restored, replicas are restarted or upgraded one by one."""

import asyncio
import shutil
import signal
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.live_service import free_port
from support.postgres import BaseBackup
from support.postgres import Server as Database
from support.service_processes import Callers, ServiceProcesses, all_know, called, check, ready, run

from syndicated.cli import main

# Events are written by INSERT and folded one by one there, and models are kept in another form; a later one that keeps
# other sums would not be equal to the bit.
UPGRADED_COMMIT = "2027fa82f1bb93da5d0e6959719e8cd24bb3f7ae"


@pytest.fixture
def backup(postgres: Database) -> Iterator[Callable[[], BaseBackup]]:
    taken: list[BaseBackup] = []

    def take() -> BaseBackup:
        taken.append(postgres.base_backup())
        return taken[-1]

    yield take
    for each in taken:
        each.close()


def test_a_standby_that_is_promoted_in_use_has_all_that_was_acknowledged(
    processes: ServiceProcesses,
    database: Callable[[], str],
    postgres: Database,
    backup: Callable[[], BaseBackup],
) -> None:
    """The standby is synchronous, and the address of the journal names both servers."""

    async def test() -> None:
        address = database()
        standby = await asyncio.to_thread(backup)
        await asyncio.to_thread(standby.start_standby)
        postgres.set("synchronous_standby_names", "*")
        host = f",{standby.socket_folder()}&target_session_attrs=read-write"
        callers, port, pid = await called(processes, address + host)
        async with callers.calling(4):
            await callers.until(40)
            callers.refused.clear()
            postgres.kill()
            await callers.refused.wait()
            await ready(port, 503)
            await asyncio.to_thread(standby.promote)
            await ready(port)
            await callers.until(40)
        processes.kill(pid, signal.SIGTERM)
        assert set(callers.statuses) <= {200, 503}
        check(standby.address(address), callers)
        assert main(["verify", "--store", standby.address(address)]) == 0

    try:
        run(test)
    finally:
        postgres.start()
        postgres.set("synchronous_standby_names", "")


def test_a_restore_to_a_point_in_time_has_what_was_acknowledged_until_then_and_no_more(
    processes: ServiceProcesses,
    database: Callable[[], str],
    postgres: Database,
    backup: Callable[[], BaseBackup],
) -> None:
    async def test() -> None:
        address = database()
        callers, port, pid = await called(processes, address)
        async with callers.calling(4):
            await callers.until(20)
            base = await asyncio.to_thread(backup)
            await callers.until(20)
        async with callers.client(port) as client:
            await client.post("/v1/bandits/b/models")
        postgres.run("SELECT pg_create_restore_point('noon')")
        later = Callers([port], prefix="later-")
        async with later.calling(2):
            await later.until(20)
        processes.kill(pid, signal.SIGTERM)
        await asyncio.to_thread(base.start_at, "noon")
        restored = base.address(address)
        model = check(restored, callers)
        assert main(["verify", "--store", restored]) == 0
        pid = await processes.start(restored, port)
        assert await callers.model(port) == model
        async with callers.client(port) as client:
            reward = {"decision_id": next(reversed(later.decided.values())), "reward": 1.0}
            assert (await client.post("/v1/bandits/b/reward", json=reward)).status_code == 404
        more = Callers([port], prefix="more-")
        async with more.calling(2):
            await more.until(10)
        processes.kill(pid, signal.SIGTERM)
        check(restored, more)

    run(test)


@dataclass
class Balanced(Callers):
    """Callers behind a load balancer: what one replica cannot answer goes to the next; what none can, has failed.

    A reward goes first to another replica than its decision did.
    """

    clients: dict[int, httpx.AsyncClient] = field(default_factory=dict)  # by port
    failed: int = 0

    async def again(self, client: httpx.AsyncClient, verb: str, body: dict[str, Any]) -> dict[str, Any] | None:
        for port in list(self.ports if verb == "decide" else reversed(self.ports)):
            answer = await self.ask(self.clients[port], verb, body)
            if answer is not None:
                return answer
        self.failed += 1
        return None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for port in self.ports:
                self.clients[port] = await stack.enter_async_context(self.client(port))
            yield


def test_replicas_that_are_restarted_one_by_one_fail_nobody_and_lose_nothing(
    processes: ServiceProcesses, database: Callable[[], str]
) -> None:
    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(2)]
        pids = [processes.serve(address, port) for port in ports]
        await asyncio.gather(*map(ready, ports))
        callers = Balanced(list(ports))
        await callers.create()
        await all_know(callers)
        async with callers.connected(), callers.calling(4):
            for k, port in enumerate(ports):
                await callers.until(20)
                await asyncio.to_thread(processes.kill, pids[k], signal.SIGTERM)
                await callers.until(20)
                pids[k] = await processes.start(address, port)
                callers.ports.reverse()  # so that the new one is asked first
            await callers.until(20)
        assert callers.failed == 0
        expected = check(address, callers)
        assert [await callers.model(port) for port in ports] == [expected] * 2

    run(test)


@pytest.fixture
def old_processes(tmp_path: Path) -> Iterator[ServiceProcesses]:
    """Services of an earlier version, from the repository's own history."""
    git = ["git", "-C", str(Path(__file__).parents[2])]
    if (
        not shutil.which("git")
        or subprocess.run([*git, "cat-file", "-e", UPGRADED_COMMIT], capture_output=True).returncode
    ):
        pytest.skip(
            f"an upgrade starts from the commit {UPGRADED_COMMIT} of the repository's history, which is not here"
        )
    archive = subprocess.run([*git, "archive", UPGRADED_COMMIT, "syndicated"], capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(tmp_path / "tree", filter="data")
    processes = ServiceProcesses(tmp_path / "log", tmp_path / "tree")
    yield processes
    processes.kill_all()
    processes.close()


def test_replicas_that_are_upgraded_one_by_one_fail_nobody_and_lose_nothing(
    processes: ServiceProcesses, old_processes: ServiceProcesses, database: Callable[[], str]
) -> None:
    """Both versions decide, reward each other's decisions, and follow each other meanwhile."""

    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(2)]
        pids = [await old_processes.start(address, port) for port in ports]
        callers = Balanced(list(ports))
        await callers.create()
        for port in ports:
            await compiled_by(port)
        async with callers.connected(), callers.calling(4):
            await callers.until(20)
            await asyncio.to_thread(old_processes.kill, pids[0], signal.SIGTERM)
            await callers.until(20)
            await processes.start(address, ports[0])
            for _ in range(2):
                await callers.until(20)
                await reward_across(callers)
                callers.ports.reverse()  # so that the other version is asked first
            await asyncio.to_thread(old_processes.kill, pids[1], signal.SIGTERM)
            await callers.until(20)
            await processes.start(address, ports[1])
            await callers.until(20)
        assert callers.failed == 0
        expected = check(address, callers)
        assert [await callers.model(port) for port in ports] == [expected] * 2

    run(test)


async def compiled_by(port: int) -> None:
    """Wait until a replica has the kernels of a decision and a reward; it may refuse requests meanwhile."""
    first = Callers([port], prefix=f"{port}-")
    async with first.calling(1):
        await first.until(2)


async def reward_across(callers: Balanced) -> None:
    """Decide with the first replica, and reward with the second, which answers itself."""
    one, other = (callers.clients[port] for port in callers.ports)
    ask = {"arms": [{"id": "a", "x": [1.0, 0.0, 0.5]}, {"id": "b", "x": [0.0, 1.0, 0.5]}]}
    decision = (await one.post(f"/v1/bandits/{callers.bandit}/decide", json=ask)).raise_for_status().json()
    reward = {"decision_id": decision["decision_id"], "reward": 1.0}
    reply = (await other.post(f"/v1/bandits/{callers.bandit}/reward", json=reward)).raise_for_status().json()
    assert reply["outcome"] == "learned"
    callers.rewarded[decision["decision_id"]] = 1.0
