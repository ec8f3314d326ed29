"""A load on loopback: connections that each send the next request when the last one was answered."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast


@dataclass
class Load:
    """What came back: seconds in all and of each request, the statuses, and the bodies of those that were kept."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def request(path: str, body: bytes, key: str, kind: str = "application/json") -> bytes:
    """A POST as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """Sends requests one after another; when there are no more, its future is done."""

    def __init__(self, requests: Iterator[bytes], load: Load) -> None:
        self.requests, self.load, self.buffer = requests, load, b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.next()

    def next(self) -> None:
        following = next(self.requests, None)
        if following is None:
            self.transport.close()
            self.done.set_result(None)
            return
        self.sent = perf_counter()
        self.transport.write(following)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0])
        if len(self.buffer) < end + 4 + length:
            return
        status = int(head[9:12])
        self.load.latencies.append(perf_counter() - self.sent)
        self.load.statuses[status] = self.load.statuses.get(status, 0) + 1
        self.load.bodies.append(self.buffer[end + 4 : end + 4 + length])
        self.buffer = self.buffer[end + 4 + length :]
        self.next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed a connection"))


async def fire(port: int, requests: Iterator[bytes], connections: int) -> Load:
    """Send all requests over so many connections."""
    load, loop = Load(), asyncio.get_running_loop()
    begin = perf_counter()
    made = [loop.create_connection(lambda: Connection(requests, load), "127.0.0.1", port) for _ in range(connections)]
    protocols = [protocol for _, protocol in await asyncio.gather(*made)]
    await asyncio.gather(*[protocol.done for protocol in protocols])
    load.seconds = perf_counter() - begin
    return load
