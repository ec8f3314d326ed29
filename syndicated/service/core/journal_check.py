"""Checks of a journal, and what can be saved of a damaged one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from syndicated._statefile import unpack
from syndicated.errors import InputError, StateError
from syndicated.service.core.records import decode
from syndicated.service.core.state import State
from syndicated.store import Event, Snapshot, SQLite, Store, StoreError, open_store

CHUNK_EVENTS = 1000  # that are read at once


class Repaired(NamedTuple):
    """What a repair has saved, and the faults that it left out."""

    events: int
    snapshots: int
    faults: list[str]


def verify(store: Store) -> list[str]:
    """The faults of a journal, each with the bandit and the sequence number as far as they are known.

    Events have checksums, except those of before there were any; sequence numbers have no gaps but those of pruned
    events, which the log counts; snapshots have checksums; and a service can start from what there is.
    """
    with store.view():
        faults = [fault for _, fault in [*_scan(store), *_snapshots(store)] if fault]
        try:
            State.load(store)
        except StoreError as error:
            faults.append(f"no service can start from it: {error}")
    return faults


def repair(address: str, file: Path) -> Repaired:
    """Copy what is not damaged of a journal into a new file, with the same sequence numbers and ids."""
    if file.exists():
        raise InputError(f"a repaired journal must go into a new file; {file} exists")
    with closing(open_store(address, read_only=True)) as source, closing(SQLite(file)) as target:
        with target.batch(), source.view():
            target.set_secret(source.secret)
            scanned, snapshots = list(_scan(source)), list(_snapshots(source))
            events = [event for event, _ in scanned if event is not None]
            for start in range(0, len(events), CHUNK_EVENTS):
                target.append(events[start : start + CHUNK_EVENTS])
            kept = [snapshot for snapshot, fault in snapshots if not fault]
            target.save(kept, keep=max(1, len(kept)))
        faults = [fault for _, fault in [*scanned, *snapshots] if fault]
        return Repaired(len(events), len(kept), faults)


def _scan(store: Store) -> Iterator[tuple[Event | None, str]]:
    """Every event that can be read, and what is wrong between them."""
    missing: list[tuple[int, int]] = []
    expected, pruned, last = 1, 0, store.last()
    for first in range(1, last + 1, CHUNK_EVENTS):
        events, damaged = store.salvage(first, min(first + CHUNK_EVENTS - 1, last))
        for seq in damaged:
            yield None, f"event {seq} is damaged"
        for event in events:
            gap = [seq for seq in range(expected, event.seq) if seq not in damaged]
            if gap:
                missing.append((gap[0], gap[-1]))
            expected = event.seq + 1
            pruned += int(decode(event.body)["count"]) if event.kind == "prune" else 0
            yield event, ""
    lost = sum(end - start + 1 for start, end in missing) - pruned
    if lost > 0:
        ranges = ", ".join(f"{start} to {end}" for start, end in missing[:5])
        yield None, f"{lost} events are missing that were not pruned, among {ranges}"


def _snapshots(store: Store) -> Iterator[tuple[Snapshot, str]]:
    for newest in store.snapshots():
        for snapshot in store.snapshots(newest.bandit):
            try:
                unpack(snapshot.state)
                yield snapshot, ""
            except StateError:
                yield snapshot, f"the snapshot of bandit {snapshot.bandit} at {snapshot.seq} is damaged"
