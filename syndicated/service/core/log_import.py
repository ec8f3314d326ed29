"""An import of a log: its lines are checked first, on another thread, and then appended in pieces between batches.

So nobody waits for more than one piece. A log of several pieces is announced by an event of its own. Until its last
piece the bandit neither decides nor takes rewards, here and in other processes, and its windows stay open.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Decided, Record
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.commit.batch import Batch
from syndicated.service.core.export import PIECE_BYTES
from syndicated.service.core.log_lines import Imported, Importer, LogLine
from syndicated.store import Event

PIECE_EVENTS = 200
PIECE_SECONDS = 0.02  # of folding them: rewards of new arms with 64 columns take 0.6 ms each
PAUSE_SECONDS = 0.5  # after which other processes know that an import has begun


class LogImport:
    """The events that a bandit gets from the lines of another one's log, of the same spec.

    The decisions of the log's last epoch become decisions of this bandit's epoch, so that its model becomes the other
    one's, to the bit. Events whose decision is not in the log, or was erased, are left out.
    """

    def __init__(self, actor: str, snapshot: bytes, now: float, lines: Sequence[LogLine]) -> None:
        """Check the lines; the snapshot is of the bandit."""
        bandit = Bandit.from_snapshot(snapshot)
        self._about = {"actor": actor, "bandit": bandit.id}
        self._id, self._epoch = bandit.id, bandit.epoch
        importer = Importer(bandit, count(1).__next__, now)
        self._records = importer.read(lines)
        self._numbers: dict[int, int] = {}  # in the journal, of the events that were appended
        self._sizes = list(_piece_sizes([len(event.body) for event, _ in self._records], importer.seconds))[::-1]
        self.has_pieces = len(self._sizes) > 1
        self.counts = Imported(imported=len(self._records), left_out=len(lines) - len(self._records))

    def announce(self, batch: Batch) -> None:
        """Say that the pieces of an import follow."""
        check_empty(batch, self._bandit(batch))
        batch.add(SERVICE_ID, "importing", self._about)

    def append(self, batch: Batch) -> bool:
        """Append the next piece; whether it was the last one."""
        bandit, piece = self._bandit(batch), self._records[: self._sizes[-1] if self._sizes else 0]
        if not self.has_pieces:
            check_empty(batch, bandit)
        elif not self._numbers and _has_decided(batch, bandit):  # another process, before it knew of the import
            batch.add(SERVICE_ID, "import", {**self._about, "count": 0})  # the bandit goes on as it is
            raise _not_empty(bandit)
        self._append(batch, piece)
        last = len(piece) == len(self._records)
        if last:
            batch.add(SERVICE_ID, "import", {**self._about, "count": self.counts.imported})
        return last

    def _append(self, batch: Batch, piece: Sequence[tuple[Event, Decided | None]]) -> None:
        refs = {event.ref for event, _ in piece if event.ref is not None}
        batch.fetch([self._numbers[ref] for ref in refs if ref in self._numbers], ())
        numbers = {event.seq: batch.next_number() for event, _ in piece}
        for event, decided in piece:
            ref = None if event.ref is None else numbers.get(event.ref) or self._numbers[event.ref]
            own = event._replace(seq=numbers[event.seq], ref=ref)
            batch.append(own)
            if own.kind == "decide":
                batch.remember(Record(own, decided))
        batch.on_commit.append(partial(self._appended, numbers))

    def _appended(self, numbers: dict[int, int]) -> None:
        self._numbers |= numbers
        del self._records[: len(numbers)]
        del self._sizes[-1:]

    def _bandit(self, batch: Batch) -> Bandit:
        bandit = batch.state.bandits[self._id]
        if bandit.epoch != self._epoch or bandit.retired:
            raise Problem(409, "conflict", "the bandit got another model, or was retired, while its log was imported")
        return bandit


def _piece_sizes(sizes: Sequence[int], seconds: Sequence[float]) -> Iterator[int]:
    """How many events each piece has: so many, or fewer if they are large or took long to fold before."""
    events = size = 0
    spent = 0.0
    for bytes_, taken in zip(sizes, seconds, strict=True):
        if events and (events == PIECE_EVENTS or size + bytes_ > PIECE_BYTES or spent + taken > PIECE_SECONDS):
            yield events
            events, size, spent = 0, 0, 0.0
        events, size, spent = events + 1, size + bytes_, spent + taken
    if events:
        yield events


def check_empty(batch: Batch, bandit: Bandit) -> None:
    """Refuse a bandit that has decided something."""
    if bandit.importing or _has_decided(batch, bandit):
        raise _not_empty(bandit)


def _has_decided(batch: Batch, bandit: Bandit) -> bool:
    return bool(batch.turn(bandit).made or batch.store.recent(bandit.id, ["decide"], 1))


def _not_empty(bandit: Bandit) -> Problem:
    must = f"a log can be imported only into a bandit without decisions; {bandit.name} has some"
    return Problem(409, "not-empty", must)
