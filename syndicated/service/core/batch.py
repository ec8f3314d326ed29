"""A batch: what one transaction is going to append, while its requests run."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from syndicated.errors import SyndicatedError
from syndicated.service.core.bandit import Bandit, Turn
from syndicated.service.core.messages import DecideRequest
from syndicated.service.core.problems import Problem
from syndicated.service.core.records import Decided, Record, encode
from syndicated.service.core.state import State
from syndicated.store import Event, Store, StoreError

log = logging.getLogger("syndicated")


class Batch:
    """What the requests of one transaction see and add.

    They see the state as it was before the batch, and what earlier requests of the batch have appended. They change
    neither the state nor any record in it: if the commit fails, dropping the batch undoes everything. What must happen
    outside the log once the batch is durable, and only then, goes into `on_commit`.
    """

    def __init__(self, state: State, store: Store, now: float) -> None:
        self.state, self.store, self.now = state, store, now
        self.events: list[Event] = []
        self.on_commit: list[Callable[[], None]] = []
        self._turns: dict[int, Turn] = {}
        self._records: dict[int, Record] = {}
        self._keyed: dict[tuple[int, str], Event] = {}

    def fetch(self, refs: Iterable[int], keys: Iterable[tuple[int, str]]) -> None:
        """Read from the journal, at once, what the requests will ask for and memory does not have."""
        self._fetch_records([seq for seq in refs if self.state.record(seq) is None])
        wanted = list(keys)
        if wanted:
            self._keyed = self.store.keyed(wanted)
            self._fetch_records([e.seq for e in self._keyed.values() if self.state.record(e.seq) is None])

    def _fetch_records(self, seqs: Sequence[int]) -> None:
        if seqs:
            about = self.store.about(seqs)
            for seq, event in self.store.events(seqs).items():
                if event.kind == "decide" and event.body:
                    self._records[seq] = Record(event, None, about.get(seq, ()))

    def record(self, seq: int) -> Record | None:
        """A decision, with the events about it from before and from this batch."""
        record = self._records.get(seq)
        if record is None:
            known = self.state.record(seq)
            if known is None:
                return None
            # A copy: this batch's events are added to it, and must not be seen by others before they are durable.
            record = self._records[seq] = known.copy()
        return record

    def answer(self, run: "Callable[[Batch], Any]") -> Any:
        """The answer to a request, or the problem with it. Only the store's failure ends the whole batch."""
        try:
            return run(self)
        except StoreError:
            raise
        except Problem as problem:
            return problem.with_traceback(None)  # whose frames would keep the request, and the arms in it
        except SyndicatedError as error:
            return Problem(422, "invalid", str(error))
        except Exception as error:
            log.exception("a request failed")
            return error

    def keyed(self, bandit: int, key: str) -> Event | None:
        """The event with this key, from before or from this batch."""
        return self._keyed.get((bandit, key))

    def turn(self, bandit: Bandit) -> Turn:
        """Where the bandit's next decision stands, after the earlier ones of this batch."""
        return self._turns.get(bandit.id) or bandit.turn()

    def add(
        self,
        bandit: int,
        kind: str,
        body: Any,
        ref: int | None = None,
        learn: float | None = None,
        key: str | None = None,
        subject: str | None = None,
    ) -> Event:
        """Append an event, which later requests of the batch see."""
        seq = self.state.seq + len(self.events) + 1
        event = Event(seq, bandit, kind, self.now, ref, learn, key, subject, encode(body))
        self.append(event)
        return event

    def append(self, event: Event) -> None:
        """Append an event that is complete."""
        self.events.append(event)
        if event.ref is not None and event.ref in self._records:
            self._records[event.ref].about.append(event)
        if event.key is not None:
            self._keyed[event.bandit, event.key] = event

    def decide(self, bandit: Bandit, decided: Decided, turn: Turn, request: DecideRequest) -> Event:
        """Append a decision, after which the bandit's next one stands at `turn`."""
        event = self.add(bandit.id, "decide", decided, key=request.event_id, subject=request.subject)
        self._records[event.seq] = Record(event, decided, (), None if decided.choice is None else turn.choice)
        self._turns[bandit.id] = turn
        return event

    def remember(self, record: Record) -> None:
        """Keep a decision that was appended complete."""
        self._records[record.event.seq] = record


class Request(NamedTuple):
    """Something to run within a batch, the future of its answer, and the events and keys that it will look up.

    An exclusive request is a batch of its own, which runs on the journal's thread and may use the store.
    """

    run: Callable[[Batch], Any]
    future: "asyncio.Future[Any] | None"
    refs: Sequence[int] = ()
    keys: Sequence[tuple[str, str]] = ()
    exclusive: bool = False
