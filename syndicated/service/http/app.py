"""The service over HTTP: the front that takes every request, and the two routes that are taken without a router.

    request ─► App ─► decide, reward: read, check, ask the service, answer in two messages
                └──► router ─► a row of the route table (routes.py), or a page

Whatever goes wrong on the way becomes a problem document here, and nowhere else.
"""

import itertools
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Receive, Scope, Send

from syndicated.service.core.messages import Scope as KeyScope
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Key
from syndicated.service.core.service import Service
from syndicated.service.dashboard import handlers as pages
from syndicated.service.http import auth, routes
from syndicated.service.http.endpoints import (
    JSON,
    SECURITY,
    Limits,
    Rate,
    Refusal,
    Row,
    document,
    headers_of,
    problem_of,
)
from syndicated.service.http.logs import safe
from syndicated.service.http.metrics import Metrics

BANDITS = "/v1/bandits/"
NAMED = BANDITS + "{name}/"
ID = b"x-request-id"
LATEST = 1000  # decisions whose latency the pages show

log = logging.getLogger("syndicated.requests")
encode = msgspec.json.encode

_id = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class App:
    """An ASGI application on a service, which lives as long as the application does."""

    def __init__(
        self,
        service: Service,
        limits: Limits | None = None,
        *,
        started: Callable[[Service], Awaitable[None]] | None = None,
    ) -> None:
        self.service, self.limits = service, limits or Limits()
        self.metrics = Metrics(service)
        self._rate = Rate(self.limits.rate)
        self._seconds: deque[float] = deque(maxlen=LATEST)
        self._started = started
        self._run, self._number = secrets.token_hex(6), itertools.count()
        rows = [Row(endpoint) for endpoint in routes.TABLE]
        self._hot = {row.endpoint.path.removeprefix(NAMED): row for row in rows if row.endpoint.hot}
        self._router = Router(
            [*_routes(rows), *pages.routes(service, self.latency, self._rate)],
            redirect_slashes=False,
            lifespan=self._life,
            default=_not_found,
        )

    @asynccontextmanager
    async def _life(self, app: Any) -> AsyncIterator[None]:
        self.service.start()
        try:
            if self._started is not None:
                await self._started(self.service)
            yield
        finally:
            await self.service.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        begun, path = time.perf_counter(), scope["path"]
        reply = _Reply(send, self._request_id(scope))
        name, _, verb = path[len(BANDITS) :].partition("/")
        hot = self._hot.get(verb) if scope["method"] == "POST" and path.startswith(BANDITS) else None
        try:
            if hot is not None:
                await reply.give(200, _JSON, encode(await hot.take(self, {"name": name}, scope, receive)))
            else:
                scope["app"] = self
                await self._router(scope, receive, reply.send)
        except Exception as error:
            await self._explain(error, reply)
        seconds = time.perf_counter() - begun
        if verb == "decide" and reply.status == 200:
            self._seconds.append(seconds)
        self.metrics.observe(hot.endpoint.path if hot else _route_of(scope), reply.status, seconds)
        level = logging.DEBUG if hot is not None and reply.status < 400 else logging.INFO
        if log.isEnabledFor(level):
            fields = {"request": reply.id, "method": scope["method"], "path": safe(path), "status": reply.status}
            log.log(level, "request", extra={"fields": fields | {"ms": round(seconds * 1000, 3)}})

    def latency(self) -> tuple[float, float] | None:
        """The seconds that half and 99% of the latest decisions took at most; None before the first."""
        ranked = sorted(self._seconds)
        return (ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]) if ranked else None

    async def _explain(self, error: Exception, reply: "_Reply") -> None:
        """Answer with a problem document, unless an answer has begun."""
        problem = problem_of(error)
        if problem.status == 500:
            log.error("a request failed", exc_info=error, extra={"fields": {"request": reply.id}})
        if reply.status:
            raise error
        headers, body = document(problem, reply.id)
        pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await reply.give(problem.status, [*pairs, *SECURITY], body)

    def _request_id(self, scope: Scope) -> str:
        given = headers_of(scope).get(ID)
        if given is not None and _id.fullmatch(given):
            return str(given, "ascii")
        return f"{self._run}-{next(self._number):x}"

    def admit(self, scope: Scope, wanted: KeyScope) -> Key:
        """The key of a request that may do this, and may do it now.

        The cookie of the pages is good for reading alone: a browser may be made to send it with a request of another
        page's making.
        """
        given = headers_of(scope).get(b"authorization", b"")
        token = str(given[7:], "latin-1").strip() if given[:7].lower() == b"bearer " else None
        if token is None and scope["method"] in ("GET", "HEAD"):
            token = auth.token_of(HTTPConnection(scope))
        key = auth.check(self.service, token, wanted)
        self._rate.take(key.id)
        return key


class _Reply:
    """A reply on its way: its status once it has begun, and the headers that every reply has."""

    def __init__(self, send: Send, id_: str) -> None:
        self._send, self.id, self.status = send, id_, 0

    async def give(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole reply."""
        self.status = status
        own = [*headers, (ID, self.id.encode()), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": own})
        await self._send({"type": "http.response.body", "body": body})

    async def send(self, message: Message) -> None:
        """A part of a reply that the router makes."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            more = [pair for pair in SECURITY if pair[0] not in names]
            message = {**message, "headers": [*given, *more, (ID, self.id.encode())]}
        await self._send(message)


class _Methods:
    """The rows of the route table that share a path."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row.endpoint.method: row for row in rows}
        if "GET" in self._rows:
            self._rows["HEAD"] = self._rows["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        row = self._rows.get(scope["method"])
        if row is None:
            allowed = ", ".join(sorted(self._rows))
            raise Refusal(405, "method", f"this path takes {allowed}; got {scope['method']}", {"allow": allowed})
        response = await row.respond(scope["app"], scope, receive)
        await response(scope, receive, send)


def _routes(rows: Iterable[Row]) -> list[BaseRoute]:
    """A route for each path of the table."""
    paths: dict[str, list[Row]] = {}
    for row in rows:
        paths.setdefault(row.endpoint.path, []).append(row)
    return [Route(path, _Methods(rows)) for path, rows in paths.items()]


def _route_of(scope: Scope) -> str:
    """The path of the route that took a request, with places for names: few, as metrics need them."""
    route = scope.get("route")
    return getattr(route, "path", "other")


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if any(name == b"accept" and b"text/html" in value for name, value in scope["headers"]):
        await pages.error_page(404, "there is nothing at this path")(scope, receive, send)
        return
    raise Problem(404, "unknown-path", "there is nothing at this path; /docs lists what there is")


_JSON = [(b"content-type", JSON.encode())]
