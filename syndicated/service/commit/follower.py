"""Following the journal: the state is brought up to what is committed, by this process and by others.

With a journal of its own a process folds what a batch has committed at once. Several processes may share a journal.
Then what a batch appended is folded when its place is settled, when nothing can come before it any more; until then it
waits, and is seen by the later batches of its process. So all processes fold the same events in the same order.

`GroupCommit` calls all this between two batches or within one, so the state has one user at a time and needs no lock.
The journal's thread runs `catch_up` and `fold_upto`, which use the store, and `take_in` of an exclusive request. All
else is for the event loop's thread. A listener's thread waits for notifications of other processes, and a thread
"models" reads a model that one of them has loaded; neither touches the state.
"""

import asyncio
import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from syndicated.service.bandits.messages import Spec
from syndicated.service.bandits.model_load import ModelLoad
from syndicated.service.bandits.state import State
from syndicated.service.bandits.summaries import summarize
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.own_thread import on_own_thread
from syndicated.service.commit.unsettled import Unsettled
from syndicated.store import DamageError, Event, Store, StoreError

POLL_SECONDS = 0.05  # after which a shared journal is looked at, if nobody notified before
FOLLOW_PAUSE = 5  # times the duration of the last look, until the next one: on a busy machine there are fewer
MAX_FOLLOW_SECONDS = 0.1  # of such a pause
FOLD_SECONDS = 0.03  # of folding what others wrote, after which requests have their turn
SETTLE_SECONDS = 1.0  # that an exclusive request waits for its events to be folded here
SETTLE_PAUSE = 0.002  # between looks at whether they can be
OTHERS_SECONDS = 10.0  # after the last event of another process, in which it is told what is written here
MIN_SUMMARIZED = 4  # events: by estimate fewer, of many small batches, are read as cheaply as what is told of them
LISTEN_SECONDS = 1.0  # of waiting for a notification, or for a journal that is away


class Follower:
    """The state of a journal in this process, and how far it has come with folding what is committed."""

    def __init__(self, store: Store, now: Callable[[], float], wake: Callable[[], None]) -> None:
        """`now` is the time of events. `wake` is called, on the event loop's thread, when there is more to fold."""
        self._store, self._now, self._wake = store, now, wake
        upto, begin = store.settled(), time.perf_counter()
        with store.view():
            self.state = State.load(store, upto=upto)
        self.fold_seconds = time.perf_counter() - begin  # that all folding of this process has taken
        self.staleness = 0.0  # seconds: how old the last event of another process was when it was folded here
        # What this process draws must not be what another one draws. Alone it draws as the library would.
        self.unsettled = Unsettled(secrets.randbits(62) if store.shared else 0)
        self._others_wrote = -math.inf  # when an event of another process was last folded
        self._followed = -math.inf  # when a shared journal was last looked at
        self._follow_cost = 0.0  # seconds that the last look has taken
        self._news = False  # whether another process has notified since
        self._model_reader: asyncio.Task[None] | None = None  # of one that another process loads: see `_read_model`
        self._models_read: dict[int, bytes] = {}  # the body of the event that loads it, with the model, until folded
        self.read_error: StoreError | None = None  # why one could not be read, until those who wait are told

    # when to look

    def listen(self, ended: threading.Event) -> None:
        """Be woken when another process has appended something, until this one has ended."""
        if self._store.shared:
            arguments = (asyncio.get_running_loop(), ended)
            threading.Thread(target=self._listen, args=arguments, name="listener", daemon=True).start()

    def _listen(self, loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._store.wait(LISTEN_SECONDS)
            except StoreError:
                ended.wait(LISTEN_SECONDS)
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._news = True
        self._wake()

    def due_in(self, *, away: bool) -> float:
        """Seconds until a shared journal is to be looked at: none if there are news, and it is not away."""
        if not self._store.shared or self._model_reader is not None:
            return math.inf
        if self._news and not away:
            return 0.0
        pause = max(POLL_SECONDS, min(FOLLOW_PAUSE * self._follow_cost, MAX_FOLLOW_SECONDS))
        return self._followed + pause - time.monotonic()

    @property
    def lags(self) -> bool:
        """Whether more is committed, for all that is known, than can be folded at once."""
        return self._model_reader is not None or self.state.lags

    # folding

    def take_in(self, batch: Batch) -> None:
        """Take in what a batch has committed: at once, or when its place in a shared journal is settled."""
        if self._store.shared:
            self.unsettled.add(batch.pairs(), batch.turns)
        else:
            begin = time.perf_counter()
            self.state.fold_all(batch.pairs())
            self.fold_seconds += time.perf_counter() - begin

    def summary(self, batch: Batch) -> bytes:
        """What others need of a batch to fold it; empty if there are no others, or too few events to be worth it."""
        alone = time.monotonic() - self._others_wrote > OTHERS_SECONDS
        return b"" if alone or len(batch.events) < MIN_SUMMARIZED else summarize(batch.pairs())

    def catch_up(self, wanted: int = 0) -> None:
        """Fold what is settled; wait a moment for a number that is wanted."""
        end = time.monotonic() + SETTLE_SECONDS
        try:
            while (upto := self._store.settled()) < wanted and time.monotonic() < end:
                time.sleep(SETTLE_PAUSE)
            begin = time.monotonic()
            self.fold_upto(upto, FOLD_SECONDS)
            self._news, self._follow_cost = self.state.lags, time.monotonic() - begin
        finally:
            self._followed = time.monotonic()  # also if it fails: a journal that is away is not asked again at once

    def fold_upto(self, upto: int, seconds: float = math.inf) -> None:
        """Fold what the journal has up to a number, which is settled; or as much as can be in about so long."""
        if self.state.damage:
            raise DamageError(self.state.damage)
        if upto <= self.state.seq:
            self.state.lags = False
            return
        before, counted, begin = self.state.seq, self.state.events, time.perf_counter()
        read = self._models_read if self._store.shared else None
        if not self.state.follow(self._store, upto, self.unsettled.events, read, seconds):
            with self._store.view():
                self.state = State.load(self._store, upto=upto)
        own = self.unsettled.drop(self.state)
        if self.state.events - counted > own:
            self._others_wrote = time.monotonic()
        self.fold_seconds += time.perf_counter() - begin
        if self.state.seq > before:
            self.staleness = max(0.0, self._now() - self.state.at)

    # models that others load

    def await_model(self) -> None:
        """See to a large model that another process has loaded, between two batches.

        It is read beside them. Until then nothing that was committed after it is folded: this process decides on with
        what it has learned before, and puts off exclusive requests.
        """
        self._models_read = {seq: body for seq, body in self._models_read.items() if seq > self.state.seq}
        awaited = self.state.awaited
        if awaited is not None and awaited.seq not in self._models_read and self._model_reader is None:
            self._model_reader = asyncio.create_task(self._read_model(awaited, self.state.spec_after(awaited)))

    async def _read_model(self, event: Event, spec: Spec) -> None:
        def read() -> bytes:
            with closing(self._store.reader()) as store:
                return ModelLoad.read(store, event, spec)

        try:
            self._models_read = {event.seq: await on_own_thread("models", read)}
        except StoreError as error:  # the next look at the journal begins again
            self.state.awaited, self._followed, self.read_error = None, time.monotonic(), error
        except Exception:  # the fold tells what is wrong with it
            self._models_read = {event.seq: event.body}
        self._model_reader = None
        self._hear()

    def cancel(self) -> None:
        """Read no model to its end: nothing is folded any more."""
        if self._model_reader is not None:
            self._model_reader.cancel()
