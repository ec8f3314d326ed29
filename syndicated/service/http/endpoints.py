"""Endpoints: the rows of the route table, and how one of them answers a request."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from syndicated.errors import InputError
from syndicated.features._json_table import split_json
from syndicated.features.binary import head_of, split_body
from syndicated.service.bandits import messages
from syndicated.service.bandits.problems import explained
from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.service.http.auth import Gate
from syndicated.service.http.headers import BINARY, JSON, headers_of
from syndicated.service.http.limits import MAX_JSON_BYTES, read_body
from syndicated.service.http.metrics import Metrics
from syndicated.types import Array

# A JSON body has at most so many of these, since decoding holds the interpreter's lock. No request within the limits of
# arms, fields and numbers has as many. They are counted by what there must be in the text for each.
MAX_NESTED = 250_000  # objects and lists, by their opening brackets
MAX_TEXTS = 250_000  # by two quotes each
MAX_VALUES = 1_250_000  # numbers and all others, by commas
QUICK_BYTES = 256 * 2**10  # of a body that the event loop decodes itself

_BINARY = BINARY.encode()
_reader = ThreadPoolExecutor(1, thread_name_prefix="reader")  # one: several would only share the interpreter's lock

T = TypeVar("T")


async def off_the_loop(run: Callable[..., T], *arguments: Any) -> T:
    """Run something that takes long, while the event loop serves others. Such work is done one after the other."""
    return await asyncio.get_running_loop().run_in_executor(_reader, run, *arguments)


@dataclass(slots=True)
class Call:
    """A checked request to an endpoint. `service` is that of the bandit in the path, `actor` the caller's key."""

    services: Services
    service: Service
    metrics: Metrics
    actor: str
    path: Mapping[str, Any]
    query: Any = None
    body: Any = None
    table: Array | None = None  # of the body's arms, if that was read at once
    held_bytes: int = 0

    def hold(self, count: int) -> None:
        """Count bytes that this request keeps in memory until it is answered; refuse it if there are too many."""
        self.service.group_commit.hold(count, self.held_bytes)
        self.held_bytes += count

    def release(self) -> None:
        """Hold nothing any more."""
        self.service.group_commit.held_bytes -= self.held_bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the route table.

    `scope` is the scope that a key must have, None if no key is needed. `body`, `query` and `reply` are structs; None
    where the request or the reply is bytes of the media types `takes` and `gives`. `example` is a body for the docs.
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
    example: Any = None


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
        services = gate.services
        service = services.of(path["name"]) if "name" in path else services.home
        call = Call(services, service, self._metrics, actor, path)
        if endpoint.query is not None:
            try:
                call.query = msgspec.convert(dict(QueryParams(scope["query_string"])), endpoint.query, strict=False)
            except msgspec.ValidationError as error:
                raise InputError(explained(error, endpoint.query)) from None
        try:
            if endpoint.takes or endpoint.body is not None:
                binary = self._takes_binary and headers_of(scope).get(b"content-type", b"").startswith(_BINARY)
                is_json = self._decode is not None and not binary
                limit = min(gate.limits.body_bytes, MAX_JSON_BYTES) if is_json else gate.limits.body_bytes
                body = await read_body(receive, scope, limit)
                call.hold(len(body))
                if len(body) <= QUICK_BYTES:
                    call.body, call.table = self._parse(body, binary)
                else:
                    call.body, call.table = await off_the_loop(self._parse, body, binary)
                del body  # what was made of it is enough
            return await endpoint.run(call)
        finally:
            call.release()

    def _parse(self, body: Any, binary: bool) -> tuple[Any, Array | None]:
        """The checked body of a request, and the table of its arms if that could be read at once. On any thread."""
        if binary:
            _check_size(head_of(body))
            head, table = split_body(body)
            return self._checked(head), table
        if self._decode is not None:
            _check_size(body)
        usual = split_json(body) if self._takes_binary else None
        if usual is not None and self._decode is not None:
            rest, ids, table = usual
            try:
                request = self._decode(rest)
            except msgspec.DecodeError:
                return self._checked(body), None  # the error says more of the whole body
            if request.shape is None:
                return replace(request, arms=ids), table
        return self._checked(body), None

    def _checked(self, body: bytes) -> Any:
        if self._decode is None:
            return body
        try:
            return self._decode(body)
        except msgspec.ValidationError as error:
            raise InputError(explained(error, self.endpoint.body)) from None

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """The same as a response, for a request that the router has matched."""
        reply = await self.answer(scope["path_params"], scope, receive)
        if isinstance(reply, Response):
            return reply
        body = b"" if self.endpoint.reply is None else msgspec.json.encode(reply)
        return Response(body, self.endpoint.status, media_type=JSON if body else None)


def _check_size(body: bytes) -> None:
    """Refuse JSON that is too long, or that would become too many objects."""
    if len(body) <= QUICK_BYTES:
        return
    if len(body) > MAX_JSON_BYTES:  # the head of a binary body: others were refused when they came
        raise InputError(f"the head of a binary body must have at most {MAX_JSON_BYTES} bytes; got {len(body)}")
    for count, most, what, counted in (
        (body.count(b"{") + body.count(b"["), MAX_NESTED, "objects and lists", "brackets"),
        (body.count(b'"') // 2, MAX_TEXTS, "texts", "pairs of quotes"),
        (body.count(b","), MAX_VALUES, "values", "commas"),
    ):
        if count > most:
            raise InputError(f"a JSON body must have at most {most} {what}; got {count} {counted}")
