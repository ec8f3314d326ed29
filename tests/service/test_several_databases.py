"""One service on two PostgreSQL databases: a bandit's name decides which of them has it."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.api_service import ARMS, Api, serving
from support.live_service import free_port
from support.service_processes import Callers, ServiceProcesses, check, run

from syndicated.cli import main
from syndicated.errors import InputError
from syndicated.service.bandits.state import State
from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.store import SQLite, open_store, place_of

NAMES = [f"bandit{k}" for k in range(6)]
PLACES = [next(name for name in NAMES if place_of(name, 2) == place) for place in range(2)]  # a bandit of each


def several(*addresses: str) -> AbstractAsyncContextManager[Api]:
    """A service on several journals."""
    return serving([open_store(address) for address in addresses])


def test_bandits_are_spread_by_name_and_everything_works_across_databases(database: Callable[[], str]) -> None:
    addresses = [database(), database()]

    async def fill() -> dict[str, str]:
        async with several(*addresses) as api:
            open_ids = {}
            for name in NAMES:
                await api.create(name)
                await api.reward(await api.decide(name, subject="ann"), name=name)
                open_ids[name] = (await api.decide(name))["decision_id"]
            listed = await api.call("GET", "/v1/bandits")
            assert {bandit["name"] for bandit in listed.json()} == set(NAMES)
            for name in NAMES:
                assert [line["kind"] for line in await api.lines(name)] == ["decide", "reward", "decide"]
            page = await api.call("GET", "/", headers={"accept": "text/html"})
            assert all(name in page.text for name in NAMES)
            audit = (await api.call("GET", "/v1/audit?limit=5")).json()
            assert [line["about"]["name"] for line in audit] == NAMES[:0:-1]
            metrics = (await api.call("GET", "/metrics")).text
            assert 'syndicated_ready{journal="2"} 1.0' in metrics
            assert all(f'syndicated_decisions_total{{bandit="{name}"}} 2.0' in metrics for name in NAMES)
            assert (await api.call("DELETE", "/v1/subjects/ann")).json() == {"erased": 2 * len(NAMES)}
            return open_ids

    async def go_on(open_ids: dict[str, str]) -> None:
        async with several(*addresses[::-1]) as api:
            for name, id_ in open_ids.items():
                assert (await api.reward({"decision_id": id_}, name=name)).json()["outcome"] == "learned"
                assert (await api.call("GET", f"/v1/bandits/{name}")).json()["decisions"] == 2

    open_ids = asyncio.run(fill())
    held = [_names(address) for address in sorted(addresses, key=_id)]
    assert held == [{name for name in NAMES if place_of(name, 2) == place} for place in range(2)]
    assert all(held)
    asyncio.run(go_on(open_ids))
    assert main(["verify", "--store", addresses[0], "--store", addresses[1]]) == 0
    assert main(["verify", "--store", addresses[0]]) == 2


def _id(address: str) -> str:
    with closing(open_store(address)) as store:
        return store.id


def _names(address: str) -> set[str]:
    with closing(open_store(address, read_only=True)) as store:
        return set(State.load(store).names)


@contextmanager
def _unreachable(address: str) -> Iterator[None]:
    """In this block nobody gets a connection to a database."""
    name = conninfo_to_dict(address)["dbname"]
    with psycopg.connect(address, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_database_that_is_away_takes_only_its_own_bandits_with_it(database: Callable[[], str]) -> None:
    addresses = sorted([database(), database()], key=_id)
    here, away = PLACES

    async def test() -> None:
        async with several(*addresses) as api:
            for name in (here, away):
                await api.create(name)
            with _unreachable(addresses[1]):
                assert await _status(api, away) == 503
                await api.decide(here)
                for path, status in (("/readyz", 200), ("/healthz", 200), ("/v1/bandits", 503)):
                    assert (await api.call("GET", path)).status_code == status
                metrics = (await api.call("GET", "/metrics")).text
                assert 'syndicated_store_away{journal="1"} 0.0' in metrics
                assert 'syndicated_store_away{journal="2"} 1.0' in metrics
            while await _status(api, away) != 200:
                await asyncio.sleep(0.01)
            await api.decide(here)

    asyncio.run(test())


async def _status(api: Api, name: str) -> int:
    return int((await api.call("POST", f"/v1/bandits/{name}/decide", {"arms": ARMS})).status_code)


def test_workers_serve_several_databases_and_a_wrong_set_of_them_is_refused(
    processes: ServiceProcesses, database: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = (database() for _ in range(3))

    async def test() -> None:
        port = free_port()
        pid = await processes.start(first, port, "--store", second, "--workers", "2")
        callers = [Callers([port], name) for name in PLACES]
        for each in callers:
            await each.create()
        async with callers[0].calling(2), callers[1].calling(2):
            for each in callers:
                await each.until(20)
        processes.kill(pid, signal.SIGTERM)
        for address, each in zip(sorted([first, second], key=_id), callers, strict=True):
            check(address, each)

    run(test)
    for stores in ([first], [first, second, third], [second, second]):
        command = ["serve", "--port", "0", "--log-level", "error"]
        assert main([*command, *(part for store in stores for part in ("--store", store))]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "--store must name" in error


def test_a_bandit_in_the_journal_of_another_name_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with several(str(tmp_path / "alone.db")) as api:
            await api.create(PLACES[1])

    asyncio.run(test())
    with closing(SQLite(tmp_path / "alone.db")) as store, closing(SQLite(tmp_path / "other.db")) as other:
        Services([Service(other), Service(store)])
        with pytest.raises(InputError, match=f"{PLACES[1]} is in journal 1"):
            Services([Service(store), Service(other)])
