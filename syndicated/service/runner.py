"""The runner: one thread that takes requests in batches, runs them, journals, and folds what was journalled.

    requests ─► queue ─► [ batch: decide and judge, append, commit ] ─► fold into the state ─► replies

Nothing is answered before it is durable, and the state changes by committed events alone: a batch that could not be
committed has changed nothing. While one batch is being written the next one collects, so the cost of a commit is shared
by all that came meanwhile. With a shared journal several engines take turns, and each folds what the others wrote.
"""

import asyncio
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from syndicated.errors import SyndicatedError
from syndicated.service.api import Decided, DecideRequest, Problem
from syndicated.service.bandit import Bandit, Turn
from syndicated.service.state import Record, State, encode
from syndicated.store import Event, Store, StoreError

LARGEST = 512  # requests of one batch
POLL = 0.05  # seconds after which a shared journal is looked at, also if nobody called
TICK = 1.0  # seconds between looks at what the clock asks for
PATIENCE = 10.0  # seconds after which a batch hangs
KEEP = 20  # models kept of a bandit
SNAPSHOT = 20_000  # events between snapshots
STOPPED = Problem(503, "stopped", "the engine has stopped; another process, or this one started again, will answer")

T = TypeVar("T")
log = logging.getLogger("syndicated")


class Batch:
    """What one transaction is going to append, and what its requests may see: the state, and each other."""

    def __init__(self, state: State, store: Store, now: float) -> None:
        self.state, self.store, self.now = state, store, now
        self.events: list[Event] = []
        self.then: list[Callable[[], None]] = []  # what to do once this is committed, and only then
        self._turns: dict[int, Turn] = {}
        self._found: dict[int, Record] = {}
        self._keyed: dict[tuple[int, str], Event] = {}

    def fetch(self, refs: Iterable[int], keys: Iterable[tuple[int, str]]) -> None:
        """Look up at once what the requests will ask for and memory does not have."""
        self._find([seq for seq in refs if self.state.record(seq) is None])
        wanted = list(keys)
        if wanted:
            self._keyed = self.store.keyed(wanted)
            self._find([e.seq for e in self._keyed.values() if self.state.record(e.seq) is None])

    def _find(self, seqs: Sequence[int]) -> None:
        if seqs:
            about = self.store.about(seqs)
            for seq, event in self.store.events(seqs).items():
                if event.kind == "decide" and event.body:
                    self._found[seq] = Record(event, None, about.get(seq, ()))

    def record(self, seq: int) -> Record | None:
        """A decision, with what was said about it before and in this batch."""
        record = self._found.get(seq)
        if record is None:
            known = self.state.record(seq)
            if known is None:
                return None
            record = self._found[seq] = Record(known.event, known.decided, known.about)
        return record

    def keyed(self, bandit: int, key: str | None) -> Event | None:
        return None if key is None else self._keyed.get((bandit, key))

    def turn(self, bandit: Bandit) -> Turn:
        return self._turns.get(bandit.id) or bandit.turn()

    def take_turn(self, bandit: Bandit, after: Turn) -> None:
        self._turns[bandit.id] = after

    def add(self, bandit: int, kind: str, body: Any, **more: Any) -> Event:
        """Append an event, which requests behind this one see."""
        seq = self.state.seq + len(self.events) + 1
        event = Event(seq=seq, bandit=bandit, kind=kind, at=self.now, body=encode(body), **more)
        self.events.append(event)
        if event.ref is not None and event.ref in self._found:
            self._found[event.ref].about.append(event)
        if event.key is not None:
            self._keyed[bandit, event.key] = event
        return event

    def decide(self, bandit: int, decided: Decided, request: DecideRequest) -> Event:
        """Append a decision."""
        event = self.add(bandit, "decide", decided, key=request.event_id, subject=request.subject)
        self._found[event.seq] = Record(event, decided)
        return event


class Request:
    """Something to run within a batch, and the future that waits for its answer."""

    __slots__ = ("alone", "future", "keys", "refs", "run")

    def __init__(
        self,
        run: Callable[[Batch], Any],
        future: "asyncio.Future[Any] | None",
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        alone: bool = False,
    ) -> None:
        self.run, self.future, self.refs, self.keys, self.alone = run, future, refs, keys, alone


