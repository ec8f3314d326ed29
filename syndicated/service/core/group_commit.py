"""Group commit: requests run in batches, one transaction each, and are answered when their events are durable.

    requests ─► queue ─► [ run: decide and judge ─► append, commit ─► fold into the state ] ─► replies

Nothing is answered before it is durable, and the state changes by committed events alone: a batch that could not be
committed has changed nothing. While one batch is being written the next one collects, so requests that come together
share the cost of a commit.

Several processes may share a journal. Their batches wait for nobody: each runs on its own copy of the state, with
numbers that it has reserved. What a batch appended is folded when its place is settled, when nothing can come before it
any more; until then it waits, and is seen by the later batches of its process. So all processes fold the same events in
the same order. With a journal of its own a process folds at once.

Two threads take part, and never at the same time in one batch. The event loop's thread owns the queue and the futures;
it runs requests that need nothing from the journal, and folds. The journal's thread is the only one that touches the
store; it runs all other batches, exclusive ones with their fold. `_loop` awaits each of its jobs, so the state has one
user at a time and needs no lock.
docs/service-internals.md has the whole protocol.
"""

import asyncio
import logging
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar

from syndicated.service.core.batch import Batch, Request
from syndicated.service.core.limits import Limits
from syndicated.service.core.messages import Spec
from syndicated.service.core.model_load import ModelLoad
from syndicated.service.core.problems import Problem
from syndicated.service.core.state import SERVICE_ID, Draft, State
from syndicated.service.core.unsettled import Unsettled
from syndicated.store import DamageError, Event, Snapshot, Store, StoreConflictError, StoreError, UnknownCommitError
from syndicated.store._base import steady_time

MAX_BATCH_REQUESTS = 512
SLICE_SECONDS = 0.01  # of running requests, after which the event loop has its turn
COLLECT_SHARE = 0.5  # of the last batch's duration, that the next one waits for those who were answered to ask again
MAX_COLLECT_SECONDS = 0.01
POLL_SECONDS = 0.05  # after which a shared journal is looked at, if nobody notified before
FOLLOW_PAUSE = 5  # times the duration of the last look, until the next one: on a busy machine there are fewer
MAX_FOLLOW_SECONDS = 0.1  # of such a pause
FOLD_SECONDS = 0.03  # of folding what others wrote, after which requests have their turn
MAX_READ_EVENTS = 500  # that are surely read with one statement, unless they are large
BATCH_SECONDS = 0.5  # of running requests, after which the others wait for the next batch
MAX_ATTEMPTS = 3  # at a batch that another process was in the way of
SETTLE_SECONDS = 1.0  # that an exclusive request waits for its events to be folded here
SETTLE_PAUSE = 0.002  # between looks at whether they can be
MAX_RESERVED = 512  # numbers that an exclusive request reserves at once
TICK_SECONDS = 1.0  # between looks at what the clock asks for
HUNG_SECONDS = 1.0  # after which a batch that failed has kept those waiting who came after it
HANG_SECONDS = 3.0  # after which a batch counts as hanging
KEPT_SNAPSHOTS = 20  # of each bandit
EVENTS_PER_SNAPSHOT = 20_000
REPLAY_SECONDS = 5.0  # of folding that a start may have to repeat before a snapshot is taken, if they are sooner over
SNAPSHOT_PAUSE = 10  # times the duration of the last snapshot, which are folded before the next one
SAVE_AGAIN_SECONDS = 60  # after snapshots that could not be taken
UNKNOWN_COMMIT = (
    "the journal was lost while it committed: it is not known whether this was carried out; "
    "with an event_id a repeated request is safe"
)
STOPPED = "the service has stopped; another process, or this one started again, will answer"

T = TypeVar("T")
log = logging.getLogger("syndicated")


class Scheduled(Protocol):
    """Work that the clock asks for. It is run between batches, each piece as an exclusive request."""

    def due(self) -> Iterable[Callable[[Batch], Any]]: ...

    @property
    def has_backlog(self) -> bool:
        """Whether there is more to do at once."""
        ...


