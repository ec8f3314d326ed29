"""The journal: one append-only log of events, and snapshots of what it adds up to.

Everything that ever changes in a service is an event in one ordered log with sequence numbers that grow: decisions and
rewards, and also bandits, their arms, keys, and the closing of a reward window. Folding the log in that order gives the
same state, to the bit. A store keeps the log; it does not know what the events mean.

A store is for one thread at a time. Several processes may write to a shared store at once: each reserves numbers, and
no number of the log is final before `settled` says so.
"""

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import ClassVar, NamedTuple

from syndicated.errors import SyndicatedError

SCHEMA_VERSION = 1  # the version of the tables; see the migrations in _sql.py
CHUNK_EVENTS = 1000  # that are read at once
CHUNK_BYTES = 2 * 2**20  # of their bodies; an event that is larger is read alone
LARGE_BYTES = 64 * 2**10  # of a body from which on it is read alone, where it is not known how many there are
MAX_SEQ = 2**63 - 1  # no event has such a number

_START = time.time() - time.monotonic()


def steady_time() -> float:
    """The time since 1970 by a clock that goes on evenly, whatever the machine's is set to after the start."""
    return _START + time.monotonic()


class StoreError(SyndicatedError):
    """The journal cannot be read or written now. The next batch shows whether this one was kept."""


class DamageError(StoreError):
    """A part of the journal is not what was written."""


class UnknownCommitError(StoreError):
    """The connection was lost while a batch was committed: it is not known whether it was kept."""


class StoreConflictError(StoreError):
    """Another process was first, with the same key or in another order: done again, this finds what it wrote."""


class StoreBusyError(StoreError):
    """Another process has kept this one waiting for as long as it has the patience to."""


class Event(NamedTuple):
    """One line of the log.

    `ref` is the sequence number of the decision that this event is about; `learn` the reward to learn for it, if any;
    `key` the name that the caller gave to the event, unique among those of the bandit; `subject` whom it concerns.
    Bandit 0 is the service itself.
    """

    seq: int
    bandit: int
    kind: str
    at: float
    ref: int | None = None
    learn: float | None = None
    key: str | None = None
    subject: str | None = None
    body: bytes = b""


class Snapshot(NamedTuple):
    """What the log up to `seq` adds up to for one bandit."""

    bandit: int
    seq: int
    at: float
    state: bytes


class Held(NamedTuple):
    """The events about a decision, in order, and its own if it was asked for."""

    about: list[Event]
    event: Event | None = None


