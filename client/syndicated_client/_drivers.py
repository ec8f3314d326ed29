"""The two clients: one runs flows with blocking I/O and sends rewards from a thread, one with asyncio and a task."""

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

from syndicated_client._calls import Answer, Flows, QueuedReward
from syndicated_client._errors import InputError, Refused
from syndicated_client._flows import Flow, Outcome, Request

P = ParamSpec("P")
T = TypeVar("T")


class Options(TypedDict, total=False):
    """Options of both clients, with their defaults.

    timeout    seconds that one try may take (2)
    retries    further tries of a call (3)
    patience   seconds that a call may take with all its tries, and the last flush (10)
    default    the arm to play while the service is unavailable, if the request has it; or else its first arm
    buffer     rewards that may wait; beyond that the oldest are dropped (10,000)
    clock      a function that returns seconds (time.monotonic)
    """

    timeout: float
    retries: int
    patience: float
    default: str | None
    buffer: int
    clock: Callable[[], float]


class _Common:
    """What both clients have in common."""

    def __init__(self, url: str, key: str, options: Options) -> None:
        self._flows = Flows(url, key, **options)
        self._open = True

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._flows.url

    @property
    def counts(self) -> dict[str, int]:
        """Counts: retries, defaults (played), unrewarded (their rewards), and rewards sent, refused and dropped."""
        return dict(self._flows.counts)

    @property
    def waiting(self) -> int:
        """The number of rewards that wait to be sent."""
        return self._flows.waiting

    @property
    def refused(self) -> list[tuple[QueuedReward, Refused]]:
        """The last rewards that the service refused, each with its error."""
        return list(self._flows.refused)

    def _queue(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None) -> None:
        if not self._open:
            raise InputError("a client must be open to take a reward; this one is closed")
        self._flows.queue(bandit, decision, reward, event_id)


