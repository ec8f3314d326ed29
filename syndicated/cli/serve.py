"""`syndicated serve`: the whole service in one process."""

import argparse
import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import platformdirs

from syndicated._validation import check_count, check_number
from syndicated.errors import InputError, SyndicatedError
from syndicated.store import open_store

if TYPE_CHECKING:
    from syndicated.service.core.service import Service

PREFIX = "SYNDICATED_"
ADMIN_KEY = PREFIX + "ADMIN_KEY"
SHORTEST = 24  # characters of a key that was not made here
YOUNG = 50_000  # new objects after which the collector looks for cycles; requests leave none
SWITCH = 1e-4  # seconds that the journal's thread waits for the loop's before it insists: commits are short
DRAIN = 30  # seconds that open requests have to end
NEEDED = ("starlette", "uvicorn", "uvloop", "httptools", "msgspec", "jinja2", "prometheus_client")


def add_command(commands: Any) -> None:
    """Add `serve`. Every option can also be given by a variable of the environment."""
    serve = commands.add_parser(
        "serve",
        help="serve bandits over HTTP",
        description=f"Serve bandits over HTTP. Every option may also be given by a variable of the environment: "
        f"{PREFIX}STORE for --store, and so on; {ADMIN_KEY} is an admin key to accept beside the ones made here.",
    )
    store = "a file, or postgresql://... (default: a file in the user's data folder)"
    _add(serve, "--store", None, store, metavar="ADDRESS")
    _add(serve, "--host", "127.0.0.1", "address to listen at (default 127.0.0.1: this machine alone)")
    _add(serve, "--port", "8000", "port to listen at, 0 for any (default 8000)", type=int)
    _add(serve, "--rate", "0", "requests a second that a key may send (default 0: any number)", type=float)
    _add(serve, "--body-limit", str(16 * 2**20), "bytes of a request's body (default 16 MiB)", type=int)
    _add(serve, "--queue", "1024", "requests that may wait (default 1024)", type=int)
    _add(serve, "--log-level", "info", "debug, info, warning or error (default info)", metavar="LEVEL")
    serve.set_defaults(command=run)


def _add(parser: argparse.ArgumentParser, flag: str, default: str | None, help_: str, **more: Any) -> None:
    name = PREFIX + flag.strip("-").replace("-", "_").upper()
    parser.add_argument(flag, default=os.environ.get(name, default), help=help_, **more)


def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is queued, keep the models, and end."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SyndicatedError(f'serving needs {", ".join(missing)}: pip install "syndicated[serve]"')
    import uvloop

    from syndicated.service.core.service import Service
    from syndicated.service.http import logs
    from syndicated.service.http.endpoints import Limits

    if options.log_level not in logs.LEVELS:
        raise InputError(f"--log-level must be one of {', '.join(logs.LEVELS)}; got {options.log_level!r}")
    rate = check_number("--rate", options.rate, low=0)
    limits = Limits(check_count("--body-limit", options.body_limit), rate)
    queue = check_count("--queue", options.queue)
    _check_key(os.environ.get(ADMIN_KEY))
    logs.set_up(options.log_level)
    address = options.store or str(default_store())
    with _listen(options.host, options.port) as listening:
        store = open_store(address)
        try:
            service = Service(store, limit=queue)
        except BaseException:
            store.close()
            raise
        gc.collect()
        gc.freeze()  # what was imported stays: the collector need not look through it again and again
        gc.set_threshold(YOUNG)
        sys.setswitchinterval(SWITCH)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(service, limits, listening, address))


def default_store() -> Path:
    """The journal that is used if none is named."""
    return platformdirs.user_data_path("syndicated") / "syndicated.db"


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 2**16:
        raise InputError(f"--port must be between 0 and {2**16 - 1}; got {port}")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise InputError(f"--host and --port must be free to listen at; {host}:{port}: {error.strerror}") from None


async def _serve(service: "Service", limits: Any, listening: socket.socket, address: str) -> None:
    import uvicorn

    from syndicated.service.http.app import App
    from syndicated.service.http.uvicorn_protocol import Protocol

    class Server(uvicorn.Server):
        """A server whose end by a signal is a good end."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
            yield

    async def started(service: "Service") -> None:
        secret = await first_key(service, os.environ.get(ADMIN_KEY))
        _announce(listening, address, secret)

    server = Server(
        uvicorn.Config(
            App(service, limits, started=started),
            http=Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN,
        )
    )
    await server.serve(sockets=[listening])
    if not server.started:
        raise SyndicatedError("the service could not start; the lines above say why")


async def first_key(service: "Service", given: str | None) -> str | None:
    """Let somebody in: by the key that was given, or by one made for the first start, whose secret is returned.

    A key that was given at an earlier start is no key any more once another one is.
    """
    from syndicated.service.core.messages import KeyRequest

    request = KeyRequest(name="first admin key" if given is None else ADMIN_KEY, scopes=["admin"])
    if given is not None:
        await service.admin.replace_key(request, given)
        return None
    return None if service.state.keys else (await service.admin.create_key("", request)).secret


def _check_key(key: str | None) -> None:
    if key is not None and (len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key):
        raise InputError(f"{ADMIN_KEY} must be at least {SHORTEST} printable ASCII characters without spaces")


def _announce(listening: socket.socket, address: str, secret: str | None) -> None:
    """Tell on standard output where everything is, and the first key, once."""
    host, port = listening.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    lines = [
        f"API        {url}/v1",
        f"docs       {url}/docs",
        f"dashboard  {url}/",
        f"journal    {shown(address)}",
    ]
    if secret is not None:
        lines.append(f"admin key  {secret}   (shown this once: keep it)")
    print("\n".join(lines), file=sys.stdout, flush=True)


def shown(address: str) -> str:
    """An address without the passwords that may stand in it."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{host}{parts.path}"
