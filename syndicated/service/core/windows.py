"""What the clock does: it closes the reward windows of decisions, and drops what is older than a bandit's retention.

The clock never touches a model. What it asks for becomes events of the log, which are folded like all others: or a
replay would give another model.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from syndicated.service.core.bandit import Bandit
from syndicated.service.core.batch import Batch
from syndicated.service.core.group_commit import GroupCommit
from syndicated.service.core.state import SERVICE_ID

PAGE_DECISIONS = 500  # whose windows are looked at at once
MAX_BANDITS = 50  # whose windows are closed in one transaction
PRUNE_SECONDS = 3600.0  # between looks at what is too old
PRUNE_EVENTS = 2000  # that are dropped in one transaction, so that nobody waits long for it


class Looked(NamedTuple):
    """What a look at the windows of a bandit has found: when the next one passes, while the rest stays as it was."""

    window: float
    latest: int  # decision that was folded
    next_close: float  # infinite if no decision was left


class Windows:
    """Closes windows and prunes. What it keeps, by bandit, is this process's own progress and not part of the state."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self._scanned: dict[int, int] = {}  # the last decision whose window this process has seen to be closed
        self._backlog: set[int] = set()  # bandits with more windows to close than one page has
        self._looked: dict[int, Looked] = {}
        self._pruned: dict[int, float] = {}  # when this process last looked for what is too old
        self._pruning: dict[int, int] = {}  # bandits with more to drop, and up to where

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog or self._pruning)

    def due(self) -> Iterator[Callable[[Batch], None]]:
        """What the clock asks for now."""
        now, bandits = self._group_commit.now(), list(self._group_commit.state.bandits.values())
        closing = [bandit.id for bandit in bandits if self._may_close(bandit, now)]
        for start in range(0, len(closing), MAX_BANDITS):
            yield partial(self._close, ids=closing[start : start + MAX_BANDITS])
        for bandit in bandits:
            retention = bandit.spec.retention
            if retention is None or bandit.importing:
                self._pruning.pop(bandit.id, None)
            else:
                last = self._pruned.get(bandit.id, -math.inf)
                if now - last >= min(retention, PRUNE_SECONDS):
                    yield partial(self._prune, id_=bandit.id)

    def _may_close(self, bandit: Bandit, now: float) -> bool:
        """Whether a window may have passed, by what is in memory: bandits of which nothing is due cost nothing."""
        if bandit.spec.window is None or bandit.importing:
            self._backlog.discard(bandit.id)
            return False
        looked = self._looked.get(bandit.id)
        if looked is None or looked.window != bandit.spec.window:
            return True
        return now > looked.next_close or (looked.next_close == math.inf and looked.latest != bandit.latest)

    # All take ids and not bandits: what another process has appended is folded before they run, and may change the
    # spec or replace the state.

    def _close(self, batch: Batch, ids: Sequence[int]) -> None:
        """Close the windows of bandits that have passed."""
        for id_ in ids:
            bandit = batch.state.bandits[id_]
            if bandit.spec.window is not None and not bandit.importing:
                self._close_one(batch, bandit, bandit.spec.window)

    def _close_one(self, batch: Batch, bandit: Bandit, window: float) -> None:
        """Close windows: learn what was collected, or the default reward.

        Decisions are gone through in their order up to the first whose window is open; after every full page the log
        is told how far this has come, so that a restart goes on from there.
        """
        start = max(bandit.closed, self._scanned.get(bandit.id, 0))
        page = batch.store.decisions(bandit.id, start, PAGE_DECISIONS)
        due = list(takewhile(lambda event: batch.now - event.at > window, page))
        batch.fetch([event.seq for event in due], ())
        for event in due:
            record = batch.record(event.seq)
            if record is not None and not any(e.kind == "close" or e.learn is not None for e in record.about):
                learn = bandit.collected(record)
                if learn is not None:
                    batch.add(bandit.id, "close", {}, ref=event.seq, learn=learn, subject=event.subject)
        more = len(due) == PAGE_DECISIONS
        if more:
            batch.add(bandit.id, "closed", {"upto": due[-1].seq})
        next_close = page[len(due)].at + window if len(due) < len(page) else -math.inf if more else math.inf
        looked = Looked(window, bandit.latest, next_close)
        batch.on_commit.append(partial(self._closed, bandit.id, due[-1].seq if due else None, more, looked))

    def _closed(self, bandit: int, upto: int | None, more: bool, looked: Looked) -> None:
        self._looked[bandit] = looked
        if upto is not None:
            self._scanned[bandit] = upto
        (self._backlog.add if more else self._backlog.discard)(bandit)

    def _prune(self, batch: Batch, id_: int) -> None:
        """Drop some of what is older than the bandit's retention and in a snapshot."""
        upto = self._pruning.get(id_) or max((saved.seq for saved in batch.store.snapshots(id_)), default=0)
        bandit = batch.state.bandits[id_]
        before = -math.inf if bandit.importing else batch.now - (bandit.spec.retention or math.inf)
        count = batch.store.prune(id_, before, upto, PRUNE_EVENTS)
        batch.on_commit.append(partial(self._dropped, id_, upto, count == PRUNE_EVENTS, batch.now))
        if count:
            batch.on_commit.append(batch.state.forget_records)
            batch.add(SERVICE_ID, "prune", {"actor": "", "bandit": id_, "count": count, "upto": upto})

    def _dropped(self, bandit: int, upto: int, more: bool, now: float) -> None:
        if more:
            self._pruning[bandit] = upto
        else:
            self._pruning.pop(bandit, None)
            self._pruned[bandit] = now
