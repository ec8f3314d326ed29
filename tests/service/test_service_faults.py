"""What happens when things break: services and databases killed, disks full, too many requests.

Everything is on loopback, bounded, and ends only processes that it started.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.live_service import free_port
from support.postgres import Server as Database
from support.service_processes import HANG_SECONDS, KEY, Callers, ServiceProcesses, all_know, called, check, ready, run

from syndicated.service.commit import group_commit
from syndicated.service.http import workers
from syndicated.store import _postgres, _postgres_connection

KILLS = 15  # of a service on each kind of store: thirty in all

pytestmark = pytest.mark.no_cover  # the services are other processes: here only callers would be traced


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    made: Callable[[], str] = request.getfixturevalue("database")
    return made()


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
        await all_know(callers)
        async with callers.calling(9):
            for _ in range(3):
                await callers.until(100)
                processes.kill(pids[1])
                await callers.until(100)
                pids[1] = await processes.start(address, ports[1])
        expected = check(address, callers)
        assert [await callers.model(port) for port in ports] == [expected] * 3

    run(test)


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


def test_what_hangs_is_given_up_within_the_promised_times() -> None:
    """503 within 3 s: one attempt at the database. SIGTERM within 10 s: what is left of workers is killed."""
    answer = _postgres_connection.ANSWER_SECONDS
    assert max(answer, _postgres.CONNECT_SECONDS, group_commit.HANG_SECONDS) <= 3.0
    assert "statement_timeout = '2s'" in _postgres.TIMEOUTS
    assert answer > group_commit.HUNG_SECONDS  # who came meanwhile is answered with the first
    assert workers.STOP_SECONDS < 10.0


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


class Link:
    """A way to a database over a port of its own. Once it is `silent`, what is sent is lost and nobody is told."""

    def __init__(self, address: str) -> None:
        self._to = conninfo_to_dict(address)
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.silent = False

    async def __aenter__(self) -> "Link":
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"postgresql://{self._to['user']}@127.0.0.1:{port}/{self._to['dbname']}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        closed = [writer.wait_closed() for writer in self._writers]
        await asyncio.gather(*self._tasks, *closed, return_exceptions=True)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_unix_connection(f"{self._to['host']}/.s.PGSQL.{self._to.get('port', 5432)}")
        self._writers += [writer, there[1]]
        for source, target in ((reader, there[1]), (there[0], writer)):
            self._tasks.append(asyncio.create_task(self._pass_on(source, target)))

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if not self.silent:
                    target.write(data)
        if not self.silent:
            target.close()


def test_a_replica_that_is_cut_off_refuses_and_ends_and_no_other_waits_for_it(
    processes: ServiceProcesses, database: Callable[[], str]
) -> None:
    """Nothing that it sends arrives, wherever it was in a transaction, and the database does not hear of its end."""

    async def test() -> None:
        address, ports = database(), [free_port() for _ in range(2)]
        async with Link(address) as link:
            pids = [processes.serve(each, port) for each, port in zip((link.address, address), ports, strict=True)]
            await asyncio.gather(*map(ready, ports))
            cut, other = Callers(ports[:1], prefix="cut-"), Callers(ports[1:], prefix="other-")
            await other.create()
            await all_know(Callers(ports))
            async with cut.calling(3), other.calling(3), other.client(ports[1]) as client:
                await cut.until(20)
                link.silent = True
                cut.refused.clear()
                await cut.refused.wait()
                await ready(ports[0], 503)
                await other.until(20)
                before = (await client.get("/v1/bandits/b")).json()["rewards"]
                while (await client.get("/v1/bandits/b")).json()["rewards"] < before + 10:
                    await asyncio.sleep(0.01)  # what it had begun to write does not keep the others from learning
                await asyncio.to_thread(processes.kill, pids[0], signal.SIGTERM)
                cut.stop = True
        assert set(cut.statuses) == {200, 503}
        assert set(other.statuses) <= {200, 503}
        for callers in (cut, other):
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
        await all_know(Callers(ports))
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
            both[1].suspend()  # connections would still go to it
            both = await _workers(supervisor, without=both[1])
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
