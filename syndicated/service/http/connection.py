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

from syndicated.service.commit.limits import Limits

MAX_HEADER_BYTES = 64 * 2**10  # of the request line and the headers together
MAX_PIPELINED = 100  # requests of a connection that wait for the replies to those before them
MAX_UNREAD_BYTES = 64 * 2**10  # of a body, after which the caller waits until the application has taken them
MIN_READ_BYTES = 32 * 2**10  # that a caller must read while it has time for a reply, if there are as many
MAX_COPIED_BYTES = 64 * 2**10  # of a reply, up to which its head and its body leave in one piece
ASGI = {"version": "3.0", "spec_version": "2.3"}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MAX_HEADER_BYTES
_TOO_MANY = b"at most %d requests of a connection may wait for their turn" % MAX_PIPELINED
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
                self.connection.close()

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
        if message["type"] == "http.response.start":
            self.start = message
            return
        connection = self.connection
        if connection.writable is not None:
            await connection.writable
        if self.gone or self.complete or connection.transport.is_closing():
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        head = b"" if self.started else self._head()
        if self.scope["method"] == "HEAD":  # whose reply has the headers of the whole one
            body = b""
        elif self.chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        self.started, self.complete = True, not more
        if len(body) > MAX_COPIED_BYTES:
            connection.transport.writelines([head, body])
        elif head or body:
            connection.transport.write(head + body)
        if self.complete:
            self.wake()
            connection.end(self)

    def _head(self) -> bytes:
        """The status and the headers of the reply."""
        status, headers = self.start["status"], [*self.connection.server_state.default_headers, *self.start["headers"]]
        lines = [b"%b: %b\r\n" % pair for pair in headers]
        if self.expects_continue and self.more_body:  # a body that was not asked for: it may come or not
            self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if b"content-length" not in dict(headers) and status not in (204, 304) and self.scope["http_version"] != "1.0":
            self.chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header must be one line")
        return b"%b%b\r\n" % (_STATUS_LINES[status], head)


