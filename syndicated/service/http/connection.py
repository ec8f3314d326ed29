"""A connection: httptools parses its requests, and the ASGI application answers one after the other.

    bytes ─► Connection: parser, limits, timers ─► Exchange: receive ─► App ─► Exchange: send ─► one write

uvicorn runs the server; this class is in the place of its protocols. They have no limits on headers, do not close
connections that send nothing or half of a request, and cost as much as the rest of a small request.
"""

import asyncio
import http
import logging
import math
from collections import deque
from typing import Any, cast
from urllib.parse import unquote

import httptools
from starlette.types import Message, Scope
from uvicorn import Config
from uvicorn.server import ServerState

from syndicated.service.core.limits import Limits

MAX_HEADER_BYTES = 64 * 2**10  # of the request line and the headers together
MAX_PIPELINED = 100  # requests of a connection that wait for the replies to those before them
MAX_UNREAD_BYTES = 64 * 2**10  # of a body, after which the caller waits until the application has taken them
ASGI = {"version": "3.0", "spec_version": "2.3"}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MAX_HEADER_BYTES
_TOO_SLOW = b"the %s of a request must come within %g seconds"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}

log = logging.getLogger("syndicated.requests")


def _refusal(status: int, text: bytes) -> bytes:
    """A whole reply, after which the connection is closed."""
    head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return _STATUS_LINES[status] + head % len(text) + text


