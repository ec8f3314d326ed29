"""The clients against a real service on this machine, over a line that the tests cut: both take the same tests."""

import asyncio
import email.utils
import inspect
import itertools
import logging
import math
import pydoc
import subprocess
import sys
import threading
import time
import typing
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import httpx
import numpy as np
import pytest
from support.live_service import LONG_SECONDS, PATIENT, Service, free_port, service

from syndicated.features import Arm
from syndicated_client import (
    Answer,
    AsyncClient,
    Broken,
    Client,
    ClientError,
    Conflict,
    Denied,
    InputError,
    Invalid,
    Missing,
    Refused,
    Unavailable,
    _flows,
)
from syndicated_client._calls import Flows

NUMBERS = itertools.count(1)
VECTOR = {"features": {"kind": "vector", "dim": 2}}
ARMS = [{"id": "a", "x": [1.0, 0.0]}, {"id": "b", "x": [0.0, 1.0]}]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("service") / "journal.db") as running:
        yield running


class Line:
    """What lies between a client and the service.

    `fates` is what happens to the next requests: a response that comes from elsewhere, "away" if nothing is reached,
    "lost" if the reply does not come back; then everything passes. With `cut` nothing is reached until it is mended.
    """

    def __init__(self) -> None:
        self.cut = False
        self.fates: deque[httpx.Response | str] = deque()
        self.sent: list[httpx.Request] = []
        self.arrived = threading.Event()

    def fate(self, request: httpx.Request) -> httpx.Response | str:
        self.sent.append(request)
        fate = "away" if self.cut else self.fates.popleft() if self.fates else "passes"
        if fate == "away":
            raise httpx.ConnectError("nothing listens", request=request)
        return fate

    def back(self, fate: str, response: httpx.Response) -> httpx.Response:
        self.arrived.set()
        if fate == "lost":
            raise httpx.ReadError("the line was cut")
        return response


class Transport(httpx.HTTPTransport):
    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        fate = self._line.fate(request)
        if isinstance(fate, httpx.Response):
            return fate
        response = super().handle_request(request)
        response.read()
        return self._line.back(fate, response)


class AsyncTransport(httpx.AsyncHTTPTransport):
    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fate = self._line.fate(request)
        if isinstance(fate, httpx.Response):
            return fate
        response = await super().handle_async_request(request)
        await response.aread()
        return self._line.back(fate, response)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)
        await asyncio.sleep(0)


class Make(Protocol):
    """Makes a client on a line."""

    def __call__(self, line: Line | None = None, time: Time | None = None, **options: Any) -> Any: ...


@pytest.fixture(params=["blocking", "async"])
def make(request: pytest.FixtureRequest, server: Service) -> Make:
    def build(line: Line | None = None, time: Time | None = None, **options: Any) -> Any:
        options = {"url": server.url, "key": server.key, **PATIENT, **options}
        if request.param == "blocking":
            if time is not None:
                options |= {"clock": time.clock, "sleep": time.sleep}
            return Client(transport=Transport(line or Line()), **options)
        if time is not None:
            options |= {"clock": time.clock, "sleep": time.sleep_async}
        return AsyncClient(transport=AsyncTransport(line or Line()), **options)

    return build


Scenario = Callable[["Both"], Awaitable[None]]