def _blocking(verb: Callable[Concatenate[Flows, P], Flow[T]]) -> Callable[Concatenate["Client", P], T]:
    """A flow as a method of the blocking client."""

    @wraps(verb)
    def call(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._run(verb(client._flows, *args, **kwargs))

    _sign(call, verb)
    return call


def _awaited(
    verb: Callable[Concatenate[Flows, P], Flow[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    """A flow as a method of the asynchronous client."""

    @wraps(verb)
    async def call(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._run(verb(client._flows, *args, **kwargs))

    _sign(call, verb)
    return call


def _sign(call: Callable[..., object], verb: Callable[..., object]) -> None:
    """Show `help` and type checkers at run time the result of the call instead of its flow."""
    signature = inspect.signature(verb)
    gives = get_args(signature.return_annotation)[-1]
    gives = None if gives is NoneType else gives
    call.__dict__["__signature__"] = signature.replace(return_annotation=gives)
    call.__annotations__ = {**call.__annotations__, "return": gives}


class Client(_Common):
    """A client for blocking code. Any number of threads may share one."""

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
        self._http = httpx.Client(base_url=self._flows.url, headers=self._flows.headers, transport=transport)
        self._closing, self._queued, self._sending = threading.Event(), threading.Event(), threading.Lock()
        self._sleep = sleep or self._closing.wait
        self._thread: threading.Thread | None = None

    decide = _blocking(Flows.decide)
    activate = _blocking(Flows.activate)
    reward_now = _blocking(Flows.reward_now)
    create = _blocking(Flows.create)
    update = _blocking(Flows.update)
    get = _blocking(Flows.get)
    list = _blocking(Flows.list)
    retire = _blocking(Flows.retire)
    arms = _blocking(Flows.arms)
    numbers = _blocking(Flows.numbers)
    put_arms = _blocking(Flows.put_arms)
    drop_arm = _blocking(Flows.drop_arm)
    decision = _blocking(Flows.decision)
    export = _blocking(Flows.export)
    models = _blocking(Flows.models)
    keep_model = _blocking(Flows.keep_model)
    model = _blocking(Flows.model)
    load_model = _blocking(Flows.load_model)
    restore_model = _blocking(Flows.restore_model)
    keys = _blocking(Flows.keys)
    create_key = _blocking(Flows.create_key)
    revoke_key = _blocking(Flows.revoke_key)

    def reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Queue a reward and return. It is sent in the background, in order, and again until it has arrived."""
        self._queue(bandit, decision, reward, event_id)
        with self._flows.lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="rewards", daemon=True)
                self._thread.start()
                atexit.register(self.close)
        self._queued.set()

    def flush(self, timeout: float | None = None) -> int:
        """Send the queued rewards, for at most `timeout` seconds (default: `patience`). Returns how many are left."""
        begun, seconds = self._flows.clock(), self._flows.patience if timeout is None else timeout
        if not self._sending.acquire(timeout=max(0.0, seconds)):
            return self.waiting
        try:
            return self._run(self._flows.flush(seconds - (self._flows.clock() - begun)))
        finally:
            self._sending.release()

    def close(self) -> None:
        """Send the queued rewards and close. Rewards that could not be sent are lost, counted and logged."""
        if self._open:
            self._open = False
            atexit.unregister(self.close)
            self.flush()
            self._closing.set()
            self._queued.set()
            if self._thread is not None:
                self._thread.join()
            self._flows.drop_waiting()
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
                    wait = self._run(self._flows.deliver())
                if wait:
                    self._sleep(wait)

    def _run(self, flow: Flow[T]) -> T:
        return _drive(flow, self._http, self._sleep)


class AsyncClient(_Common):
    """A client for asyncio. It belongs to one event loop."""

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
        self._http = httpx.AsyncClient(base_url=self._flows.url, headers=self._flows.headers, transport=transport)
        self._sending, self._sleep = asyncio.Lock(), sleep
        self._task: asyncio.Task[None] | None = None

    decide = _awaited(Flows.decide)
    activate = _awaited(Flows.activate)
    reward_now = _awaited(Flows.reward_now)
    create = _awaited(Flows.create)
    update = _awaited(Flows.update)
    get = _awaited(Flows.get)
    list = _awaited(Flows.list)
    retire = _awaited(Flows.retire)
    arms = _awaited(Flows.arms)
    numbers = _awaited(Flows.numbers)
    put_arms = _awaited(Flows.put_arms)
    drop_arm = _awaited(Flows.drop_arm)
    decision = _awaited(Flows.decision)
    export = _awaited(Flows.export)
    models = _awaited(Flows.models)
    keep_model = _awaited(Flows.keep_model)
    model = _awaited(Flows.model)
    load_model = _awaited(Flows.load_model)
    restore_model = _awaited(Flows.restore_model)
    keys = _awaited(Flows.keys)
    create_key = _awaited(Flows.create_key)
    revoke_key = _awaited(Flows.revoke_key)

    async def reward(self, bandit: str, decision: Answer | str, reward: float, event_id: str | None = None) -> None:
        """Queue a reward and return. It is sent in the background, in order, and again until it has arrived."""
        self._queue(bandit, decision, reward, event_id)
        if self._task is None:
            atexit.register(self._send_at_exit)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def flush(self, timeout: float | None = None) -> int:
        """Send the queued rewards, for at most `timeout` seconds (default: `patience`). Returns how many are left."""
        begun, seconds = self._flows.clock(), self._flows.patience if timeout is None else timeout
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._sending.acquire()
        except TimeoutError:
            return self.waiting
        try:
            return await self._run(self._flows.flush(seconds - (self._flows.clock() - begun)))
        finally:
            self._sending.release()

    async def close(self) -> None:
        """Send the queued rewards and close. Rewards that could not be sent are lost, counted and logged."""
        if self._open:
            self._open = False
            await self.flush()
            atexit.unregister(self._send_at_exit)
            if self._task is not None:
                self._task.cancel()
                with suppress(asyncio.CancelledError):
                    await self._task
            self._flows.drop_waiting()
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
                wait = await self._run(self._flows.deliver())
            if wait:
                await self._sleep(wait)

    async def _run(self, flow: Flow[T]) -> T:
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = None
            if isinstance(step, Request):
                try:
                    outcome = await self._http.request(**_arguments(step))
                except httpx.RequestError as error:
                    outcome = error
            else:
                await self._sleep(step)

    def _send_at_exit(self) -> None:
        """Send the queued rewards when there is no event loop any more."""
        with httpx.Client(base_url=self._flows.url, headers=self._flows.headers) as http:
            _drive(self._flows.flush(self._flows.patience), http, time.sleep)
        self._flows.drop_waiting()


def _drive(flow: Flow[T], http: httpx.Client, sleep: Callable[[float], object]) -> T:
    """Run a flow to its end with blocking I/O."""
    outcome: Outcome = None
    while True:
        try:
            step = flow.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result
        outcome = None
        if isinstance(step, Request):
            try:
                outcome = http.request(**_arguments(step))
            except httpx.RequestError as error:
                outcome = error
        else:
            sleep(step)


def _arguments(request: Request) -> dict[str, Any]:
    """The arguments of a request for httpx."""
    arguments: dict[str, Any] = {"method": request.method, "url": request.path, "timeout": request.timeout}
    if request.content:
        arguments |= {"content": request.content, "headers": {"content-type": request.type}}
    return arguments
