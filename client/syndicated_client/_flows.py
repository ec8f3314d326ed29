"""One call as a flow: how often it is sent, how long it waits, and what its reply means. Nothing here does I/O.

A flow is a generator. It yields a request to send, or a number of seconds to wait; it is sent the response or the error
of a request; and it returns the result of the call. The two clients in `_drivers.py` run the same flows, one with
blocking I/O and one with asyncio.
"""

import email.utils
import math
import random
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from syndicated_client._errors import BY_STATUS, Broken, InputError, Invalid, Unavailable
from syndicated_client._validation import check_count, check_number, shorten

RETRY_STATUSES = (429, 502, 503, 504)  # the service, or a proxy in front of it, asks for another try
UNSENT_ERRORS = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # the request has not arrived
FIRST_PAUSE, MAX_PAUSE = 0.1, 30.0  # seconds between two tries
MAX_RETRY_AFTER = 3600.0  # seconds; a Retry-After of more counts as this
MIN_TIMEOUT = 0.05  # seconds that every try has, also at the end of the patience

T = TypeVar("T")


class Request(NamedTuple):
    """A request. It is `repeatable` if it does no harm when it arrives twice."""

    method: str
    path: str
    content: bytes = b""
    type: str = "application/json"
    repeatable: bool = True
    timeout: float = 0.0


Outcome = httpx.Response | httpx.RequestError | None
Flow = Generator[Request | float, Outcome, T]
Rows = list[dict[str, Any]]


class BaseFlows:
    """What all flows share: the address and key of the service, retries, patience, and counts."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout: float = 2.0,
        retries: int = 3,
        patience: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise InputError(f"url must begin with http:// or https://; got {shorten(url)}")
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key:
            raise InputError("key must be the text of a key, syn_...; got something else")
        self.url, self.headers = url.rstrip("/").removesuffix("/v1"), {"authorization": f"Bearer {key}"}
        self.timeout = check_number("timeout", timeout, low=MIN_TIMEOUT)
        self.retries = check_count("retries", retries, low=0)
        self.patience = check_number("patience", patience, low=0.0)
        self.clock = clock
        self.counts = dict.fromkeys(("retries", "defaults", "unrewarded", "sent", "refused", "dropped"), 0)
        self.lock = threading.Lock()

    def _json(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Flow[dict[str, Any]]:
        content = b"" if body is None else encode(body)
        response = yield from self._ask(Request(method, path, content, repeatable=repeatable))
        return decode(response, dict[str, Any])

    def _rows(self, path: str) -> Flow[Rows]:
        response = yield from self._ask(Request("GET", path))
        return decode(response, Rows)

    def _ask(self, request: Request, until: float | None = None, retries: int | None = None) -> Flow[httpx.Response]:
        """Send a request until there is an answer, with at most so many retries, and until the clock reads `until`."""
        until = self.clock() + self.patience if until is None else until
        most = self.retries if retries is None else retries
        tries = 0
        while True:
            outcome = yield request._replace(timeout=max(MIN_TIMEOUT, min(self.timeout, until - self.clock())))
            if isinstance(outcome, httpx.Response) and outcome.status_code not in RETRY_STATUSES:
                return _raise_for_problem(outcome)
            wait = max(backoff(tries), _retry_after(outcome))
            if tries == most or self.clock() + wait >= until or not (request.repeatable or _unsent(outcome)):
                raise Unavailable(_reason(outcome), wait)
            tries += 1
            self._count("retries")
            yield wait

    def _count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1


def backoff(tries: int) -> float:
    """Seconds before the next try: twice as many each time, and random, so that clients do not all return at once."""
    return min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 30)) * random.uniform(0.5, 1.0)


def path_segment(text: str) -> str:
    """A name or an id as a segment of a path."""
    if not isinstance(text, str) or text in ("", ".", ".."):
        raise InputError(f"a name or id must be a text that fits into a path; got {shorten(text)}")
    return quote(text, safe="")


def bandit_path(name: str) -> str:
    """The path of a bandit."""
    return f"/v1/bandits/{path_segment(name)}"


def encode(thing: Any) -> bytes:
    """A body as JSON. Numbers that are not finite are refused: JSON has none, and msgspec would write null."""
    try:
        text = msgspec.json.encode(thing, enc_hook=to_builtins)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a request must be valid as JSON; {error}") from None
    if b"null" in text:
        _check_finite(msgspec.to_builtins(thing, enc_hook=to_builtins), "")
    return text


def _check_finite(thing: Any, path: str) -> None:
    if isinstance(thing, float) and not math.isfinite(thing):
        raise InputError(f"{path} must be a finite number; got {thing}")
    if isinstance(thing, dict):
        for name, value in thing.items():
            _check_finite(value, f"{path}.{name}" if path else str(name))
    elif isinstance(thing, list | tuple):
        for place, value in enumerate(thing):
            _check_finite(value, f"{path}[{place}]")


def to_builtins(thing: Any) -> Any:
    """NumPy's numbers and arrays as Python's own."""
    if hasattr(thing, "tolist"):
        return thing.tolist()
    raise TypeError(f"got {shorten(thing)}")


def decode(response: httpx.Response, kind: type[T], text: bytes | None = None) -> T:
    """The body of a response, or a part of it (`text`), as a type."""
    text = response.content if text is None else text
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Broken(
            response.status_code, "not-a-reply", f"the reply is not one of this service: {shorten(text)}"
        ) from None


def _raise_for_problem(response: httpx.Response) -> httpx.Response:
    """The response, if it is not a problem."""
    status = response.status_code
    if 200 <= status < 300:
        return response
    raise BY_STATUS.get(status, Invalid if 400 <= status < 500 else Broken)(status, *_problem(response))


def _problem(response: httpx.Response) -> tuple[str, str]:
    """The kind and the detail of a problem document, or of another body."""
    try:
        document = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = {}
    kind = str(document.get("type", "")).rpartition("#problem-")[2]
    return kind or "unknown", str(document.get("detail") or response.reason_phrase or "no reason given")


def _reason(outcome: Outcome) -> str:
    if isinstance(outcome, httpx.Response):
        return f"{_problem(outcome)[1]} ({outcome.status_code})"
    return str(outcome) or type(outcome).__name__


def _unsent(outcome: Outcome) -> bool:
    """Whether the request has certainly not been carried out."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code in (429, 503)
    return isinstance(outcome, UNSENT_ERRORS)


def _retry_after(outcome: Outcome) -> float:
    """The seconds that a response asks to wait, from a number or a date; 0 if it does not ask."""
    text = outcome.headers.get("retry-after", "") if isinstance(outcome, httpx.Response) else ""
    try:
        seconds = float(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), MAX_RETRY_AFTER)