class Connection(asyncio.Protocol):
    """A connection. Everything in a request that is not its body is limited: headers, chunk headers and trailers.

    While the service waits for the caller a time is set: for the headers (from the connection's start or the end of the
    last reply, and anew from the first byte of a request), for the body, or for the caller to read on. One timer looks
    at it: when it is up too early, because the time was set anew, it begins again.
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
        self._parser = self._new_parser()
        self._seconds = {"headers": limits.header_seconds, "body": limits.body_seconds, "reply": limits.body_seconds}
        self._awaited = ""  # what is waited for: parts of a request to come, or of a reply to be read
        self._deadline = self._due = math.inf  # until when, and when the timer is up
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0  # bytes when the time for reading them began
        self._in_headers = self._may_exceed = self._paused = self._expects_continue = False
        # Bytes outside of a body since the last point at which the parser made progress: the start of a request, the
        # end of its headers, or the header of a chunk. They bound what the parser keeps while none of these comes.
        self._pending_bytes = 0
        self._url, self._headers = b"", cast(list[tuple[bytes, bytes]], [])
        self._read: Exchange | None = None  # whose body is being read
        self._served: Exchange | None = None  # that has no complete reply yet
        self._waiting: deque[Exchange] = deque()  # for their turn
        self._idle: asyncio.Future[None] | None = None  # while there is nothing to answer
        self._stopped = self._lost = False  # whether no more is read, and whether the connection has ended
        self._refusal = b""  # the last reply, to what came after the requests

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
        self._await("headers")
        task = self.loop.create_task(self._answer())  # one for all: to make and run one takes 2 us
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.connections.discard(cast(Any, self))
        self._stopped = self._lost = True
        self._drop_requests()
        self._wake()
        self.resume_writing()
        self._await("")
        if self._timer is not None:
            self._timer.cancel()
        del self._parser  # which has this object: a cycle would stay in memory for long

    def eof_received(self) -> bool:
        """The caller will send no more. Requests that have come completely are still answered."""
        self._stop()
        return True

    def pause_writing(self) -> None:
        self.writable = self.loop.create_future()
        self._set_time()

    def resume_writing(self) -> None:
        if self.writable is not None and not self.writable.done():  # the one who waits may have been cancelled
            self.writable.set_result(None)
        self.writable = None
        self._set_time()

    def shutdown(self) -> None:
        """The server stops: requests that have come completely are the last."""
        self._stop()

    def close(self, last: bytes = b"") -> None:
        """Close the connection after these bytes. Requests that have no complete reply yet get none."""
        if not self._lost and not self.transport.is_closing():
            self._stopped = True
            self.transport.write(last)
            self.transport.close()
            self._drop_requests()
            self._set_time()

    def _stop(self, refusal: bytes = b"") -> None:
        """Read no more, and close the connection after the replies that are due and this one to what was being read."""
        if self._stopped:
            return
        self._stopped, self._refusal = True, refusal
        if self._waiting and self._waiting[-1].more_body:
            self._waiting.pop()
        if self._served is None or self._served.more_body:
            self.close(b"" if self._read is not None and self._read.started else refusal)
        elif not refusal:
            (self._waiting or [self._served])[-1].keep_alive = False

    def _drop_requests(self) -> None:
        for exchange in (self._served, *self._waiting):
            if exchange is not None:
                exchange.gone = True
                exchange.wake()
        self._waiting.clear()
        self._served = self._read = None

    def data_received(self, data: bytes) -> None:
        if self._stopped:
            return
        self._may_exceed = self._in_headers or len(data) > MAX_HEADER_BYTES
        self._pending_bytes += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._stop(_refusal(400, b"this is not HTTP/1.1"))
        if self._pending_bytes > MAX_HEADER_BYTES:
            self._stop(_refusal(431, _TOO_LARGE))
        if self._served is not None:
            self._wake()
        self._set_time()

    def _parse(self, data: bytes) -> None:
        """Parse what has come. Other protocols are not spoken here: who asks for one is answered in this one.

        The parser skips the body of such a request. So another one is given the request again, without the wish.
        """
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                method, version = self._parser.get_method(), self._parser.get_http_version().encode()
                kept = b"".join(b"%b: %b\r\n" % pair for pair in self._headers if pair[0] != b"upgrade")
                head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self._url, version, kept)
                data = head + data[upgrade.args[0] :]
                self._parser = self._new_parser()

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

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)  # of what was pipelined after the last one
        return parser

    def on_message_begin(self) -> None:
        self._await("")  # the time for the headers begins anew
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
            self._stop(_refusal(431, _TOO_LARGE))
            raise ValueError(_TOO_LARGE)  # the parser stops
        if parser.should_upgrade():
            if parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")
            return  # it is parsed again
        url, version = httptools.parse_url(self._url), parser.get_http_version()
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        scope = {
            **self._common,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": url.query or b"",
            "headers": headers,
            "state": self._app_state.copy(),
        }
        self._headers = []  # trailers are no headers: a proxy has not seen them
        exchange = Exchange(self, scope, version != "1.0" and parser.should_keep_alive(), self._expects_continue)
        self._read = exchange
        if self._served is None:
            self._served = exchange
        else:
            self._waiting.append(exchange)
            self._pause_reading()
            if len(self._waiting) > MAX_PIPELINED:
                self._stop(_refusal(400, _TOO_MANY))
                raise ValueError(_TOO_MANY)

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
        self._served = self._waiting.popleft() if self._waiting else None
        if not exchange.keep_alive:
            self.close()
        elif self._stopped and self._served is None:
            self.close(self._refusal)
        else:
            self._await("")
            self._set_time()
            self.go_on_reading()

    # the time

    def _set_time(self) -> None:
        """Wait for what the caller has to do next, if there is something."""
        if self.writable is not None or self.transport.is_closing():
            self._await("reply")
        elif self._served is not None and not self._served.more_body:
            self._await("")
        else:
            self._await("headers" if self._read is None else "body")

    def _await(self, part: str) -> None:
        """Wait for this, or for nothing; if it is waited for already, its time goes on."""
        if part == self._awaited:
            return
        self._awaited = part
        self._deadline = self.loop.time() + self._seconds[part] if part else math.inf
        if part == "reply":
            self._unsent = self.transport.get_write_buffer_size()
        if self._deadline < self._due:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._deadline
        self._timer = self.loop.call_at(self._due, self._time_is_up)

    def _time_is_up(self) -> None:
        """Close the connection; a request that has begun and has no answer is told why.

        A caller who has read next to nothing since the time was set is cut off: replies of any size wait in memory.
        """
        self._timer, self._due = None, math.inf
        if self._deadline > self.loop.time():
            if self._deadline < math.inf:
                self._set_timer()
            return
        part = self._awaited
        if part != "reply":
            begun = self._in_headers or self._read is not None
            self._stop(_refusal(408, _TOO_SLOW % (part.encode(), self._seconds[part])) if begun else b"")
        elif self.transport.get_write_buffer_size() <= self._unsent - MIN_READ_BYTES:  # slow, but reading
            self._await("")
            self._set_time()
        else:
            self.transport.abort()


def _address(transport: asyncio.Transport, end: str) -> tuple[str, int] | None:
    """The address and the port of one end of a connection."""
    address = transport.get_extra_info(end)
    return (str(address[0]), int(address[1])) if isinstance(address, (tuple, list)) else None
