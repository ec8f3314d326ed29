"""Group commit: requests run in batches, one transaction each, and are answered when their events are durable.

    requests ─► queue ─► [ run: decide and judge ─► append, commit ─► fold into the state ] ─► replies

Nothing is answered before it is durable, and the state changes by committed events alone: a batch that could not be
committed has changed nothing. While one batch is being written the next one collects, so requests that come together
share the cost of a commit.

Several processes may share a journal. Their batches wait for nobody: each runs on its own copy of the state, with
numbers that it has reserved. How the state is brought up to the journal is in follower.py, and what is saved of it in
snapshots.py.

Two threads take part, and never at the same time in one batch. The event loop's thread owns the queue and the futures;
it runs requests that need nothing from the journal, and folds. The journal's thread is the only one that touches the
store; it runs all other batches, exclusive ones with their fold. `_loop` awaits each of its jobs, so the state has one
user at a time and needs no lock.
docs/service-internals.md has the whole protocol.
"""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Protocol, TypeVar

from syndicated.service.bandits.arms import ArmTable
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch, Request
from syndicated.service.commit.follower import Follower
from syndicated.service.commit.limits import Limits
from syndicated.service.commit.snapshots import Snapshots
from syndicated.store import Store, StoreConflictError, StoreError, UnknownCommitError
from syndicated.store._base import StoreBusyError, steady_time

