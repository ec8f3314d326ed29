"""What all routes share: the row of the route table, a call, problem documents, keys, and limits."""

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope

from syndicated.errors import InputError, SyndicatedError
from syndicated.features.binary import split_body
from syndicated.service.core import messages as api
from syndicated.service.core.problems import Problem, explained
from syndicated.types import Array

if TYPE_CHECKING:
    from syndicated.service.http.app import App

JSON = "application/json"
BINARY = "application/x-syndicated"
BYTES = "application/octet-stream"
LINES = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
PROBLEM = "application/problem+json"
BODY = 16 * 2**20
HEADERS = "syndicated.headers"  # the place of `headers_of` in a scope
_BINARY = BINARY.encode()

TITLES = {
    400: "The request could not be read",
    401: "A key is needed",
    403: "This key may not do that",
    404: "There is no such thing",
    405: "This cannot be done here",
    409: "The request does not fit what is there",
    413: "The body is too large",
    422: "The request is not valid",
    429: "Too many requests",
    500: "Something went wrong inside",
    501: "This is not installed here",
    503: "Not now; try again later",
}
PROBLEMS = {
    "conflict": "An event id or a decision's reward was here before with something else, or the bandit has changed.",
    "disconnected": "The caller has gone.",
    "exists": "There is a bandit of this name.",
    "forbidden": "The key lacks the scope that this route needs.",
    "http": "A page cannot be had like this.",
    "internal": "Something went wrong inside; the log of the service has it under the instance.",
    "invalid": "A field is missing, unknown, or not what it must be; the detail says which.",
    "late": "The window of the decision has closed.",
    "method": "The path takes other methods.",
    "no-key": "There is no key, or not a valid one.",
    "not-empty": "A log can be imported only into a bandit that has decided nothing.",
    "not-installed": "This needs something that is not installed where the service runs.",
    "not-ready": "Requests cannot be served now.",
    "overload": "Too many requests wait.",
    "rate": "The key has sent too many requests.",
    "retired": "The bandit was retired: it takes rewards and decides no more.",
    "stopped": "The service is about to end, or has failed.",
    "too-large": "The body has too many bytes.",
    "unavailable": "The journal cannot be written; nothing was changed.",
    "unknown-arm": "The bandit has no such registered arm.",
    "unknown-bandit": "There is no such bandit.",
    "unknown-decision": "There is no such decision.",
    "unknown-key": "There is no such key.",
    "unknown-model": "The bandit has no such kept model.",
    "unknown-path": "There is nothing at this path.",
}
SECURITY = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, by RFC 9457; `instance` is the request's id, which logs have too."""

    type: str
    title: str
    status: int
    detail: str
    instance: str


