"""Endpoints: the rows of the route table, and how one of them answers a request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from syndicated.errors import InputError
from syndicated.features.binary import split_body
from syndicated.service.core import messages
from syndicated.service.core.problems import explained
from syndicated.service.core.service import Service
from syndicated.service.http.auth import Gate
from syndicated.service.http.headers import BINARY, JSON, headers_of
from syndicated.service.http.limits import read_body
from syndicated.service.http.metrics import Metrics
from syndicated.types import Array

_BINARY = BINARY.encode()


@dataclass(slots=True)
class Call:
    """A checked request to an endpoint. `actor` is the id of the caller's key."""

    service: Service
    metrics: Metrics
    actor: str
    path: Mapping[str, Any]
    query: Any = None
    body: Any = None
    table: Array | None = None  # the numbers of a binary body


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the route table.

    `scope` is the scope that a key must have, None if no key is needed. `body`, `query` and `reply` are structs; None
    where the request or the reply is bytes of the media types `takes` and `gives`.
    """

    method: str
    path: str
    scope: messages.Scope | None
    summary: str
    run: Callable[[Call], Awaitable[Any]]
    body: Any = None
    query: Any = None
    reply: Any = None
    status: int = 200
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = (JSON,)
    partial: bool = False  # the body may have any of the struct's fields and must have none
    hot: bool = False  # answered before the router is asked


class BoundEndpoint:
    """An endpoint of a running service: it admits a request, reads and checks it, and calls the handler."""

    def __init__(self, endpoint: Endpoint, gate: Gate, metrics: Metrics) -> None:
        self.endpoint, self._gate, self._metrics = endpoint, gate, metrics
        self._takes_binary = BINARY in endpoint.takes
        kind = dict[str, Any] if endpoint.partial else endpoint.body
        self._decode = None if kind is None else msgspec.json.Decoder(kind).decode

    async def answer(self, path: Mapping[str, Any], scope: Scope, receive: Receive) -> Any:
        """What the handler gives for a request."""
        endpoint, gate = self.endpoint, self._gate
        actor = "" if endpoint.scope is None else gate.admit(scope, endpoint.scope).id
        call = Call(gate.service, self._metrics, actor, path)
        if endpoint.query is not None:
            try:
                call.query = msgspec.convert(dict(QueryParams(scope["query_string"])), endpoint.query, strict=False)
            except msgspec.ValidationError as error:
                raise InputError(explained(error, endpoint.query)) from None
        if endpoint.takes or endpoint.body is not None:
            call.body = await read_body(receive, scope, gate.limits.body_bytes)
        if self._takes_binary and headers_of(scope).get(b"content-type", b"").startswith(_BINARY):
            call.body, call.table = split_body(call.body)
        if self._decode is not None:
            try:
                call.body = self._decode(call.body)
            except msgspec.ValidationError as error:
                raise InputError(explained(error, endpoint.body)) from None
        return await endpoint.run(call)

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """The same as a response, for a request that the router has matched."""
        reply = await self.answer(scope["path_params"], scope, receive)
        if isinstance(reply, Response):
            return reply
        body = b"" if self.endpoint.reply is None else msgspec.json.encode(reply)
        return Response(body, self.endpoint.status, media_type=JSON if body else None)
