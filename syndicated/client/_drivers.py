"""The two clients: how flows are run, and who sends the rewards that wait."""

import asyncio
import atexit
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from types import NoneType, TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack, get_args

import httpx

from syndicated.client._calls import Answer, Calls, Reward
from syndicated.client._flows import Came, Flow, Send
from syndicated.client.errors import Refused
from syndicated.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")


class Options(TypedDict, total=False):
    """What both clients may be told, with its default.

    timeout    seconds that one try may take (2)
    retries    further tries of a call (3)
    patience   seconds that a call may take with all its tries, and the last flush (10)
    default    the arm to play without a service, where it is among the request's arms; otherwise it is the first
    buffer     rewards that may wait; if there are more, the oldest are dropped (10,000)
    clock      gives seconds
    """

    timeout: float
    retries: int
    patience: float
    default: str | None
    buffer: int
    clock: Callable[[], float]


class _Common:
    """What both clients show."""

    def __init__(self, url: str, key: str, options: Options) -> None:
        self._calls = Calls(url, key, **options)
        self._open = True

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._calls.url

    @property
    def counts(self) -> dict[str, int]:
        """How many calls were repeated, default arms played and their rewards dropped; rewards sent, refused, lost."""
        return dict(self._calls.counts)

    @property
    def waiting(self) -> int:
        """How many rewards wait to be sent."""
        return self._calls.waiting

    @property
    def refused(self) -> list[tuple[Reward, Refused]]:
        """The last rewards that the service refused, and why."""
        return list(self._calls.refused)

    def _queue(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None) -> None:
        if not self._open:
            raise InputError("a client must be open to take a reward; this one was closed")
        self._calls.queue(bandit, decision, reward, event_id)


def _blocking(verb: Callable[Concatenate[Calls, P], Flow[T]]) -> Callable[Concatenate["Client", P], T]:
    """A verb of the client that blocks."""

    @wraps(verb)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(verb(client._calls, *args, **kwargs))

    _sign(call, verb)
    return call


