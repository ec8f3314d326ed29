"""The service over HTTP: one ASGI application, which answers every request.

    request ─► App ─► decide, reward: BoundEndpoint ─► handler ─► service        (before the router, which is slow)
                └──► proxy headers ─► router ─► the other BoundEndpoints, and the dashboard's pages

Every exception on the way becomes a problem document here, and nowhere else.
"""

import itertools
import logging
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from syndicated._security_headers import SERVICE_HEADERS
from syndicated.service.bandits.problems import Problem
from syndicated.service.core.service import Service
from syndicated.service.http.auth import Gate
from syndicated.service.http.endpoints import BoundEndpoint
from syndicated.service.http.headers import JSON, headers_of
from syndicated.service.http.logs import loggable_path
from syndicated.service.http.metrics import Metrics
from syndicated.service.http.problem_documents import ProblemWithHeaders, problem_document, problem_of
from syndicated.service.http.routes import BANDIT, BANDITS, TABLE
from syndicated.store import StoreError

REQUEST_ID = b"x-request-id"

log = logging.getLogger("syndicated.requests")
encode = msgspec.json.encode

_JSON_HEADERS = [(b"content-type", JSON.encode())]
_SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in SERVICE_HEADERS.items()]
_VALID_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


async def path_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer for a path that no route has."""
    raise Problem(404, "unknown-path", "there is nothing at this path; /docs lists what there is")


class App:
    """An ASGI application. It starts its services with the server and stops them with the server.

    `more_routes` are served beside the API's, and `not_found` answers where no route does. `on_start` is awaited with
    the service that has the keys, once it runs and before the first request.
    """

    def __init__(
        self,
        gate: Gate,
        metrics: Metrics,
        *,
        more_routes: Sequence[BaseRoute] = (),
        not_found: ASGIApp = path_not_found,
        on_start: Callable[[Service], Awaitable[None]] | None = None,
    ) -> None:
        self.services, self.limits, self.metrics, self._on_start = gate.services, gate.limits, metrics, on_start
        self._run_id, self._request_numbers = secrets.token_hex(6), itertools.count()
        endpoints = [BoundEndpoint(endpoint, gate, metrics) for endpoint in TABLE]
        self._hot = {each.endpoint.path.removeprefix(BANDIT + "/"): each for each in endpoints if each.endpoint.hot}
        router = Router(
            [*_routes(endpoints), *more_routes], redirect_slashes=False, lifespan=self._lifespan, default=not_found
        )
        # Only pages ask for the caller's address and scheme: what is hot need not wait until they are found out.
        self._router: ASGIApp = cast(Any, ProxyHeadersMiddleware)(router, trusted_hosts=_trusted_proxies())

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self.services.start()
        try:
            if self._on_start is not None:
                await self._on_start(self.services.home)
            yield
        finally:
            await self.services.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        start, path = time.perf_counter(), scope["path"]
        reply = _Reply(send, self._request_id(scope))
        name, _, verb = path[len(BANDITS) + 1 :].partition("/")
        hot = self._hot.get(verb) if scope["method"] == "POST" and path.startswith(BANDITS + "/") else None
        try:
            if hot is not None:
                await reply.give(200, _JSON_HEADERS, encode(await hot.answer({"name": name}, scope, receive)))
            else:
                scope["peer"] = scope.get("client")  # who is connected, whatever the headers say
                await self._router(scope, receive, reply.send)
        except Exception as error:
            await self._explain(error, reply)
        seconds = time.perf_counter() - start
        self.metrics.observe(hot.endpoint.path if hot else _route_of(scope), reply.status, seconds)
        level = logging.DEBUG if hot is not None and reply.status < 400 else logging.INFO
        if log.isEnabledFor(level):
            shown = loggable_path(path)
            fields = {"request": reply.id, "method": scope["method"], "path": shown, "status": reply.status}
            log.log(level, "request", extra={"fields": fields | {"ms": round(seconds * 1000, 3)}})

    async def _explain(self, error: Exception, reply: "_Reply") -> None:
        """Answer with a problem document. A reply that has begun stays unfinished, which ends its connection."""
        problem, fields = problem_of(error), {"request": reply.id}
        if problem.status == 500:
            log.error("a request failed", exc_info=error, extra={"fields": fields})
        elif reply.status or isinstance(error, StoreError):
            log.error("a request failed: %s", problem.detail, extra={"fields": fields})
        if reply.status:
            return
        headers, body = problem_document(problem, reply.id)
        pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await reply.give(problem.status, [*pairs, *_SECURITY_HEADERS], body)

    def _request_id(self, scope: Scope) -> str:
        """The id that the request carries, if it is a valid one, or else a new one."""
        given = headers_of(scope).get(REQUEST_ID)
        if given is not None and _VALID_REQUEST_ID.fullmatch(given):
            return str(given, "ascii")
        return f"{self._run_id}-{next(self._request_numbers):x}"


class _Reply:
    """Sends a reply with the headers that every reply has. `status` is 0 until the reply has begun."""

    def __init__(self, send: Send, id_: str) -> None:
        self._send, self.id, self.status = send, id_, 0

    async def give(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole reply."""
        self.status = status
        all_headers = [*headers, (REQUEST_ID, self.id.encode()), (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": all_headers})
        await self._send({"type": "http.response.body", "body": body})

    async def send(self, message: Message) -> None:
        """Send a message of a reply that a route makes."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            missing = [pair for pair in _SECURITY_HEADERS if pair[0] not in names]
            message = {**message, "headers": [*own, *missing, (REQUEST_ID, self.id.encode())]}
        await self._send(message)


class _Methods:
    """The endpoints that share a path, by method."""

    def __init__(self, endpoints: Sequence[BoundEndpoint]) -> None:
        self._endpoints = {each.endpoint.method: each for each in endpoints}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            allowed, method = ", ".join(sorted(self._endpoints)), scope["method"]
            detail = f"this path supports {allowed}; got {method}"
            raise ProblemWithHeaders(405, "method", detail, {"allow": allowed})
        response = await endpoint.respond(scope, receive)
        await response(scope, receive, send)


def _trusted_proxies() -> str:
    """The addresses of proxies that are believed what they say about callers, as uvicorn has them."""
    return os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")


def _routes(endpoints: Iterable[BoundEndpoint]) -> list[BaseRoute]:
    """A route for each path of the table."""
    paths: dict[str, list[BoundEndpoint]] = {}
    for each in endpoints:
        paths.setdefault(each.endpoint.path, []).append(each)
    routes = [Route(path, _Methods(sharing)) for path, sharing in paths.items()]
    for route in routes:  # a subject or an arm may have a line's end in its name
        route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
    return [*routes]


def _route_of(scope: Scope) -> str:
    """The pattern of the route that answered, such as /v1/bandits/{name}: there are few, as metrics need it."""
    route = scope.get("route")
    return getattr(route, "path", "other")
