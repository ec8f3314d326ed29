"""Decisions and their rewards."""

import asyncio
import hmac
from functools import partial
from hashlib import blake2b

from msgspec.structs import replace

from syndicated._decided_by import COUNTED
from syndicated.errors import InputError
from syndicated.service.bandits.arms import ArmTable
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import DecideReply, DecideRequest, Outcome, RewardReply, RewardRequest
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Decided, Record, decode
from syndicated.service.bandits.size_limits import check_request
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.service.core.network_training import NetworkTraining
from syndicated.types import Array


class DecisionIds:
    """Ids of decisions for the world outside: the sequence number, and a MAC of it, so that they cannot be guessed."""

    def __init__(self, secret: bytes) -> None:
        self._begun = blake2b(key=secret, digest_size=8)  # a MAC without its message

    def of(self, seq: int) -> str:
        """The id of the decision with this sequence number."""
        mac = self._begun.copy()
        mac.update(b"%d" % seq)
        return f"{seq:x}-{mac.hexdigest()}"

    def seq(self, id_: str) -> int:
        """The sequence number that an id stands for."""
        number, _, mac = id_.partition("-")
        try:
            seq = int(number, 16)
        except ValueError:
            seq = -1
        if not 0 < seq < 2**62 or not hmac.compare_digest(mac.encode(), self.of(seq).partition("-")[2].encode()):
            raise Problem(404, "unknown-decision", "there is no decision with this id")
        return seq


