"""Checks of a journal, and what can be saved of a damaged one."""

import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from syndicated._statefile import unpack
from syndicated.errors import InputError, StateError
from syndicated.service.core.model_load import PART_KINDS
from syndicated.service.core.records import decode
from syndicated.service.core.state import SERVICE_ID, State, events_upto, model_parts
from syndicated.store import Event, Snapshot, Store, StoreError, open_store
from syndicated.store.backup import new_journal

CHUNK_EVENTS = 1000  # that are read at once
MAX_RANGES = 5  # that a fault names

Range = tuple[int, int, int]  # the first and the last number, and how many events are missing among them


class Repaired(NamedTuple):
    """What a repair has saved, and the faults that it left out."""

    events: int
    snapshots: int
    faults: list[str]


def verify(store: Store) -> list[str]:
    """The faults of a journal, each with the bandit and the sequence number as far as they are known.

    Events have checksums, except those of before there were any. None is missing but those that were pruned, which the
    log counts: sequence numbers have no gaps, or where they may have some, the events up to a snapshot are as many as
    it counts. Snapshots have checksums; the database finds nothing wrong with its files; and a service can start from
    what there is.
    """
    with store.view():
        faults = [*store.file_faults(), *(fault for _, fault in chain(_scan(store), _snapshots(store)) if fault)]
        try:
            State.load(store)
        except StoreError as error:
            faults.append(f"no service can start from it: {error}")
    return faults


def repair(address: str, file: Path) -> Repaired:
    """Copy what is not damaged of a journal into a new file, with the same sequence numbers and ids.

    If it fails there is no new file.
    """
    if file.exists():
        raise InputError(f"a repaired journal must go into a new file; {file} exists")
    with closing(open_store(address, read_only=True)) as source, new_journal(file) as target:
        with target.batch(), source.view():
            target.become_copy(source)
            scanned, snapshots = list(_scan(source)), list(_snapshots(source))
            events = [event for event, _ in scanned if event is not None]
            for start in range(0, len(events), CHUNK_EVENTS):
                target.append(events[start : start + CHUNK_EVENTS])
            kept = [snapshot for snapshot, fault in snapshots if snapshot is not None and not fault]
            target.save(kept, keep=max(1, len(kept)))
            faults = [fault for _, fault in [*scanned, *snapshots] if fault]
            lost = [snapshot for snapshot, fault in snapshots if snapshot is not None and fault]
            faults += _replace(target, _newest(lost, kept))
        return Repaired(len(events), len(kept), faults)


def _replace(target: Store, lost: Sequence[Snapshot]) -> list[str]:
    """Snapshots in the place of those that were the newest of their bandits: an older one is not what they were.

    The other snapshots say that there is nothing to fold before them.
    """
    if not lost:
        return []
    try:
        made = State.load(target, lost=lost).snapshots()
    except StoreError as error:
        return [f"no service can start from it: {error}"]
    target.save(made, keep=sys.maxsize)
    return []


def _newest(snapshots: Sequence[Snapshot], kept: Sequence[Snapshot]) -> list[Snapshot]:
    """Those of snapshots after which none is kept of the same bandit, and the last of each."""
    last = {snapshot.bandit: snapshot.seq for snapshot in sorted([*snapshots, *kept], key=lambda each: each.seq)}
    return [snapshot for snapshot in snapshots if snapshot.seq == last[snapshot.bandit]]


def _scan(store: Store) -> Iterator[tuple[Event | None, str]]:
    """Every event that can be read, but those that load a model of which something is lost; and what is wrong."""
    present: list[int] = []
    parts: set[int] = set()  # events that are parts of models
    pruned, last = 0, store.last()
    for first in range(1, last + 1, CHUNK_EVENTS):
        events, damaged = store.salvage(first, min(first + CHUNK_EVENTS - 1, last))
        present += sorted([*damaged, *(event.seq for event in events)])
        for seq in damaged:
            yield None, f"event {seq} is damaged"
        for event in events:
            pruned += int(decode(event.body)["count"]) if event.kind == "prune" else 0
            parts |= {event.seq} if event.kind in PART_KINDS else set()
            lost = [seq for seq in model_parts(event) if seq not in parts]
            if lost:
                yield None, f"event {event.seq} loads a model of which event {lost[0]} is damaged or missing"
            else:
                yield event, ""
    missing = _uncounted(store, present) if store.has_gaps else _gaps(present)
    unpruned = sum(count for _, _, count in missing) - pruned
    if unpruned > 0:
        ranges = ", ".join(f"{start} to {end}" for start, end, _ in missing[:MAX_RANGES])
        yield None, f"{unpruned} events are missing that were not pruned, among {ranges}"


def _gaps(present: Sequence[int]) -> list[Range]:
    """The ranges of numbers that are not present, and how many there are in each."""
    pairs = pairwise([0, *present])
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
            unpack(snapshot.state)
            yield snapshot, ""
        except StateError:
            yield snapshot, f"the snapshot of bandit {snapshot.bandit} at {snapshot.seq} is damaged"
