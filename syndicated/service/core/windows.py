"""What the clock does: it closes the reward windows of decisions, and drops what is older than a bandit's retention.

It also tries again to scrub the journal's files, if a reader was in the way when something was erased.

The clock never touches a model. What it asks for becomes events of the log, which are folded like all others: or a
replay would give another model.
"""

import math
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.records import is_over
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.store import Event

PAGE_DECISIONS = 500  # of a bandit whose windows are looked at at once
MAX_BANDITS = 250  # whose windows are closed in one transaction
MAX_DECISIONS = 1000  # that are looked at in one transaction
MAX_LARGE_DECISIONS = 20  # the same, and bandits, where the log has all arms: each may take milliseconds to read
PRUNE_SECONDS = 3600.0  # between looks at what is too old
PRUNE_EVENTS = 2000  # that are dropped in one transaction, so that nobody waits long for it


class Look(NamedTuple):
    """What the journal has of a bandit's windows: decisions whose window has passed, and whether there may be more."""

    window: float
    passed: list[Event]
    more: bool
    upto: int  # up to this decision no window is open
    next_close: float  # when the next one passes, if one is open


class Windows:
    """Closes windows and prunes. What it keeps, by bandit, is this process's own progress and not part of the state."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self._backlog: set[int] = set()  # bandits with more windows to close than one page has
        self._looks: dict[int, Look] = {}  # the last at each
        self._pruned: dict[int, float] = {}  # when this process last looked for what is too old
        self._pruning: dict[int, int] = {}  # bandits with more to drop, and up to where

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog or self._pruning)

    def due(self) -> Iterator[Callable[[Batch], None]]:
        """What the clock asks for now."""
        now, bandits = self._group_commit.now(), list(self._group_commit.state.bandits.values())
        closing = [bandit for bandit in bandits if self._may_close(bandit, now)]
        for log, most in (("chosen", MAX_BANDITS), ("all", MAX_LARGE_DECISIONS)):
            ids = [bandit.id for bandit in closing if bandit.spec.log == log]
            for start in range(0, len(ids), most):
                yield partial(self._close, ids=ids[start : start + most])
        if self._group_commit.store.has_traces:
            yield lambda batch: batch.on_commit.append(batch.scrub)
        for bandit in bandits:
            retention = bandit.spec.retention
            if retention is None or bandit.importing or bandit.id in self._group_commit.state.rebuilt:
                self._pruning.pop(bandit.id, None)
            else:
                last = self._pruned.get(bandit.id, -math.inf)
                if now - last >= min(retention, PRUNE_SECONDS):
                    yield partial(self._prune, id_=bandit.id)

    def _may_close(self, bandit: Bandit, now: float) -> bool:
        """Whether a window may have passed, by what is in memory: bandits of which nothing is due cost nothing."""
        if bandit.spec.window is None or bandit.importing or bandit.closable <= self._start(bandit):
            self._backlog.discard(bandit.id)
            return False
        look = self._looks.get(bandit.id)
        return look is None or look.window != bandit.spec.window or now > look.next_close

    def _start(self, bandit: Bandit) -> int:
        """The decision up to which all windows of a bandit are known to be closed.

        What this process has seen holds while the window is not longer than it was then: a longer one may be open.
        """
        look = self._looks.get(bandit.id)
        if look is None or look.window < (bandit.spec.window or 0.0):
            return bandit.closed
        return max(bandit.closed, look.upto)

    # All take ids and not bandits: what another process has appended is folded before they run, and may change the
    # spec or replace the state.

    def _close(self, batch: Batch, ids: Sequence[int]) -> None:
        """Close the windows of bandits that have passed. What they need of the journal is read for all at once."""
        bandits = [batch.state.bandits[id_] for id_ in ids]
        bandits = [bandit for bandit in bandits if bandit.spec.window is not None and not bandit.importing]
        most = MAX_LARGE_DECISIONS if any(bandit.spec.log == "all" for bandit in bandits) else MAX_DECISIONS
        limit = max(1, min(PAGE_DECISIONS, most // max(1, len(bandits))))
        starts = {bandit.id: self._start(bandit) for bandit in bandits}
        pages = batch.store.decisions(starts, limit)
        looks = [_look(batch, bandit, starts[bandit.id], pages.get(bandit.id, []), limit) for bandit in bandits]
        left = _not_over(batch, [event.seq for look in looks for event in look.passed])
        batch.fetch(left, ())
        for bandit, look in zip(bandits, looks, strict=True):
            self._close_passed(batch, bandit, look, left)

    def _close_passed(self, batch: Batch, bandit: Bandit, look: Look, left: Set[int]) -> None:
        """Learn what was collected, or the default reward, of decisions that are `left`.

        After every full page the log is told how far this has come, so that a restart goes on from there.
        """
        for event in look.passed:
            record = batch.record(event.seq) if event.seq in left else None
            if record is not None and not record.is_over:
                learn = bandit.collected(record)
                if learn is not None:
                    batch.add(bandit.id, "close", {}, ref=event.seq, learn=learn, subject=event.subject)
        if look.more:
            batch.add(bandit.id, "closed", {"upto": look.passed[-1].seq})
        batch.on_commit.append(partial(self._closed, bandit.id, look))

    def _closed(self, bandit: int, look: Look) -> None:
        self._looks[bandit] = look._replace(passed=[])
        (self._backlog.add if look.more else self._backlog.discard)(bandit)

    def _prune(self, batch: Batch, id_: int) -> None:
        """Drop some of what is older than the bandit's retention and in a snapshot."""
        upto = self._pruning.get(id_) or max((seq for seq, _, _ in batch.store.snapshot_sizes(id_)), default=0)
        bandit = batch.state.bandits[id_]
        before = -math.inf if bandit.importing else batch.now - (bandit.spec.retention or math.inf)
        dropped = batch.store.prune(id_, before, upto, PRUNE_EVENTS)
        batch.on_commit.append(partial(self._dropped, id_, upto, len(dropped) == PRUNE_EVENTS, batch.now))
        if dropped:
            batch.on_commit.append(partial(batch.state.forget_records, dropped))
            known = {"seq": batch.state.seq, "events": batch.state.events}  # by which others see what they have missed
            what = {"bandit": id_, "count": len(dropped), "last": dropped[-1]}  # which only snapshots have now
            batch.add(SERVICE_ID, "prune", {"actor": "", **what, "upto": upto, **known})

    def _dropped(self, bandit: int, upto: int, more: bool, now: float) -> None:
        if more:
            self._pruning[bandit] = upto
        else:
            self._pruning.pop(bandit, None)
            self._pruned[bandit] = now


def _look(batch: Batch, bandit: Bandit, start: int, page: list[Event], limit: int) -> Look:
    """Look at the next decisions of a bandit, in their order up to the first whose window is open.

    Only an empty page says that there are no more: one that is not full may lack decisions that are damaged.
    """
    window = bandit.spec.window or 0.0
    passed = list(takewhile(lambda event: batch.now - event.at > window, page))
    upto, left = passed[-1].seq if passed else start, page[len(passed) :]
    if not page:
        upto = max(start, batch.state.seq)
    return Look(window, passed, len(passed) == limit, upto, left[0].at + window if left else -math.inf)


def _not_over(batch: Batch, seqs: Sequence[int]) -> Set[int]:
    """Decisions of which nothing says that they were learned from, or closed: those need not be held, or read.

    Memory says it, or of what that lacks the journal.
    """
    known = {seq: batch.state.record(seq) for seq in seqs}
    unknown = [seq for seq, record in known.items() if record is None]
    about = batch.store.about(unknown) if unknown else {}
    return {
        seq for seq, record in known.items() if not (is_over(about.get(seq, ())) if record is None else record.is_over)
    }
