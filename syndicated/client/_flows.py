"""One call: how often it is sent, how long it waits, and what its reply means. Nothing here sends anything.

A flow is a generator. It yields a request to send or a number of seconds to wait, is given the response or the error
that came instead, and returns what was asked for. Whoever runs flows decides how to send and how to wait.
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
import numpy as np

from syndicated._validation import check_count, check_number, shorten
from syndicated.client.errors import BY_STATUS, Broken, Invalid, Unavailable
from syndicated.errors import InputError

AWAY = (429, 502, 503, 504)  # the service, or the proxy before it, asks for another try
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # errors after which nothing has arrived
FIRST, LONGEST = 0.1, 30.0  # seconds: the first pause before another try, and the longest
HOUR = 3600.0  # seconds that a service may ask for before another try
SHORTEST = 0.05  # seconds that a request is given at least

T = TypeVar("T")


class Send(NamedTuple):
    """A request; `repeatable` if it may arrive twice."""

    method: str
    path: str
    content: bytes = b""
    type: str = "application/json"
    repeatable: bool = True
    timeout: float = 0.0


Came = httpx.Response | httpx.RequestError | None
Flow = Generator[Send | float, Came, T]
Rows = list[dict[str, Any]]


class Wire:
    """Where the service is, and how patient its caller."""

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
        self.timeout = check_number("timeout", timeout, low=SHORTEST)
        self.retries = check_count("retries", retries, low=0)
        self.patience = check_number("patience", patience, low=0.0)
        self.clock = clock
        self.counts = dict.fromkeys(("retries", "defaults", "unrewarded", "sent", "refused", "dropped"), 0)
        self.lock = threading.Lock()

    def _json(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Flow[dict[str, Any]]:
        content = b"" if body is None else encode(body)
        response = yield from self._ask(Send(method, path, content, repeatable=repeatable))
        return decode(response, dict[str, Any])

    def _rows(self, path: str) -> Flow[Rows]:
        response = yield from self._ask(Send("GET", path))
        return decode(response, Rows)

    def _ask(self, send: Send, until: float | None = None, retries: int | None = None) -> Flow[httpx.Response]:
        """Send until there is an answer; so often, and until the clock says so."""
        until = self.clock() + self.patience if until is None else until
        most = self.retries if retries is None else retries
        tries = 0
        while True:
            came = yield send._replace(timeout=max(SHORTEST, min(self.timeout, until - self.clock())))
            if isinstance(came, httpx.Response) and came.status_code not in AWAY:
                return _checked(came)
            wait = max(pause(tries), _retry_after(came))
            if tries == most or self.clock() + wait >= until or not (send.repeatable or _unsent(came)):
                raise Unavailable(_reason(came), wait)
            tries += 1
            self._count("retries")
            yield wait

    def _count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1


def pause(tries: int) -> float:
    """Seconds before the next try: twice as long each time, and not the same for all clients."""
    return min(LONGEST, FIRST * 2.0 ** min(tries, 30)) * random.uniform(0.5, 1.0)


def part(text: str) -> str:
    """A name or an id as a part of an address."""
    if not isinstance(text, str) or text in ("", ".", ".."):
        raise InputError(f"a name or id must be a text that an address can hold; got {shorten(text)}")
    return quote(text, safe="")


def of_bandit(name: str) -> str:
    """The address of a bandit."""
    return f"/v1/bandits/{part(name)}"


def encode(thing: Any) -> bytes:
    """As JSON, which has no word for a number that is not finite: such a one is refused, not sent as null."""
    try:
        text = msgspec.json.encode(thing, enc_hook=plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a request must be what JSON can say; {error}") from None
    if b"null" in text:
        _check_finite(msgspec.to_builtins(thing, enc_hook=plain), "")
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


def plain(thing: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(thing, np.generic | np.ndarray):
        return thing.tolist()
    raise TypeError(f"got {shorten(thing)}")


def decode(response: httpx.Response, kind: type[T], text: bytes | None = None) -> T:
    """What a response says, or a part of it."""
    text = response.content if text is None else text
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Broken(response.status_code, "not-a-reply", f"the service's reply is not one: {shorten(text)}") from None


def _checked(response: httpx.Response) -> httpx.Response:
    """A response that is not a problem."""
    status = response.status_code
    if 200 <= status < 300:
        return response
    raise BY_STATUS.get(status, Invalid if 400 <= status < 500 else Broken)(status, *_problem(response))


def _problem(response: httpx.Response) -> tuple[str, str]:
    """The kind and the detail of a problem document, or of what came instead of one."""
    try:
        document = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        document = {}
    kind = str(document.get("type", "")).rpartition("#problem-")[2]
    return kind or "unknown", str(document.get("detail") or response.reason_phrase or "no reason was given")


def _reason(came: Came) -> str:
    if isinstance(came, httpx.Response):
        return f"{_problem(came)[1]} ({came.status_code})"
    return str(came) or type(came).__name__


def _unsent(came: Came) -> bool:
    """Whether the request certainly did nothing."""
    if isinstance(came, httpx.Response):
        return came.status_code in (429, 503)
    return isinstance(came, UNSENT)


def _retry_after(came: Came) -> float:
    """The seconds that a response asks to wait, as a number or as a date; 0 if it does not."""
    text = came.headers.get("retry-after", "") if isinstance(came, httpx.Response) else ""
    try:
        seconds = float(text) if text.isdecimal() else email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), HOUR)