def _awaited(
    verb: Callable[Concatenate[Calls, P], Flow[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """A verb of the client that is awaited."""

    @wraps(verb)
    async def call(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._run(verb(client._calls, *args, **kwargs))

    _sign(call, verb)
    return call


def _sign(call: Callable[..., object], verb: Callable[..., object]) -> None:
    """Let `help` and others who look see what a verb gives, instead of the flow that leads there."""
    signature = inspect.signature(verb)
    gives = get_args(signature.return_annotation)[-1]
    gives = None if gives is NoneType else gives
    call.__dict__["__signature__"] = signature.replace(return_annotation=gives)
    call.__annotations__ = {**call.__annotations__, "return": gives}


class Client(_Common):
    """The service for code that blocks; any number of threads may share one."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(url, key, options)
        self._http = httpx.Client(base_url=self._calls.url, headers=self._calls.headers, transport=transport)
        self._closing, self._queued, self._sending = threading.Event(), threading.Event(), threading.Lock()
        self._sleep = sleep or self._closing.wait
        self._thread: threading.Thread | None = None

    decide = _blocking(Calls.decide)
    activate = _blocking(Calls.activate)
    reward_now = _blocking(Calls.reward_now)
    create = _blocking(Calls.create)
    update = _blocking(Calls.update)
    get = _blocking(Calls.get)
    list = _blocking(Calls.list)
    retire = _blocking(Calls.retire)
    arms = _blocking(Calls.arms)
    put_arms = _blocking(Calls.put_arms)
    drop_arm = _blocking(Calls.drop_arm)
    decision = _blocking(Calls.decision)
    export = _blocking(Calls.export)
    models = _blocking(Calls.models)
    keep_model = _blocking(Calls.keep_model)
    model = _blocking(Calls.model)
    load_model = _blocking(Calls.load_model)
    restore_model = _blocking(Calls.restore_model)
    keys = _blocking(Calls.keys)
    create_key = _blocking(Calls.create_key)
    revoke_key = _blocking(Calls.revoke_key)

    def reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Queue a reward and return; it is sent in the background, in its order, until it has arrived."""
        self._queue(bandit, decision, reward, event_id)
        with self._calls.lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="rewards", daemon=True)
                self._thread.start()
                atexit.register(self.close)
        self._queued.set()

    def flush(self, timeout: float | None = None) -> int:
        """Send what waits, for so many seconds at most (`patience`); how many rewards still wait."""
        begun, seconds = self._calls.clock(), self._calls.patience if timeout is None else timeout
        if not self._sending.acquire(timeout=max(0.0, seconds)):
            return self.waiting
        try:
            return self._run(self._calls.flush(seconds - (self._calls.clock() - begun)))
        finally:
            self._sending.release()

    def close(self) -> None:
        """Send what waits, and end; what could not be sent is lost, counted and logged."""
        if self._open:
            self._open = False
            atexit.unregister(self.close)
            self.flush()
            self._closing.set()
            self._queued.set()
            if self._thread is not None:
                self._thread.join()
            self._calls.give_up()
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _work(self) -> None:
        while not self._closing.is_set():
            self._queued.wait()
            self._queued.clear()
            while self.waiting and not self._closing.is_set():
                with self._sending:
                    pause = self._run(self._calls.deliver())
                if pause:
                    self._sleep(pause)

    def _run(self, flow: Flow[T]) -> T:
        return _drive(flow, self._http, self._sleep)


class AsyncClient(_Common):
    """The service for code that awaits; one client belongs to one event loop."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(url, key, options)
        self._http = httpx.AsyncClient(base_url=self._calls.url, headers=self._calls.headers, transport=transport)
        self._sending, self._sleep = asyncio.Lock(), sleep
        self._task: asyncio.Task[None] | None = None

    decide = _awaited(Calls.decide)
    activate = _awaited(Calls.activate)
    reward_now = _awaited(Calls.reward_now)
    create = _awaited(Calls.create)
    update = _awaited(Calls.update)
    get = _awaited(Calls.get)
    list = _awaited(Calls.list)
    retire = _awaited(Calls.retire)
    arms = _awaited(Calls.arms)
    put_arms = _awaited(Calls.put_arms)
    drop_arm = _awaited(Calls.drop_arm)
    decision = _awaited(Calls.decision)
    export = _awaited(Calls.export)
    models = _awaited(Calls.models)
    keep_model = _awaited(Calls.keep_model)
    model = _awaited(Calls.model)
    load_model = _awaited(Calls.load_model)
    restore_model = _awaited(Calls.restore_model)
    keys = _awaited(Calls.keys)
    create_key = _awaited(Calls.create_key)
    revoke_key = _awaited(Calls.revoke_key)

    async def reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Queue a reward and return; it is sent in the background, in its order, until it has arrived."""
        self._queue(bandit, decision, reward, event_id)
        if self._task is None:
            atexit.register(self._send_at_exit)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def flush(self, timeout: float | None = None) -> int:
        """Send what waits, for so many seconds at most (`patience`); how many rewards still wait."""
        begun, seconds = self._calls.clock(), self._calls.patience if timeout is None else timeout
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._sending.acquire()
        except TimeoutError:
            return self.waiting
        try:
            return await self._run(self._calls.flush(seconds - (self._calls.clock() - begun)))
        finally:
            self._sending.release()

    async def close(self) -> None:
        """Send what waits, and end; what could not be sent is lost, counted and logged."""
        if self._open:
            self._open = False
            await self.flush()
            atexit.unregister(self._send_at_exit)
            if self._task is not None:
                self._task.cancel()
                with suppress(asyncio.CancelledError):
                    await self._task
            self._calls.give_up()
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _work(self) -> None:
        while self.waiting:
            async with self._sending:
                pause = await self._run(self._calls.deliver())
            if pause:
                await self._sleep(pause)

    async def _run(self, flow: Flow[T]) -> T:
        came: Came = None
        while True:
            try:
                step = flow.send(came)
            except StopIteration as end:
                result: T = end.value
                return result
            came = None
            if isinstance(step, Send):
                try:
                    came = await self._http.request(**_arguments(step))
                except httpx.RequestError as error:
                    came = error
            else:
                await self._sleep(step)

    def _send_at_exit(self) -> None:
        """Send what waits when there is no event loop any more."""
        with httpx.Client(base_url=self._calls.url, headers=self._calls.headers) as http:
            _drive(self._calls.flush(self._calls.patience), http, time.sleep)
        self._calls.give_up()


def _drive(flow: Flow[T], http: httpx.Client, sleep: Callable[[float], object]) -> T:
    """Run a flow to its end."""
    came: Came = None
    while True:
        try:
            step = flow.send(came)
        except StopIteration as end:
            result: T = end.value
            return result
        came = None
        if isinstance(step, Send):
            try:
                came = http.request(**_arguments(step))
            except httpx.RequestError as error:
                came = error
        else:
            sleep(step)


def _arguments(send: Send) -> dict[str, Any]:
    """A request as httpx takes it."""
    arguments: dict[str, Any] = {"method": send.method, "url": send.path, "timeout": send.timeout}
    if send.content:
        arguments |= {"content": send.content, "headers": {"content-type": send.type}}
    return arguments