class Store(ABC):
    """Where a journal is kept.

    Methods raise StoreError when the journal is away, full or broken, and then have changed nothing; the store may be
    used again at once, and reconnects by itself.
    """

    shared: ClassVar[bool]
    clock_offset: float = 0.0  # seconds that the store's own clock, if it has one, is ahead of `steady_time`
    has_traces = False  # whether its files have something that was erased, since a reader was in the way of `scrub`

    @property
    def is_ahead(self) -> bool:
        """Whether numbers are reserved for an entry that has yet to begin."""
        return False

    @abstractmethod
    def give_up_numbers(self) -> None:
        """Give up what is reserved for an entry that has yet to begin: until then it holds up `settled`.

        So does any other call that is not the beginning of an entry.
        """

    @abstractmethod
    def batch(self, patience: float = math.inf) -> AbstractContextManager[int]:
        """A transaction that excludes other batches and gives the last sequence number; it is durable when it ends.

        All up to this number is settled. Entries of other processes go on meanwhile, with larger numbers. With
        `patience` it waits for so many seconds at most for what another process holds (StoreBusyError).
        """

    @abstractmethod
    def entry(self, count: int) -> AbstractContextManager[list[int]]:
        """A transaction that excludes nobody where several processes may write; it is durable when it ends.

        It gives so many reserved sequence numbers for events, larger than all that were given out before.
        """

    @abstractmethod
    def reserve(self, count: int) -> list[int]:
        """Within a batch: sequence numbers for events, larger than all that were given out before."""

    @abstractmethod
    def settled(self) -> int:
        """A number up to which the log is complete: nothing more will be added there. Not to be asked within a view."""

    @abstractmethod
    def hold(self, refs: Iterable[int], unread: Iterable[int] = ()) -> dict[int, Held]:
        """Those of these decisions that are there; of those that are `unread` their own event, too.

        Until the transaction ends nobody else holds them.
        """

    @abstractmethod
    def view(self) -> AbstractContextManager[None]:
        """A transaction that only reads: in it the journal stays as it was, whatever other processes do.

        Within a batch it is a part of it, since nobody else changes what was written.
        """

    @abstractmethod
    def append(self, events: Sequence[Event], next_count: int = 0, summary: bytes = b"") -> None:
        """Within a batch or an entry: add events, whose sequence numbers were reserved or go on from the last.

        `next_count` says that another entry will follow at once, of about so many events. A server can then be asked
        for its numbers together with the commit of this one (`is_ahead`). A `summary` is for other processes, which
        have it for some seconds, and is no part of the journal.
        """

    def summaries(self, after: int, upto: int) -> tuple[list[bytes], int]:
        """What entries of other processes that end after one number and up to another have told; any may be missing.

        If there are too many, the first of them, and up to which number they are.
        """
        return [], upto

    def write(self, events: Sequence[Event]) -> None:
        """Add events as a batch of their own, which is durable when this returns."""
        with self.batch():
            self.append(events)

    @abstractmethod
    def save(self, snapshots: Sequence[Snapshot], keep: int) -> None:
        """Within a batch: add snapshots, and leave the last `keep` of each bandit."""

    def save_steps(self, snapshots: Sequence[Snapshot], keep: int) -> Iterator[None]:
        """The same in steps, each within a batch of its own, on a journal that is not shared: others wait for a step.

        Nothing counts before the last one, after which this ends. What a save that did not get there has left is
        removed by later ones. One at a time.
        """
        raise NotImplementedError

    def save_beside(self, snapshots: Sequence[Snapshot], keep: int, after: int | None = None) -> bool:
        """The same beside the batches of a shared journal, on any thread: all of it or nothing, and nobody waits.

        With `after`, only if no other process has saved the first bandit's since that number; whether they were saved.
        """
        raise NotImplementedError

    @abstractmethod
    def last(self) -> int:
        """The last sequence number."""

    @abstractmethod
    def after(
        self,
        seq: int,
        bandit: int | None = None,
        upto: int | None = None,
        numbers: Sequence[int] | None = None,
        known_from: int = MAX_SEQ,
        bodiless: str = "",
    ) -> Iterator[tuple[Event, Event | None]]:
        """The events after `seq` and up to `upto`, in order, each with the decision that it refers to.

        They are of one bandit or of all, with these `numbers` or any. Decisions from `known_from` on are not read
        again: the caller has them. Nor are the bodies of the kind `bodiless`.
        """

    def file_faults(self) -> list[str]:
        """What the database itself finds wrong with its files, such as an index that lacks events."""
        return []

    @abstractmethod
    def count(self, after: int, before: int) -> int:
        """How many events there are between two numbers, without these."""

    @abstractmethod
    def salvage(self, first: int, upto: int) -> tuple[list[Event], list[int]]:
        """The events from `first` to `upto` that can be read, and the sequence numbers of those that cannot."""

    @abstractmethod
    def events(self, seqs: Iterable[int]) -> dict[int, Event]:
        """The events with these sequence numbers, as far as there are any."""

    @abstractmethod
    def about(self, refs: Iterable[int]) -> dict[int, list[Event]]:
        """For each of these decisions the events about it, in order."""

    @abstractmethod
    def keyed(self, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Event]:
        """The events with these pairs of a bandit and a key, as far as there are any."""

    @abstractmethod
    def decisions(self, after: Mapping[int, int], limit: int) -> dict[int, list[Event]]:
        """For each of these bandits its first decisions after a sequence number, in order, at most so many."""

    @abstractmethod
    def recent(self, bandit: int, kinds: Sequence[str], limit: int, before: int | None = None) -> list[Event]:
        """The last events of these kinds of a bandit, or the last before a sequence number, the newest first.

        Fewer, but one at least, if they are large: who wants more goes on before the last of them. Damaged ones are
        left out.
        """

    @abstractmethod
    def snapshots(self, bandit: int | None = None) -> list[Snapshot]:
        """The newest snapshot of every bandit; or all of one bandit, the newest first."""

    @abstractmethod
    def snapshot(self, bandit: int, seq: int) -> Snapshot | None:
        """The snapshot of a bandit at this number, if there is one; without its state if the file cannot be read."""

    @abstractmethod
    def snapshot_sizes(self, bandit: int) -> list[tuple[int, float, int]]:
        """The sequence number, the time and the bytes of the snapshots of a bandit, the newest first."""

    @abstractmethod
    def prune(self, bandit: int, before: float, upto: int, limit: int = sys.maxsize) -> list[int]:
        """Within a batch: drop events of a bandit that are older than `before` and not after `upto`; their numbers.

        At most `limit` of them, the first. A decision stays as long as an event after `upto` is about it: a replay from
        a snapshot of `upto` needs both.
        """

    @abstractmethod
    def last_about(self, subject: str) -> int:
        """The number of the last event of a subject; 0 if there is none."""

    @abstractmethod
    def count_about(self, subject: str, upto: int) -> int:
        """How many events of a subject there are up to one."""

    @abstractmethod
    def erase(self, subject: str, upto: int = MAX_SEQ, limit: int = sys.maxsize) -> int:
        """Within a batch: remove body, reward, key and subject from events of a subject up to one; how many.

        At most `limit` of them, the first.
        """

    @abstractmethod
    def scrub(self) -> None:
        """After a batch that erased something: remove what the journal's files still have of it, as far as possible.

        If `has_traces` is true afterwards, it is to be called again.
        """

    @abstractmethod
    def touch(self) -> None:
        """Within a batch: write something that changes nothing, to find out whether the journal can be written."""

    @property
    @abstractmethod
    def secret(self) -> bytes:
        """The journal's own secret, made when it was."""

    @property
    @abstractmethod
    def has_gaps(self) -> bool:
        """Whether a sequence number may be unused, because numbers were reserved."""

    @property
    def id(self) -> str:
        """What tells a journal from others, and is the same in its copies."""
        return blake2b(b"journal", key=self.secret, digest_size=8).hexdigest()

    @property
    @abstractmethod
    def group(self) -> list[str]:
        """The ids of the journals over which bandits are spread, this one's among them; none if it is alone."""

    @abstractmethod
    def join(self, group: Sequence[str]) -> None:
        """Within a batch: become one of a group, if it is in none."""

    @abstractmethod
    def set_origin(self, secret: bytes, *, has_gaps: bool) -> None:
        """Within a batch on an empty journal: take the secret of the one that it becomes a copy of, and its gaps."""

    def become_copy(self, source: "Store") -> None:
        """Within a batch on an empty journal: take what makes a journal this one and not another."""
        self.set_origin(source.secret, has_gaps=source.has_gaps)
        if source.group:
            self.join(source.group)

    @abstractmethod
    def reader(self) -> "Store":
        """The same journal over a connection of its own, which only reads and is used and closed by another thread."""

    @abstractmethod
    def begin_job(self) -> None:
        """Callers wait for all that is done until the next such call: it fails if a server's answers take too long.

        That is, together: a server may be slow, and answer each statement in time. A view, and saving snapshots,
        may take longer.
        """

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until other processes may have appended something, or for this long."""

    @abstractmethod
    def close(self) -> None:
        """Close the journal."""


def by_ref(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Events by the decision that they are about."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if event.ref is not None:
            found.setdefault(event.ref, []).append(event)
    return found


def by_bandit(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Events by bandit."""
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(event.bandit, []).append(event)
    return found


def by_key(events: Iterable[Event]) -> dict[tuple[int, str], Event]:
    """Events by bandit and key."""
    return {(event.bandit, event.key): event for event in events if event.key is not None}


def in_chunks(events: Iterable[Event], size: int, max_bytes: int = CHUNK_BYTES) -> Iterator[list[Event]]:
    """So many events at a time, or fewer if they are large."""
    chunk: list[Event] = []
    count = 0
    for event in events:
        chunk.append(event)
        count += len(event.body)
        if len(chunk) == size or count >= max_bytes:
            yield chunk
            chunk, count = [], 0
    if chunk:
        yield chunk


def copy(source: Store, target: Store) -> int:
    """Copy a journal, also while it is in use, into an empty one of any kind; how many events it had."""
    count = 0
    with target.batch() as last, source.view():
        if last:
            raise StoreError(f"a copy must go into an empty journal; got one with {last} events")
        target.become_copy(source)
        events = (event for event, _ in source.after(0))
        for chunk in in_chunks(events, CHUNK_EVENTS):
            target.append(chunk)
            count += len(chunk)
        for newest in source.snapshots():
            saved = source.snapshots(newest.bandit)
            target.save(saved, keep=len(saved))
    return count
