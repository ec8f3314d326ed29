"""Decisions of a bandit, page by page: all of them, or those with an id, an event id, a subject or an arm."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Record, decode_decided
from syndicated.service.commit.batch import Batch
from syndicated.service.core.service import Service
from syndicated.service.dashboard.bandit_view import DecisionRow, decision_row
from syndicated.store import Event, Store

DECISIONS_PER_PAGE = 50
CHUNK_DECISIONS = 500  # that are read at once; the service decides between two chunks
MAX_SCANNED = 10_000  # decisions that one page looks through


@dataclass(frozen=True)
class FoundDecisions:
    """Decisions, the newest first, how many were looked through, and the number to go on before; None at the end."""

    rows: list[DecisionRow]
    scanned: int
    before: int | None


async def search(service: Service, name: str, text: str, before: int | None) -> FoundDecisions:
    """A page of decisions before a sequence number. With a text, those that have it as an id, a subject or an arm."""
    records: dict[int, Record] = {}
    if text and before is None:
        records = {record.event.seq: record for record in await service.read(partial(_named, service, name, text))}
    scanned, more = 0, True
    while more and len(records) < DECISIONS_PER_PAGE and scanned < MAX_SCANNED:
        room = DECISIONS_PER_PAGE - len(records)
        found, last, seen, more = await service.read(partial(_chunk, name, text, before, room))
        records |= {record.event.seq: record for record in found}
        before, scanned = last, scanned + seen
    rows = [decision_row(service.decisions.ids.of(seq), record) for seq, record in records.items()]
    return FoundDecisions(rows, scanned, before if more else None)


def _named(service: Service, name: str, text: str, batch: Batch) -> list[Record]:
    """The decisions with this id, or with an event of this id."""
    bandit, store = batch.state.bandit(name), batch.store
    found: list[Event] = []
    with suppress(Problem):  # it is no decision id
        found += store.events([service.decisions.ids.seq(text)]).values()
    for event in store.keyed([(bandit.id, text)]).values():
        found += [event] if event.ref is None else store.events([event.ref]).values()
    return _records(store, [event for event in found if event.bandit == bandit.id and event.kind == "decide"])


def _chunk(
    name: str, text: str, before: int | None, room: int, batch: Batch
) -> tuple[list[Record], int | None, int, bool]:
    """What fits of the next decisions, the number of the last that was seen, how many were, and whether there are more.

    Decisions of erased subjects are left out.
    """
    limit = CHUNK_DECISIONS if text else room + 1
    id_ = batch.state.bandit(name).id
    events = batch.store.recent(id_, ["decide"], limit, before)
    found: list[Event] = []
    seen = 0
    for event in events:
        if len(found) == room:
            break
        seen, before = seen + 1, event.seq
        if event.body and (not text or text in (event.subject, decode_decided(event.body).arm)):
            found.append(event)
    more = seen < len(events) or bool(batch.store.recent(id_, ["decide"], 1, before))
    return _records(batch.store, found), before, seen, more


def _records(store: Store, events: list[Event]) -> list[Record]:
    kept = {event.seq: event for event in events if event.body}
    about = store.about(kept)
    return [Record(event, None, tuple(about.get(seq, ()))) for seq, event in kept.items()]
