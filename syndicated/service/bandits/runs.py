"""Events on their way into the state: their order, which of them are folded together, and what is folded of these.

    Event, Record  ── runs ─►  Run  ── DecisionRun.of, FeedbackRun.of ─►  columns  ─►  Bandit.fold_...

The columns are no part of the journal. Processes tell them to each other: see `summaries`, which has their version.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from syndicated._decided_by import COUNTED, By
from syndicated.service.bandits.records import ChoiceRecord, Record, to_choice
from syndicated.store import Event
from syndicated.types import Array, PlayedRounds

SERVICE_ID = 0  # the bandit number of events that are about the service itself: its audit log
FEEDBACK_KINDS = {"reward", "late", "activate", "close"}  # events about a decision
MAX_RUN = 1000  # events that are folded together
MAX_RUN_BYTES = 2 * 2**20  # of their bodies, and of the decisions that they are about

Folded = tuple[Event, Record | None]  # an event, and the decision that it is, or is about, if it is at hand
Run = Sequence[Folded]  # decisions of a bandit that follow each other, or events about some; or a single other event


def runs(pairs: Iterable[Folded]) -> Iterator[Run]:
    """Runs of events, each folded at once: what a fold does anew for each event costs more than to count it."""
    run: list[Folded] = []
    size = 0
    for pair in pairs:
        event, record = pair
        if run and not _goes_on(run[0][0], event):
            yield run
            run, size = [], 0
        run.append(pair)
        size += len(event.body) + (0 if record is None else len(record.event.body))
        if len(run) >= MAX_RUN or size >= MAX_RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _goes_on(first: Event, event: Event) -> bool:
    if event.bandit != first.bandit or event.bandit == SERVICE_ID:
        return False
    return event.kind == first.kind == "decide" or (event.kind in FEEDBACK_KINDS and first.kind in FEEDBACK_KINDS)


def merged(at_hand: Iterable[Folded], others: Iterable[Folded]) -> Iterator[Folded]:
    """Events that are at hand and others, in the order of both."""
    waiting = deque(at_hand)
    for pair in others:
        while waiting and waiting[0][0].seq < pair[0].seq:
            yield waiting.popleft()
        yield pair
    yield from waiting


class DecisionColumns(Struct, frozen=True, array_like=True, gc=False):
    """What is counted of decisions that follow each other: of each a value in every list."""

    at: list[float]
    by: list[By]
    arm: list[str]
    explored: list[bool]
    agreed: list[bool]  # whether the model would have made the caller's own decision too

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, part: slice) -> "DecisionColumns":
        return DecisionColumns(self.at[part], self.by[part], self.arm[part], self.explored[part], self.agreed[part])


class DecisionRun(Struct, frozen=True, array_like=True, gc=False):
    """Decisions of a bandit that follow each other, as they are folded: those of an epoch are counted.

    `closable` is the last of all that the end of its window may teach something, and `choice` that of the last of the
    agent's own rounds, if there was one.
    """

    epoch: int
    closable: int
    choice: ChoiceRecord | None
    columns: DecisionColumns

    @classmethod
    def of(cls, records: Sequence[Record], epoch: int) -> "DecisionRun":
        heads = [(record, record.head) for record in records]
        closable = [record.event.seq for record, head in heads if head.default is not None]
        own = [(record, head) for record, head in heads if head.epoch == epoch]
        choices = (record.decided.choice for record, head in reversed(own) if head.by in COUNTED)
        columns = DecisionColumns(
            [record.event.at for record, _ in own],
            [head.by for _, head in own],
            [head.arm for _, head in own],
            [head.explored for _, head in own],
            [head.by == "caller" and head.agrees for _, head in own],
        )
        return cls(epoch, max(closable, default=0), next(filter(None, choices), None), columns)


class FeedbackColumns(Struct, frozen=True, array_like=True, gc=False):
    """What is learned from events about decisions that follow each other: of each a value in every list."""

    by: list[By]
    arm: list[str]
    reward: list[float]
    x: list[bytes]
    sparse: list[bool]
    params: list[dict[str, float]]
    choice: list[ChoiceRecord | None]  # of those that the tuner is credited with: what the agent has played itself

    def counted(self) -> "FeedbackColumns":
        """Those that the agent learns from."""
        kept = [by in COUNTED for by in self.by]
        return self if all(kept) else FeedbackColumns(*(list(compress(column, kept)) for column in astuple(self)))


class FeedbackRun(Struct, frozen=True, array_like=True, gc=False):
    """Events about decisions of a bandit that follow each other, as they are folded: those of an epoch are learned.

    Of all of them `lates` counts the late ones, `closed` is the last decision whose window has closed, and `closable`
    the last one whose rewards are collected until it does; 0 if there is none. `version` is the number of the last
    event that the agent learns from.
    """

    epoch: int
    lates: int
    closed: int
    closable: int
    version: int
    columns: FeedbackColumns

    @classmethod
    def of(cls, feedback: Sequence[tuple[Event, Record]], epoch: int) -> "FeedbackRun":
        closed = [event.ref or 0 for event, _ in feedback if event.kind == "close"]
        collected = [record.event.seq for event, record in feedback if event.kind == "reward" and event.learn is None]
        found = [(event.seq, event.learn, record.decided) for event, record in feedback]
        own = [(seq, reward, each) for seq, reward, each in found if reward is not None and each.epoch == epoch]
        columns = FeedbackColumns(
            [each.by for _, _, each in own],
            [each.arm for _, _, each in own],
            [reward for _, reward, _ in own],
            [each.x for _, _, each in own],
            [each.sparse for _, _, each in own],
            [each.params for _, _, each in own],
            [each.choice if each.by == "agent" else None for _, _, each in own],
        )
        return cls(
            epoch,
            sum(event.kind == "late" for event, _ in feedback),
            max(closed, default=0),
            max(collected, default=0),
            max((seq for seq, _, each in own if each.by in COUNTED), default=0),
            columns,
        )


def to_rounds(columns: FeedbackColumns, *, named: bool) -> PlayedRounds:
    """What was played, as a player learns from it."""
    rows: Array | list[Array]
    if len({len(x) for x in columns.x}) == 1 and not any(columns.sparse):
        rows = _floats(b"".join(columns.x)).reshape(len(columns.x), -1)
    else:
        rows = [_floats(x).reshape((2, -1) if s else -1) for x, s in zip(columns.x, columns.sparse, strict=True)]
    choices = [None if record is None else to_choice(record) for record in columns.choice]
    return PlayedRounds(rows, columns.params, choices, columns.arm if named else [None] * len(columns.arm))


def _floats(data: bytes) -> Array:
    return np.frombuffer(bytearray(data))  # of a bytearray: compiled code takes arrays that can be written
