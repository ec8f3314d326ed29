"""A batch: what one transaction is going to append, while its requests run."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from syndicated.errors import SyndicatedError
from syndicated.service.bandits.arms import ArmTable
from syndicated.service.bandits.bandit import Bandit, Turn
from syndicated.service.bandits.messages import DecideRequest
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Decided, Record, encode
from syndicated.service.bandits.runs import Folded
from syndicated.service.bandits.state import State
from syndicated.service.commit.proposals import Proposals
from syndicated.store import Event, Store, StoreError
from syndicated.store._seal import PackedBody

log = logging.getLogger("syndicated")


class Batch:
    """What the requests of one transaction see and add.

    They see the state as it was before the batch, and what earlier requests of the batch have appended. They change
    neither the state nor any record in it: if the commit fails, dropping the batch undoes everything. What must happen
    outside the log once the batch is durable, and only then, goes into `on_commit`.
    """

    def __init__(
        self,
        state: State,
        store: Store,
        now: float,
        numbers: Iterable[int],
        turns: Mapping[int, Turn],
        salt: int,
        requests: "Iterable[Request]" = (),
    ) -> None:
        """Sequence numbers come from `numbers`; `turns` are those of bandits that are ahead of the state.

        `requests` are those that are going to run.
        """
        self.state, self.store, self.now, self._salt = state, store, now, salt
        self.events: list[Event] = []
        self.on_commit: list[Callable[[], None]] = []
        self._numbers = iter(numbers)
        self.turns: dict[int, Turn] = dict(turns)  # where the next decisions of bandits stand, of those that have some
        self._records: dict[int, Record | None] = {}  # None: it is known that there is no such decision
        self._keyed: dict[tuple[int, str], Event] = {}
        self.proposals = Proposals((each.bandit, each.arms) for each in requests if each.arms is not None)

    def fetch(self, refs: Iterable[int], keys: Iterable[tuple[int, str]]) -> None:
        """Read from the journal, at once, what the requests will ask for and memory does not have."""
        wanted, pairs = list(refs), list(keys)
        if pairs:
            self._keyed = self.store.keyed(pairs)
            wanted += [event.seq for event in self._keyed.values()]
        if self.store.shared and wanted:
            self._hold_records(wanted)
        else:
            self._fetch_records([seq for seq in wanted if self.state.record(seq) is None])

    @property
    def latest_known(self) -> int:
        """The last of the decisions that were read or copied, and of the events about them; 0 if there is none."""
        known = [record for record in self._records.values() if record is not None]
        return max((event.seq for record in known for event in (record.event, *record.about)), default=0)

    def number_by(self, numbers: Iterable[int]) -> None:
        """Take the numbers of the next events from these."""
        self._numbers = iter(numbers)

    def _fetch_records(self, seqs: Sequence[int]) -> None:
        if seqs:
            about = self.store.about(seqs)
            for seq, event in self.store.events(seqs).items():
                known = _decision(event)
                if known is not None:
                    self._records[seq] = known.copy(about.get(seq, ()))

    def _hold_records(self, seqs: Sequence[int]) -> None:
        """Other processes may add to the same decisions: until this batch ends they wait, and only the journal tells
        what they have added before."""
        memory = {seq: self.state.record(seq) for seq in seqs}
        held = self.store.hold(seqs, [seq for seq, record in memory.items() if record is None])
        self._records |= dict.fromkeys(seqs)
        for seq, found in held.items():
            known = memory[seq] or _decision(found.event)
            self._records[seq] = None if known is None else known.copy(found.about)

    def pairs(self) -> list[Folded]:
        """Its events, each with the decision that it is, or is about."""
        return [(event, self.record(event.seq if event.ref is None else event.ref)) for event in self.events]

    def record(self, seq: int) -> Record | None:
        """A decision, with the events about it from before and from this batch."""
        if seq not in self._records:
            known = self.state.record(seq)
            if known is None:
                return None
            # A copy: this batch's events are added to it, and must not be seen by others before they are durable.
            self._records[seq] = known.copy(known.about)
        return self._records[seq]

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
        return self.turns.get(bandit.id) or bandit.turn(self._salt)

    def next_number(self) -> int:
        """The sequence number of the next event."""
        return next(self._numbers)

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
        # Before it has a number: one that is refused must leave no gap.
        data = body if isinstance(body, PackedBody) else encode(body)
        event = Event(self.next_number(), bandit, kind, self.now, ref, learn, key, subject, data)
        self.append(event)
        return event

    def append(self, event: Event) -> None:
        """Append an event that is complete."""
        self.events.append(event)
        record = None if event.ref is None else self._records.get(event.ref)
        if record is not None:
            record.add(event)
        if event.key is not None:
            self._keyed[event.bandit, event.key] = event

    def decide(self, bandit: Bandit, decided: Decided, turn: Turn, request: DecideRequest) -> Event:
        """Append a decision, after which the bandit's next one stands at `turn`."""
        event = self.add(bandit.id, "decide", decided, key=request.event_id, subject=request.subject)
        self._records[event.seq] = Record(event, decided, (), None if decided.choice is None else turn.choice)
        self.turns[bandit.id] = turn
        return event

    def scrub(self) -> None:
        """After the commit: remove what the journal's files have of what was erased, or say that they still have it.

        The clock tries again. The erasure itself is durable, and must not fail for that.
        """
        had = self.store.has_traces
        try:
            self.store.scrub()
        except StoreError as error:
            log.warning("what was erased may still be in the journal's files: %s", error)
        if self.store.has_traces and not had:
            log.warning("what was erased is still in the journal's files, until somebody who reads it ends")

    def remember(self, record: Record) -> None:
        """Keep a decision that was appended complete."""
        self._records[record.event.seq] = record


def _decision(event: Event | None) -> Record | None:
    """The decision that an event is, if it is one and was not erased."""
    return Record(event) if event is not None and event.kind == "decide" and event.body else None


class Request(Struct, frozen=True):
    """Something to run within a batch, the future of its answer, and the events and keys that it will look up.

    One that asks for a decision has its arms, so that the decisions of a batch can be proposed together.
    An exclusive request is a batch of its own, which runs on the journal's thread and may use the store.
    """

    run: Callable[[Batch], Any]
    future: "asyncio.Future[Any] | None"
    refs: Sequence[int] = ()
    keys: Sequence[tuple[str, str]] = ()
    exclusive: bool = False
    bandit: str = ""
    arms: ArmTable | None = None
