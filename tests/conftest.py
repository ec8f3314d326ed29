"""What tests of several rooms share: a real PostgreSQL, and a service that is called without a network."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.postgres import Server

# Hypothesis draws the same examples in every run, and the clock fails none of them: a busy machine draws slowly.
settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


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
