"""What the clock does: it closes the reward windows of decisions, and drops what is older than a bandit's retention.

The clock never touches a model. What it asks for becomes events of the log, which are folded like all others: or a
replay would give another model.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile

from syndicated.service.core.batch import Batch
from syndicated.service.core.group_commit import GroupCommit
from syndicated.service.core.state import SERVICE_ID

PAGE_DECISIONS = 500  # whose windows are looked at at once
PRUNE_SECONDS = 3600.0  # between looks at what is too old


class Windows:
    """Closes windows and prunes. What it keeps, by bandit, is this process's own progress and not part of the state."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self._scanned: dict[int, int] = {}  # the last decision whose window this process has seen to be closed
        self._backlog: set[int] = set()  # bandits with more windows to close than one page has
        self._pruned: dict[int, float] = {}  # when this process last looked for what is too old

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def due(self) -> Iterator[Callable[[Batch], None]]:
        """What the clock asks for now."""
        for bandit in list(self._group_commit.state.bandits.values()):
            if bandit.spec.window is None:
                self._backlog.discard(bandit.id)
            else:
                yield partial(self._close, id_=bandit.id)
            retention = bandit.spec.retention
            if retention is not None:
                last = self._pruned.get(bandit.id, -math.inf)
                if self._group_commit.clock() - last >= min(retention, PRUNE_SECONDS):
                    yield partial(self._prune, id_=bandit.id)

    # Both take an id and not a bandit: what another process has appended is folded before they run, and may change the
    # spec or replace the state.

    def _close(self, batch: Batch, id_: int) -> None:
        """Close the windows that have passed: learn what was collected, or the default reward.

        Decisions are gone through in their order up to the first whose window is open; after every full page the log
        is told how far this has come, so that a restart goes on from there.
        """
        bandit = batch.state.bandits[id_]
        window = bandit.spec.window
        if window is None:
            return
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
        batch.on_commit.append(partial(self._closed, bandit.id, due[-1].seq if due else None, more))

    def _closed(self, bandit: int, upto: int | None, more: bool) -> None:
        if upto is not None:
            self._scanned[bandit] = upto
        (self._backlog.add if more else self._backlog.discard)(bandit)

    def _prune(self, batch: Batch, id_: int) -> None:
        """Drop what is older than the bandit's retention and in a snapshot."""
        bandit = batch.state.bandits[id_]
        saved = batch.store.snapshots(bandit.id)
        before = batch.now - (bandit.spec.retention or math.inf)
        count = batch.store.prune(bandit.id, before, saved[0].seq) if saved else 0
        batch.on_commit.append(partial(self._pruned.__setitem__, bandit.id, batch.now))
        if count:
            batch.on_commit.append(batch.state.forget_records)
            batch.add(SERVICE_ID, "prune", {"actor": "", "bandit": bandit.id, "count": count})
