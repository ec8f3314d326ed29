"""The engine: decisions, their rewards, and what the clock does to them."""

import asyncio
import hmac
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from itertools import takewhile

from msgspec.structs import replace

from syndicated.errors import InputError
from syndicated.service.core.admin import Administration
from syndicated.service.core.arms import Offer
from syndicated.service.core.bandit import COUNTED, Bandit
from syndicated.service.core.batch import Batch
from syndicated.service.core.messages import (
    Decided,
    DecideReply,
    DecideRequest,
    Outcome,
    Problem,
    RewardReply,
    RewardRequest,
    Spec,
)
from syndicated.service.core.state import SERVICE, Record, decode
from syndicated.store import Event
from syndicated.types import Array

PAGE = 500  # decisions whose windows are looked at at once
PRUNE = 3600.0  # seconds between looks at what is too old


class Engine(Administration):
    """A running service without its HTTP: every method is a request, answered when it is durable."""

    def decide(self, name: str, request: DecideRequest, table: Array | None = None) -> "asyncio.Future[DecideReply]":
        """Decide.

        Arms are read as they come, and their many numbers let go of: to keep those costs more than to read them. What
        is wrong with arms is said in their turn.
        """
        self.check_room()
        keys = [(name, request.event_id)] if request.event_id is not None else []
        bandit, offer = self.state.names.get(name), None
        if bandit is not None:
            with suppress(InputError):
                offer = bandit.shelf.offer(request, table)
                if not offer.needed:
                    request = replace(request, arms=None)
        return self.submit(lambda batch: self._decide(batch, name, request, table, offer), keys=keys)

    def _decide(
        self, batch: Batch, name: str, request: DecideRequest, table: Array | None, offer: Offer | None
    ) -> DecideReply:
        bandit = self.bandit(name)
        before = batch.keyed(bandit.id, request.event_id)
        if before is not None:
            record = batch.record(before.seq)
            if record is None:
                raise Problem(409, "conflict", f"event_id {request.event_id!r} was used for something else")
            self.counts["repeated"] += 1
            return self._reply(before, record.decided, repeated=True)
        if bandit.retired:
            raise Problem(409, "retired", f"the bandit {name} was retired and decides no more")
        if offer is None or not offer.holds(bandit.shelf):
            if offer is not None and not offer.needed:
                raise Problem(409, "conflict", "the bandit got other features while this request waited")
            offer = bandit.shelf.offer(request, table)
        decided, after = bandit.propose(request, offer, batch.turn(bandit))
        event = batch.decide(bandit.id, decided, request)
        batch.take_turn(bandit, after)
        return self._reply(event, decided)

    def _reply(self, event: Event, decided: Decided, repeated: bool = False) -> DecideReply:
        return DecideReply(
            decision_id=self.public(event),
            arm=decided.arm,
            propensity=decided.propensity,
            by=decided.by,
            version=decided.version,
            epoch=decided.epoch,
            params=decided.params,
            repeated=repeated,
        )

    def reward(self, name: str, request: RewardRequest) -> "asyncio.Future[RewardReply]":
        seq = self.private(request.decision_id)
        keys = [(name, request.event_id)] if request.event_id is not None else []
        return self.submit(lambda batch: self._reward(batch, name, request, seq), refs=[seq], keys=keys)

    def _reward(self, batch: Batch, name: str, request: RewardRequest, seq: int) -> RewardReply:
        bandit, record = self._recorded(batch, name, seq)
        value = bandit.check_reward(request.reward)
        spec, decided = bandit.spec, record.decided
        keyed = batch.keyed(bandit.id, request.event_id)
        earlier = [e for e in record.about if e.kind in ("reward", "late")]
        same = earlier[:1] if spec.aggregate == "first" else []
        if keyed is not None:
            same = [keyed]
        if same:
            if same[0].ref != seq:
                raise Problem(409, "conflict", f"event_id {request.event_id!r} was used for something else")
            if decode(same[0].body).get("value") != value:
                self.counts["conflict"] += 1
                raise Problem(409, "conflict", f"this decision has another reward; got {value} after it")
            self.counts["repeated"] += 1
            return RewardReply(decision_id=request.decision_id, outcome="repeated")
        kind, learn = "reward", None
        outcome: Outcome = "learned" if self._learns(bandit, decided) else "counted"
        if _late(record, spec, batch.now):
            kind, outcome = "late", "late"
        elif spec.aggregate != "first":
            outcome = "collected"
        elif decided.deferred and not _activated(record):
            outcome = "held"
        else:
            learn = value
        body = {"value": value, "outcome": outcome}
        batch.add(bandit.id, kind, body, ref=seq, learn=learn, key=request.event_id, subject=record.event.subject)
        return RewardReply(decision_id=request.decision_id, outcome=outcome)

    def activate(self, name: str, decision_id: str) -> "asyncio.Future[RewardReply]":
        seq = self.private(decision_id)
        return self.submit(lambda batch: self._activate(batch, name, decision_id, seq), refs=[seq])

    def _activate(self, batch: Batch, name: str, decision_id: str, seq: int) -> RewardReply:
        bandit, record = self._recorded(batch, name, seq)
        if not record.decided.deferred or _activated(record):
            self.counts["repeated"] += 1
            return RewardReply(decision_id=decision_id, outcome="repeated")
        if _late(record, bandit.spec, batch.now):
            raise Problem(409, "late", "a decision can be activated until its window has closed")
        held = [e for e in record.about if e.kind == "reward"] if bandit.spec.aggregate == "first" else []
        learn = decode(held[0].body)["value"] if held else None
        batch.add(bandit.id, "activate", {}, ref=seq, learn=learn, subject=record.event.subject)
        outcome: Outcome = "learned" if self._learns(bandit, record.decided) else "counted"
        return RewardReply(decision_id=decision_id, outcome="activated" if learn is None else outcome)

    def _learns(self, bandit: Bandit, decided: Decided) -> bool:
        return decided.by in COUNTED and decided.epoch == bandit.epoch

    def decision(self, name: str, decision_id: str) -> "asyncio.Future[Record]":
        seq = self.private(decision_id)
        return self.submit(lambda batch: self._recorded(batch, name, seq)[1], refs=[seq])

    def _recorded(self, batch: Batch, name: str, seq: int) -> tuple[Bandit, Record]:
        bandit, record = self.bandit(name), batch.record(seq)
        if record is None or record.event.bandit != bandit.id:
            raise Problem(404, "unknown-decision", "this bandit has no decision with this id")
        return bandit, record

    # the clock

    def chores(self) -> Iterator[Callable[[Batch], None]]:
        for bandit in list(self.state.bandits.values()):
            if bandit.spec.window is not None:
                yield partial(self._close, bandit=bandit)
            retention = bandit.spec.retention
            if retention is not None and self.clock() - bandit.pruned >= min(retention, PRUNE):
                yield partial(self._prune, bandit=bandit)

    def _close(self, batch: Batch, bandit: Bandit) -> None:
        """Close the windows that have passed: learn what was collected, or the default reward.

        Decisions are gone through in their order up to the first whose window is open; after every full page the log
        is told how far it is, so that a restart goes on from there.
        """
        window = bandit.spec.window or 0.0
        page = self.store.decisions(bandit.id, max(bandit.closed, bandit.scanned), PAGE)
        due = list(takewhile(lambda event: batch.now - event.at > window, page))
        batch.fetch([event.seq for event in due], ())
        for event in due:
            record = batch.record(event.seq)
            if record is not None and not any(e.kind == "close" or e.learn is not None for e in record.about):
                rewards = [e for e in record.about if e.kind == "reward"]
                learn = bandit.collected(record.decided, rewards, _activated(record))
                if learn is not None:
                    batch.add(bandit.id, "close", {}, ref=event.seq, learn=learn, subject=event.subject)
        if due:
            batch.then.append(partial(setattr, bandit, "scanned", due[-1].seq))
        if len(due) == PAGE:
            batch.add(bandit.id, "closed", {"upto": due[-1].seq})
        batch.then.append(partial(setattr, bandit, "behind", len(due) == PAGE))

    def _prune(self, batch: Batch, bandit: Bandit) -> None:
        """Drop what is older than the bandit's retention and in a snapshot."""
        saved = self.store.snapshots(bandit.id)
        before = batch.now - (bandit.spec.retention or math.inf)
        count = self.store.prune(bandit.id, before, saved[0].seq) if saved else 0
        batch.then.append(partial(setattr, bandit, "pruned", batch.now))
        if count:
            batch.then.append(self.state.forget)
            batch.add(SERVICE, "prune", {"actor": "", "bandit": bandit.id, "count": count})

    # ids

    def public(self, event: Event) -> str:
        """An event's id for the world outside: it cannot be guessed."""
        return f"{event.seq:x}-{self._mac(event.seq)}"

    def private(self, id_: str) -> int:
        """The sequence number that a public id stands for."""
        number, _, mac = id_.partition("-")
        try:
            seq = int(number, 16)
        except ValueError:
            seq = -1
        if not 0 < seq < 2**62 or not hmac.compare_digest(mac.encode(), self._mac(seq).encode()):
            raise Problem(404, "unknown-decision", "there is no decision with this id")
        return seq

    def _mac(self, seq: int) -> str:
        return blake2b(b"%d" % seq, key=self.secret, digest_size=8).hexdigest()


def _late(record: Record, spec: Spec, now: float) -> bool:
    closed = any(event.kind == "close" for event in record.about)
    return closed or (spec.window is not None and now - record.event.at > spec.window)


def _activated(record: Record) -> bool:
    return any(event.kind == "activate" for event in record.about)
