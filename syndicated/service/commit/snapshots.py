"""Taking snapshots: what a start loads in place of a replay, and the models that a bandit can be rolled back to.

A snapshot is drafted between two batches, copied in pieces, each an exclusive request, encoded beside the batches, and
written in pieces again or, to a shared journal, beside the batches; so nobody waits for a large one.

What uses the state or the store is given a `Batch`, and runs within an exclusive request on the journal's thread. All
else is on the event loop's thread, which also asks between two batches whether snapshots are due. Drafts are encoded on
a worker of asyncio, and written to a shared journal on a thread "saver", over a connection of its own.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.bandits.state import Draft
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.follower import Follower
from syndicated.service.commit.own_thread import T, on_own_thread
from syndicated.store import Store, StoreError

KEPT_SNAPSHOTS = 20  # of each bandit
EVENTS_PER_SNAPSHOT = 20_000
REPLAY_SECONDS = 5.0  # of folding that a start may have to repeat before a snapshot is taken, if they are sooner over
SNAPSHOT_PAUSE = 10  # times the duration of the last snapshot, which are folded before the next one
SAVE_AGAIN_SECONDS = 60  # after snapshots that could not be taken

log = logging.getLogger("syndicated")


class GoOn(Protocol):
    """Queues an exclusive request, also if the queue is full: `GroupCommit.go_on`."""

    def __call__(self, run: Callable[[Batch], T], /) -> "asyncio.Future[T]": ...


class Snapshots:
    """Saves what has changed since the last snapshots: when it is due, when it is asked for, and at the end."""

    def __init__(self, store: Store, follower: Follower, go_on: GoOn, clock: Callable[[], float]) -> None:
        self._store, self._follower, self._go_on, self._clock = store, follower, go_on, clock
        self.saving = asyncio.Lock()  # while snapshots are on their way
        self._seq = follower.state.snapped  # up to which everything is in snapshots
        self._events = self._count_events(self._seq)  # that are in them
        self._saved_seconds = 0.0  # of the follower's folding, which are in snapshots
        self._cost = 0.0  # seconds that the last ones have taken
        self._drafted: set[int] = set()  # bandits that are in a draft of snapshots, until one is saved
        self._saver: asyncio.Task[None] | None = None  # what takes those that are due
        self._save_after = -math.inf

    def begin_if_due(self) -> bool:
        """Begin to take snapshots beside the batches if they are due; whether they are."""
        due = not self.saving.locked() and self._clock() >= self._save_after and self._is_due
        if due:
            self._saver = asyncio.create_task(self._save_if_due())
        return due

    def cancel(self) -> None:
        """Take those that are due no more: the last ones have all of them."""
        if self._saver is not None:
            self._saver.cancel()

    @property
    def _is_due(self) -> bool:
        """Whether a start would have much to replay: many events, or some that take long; or damaged snapshots."""
        state = self._follower.state
        count = state.events - self._events
        replay_seconds = self._follower.fold_seconds - self._saved_seconds
        long = replay_seconds > max(REPLAY_SECONDS, SNAPSHOT_PAUSE * self._cost)
        return count >= EVENTS_PER_SNAPSHOT or (count > 0 and long) or bool(state.rebuilt)

    async def _save_if_due(self) -> None:
        """Save snapshots, unless another process has done so since our last ones."""
        try:
            async with self.saving:
                await self._go_on(self._see_others)
                if self._is_due:
                    await self._save(if_due=True)
        except Problem:  # the journal is away, or this is the end: both are told elsewhere
            self._save_after = self._clock() + SAVE_AGAIN_SECONDS
        except StoreError as error:
            self._save_after = self._clock() + SAVE_AGAIN_SECONDS
            log.warning("no snapshot could be taken; the next attempt is in %d s: %s", SAVE_AGAIN_SECONDS, error)
        except Exception:  # for want of memory, say: the service goes on, and its log has all of it
            self._save_after = self._clock() + SAVE_AGAIN_SECONDS
            log.exception("no snapshot could be taken; the next attempt is in %d s", SAVE_AGAIN_SECONDS)

    def _count_events(self, upto: int) -> int:
        """How many events the log has up to a number. A shared one has numbers that were reserved and not used."""
        state = self._follower.state
        return state.events - self._store.count(upto, state.seq + 1)

    def _see_others(self, batch: Batch) -> None:
        """Take note of snapshots that another process has saved since our last ones."""
        for newest, _, _ in batch.store.snapshot_sizes(SERVICE_ID)[:1]:
            if newest > self._seq:
                self._seq, self._events = newest, self._count_events(newest)
                self._saved_seconds = self._follower.fold_seconds

    async def save(self) -> int:
        """Save snapshots of what has changed since the last ones; the event up to which everything is in them."""
        async with self.saving:
            try:
                return await self._save(if_due=False)
            except StoreError as error:
                raise Problem(503, "unavailable", str(error)) from None

    async def _save(self, *, if_due: bool) -> int:
        """Copy, encode and save what has changed. Others wait for pieces of copies, and with a journal of our own for
        pieces of what is written. A shared one takes in what is large slowly, so it is given it beside the batches.

        The snapshots are of the moment when this begins: what is folded meanwhile changes nothing that is still to be
        copied, see `RowsCopy`.
        """
        begin = time.perf_counter()
        draft = await self._go_on(self._draft)
        if draft is None:
            return self._seq
        events, folded = self._follower.state.events, self._follower.fold_seconds
        while not await self._go_on(lambda batch: draft.advance()):
            pass
        snapshots = await asyncio.to_thread(draft.encode)
        if not self._store.shared:
            steps, saved = (
                self._store.save_steps(snapshots, KEPT_SNAPSHOTS),
                partial(self._saved, draft.seq, events, folded),
            )
            while not await self._go_on(lambda batch: self._write(batch, steps, saved)):
                pass
        else:
            after = self._seq if if_due else None  # of several that began at once the first takes them for all
            if not await on_own_thread("saver", self._store.save_beside, snapshots, KEPT_SNAPSHOTS, after):
                return self._seq
            await self._go_on(lambda batch: self._saved(draft.seq, events, folded))
        self._cost = time.perf_counter() - begin
        return draft.seq

    def save_at_once(self, batch: Batch) -> None:
        """Within an exclusive request: save snapshots of what has changed. Everybody waits, and `saving` is held."""
        draft = self._draft(batch)
        if draft is not None:
            while not draft.advance():
                pass
            self._store.save(draft.encode(), KEPT_SNAPSHOTS)
            batch.on_commit.append(
                partial(self._saved, draft.seq, self._follower.state.events, self._follower.fold_seconds)
            )

    def _draft(self, batch: Batch) -> Draft | None:
        """What is to be saved now, if anything is. What changes from now on is for the next time."""
        self._drafted |= batch.state.changed
        batch.state.changed = set()
        return batch.state.draft(sorted(self._drafted)) if self._drafted else None

    def _write(self, batch: Batch, steps: Iterator[None], saved: Callable[[], None]) -> bool:
        """Write a piece more; whether all is written."""
        for _ in steps:
            return False
        batch.on_commit.append(saved)
        return True

    def _saved(self, seq: int, events: int, folded: float) -> None:
        """Everything up to this event is in snapshots: so many events, and seconds that they took to fold."""
        self._drafted, self._follower.state.rebuilt = set(), set()
        self._seq, self._events = max(seq, self._seq), max(events, self._events)
        self._saved_seconds = max(folded, self._saved_seconds)
