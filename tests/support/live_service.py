"""A whole service on a port of this machine, in a thread of the tests."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import uvicorn

from syndicated.service import Limits, create_app
from syndicated.service.bandits.messages import KeyRequest
from syndicated.service.core.service import Service as Core
from syndicated.service.http.connection import Connection
from syndicated.store import SQLite
from syndicated_client._drivers import Options

LONG_SECONDS = 300.0  # seconds: for whatever must end, on a busy machine too
# For clients of tests that are not about time.
PATIENT: Options = {"timeout": LONG_SECONDS, "patience": 2 * LONG_SECONDS}


class Service(uvicorn.Server):
    """The service of a journal, its address and an admin key."""

    def __init__(self, file: Path, limits: Limits | None = None) -> None:
        self.app = create_app(SQLite(file), limits, on_start=self._make_key)
        protocol = cast(Any, partial(Connection, limits=self.app.limits))
        super().__init__(uvicorn.Config(self.app, http=protocol, ws="none", lifespan="on", log_config=None))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.key = ""
        self.up = threading.Event()

    async def _make_key(self, service: Core) -> None:
        self.key = (await service.admin.create_key("", KeyRequest(name="tests", scopes=["admin"]))).secret or ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    def live(self) -> None:
        asyncio.run(self.serve([self._socket]))


@contextmanager
def service(file: Path, limits: Limits | None = None) -> Iterator[Service]:
    """A service until the block ends."""
    server = Service(file, limits)
    thread = threading.Thread(target=server.live)
    thread.start()
    try:
        assert server.up.wait(LONG_SECONDS)
        yield server
    finally:
        server.should_exit = True
        thread.join()


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])
