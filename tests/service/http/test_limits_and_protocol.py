"""Limits on bodies, headers, rates and the queue, and HTTP on real connections."""

import asyncio
import gc
import itertools
import math
import re
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
import uvicorn
from support.api_service import ARMS, VECTOR, Api, Clock
from support.live_service import LONG_SECONDS
from support.live_service import service as running
from uvicorn.server import ServerState

from syndicated.features import binary
from syndicated.service import Limits
from syndicated.service.bandits import size_limits
from syndicated.service.bandits.problems import Problem
from syndicated.service.http import endpoints, limits, workers
from syndicated.service.http.connection import MAX_PIPELINED, MIN_READ_BYTES, Connection
from syndicated.service.http.headers import BINARY, BYTES
from syndicated.service.http.limits import MAX_JSON_BYTES, RateLimit
from syndicated.service.http.problem_documents import ProblemWithHeaders
from syndicated.service.http.server import DRAIN_SECONDS
from syndicated_client import join_body


def test_expectation_18_bodies_are_limited(play: Callable[..., None]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 50

    async def test(api: Api) -> None:
        for path in ("/v1/bandits/b/decide", "/v1/bandits", "/v1/bandits/b/log"):
            assert (await api.call("POST", path, b" " * 101)).status_code == 413
            assert (await api.call("POST", path, content=chunks())).status_code == 413
        assert (await api.call("POST", "/v1/bandits", b" " * 100)).status_code == 422

    play(test, limits=Limits(body_bytes=100))


def test_expectation_27_bodies_with_too_many_objects_are_refused_before_they_are_made(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "QUICK_BYTES", 100)
    monkeypatch.setattr(endpoints, "MAX_NESTED", 50)

    async def test(api: Api) -> None:
        await api.create()
        body = b'{"context": {"a": [' + b",".join([b"{}"] * 47) + b"]}}"
        assert "brackets" not in (await api.call("POST", "/v1/bandits/b/decide", body)).text
        reply = await api.call("POST", "/v1/bandits/b/decide", body.replace(b"{}", b"{},[]", 1))
        assert reply.status_code == 422
        assert "must have at most 50 objects and lists; got 51 brackets" in reply.json()["detail"]

    play(test)


@pytest.mark.parametrize(
    ("limit", "body", "must"),
    [
        ("MAX_TEXTS", b'{"arms":[' + b",".join([b'"a"'] * 60) + b"]}", "at most 50 texts; got 61 pairs of quotes"),
        ("MAX_VALUES", b'{"context":[' + b",".join([b"1"] * 60) + b"]}", "at most 50 values; got 59 commas"),
    ],
)
def test_expectation_27_bodies_with_too_many_texts_or_numbers_are_refused_before_they_are_made(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, limit: str, body: bytes, must: str
) -> None:
    monkeypatch.setattr(endpoints, "QUICK_BYTES", 100)
    monkeypatch.setattr(endpoints, limit, 50)
    monkeypatch.setattr(binary, "_shape", None)  # which reads the head

    async def test(api: Api) -> None:
        await api.create()
        reply = await api.call("POST", "/v1/bandits/b/decide", body)
        assert (reply.status_code, reply.json()["detail"]) == (422, f"a JSON body must have {must}")
        head = len(body).to_bytes(4, "little") + body
        reply = await api.call("POST", "/v1/bandits/b/decide", head, headers={"content-type": BINARY})
        assert (reply.status_code, reply.json()["detail"]) == (422, f"a JSON body must have {must}")
        monkeypatch.setattr(endpoints, "MAX_JSON_BYTES", 110)
        reply = await api.call("POST", "/v1/bandits/b/decide", head, headers={"content-type": BINARY})
        assert "the head of a binary body must have at most 110 bytes" in reply.json()["detail"]

    play(test)


def test_expectation_27_the_largest_requests_within_the_limits_have_fewer_objects() -> None:
    """Arms with ids and features, each of these a text or a list of texts, and a number in the place of each cell."""
    assert size_limits.MAX_CELLS + size_limits.MAX_FEATURES + 3 * size_limits.MAX_ARMS < endpoints.MAX_VALUES
    assert 2 * size_limits.MAX_FEATURES + 3 * size_limits.MAX_ARMS < endpoints.MAX_TEXTS


def test_expectation_18_rates_are_limited(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        codes = [(await api.call("GET", "/v1/bandits")).status_code for _ in range(3)]
        assert codes == [200, 429, 429]
        page = await api.client.get("/")
        assert page.status_code == 429
        assert 1 <= int(page.headers["retry-after"]) <= 10_000
        assert "key may send 0.0001 requests a second" in page.text
        other = await api.key("decide")
        assert (await api.call("POST", "/v1/bandits/b/decide", {}, key=other)).status_code == 404
        assert (await api.call("GET", "/healthz")).status_code == 200

    play(test, limits=Limits(requests_per_second=0.0001))  # so few that none is due again while this test runs


def test_expectation_18_a_full_queue_is_refused(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        api.service.group_commit.limits = Limits(waiting_requests=0)
        reply = await api.call("POST", "/v1/bandits/b/decide", {})
        assert (reply.status_code, reply.json()["type"]) == (503, "/docs#problem-overload")

    play(test)


async def _large(api: Api, kind: str) -> dict[str, Any]:
    """A request to decide that needs 400 to 1,000 KB while it waits, by what `kind` says."""
    if kind == "registered":
        await api.create(features={"kind": "open"})
        await api.call("PUT", "/v1/bandits/b/arms", {"arms": [{"id": str(k)} for k in range(1000)]})
        return {"body": {}}
    if kind == "context":
        await api.create(features={"kind": "open"})
        return {"body": {"arms": ["a", "b"], "context": {f"field {k}": 1 for k in range(5000)}}}
    await api.create(features={"kind": "vector", "dim": 20}, policy={"name": "DiagonalUCB"})
    X = np.random.default_rng(0).normal(size=(2500, 20))
    if kind == "binary":
        return {"body": join_body({}, X), "headers": {"content-type": BINARY}}
    return {"body": {"arms": [{"id": str(k), "x": x} for k, x in enumerate(X.round(1).tolist())]}}


@pytest.mark.parametrize("kind", ["registered", "context", "binary", "vectors"])
def test_expectation_18_what_requests_hold_while_they_wait_is_bounded_in_bytes(
    kind: str, play: Callable[..., None]
) -> None:
    async def test(api: Api) -> None:
        request, overload = await _large(api, kind), api.service.counts["overload"]
        replies = await asyncio.gather(*(api.call("POST", "/v1/bandits/b/decide", **request) for _ in range(5)))
        refused = [reply.json() for reply in replies if reply.status_code != 200]
        assert 1 <= len(refused) < 5
        assert {reply["type"] for reply in refused} == {"/docs#problem-overload"}
        assert {reply["detail"] for reply in refused} == {"requests that wait may hold 1500000 bytes; try again later"}
        assert api.service.counts["overload"] == overload + len(refused)
        assert api.service.group_commit.held_bytes == 0
        assert (await api.call("POST", "/v1/bandits/b/decide", **request)).status_code == 200

    play(test, limits=Limits(waiting_bytes=1_500_000))


def test_expectation_18_bodies_of_any_request_are_held(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        request, headers = "/v1/bandits/b/models/current", {"content-type": BYTES}
        calls = (api.call("PUT", request, bytes(1_000_000), headers=headers) for _ in range(3))
        replies = await asyncio.gather(*calls)
        assert sorted(reply.status_code for reply in replies) == [422, 503, 503]  # no model, and too many bytes
        assert api.service.group_commit.held_bytes == 0

    play(test, limits=Limits(waiting_bytes=1_500_000))


def test_a_request_that_is_alone_may_hold_more_than_all_together(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        request = await _large(api, "registered")
        assert (await api.call("POST", "/v1/bandits/b/decide", **request)).status_code == 200

    play(test, limits=Limits(waiting_bytes=10))


def test_a_bucket_fills_again() -> None:
    clock = Clock()
    rate = RateLimit(0.5, clock)
    rate.take("key")
    with pytest.raises(ProblemWithHeaders) as refused:
        rate.take("key")
    assert refused.value.headers == {"retry-after": "2"}
    clock.now += 2
    rate.take("key")


def _answer(port: int, parts: Iterable[bytes]) -> bytes:
    """The first bytes of an answer to what is sent until there is one."""
    with socket.create_connection(("127.0.0.1", port), timeout=LONG_SECONDS) as caller:
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                caller.sendall(part)
        return caller.recv(12)


def _calling(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=LONG_SECONDS)


def test_headers_are_limited(tmp_path: Path) -> None:
    start, line = b"GET /healthz HTTP/1.1\r\nhost: x\r\n", b"name: " + b"x" * 1000 + b"\r\n"
    with running(tmp_path / "journal.db") as server:
        port = int(server.url.rpartition(":")[2])
        assert _answer(port, [start, line * 60, b"\r\n"]) == b"HTTP/1.1 200"
        assert _answer(port, [start, line * 70, b"\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [start + line * 70 + b"\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [b"no HTTP\r\n\r\n"]) == b"HTTP/1.1 400"
        headers = {"authorization": f"Bearer {server.key}"}
        large = {"name": "b", "spec": VECTOR | {"policy": {"name": "x" * 200_000}}}
        with httpx.Client(base_url=server.url, headers=headers, timeout=LONG_SECONDS) as client:
            assert [client.post("/v1/bandits", json=large).status_code for _ in range(2)] == [422, 422]


def test_replies_with_and_without_a_body_come_one_after_another(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server, _calling(server) as caller:
        seen = caller.makefile("rb")
        for method in ("HEAD", "GET", "HEAD"):
            caller.sendall(f"{method} /healthz HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            status, *headers = iter(seen.readline, b"\r\n")
            assert status == b"HTTP/1.1 200 OK\r\n"
            length = next(int(line.split()[1]) for line in headers if line.startswith(b"content-length"))
            seen.read(length if method == "GET" else 0)
        patient = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n"
        caller.sendall(patient + f"authorization: Bearer {server.key}\r\nconnection: close\r\n\r\n".encode())
        assert seen.readline() == b"HTTP/1.1 100 Continue\r\n"
        caller.sendall(b"{}")
        assert seen.read().startswith(b"\r\nHTTP/1.1 422 ")


def test_replies_in_parts_and_whole_ones_share_a_connection(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=LONG_SECONDS) as client:
            client.post("/v1/bandits", json={"name": "b", "spec": VECTOR}).raise_for_status()
            for count in range(1, 4):
                client.post("/v1/bandits/b/decide", json={"arms": ARMS}).raise_for_status()
                log = client.get("/v1/bandits/b/log")
                assert log.headers["transfer-encoding"] == "chunked"
                assert len(log.text.splitlines()) == count
                assert client.head("/v1/bandits/b/log").content == b""


def test_a_caller_who_will_send_no_more_is_answered(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        key = f"authorization: Bearer {server.key}\r\n\r\n".encode()
        for path in 10 * (b"/healthz", b"/v1/bandits"):  # answered at once, and after a batch
            with _calling(server) as caller:
                caller.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n" + key)
                caller.shutdown(socket.SHUT_WR)
                assert caller.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        with _calling(server) as caller:
            caller.sendall(b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nkey=")
            caller.shutdown(socket.SHUT_WR)
            assert caller.makefile("rb").read() == b""


class Timers:
    """An event loop whose time goes on to the next timer when `fire` is called."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._now = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, run: Callable[..., Any]) -> asyncio.TimerHandle:
        self._timers.append(asyncio.TimerHandle(when, run, (), self._loop))
        return self._timers[-1]

    def fire(self) -> float | None:
        """Run what is due next, and tell when it was; None if nothing waits."""
        waiting = sorted((timer for timer in self._timers if not timer.cancelled()), key=asyncio.TimerHandle.when)
        if not waiting:
            return None
        self._timers, self._now = waiting[1:], waiting[0].when()
        waiting[0]._run()
        return self._now


class Caller(asyncio.Transport):
    """The other end of a connection: keeps what the service writes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.closed, self.aborted, self.unsent = b"", False, False, 0

    def write(self, data: Any) -> None:
        assert not self.closed
        self.seen += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Line:
    """A connection to the API, and what its caller has seen."""

    def __init__(self, api: Api) -> None:
        self.timers, self.caller = Timers(), Caller()
        config = uvicorn.Config(api.app, ws="none", log_config=None)
        config.load()
        self.connection = Connection(config, ServerState(), {}, cast(Any, self.timers), limits=api.app.limits)
        self.connection.connection_made(self.caller)
        self._key = f"authorization: {api.client.headers['authorization']}\r\n".encode()

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.data_received(part.replace(b"KEY", self._key))
            await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def end(self) -> None:
        self.connection.connection_lost(None)
        await asyncio.gather(*self.connection.tasks)

    @property
    def replies(self) -> list[bytes]:
        """The status and the body of each."""
        seen = self.caller.seen.split(b"HTTP/1.1 ")[1:]
        return [reply[:4] + reply.partition(b"\r\n\r\n")[2] for reply in seen]


BEGUN = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
HALF_BODY = b"content-length: 10\r\n\r\n{"


@pytest.mark.parametrize(
    ("sent", "seconds", "answers"),
    [
        ([], 3, []),
        ([BEGUN], 3, [b"408 the headers of a request must come within 3 seconds"]),
        ([BEGUN[:9], BEGUN[9:]], 3, [b"408 the headers"]),
        ([BEGUN + b"KEY" + HALF_BODY], 7, [b"408 the body of a request must come within 7 seconds"]),
        ([BEGUN + b"KEY", HALF_BODY, b"{"], 7, [b"408 the body"]),
        ([BEGUN + HALF_BODY], 7, [b"401 "]),  # answered before its body has come
        ([BEGUN + HALF_BODY, b"123456789"], 3, [b"401 "]),
        ([WHOLE], 3, [b"200 "]),
        ([WHOLE, b"\r\n"], 3, [b"200 "]),  # which is no request
        ([WHOLE, WHOLE + BEGUN], 3, [b"200 ", b"200 ", b"408 the headers"]),
        ([WHOLE + BEGUN + b"KEY" + HALF_BODY], 7, [b"200 ", b"408 the body"]),
    ],
)
def test_expectation_26_connections_that_send_nothing_or_half_a_request_are_closed(
    play: Callable[..., None], sent: list[bytes], seconds: float, answers: list[bytes]
) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(*sent)
        closed = 0.0
        while not line.caller.closed:
            closed = line.timers.fire() or math.inf
        assert closed == seconds
        await line.end()
        assert line.timers.fire() is None
        assert all(reply.startswith(b) for reply, b in zip(line.replies, answers, strict=True)), line.replies

    play(test, limits=Limits(header_seconds=3, body_seconds=7))


def test_the_time_for_a_request_begins_with_the_last_reply(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        line.timers._now = 2.0
        await line.send(WHOLE)
        assert line.timers.fire() == 3.0  # that of the connection's start, which begins again
        assert not line.caller.closed
        assert line.timers.fire() == 5.0
        assert line.caller.closed

    play(test, limits=Limits(header_seconds=3, body_seconds=7))


def test_the_time_for_headers_begins_anew_with_the_first_byte(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(WHOLE)
        line.timers._now = 2.0
        await line.send(WHOLE[:20])
        assert line.timers.fire() == 3.0
        await line.send(WHOLE[20:])
        assert line.replies == 2 * [b'200 {"status":"ok"}']
        await line.send(WHOLE[:20])
        line.timers._now = 4.0
        await line.send(WHOLE[20:30])  # and not with each
        assert [line.timers.fire(), line.timers.fire()] == [5.0, 6.0]
        assert line.caller.closed

    play(test, limits=Limits(header_seconds=3, body_seconds=7))


def test_a_connection_that_has_ended_leaves_no_cycle(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for sent in (WHOLE, BEGUN, BEGUN + b"KEY" + HALF_BODY, WHOLE + b"garbage\r\n\r\n"):
            line = Line(api)
            await line.send(sent)
            await line.end()
            await line.settle()
            connection = weakref.ref(line.connection)
            del line
            assert connection() is None

    gc.disable()
    try:
        play(test)
    finally:
        gc.enable()


def test_expectation_26_a_caller_who_does_not_read_is_cut_off(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for closing in (b"", b"connection: close\r\n"):
            line = Line(api)
            line.caller.unsent = 9 + MIN_READ_BYTES
            await line.send(WHOLE[:-2] + closing + b"\r\n")
            if not closing:
                line.connection.pause_writing()
            line.caller.unsent = 9
            assert line.timers.fire() == 3.0  # that of the connection's start
            assert (line.timers.fire(), line.caller.aborted) == (7.0, False)  # since something was read
            line.caller.unsent = 1  # a few bytes are next to nothing
            assert (line.timers.fire(), line.caller.aborted) == (14.0, True)
            await line.end()
            assert line.timers.fire() is None

    play(test, limits=Limits(header_seconds=3, body_seconds=7))


def test_a_caller_who_reads_again_has_time_for_a_request(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(WHOLE)
        line.connection.pause_writing()
        line.timers._now = 2.0
        line.connection.resume_writing()
        assert [line.timers.fire(), line.timers.fire()] == [3.0, 5.0]
        assert line.caller.closed
        assert not line.caller.aborted

    play(test, limits=Limits(header_seconds=3, body_seconds=7))


@pytest.mark.parametrize("sent", [[], [BEGUN], [WHOLE, BEGUN], [BEGUN + b"KEY" + HALF_BODY]])
def test_expectation_22_a_stop_does_not_wait_for_what_has_not_come(
    play: Callable[..., None], sent: list[bytes]
) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(*sent)
        line.connection.shutdown()
        assert line.caller.closed
        await line.end()

    play(test)


def test_expectation_22_a_stop_answers_what_has_come(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for rest, later in ((BEGUN + HALF_BODY, b"{"), (b"", WHOLE)):
            line = Line(api)
            line.connection.data_received(WHOLE + WHOLE + rest)
            line.connection.shutdown()
            await line.send(later)
            assert line.replies == 2 * [b'200 {"status":"ok"}']
            assert line.caller.seen.count(b"connection: close") == 1
            assert line.caller.closed
            await line.end()

    play(test)
    assert DRAIN_SECONDS < workers.STOP_SECONDS


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "length", [b"content-length: %d\r\n\r\n%b", b"transfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("connection", [b"Upgrade, HTTP2-Settings", b"close, upgrade"])
def test_a_request_for_another_protocol_is_answered_as_any(
    play: Callable[..., None], connection: bytes, length: bytes, parts: int
) -> None:
    """Its body is a body, and no request, also if it looks like one."""

    async def test(api: Api) -> None:
        line = Line(api)
        head = BEGUN + b"KEYconnection: " + connection + b"\r\nupgrade: h2c\r\n"
        request = head + length % (len(WHOLE), WHOLE)
        end = request.index(b"\r\n\r\n") + 4
        after = WHOLE if b"close" not in connection else b""
        await line.send(*([request + after] if parts == 1 else [request[:end], request[end:] + after]))
        assert [reply[:3] for reply in line.replies] == ([b"422", b"200"] if after else [b"422"])
        assert line.caller.closed == (not after)
        await line.end()

    play(test)


def test_requests_for_another_protocol_come_one_after_another(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(3 * (WHOLE[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"))
        assert line.replies == 3 * [b'200 {"status":"ok"}']
        await line.send(b"CONNECT a:80 HTTP/1.1\r\n\r\n")
        assert line.replies[3:] == [b"400 this is not HTTP/1.1"]
        await line.end()

    play(test)


@pytest.mark.parametrize(
    ("rest", "refusal"),
    [
        (b"garbage\r\n\r\n", b"400 this is not"),
        (BEGUN + b"transfer-encoding: chunked\r\n\r\n?", b"400 this is not"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"431 the address"),
        (WHOLE * MAX_PIPELINED, b"400 at most 100 requests"),
    ],
)
def test_what_is_no_request_is_refused_after_the_replies_that_are_due(
    play: Callable[..., None], rest: bytes, refusal: bytes
) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(WHOLE + WHOLE + rest)
        await line.send(WHOLE)
        while not line.caller.closed:
            await line.settle()
        *due, last = line.replies
        assert due == max(2, rest.count(WHOLE) + 1) * [b'200 {"status":"ok"}']
        assert last.startswith(refusal)
        assert line.caller.seen.count(b"connection: close") == 1
        await line.end()

    play(test)


def test_nothing_is_read_after_a_refusal(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        line.connection.data_received(WHOLE + BEGUN + b"transfer-encoding: chunked\r\n\r\n0\r\nname: ")
        line.connection.data_received(b"x" * 70_000)
        await line.send(b"\r\n\r\n" + WHOLE)
        assert [reply[:3] for reply in line.replies] == [b"200", b"431"]
        await line.end()

    play(test)


def test_a_body_that_was_not_asked_for_ends_the_connection(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(BEGUN + b"expect: 100-continue\r\ncontent-length: 100\r\n\r\n", WHOLE)
        assert [reply[:3] for reply in line.replies] == [b"401"]
        assert b"connection: close\r\n" in line.caller.seen
        assert line.caller.closed
        await line.end()

    play(test)


def _answering(line: Line, *parts: bytes) -> None:
    """Let an application answer that sends these parts of a body, and knows no length."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": part is not parts[-1]})
        await send({"type": "http.response.body", "body": b"too late"})

    line.connection.app = app


def test_a_reply_has_chunks_only_where_the_caller_knows_them(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for version, body in ((b"1.0", b"abc"), (b"1.1", b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")):
            line = Line(api)
            _answering(line, b"a", b"bc")
            await line.send(WHOLE.replace(b"1.1", version))
            head, _, seen = line.caller.seen.partition(b"\r\n\r\n")
            assert seen == body
            assert (b"chunked" in head, line.caller.closed) == (version == b"1.1", version == b"1.0")
            await line.end()

    play(test)


def test_a_large_reply_is_not_copied(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line, large = Line(api), b"x" * 100_000
        written: list[bytes] = []
        cast(Any, line.caller).writelines = written.extend
        _answering(line, large)
        await line.send(WHOLE.replace(b"1.1", b"1.0"))
        assert written[1] is large
        await line.end()

    play(test)


def test_an_address_may_have_no_path(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        await line.send(WHOLE.replace(b"/healthz", b"http://x"))
        assert line.replies[0][:3] == b"303"
        await line.end()

    play(test)


def test_what_is_answered_to_a_caller_who_has_gone_is_dropped(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for gone in (Line.end, lambda line: line.caller.close()):
            line = Line(api)
            line.connection.data_received(WHOLE)
            ended = gone(line)
            if ended is not None:
                await ended
            for _ in range(20):
                await asyncio.sleep(0)
            assert line.caller.seen == b""
            assert not line.connection.tasks

    play(test)


def test_a_caller_who_does_not_read_is_waited_for(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)
        line.connection.pause_writing()
        await line.send(WHOLE)
        assert line.replies == []
        line.connection.resume_writing()
        await line.settle()
        assert line.replies == [b'200 {"status":"ok"}']
        await line.end()

    play(test)


def test_a_header_of_several_lines_is_not_sent(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        line = Line(api)

        async def split(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]})
            await send({"type": "http.response.body", "body": b""})

        line.connection.app = split
        await line.send(WHOLE)
        assert (line.caller.seen, line.caller.closed) == (b"", True)

    play(test)


def test_trailers_are_limited(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        port = int(server.url.rpartition(":")[2])
        start = b"POST /login HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nkey=\r\n0\r\n"
        for endless in (b"name: " + b"x" * 1000 + b"\r\n", b"x" * 1000):
            with _calling(server) as caller:
                seen = 0
                with suppress(BrokenPipeError, ConnectionResetError):
                    caller.sendall(start + b"name: ")
                    while seen < 100_000_000:
                        caller.sendall(endless * 20)
                        seen += len(endless) * 20
                assert seen < 100_000_000
        assert _answer(port, [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"]) == b"HTTP/1.1 200"
        head = f"host: x\r\nauthorization: Bearer {server.key}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        chunks = b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n"  # what stands between them is more than may stand beside
        assert _answer(port, [b"POST /v1/bandits HTTP/1.1\r\n" + head + chunks]) == b"HTTP/1.1 422"


def test_trailers_are_no_headers(tmp_path: Path) -> None:
    """What comes after the body must not take the place of what a proxy has let pass."""
    with running(tmp_path / "journal.db") as server:
        port, key = int(server.url.rpartition(":")[2]), f"authorization: Bearer {server.key}\r\n".encode()
        other = b"authorization: Bearer other\r\n"
        for before, after, status in ((key, other, b"201"), (other, key, b"401")):
            head = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n" + before + b"transfer-encoding: chunked\r\n\r\n"
            body = b"d\r\n" + b'{"name": "b"}' + b"\r\n0\r\n" + after + b"\r\n"
            assert _answer(port, [head + body]) == b"HTTP/1.1 " + status


def test_a_length_that_is_too_large_is_refused_before_the_body_comes(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        port, key = int(server.url.rpartition(":")[2]), f"authorization: Bearer {server.key}\r\n".encode()
        announced = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n" + key + b"content-length: 99999999\r\n\r\n"
        assert _answer(port, [announced]) == b"HTTP/1.1 413"


def test_a_large_body_does_not_count_as_headers_of_the_next_request(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server, _calling(server) as caller:
        head = f"authorization: Bearer {server.key}\r\ncontent-length: 200000\r\n\r\n".encode()
        caller.sendall(b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n" + head + b" " * 200_000 + b"GET /healthz HT")
        caller.sendall(b"TP/1.1\r\nconnection: close\r\nho")
        caller.sendall(b"st: x\r\n\r\n")
        answers = caller.makefile("rb").read()
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"422", b"200"]


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        parts = itertools.chain([b"GET /healthz HTTP/1.1\r\nname: "], itertools.repeat(b"x" * 10_000, 1000))
        with suppress(ConnectionResetError):
            assert _answer(int(server.url.rpartition(":")[2]), parts) == b"HTTP/1.1 431"
        assert httpx.get(f"{server.url}/healthz", timeout=LONG_SECONDS).status_code == 200


def test_expectation_27_large_requests_are_read_off_the_loop(play: Callable[..., None]) -> None:
    """What is read on another thread gives what is read at once."""

    async def test(api: Api) -> None:
        for name in ("b", "twin"):
            await api.call("POST", "/v1/bandits", {"name": name})
        arms = [{"id": str(k), "features": {"p": k}} for k in range(10)]
        for name, words in (("b", 1), ("twin", 3000)):
            asked = {"context": {"hour": 1, "words": ["w"] * words}, "arms": arms}
            assert (await api.call("POST", f"/v1/bandits/{name}/decide", asked)).status_code == 200
        large: dict[str, Any] = {"context": {f"field{k}": float(k) for k in range(20_000)}, "arms": ["a"]}
        assert (await api.call("POST", "/v1/bandits/b/decide", large)).status_code == 200
        large["context"]["wrong"] = 1e60
        assert (await api.call("POST", "/v1/bandits/b/decide", large)).status_code == 422
        assert (await api.call("POST", "/v1/bandits/b/decide", b'["' + b"x" * 300_000 + b'"]')).status_code == 422
        assert (await api.call("POST", "/v1/bandits/b/decide", b" " * (MAX_JSON_BYTES + 1))).status_code == 413
        reply = await api.call("POST", "/v1/bandits/b/decide", {"arms": [{"id": "x" * 300}]})
        assert (reply.status_code, reply.json()["type"]) == (422, "/docs#problem-invalid")

    play(test)


def test_requests_that_nobody_waits_for_do_not_pile_up(tmp_path: Path) -> None:
    """A caller who sends on and on without reading a reply is cut off."""
    with running(tmp_path / "journal.db") as server, _calling(server) as caller:
        head = f"host: x\r\nauthorization: Bearer {server.key}\r\ncontent-length: 2\r\n\r\n"
        sent = f"POST /v1/bandits/b/decide HTTP/1.1\r\n{head}{{}}".encode()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            caller.sendall(sent * 100_000)


def test_expectation_27_bodies_that_have_come_in_part_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BODIES_BYTES", 10)

    def body(parts: int) -> tuple[Callable[[], Awaitable[Any]], asyncio.Event]:
        """A body of parts of 8 bytes; the last one comes when it may."""
        left, may_end = parts, asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal left
            left -= 1
            if not left:
                await may_end.wait()
            return {"type": "http.request", "body": b"x" * 8, "more_body": left > 0}

        return receive, may_end

    async def test() -> None:
        scope: dict[str, Any] = {"headers": []}
        (alone, may_end), (other, _), (small, end) = body(4), body(2), body(1)
        first = asyncio.create_task(limits.read_body(alone, scope, 100))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="too many large bodies") as caught:
            await limits.read_body(other, scope, 100)
        assert caught.value.status == 503
        end.set()
        assert await limits.read_body(small, scope, 100) == b"x" * 8
        may_end.set()
        assert await first == b"x" * 32
        assert limits.partial_bodies.bytes == 0

    asyncio.run(test())
