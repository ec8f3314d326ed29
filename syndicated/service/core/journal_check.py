"""Checks of a journal, and what can be saved of a damaged one."""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from syndicated.errors import InputError, StateError
from syndicated.service.bandits.model_load import PART_KINDS
from syndicated.service.bandits.records import decode, decode_decided
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.bandits.state import AUDIT_KINDS, State, events_upto, model_parts, unpack_snapshot
from syndicated.store import Event, Snapshot, Store, StoreError
from syndicated.store._base import MAX_SEQ
from syndicated.store._salvage import readable
from syndicated.store.backup import new_journal

CHUNK_EVENTS = 1000  # that are read at once
MAX_RANGES = 5  # that a fault names

Range = tuple[int, int, int]  # the first and the last number, and how many events are missing among them


class Repaired(NamedTuple):
    """What a repair has saved, the faults that it left out, and whether a service can start from what it saved."""

    events: int
    snapshots: int
    faults: list[str]
    can_start: bool


def verify(store: Store) -> list[str]:
    """The faults of a journal, each with the bandit and the sequence number as far as they are known.

    Events have checksums, except those of before there were any. None is missing but those that were pruned, which the
    log counts: sequence numbers have no gaps, or where they may have some, the events up to a snapshot are as many as
    it counts. Snapshots have checksums; the database finds nothing wrong with its files; and a service can start from
    what there is.
    """
    with store.view():
        snapshots = list(_snapshots(store))
        faults = [*store.file_faults(), *(fault for _, fault in chain(_scan(store, snapshots), snapshots) if fault)]
        try:
            faults += _lost(State.load(store).rebuilt, snapshots)
        except StoreError as error:
            faults.append(f"no service can start from it: {error}")
    return faults


def repair(address: str, file: Path) -> Repaired:
    """Copy what is not damaged of a journal into a new file, with the same sequence numbers and ids.

    If it fails there is no new file.
    """
    if file.exists():
        raise InputError(f"a repaired journal must go into a new file; {file} exists")
    with readable(address) as (source, file_faults), new_journal(file) as target:
        with target.batch(), source.view():
            target.become_copy(source)
            snapshots = list(_snapshots(source))
            scanned = list(_scan(source, snapshots))
            kept = [snapshot for snapshot, fault in snapshots if snapshot is not None and not fault]
            events, orphans = _without_orphans([event for event, _ in scanned if event is not None], kept)
            for start in range(0, len(events), CHUNK_EVENTS):
                target.append(events[start : start + CHUNK_EVENTS])
            target.save(kept, keep=max(1, len(kept)))
            faults = [*file_faults, *(fault for _, fault in [*scanned, *snapshots] if fault), *orphans]
            lost = [snapshot for snapshot, fault in snapshots if snapshot is not None and fault]
            try:
                rebuilt = _replace(target, _newest(lost, kept))
                faults += _lost(rebuilt - {SERVICE_ID} if orphans else rebuilt, snapshots)
                State.load(target)
                can_start = True
            except StoreError as error:
                faults.append(f"no service can start from it: {error}")
                can_start = False
        return Repaired(len(events), len(kept), faults, can_start)


def _without_orphans(events: Sequence[Event], kept: Sequence[Snapshot]) -> tuple[list[Event], list[str]]:
    """Events without those of bandits of which nothing is left that made them: no service could start with these."""
    made = [event.seq for event in events if event.kind == "create"]
    known = {SERVICE_ID, *made, *(snapshot.bandit for snapshot in kept)}
    orphans = sorted({_bandit_of(event) for event in events} - known)
    faults = [f"what bandit {bandit} was made of is lost, and with it all its events" for bandit in orphans]
    return [event for event in events if _bandit_of(event) in known], faults


def _bandit_of(event: Event) -> int:
    """The bandit that an event is of, or about."""
    if event.bandit != SERVICE_ID or event.kind == "prune":
        return event.bandit
    return _number(event, "bandit")


def _number(event: Event, name: str) -> int:
    """A number that an event of the service says, or 0."""
    found = decode(event.body).get(name) if event.body else 0
    return found if isinstance(found, int) else 0


def _is_readable(event: Event) -> bool:
    """Whether the body of an event could be one: those of before there were checksums may be anything."""
    try:
        if event.kind == "decide" and event.body:
            decode_decided(event.body)
        return isinstance(decode(event.body), dict) if event.body else event.kind not in AUDIT_KINDS
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _lost(rebuilt: Set[int], snapshots: Sequence[tuple[Snapshot | None, str]]) -> list[str]:
    """What to say of bandits that were made anew, and have no snapshot that is damaged."""
    damaged = {snapshot.bandit for snapshot, fault in snapshots if snapshot is not None and fault}
    return [f"the newest snapshot of bandit {bandit} is lost" for bandit in sorted(rebuilt - damaged)]


def _replace(target: Store, lost: Sequence[Snapshot]) -> Set[int]:
    """Save snapshots in the place of those that were the newest of their bandits: an older one is not what they were.

    So it is with a service's snapshot that knows of a bandit of which nothing is left.

    The other snapshots say that there is nothing to fold before them. Which bandits were made anew.
    """
    state = State.load(target, lost=lost)
    if state.rebuilt:
        target.save(state.snapshots(), keep=sys.maxsize)
    return state.rebuilt


