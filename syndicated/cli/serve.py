"""`syndicated serve`: the whole service in one process, or in several on one port."""

import argparse
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from syndicated._blas import use_one_blas_thread
from syndicated._compiled import load_all
from syndicated._extras import extra
from syndicated._validation import check_count, check_number
from syndicated.errors import InputError
from syndicated.store import open_store

if TYPE_CHECKING:
    from syndicated.service.core.service import Service

PREFIX = "SYNDICATED_"
ADMIN_KEY = PREFIX + "ADMIN_KEY"
BACKLOG = 2048  # connections that may wait to be accepted
MIN_KEY_LENGTH = 24  # of an admin key that the operator chose


def add_serve(serve: argparse.ArgumentParser) -> None:
    """Every option can also be set by an environment variable."""
    serve.description = (
        f"Serve bandits over HTTP. Every option can also be set by an environment variable: {PREFIX}STORE "
        f"for --store, and so on. {ADMIN_KEY} is an admin key to accept besides those that the service has made."
    )
    add_stores(serve)
    _add_option(serve, "--host", "127.0.0.1", "address to listen on (default 127.0.0.1: this machine only)")
    _add_option(serve, "--port", "8000", "port to listen on, 0 for any free one (default 8000)", type=int)
    workers = "replicas to start on this machine, with a journal in PostgreSQL (default 1)"
    _add_option(serve, "--workers", "1", workers, type=int)
    _add_option(serve, "--rate", "0", "requests per second that a key may send (default 0: no limit)", type=float)
    _add_option(serve, "--body-limit", str(16 * 2**20), "largest body in bytes (default 16 MiB)", type=int)
    _add_option(serve, "--queue", "1024", "requests that may wait (default 1024)", type=int)
    _add_option(serve, "--log-level", "info", "debug, info, warning or error (default info)", metavar="LEVEL")
    serve.set_defaults(command=run)


def add_stores(parser: argparse.ArgumentParser) -> None:
    """The option `--store`, once for each journal."""
    store = (
        "a file, or postgresql://... (default: a file in the user's data folder); "
        "given several times, bandits are spread over several journals"
    )
    parser.add_argument("--store", action="append", metavar="ADDRESS", help=store)


def stores_of(options: argparse.Namespace) -> list[str]:
    """The addresses of the journals: of the options, of the environment, or the default."""
    return options.store or os.environ.get(f"{PREFIX}STORE", "").split() or [str(default_store())]


def _add_option(parser: argparse.ArgumentParser, flag: str, default: str | None, help_: str, **more: Any) -> None:
    name = PREFIX + flag.strip("-").replace("-", "_").upper()
    parser.add_argument(flag, default=os.environ.get(name, default), help=help_, **more)


def run(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then finish the open requests, save the models, and exit."""
    with extra("serve", "serving"):
        from syndicated.service import Limits, create_app
        from syndicated.service.http import logs, server
        from syndicated.service.http.auth import ensure_admin_key
        from syndicated.service.http.workers import Worker, become_worker

    if options.log_level not in logs.LEVELS:
        raise InputError(f"--log-level must be one of {', '.join(logs.LEVELS)}; got {options.log_level!r}")
    limits = Limits(
        body_bytes=check_count("--body-limit", options.body_limit),
        requests_per_second=check_number("--rate", options.rate, low=0),
        waiting_requests=check_count("--queue", options.queue),
    )
    use_one_blas_thread()
    admin_key = os.environ.get(ADMIN_KEY)
    _check_admin_key(admin_key)
    logs.set_up(options.log_level)
    addresses = stores_of(options)
    count = _check_workers(options.workers, addresses)

    async def announce(service: "Service") -> None:
        secret = await ensure_admin_key(service, ADMIN_KEY, admin_key) if worker.first else None
        listening.listen(BACKLOG)
        if worker.first:
            _print_addresses(listening, addresses, secret)
        worker.ready()

    with _bind(options.host, options.port, shared=count > 1) as bound:
        worker, listening = Worker(True, lambda: None), bound
        if count == 1:
            bound.listen(BACKLOG)  # who comes early waits
        else:
            load_all()  # or every worker would load the kernels for itself
            worker = become_worker(count)
            listening = _bind(options.host, bound.getsockname()[1], shared=True)
        with ExitStack() as stack:
            stores = [stack.enter_context(closing(open_store(address))) for address in addresses]
            server.run(create_app(stores, limits, on_start=announce), listening)


def default_store() -> Path:
    """The journal that is used if none is named."""
    with extra("serve", "a journal without --store"):
        import platformdirs
    return platformdirs.user_data_path("syndicated") / "syndicated.db"


def _check_workers(count: int, addresses: Sequence[str]) -> int:
    if check_count("--workers", count) > 1 and not all(address.startswith("postgres") for address in addresses):
        raise InputError(f"--workers must be 1 with a journal in a file, which has one owner; got {count}")
    return count


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    """A socket that does not listen yet; if it is shared, others may be bound to the same port."""
    if not 0 <= port < 2**16:
        raise InputError(f"--port must be between 0 and {2**16 - 1}; got {port}")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(f"--host and --port must be free to listen on; {host}:{port}: {error.strerror}") from None
    return bound


def _check_admin_key(key: str | None) -> None:
    if key is not None and (len(key) < MIN_KEY_LENGTH or not key.isascii() or not key.isprintable() or " " in key):
        raise InputError(f"{ADMIN_KEY} must be at least {MIN_KEY_LENGTH} printable ASCII characters without spaces")


def _print_addresses(listening: socket.socket, addresses: Sequence[str], secret: str | None) -> None:
    """Print the addresses of the service and, on the first start, the first key."""
    host, port = listening.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    lines = [
        f"API        {url}/v1",
        f"docs       {url}/docs",
        f"dashboard  {url}/",
        *(f"journal    {without_password(address)}" for address in addresses),
    ]
    if secret is not None:
        lines.append(f"admin key  {secret}   (shown only once: keep it)")
    print("\n".join(lines), flush=True)


def without_password(address: str) -> str:
    """An address without the password that may be in it.

    >>> without_password("postgresql://user:secret@host/journal")
    'postgresql://user@host/journal'
    """
    if "://" not in address:
        return address
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{host}{parts.path}"
