"""What tests of several rooms share: a real PostgreSQL, and a service that is called without a network."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.postgres import Server

if TYPE_CHECKING:
    from support.service_processes import ServiceProcesses

# NumPy is not imported yet. Small matrices gain nothing by threads, which in several processes fight for the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Hypothesis draws the same examples in every run, and the clock fails none of them: a busy machine draws slowly.
settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first, so that no process is left with one of them when the others are done."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/service/test_"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """In a process of pytest-xdist `no_cover` stops one of two tracers; here the other is stopped too."""
    tracer, of_threads = sys.gettrace(), threading.gettrace()
    if item.get_closest_marker("no_cover"):
        sys.settrace(None)
        threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)
        threading.settrace(of_threads)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that is run inside the tests sets up the logs of the process; the next test must not see it."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def database(postgres: Server) -> Iterator[Callable[[], str]]:
    yield postgres.database
    postgres.drop()


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Runs a test against a service on a journal; run again, the service has been restarted."""
    from support.api_service import play  # only here: it imports the whole service

    return partial(play, tmp_path / "journal.db")


@pytest.fixture
def play_core(tmp_path: Path) -> Callable[..., None]:
    """Runs a test against a service without its HTTP."""
    from support.core_service import play

    return partial(play, tmp_path / "journal.db")


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[ServiceProcesses]":
    from support.service_processes import ServiceProcesses  # only here: it imports the whole service

    processes = ServiceProcesses(tmp_path_factory.mktemp("services") / "log")
    yield processes
    processes.close()


@pytest.fixture
def processes(fork_server: "ServiceProcesses") -> "Iterator[ServiceProcesses]":
    """Services as processes; those that are left at the end of a test are ended."""
    yield fork_server
    fork_server.kill_all()
