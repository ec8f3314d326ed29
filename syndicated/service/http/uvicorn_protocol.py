"""HTTP as the service takes it: uvicorn's, with a limit for what stands before a body, and replies in bundles."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 64 * 2**10  # bytes of a request's address and headers
TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MOST
REPLY = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(TOO_LARGE), TOO_LARGE)
)


class Bundled:
    """A transport that sends at the end of the event loop's turn what was written in it.

    The parts of a reply go as one packet, and the replies to a batch one right after another: a caller who is on the
    same machine, or behind the same proxy, is woken once, not by each of them.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.send)
        self._parts.append(data)

    def close(self) -> None:
        self.send()
        self._transport.close()

    def send(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.writelines(parts)


class Protocol(HttpToolsProtocol):
    """A connection. What comes beside a body, before it or behind it, is limited."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._many = self._open = self._refused = False
        self._beside = 0  # bytes that came since a request, its body or a chunk of it began, and are not of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._bundled = Bundled(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._bundled))

    def eof_received(self) -> bool:  # type: ignore[override]
        """The caller will send no more; what was asked wholly is still answered."""
        self._bundled.send()
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        self._many = self._open or len(data) > MOST
        self._beside += len(data)
        super().data_received(data)
        if self._beside > MOST:
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._open, self._beside = True, 0

    def on_headers_complete(self) -> None:
        self._open, self._beside = False, 0
        if self._many and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST:
            self._refused = True
            raise ValueError(TOO_LARGE)  # the parser stops, and uvicorn calls send_400_response
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside -= len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        self._beside = 0

    def send_400_response(self, msg: str) -> None:
        if self._refused:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(REPLY)
            self.transport.close()