class Decisions:
    """Decide, reward, activate: each is answered when it is durable."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self.ids = DecisionIds(group_commit.store.secret)
        self._training = NetworkTraining(group_commit)
        self.counts = {"repeated": 0, "conflict": 0}

    def decide(self, name: str, request: DecideRequest, X: Array | None = None) -> "asyncio.Future[DecideReply]":
        """Decide; `X` is the table of a binary body."""
        check_request(request, X)
        return self.decide_on(name, *self.read(name, request, X), X)

    def read(self, name: str, request: DecideRequest, X: Array | None = None) -> tuple[DecideRequest, ArmTable | None]:
        """A request, and its arms as a table; refused at once if it cannot be queued. On any thread.

        The arms are read now and their JSON is dropped, which would cost more to keep while the request waits. An error
        in them is raised when the request's turn comes: only then is it known whether the request is a repeated one.
        """
        self._group_commit.check_room()
        bandit = self._group_commit.state.names.get(name)
        if bandit is None:
            return request, None
        try:
            arms = bandit.registered.table(request, X)
        except InputError:
            return request, None
        return (request if arms.uses_registered else replace(request, arms=None)), arms

    def decide_on(
        self, name: str, request: DecideRequest, arms: ArmTable | None, X: Array | None = None
    ) -> "asyncio.Future[DecideReply]":
        """Decide on what `read` gave."""
        keys = [(name, request.event_id)] if request.event_id is not None else []
        run = partial(self._decide, name, request, X, arms)
        return self._group_commit.submit(run, keys=keys, bandit=name, arms=arms)

    def _decide(
        self, name: str, request: DecideRequest, X: Array | None, arms: ArmTable | None, batch: Batch
    ) -> DecideReply:
        bandit = batch.state.bandit(name)
        if request.event_id is not None:
            before = batch.keyed(bandit.id, request.event_id)
            if before is not None:
                record = batch.record(before.seq)
                if record is None:
                    raise Problem(409, "conflict", f"event_id {request.event_id!r} was used for something else")
                self.counts["repeated"] += 1
                return self._reply(before.seq, record.decided, repeated=True)
        if bandit.retired:
            raise Problem(409, "retired", f"the bandit {name} is retired and decides no more")
        _check_imported(bandit)
        if arms is None or not arms.is_valid_for(bandit.registered):
            if arms is not None and not arms.uses_registered:  # its JSON is gone, see `decide`
                raise Problem(409, "conflict", "the bandit got other features while this request waited")
            arms = bandit.registered.table(request, X)
        turn = batch.turn(bandit)
        decided, turn = bandit.propose(request, arms, turn, batch.proposals.take(bandit, arms, turn))
        if any(policy.is_behind for policy in bandit.networks):
            batch.on_commit.append(partial(self._training.want, bandit.id))
        return self._reply(batch.decide(bandit, decided, turn, request).seq, decided)

    def _reply(self, seq: int, decided: Decided, repeated: bool = False) -> DecideReply:
        return DecideReply(
            decision_id=self.ids.of(seq),
            arm=decided.arm,
            propensity=decided.propensity,
            by=decided.by,
            version=decided.version,
            epoch=decided.epoch,
            params=decided.params,
            repeated=repeated,
            ranking=list(decided.ranking),
        )

    def reward(self, name: str, request: RewardRequest) -> "asyncio.Future[RewardReply]":
        keys = [(name, request.event_id)] if request.event_id is not None else []
        if request.decision_id is None:
            if not keys:
                raise Problem(422, "invalid", "a reward must have the decision_id or the event_id of its decision")
            return self._group_commit.submit(partial(self._reward_by_key, name, request), keys=keys, bandit=name)
        seq = self.ids.seq(request.decision_id)
        return self._group_commit.submit(partial(self._reward, name, request, seq), [seq], keys, bandit=name)

    def _reward_by_key(self, name: str, request: RewardRequest, batch: Batch) -> RewardReply:
        """Reward the decision that was asked for with this event_id."""
        assert request.event_id is not None
        event = batch.keyed(batch.state.bandit(name).id, request.event_id)
        if event is None or event.kind != "decide":
            raise Problem(404, "unknown-decision", "this bandit has no decision with this event_id")
        named = replace(request, decision_id=self.ids.of(event.seq), event_id=None)
        return self._reward(name, named, event.seq, batch)

    def _reward(self, name: str, request: RewardRequest, seq: int, batch: Batch) -> RewardReply:
        assert request.decision_id is not None
        bandit, record = _find(batch, name, seq)
        _check_imported(bandit)
        value = bandit.check_reward(request.reward)
        spec, decided = bandit.spec, record.decided
        keyed = None if request.event_id is None else batch.keyed(bandit.id, request.event_id)
        same = [keyed] if keyed is not None else record.rewards("reward", "late") if spec.aggregate == "first" else []
        if same:
            if same[0].ref != seq:
                raise Problem(409, "conflict", f"event_id {request.event_id!r} was used for something else")
            if decode(same[0].body).get("value") != value:
                self.counts["conflict"] += 1
                raise Problem(409, "conflict", f"this decision has another reward; got {value} after it")
            self.counts["repeated"] += 1
            return RewardReply(decision_id=request.decision_id, outcome="repeated")
        kind, learn = "reward", None
        outcome: Outcome = "learned" if _is_learned(bandit, decided) else "counted"
        if _is_late(record, bandit, batch.now):
            kind, outcome = "late", "late"
        elif spec.aggregate != "first":
            outcome = "collected"
        elif decided.deferred and not record.activated:
            outcome = "held"
        else:
            learn = value
        body = {"value": value, "outcome": outcome}
        batch.add(bandit.id, kind, body, ref=seq, learn=learn, key=request.event_id, subject=record.event.subject)
        return RewardReply(decision_id=request.decision_id, outcome=outcome)

    def activate(self, name: str, decision_id: str) -> "asyncio.Future[RewardReply]":
        """Tell that a deferred decision was played: it is learned from."""
        seq = self.ids.seq(decision_id)
        return self._group_commit.submit(partial(self._activate, name, decision_id, seq), [seq], bandit=name)

    def _activate(self, name: str, decision_id: str, seq: int, batch: Batch) -> RewardReply:
        bandit, record = _find(batch, name, seq)
        _check_imported(bandit)
        if not record.decided.deferred or record.activated:
            self.counts["repeated"] += 1
            return RewardReply(decision_id=decision_id, outcome="repeated")
        if _is_late(record, bandit, batch.now):
            raise Problem(409, "late", "a decision can be activated until its window has closed")
        held = record.rewards("reward") if bandit.spec.aggregate == "first" else []
        learn = decode(held[0].body)["value"] if held else None
        batch.add(bandit.id, "activate", {}, ref=seq, learn=learn, subject=record.event.subject)
        outcome: Outcome = "learned" if _is_learned(bandit, record.decided) else "counted"
        return RewardReply(decision_id=decision_id, outcome="activated" if learn is None else outcome)

    def decision(self, name: str, decision_id: str) -> "asyncio.Future[Record]":
        """A decision, with the events about it."""
        seq = self.ids.seq(decision_id)
        return self._group_commit.submit(lambda batch: _find(batch, name, seq)[1], [seq], bandit=name)


def _find(batch: Batch, name: str, seq: int) -> tuple[Bandit, Record]:
    """A decision and its bandit: the one of this name, or a retired one that had the name before."""
    batch.state.bandit(name)
    record = batch.record(seq)
    if record is None or batch.state.bandits[record.event.bandit].name != name:
        raise Problem(404, "unknown-decision", "this bandit has no decision with this id")
    return batch.state.bandits[record.event.bandit], record


def _check_imported(bandit: Bandit) -> None:
    """Refuse a bandit of whose log a part is still to come: a reward might come twice."""
    if bandit.importing:
        then = "if its import has ended early, retire it and import into a new one"
        raise Problem(409, "conflict", f"the log of {bandit.name} is being imported; {then}")


def _is_learned(bandit: Bandit, decided: Decided) -> bool:
    return decided.by in COUNTED and decided.epoch == bandit.epoch


def _is_late(record: Record, bandit: Bandit, now: float) -> bool:
    """Whether a decision's window has passed, or was closed before the bandit got a longer one.

    It may have closed without an event, since there was nothing to learn. Nobody would look at it again, so what is
    learned only when it closes comes too late.
    """
    spec, event = bandit.spec, record.event
    if any(about.kind == "close" for about in record.about) or (
        spec.window is not None and now - event.at > spec.window
    ):
        return True
    return event.seq <= bandit.closed and (spec.aggregate != "first" or record.decided.default is not None)