class Both:
    """A client of either kind as one that is awaited."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.client, name)
        if not callable(verb):
            return verb

        async def call(*args: Any, **kwargs: Any) -> Any:
            result = verb(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return call


def play(make_client: Callable[[], Any], scenario: Scenario) -> None:
    """Run a scenario with a client, and close the client after it."""

    async def run() -> None:
        client = Both(make_client())
        try:
            await scenario(client)
        finally:
            await client.close()

    asyncio.run(run())


@pytest.fixture
def bandit(server: Service) -> str:
    """A bandit of the test's own."""
    name = f"bandit-{next(NUMBERS)}"
    with Client(server.url, server.key, **PATIENT) as client:
        client.create(name, VECTOR)
    return name


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that nobody notices, where the client waits by itself."""
    monkeypatch.setattr(_flows, "FIRST_PAUSE", 1e-4)


def log_of(server: Service, bandit: str) -> list[dict[str, Any]]:
    with Client(server.url, server.key, **PATIENT) as client:
        return client.export(bandit)


def rewards_of(server: Service, bandit: str) -> list[float]:
    return [line["value"] for line in log_of(server, bandit) if line["kind"] == "reward"]


def problem(status: int, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    document = {"type": "/docs#problem-busy", "status": status, "detail": "too busy"}
    return httpx.Response(status, headers=names, json=document)


def test_a_decision_and_its_reward(make: Make, server: Service, bandit: str) -> None:
    async def scenario(client: Both) -> None:
        answer = await client.decide(bandit, ARMS)
        assert isinstance(answer, Answer)
        assert answer.arm in ("a", "b")
        assert (answer.by, answer.repeated) == ("agent", False)
        await client.reward(bandit, answer, 1.0)
        assert await client.flush() == client.waiting == 0
        assert (await client.get(bandit))["rewards"] == 1
        assert client.counts["sent"] == 1

    play(make, scenario)
    assert rewards_of(server, bandit) == [1.0]


def test_expectation_25_without_a_service_the_default_arm_is_played_and_its_reward_is_dropped_quietly(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    line, time_ = Line(), Time()

    async def scenario(client: Both) -> None:
        first = await client.decide("shop", ["a", "b", "c"])
        assert (first.arm, first.by, first.decision_id, first.propensity) == ("a", "client", None, 1.0)
        assert len(line.sent) == 4
        assert len({request.read() for request in line.sent}) == 1
        assert (await client.decide("shop", ARMS, default="b")).arm == "b"
        assert (await client.decide("shop", ARMS, played="b")).arm == "b"
        assert (await client.decide("shop", np.ones((3, 2)))).arm == "0"
        assert (await client.decide("shop", np.ones((300, 2)), ids=[f"m{k}" for k in range(300)])).arm == "m0"
        assert len(line.sent) == 8  # while it is away one try is enough
        assert (await client.decide("shop", default="z")).arm == "z"
        with pytest.raises(Unavailable, match=r"^the service is not available: .+"):
            await client.decide("shop")
        caplog.clear()
        await client.reward("shop", first, 1.0)
        assert await client.reward_now("shop", first, 1.0) is None
        assert await client.activate("shop", first) is None
        assert client.waiting == 0
        assert client.counts | {"retries": 3, "defaults": 6, "unrewarded": 3, "sent": 0, "dropped": 0} == client.counts

    line.cut = True
    play(lambda: make(line, time_), scenario)
    assert caplog.records == []
    assert time_.now < 10


def test_nothing_listens(make: Make) -> None:
    async def scenario(client: Both) -> None:
        assert (await client.decide("shop", ["a", "b"])).arm == "b"
        with pytest.raises(Unavailable):
            await client.get("shop")

    play(lambda: make(Line(), Time(), url=f"http://127.0.0.1:{free_port()}", default="b"), scenario)


def test_a_default_that_is_no_arm_of_the_request_is_not_played(make: Make) -> None:
    line = Line()
    line.cut = True

    async def scenario(client: Both) -> None:
        assert (await client.decide("shop", ["a", "b"])).arm == "a"
        assert (await client.decide("shop")).arm == "z"
        with pytest.raises(InputError, match=r"^default and played must be one of the arms; got 'z'$"):
            await client.decide("shop", ["a", "b"], default="z")

    play(lambda: make(line, Time(), default="z"), scenario)


def test_a_busy_service_is_asked_again_and_not_before_the_time_it_names(make: Make, bandit: str) -> None:
    line, time_ = Line(), Time()
    date = email.utils.formatdate(time.time() + 3000, usegmt=True)
    line.fates.extend([problem(503, retry_after="3"), problem(429), problem(503, retry_after=date)])

    async def scenario(client: Both) -> None:
        assert (await client.decide(bandit, ARMS)).by == "agent"
        assert client.counts["retries"] == 3
        first, second, third = time_.pauses
        assert first == 3
        assert 0.1 <= second <= 0.2
        assert 1000 < third <= 3000  # less what this test has taken so far

    play(lambda: make(line, time_, patience=10_000), scenario)


@pytest.mark.parametrize("asked", ["60", "9" * 400])
def test_a_service_that_wants_to_be_left_alone_for_longer_than_one_is_patient_is(
    make: Make, bandit: str, asked: str
) -> None:
    line, time_ = Line(), Time()
    line.fates.append(problem(503, retry_after=asked))

    async def scenario(client: Both) -> None:
        assert (await client.decide(bandit, ARMS)).by == "client"
        assert time_.pauses == []
        assert (await client.decide(bandit, ARMS)).by == "agent"

    play(lambda: make(line, time_, patience=50), scenario)


def test_a_retry_after_that_says_nothing_is_not_followed(make: Make, bandit: str) -> None:
    line, time_ = Line(), Time()
    line.fates.extend([problem(503, retry_after="soon"), problem(503, retry_after="-5"), problem(502), problem(504)])

    async def scenario(client: Both) -> None:
        assert (await client.decide(bandit, ARMS)).by == "agent"
        assert len(time_.pauses) == 4
        assert max(time_.pauses) <= 0.8

    play(lambda: make(line, time_, retries=4), scenario)


def test_expectation_25_patience_ends_before_the_retries_do(make: Make) -> None:
    line, time_ = Line(), Time()
    line.cut = True

    async def scenario(client: Both) -> None:
        with pytest.raises(Unavailable):
            await client.list()
        assert time_.now <= 5
        assert 5 <= len(time_.pauses) <= 7

    play(lambda: make(line, time_, retries=1000, patience=5), scenario)


def test_expectation_25_a_lost_reply_is_asked_for_again_and_is_the_same_decision_once(
    make: Make, server: Service, bandit: str
) -> None:
    line = Line()
    line.fates.append("lost")
    found: list[Answer] = []

    async def scenario(client: Both) -> None:
        found.append(await client.decide(bandit, ARMS))

    play(lambda: make(line, Time()), scenario)
    (answer,) = found
    assert answer.repeated
    (line_,) = log_of(server, bandit)
    assert (line_["kind"], line_["arm"]) == ("decide", answer.arm)
    first, second = line.sent
    assert first.read() == second.read()


def test_the_callers_event_id_names_the_decision(make: Make, bandit: str) -> None:
    async def scenario(client: Both) -> None:
        first = await client.decide(bandit, ARMS, event_id="visit 7")
        again = await client.decide(bandit, ARMS, event_id="visit 7")
        assert (again.decision_id, again.arm, again.repeated) == (first.decision_id, first.arm, True)

    play(make, scenario)


@pytest.mark.usefixtures("quick")
def test_expectation_25_rewards_survive_an_outage_and_arrive_once_and_in_order(
    make: Make, server: Service, bandit: str
) -> None:
    line = Line()
    values = [0.0, 1.0, 0.25, 0.75, 0.5]

    async def scenario(client: Both) -> None:
        answers = [await client.decide(bandit, ARMS) for _ in values]
        line.cut = True
        for answer, value in zip(answers, values, strict=True):
            await client.reward(bandit, answer, value)
        assert await client.flush(0) == client.waiting == len(values)
        line.fates.extend(["lost", problem(503), "lost"])
        line.cut = False
        assert await client.flush() == client.waiting == 0
        assert client.counts["sent"] == len(values)
        assert client.refused == []

    play(lambda: make(line), scenario)
    assert rewards_of(server, bandit) == values


def test_a_flush_does_not_wait_longer_than_told_for_a_reward_that_is_being_sent(
    make: Make, server: Service, bandit: str
) -> None:
    async def scenario(client: Both) -> None:
        sending = client.client._sending
        taken = sending.acquire()
        if inspect.isawaitable(taken):
            await taken
        await client.reward(bandit, await client.decide(bandit, ARMS), 1.0)
        assert await client.flush(0) == 1
        sending.release()

    play(make, scenario)
    assert rewards_of(server, bandit) == [1.0]


def test_a_flush_without_time_still_sends_once(server: Service, bandit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_flows, "MIN_TIMEOUT", LONG_SECONDS)

    async def run() -> None:
        async with AsyncClient(server.url, server.key, **PATIENT) as client:
            await client.reward(bandit, await client.decide(bandit, ARMS), 1.0)
            assert await client.flush(0) == 0

    asyncio.run(run())


@pytest.mark.usefixtures("quick")
def test_rewards_that_are_added_up_arrive_once(make: Make, server: Service, bandit: str) -> None:
    line = Line()

    async def scenario(client: Both) -> None:
        await client.update(bandit, {"aggregate": "sum", "window": 1000})
        answer = await client.decide(bandit, ARMS)
        line.fates.append("lost")
        for value in (1.0, 1.0, 2.0):
            await client.reward(bandit, answer, value)
        await client.flush()

    play(lambda: make(line), scenario)
    assert rewards_of(server, bandit) == [1.0, 1.0, 2.0]


def test_rewards_are_sent_in_the_background(make: Make, server: Service, bandit: str) -> None:
    line = Line()

    async def scenario(client: Both) -> None:
        for value in (1.0, 0.0):  # the second finds the sender idle
            answer = await client.decide(bandit, ARMS)
            line.arrived.clear()
            await client.reward(bandit, answer, value)
            assert await asyncio.to_thread(line.arrived.wait, LONG_SECONDS)

    play(lambda: make(line), scenario)
    assert rewards_of(server, bandit) == [1.0, 0.0]


def test_the_background_tries_again_by_itself(make: Make, server: Service, bandit: str) -> None:
    line, time_ = Line(), Time()

    async def scenario(client: Both) -> None:
        answer = await client.decide(bandit, ARMS)
        line.arrived.clear()
        line.fates.extend(["away", problem(503, retry_after="7"), "away"])
        await client.reward(bandit, answer, 1.0)
        assert await asyncio.to_thread(line.arrived.wait, LONG_SECONDS)
        assert len(time_.pauses) == 3
        assert time_.pauses[1] == 7

    play(lambda: make(line, time_), scenario)
    assert rewards_of(server, bandit) == [1.0]


@pytest.mark.usefixtures("quick")
def test_closing_sends_what_waits(make: Make, server: Service, bandit: str) -> None:
    line = Line()

    async def scenario(client: Both) -> None:
        answers = [await client.decide(bandit, ARMS) for _ in range(3)]
        line.fates.extend(["away"] * 3)
        for k, answer in enumerate(answers):
            await client.reward(bandit, answer, float(k))

    play(lambda: make(line), scenario)
    assert rewards_of(server, bandit) == [0.0, 1.0, 2.0]


def test_the_end_of_a_with_block_sends_what_waits(server: Service, bandit: str) -> None:
    with Client(server.url, server.key, **PATIENT) as client:
        client.reward(bandit, client.decide(bandit, ARMS), 1.0)

    async def run() -> None:
        async with AsyncClient(server.url, server.key, **PATIENT) as client:
            await client.reward(bandit, await client.decide(bandit, ARMS), 0.5)

    asyncio.run(run())
    assert rewards_of(server, bandit) == [1.0, 0.5]


def test_what_cannot_be_sent_before_the_end_is_counted_and_logged(
    make: Make, server: Service, bandit: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line()
    line.cut = True  # from the start: a client without patience gives a real connection next to no time
    with Client(server.url, server.key, **PATIENT) as patient:
        answer = patient.decide(bandit, ARMS)
    client = Both(make(line, patience=0))

    async def run() -> None:
        await client.reward(bandit, answer, 1.0)
        await client.close()
        await client.close()
        with pytest.raises(InputError, match=r"^a client must be open to take a reward; this one is closed$"):
            await client.reward(bandit, answer, 1.0)

    asyncio.run(run())
    assert (client.waiting, client.counts["dropped"]) == (0, 1)
    assert [r.getMessage() for r in caplog.records] == ["1 rewards could not be sent and are lost"]


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_the_end_of_the_process_sends_what_waits(kind: str, server: Service, bandit: str) -> None:
    code = f"""