MAX_BATCH_REQUESTS = 512
SLICE_SECONDS = 0.01  # of running requests, after which the event loop has its turn
COLLECT_SHARE = 1.0  # of the last batch's duration, that the next one waits for those who were answered to ask again
MAX_COLLECT_SECONDS = 0.01
BATCH_SECONDS = 0.5  # of running requests, after which the others wait for the next batch
MAX_ATTEMPTS = 3  # at a batch that another process was in the way of
MAX_RESERVED = 512  # numbers that an exclusive request reserves at once
MIN_PATIENCE_SECONDS = 0.1  # of what the clock asks for, while another process is in the way
TICK_SECONDS = 1.0  # between looks at what the clock asks for
HUNG_SECONDS = 1.0  # after which a batch that failed has kept those waiting who came after it
HANG_SECONDS = 3.0  # after which a batch counts as hanging
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
        self._wake = asyncio.Event()
        self.follower = Follower(store, self.now, self._wake.set)
        if clock is time.time:
            self.clock = steady_time if store.shared else _steady_clock(max(clock(), self.state.at))
        self.snapshots = Snapshots(store, self.follower, self.go_on, self.clock)
        self._put_off: list[Request] = []  # exclusive requests, which must see all that was committed before them
        self.failed: BaseException | None = None  # what ended the loop, if it was not `stop`
        self.store_error = ""  # why the journal cannot be used, while it cannot
        self.waiting = 0  # requests that have no answer yet
        self.held_bytes = 0  # by these, and by those that are being read
        self.exports = 0  # that are being read
        self.counts = {"batches": 0, "events": 0, "overload": 0}
        self._queue: deque[Request] = deque()
        self._wanted = 1  # requests that wake the loop
        self._in_a_row = False  # whether the batch at work came at once after another one
        self._batch_seconds = 0.0  # that the last batch has taken
        self._batch_began = math.inf  # when the batch at work began
        self._last_tick = 0.0
        self._patience = MIN_PATIENCE_SECONDS  # of what the clock asks for; twice as long each time that it ran out
        self._journal_thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._task: asyncio.Task[None] | None = None
        self._ended = threading.Event()

    # start and stop

    def start(self, scheduled: Scheduled) -> None:
        """Begin to work, for requests of the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._loop(scheduled))
        self.follower.listen(self._ended)

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        self._ended.set()
        self._wake.set()
        if self._task is not None:
            await self._task
        self._journal_thread.shutdown()
        self.store.close()

    @property
    def state(self) -> State:
        """The state as of the last batch."""
        return self.follower.state

    @property
    def ready(self) -> bool:
        hangs = self.clock() - self._batch_began > HANG_SECONDS
        return self.failed is None and not self.store_error and not hangs and not self._ended.is_set()

    async def _loop(self, scheduled: Scheduled) -> None:
        try:
            while self._queue or self._put_off or not self._ended.is_set():
                self.follower.await_model()
                self._queue_put_off()
                await self._collect(await self._serve(await self._next_batch()))
                await self._run_scheduled(scheduled)
            self.snapshots.cancel()
            self.follower.cancel()
            try:
                await self._on_journal_thread(self._run_exclusive, self.snapshots.save_at_once)
            except StoreError as error:
                log.warning("the last snapshot could not be taken, the next start will replay: %s", error)
        except BaseException as error:
            # A bug, not the journal: `_serve` takes StoreErrors. The state may be half folded, so nothing is answered
            # from it any more, and the failing health check says that the process must be started again.
            log.exception("the service has stopped")
            self.failed = error
            left = [*self._put_off, *self._queue]
            self._resolve(left, [_stopped() for _ in left])

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
        arms: ArmTable | None = None,
    ) -> "asyncio.Future[T]":
        """Queue something to run within a batch; the future has its answer once the batch is durable.

        `refs` are decisions and `keys` pairs of a bandit's name and an event's key that `run` will look up; `bandit` is
        the one that it is about, and `arms` are those that it decides on. If the queue is full this raises at once, so
        that the caller gets its 503 while there is time to try elsewhere.
        """
        self.check_room()
        self.waiting += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(run, future, refs, keys, exclusive, bandit, arms))
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

    @property
    def _follow_in(self) -> float:
        """Seconds until a shared journal is to be looked at."""
        return self.follower.due_in(away=bool(self.store_error))

    def _queue_put_off(self) -> None:
        """Queue what was put off again, before all others, once it would see all that was committed before it."""
        error, self.follower.read_error = self.follower.read_error, None
        if error is not None:
            self._refuse_put_off(error)
        if self._put_off and not self.follower.lags:
            self._queue.extendleft(reversed(self._put_off))
            self._put_off.clear()

    def _refuse_put_off(self, error: StoreError) -> None:
        """Answer those that were put off: nobody knows how long what they wait for cannot be read."""
        self._resolve(self._put_off, [Problem(503, "unavailable", str(error)) for _ in self._put_off])
        self._put_off.clear()

    async def _next_batch(self) -> list[Request]:
        """The requests of the next batch, in their order; none if the clock or another process woke the loop."""
        self._in_a_row = bool(self._queue)
        if not self._queue and not self.store.is_ahead and (self.follower.lags or not self._ended.is_set()):
            await self._sleep(min(TICK_SECONDS, max(0.0, self._follow_in)))
        self._wake.clear()
        requests: list[Request] = []
        while self._queue and len(requests) < MAX_BATCH_REQUESTS:
            if self._queue[0].exclusive and self.follower.lags:
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
        """Commit; again if another process was first with the same event id, and now has it in the journal.

        If one is in the way each time the requests are refused. The journal is not away by that, and others go on.
        """
        conflict = ""
        for _ in range(MAX_ATTEMPTS):
            try:
                return await self._commit(requests)
            except StoreConflictError as error:
                conflict = str(error)
        return [Problem(503, "unavailable", conflict) for _ in requests]

    async def _commit(self, requests: Sequence[Request]) -> Sequence[Any]:
        """Run requests in one transaction, fold what it appended, and give the answers.

        There are four ways:
        - no requests: see what other processes have appended, and fold what is settled; or give up numbers that were
          reserved for requests that have not come;
        - an exclusive request: all of it on the journal's thread, because it uses the store and may take long;
        - requests that need nothing from a journal of our own: run at once, and one write at the end;
        - all others: on the journal's thread, in a transaction that begins before they run, for looking up. In a shared
          journal it reserves their numbers, and excludes nobody.

        Until `_take_in` the state is as it was. So whatever raises before, the requests, the append or the commit,
        leaves nothing to undo here; the store rolls the transaction back.
        """
        if not requests:
            if self._follow_in <= 0:
                await self._on_journal_thread(self.follower.catch_up)
            elif self.store.is_ahead:
                await self._on_journal_thread(self.store.give_up_numbers)
            return ()
        if requests[0].exclusive:
            run = self._run_exclusive if requests[0].future else self._run_for_clock
            return await self._on_journal_thread(run, requests[0].run)
        if self.store.shared and any(request.bandit not in self.state.names for request in requests):
            await self._on_journal_thread(self.follower.catch_up)  # another process may have just made it
        # After a failure too: the commit may have succeeded without our hearing of it, see `_serve`.
        if (
            self.store.shared
            or self.store_error
            or any(self._needs_lookup(request) for request in requests if request.refs or request.keys)
        ):
            batch, answers = await self._on_journal_thread(self._run_entry, requests)
        else:
            batch = self._batch(count(self.state.seq + 1), requests)
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

    def _batch(self, numbers: Iterable[int], requests: Iterable[Request] = ()) -> Batch:
        unsettled = self.follower.unsettled
        return Batch(self.state, self.store, self.now(), numbers, unsettled.turns, unsettled.salt, requests)

    def _run_entry(self, requests: Sequence[Request]) -> tuple[Batch, list[Any]]:
        """A batch in a transaction that begins before it runs, on the journal's thread: the batch, and its answers.

        To run the requests here, and not on the loop's thread, costs less than to wake that one twice more. If it is
        time to look at a shared journal, that comes first: it costs least while this thread is at work. So it does
        after a failure, which may have been to read what others wrote.
        """
        if self.store_error or self._follow_in <= 0:
            self.follower.catch_up()
        with self.store.entry(len(requests)) as numbers:
            if not self.store.shared:
                self.follower.fold_upto(numbers[0] - 1)  # what was committed without our hearing of it, see `_serve`
            batch = self._batch(numbers, requests)
            self._fetch(batch, requests)
            if batch.latest_known > numbers[0]:
                # These numbers were reserved ahead, and another process has written meanwhile: a reward comes after the
                # decision that it is about, and after earlier ones.
                batch.number_by(self.store.reserve(len(requests)))
            answers, end = [], time.perf_counter() + BATCH_SECONDS
            for request in requests:
                answers.append(batch.answer(request.run))
                if time.perf_counter() > end:
                    break
            if batch.events:
                self.store.append(batch.events, self._expected_requests, self.follower.summary(batch))
        return batch, answers

    @property
    def _expected_requests(self) -> int:
        """How many come at once after the batch at work, if it came so itself: all that wait, its own callers too.

        None if a shared journal is looked at before, which gives up what was reserved for them.
        """
        goes_on = self._in_a_row and self._follow_in > self._batch_seconds
        return min(self.waiting, MAX_BATCH_REQUESTS) if goes_on else 0

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

    def _run_for_clock(self, run: Callable[[Batch], Any]) -> list[Any]:
        """An exclusive request that nobody waits for: it lets others wait no longer than a moment, and is put off.

        Another process may have been stopped while it held numbers, and is cut off after 2 s.
        """
        try:
            answers, self._patience = self._run_exclusive(run, self._patience), MIN_PATIENCE_SECONDS
        except StoreBusyError:
            self._patience *= 2
            return [None]
        return answers

    def _run_exclusive(self, run: Callable[[Batch], Any], patience: float = math.inf) -> list[Any]:
        """A batch of one request, from its transaction to its fold, on the journal's thread.

        No answer if another process has loaded a model, which must be read before: then it is put off.
        """
        with self.store.batch(patience) as last:
            self.follower.fold_upto(last)
            if self.state.awaited is not None:
                return []
            batch = self._batch(self._reserve_more())
            answer = batch.answer(run)
            if batch.events:
                self.store.append(batch.events)
        self._take_in(batch)
        if self.store.shared and batch.events:
            with suppress(StoreError):  # it is durable; what is away now is told by the next batch
                self.follower.catch_up(batch.events[-1].seq)
        return [answer]

    def _reserve_more(self) -> Iterator[int]:
        """Numbers for as many events as it takes."""
        size = 1
        while True:
            yield from self.store.reserve(size) if self.store.shared else count(self.state.seq + 1)
            size = min(8 * size, MAX_RESERVED)

    def _take_in(self, batch: Batch) -> None:
        """Take in what a batch has committed."""
        for act in batch.on_commit:
            act()
        self.follower.take_in(batch)
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)

    def _check_writable(self) -> None:
        """Write something that changes nothing: raises if the journal can be read and not written."""
        with self.store.batch() as last:
            self.follower.fold_upto(last)
            self.store.touch()

    async def _on_journal_thread(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run something on the journal's thread, and wait for it: the loop's thread serves connections meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._journal_thread, self._job, run, *arguments)

    def _job(self, run: Callable[..., T], *arguments: Any) -> T:
        self.store.begin_job()
        return run(*arguments)

    # what the clock asks for

    async def _run_scheduled(self, scheduled: Scheduled) -> None:
        if self.follower.lags:
            return
        if not self.store_error and self.snapshots.begin_if_due():
            await asyncio.sleep(0)  # let it begin
        now = self.clock()
        if abs(now - self._last_tick) >= TICK_SECONDS:  # also if the machine's clock was set back
            self._last_tick = now
            patience = self._patience
            for run in scheduled.due():
                await self._serve([Request(run, None, exclusive=True)])
                if self._patience > patience:  # who is in the way of one is in the way of all
                    return
            if scheduled.has_backlog and not self.store_error:
                # More is due than one piece of work takes. It goes on after the next batch, so that requests have
                # their turn in between; the batch comes at once, empty if nobody waits.
                self._last_tick = -math.inf
                self._wake.set()
                await asyncio.sleep(0)  # an empty batch awaits nothing: connections must have their turn too


def _steady_clock(start: float) -> Callable[[], float]:
    """The time since a start, whatever the machine's clock is set to: no window closes early or late by that."""
    begin = time.monotonic()
    return lambda: start + (time.monotonic() - begin)


def _unknown() -> Problem:
    return Problem(503, "commit-unknown", UNKNOWN_COMMIT)


def _stopped() -> Problem:
    return Problem(503, "stopped", STOPPED)
