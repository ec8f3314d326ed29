"""A real PostgreSQL for the tests that ask for one."""

from collections.abc import Callable, Iterator

import pytest
from support.postgres import Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def database(postgres: Server) -> Iterator[Callable[[], str]]:
    yield postgres.database
    postgres.drop()
