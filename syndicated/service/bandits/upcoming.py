"""What comes next in a journal: what is at hand of it, what other processes have told of it, and what is read."""

from bisect import bisect
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby

from syndicated.service.bandits.model_load import PIECE
from syndicated.service.bandits.records import Record
from syndicated.service.bandits.runs import Folded, Run, merged, runs
from syndicated.service.bandits.summaries import Summarized, read_summary
from syndicated.store import Event, Store

MAX_NUMBERS = 5000  # of a stretch: of its events those that are not known are asked for one by one
MAX_READ_EVENTS = 500  # that are surely read with one statement, unless they are large


def upcoming(
    store: Store, after: int, upto: int, own: Mapping[int, Folded], known_from: int
) -> Generator[Run | Summarized]:
    """The events after one number and up to another, in the order in which they are folded.

    `own` events are at hand, and decisions from `known_from` on are known. What others have told of comes as they told
    it.
    """
    while after < upto:
        stretch = _Stretch(store, after, upto, own, known_from)
        with stretch.view():
            yield from stretch
        after = stretch.upto


class _Stretch:
    """What comes up to a number, or up to where so many summaries end as are read at once."""

    def __init__(self, store: Store, after: int, upto: int, own: Mapping[int, Folded], known_from: int) -> None:
        summaries, self.upto = store.summaries(after, min(upto, after + MAX_NUMBERS))
        self._store, self._after, self._known_from = store, after, known_from
        self._told = [part for each in summaries for part in read_summary(each) if after < part.first]
        self._own = [pair for seq, pair in own.items() if after < seq <= self.upto]
        known = {_number(pair) for pair in self._own}
        known.update(*(range(part.first, part.last + 1) for part in self._told))
        self._numbers: list[int] | None = None  # that are read: all, if nothing is known
        if known:
            self._numbers = [seq for seq in range(after + 1, self.upto + 1) if seq not in known]

    def view(self) -> AbstractContextManager[None]:
        """A moment of the journal, if it takes several statements to read what is not known.

        If there are too many bytes for one, it is as if the rest were read in a further step.
        """
        count = self.upto - self._after if self._numbers is None else len(self._numbers)
        return self._store.view() if count > MAX_READ_EVENTS else nullcontext()

    def __iter__(self) -> Iterator[Run | Summarized]:
        told = sorted(self._told, key=lambda part: part.first)
        firsts, done = [part.first for part in told], 0
        found = self._store.after(self._after, None, self.upto, self._numbers, self._known_from, PIECE)
        events = merged(sorted(self._own, key=_number), map(stored, found))
        for before, between in groupby(events, lambda pair: bisect(firsts, _number(pair))):
            yield from told[done:before]
            yield from runs(between)
            done = before
        yield from told[done:]


def _number(pair: Folded) -> int:
    return pair[0].seq


def stored(found: tuple[Event, Event | None]) -> Folded:
    """What the journal gives, as it is folded."""
    event, about = found
    return event, record_of(about)


def record_of(decision: Event | None) -> Record | None:
    """A decision that was read from the journal, unless it is gone or was erased."""
    return Record(decision) if decision is not None and decision.body else None
