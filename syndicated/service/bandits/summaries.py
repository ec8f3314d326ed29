"""What other processes need of a batch's events to fold them, in one piece.

    events, decisions ── summarize ─► Store.append ... Store.summaries ── read_summary ─► parts ─► State.follow

To read the event of a decision, to check it and to look at what was decided takes several times as long as to count it.
So who writes a batch says in a few lists what of its decisions counts, and for rewards what is learned. A summary is no
part of the journal: where one is missing the events are read.
"""

import zlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from syndicated.service.bandits.records import encode
from syndicated.service.bandits.runs import FEEDBACK_KINDS, DecisionRun, FeedbackRun, Folded, Run, runs
from syndicated.store import Event

SUMMARY_VERSION = 1  # of what follows; it is in the checksum, so that other processes read no other one
CHECKSUM_BYTES = 4
MAX_BYTES = 128 * 2**10  # of the parts of a summary: what goes beyond is left to be read
MAX_PART = 100  # events: so that of a large batch some parts find room


class SummarizedDecisions(Struct, frozen=True, array_like=True, tag=0, gc=False):
    """Decisions of a bandit with numbers that follow each other, from `first` on, all of one epoch."""

    bandit: int
    first: int
    run: DecisionRun

    @property
    def last(self) -> int:
        return self.first + len(self.run.columns) - 1

    @property
    def at(self) -> float:
        return self.run.columns.at[-1]

    @property
    def kind(self) -> str:
        return "decide"


class SummarizedFeedback(Struct, frozen=True, array_like=True, tag=1):
    """Events about decisions of a bandit with numbers that follow each other, and what is learned from them."""

    events: list[Event]
    run: FeedbackRun

    @property
    def bandit(self) -> int:
        return self.events[0].bandit

    @property
    def first(self) -> int:
        return self.events[0].seq

    @property
    def last(self) -> int:
        return self.events[-1].seq

    @property
    def at(self) -> float:
        return self.events[-1].at

    @property
    def kind(self) -> str:
        return self.events[0].kind


Summarized = SummarizedDecisions | SummarizedFeedback
_decode = msgspec.msgpack.Decoder(list[Summarized]).decode


def summarize(pairs: Iterable[Folded]) -> bytes:
    """A summary of the events of a batch, in their order; empty if it would tell of none.

    Kinds of events that an entry does not have are left to be read.
    """
    parts, size = list[Raw](), 0
    for part in (_part(piece) for run in runs(pairs) if _is_told(run) for piece in _pieces(run)):
        parts.append(Raw(encode(part)))
        size += len(parts[-1])
        if size > MAX_BYTES:
            parts.pop()
            break
    body = encode(parts)
    return _checksum(body) + body if parts else b""


def read_summary(data: bytes) -> list[Summarized]:
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
    """Events of a run with numbers that follow each other, which are or are about decisions of one epoch."""
    begin = 0
    for n in range(1, len(run)):
        if n - begin == MAX_PART or not _goes_on(run[n - 1], run[n]):
            yield run[begin:n]
            begin = n
    yield run[begin:]


def _goes_on(before: Folded, pair: Folded) -> bool:
    (last, record), (event, own) = before, pair
    return event.seq == last.seq + 1 and (record and record.decided.epoch) == (own and own.decided.epoch)


def _part(run: Run) -> Summarized:
    event, _ = run[0]
    pairs = [(each, record) for each, record in run if record is not None]
    epoch = pairs[0][1].decided.epoch
    if event.kind == "decide":
        return SummarizedDecisions(event.bandit, event.seq, DecisionRun.of([record for _, record in pairs], epoch))
    return SummarizedFeedback([each for each, _ in pairs], FeedbackRun.of(pairs, epoch))


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(bytes([SUMMARY_VERSION]) + body).to_bytes(CHECKSUM_BYTES, "big")
