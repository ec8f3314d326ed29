"""Events on their way into the state: what is at hand of each, their order, and which of them are folded together."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from syndicated.service.bandits.records import Record
from syndicated.store import Event

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