class Exchange:
    """A request, and its reply on the way: what an ASGI application receives and sends.

    A reply begins with the first part of its body. Until then its head is kept, so that small ones leave in one piece.
    """

    __slots__ = (
        *("chunked", "complete", "connection", "expects_continue", "gone", "keep_alive"),
        *("more_body", "parts", "scope", "start", "started", "taken", "unread", "waiter"),
    )

    def __init__(self, connection: "Connection", scope: Scope, keep_alive: bool, expects_continue: bool) -> None:
        self.connection, self.scope = connection, scope
        self.keep_alive, self.expects_continue = keep_alive, expects_continue
        self.parts: list[bytes] = []  # of the body, that were not taken yet
        self.unread = 0  # bytes of them
        self.more_body, self.taken = True, False  # whether there is more to come; whether the application has all
        self.waiter: asyncio.Future[None] | None = None  # of an application that wants more
        self.gone = False  # whether the caller is
        self.start: Message = {}
        self.started = self.complete = self.chunked = False  # the reply

    async def run(self) -> None:
        """Let the application answer. What it leaves unfinished ends the connection."""
        try:
            await self.connection.app(self.scope, self.receive, self.send)
        except Exception:
            log.exception("a reply has ended early")
        finally:
            if not self.complete:
                self.connection.transport.close()

    def wake(self) -> None:
        """Tell the application that there is more, or that there will be no more."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def receive(self) -> Message:
        connection = self.connection
        if self.expects_continue and not self.started:
            connection.transport.write(CONTINUE)
        self.expects_continue = False
        while not (self.parts or self.gone or self.complete or (not self.more_body and not self.taken)):
            self.waiter = connection.loop.create_future()
            await self.waiter
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts, self.unread, self.taken = [], 0, not self.more_body
        connection.go_on_reading()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        connection = self.connection
        if connection.writable is not None:
            await connection.writable
        if self.gone or connection.transport.is_closing():
            return
        if message["type"] == "http.response.start":
            self.start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        head = b"" if self.started else self._head()
        if self.scope["method"] == "HEAD":  # whose reply has the headers of the whole one
            body = b""
        elif self.chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        self.started, self.complete = True, not more
        if head or body:
            connection.transport.write(head + body)
        if self.complete:
            self.wake()
            connection.end(self)

    def _head(self) -> bytes:
        """The status and the headers of the reply."""
        status, own = self.start["status"], list(self.start["headers"])
        lines = [b"%b: %b\r\n" % pair for pair in (*self.connection.server_state.default_headers, *own)]
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if b"content-length" not in dict(own) and status not in (204, 304):
            self.chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header must be one line")
        return b"%b%b\r\n" % (_STATUS_LINES[status], head)


class Connection(asyncio.Protocol):
    """A connection. Everything in a request that is not its body is limited: headers, chunk headers and trailers.

    While the service waits for the caller a time is set, for the headers (from the connection's start, from the end of
    the last reply, or from the first byte of a later request) or for the body. One timer looks at it: when it is up too
    early, because the time was set anew, it begins again.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: Limits,
    ) -> None:
        self.app, self.server_state, self.tasks = config.loaded_app, server_state, server_state.tasks
        self.loop = _loop or asyncio.get_running_loop()
        self.writable: asyncio.Future[None] | None = None  # while the caller does not read
        self._app_state = app_state
        self._common: Scope = {}  # what the scopes of all requests have
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # of what was pipelined after the last one
        self._seconds = {b"headers": limits.header_seconds, b"body": limits.body_seconds}
        self._awaited = b""  # the part of a request that is waited for
        self._deadline = self._due = math.inf  # until when, and when the timer is up
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._may_exceed = self._refused = self._paused = self._expects_continue = False
        # Bytes outside of a body since the last point at which the parser made progress: the start of a request, the
        # end of its headers, or the header of a chunk. They bound what the parser keeps while none of these comes.
        self._pending_bytes = 0
        self._url, self._headers = b"", cast(list[tuple[bytes, bytes]], [])
        self._read: Exchange | None = None  # whose body is being read
        self._served: Exchange | None = None  # that has no complete reply yet
        self._waiting: deque[Exchange] = deque()  # for their turn
        self._idle: asyncio.Future[None] | None = None  # while there is nothing to answer
        self._lost = False

    # the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.server_state.connections.add(cast(Any, self))
        self._common = {
            "type": "http",
            "asgi": ASGI,
            "server": _address(transport, "sockname"),
            "client": _address(transport, "peername"),
            "scheme": "http",
            "root_path": "",
        }
        self._await(b"headers")
        task = self.loop.create_task(self._answer())  # one for all: to make and run one takes 2 us
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.connections.discard(cast(Any, self))
        self._await(b"")
        if self._timer is not None:
            self._timer.cancel()
        for exchange in (self._served, *self._waiting):
            if exchange is not None:
                exchange.gone = True
                exchange.wake()
        self._waiting.clear()
        self._lost = True
        self._wake()
        self.resume_writing()

    def eof_received(self) -> bool:
        """The caller will send no more. A request that has come completely is still answered."""
        if self._served is None or self._served.more_body:
            return False
        self._served.keep_alive = False
        return True

    def pause_writing(self) -> None:
        self.writable = self.loop.create_future()

    def resume_writing(self) -> None:
        if self.writable is not None and not self.writable.done():  # the one who waits may have been cancelled
            self.writable.set_result(None)
        self.writable = None

    def shutdown(self) -> None:
        """The server stops: what is being answered is the last."""
        if self._served is None:
            self.transport.close()
        else:
            self._served.keep_alive = False

    def data_received(self, data: bytes) -> None:
        self._may_exceed = self._in_headers or len(data) > MAX_HEADER_BYTES
        self._pending_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # to what is not spoken here: the request is answered as it is
            pass
        except httptools.HttpParserError:
            self._close_with(431, _TOO_LARGE) if self._refused else self._close_with(400, b"this is not HTTP/1.1")
        if self._pending_bytes > MAX_HEADER_BYTES:
            self._close_with(431, _TOO_LARGE)
        if self._served is not None:
            self._wake()
        served = self._served is not None and not self._served.more_body
        self._await(b"" if served else b"headers" if self._read is None else b"body")

    def go_on_reading(self) -> None:
        """Read again, unless requests of this connection wait for their turn."""
        if self._paused and not self._waiting:
            self._paused = False
            self.transport.resume_reading()

    def _pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    # the parser

    def on_message_begin(self) -> None:
        self._in_headers, self._pending_bytes = True, 0
        self._url, self._headers, self._expects_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect":
            self._expects_continue = value.lower() == b"100-continue"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_headers, self._pending_bytes = False, 0
        headers, parser = self._headers, self._parser
        # Headers that came whole in one packet never count as pending, so they are measured here. Adding up their
        # lengths costs a little for each request, and is left out where all of the packet is below the limit.
        if self._may_exceed and len(self._url) + sum(len(n) + len(v) for n, v in headers) > MAX_HEADER_BYTES:
            self._refused = True
            raise ValueError(_TOO_LARGE)  # the parser stops
        url, version = httptools.parse_url(self._url), parser.get_http_version()
        path = url.path.decode("ascii")
        scope = {
            **self._common,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": headers,
            "state": self._app_state.copy(),
        }
        exchange = Exchange(self, scope, version != "1.0" and parser.should_keep_alive(), self._expects_continue)
        self._read = exchange
        if self._served is None:
            self._served = exchange
        else:
            self._waiting.append(exchange)
            self._pause_reading()
            if len(self._waiting) > MAX_PIPELINED:
                raise ValueError(f"at most {MAX_PIPELINED} requests of a connection may wait for their turn")

    def on_body(self, body: bytes) -> None:
        self._pending_bytes -= len(body)
        exchange = self._read
        if exchange is None or exchange.complete:
            return
        exchange.parts.append(body)
        exchange.unread += len(body)
        if exchange.unread > MAX_UNREAD_BYTES:
            self._pause_reading()
        exchange.wake()

    def on_chunk_header(self) -> None:
        self._pending_bytes = 0

    def on_message_complete(self) -> None:
        if self._read is not None:
            self._read.more_body = False
            self._read.wake()
            self._read = None

    # requests, one after the other

    async def _answer(self) -> None:
        """Answer requests in their order, until the connection ends."""
        while not self._lost:
            exchange = self._served
            if exchange is None:
                self._idle = self.loop.create_future()
                await self._idle
            else:
                await exchange.run()
                if not exchange.complete:
                    return

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def end(self, exchange: Exchange) -> None:
        """A reply is complete: the next request has its turn, or the caller has time to send one."""
        self.server_state.total_requests += 1
        self._served = None
        if not exchange.keep_alive:
            self.transport.close()
            return
        if self._waiting:
            self._served = self._waiting.popleft()
        else:
            self._awaited = b""
            self._await(b"headers")
        self.go_on_reading()

    # the time

    def _await(self, part: bytes) -> None:
        """Wait for this part of a request, or for none; if it is waited for already, its time goes on."""
        if part == self._awaited:
            return
        self._awaited = part
        self._deadline = self.loop.time() + self._seconds[part] if part else math.inf
        if self._deadline < self._due:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._deadline
        self._timer = self.loop.call_at(self._due, self._time_is_up)

    def _time_is_up(self) -> None:
        """Close the connection; a request that has begun and has no answer is told why."""
        self._timer, self._due = None, math.inf
        if self._deadline > self.loop.time():
            if self._deadline < math.inf:
                self._set_timer()
            return
        part = b"headers" if self._read is None else b"body"
        if self._in_headers or (self._read is not None and not self._read.started):
            self._close_with(408, _TOO_SLOW % (part, self._seconds[part]))
        self.transport.close()

    def _close_with(self, status: int, text: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(_refusal(status, text))
            self.transport.close()


def _address(transport: asyncio.Transport, end: str) -> tuple[str, int] | None:
    """The address and the port of one end of a connection."""
    address = transport.get_extra_info(end)
    return (str(address[0]), int(address[1])) if isinstance(address, (tuple, list)) else None