class Refusal(Problem):
    """A problem whose reply has headers of its own."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, kind, detail)
        self.headers = dict(headers)


@dataclass(slots=True)
class Call:
    """A request to a route: the app, the id of the caller's key, and what came, checked."""

    app: "App"
    actor: str
    path: Mapping[str, Any]
    query: Any = None
    body: Any = None
    table: Array | None = None  # of a binary body


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A row of the route table.

    `scope` is what a key must have; `body`, `query` and `reply` are the structs of what comes and goes, or None where
    raw bytes of the types `takes` and `gives` do.
    """

    method: str
    path: str
    scope: api.Scope | None
    summary: str
    run: Callable[[Call], Awaitable[Any]]
    body: Any = None
    query: Any = None
    reply: Any = None
    status: int = 200
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = (JSON,)
    partial: bool = False  # the body may have any of the struct's fields and must have none
    hot: bool = False  # taken before the router


class Row:
    """An endpoint at work."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._binary = BINARY in endpoint.takes
        kind = dict[str, Any] if endpoint.partial else endpoint.body
        self._decode = None if kind is None else msgspec.json.Decoder(kind).decode

    async def take(self, app: "App", path: Mapping[str, Any], scope: Scope, receive: Receive) -> Any:
        """Check who asks and what came, and carry it out."""
        endpoint = self.endpoint
        call = Call(app, "" if endpoint.scope is None else app.admit(scope, endpoint.scope).id, path)
        if endpoint.query is not None:
            try:
                call.query = msgspec.convert(dict(QueryParams(scope["query_string"])), endpoint.query, strict=False)
            except msgspec.ValidationError as error:
                raise InputError(explained(error, endpoint.query)) from None
        if endpoint.takes or endpoint.body is not None:
            call.body = await read(receive, scope, app.limits.body)
        if self._binary and _is_binary(scope):
            call.body, call.table = split_body(call.body)
        if self._decode is not None:
            try:
                call.body = self._decode(call.body)
            except msgspec.ValidationError as error:
                raise InputError(explained(error, endpoint.body)) from None
        return await endpoint.run(call)

    async def respond(self, app: "App", scope: Scope, receive: Receive) -> Response:
        """What `take` gives, as a response."""
        found = await self.take(app, scope["path_params"], scope, receive)
        if isinstance(found, Response):
            return found
        body = b"" if self.endpoint.reply is None else msgspec.json.encode(found)
        return Response(body, self.endpoint.status, media_type=JSON if body else None)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a caller may ask for: bytes of a body, and requests a second of one key (0: any number)."""

    body: int = BODY
    rate: float = 0.0


@dataclass(slots=True)
class Rate:
    """A token bucket for each key, which holds what one second fills."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, key: str) -> None:
        """Let a request through, or refuse it and say when the next one may come."""
        if not self.rate:
            return
        most, now = max(1.0, self.rate), self.clock()
        tokens, last = self._buckets.get(key, (most, now))
        tokens = min(most, tokens + (now - last) * self.rate)
        if tokens < 1:
            wait = {"retry-after": str(math.ceil((1 - tokens) / self.rate))}
            raise Refusal(429, "rate", f"a key may send {self.rate:g} requests a second; this one sent more", wait)
        self._buckets[key] = (tokens - 1, now)


def problem_of(error: Exception) -> Problem:
    """What the world is told of an error: all of a problem with a request, nothing of one inside."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Refusal(error.status_code, "http", error.detail, error.headers or {})
    if isinstance(error, SyndicatedError):
        return Problem(422, "invalid", str(error))
    if isinstance(error, msgspec.DecodeError):
        return Problem(422, "invalid", str(error))
    if isinstance(error, UnicodeDecodeError):
        return Problem(422, "invalid", "the text must be UTF-8")
    if isinstance(error, RecursionError):
        return Problem(422, "invalid", "the JSON is nested too deeply")
    return Problem(500, "internal", "the request failed; the log of the service has more under this instance")


def document(problem: Problem, id_: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of a problem's reply."""
    headers = {"content-type": PROBLEM}
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="syndicated"'
    if problem.status == 503:
        headers["retry-after"] = "1"
    if isinstance(problem, Refusal):
        headers |= {name.lower(): value for name, value in problem.headers.items()}
    body = ProblemDocument(
        type=f"/docs#problem-{problem.kind}",
        title=TITLES.get(problem.status, "The request was refused"),
        status=problem.status,
        detail=problem.detail,
        instance=f"urn:syndicated:request:{id_}",
    )
    return headers, msgspec.json.encode(body)


async def read(receive: Receive, scope: Scope, limit: int) -> bytes:
    """A whole body."""
    _check_length(scope, limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    parts = [body]
    size = len(body)
    while message.get("more_body") and size <= limit:
        message = await receive()
        body = message.get("body", b"")
        parts.append(body)
        size += len(body)
    if message["type"] == "http.disconnect":
        raise Problem(400, "disconnected", "the caller has gone before the body was there")
    if size > limit:
        raise _too_large(limit)
    return b"".join(parts) if len(parts) > 1 else body


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by their names; of several with one name the last."""
    headers: dict[bytes, bytes] | None = scope.get(HEADERS)
    if headers is None:
        headers = scope[HEADERS] = dict(scope["headers"])
    return headers


def _is_binary(scope: Scope) -> bool:
    return headers_of(scope).get(b"content-type", b"").startswith(_BINARY)


def _check_length(scope: Scope, limit: int) -> None:
    length = headers_of(scope).get(b"content-length", b"0")
    if length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise _too_large(limit)


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"a body must have at most {limit} bytes")