import asyncio
from syndicated.client import {kind}
client = {kind}({server.url!r}, {server.key!r}, **{PATIENT!r})
async def main():
    answer = client.decide({bandit!r}, {ARMS!r})
    answer = await answer if {kind == "AsyncClient"} else answer
    queued = client.reward({bandit!r}, answer, 1.0)
    if queued is not None:
        await queued
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    assert rewards_of(server, bandit) == [1.0]


@pytest.mark.usefixtures("quick")
def test_a_full_buffer_drops_the_oldest_and_says_so_once(
    make: Make, server: Service, bandit: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line()

    async def scenario(client: Both) -> None:
        answers = [await client.decide(bandit, ARMS) for _ in range(5)]
        line.cut = True
        for k, answer in enumerate(answers):
            await client.reward(bandit, answer, float(k))
        assert (client.waiting, client.counts["dropped"]) == (2, 3)
        line.cut = False

    with caplog.at_level(logging.WARNING):
        play(lambda: make(line, buffer=2), scenario)
    assert [r.getMessage() for r in caplog.records] == ["2 rewards are waiting; from now on the oldest are dropped"]
    assert rewards_of(server, bandit) == [3.0, 4.0]


def test_problems_are_errors_with_the_services_own_words(make: Make, server: Service, bandit: str) -> None:
    async def scenario(client: Both) -> None:
        with pytest.raises(Missing, match=r"^there is no bandit 'nobody' \(404 unknown-bandit\)$") as caught:
            await client.decide("nobody", ARMS)
        assert (caught.value.status, caught.value.kind) == (404, "unknown-bandit")
        with pytest.raises(Conflict, match="exists"):
            await client.create(bandit, VECTOR)
        with pytest.raises(Invalid, match=r"arms\[0\]\.x must be a list of 2 numbers; got \[1\.0\]"):
            await client.decide(bandit, [{"id": "a", "x": [1.0]}])
        with pytest.raises(Invalid, match="422"):
            await client.decide(bandit, [{"id": "a", "x": [None, 1.0]}])
        answer = await client.decide(bandit, ARMS)
        assert await client.reward_now(bandit, answer, 1.0) == "learned"
        assert await client.reward_now(bandit, answer, 1.0) == "repeated"
        with pytest.raises(Conflict, match="another reward"):
            await client.reward_now(bandit, answer, 0.0)
        with pytest.raises(Missing):
            await client.reward_now(bandit, "1-0123456789abcdef", 1.0)
        assert issubclass(Conflict, Refused)
        assert issubclass(Refused, ClientError)
        assert client.counts["retries"] == 0

    play(make, scenario)


def test_keys_that_do_not_open(make: Make, bandit: str) -> None:
    secrets: list[str] = []

    async def admin(client: Both) -> None:
        key = await client.create_key("reader", ["read"])
        secrets.append(key["secret"])
        assert "reader" in [known["name"] for known in await client.keys()]

    async def reader(client: Both) -> None:
        assert (await client.get(bandit))["name"] == bandit
        with pytest.raises(Denied, match="403 forbidden"):
            await client.decide(bandit, ARMS)
        with pytest.raises(Denied, match="403 forbidden"):
            await client.create("other", VECTOR)

    async def nobody(client: Both) -> None:
        with pytest.raises(Denied, match="401 no-key"):
            await client.decide(bandit, ARMS)

    play(make, admin)
    play(lambda: make(key=secrets[0]), reader)
    play(lambda: make(key="syn_wrong"), nobody)


def test_refused_rewards_are_collected_and_do_not_stop_the_others(
    make: Make, server: Service, bandit: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(client: Both) -> None:
        answer = await client.decide(bandit, ARMS)
        await client.reward(bandit, "1-0123456789abcdef", 1.0)
        await client.reward("nobody", answer, 1.0)
        await client.reward(bandit, answer, 1.0)
        await client.reward(bandit, answer, 0.0)
        assert await client.flush() == 0
        assert [(type(error), item.reward) for item, error in client.refused] == [
            (Missing, 1.0),
            (Missing, 1.0),
            (Conflict, 0.0),
        ]
        assert (client.counts["sent"], client.counts["refused"]) == (1, 3)

    with caplog.at_level(logging.WARNING):
        play(make, scenario)
    assert len(caplog.records) == 3
    assert rewards_of(server, bandit) == [1.0]


def test_a_service_that_fails_is_not_asked_again(make: Make, bandit: str) -> None:
    line = Line()
    line.fates.extend([httpx.Response(500, text="oh"), httpx.Response(200, text="<html>"), httpx.Response(302)])

    async def scenario(client: Both) -> None:
        with pytest.raises(Broken, match=r"^Internal Server Error \(500 unknown\)$"):
            await client.decide(bandit, ARMS)
        with pytest.raises(Broken, match=r"^the reply is not one of this service: b'<html>' \(200 not-a-reply\)$"):
            await client.decide(bandit, ARMS)
        with pytest.raises(Broken, match="302"):
            await client.list()

    play(lambda: make(line), scenario)


def test_what_must_not_happen_twice_is_only_repeated_if_it_did_not_arrive(make: Make, server: Service) -> None:
    line, name = Line(), f"bandit-{next(NUMBERS)}"

    async def scenario(client: Both) -> None:
        line.fates.extend(["away", problem(503), "lost"])
        with pytest.raises(Unavailable, match="the line was cut"):
            await client.create(name, VECTOR)
        assert client.counts["retries"] == 2
        line.fates.append("lost")
        assert (await client.get(name))["name"] == name

    play(lambda: make(line, Time()), scenario)


def test_large_tables_go_as_a_binary_body(make: Make, bandit: str) -> None:
    line = Line()
    X = np.random.default_rng(7).normal(size=(200, 2))
    ids = [f"arm {k}" for k in range(200)]

    async def scenario(client: Both) -> None:
        large = await client.decide(bandit, X, ids=ids, event_id="large")
        assert large.arm in ids
        assert int((await client.decide(bandit, X)).arm) < 200
        small = await client.decide(bandit, X[:199], ids=ids[:199])
        assert small.arm in ids[:199]
        await client.reward_now(bandit, large, 1.0)
        types = [request.headers["content-type"] for request in line.sent]
        assert types == ["application/x-syndicated"] * 2 + ["application/json"] * 2
        assert len(line.sent[0].read()) < 200 * 2 * 4 + 200 * 15
        seen = (await client.decision(bandit, large.decision_id))["decision"]
        assert seen["x"] == X.astype(np.float32)[ids.index(large.arm)].tolist()
        assert (seen["key"], seen["count"]) == ("large", 200)

    play(lambda: make(line), scenario)


def test_a_large_table_has_its_context_beside_it(make: Make, server: Service) -> None:
    name = f"bandit-{next(NUMBERS)}"

    async def scenario(client: Both) -> None:
        await client.create(name, {"features": {"kind": "vector", "dim": 2, "context": 2}})
        answer = await client.decide(name, np.ones((250, 2)), context=np.array([0.5, 2.0]), subject="ann")
        seen = (await client.decision(name, answer.decision_id))["decision"]
        assert (seen["x"], seen["subject"]) == ([0.5, 2.0, 1.0, 1.0], "ann")

    play(make, scenario)


def test_administration(make: Make) -> None:
    name = f"bandit-{next(NUMBERS)}"

    async def scenario(client: Both) -> None:
        assert (await client.create(name, VECTOR))["name"] == name
        assert (await client.update(name, {"floor": 0.5}))["spec"]["floor"] == 0.5
        assert name in [bandit["name"] for bandit in await client.list()]
        assert (await client.put_arms(name, [*ARMS, {"id": "c/d", "x": [1.0, 1.0]}]))["arms"] == 3
        assert [arm["id"] for arm in await client.arms(name)] == ["a", "b", "c/d"]
        await client.drop_arm(name, "c/d")
        answer = await client.decide(name)
        assert answer.arm in ("a", "b")
        await client.reward_now(name, answer, 1.0)
        kept, before = await client.keep_model(name), await client.model(name)
        assert (await client.models(name))[0]["version"] == kept["version"]
        await client.reward_now(name, await client.decide(name, ["b"]), 1.0)
        assert await client.model(name) != before
        await client.load_model(name, before)
        assert await client.model(name) == before
        await client.restore_model(name, kept["version"])
        assert await client.model(name) == await client.model(name, kept["version"]) == before
        lines = await client.export(name)
        assert [line["kind"] for line in lines] == ["decide", "reward"] * 2
        assert await client.export(name, after=lines[1]["seq"], limit=1) == [lines[2]]
        key = await client.create_key("gone", ["decide"])
        await client.revoke_key(key["id"])
        assert [known["revoked"] for known in await client.keys() if known["id"] == key["id"]] == [True]
        await client.retire(name)
        with pytest.raises(Conflict, match="409 retired"):
            await client.decide(name, ["a"])

    play(make, scenario)


def test_a_deferred_decision_is_activated(make: Make, bandit: str) -> None:
    async def scenario(client: Both) -> None:
        answer = await client.decide(bandit, ARMS, deferred=True)
        assert await client.reward_now(bandit, answer, 1.0) == "held"
        assert await client.activate(bandit, answer) == "learned"
        assert await client.activate(bandit, answer.decision_id) == "repeated"

    play(make, scenario)


def test_many_threads_share_a_client(server: Service, bandit: str) -> None:
    with Client(server.url, server.key, **PATIENT) as client:

        def work() -> None:
            for _ in range(10):
                client.reward(bandit, client.decide(bandit, ARMS), 1.0)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.flush() == 0
    assert rewards_of(server, bandit) == [1.0] * 40


BAD: list[tuple[dict[str, Any], str]] = [
    ({"url": "127.0.0.1:8000"}, "url must begin with http:// or https://; got '127.0.0.1:8000'"),
    ({"key": ""}, "key must be the text of a key, syn_...; got something else"),
    ({"key": "syn\n"}, "key must be the text of a key, syn_...; got something else"),
    ({"timeout": 0}, "timeout must be at least 0.05; got 0.0"),
    ({"retries": -1}, "retries must be a whole number of at least 0; got -1"),
    ({"patience": float("nan")}, "patience must be at least 0; got nan"),
    ({"buffer": 0}, "buffer must be a whole number of at least 1; got 0"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Client(**{"url": "http://127.0.0.1", "key": "syn_", **options})
    assert str(caught.value) == message


BAD_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("decide", ("",), {}, "a name or id must be a text that fits into a path; got ''"),
    ("decide", ("b", []), {}, "arms must be a list of at least one arm; got []"),
    ("decide", ("b", "news"), {}, "arms must be a list of arms; got 'news'"),
    ("decide", ("b", [{"x": [1.0]}]), {}, "an arm must be an id, which is a text, or have one; got {'x': [1.0]}"),
    ("decide", ("b", [7]), {}, "an arm must be an id, which is a text, or have one; got 7"),
    ("decide", ("b", ["a"]), {"ids": ["a"]}, "ids need arms that are a table, an array of rows; got arms ['a']"),
    ("decide", ("b", np.ones((3, 1))), {"ids": ["a"]}, "ids must be one for each of 3 rows; got 1"),
    ("decide", ("b", np.ones(3)), {}, "the arms must have shape (K, 3) with K >= 1; got shape (3,)"),
    ("decide", ("b", np.full((200, 1), np.nan)), {}, "features must be finite; arm 0, feature 0 is nan"),
    ("decide", ("b", ["a"], {"now": len}), {}, "a request must be valid as JSON; got <built-in function len>"),
    ("decide", ("b", [{"id": "a", "x": [1, math.nan]}]), {}, "arms[0].x[1] must be a finite number; got nan"),
    ("decide", ("b", [Arm("a", x=[-math.inf])]), {}, "arms[0].x[0] must be a finite number; got -inf"),
    ("decide", ("b", ["a"], np.array([0.0, np.inf])), {}, "context[1] must be a finite number; got inf"),
    ("decide", ("b", ["a"], {"user": {"age": np.nan}}), {}, "context.user.age must be a finite number; got nan"),
    ("decide", ("b", np.ones((200, 1)), {"age": np.nan}), {}, "context.age must be a finite number; got nan"),
    ("decide", ("b", np.full((2, 1), np.nan)), {}, "arms[0].x[0] must be a finite number; got nan"),
    ("put_arms", ("b", [{"id": "a", "x": (math.nan,)}]), {}, "arms[0].x[0] must be a finite number; got nan"),
    ("create", ("b", {"rewards": [0, math.inf]}), {}, "spec.rewards[1] must be a finite number; got inf"),
    ("reward", ("b", "1-a", float("nan")), {}, "reward must be finite; got nan"),
    ("reward", ("b", "1-a", "much"), {}, "reward must be a number; got 'much'"),
    ("reward", ("b", 7, 1.0), {}, "a decision must be what decide returned, or its decision_id; got 7"),
    ("reward", ("..", "1-a", 1.0), {}, "a name or id must be a text that fits into a path; got '..'"),
]


@pytest.mark.parametrize(("verb", "args", "kwargs", "message"), BAD_CALLS)
def test_bad_calls_send_nothing(
    make: Make, verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    line = Line()

    async def scenario(client: Both) -> None:
        with pytest.raises(InputError) as caught:
            await getattr(client, verb)(*args, **kwargs)
        assert str(caught.value) == message
        assert client.waiting == 0

    play(lambda: make(line), scenario)
    assert line.sent == []


def test_numpy_numbers_are_numbers(make: Make, bandit: str) -> None:
    async def scenario(client: Both) -> None:
        answer = await client.decide(bandit, [{"id": "a", "x": np.ones(2)}, {"id": "b", "x": [np.float32(1), 2]}])
        assert await client.reward_now(bandit, answer, np.float64(1)) == "learned"

    play(make, scenario)


def test_both_clients_have_every_verb_with_the_same_words() -> None:
    flows = {name for name, value in vars(Flows).items() if inspect.isgeneratorfunction(value)}
    flows |= {name for name in vars(_flows.BaseFlows) | vars(Flows.__mro__[1]) if not name.startswith("_")}
    verbs = {name for name in flows if not name.startswith("_")} - {"deliver"}
    for verb in verbs | {"reward", "close"}:
        blocking, awaited = getattr(Client, verb), getattr(AsyncClient, verb)
        assert blocking.__doc__ == awaited.__doc__ != ""
        assert inspect.iscoroutinefunction(awaited)
        assert not inspect.iscoroutinefunction(blocking)


@pytest.mark.parametrize(
    ("verb", "gives"),
    [("decide", Answer), ("activate", str | None), ("list", _flows.Rows), ("retire", None), ("model", bytes)],
)
def test_a_signature_says_what_a_verb_gives(verb: str, gives: object) -> None:
    for client in (Client, AsyncClient):
        call = getattr(client, verb)
        assert inspect.signature(call).return_annotation == gives
        assert [*inspect.signature(call).parameters] == [*inspect.signature(getattr(Flows, verb)).parameters]
        assert typing.get_type_hints(call)["return"] == (gives or type(None))
        assert "Generator" not in pydoc.render_doc(call)


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_an_address_may_end_with_that_of_the_api(make: Make, server: Service, bandit: str, end: str) -> None:
    async def scenario(client: Both) -> None:
        assert client.client.url == server.url
        assert (await client.decide(bandit, ARMS)).by == "agent"

    play(lambda: make(url=server.url + end), scenario)


def test_pauses_grow_and_differ() -> None:
    for tries in range(50):
        longest = min(30, 0.1 * 2**tries)
        pauses = {_flows.backoff(tries) for _ in range(20)}
        assert len(pauses) == 20
        assert longest / 2 <= min(pauses) <= max(pauses) <= longest
