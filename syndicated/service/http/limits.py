"""How limits are kept: a rate limit for each key, and a reader of bodies that stops in time."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.types import Receive, Scope

from syndicated.service.bandits.problems import Problem
from syndicated.service.http.headers import headers_of
from syndicated.service.http.problem_documents import ProblemWithHeaders

MAX_JSON_BYTES = 4 * 2**20  # of a body that is one JSON document: decoding it holds the interpreter's lock
MAX_BODIES_BYTES = 256 * 2**20  # of bodies that have come in part; one alone may be larger
FAILURE_SECONDS = 60.0
MAX_ADDRESSES = 10_000  # whose failures are kept
MAX_LENGTH_DIGITS = 18  # of a content-length that is worth parsing


@dataclass(slots=True)
class RateLimit:
    """A token bucket for each key. A full bucket lasts for the requests of one second."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, key: str) -> None:
        """Count a request of a key, or refuse it and say when the next one is allowed."""
        if not self.rate:
            return
        capacity, now = max(1.0, self.rate), self.clock()
        tokens, last = self._buckets.get(key, (capacity, now))
        tokens = min(capacity, tokens + (now - last) * self.rate)
        if tokens < 1:
            wait = {"retry-after": str(math.ceil((1 - tokens) / self.rate))}
            raise ProblemWithHeaders(429, "rate", f"a key may send {self.rate:g} requests a second", wait)
        self._buckets[key] = (tokens - 1, now)


@dataclass(slots=True)
class FailureLimit:
    """How often each address may fail to log in: some times a minute, and then not at all for the rest of it."""

    failures: int
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, list[float]] = field(default_factory=dict)

    def check(self, address: str) -> None:
        """Refuse an address that has failed too often."""
        now = self.clock()
        latest = [at for at in self._seen.get(address, ()) if now - at < FAILURE_SECONDS]
        if len(latest) >= self.failures:
            wait = {"retry-after": str(math.ceil(FAILURE_SECONDS - (now - latest[0])))}
            detail = f"an address may fail to log in {self.failures} times a minute"
            raise ProblemWithHeaders(429, "rate", detail, wait)

    def add(self, address: str) -> None:
        """Count a failure. The addresses that have failed first are forgotten when there are too many."""
        latest = [*self._seen.pop(address, ()), self.clock()]
        self._seen[address] = latest[-self.failures :]
        if len(self._seen) > MAX_ADDRESSES:
            del self._seen[next(iter(self._seen))]


class PartialBodies:
    """The bytes of all bodies that have come in part: each is small enough, and together they may be too many."""

    def __init__(self) -> None:
        self.bytes = 0

    def add(self, count: int, own: int) -> None:
        """Count bytes of a body, of which `own` were counted before."""
        others = self.bytes - own
        if others and self.bytes + count > MAX_BODIES_BYTES:
            raise Problem(503, "overload", "too many large bodies are on their way; try again later")
        self.bytes += count


partial_bodies = PartialBodies()


async def read_body(receive: Receive, scope: Scope, max_bytes: int) -> bytes:
    """The whole body of a request. One that is too long is refused before it is all in memory."""
    length = headers_of(scope).get(b"content-length", b"0")
    if length.isdigit() and (len(length) > MAX_LENGTH_DIGITS or int(length) > max_bytes):
        raise _too_large(max_bytes)
    message = await receive()
    body: bytes = message.get("body", b"")
    parts = [body]
    size = len(body)
    counted = 0
    try:
        while message.get("more_body") and size <= max_bytes:
            partial_bodies.add(len(body), counted)
            counted += len(body)
            message = await receive()
            body = message.get("body", b"")
            parts.append(body)
            size += len(body)
    finally:
        partial_bodies.bytes -= counted
    if message["type"] == "http.disconnect":
        raise Problem(400, "disconnected", "the caller closed the connection before the body was complete")
    if size > max_bytes:
        raise _too_large(max_bytes)
    if size > MAX_JSON_BYTES:  # a model, or a log: the event loop must not stand still while it is copied
        return await asyncio.to_thread(b"".join, parts)
    return b"".join(parts) if len(parts) > 1 else body


def _too_large(max_bytes: int) -> Problem:
    return Problem(413, "too-large", f"a body must have at most {max_bytes} bytes")
