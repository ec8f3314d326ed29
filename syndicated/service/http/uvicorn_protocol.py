"""uvicorn's HTTP protocol with limits on headers and on waiting for callers, and with replies that are sent together.

uvicorn has no limit on headers for its httptools parser (its h11 parser has one, but is slower): without
this file one connection can fill the memory with a header that never ends. Nor does it close connections that send
nothing, or half of a request. `HttpToolsProtocol` is private to uvicorn,
and this file relies on its callbacks, `cycle` and `send_400_response`; so the extra `serve` allows only the minor
versions of uvicorn that the tests have passed with.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from syndicated.service.core.limits import Limits

MAX_HEADER_BYTES = 64 * 2**10  # of the request line and the headers together
MAX_PIPELINED = 100  # requests of a connection that wait for the replies to those before them
_TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MAX_HEADER_BYTES
_TOO_SLOW = b"the %s of a request must come within %g seconds"


def _reply(status: bytes, text: bytes) -> bytes:
    """A whole reply, after which the connection is closed."""
    head = b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (status, len(text)) + text


_REPLY_431 = _reply(b"431 Request Header Fields Too Large", _TOO_LARGE)


class BundlingTransport:
    """A transport that collects what is written during one turn of the event loop, and sends it at the end of the turn.

    The parts of a reply then leave as one packet, and the replies to a batch leave together: a caller on the same
    machine, or behind the same proxy, wakes up once and not once for each of them.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self.is_closing = transport.is_closing  # which every request asks for; all others by `__getattr__`
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self.is_closing():
            self._transport.writelines(parts)


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection. Everything in a request that is not its body is limited: headers, chunk headers and trailers.

    While the service waits for the caller a timer runs, one for the headers (from the connection's start, or from the
    first byte of a later request) and one for the body. A request that comes in one packet needs none. After a reply
    uvicorn's own timer runs, for as long as that for headers.
    """

    def __init__(self, *arguments: Any, limits: Limits, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.timeout_keep_alive = cast(Any, limits.header_seconds)
        self._seconds = {b"headers": limits.header_seconds, b"body": limits.body_seconds}
        self._awaited = b""  # the part of a request that the timer is for
        self._timer: asyncio.TimerHandle | None = None
        self._in_headers = self._in_body = False
        self._may_exceed = False  # whether the headers being parsed can be too large: most fit into one small packet
        self._refused = False
        # Bytes outside of a body since the last point at which the parser made progress: the start of a request, the
        # end of its headers, or the header of a chunk. They bound what the parser keeps while none of these comes.
        self._pending_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._bundling = BundlingTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._bundling))
        self._await(b"headers")

    def connection_lost(self, exc: Exception | None) -> None:
        self._await(b"")
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The caller will send no more. A request that has come completely is still answered.

        uvicorn would close the connection at once. A caller may close its half after the last request, and a batch that
        is being written must still reach it.
        """
        self._bundling.flush()
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        self._may_exceed = self._in_headers or len(data) > MAX_HEADER_BYTES
        self._pending_bytes += len(data)
        super().data_received(data)
        if self._pending_bytes > MAX_HEADER_BYTES:
            self._refuse()
        served = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        self._await(b"" if served else b"body" if self._in_body else b"headers")

    def _await(self, part: bytes) -> None:
        """Let the timer run for this part of a request, or no longer; one that runs for it goes on."""
        if part == self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = part
        self._timer = self.loop.call_later(self._seconds[part], self._time_is_up) if part else None

    def _time_is_up(self) -> None:
        """Close the connection; a request that has begun and has no answer is told why."""
        part = b"body" if self._in_body else b"headers"
        if self._in_headers or (self._in_body and not self.cycle.response_started):
            self.transport.write(_reply(b"408 Request Timeout", _TOO_SLOW % (part, self._seconds[part])))
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        self._time_is_up()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._pending_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body, self._pending_bytes = False, True, 0
        # Headers that came whole in one packet never count as pending, so they are measured here. Adding up their
        # lengths costs a little for each request, and is left out where all of the packet is below the limit.
        if self._may_exceed:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MAX_HEADER_BYTES:
                self._refused = True
                raise ValueError(_TOO_LARGE)  # the parser stops, and uvicorn calls send_400_response
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINED:
            raise ValueError(f"at most {MAX_PIPELINED} requests of a connection may wait for their turn")

    def on_body(self, body: bytes) -> None:
        self._pending_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def on_chunk_header(self) -> None:
        self._pending_bytes = 0

    def send_400_response(self, msg: str) -> None:
        if self._refused:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_REPLY_431)
            self.transport.close()
