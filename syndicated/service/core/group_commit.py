"""The runner: takes requests in batches, runs them, journals, and folds what was journalled.

    requests ─► queue ─► [ decide and judge ─► append, commit ─► fold into the state ] ─► replies

Nothing is answered before it is durable, and the state changes by committed events alone: a batch that could not be
committed has changed nothing. While one batch is being written the next one collects, so the cost of a commit is shared
by all that came meanwhile. With a shared journal several engines take turns, and each folds what the others wrote.

Two threads take part, and never at the same time in one batch: the event loop's, which has the requests at hand, runs
them and folds; another one waits for the journal, and does what may take long: requests that run alone.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from syndicated.service.core.batch import Batch, Request
from syndicated.service.core.messages import Problem
from syndicated.service.core.state import State
from syndicated.store import Event, Store, StoreError

LARGEST = 512  # requests of one batch
SLICE = 0.01  # seconds of running after which the event loop has its turn
POLL = 0.05  # seconds after which a shared journal is looked at, also if nobody called
TICK = 1.0  # seconds between looks at what the clock asks for
PATIENCE = 10.0  # seconds after which a batch hangs
KEEP = 20  # models kept of a bandit
SNAPSHOT = 20_000  # events between snapshots
STOPPED = "the engine has stopped; another process, or this one started again, will answer"

T = TypeVar("T")
log = logging.getLogger("syndicated")


class Runner:
    """Runs what is submitted, in batches, on the state of a journal."""

    def __init__(self, store: Store, *, limit: int = 1024, clock: Callable[[], float] = time.time) -> None:
        self.store, self.limit, self.clock = store, limit, clock
        self.secret = store.secret
        with store.view():
            self.state = State.of(store)
        self.failed: BaseException | None = None
        self.away = ""  # why the journal cannot be used, while it cannot
        self.waiting = 0  # requests that have no answer yet
        self.staleness = 0.0  # seconds that the last event of another engine was old when it was folded here
        self.counts: dict[str, int] = {"repeated": 0, "conflict": 0, "batches": 0, "events": 0, "overload": 0}
        self._queue: deque[Request] = deque()
        self._called = asyncio.Event()
        self._snapped = self.state.snapped
        self._begun = math.inf  # when the batch that is at work began
        self._ticked = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._work: asyncio.Task[None] | None = None
        self._ended = threading.Event()

    # life

    def start(self) -> None:
        """Begin to work, for requests of the running event loop."""
        loop = asyncio.get_running_loop()
        self._work = loop.create_task(self._go())
        if self.store.shared:
            threading.Thread(target=self._listen, args=(loop,), name="listener", daemon=True).start()

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        self._ended.set()
        self._called.set()
        if self._work is not None:
            await self._work
        self._thread.shutdown()
        self.store.close()

    @property
    def ready(self) -> bool:
        hangs = self.clock() - self._begun > PATIENCE
        return self.failed is None and not self.away and not hangs and not self._ended.is_set()

    async def _go(self) -> None:
        try:
            while self._queue or not self._ended.is_set():
                await self._serve(await self._take())
                await self._keep_time()
            try:
                await self._aside(self._run_alone, self.keep_models)
            except StoreError as error:
                log.warning("the last snapshot could not be taken, the next start will replay: %s", error)
        except BaseException as error:
            log.exception("the engine has stopped")
            self.failed = error
            self._answer(self._queue, [_stopped() for _ in self._queue])

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Call when others have appended something."""
        while not self._ended.is_set():
            try:
                self.store.wait(TICK)
            except StoreError:
                self._ended.wait(TICK)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._called.set)

    async def _take(self) -> list[Request]:
        """The requests of the next batch, in their order; none if the clock or another engine called."""
        if not self._queue and not self._ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL if self.store.shared else TICK):
                    await self._called.wait()
        self._called.clear()
        requests: list[Request] = []
        while self._queue and len(requests) < LARGEST:
            if self._queue[0].alone and requests:
                break
            requests.append(self._queue.popleft())
            if requests[-1].alone:
                break
        return requests

    async def _serve(self, requests: Sequence[Request]) -> None:
        """One batch, and its answers."""
        self._begun = self.clock()
        answers: Sequence[Any]
        written = self.counts["events"]
        try:
            answers = await self._commit(requests)
            if self.away:
                if self.counts["events"] == written:
                    await self._aside(self._try_to_write)
                log.warning("the journal is back; it was away: %s", self.away)
                self.away = ""
        except StoreError as error:
            if not self.away:
                log.error("the journal is away: %s", error)
            self.away = str(error)
            answers = [Problem(503, "unavailable", str(error)) for _ in requests]
        except BaseException:
            self._answer(requests, [_stopped() for _ in requests])
            raise
        self._begun = math.inf
        self._answer(requests, answers)

    def _try_to_write(self) -> None:
        """The journal was away, and can be read again; it is back when it can be written."""
        with self.store.batch() as last:
            self._follow(last)
            self.store.touch()

    def _answer(self, requests: Iterable[Request], answers: Sequence[Any]) -> None:
        for request, answer in zip(requests, answers, strict=True):
            future = request.future
            if future is None:
                continue
            self.waiting -= 1
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    # batches

    async def _commit(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Run requests in one transaction, fold what it appended, and give the answers."""
        if not requests:
            if self.store.shared:
                await self._aside(self._look)
            return ()
        if requests[0].alone:
            return [await self._aside(self._run_alone, requests[0].run)]
        transaction = ExitStack()
        early = self.store.shared or bool(self.away) or any(map(self._must_look_up, requests))
        try:
            if early:
                batch = await self._aside(self._begin, transaction, requests)
            else:
                batch = Batch(self.state, self.store, self.clock())
            answers = await self._run_all(requests, batch)
            if early:
                await self._aside(self._end, transaction, batch.events)
            elif batch.events:
                await self._aside(self.store.write, batch.events)
        except BaseException as error:
            await self._aside(transaction.__exit__, type(error), error, error.__traceback__)
            raise
        self._fold(batch)
        return answers

    def _must_look_up(self, request: Request) -> bool:
        return bool(request.keys) or any(self.state.record(seq) is None for seq in request.refs)

    def _begin(self, transaction: ExitStack, requests: Sequence[Request]) -> Batch:
        """Begin a transaction, fold what others appended before it, and look up what requests ask for."""
        self._follow(transaction.enter_context(self.store.batch()))
        batch = Batch(self.state, self.store, self.clock())
        names = self.state.names
        keys = [(names[name].id, key) for request in requests for name, key in request.keys if name in names]
        batch.fetch([seq for request in requests for seq in request.refs], keys)
        return batch

    def _end(self, transaction: ExitStack, events: Sequence[Event]) -> None:
        if events:
            self.store.append(events)
        transaction.close()

    async def _run_all(self, requests: Sequence[Request], batch: Batch) -> list[Any]:
        answers, end = [], time.perf_counter() + SLICE
        for request in requests:
            answers.append(batch.answer(request.run))
            if time.perf_counter() > end:
                await asyncio.sleep(0)
                end = time.perf_counter() + SLICE
        return answers

    def _run_alone(self, run: Callable[[Batch], Any]) -> Any:
        with self.store.batch() as last:
            self._follow(last)
            batch = Batch(self.state, self.store, self.clock())
            answer = batch.answer(run)
            if batch.events:
                self.store.append(batch.events)
        self._fold(batch)
        return answer

    def _fold(self, batch: Batch) -> None:
        """Take in what a batch has committed."""
        for act in batch.then:
            act()
        for event in batch.events:
            self.state.fold(event, batch.record(event.seq if event.ref is None else event.ref))
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)

    def _look(self) -> None:
        """See what others have appended, as it was at one moment."""
        with self.store.view():
            self._follow(self.store.last())

    def _follow(self, last: int) -> None:
        """Fold what others have appended."""
        if last > self.state.seq:
            if not self.state.follow(self.store):
                self.state = State.of(self.store)
            self.staleness = max(0.0, self.clock() - self.state.at)

    async def _aside(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run something on the journal's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, run, *arguments)

    # what is to be done now and then

    async def _keep_time(self) -> None:
        if self.state.seq - self._snapped >= SNAPSHOT:
            await self._serve([Request(self.keep_models, None, alone=True)])
        now = self.clock()
        if now - self._ticked >= TICK:
            self._ticked = now
            for run in self.chores():
                await self._serve([Request(run, None, alone=True)])
            if not self.away and any(bandit.behind for bandit in self.state.bandits.values()):
                self._ticked = -math.inf  # again after the next batch, which comes at once
                self._called.set()

    def chores(self) -> Iterable[Callable[[Batch], Any]]:
        """What the clock asks for."""
        return ()

    def keep_models(self, batch: Batch, *, every: bool = False) -> None:
        """Take a snapshot of what has changed since the last, or of everything."""
        if every or self.state.seq > self._snapped:
            self.store.save(self.state.snapshots(every=every), KEEP)
            batch.then.append(self._kept)

    def _kept(self) -> None:
        self.state.changed.clear()
        self._snapped = self.state.seq

    def check_room(self) -> None:
        """Refuse what cannot be queued."""
        if self.failed is not None or self._ended.is_set():
            raise _stopped()
        if self.waiting >= self.limit:
            self.counts["overload"] += 1
            raise Problem(503, "overload", f"at most {self.limit} requests may wait; try again later")

    def submit(
        self,
        run: Callable[[Batch], T],
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        alone: bool = False,
    ) -> "asyncio.Future[T]":
        """Queue something to run within a batch; a full queue is refused at once."""
        self.check_room()
        self.waiting += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(run, future, refs, keys, alone))
        self._called.set()
        return future


def _stopped() -> Problem:
    return Problem(503, "stopped", STOPPED)
