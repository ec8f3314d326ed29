"""A batch: what one transaction is going to append, while its requests run."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from syndicated.errors import SyndicatedError
from syndicated.service.core.bandit import Bandit, Turn
from syndicated.service.core.messages import Decided, DecideRequest, Problem
from syndicated.service.core.state import Record, State, encode
from syndicated.store import Event, Store, StoreError

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

    def answer(self, run: "Callable[[Batch], Any]") -> Any:
        """The answer to a request, or the problem with it."""
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

    def keyed(self, bandit: int, key: str | None) -> Event | None:
        return None if key is None else self._keyed.get((bandit, key))

    def turn(self, bandit: Bandit) -> Turn:
        return self._turns.get(bandit.id) or bandit.turn()

    def take_turn(self, bandit: Bandit, after: Turn) -> None:
        self._turns[bandit.id] = after

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
        """Append an event, which requests behind this one see."""
        seq = self.state.seq + len(self.events) + 1
        event = Event(seq, bandit, kind, self.now, ref, learn, key, subject, encode(body))
        self.events.append(event)
        if ref is not None and ref in self._found:
            self._found[ref].about.append(event)
        if key is not None:
            self._keyed[bandit, key] = event
        return event

    def decide(self, bandit: int, decided: Decided, request: DecideRequest) -> Event:
        """Append a decision."""
        event = self.add(bandit, "decide", decided, key=request.event_id, subject=request.subject)
        self._found[event.seq] = Record(event, decided)
        return event


class Request(NamedTuple):
    """Something to run within a batch, the future of its answer, and the events and keys that it will ask for."""

    run: Callable[[Batch], Any]
    future: "asyncio.Future[Any] | None"
    refs: Sequence[int] = ()
    keys: Sequence[tuple[str, str]] = ()
    alone: bool = False
