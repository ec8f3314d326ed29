"""HTTP as the service takes it: uvicorn's, with a limit for what stands before a body."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST = 64 * 2**10  # bytes of a request's address and headers
TOO_LARGE = b"the address and the headers of a request must have at most %d bytes" % MOST
REPLY = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(TOO_LARGE), TOO_LARGE)
)


class Protocol(HttpToolsProtocol):
    """A connection. What comes before a body is counted once it is all there, and by chunks until then."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._open = False
        self._parts = self._chunks = 0

    def data_received(self, data: bytes) -> None:
        before = self._open
        super().data_received(data)
        if before and self._open:
            self._chunks += len(data)
            if self._chunks > MOST:
                self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._open = True
        self._parts = self._chunks = 0

    def on_headers_complete(self) -> None:
        self._open = False
        self._parts = len(self.url) + sum([len(name) + len(value) for name, value in self.headers])
        if self._parts > MOST:
            raise ValueError(TOO_LARGE)  # the parser stops, and uvicorn calls send_400_response
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._parts > MOST:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(REPLY)
            self.transport.close()
