"""The server process: uvicorn with our protocol, on uvloop, until SIGINT or SIGTERM."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn
import uvloop

from syndicated.errors import SyndicatedError
from syndicated.service.http.app import App
from syndicated.service.http.connection import Connection

# The collector of cycles looks at new objects when there are so many, at those of three such times together, and at all
# objects after a thousand of these. Everybody waits meanwhile, for a tenth of a second where many decisions are kept;
# and requests leave no cycles.
GC_THRESHOLDS = (10_000, 2, 1000)
SWITCH_SECONDS = 1e-4  # after which the journal's thread gets its turn: its steps are short, and callers wait for them
DRAIN_SECONDS = 5  # that open requests have to end: the rest of a stop fits into what workers have, too


class Server(uvicorn.Server):
    """A server that ends normally on SIGINT and SIGTERM, so that the process exits with code 0."""

    def __init__(self, app: App) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(Any, partial(Connection, limits=app.limits)),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the app reads them, where they matter
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn's own raises the signal again at the end, and the process would end by it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
        yield


def run(app: App, listening: socket.socket) -> None:
    """Serve on a listening socket. On SIGINT or SIGTERM, answer what is open, stop the service, and return."""
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look through it again and again
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server(app)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listening]))
    if not server.started:
        raise SyndicatedError("the service could not start; the lines above say why")
