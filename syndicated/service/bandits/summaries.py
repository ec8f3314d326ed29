"""What other processes need of a batch's events to fold them, in one piece.

    events, decisions ── summarize ─► Store.append ... Store.summaries ── read_summary ─► parts ─► State.follow

To read the event of a decision, to check it and to look at what was decided takes several times as long as to count it.
So who writes a batch says in a few lists what of its decisions counts, and for rewards what is learned. A summary is no
part of the journal: where one is missing the events are read.
"""

import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from syndicated.service.bandits.records import DecisionRun, Record, encode
from syndicated.service.bandits.runs import FEEDBACK_KINDS, Folded, Run, runs
from syndicated.store import Event

SUMMARY_VERSION = 1  # of what follows; it is in the checksum, so that other processes read no other one
CHECKSUM_BYTES = 4
MAX_DECISION_BYTES = 1024  # of a decision that is told with its reward; of a larger one what is learned from

Pair = tuple[Event, Event | None]  # an event about a decision, and the decision


class SummarizedDecisions(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Decisions of a bandit with numbers that follow each other, from `first` on, all of one epoch."""

    bandit: int
    first: int
    run: DecisionRun

    @property
    def last(self) -> int:
        return self.first + len(self.run.columns) - 1


class SummarizedFeedback(Struct, frozen=True, array_like=True, tag=1):
    """Events about decisions with numbers that follow each other, each with its decision."""

    pairs: list[Pair]

    @property
    def first(self) -> int:
        return self.pairs[0][0].seq

    @property
    def last(self) -> int:
        return self.pairs[-1][0].seq


class UnusedNumbers(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Numbers that were reserved, and that no event has."""

    first: int
    last: int


Part = SummarizedDecisions | SummarizedFeedback | UnusedNumbers
_decode = msgspec.msgpack.Decoder(list[Part]).decode


def summarize(pairs: Iterable[Folded], unused: Iterable[int] = ()) -> bytes:
    """A summary of the events of a batch, in their order, and of numbers that it did not use.

    Kinds of events that an entry does not have are left to be read.
    """
    parts: list[Part] = [_part(piece) for run in runs(pairs) if _is_told(run) for piece in _pieces(run)]
    body = encode(parts + list(_unused(unused)))
    return _checksum(body) + body


def read_summary(data: bytes) -> list[Part]:
    """The parts of a summary, in their order; none if it is damaged, or of another version."""
    checksum, body = data[:CHECKSUM_BYTES], data[CHECKSUM_BYTES:]
    if _checksum(body) != checksum:
        return []
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return []


def _is_told(run: Run) -> bool:
    kinds = {event.kind for event, _ in run}
    return (kinds == {"decide"} or kinds <= FEEDBACK_KINDS) and all(record is not None for _, record in run)


def _pieces(run: Run) -> Iterator[Run]:
    """Events of a run with numbers that follow each other; decisions of one epoch each."""
    begin = 0
    for n in range(1, len(run)):
        if not _goes_on(run[n - 1], run[n]):
            yield run[begin:n]
            begin = n
    yield run[begin:]


def _goes_on(before: Folded, pair: Folded) -> bool:
    (last, record), (event, own) = before, pair
    if event.seq != last.seq + 1:
        return False
    return event.kind in FEEDBACK_KINDS or (record and record.head.epoch) == (own and own.head.epoch)


def _unused(numbers: Iterable[int]) -> Iterator[UnusedNumbers]:
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        following = [number for _, number in group]
        yield UnusedNumbers(following[0], following[-1])


def _part(run: Run) -> Part:
    event, _ = run[0]
    if event.kind == "decide":
        records = [record for _, record in run if record is not None]
        return SummarizedDecisions(event.bandit, event.seq, DecisionRun.of(records, records[0].head.epoch))
    return SummarizedFeedback([(each, None if record is None else _needed(record)) for each, record in run])


def _needed(record: Record) -> Event:
    """A decision as far as its reward needs it."""
    event = record.event
    if len(event.body) <= MAX_DECISION_BYTES:
        return event
    decided = replace(record.decided, top=(), ranking=(), arms=None, X=None, table=None, context=None)
    return event._replace(body=encode(decided))


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(bytes([SUMMARY_VERSION]) + body).to_bytes(CHECKSUM_BYTES, "big")