class GroupCommit:
    """Runs what is submitted, in batches, on the state of a journal."""

    def __init__(self, store: Store, limits: Limits, *, clock: Callable[[], float] = time.time) -> None:
        self.store, self.limits, self.clock = store, limits, clock
        upto, begin = store.settled(), time.perf_counter()
        with store.view():
            self.state = State.load(store, upto=upto)
        self._replay_seconds = time.perf_counter() - begin  # of folding since the last snapshot
        self._snapshot_cost = 0.0  # seconds that the last one has taken
        self._save_after = -math.inf
        if clock is time.time:
            self.clock = steady_time if store.shared else _steady_clock(max(clock(), self.state.at))
        # What this process draws must not be what another one draws. Alone it draws as the library would.
        self._unsettled = Unsettled(secrets.randbits(62) if store.shared else 0)
        self._followed = -math.inf  # when a shared journal was last looked at
        self._follow_cost = 0.0  # seconds that the last look has taken
        self._news = False  # whether another process has notified since
        self._model_reader: asyncio.Task[None] | None = None  # of one that another process loads: see `_read_model`
        self._models_read: dict[int, bytes] = {}  # the body of the event that loads it, with the model, until folded
        self._put_off: list[Request] = []  # exclusive requests, which must see all that was committed before them
        self.failed: BaseException | None = None  # what ended the loop, if it was not `stop`
        self.store_error = ""  # why the journal cannot be used, while it cannot
        self.waiting = 0  # requests that have no answer yet
        self.held_bytes = 0  # by these, and by those that are being read
        self.exports = 0  # that are being read
        self.staleness = 0.0  # seconds: how old the last event of another process was when it was folded here
        self.counts = {"batches": 0, "events": 0, "overload": 0}
        self._queue: deque[Request] = deque()
        self._wake = asyncio.Event()
        self._wanted = 1  # requests that wake the loop
        self._batch_seconds = 0.0  # that the last batch has taken
        self._snapshot_seq = self.state.snapped
        self._drafted: set[int] = set()  # bandits that are in a draft of snapshots, until one is saved
        self.saving = asyncio.Lock()  # while snapshots are on their way
        self._saver: asyncio.Task[None] | None = None  # what takes those that are due
        self._batch_began = math.inf  # when the batch at work began
        self._last_tick = 0.0
        self._journal_thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._task: asyncio.Task[None] | None = None
        self._ended = threading.Event()

    # start and stop

    def start(self, scheduled: Scheduled) -> None:
        """Begin to work, for requests of the running event loop."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._loop(scheduled))
        if self.store.shared:
            threading.Thread(target=self._listen, args=(loop,), name="listener", daemon=True).start()

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        self._ended.set()
        self._wake.set()
        if self._task is not None:
            await self._task
        self._journal_thread.shutdown()
        self.store.close()

    @property
    def ready(self) -> bool:
        hangs = self.clock() - self._batch_began > HANG_SECONDS
        return self.failed is None and not self.store_error and not hangs and not self._ended.is_set()

    async def _loop(self, scheduled: Scheduled) -> None:
        try:
            while self._queue or self._put_off or not self._ended.is_set():
                self._await_model()
                await self._collect(await self._serve(await self._next_batch()))
                await self._run_scheduled(scheduled)
            for task in filter(None, (self._saver, self._model_reader)):
                task.cancel()
            try:
                await self._on_journal_thread(self._run_exclusive, self.save_at_once)
            except StoreError as error:
                log.warning("the last snapshot could not be taken, the next start will replay: %s", error)
        except BaseException as error:
            # A bug, not the journal: `_serve` takes StoreErrors. The state may be half folded, so nothing is answered
            # from it any more, and the failing health check says that the process must be started again.
            log.exception("the service has stopped")
            self.failed = error
            left = [*self._put_off, *self._queue]
            self._resolve(left, [_stopped() for _ in left])

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the loop when another process has appended something. Runs on a thread of its own."""
        while not self._ended.is_set():
            try:
                self.store.wait(TICK_SECONDS)
            except StoreError:
                self._ended.wait(TICK_SECONDS)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._news = True
        self._wake.set()

    # the queue

    def check_room(self) -> None:
        """Refuse what cannot be queued."""
        if self.failed is not None or self._ended.is_set():
            raise _stopped()
        if self.waiting >= self.limits.waiting_requests:
            raise self._overload(f"at most {self.limits.waiting_requests} requests may wait")

    def hold(self, count: int, own: int) -> None:
        """Count bytes of a request until it is answered, `own` of which it holds already, or refuse it."""
        if self.held_bytes + count > self.limits.waiting_bytes and self.held_bytes > own:
            raise self._overload(f"requests that wait may hold {self.limits.waiting_bytes} bytes")
        self.held_bytes += count

    def _overload(self, limit: str) -> Problem:
        self.counts["overload"] += 1
        return Problem(503, "overload", f"{limit}; try again later")

    def submit(
        self,
        run: Callable[[Batch], T],
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        exclusive: bool = False,
        bandit: str = "",
    ) -> "asyncio.Future[T]":
        """Queue something to run within a batch; the future has its answer once the batch is durable.

        `refs` are decisions and `keys` pairs of a bandit's name and an event's key that `run` will look up; `bandit` is
        the one that it is about. If the queue is full this raises at once, so that the caller gets its 503 while there
        is time to try elsewhere.
        """
        self.check_room()
        self.waiting += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(run, future, refs, keys, exclusive, bandit))
        if exclusive or len(self._queue) >= self._wanted:
            self._wake.set()
        return future

    def go_on(self, run: Callable[[Batch], T]) -> "asyncio.Future[T]":
        """Queue the next piece of something that was begun: an exclusive request, also if the queue is full."""
        if self.failed is not None or self._ended.is_set():
            raise _stopped()
        self.waiting += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(run, future, exclusive=True))
        self._wake.set()
        return future

    async def _next_batch(self) -> list[Request]:
        """The requests of the next batch, in their order; none if the clock or another process woke the loop."""
        if not self._queue and (self._lags or not self._ended.is_set()):
            await self._sleep(min(TICK_SECONDS, max(0.0, self._follow_in())))
        self._wake.clear()
        requests: list[Request] = []
        while self._queue and len(requests) < MAX_BATCH_REQUESTS:
            if self._queue[0].exclusive and self._lags:
                self._put_off.append(self._queue.popleft())
                continue
            if self._queue[0].exclusive and requests:
                break
            requests.append(self._queue.popleft())
            if requests[-1].exclusive:
                break
        return requests

    async def _collect(self, answered: int) -> None:
        """Wait a moment for those who were just answered: a transaction costs as much as several decisions.

        If they ask again at once, they are in one batch with those who have asked meanwhile. There is nothing to wait
        for if these fill a batch, or if one of them is served alone.
        """
        if len(self._queue) >= MAX_BATCH_REQUESTS or any(request.exclusive for request in self._queue):
            return
        if answered > 1 and not self._ended.is_set():
            self._wanted = min(len(self._queue) + answered, MAX_BATCH_REQUESTS)
            self._wake.clear()
            await self._sleep(min(COLLECT_SHARE * self._batch_seconds, MAX_COLLECT_SECONDS))
            self._wanted = 1

    async def _sleep(self, seconds: float) -> None:
        """Wait until something wakes the loop, or for this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _follow_in(self) -> float:
        """Seconds until a shared journal is to be looked at: none if there are news."""
        if not self.store.shared or self._model_reader is not None:
            return math.inf
        if self._news and not self.store_error:
            return 0.0
        pause = max(POLL_SECONDS, min(FOLLOW_PAUSE * self._follow_cost, MAX_FOLLOW_SECONDS))
        return self._followed + pause - time.monotonic()

    async def _serve(self, requests: Sequence[Request]) -> int:
        """Run one batch, and answer its requests; how many."""
        self._batch_began, began = self.clock(), time.monotonic()
        answers: Sequence[Any]
        written = self.counts["events"]
        try:
            answers = await self._commit_in_attempts(requests)
            if self.store_error:
                # This batch may only have read, and a full disk can be read: `ready` must not come back before a write
                # has succeeded. If it fails, the answers are dropped: they would say that the store works.
                if self.counts["events"] == written:
                    await self._on_journal_thread(self._check_writable)
                log.warning("the journal is back; it was away: %s", self.store_error)
                self.store_error = ""
        except StoreError as error:
            # Nothing of the batch was folded. It is not known whether it was committed: a connection may break after
            # the commit and before its answer. Then the next batch finds the events in the log and folds them, and a
            # caller that retries with the same event id gets the decision that was made.
            if not self.store_error:
                log.error("the journal is away: %s", error)
            self.store_error = str(error)
            unknown = isinstance(error, UnknownCommitError)
            answers = [_unknown() if unknown else Problem(503, "unavailable", str(error)) for _ in requests]
            self._refuse_put_off(error)
            if time.monotonic() - began > HUNG_SECONDS:
                # Those that came meanwhile are answered too: the next attempt would cost them as long again.
                answers += [Problem(503, "unavailable", str(error)) for _ in self._queue]
                requests = [*requests, *self._queue]
                self._queue.clear()
        except BaseException:
            self._resolve(requests, [_stopped() for _ in requests])
            raise
        self._batch_began, self._batch_seconds = math.inf, time.monotonic() - began
        self._queue.extendleft(reversed(requests[len(answers) :]))  # those that this batch had no time for
        self._resolve(requests[: len(answers)], answers)
        return len(answers)

    def _resolve(self, requests: Iterable[Request], answers: Sequence[Any]) -> None:
        """Give every request its answer. On the event loop's thread, which owns the futures."""
        for request, answer in zip(requests, answers, strict=True):
            future = request.future
            if future is None:
                continue
            self.waiting -= 1
            if future.done():  # the caller has gone
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    # batches

    async def _commit_in_attempts(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Commit; again if another process was first with the same event id, and now has it in the journal."""
        for _ in range(MAX_ATTEMPTS - 1):
            with suppress(StoreConflictError):
                return await self._commit(requests)
        return await self._commit(requests)

    async def _commit(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Run requests in one transaction, fold what it appended, and give the answers.

        There are four ways:
        - no requests: see what other processes have appended, and fold what is settled;
        - an exclusive request: all of it on the journal's thread, because it uses the store and may take long;
        - requests that need nothing from a journal of our own: run at once, and one write at the end;
        - all others: on the journal's thread, in a transaction that begins before they run, for looking up. In a shared
          journal it reserves their numbers, and excludes nobody.

        Until `_take_in` the state is as it was. So whatever raises before, the requests, the append or the commit,
        leaves nothing to undo here; the store rolls the transaction back.
        """
        if not requests:
            if self._follow_in() <= 0:
                await self._on_journal_thread(self._catch_up)
            return ()
        if requests[0].exclusive:
            return await self._on_journal_thread(self._run_exclusive, requests[0].run)
        if self.store.shared and any(request.bandit not in self.state.names for request in requests):
            await self._on_journal_thread(self._catch_up)  # another process may have just made it
        # After a failure too: the commit may have succeeded without our hearing of it, see `_serve`.
        if (
            self.store.shared
            or self.store_error
            or any(self._needs_lookup(request) for request in requests if request.refs or request.keys)
        ):
            batch, answers = await self._on_journal_thread(self._run_entry, requests)
        else:
            batch = self._batch(count(self.state.seq + 1))
            answers = await self._run_all(requests, batch)
            if batch.events:
                await self._on_journal_thread(self.store.write, batch.events)
        self._take_in(batch)
        return answers

    def _needs_lookup(self, request: Request) -> bool:
        for seq in request.refs:
            if self.state.record(seq) is None:
                return True
        return bool(request.keys)

    def now(self) -> float:
        """The time of events: that of the journal's clock, if it has one, so that replicas agree."""
        return self.clock() + self.store.clock_offset

    @property
    def clock_offset(self) -> float:
        """Seconds that the time of events is ahead of this machine's clock."""
        return self.now() - time.time()

    def _batch(self, numbers: Iterable[int]) -> Batch:
        return Batch(self.state, self.store, self.now(), numbers, self._unsettled.turns, self._unsettled.salt)

    def _run_entry(self, requests: Sequence[Request]) -> tuple[Batch, list[Any]]:
        """A batch in a transaction that begins before it runs, on the journal's thread: the batch, and its answers.

        To run the requests here, and not on the loop's thread, costs less than to wake that one twice more. If it is
        time to look at a shared journal, that comes first: it costs least while this thread is at work. So it does
        after a failure, which may have been to read what others wrote.
        """
        if self.store_error or self._follow_in() <= 0:
            self._catch_up()
        with self.store.entry(len(requests)) as numbers:
            if not self.store.shared:
                self._fold_upto(numbers[0] - 1)  # what was committed without our hearing of it, see `_serve`
            batch = self._batch(numbers)
            self._fetch(batch, requests)
            answers, end = [], time.perf_counter() + BATCH_SECONDS
            for request in requests:
                answers.append(batch.answer(request.run))
                if time.perf_counter() > end:
                    break
            if batch.events:
                self.store.append(batch.events)
        return batch, answers

    def _fetch(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Look up what requests ask for."""
        names = self.state.names
        keys = [(names[name].id, key) for request in requests for name, key in request.keys if name in names]
        batch.fetch([seq for request in requests for seq in request.refs], keys)
        batch.now = self.now()  # after the wait for who held these decisions, and may have closed their windows

    async def _run_all(self, requests: Sequence[Request], batch: Batch) -> list[Any]:
        """Run requests on the loop's thread; new ones may come in between slices.

        The answers to the first of them, if there are too many for one batch: its transaction must not take long.
        """
        begin = time.perf_counter()
        answers, end = [], begin + SLICE_SECONDS
        for request in requests:
            answers.append(batch.answer(request.run))
            if (now := time.perf_counter()) > end:
                if now - begin > BATCH_SECONDS:
                    break
                await asyncio.sleep(0)
                end = time.perf_counter() + SLICE_SECONDS
        return answers

    def _run_exclusive(self, run: Callable[[Batch], Any]) -> list[Any]:
        """A batch of one request, from its transaction to its fold, on the journal's thread.

        No answer if another process has loaded a model, which must be read before: then it is put off.
        """
        with self.store.batch() as last:
            self._fold_upto(last)
            if self.state.awaited is not None:
                return []
            batch = self._batch(self._reserve_more())
            answer = batch.answer(run)
            if batch.events:
                self.store.append(batch.events)
        self._take_in(batch)
        if self.store.shared and batch.events:
            with suppress(StoreError):  # it is durable; what is away now is told by the next batch
                self._catch_up(batch.events[-1].seq)
        return [answer]

    def _reserve_more(self) -> Iterator[int]:
        """Numbers for as many events as it takes."""
        size = 1
        while True:
            yield from self.store.reserve(size) if self.store.shared else count(self.state.seq + 1)
            size = min(8 * size, MAX_RESERVED)

    def _take_in(self, batch: Batch) -> None:
        """Take in what a batch has committed: at once, or when its place in a shared journal is settled."""
        for act in batch.on_commit:
            act()
        pairs = [(event, batch.record(event.seq if event.ref is None else event.ref)) for event in batch.events]
        if self.store.shared:
            self._unsettled.add(pairs, batch.turns)
        else:
            begin = time.perf_counter()
            self.state.fold_all(pairs)
            self._replay_seconds += time.perf_counter() - begin
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)

    def _catch_up(self, wanted: int = 0) -> None:
        """Fold what is settled, as it is at one moment; wait a moment for a number that is wanted."""
        end = time.monotonic() + SETTLE_SECONDS
        try:
            while (upto := self.store.settled()) < wanted and time.monotonic() < end:
                time.sleep(SETTLE_PAUSE)
            begin = time.monotonic()
            # What is read with one statement needs no transaction to be of one moment. If there are too many bytes for
            # one, it is as if the rest were followed in a further step.
            with self.store.view() if upto - self.state.seq > MAX_READ_EVENTS else nullcontext():
                self._fold_upto(upto, FOLD_SECONDS)
            self._news, self._follow_cost = self.state.lags, time.monotonic() - begin
        finally:
            self._followed = time.monotonic()  # also if it fails: a journal that is away is not asked again at once

    def _fold_upto(self, upto: int, seconds: float = math.inf) -> None:
        """Fold what the journal has up to a number, which is settled; or as much as can be in about so long."""
        if self.state.damage:
            raise DamageError(self.state.damage)
        if upto <= self.state.seq:
            self.state.lags = False
            return
        before, begin = self.state.seq, time.perf_counter()
        read = self._models_read if self.store.shared else None
        if not self.state.follow(self.store, upto, self._unsettled.events, read, seconds):
            with self.store.view():
                self.state = State.load(self.store, upto=upto)
        self._unsettled.drop(self.state)
        self._replay_seconds += time.perf_counter() - begin
        if self.state.seq > before:
            self.staleness = max(0.0, self.now() - self.state.at)

    @property
    def _lags(self) -> bool:
        """Whether more is committed, for all that is known, than can be folded at once."""
        return self._model_reader is not None or self.state.lags

    def _await_model(self) -> None:
        """See to a large model that another process has loaded, between two batches.

        It is read beside them. Until then nothing that was committed after it is folded: this process decides on with
        what it has learned before, and puts off exclusive requests.
        """
        self._models_read = {seq: body for seq, body in self._models_read.items() if seq > self.state.seq}
        awaited = self.state.awaited
        if awaited is not None and awaited.seq not in self._models_read and self._model_reader is None:
            self._model_reader = asyncio.create_task(self._read_model(awaited, self.state.spec_after(awaited)))
        if self._put_off and not self._lags:
            self._queue.extendleft(reversed(self._put_off))
            self._put_off.clear()

    def _refuse_put_off(self, error: StoreError) -> None:
        """Answer those that were put off: nobody knows how long what they wait for cannot be read."""
        self._resolve(self._put_off, [Problem(503, "unavailable", str(error)) for _ in self._put_off])
        self._put_off.clear()

    async def _read_model(self, event: Event, spec: Spec) -> None:
        def read() -> bytes:
            with closing(self.store.reader()) as store:
                return ModelLoad.read(store, event, spec)

        try:
            self._models_read = {event.seq: await on_own_thread("models", read)}
        except StoreError as error:  # the next look at the journal begins again
            self.state.awaited, self._followed = None, time.monotonic()
            self._refuse_put_off(error)
        except Exception:  # the fold tells what is wrong with it
            self._models_read = {event.seq: event.body}
        self._model_reader = None
        self._hear()

    def _check_writable(self) -> None:
        """Write something that changes nothing: raises if the journal can be read and not written."""
        with self.store.batch() as last:
            self._fold_upto(last)
            self.store.touch()

    async def _on_journal_thread(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run something on the journal's thread, and wait for it: the loop's thread serves connections meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._journal_thread, run, *arguments)

    # what the clock asks for

    async def _run_scheduled(self, scheduled: Scheduled) -> None:
        if self._lags:
            return
        may_save = not self.store_error and not self.saving.locked() and self.clock() >= self._save_after
        if may_save and self._snapshot_is_due:
            self._saver = asyncio.create_task(self._save_if_due())
            await asyncio.sleep(0)  # let it begin
        now = self.clock()
        if abs(now - self._last_tick) >= TICK_SECONDS:  # also if the machine's clock was set back
            self._last_tick = now
            for run in scheduled.due():
                await self._serve([Request(run, None, exclusive=True)])
            if scheduled.has_backlog and not self.store_error:
                # More is due than one piece of work takes. It goes on after the next batch, so that requests have
                # their turn in between; the batch comes at once, empty if nobody waits.
                self._last_tick = -math.inf
                self._wake.set()
                await asyncio.sleep(0)  # an empty batch awaits nothing: connections must have their turn too

    @property
    def _snapshot_is_due(self) -> bool:
        """Whether a start would have much to replay: many events, or some that take long; or damaged snapshots."""
        count = self.state.seq - self._snapshot_seq
        long = self._replay_seconds > max(REPLAY_SECONDS, SNAPSHOT_PAUSE * self._snapshot_cost)
        return count >= EVENTS_PER_SNAPSHOT or (count > 0 and long) or bool(self.state.rebuilt)

    async def _save_if_due(self) -> None:
        """Save snapshots, unless another process has done so since our last ones."""
        try:
            async with self.saving:
                await self.go_on(self._see_others)
                if self._snapshot_is_due:
                    await self._save(if_due=True)
        except Problem:
            pass  # the journal is away, or this is the end: both are told elsewhere
        except StoreError as error:
            self._save_after = self.clock() + SAVE_AGAIN_SECONDS
            log.warning("no snapshot could be taken; the next attempt is in %d s: %s", SAVE_AGAIN_SECONDS, error)
        except Exception:  # for want of memory, say: the service goes on, and its log has all of it
            self._save_after = self.clock() + SAVE_AGAIN_SECONDS
            log.exception("no snapshot could be taken; the next attempt is in %d s", SAVE_AGAIN_SECONDS)

    async def save_snapshots(self) -> int:
        """Save snapshots of what has changed since the last ones; the event up to which everything is in them."""
        async with self.saving:
            try:
                return await self._save(if_due=False)
            except StoreError as error:
                raise Problem(503, "unavailable", str(error)) from None

    async def _save(self, *, if_due: bool) -> int:
        """Copy, encode and save what has changed. Others wait for pieces of copies, and with a journal of our own for
        the write at the end. A shared one takes in what is large slowly, so it is given it beside the batches.

        The snapshots are of the moment when this begins: what is folded meanwhile changes nothing that is still to be
        copied, see `RowsCopy`.
        """
        begin = time.perf_counter()
        draft = await self.go_on(self._draft)
        if draft is None:
            return self._snapshot_seq
        replayed = self._replay_seconds
        while not await self.go_on(lambda batch: draft.advance()):
            pass
        snapshots = await asyncio.to_thread(draft.encode)
        if not self.store.shared:
            await self.go_on(lambda batch: self._write(batch, snapshots, replayed))
        else:
            after = self._snapshot_seq if if_due else None  # of several that began at once the first takes them for all
            if not await on_own_thread("saver", self.store.save_beside, snapshots, KEPT_SNAPSHOTS, after):
                return self._snapshot_seq
            await self.go_on(lambda batch: self._saved(draft.seq, replayed))
        self._snapshot_cost = time.perf_counter() - begin
        return draft.seq

    def save_at_once(self, batch: Batch) -> None:
        """Within an exclusive request: save snapshots of what has changed. Everybody waits, and `saving` is held."""
        draft = self._draft(batch)
        if draft is not None:
            while not draft.advance():
                pass
            self._write(batch, draft.encode(), self._replay_seconds)

    def _draft(self, batch: Batch) -> Draft | None:
        """What is to be saved now, if anything is. What changes from now on is for the next time."""
        self._drafted |= self.state.changed
        self.state.changed = set()
        return self.state.draft(sorted(self._drafted)) if self._drafted else None

    def _see_others(self, batch: Batch) -> None:
        """Take note of snapshots that another process has saved since our last ones."""
        for newest, _, _ in batch.store.snapshot_sizes(SERVICE_ID)[:1]:
            if newest > self._snapshot_seq:
                self._snapshot_seq, self._replay_seconds = newest, 0.0

    def _write(self, batch: Batch, snapshots: Sequence[Snapshot], replayed: float) -> None:
        self.store.save(snapshots, KEPT_SNAPSHOTS)
        batch.on_commit.append(partial(self._saved, snapshots[0].seq, replayed))

    def _saved(self, seq: int, replayed: float) -> None:
        """`replayed` seconds of folding are in snapshots up to this event."""
        self._drafted, self.state.rebuilt = set(), set()
        self._snapshot_seq = max(seq, self._snapshot_seq)
        self._replay_seconds = max(0.0, self._replay_seconds - replayed)


async def on_own_thread(name: str, run: Callable[..., T], *arguments: Any) -> T:
    """Run something that may take a minute, on a thread that nobody waits for when the process ends."""
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # whoever waits may be cancelled; this goes on

    def work() -> None:
        try:
            outcome.set_result(run(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(outcome)


def _steady_clock(start: float) -> Callable[[], float]:
    """The time since a start, whatever the machine's clock is set to: no window closes early or late by that."""
    begin = time.monotonic()
    return lambda: start + (time.monotonic() - begin)


def _unknown() -> Problem:
    return Problem(503, "commit-unknown", UNKNOWN_COMMIT)


def _stopped() -> Problem:
    return Problem(503, "stopped", STOPPED)