class Runner:
    """Runs what is submitted, in batches, on the state of a journal."""

    def __init__(self, store: Store, *, limit: int = 1024, clock: Callable[[], float] = time.time) -> None:
        self.store, self.limit, self.clock = store, limit, clock
        self.secret = store.secret
        self.state = State.of(store)
        self.failed: BaseException | None = None
        self.away = ""  # why the journal cannot be used, while it cannot
        self.staleness = 0.0  # seconds that the last event of another engine was old when it was folded here
        self.counts: dict[str, int] = {"repeated": 0, "conflict": 0, "batches": 0, "events": 0, "overload": 0}
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._carried: Request | None = None
        self._waiting = 0
        self._snapped = self.state.snapped
        self._begun = math.inf  # when the batch that is at work began
        self._ticked = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()

    # life

    def start(self) -> None:
        """Begin to work, for requests of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._threads = [threading.Thread(target=self._work, name="engine")]
        if self.store.shared:
            self._threads.append(threading.Thread(target=self._listen, name="listener", daemon=True))
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        self._ended.set()
        self._queue.put(None)
        await asyncio.to_thread(self._threads[0].join)
        self.store.close()

    @property
    def ready(self) -> bool:
        hangs = self.clock() - self._begun > PATIENCE
        return self.failed is None and not self.away and not hangs and not self._ended.is_set()

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return self._waiting

    def _work(self) -> None:
        try:
            while True:
                requests = self._take()
                if requests is None:
                    break
                self._serve(requests)
                self._keep_time()
            with suppress(StoreError):
                self._commit([Request(self.keep_models, None, alone=True)])
        except BaseException as error:
            log.exception("the engine has stopped")
            self.failed = error
            self._fail_all(STOPPED)

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                self.store.wait(TICK)
            except StoreError:
                self._ended.wait(TICK)
            self._queue.put(Request(lambda batch: None, None))

    def _take(self) -> list[Request] | None:
        """The requests of the next batch, in their order; None when there will be no more."""
        first = self._carried
        self._carried = None
        if first is None:
            try:
                first = self._queue.get(timeout=POLL if self.store.shared else TICK)
            except queue.Empty:
                return []
            if first is None:
                return None
        requests = [first]
        while not requests[-1].alone and len(requests) < LARGEST:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._queue.put(None)
                break
            if more.alone:
                self._carried = more
                break
            requests.append(more)
        return requests

    def _serve(self, requests: Sequence[Request]) -> None:
        """One batch, and its answers."""
        self._begun = self.clock()
        try:
            answers = self._commit(requests)
            if self.away:
                self._try_to_write()
        except StoreError as error:
            self.away = str(error)
            answers = [Problem(503, "unavailable", str(error))] * len(requests)
        except BaseException:
            self._answer(requests, [STOPPED] * len(requests))
            raise
        self._begun = math.inf
        self._answer(requests, answers)

    def _try_to_write(self) -> None:
        """The journal was away, and can be read again; it is back when it can be written."""
        with self.store.batch():
            self.store.touch()
        self.away = ""

    def _answer(self, requests: Sequence[Request], answers: Sequence[Any]) -> None:
        waiting = [(r.future, answer) for r, answer in zip(requests, answers, strict=True) if r.future is not None]
        if waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._resolve, waiting)

    def _resolve(self, waiting: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
        self._waiting -= len(waiting)
        for future, answer in waiting:
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _fail_all(self, error: Exception) -> None:
        """Answer whoever still waits."""
        left = [] if self._carried is None else [self._carried]
        with suppress(queue.Empty):
            while True:
                request = self._queue.get_nowait()
                left += [] if request is None else [request]
        self._answer(left, [error] * len(left))

    def _commit(self, requests: Sequence[Request]) -> list[Any]:
        """Run requests in one transaction, fold what it appended, and give the answers."""
        if not requests and not self.store.shared:
            return []
        if not any(request.future or request.alone for request in requests):
            self._follow(self.store.last())
            return [None] * len(requests)
        with self.store.batch() as last:
            self._follow(last)
            batch = Batch(self.state, self.store, self.clock())
            names = self.state.names
            keys = [(names[name].id, key) for request in requests for name, key in request.keys if name in names]
            batch.fetch([seq for request in requests for seq in request.refs], keys)
            answers = [_run(request.run, batch) for request in requests]
            if batch.events:
                self.store.append(batch.events)
        for act in batch.then:
            act()
        for event in batch.events:
            self.state.fold(event, batch.record(event.seq if event.ref is None else event.ref))
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)
        return answers

    def _follow(self, last: int) -> None:
        """Fold what others have appended."""
        if last > self.state.seq:
            if not self.state.follow(self.store):
                self.state = State.of(self.store)
            self.staleness = max(0.0, self.clock() - self.state.at)

    def _keep_time(self) -> None:
        """What is to be done now and then, beside a snapshot every so many events."""
        if self.state.seq - self._snapped >= SNAPSHOT:
            self._serve([Request(self.keep_models, None, alone=True)])
        now = self.clock()
        if now - self._ticked >= TICK:
            self._ticked = now
            for run in self.chores():
                self._serve([Request(run, None, alone=True)])

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

    def submit(
        self,
        run: Callable[[Batch], T],
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        alone: bool = False,
    ) -> "asyncio.Future[T]":
        """Queue something to run within a batch; a full queue is refused at once."""
        loop = asyncio.get_running_loop()
        if self.failed is not None or self._ended.is_set():
            raise STOPPED
        if self._waiting >= self.limit:
            self.counts["overload"] += 1
            raise Problem(503, "overload", f"at most {self.limit} requests may wait; try again later")
        self._waiting += 1
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(Request(run, future, refs, keys, alone))
        return future


def _run(run: Callable[[Batch], Any], batch: Batch) -> Any:
    """The answer to a request, or the problem with it."""
    try:
        return run(batch)
    except (Problem, StoreError) as problem:
        if isinstance(problem, StoreError):
            raise
        return problem
    except SyndicatedError as error:
        return Problem(422, "invalid", str(error))
    except Exception as error:
        log.exception("a request failed")
        return error