def _newest(snapshots: Sequence[Snapshot], kept: Sequence[Snapshot]) -> list[Snapshot]:
    """Those of snapshots after which none is kept of the same bandit, and the last of each, as far as rows tell."""
    snapshots = [each for each in snapshots if isinstance(each.bandit, int) and isinstance(each.seq, int)]
    last = {snapshot.bandit: snapshot.seq for snapshot in sorted([*snapshots, *kept], key=lambda each: each.seq)}
    return [snapshot for snapshot in snapshots if snapshot.seq == last[snapshot.bandit]]


def _scan(store: Store, snapshots: Sequence[tuple[Snapshot | None, str]]) -> Iterator[tuple[Event | None, str]]:
    """Every event that can be read, but those that load a model of which something is lost; and what is wrong."""
    present: list[int] = []
    empty: list[int] = []
    parts: set[int] = set()  # events that are parts of models
    pruned = erased = 0
    try:
        last = store.last()
    except StoreError as error:
        last = _last_readable(store)
        yield None, f"nothing after event {last} can be read: {error}"
    for first, upto in _ranges(store, last):
        events, damaged = store.salvage(first, upto)
        present += sorted([*damaged, *(event.seq for event in events)])
        damaged += [event.seq for event in events if not _is_readable(event)]
        events = [event for event in events if event.seq not in damaged]
        for seq in damaged:
            yield None, f"event {seq} is damaged"
        for event in events:
            empty += [] if event.body else [event.seq]
            erased += _number(event, "count") if event.kind == "erase" else 0
            pruned += _number(event, "count") if event.kind == "prune" else 0
            parts |= {event.seq} if event.kind in PART_KINDS else set()
            lost = [seq for seq in model_parts(event) if seq not in parts]
            if lost:
                yield None, f"event {event.seq} loads a model of which event {lost[0]} is damaged or missing"
            else:
                yield event, ""
    if len(empty) > erased:
        which = f"{len(empty) - erased} of the events {empty[0]} to {empty[-1]}"
        yield None, f"{which} are empty and were not erased"
    snapped = max((snapshot.seq for snapshot, fault in snapshots if snapshot is not None and not fault), default=0)
    missing = _uncounted(store, present) if store.has_gaps else _gaps(present, snapped)
    unpruned = sum(count for _, _, count in missing) - pruned
    if unpruned > 0:
        ranges = ", ".join(f"{start} to {end}" for start, end, _ in missing[:MAX_RANGES])
        yield None, f"{unpruned} events are missing that were not pruned, among {ranges}"


def _last_readable(store: Store) -> int:
    """The last event of a file whose end is missing, before which events can be read."""
    low, high = 0, 1
    while high < MAX_SEQ and not store.salvage(high, high)[1]:
        low, high = high, min(2 * high, MAX_SEQ)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if store.salvage(middle, middle)[1] else (middle, high)
    return low


def _ranges(store: Store, last: int) -> Iterator[tuple[int, int]]:
    """Numbers to be read at once, without what is empty: the last one of a damaged file may be any number."""
    first, count = 1, CHUNK_EVENTS
    while first <= last:
        upto = min(first + count - 1, last)
        if _is_empty(store, first, upto):
            first, count = upto + 1, 8 * count
        elif count > CHUNK_EVENTS:
            count = CHUNK_EVENTS
        else:
            yield first, upto
            first = upto + 1


def _is_empty(store: Store, first: int, upto: int) -> bool:
    try:
        return store.count(first - 1, upto + 1) == 0
    except StoreError:  # there is something that cannot be read
        return False


def _gaps(present: Sequence[int], snapped: int) -> list[Range]:
    """The ranges of numbers that are not present, and how many there are in each; the log has a snapshot's event."""
    end = max([snapped, *present[-1:]]) + 1
    pairs = pairwise([0, *present, end])
    return [(before + 1, after - 1, after - before - 1) for before, after in pairs if after - before > 1]


def _uncounted(store: Store, present: Sequence[int]) -> list[Range]:
    """The ranges between snapshots that have fewer events than the snapshots count, and how many fewer."""
    counted = [(0, 0)]
    for snapshot in reversed(store.snapshots(SERVICE_ID)):
        with suppress(StateError):  # a damaged one is told of as such
            counted.append((snapshot.seq, events_upto(snapshot)))
    found = []
    for (start, before), (end, after) in pairwise(counted):
        lacking = after - before - (bisect_right(present, end) - bisect_right(present, start))
        if lacking > 0:
            found.append((start + 1, end, lacking))
    return found


def _snapshots(store: Store) -> Iterator[tuple[Snapshot | None, str]]:
    """Every snapshot, and what is wrong with it."""
    try:
        found = [snapshot for newest in store.snapshots() for snapshot in store.snapshots(newest.bandit)]
    except StoreError as error:
        yield None, f"the snapshots cannot be read: {error}"
        return
    for snapshot in found:
        try:
            unpack_snapshot(snapshot)
            yield snapshot, ""
        except StateError:
            yield snapshot, f"the snapshot of bandit {snapshot.bandit} at {snapshot.seq} is damaged"
