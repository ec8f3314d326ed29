"""uvicorn's HTTP protocol with a limit on headers, and with replies that are sent together.

uvicorn has no limit on headers for its httptools parser (its h11 parser has one, but is slower): without
this file one connection can fill the memory with a header that never ends. `HttpToolsProtocol` is private to uvicorn,
and this file relies on its callbacks, `cycle` and `send_400_response`; so the extra `serve` allows only the minor
versions of uvicorn that the tests have passed with.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 2**10  # of the request line and the headers together
_TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MAX_HEADER_BYTES
_REPLY_431 = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_TOO_LARGE), _TOO_LARGE)
)


class BundlingTransport:
    """A transport that collects what is written during one turn of the event loop, and sends it at the end of the turn.

    The parts of a reply then leave as one packet, and the replies to a batch leave together: a caller on the same
    machine, or behind the same proxy, wakes up once and not once for each of them.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
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
        if parts and not self._transport.is_closing():
            self._transport.writelines(parts)


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection. Everything in a request that is not its body is limited: headers, chunk headers and trailers."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._in_headers = False
        self._may_exceed = False  # whether the headers being parsed can be too large: most fit into one small packet
        self._refused = False
        # Bytes outside of a body since the last point at which the parser made progress: the start of a request, the
        # end of its headers, or the header of a chunk. They bound what the parser keeps while none of these comes.
        self._pending_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._bundling = BundlingTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._bundling))

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

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._pending_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._in_headers, self._pending_bytes = False, 0
        # Headers that came whole in one packet never count as pending, so they are measured here. Adding up their
        # lengths costs a little for each request, and is left out where all of the packet is below the limit.
        if self._may_exceed:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MAX_HEADER_BYTES:
                self._refused = True
                raise ValueError(_TOO_LARGE)  # the parser stops, and uvicorn calls send_400_response
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending_bytes -= len(body)
        super().on_body(body)

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
