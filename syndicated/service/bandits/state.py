"""All that a service knows, as a fold over the log: the same events give the same state, to the bit."""

import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import closing
from typing import Any

import msgspec

from syndicated._learner import PIECE_BYTES
from syndicated._statefile import Arrays, pack, unpack
from syndicated._validation import shorten
from syndicated.errors import InputError, StateError
from syndicated.service.bandits.bandit import Bandit, BanditDraft
from syndicated.service.bandits.messages import Arm, Spec
from syndicated.service.bandits.model_load import LOADING_KINDS, PART_KINDS, PIECE, EpochStart, ModelLoad, decode_load
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import RECORD_BYTES, Key, Pruned, Record, decode, decode_pruned
from syndicated.service.bandits.runs import FEEDBACK_KINDS, SERVICE_ID, DecisionRun, FeedbackRun, Folded, Run, runs
from syndicated.service.bandits.summaries import Summarized, SummarizedDecisions, SummarizedFeedback
from syndicated.service.bandits.upcoming import record_of, stored, upcoming
from syndicated.store import DamageError, Event, Snapshot, Store, StoreError

log = logging.getLogger("syndicated")

MAX_RECORD_BYTES = 64 * 2**20  # of the decisions kept in memory, the latest; others are looked up in the journal
REWRITING_KINDS = ("erase", "prune")  # events that say: earlier lines of the journal were changed
AUDIT_KINDS = (
    "create",
    "configure",
    "retire",
    "arms",
    "drop",
    "load",
    "key",
    "revoke",
    "erase",
    "prune",
    "importing",
    "import",
)
KINDS = {*AUDIT_KINDS, *PART_KINDS, "decide", "reward", "late", "activate", "close", "closed", "forget"}


class State:
    """Bandits, keys and the latest decisions."""

    def __init__(self) -> None:
        self.seq = self.snapped = 0
        self.events = 0  # of the log up to `seq`, which may be fewer: numbers may be left unused
        self.followed = 0  # up to there every event was folded: a `follow` that failed may have left some out
        self.awaited: Event | None = None  # the next event, if its model must be read before it can be folded
        self.lags = False  # whether the last `follow` left something to fold, for want of time
        self.damage = ""  # why an event could not be folded: then nothing may be decided with this, or saved
        self.at = 0.0
        self.bandits: dict[int, Bandit] = {}
        self.names: dict[str, Bandit] = {}
        self.keys: dict[str, Key] = {}
        self.by_hash: dict[str, Key] = {}
        self.changed: set[int] = set()  # bandits, and the service itself, since somebody emptied this
        self.rebuilt: set[int] = set()  # the same, whose newest snapshot cannot be read, or is lost
        self._last: dict[int, int] = {}  # the last event of each bandit that has changed it: no snapshot may be older
        self._records: OrderedDict[int, Record] = OrderedDict()
        self._record_bytes = 0

    @classmethod
    def load(
        cls, store: Store, *, whole: bool = False, upto: int | None = None, lost: Sequence[Snapshot] | None = None
    ) -> "State":
        """The state of a journal: its snapshots and the log after them up to `upto`, or with `whole` all of the log.

        `lost`, of a store that lacks what was damaged, are the newest snapshots of some bandits: what they were of is
        made anew, of what there is.
        """
        state = cls()
        newest = {} if whole else {snapshot.bandit: snapshot for snapshot in [*store.snapshots(), *(lost or ())]}
        newest = {of: snapshot for of, snapshot in newest.items() if isinstance(of, int)}  # or nobody's, of a bad row
        taken = {of: state._take_newest(store, snapshot, lost or ()) for of, snapshot in newest.items()}
        at_end = max(filter(None, taken.values()), key=lambda snapshot: snapshot.seq, default=None)
        if at_end is not None:
            state.seq, state.at, state.events = at_end.seq, at_end.at, events_upto(at_end)
        elif newest and lost is None:
            _check_whole(store, newest[min(newest)])
        state.snapped = state.seq
        damaged = {of for of, snapshot in taken.items() if snapshot is not newest[of]}
        # The service, which is in every save, comes first: made anew, it knows which other snapshots there must be.
        if SERVICE_ID in damaged | _outdated(taken, damaged, {SERVICE_ID: state.seq}):
            state._rebuild(store, SERVICE_ID, taken.get(SERVICE_ID), whole=lost is None)
        for of in sorted((damaged - {SERVICE_ID}) | _outdated(taken, damaged, state._last)):
            state._rebuild(store, of, taken.get(of), whole=lost is None)
        state.bandits = dict(sorted(state.bandits.items()))
        state.names = {bandit.name: bandit for bandit in state.bandits.values()}
        counted = state.events
        for run in runs(map(stored, store.after(state.seq, upto=upto, bodiless=PIECE))):
            state._check_pruned(run[0][0], whole=lost is None)
            state._fold_stored(run, store)
        state.followed = state.seq
        if at_end is not None:
            state._tell_gaps(store, state.events - counted)
        return state

    def _tell_gaps(self, store: Store, count: int) -> None:
        """Say that events are missing after the snapshots, of which there are so many, or the last one of them.

        Those that were pruned are before it.
        """
        missing = self.seq - self.snapped - count if count else max(0, self.snapped - store.last())
        if missing and not (count and store.has_gaps):  # where numbers may be unused
            log.error("the log lacks up to %d of its last events, up to %d; see `syndicated verify`", missing, self.seq)

    def _check_pruned(self, event: Event, *, whole: bool) -> None:
        """See that a pruning after the snapshots dropped nothing after them: or a later snapshot had it, which is lost.

        If the log must be `whole` this is refused; or else the bandit counts as made anew, of what there is.
        """
        pruned = _pruned(event)
        if pruned.last > self.snapped:
            if whole:
                raise _lacking(pruned.bandit, self.snapped + 1, pruned.last, "events, which were pruned")
            self.rebuilt.add(pruned.bandit)

    def _take_newest(self, store: Store, newest: Snapshot, lost: Sequence[Snapshot]) -> Snapshot | None:
        """Take the newest snapshot of a bandit that can be read, if there is one: this, unless it is lost, or older."""
        if newest not in lost and self._take(newest):
            return newest
        return next((older for older in store.snapshots(newest.bandit) if older != newest and self._take(older)), None)

    def _take(self, snapshot: Snapshot) -> bool:
        """Take what a snapshot is of; false if it cannot be read."""
        try:
            head, arrays = unpack_snapshot(snapshot)
            if snapshot.bandit == SERVICE_ID:
                self._restore(head)
            else:
                self._add(Bandit.from_parts(head, arrays, snapshot.seq))
        except Exception as error:  # whatever damage leads to
            of = f"bandit {snapshot.bandit} at {snapshot.seq}"
            log.error("the snapshot of %s is damaged, an older one and the log are used: %s", of, error)
            return False
        return True

    def _rebuild(self, store: Store, of: int, older: Snapshot | None, *, whole: bool) -> None:
        """A bandit as of where all snapshots are, from an older one, or none, and the log after it.

        The log must be `whole`: have as many events as the snapshots count, since a gap may be a number that was never
        used.
        """
        upto, at, events = self.seq, self.at, self.events
        first, found = (1, 0) if older is None else (older.seq + 1, events_upto(older))
        for pair in map(stored, store.after(first - 1, upto=upto, bodiless=PIECE)):
            found += 1
            concerned = _concerns(pair[0])
            self._last |= dict.fromkeys(concerned - {SERVICE_ID, -1}, pair[0].seq)
            if of in concerned:
                self._fold_stored([pair], store)
        if whole and found < events:
            raise _lacking(of, first, upto, f"{events - found} events")
        self.seq, self.at, self.events = upto, at, events
        if of != SERVICE_ID and of not in self.bandits:  # nothing is left of it
            self._last.pop(of, None)
            of = SERVICE_ID
        self.changed.add(of)
        self.rebuilt.add(of)

    def follow(
        self,
        store: Store,
        upto: int,
        own: Mapping[int, Folded],
        read: Mapping[int, bytes] | None = None,
        seconds: float = math.inf,
    ) -> bool:
        """Fold what the journal has after what is known, up to a number.

        `own` are events of it that are at hand.

        False if others have erased or pruned earlier events meanwhile. Then the state must be loaded again: records in
        memory may hold what was erased, and events to fold may be gone, or the decisions that they are about, while the
        snapshots have all that was learned.

        It ends after about so many seconds, with more to fold it may be. And with `read`, which has bodies of events
        with their models, it ends before one whose model has yet to be read.
        """
        self.awaited, self.lags, end = None, False, time.monotonic() + seconds
        known_from = next(iter(self._records), upto + 1)
        with closing(upcoming(store, self.seq, upto, own, known_from)) as parts:
            for part in parts:
                if isinstance(part, SummarizedDecisions | SummarizedFeedback):
                    self._fold_summarized(part)
                else:
                    event, _ = part[0]
                    if event.kind in REWRITING_KINDS and event.seq not in own and not self._has_pruned(event, store):
                        return False
                    if read is not None and event.seq not in own and model_parts(event):
                        if event.seq not in read:
                            self.awaited = event
                            break
                        part = [(event._replace(body=read[event.seq]), None)]
                    part = self._with_decisions(part, store, known_from)
                    if self._lacks_decision(part):
                        return False
                    self._fold_stored(part, store)
                if time.monotonic() > end:
                    self.lags = True
                    break
        self.followed = self.seq
        return True

    def _with_decisions(self, run: Run, store: Store, known_from: int) -> Run:
        """A run whose events have their decisions, also those that memory lacks between others."""
        refs = [event.ref for event, record in run if event.ref is not None and record is None]
        gone = [ref for ref in refs if ref >= known_from and ref not in self._records]
        if not gone:
            return run
        found = store.events(gone)
        return [(event, record or record_of(found.get(event.ref or 0))) for event, record in run]

    def _lacks_decision(self, run: Run) -> bool:
        """Whether the decision of an event was pruned or erased before that was folded here: a snapshot has both."""
        return any(
            event.kind in FEEDBACK_KINDS and record is None and event.ref not in self._records for event, record in run
        )

    def _fold_summarized(self, part: Summarized) -> None:
        """Fold what another process has written. Its decisions are not kept in memory."""
        try:
            self._advance_to(part.bandit, part.last, part.at, part.last - part.first + 1)
            bandit = self.bandits[part.bandit]
            if isinstance(part, SummarizedDecisions):
                bandit.fold_decisions(part.run)
            else:
                self._add_to_records(part.events)
                bandit.fold_feedback(part.run)
        except Exception as error:
            raise self._damaged(part.first, part.last, part.bandit, part.kind, error) from error

    def _has_pruned(self, event: Event, store: Store) -> bool:
        """Whether an event is of a pruning of what was folded here before, after which memory has nothing wrong.

        What was read after the pruning, and before its event could be, may lack what it dropped: then fewer events were
        folded up to where its own process was than that one had.
        """
        body = decode(event.body)
        if event.kind != "prune" or body.get("upto", math.inf) > self.followed:
            return False
        return "events" not in body or self.events - store.count(body["seq"], event.seq) == body["events"]

    def _fold_stored(self, run: Run, store: Store) -> None:
        """Fold events as the journal gives them: they may be damaged, or of a later version."""
        event, _ = run[0]
        if event.kind not in KINDS:
            what = f"event {event.seq} of bandit {event.bandit} is of the kind {shorten(event.kind)}"
            raise StoreError(f"the journal is of a later version: {what}, which this one does not know")
        try:
            if model_parts(event) and not isinstance(event.body, ModelLoad):
                run = [(event._replace(body=ModelLoad.read(store, event, self.spec_after(event))), None)]
            self._fold_run(run)
        except (InputError, StoreError):  # such as a plug-in that is not installed, or a journal that is away
            raise
        except Exception as error:  # whatever damage leads to
            if len(run) > 1 and self.seq < event.seq:  # nothing of it is folded: find the one that cannot be read
                for pair in run:
                    self._fold_stored([pair], store)
                return
            raise self._damaged(event.seq, run[-1][0].seq, event.bandit, event.kind, error) from error

    def _damaged(self, first: int, last: int, bandit: int, kind: str, error: Exception) -> DamageError:
        """The state may have a part of what could not be folded: nothing more is done with it."""
        which = f"event {first}" if first == last else f"one of the events {first} to {last}"
        what = f"{which} of bandit {bandit}, kind {shorten(kind)}"
        self.damage = f"the journal is damaged: {what}, cannot be read: {shorten(error)}"
        return DamageError(self.damage)

    def spec_after(self, event: Event) -> Spec:
        """The spec of the bandit that an event loads a model into."""
        body = decode(event.body)
        return msgspec.convert(body["spec"], Spec) if "spec" in body else self.bandits[body["bandit"]].spec

    def fold(self, event: Event, record: Record | None = None) -> None:
        """Take in the next event of the log; `record` is the decision that it is, or is about, if it is at hand."""
        self._fold_run([(event, record)])

    def fold_all(self, pairs: Iterable[Folded]) -> None:
        """`fold` one after the other."""
        for run in runs(pairs):
            self._fold_run(run)

    def _fold_run(self, run: Run) -> None:
        """Fold the next events of the log: a run of decisions or of events about them, or a single other event.

        What changes here comes from the events and the records alone: no clock, no draw, nothing of this process.
        """
        event, _ = run[-1]
        if event.bandit == SERVICE_ID:
            self._advance(run)
            self._fold_admin(event)
        elif event.kind == "decide":
            self._fold_decisions(self.bandits[event.bandit], run)
        elif event.kind == "closed":
            self._advance(run)
            self.bandits[event.bandit].closed = decode(event.body)["upto"]
        elif event.kind == "forget":
            self._advance(run)
            self.bandits[event.bandit].forget_arm(decode(event.body)["arm"], event.seq)
        else:
            self._fold_feedback(self.bandits[event.bandit], run)

    def _advance(self, run: Run) -> None:
        event, _ = run[-1]
        self._advance_to(event.bandit, event.seq, event.at, len(run))

    def _advance_to(self, bandit: int, seq: int, at: float, events: int) -> None:
        self.seq, self.at = seq, at
        self.events += events
        self._change(bandit, seq)

    def _change(self, bandit: int, seq: int) -> None:
        self.changed.add(bandit)
        if bandit != SERVICE_ID:
            self._last[bandit] = seq

    def _fold_decisions(self, bandit: Bandit, run: Run) -> None:
        """Fold decisions, all of which are read before anything changes; of those that were erased nothing is left."""
        whole = [pair for pair in run if pair[0].body]
        kept = [Record(event) for event, _ in whole]  # without events about them, which are folded in their turn
        made = [record or own for (_, record), own in zip(whole, kept, strict=True)]
        decisions = DecisionRun.of(made, bandit.epoch)
        self._advance(run)
        self._remember(kept)
        bandit.fold_decisions(decisions)

    def _fold_feedback(self, bandit: Bandit, run: Run) -> None:
        """Fold events about decisions, all of which are read before anything changes; some may be gone."""
        unread = {ref: self._unread(ref) for ref in {event.ref or 0 for event, record in run if record is None}}
        found = [(event, record or unread[event.ref or 0]) for event, record in run]
        feedback = [(event, record) for event, record in found if record is not None]
        learned = FeedbackRun.of(feedback, bandit.epoch)
        self._advance(run)
        self._add_to_records(event for event, _ in feedback)
        bandit.fold_feedback(learned)

    def _add_to_records(self, events: Iterable[Event]) -> None:
        """Add events to the decisions that they are about, of those that are in memory."""
        for event in events:
            known = self._records.get(event.ref or 0)
            if known is not None:
                known.add(event)
                self._record_bytes += RECORD_BYTES

    def _unread(self, seq: int) -> Record | None:
        """A decision in memory, to be read once: what is kept of it stays as small as it is."""
        known = self._records.get(seq)
        return None if known is None else Record(known.event)

    def record(self, seq: int) -> Record | None:
        """A decision, if it is in memory."""
        return self._records.get(seq)

    def bandit(self, name: str) -> Bandit:
        """The bandit of this name."""
        bandit = self.names.get(name)
        if bandit is None:
            raise Problem(404, "unknown-bandit", f"there is no bandit {shorten(name)}")
        return bandit

    @property
    def last_load(self) -> int:
        """The last event that loaded a model into a bandit, in its epoch of now; 0 if there is none."""
        return max((load.seq for bandit in self.bandits.values() for load in bandit.loads[-1:]), default=0)

    def _remember(self, records: Sequence[Record]) -> None:
        for record in records:
            self._records[record.event.seq] = record
            self._record_bytes += record.bytes
        while self._record_bytes > MAX_RECORD_BYTES:
            _, oldest = self._records.popitem(last=False)
            self._record_bytes -= oldest.bytes

    def forget_records(self, seqs: Iterable[int]) -> None:
        """Drop decisions that the journal no longer has; numbers of other events are no harm."""
        for record in [self._records.pop(seq) for seq in seqs if seq in self._records]:
            self._record_bytes -= record.bytes

    def forget_all_records(self) -> None:
        """Drop the decisions in memory, because the journal's were changed; they are read from it again."""
        self._records.clear()
        self._record_bytes = 0

    def _fold_admin(self, event: Event) -> None:
        if event.kind in PART_KINDS:
            return
        body, ready = decode(event.body), event.body.agent if isinstance(event.body, ModelLoad) else None
        parts = event.body.parts if isinstance(event.body, EpochStart) else None
        if event.kind == "create":
            self._add(Bandit(event.seq, body["name"], msgspec.convert(body["spec"], Spec), event.seq, parts))
            self._change(event.seq, event.seq)
        elif event.kind in ("key", "revoke"):
            self._set_key(msgspec.convert(body["key"], Key), body.get("hash", ""))
        elif "bandit" in body:
            bandit = self.bandits[body["bandit"]]
            self._change(bandit.id, event.seq)
            if event.kind == "configure":
                bandit.configure(msgspec.convert(body["spec"], Spec), event, parts)
                if ready is not None:
                    bandit.load(ready, event)
            elif event.kind == "retire":
                bandit.retired = True
            elif event.kind == "arms":
                bandit.put_arms(msgspec.convert(body["arms"], list[Arm]), numbered=body.get("numbered", False))
            elif event.kind == "drop":
                bandit.drop_arm(body["arm"])
            elif event.kind == "load":
                bandit.load(ready or body["model"], event)
            elif event.kind in ("importing", "import"):
                bandit.importing = event.kind == "importing"

    def _add(self, bandit: Bandit) -> None:
        """A name belongs to the latest bandit that has it: those before are retired."""
        self.bandits[bandit.id] = self.names[bandit.name] = bandit

    def _set_key(self, key: Key, hash_: str) -> None:
        self.keys[key.id] = key
        for known in [h for h, k in self.by_hash.items() if k.id == key.id]:
            del self.by_hash[known]
        if not key.revoked:
            self.by_hash[hash_] = key

    def draft(self, ids: Iterable[int]) -> "Draft":
        """What becomes snapshots of the service and of these bandits."""
        place = {"seq": self.seq, "at": self.at, "events": self.events}
        head = {
            **place,
            "id": SERVICE_ID,
            "last": sorted(self._last.items()),
            "keys": [[hash_, msgspec.to_builtins(self.keys[key.id])] for hash_, key in self.by_hash.items()],
            "revoked": [msgspec.to_builtins(key) for key in self.keys.values() if key.revoked],
        }
        bandits = {id_: BanditDraft(self.bandits[id_], place) for id_ in ids if id_ in self.bandits}
        return Draft(self.seq, self.at, head, bandits)

    def snapshots(self) -> list[Snapshot]:
        """Snapshots of the service and of all bandits, at once."""
        draft = self.draft(self.bandits)
        while not draft.advance():
            pass
        return draft.encode()

    def _restore(self, head: Mapping[str, Any]) -> None:
        self._last = {int(of): int(seq) for of, seq in head.get("last", ())}
        for hash_, key in head["keys"]:
            self._set_key(msgspec.convert(key, Key), hash_)
        for key in head["revoked"]:
            self._set_key(msgspec.convert(key, Key), "")


class Draft:
    """The state at one event, on its way to snapshots; see `BanditDraft`."""

    def __init__(self, seq: int, at: float, head: Mapping[str, Any], bandits: Mapping[int, BanditDraft]) -> None:
        self.seq, self._at, self._head, self._bandits = seq, at, head, bandits
        self._left = list(bandits.values())  # those that are still to be copied

    def advance(self) -> bool:
        """Copy a piece more, of several bandits if they are small; whether all is copied."""
        copied = 0
        while self._left and copied < PIECE_BYTES:
            before = self._left[-1].bytes_left
            if self._left[-1].advance():
                self._left.pop()
            copied += min(before, PIECE_BYTES)
        return not self._left

    def encode(self) -> list[Snapshot]:
        """The snapshots, once all is copied. May be called by any thread."""
        service = Snapshot(SERVICE_ID, self.seq, self._at, pack(self._head, {}))
        return [service, *(Snapshot(id_, self.seq, self._at, draft.encode()) for id_, draft in self._bandits.items())]


def unpack_snapshot(snapshot: Snapshot) -> tuple[dict[str, Any], Arrays]:
    """Head and arrays of a snapshot; refused if they are not of the bandit, the event and the time of its row.

    Those of before these were part of it can only be refused if they are none.
    """
    of = {"id": snapshot.bandit, "seq": snapshot.seq, "at": snapshot.at}
    if not isinstance(snapshot.seq, int) or not isinstance(snapshot.at, float) or not math.isfinite(snapshot.at):
        raise StateError(f"a snapshot must be of an event and a time; got {shorten(of)}")
    head, arrays = unpack(snapshot.state)
    own = {name: head.get(name, value) for name, value in of.items()}
    if own != of:
        raise StateError(f"a snapshot must be of {shorten(of)}; got one of {shorten(own)}")
    return head, arrays


def _outdated(taken: Mapping[int, Snapshot | None], damaged: Set[int], needed: Mapping[int, int]) -> set[int]:
    """The bandits whose newest snapshot is lost: the one that there is, if any, is older than is needed of each."""
    seqs = {of: snapshot.seq for of, snapshot in taken.items() if snapshot is not None}
    found = {of for of, seq in needed.items() if seqs.get(of, 0) < seq}
    for of in found - damaged:
        log.error("the newest snapshot of bandit %d is lost, an older one and the log are used", of)
    return found


def events_upto(snapshot: Snapshot) -> int:
    """How many events the log had at a snapshot; before they were counted every number was used."""
    return int(unpack_snapshot(snapshot)[0].get("events", snapshot.seq))


def _check_whole(store: Store, damaged: Snapshot) -> None:
    """Refuse a log that lacks events, if it is all that there is."""
    last = store.last()
    missing = last - store.count(0, last + 1)
    if missing:
        raise _lacking(damaged.bandit, 1, last, f"{missing} events")


def _lacking(bandit: int, first: int, upto: int, what: str) -> DamageError:
    missing = f"the log from {first} to {upto} lacks {what}"
    return DamageError(f"the newest snapshot of bandit {bandit} is damaged or lost, and {missing}")


def _pruned(event: Event) -> Pruned:
    """What a pruning dropped, if an event is of one."""
    try:
        return decode_pruned(event.body) if event.kind == "prune" else Pruned()
    except msgspec.MsgspecError:
        return Pruned()  # the fold tells what is wrong with it


def _concerns(event: Event) -> set[int]:
    """The bandits that an event changes; those of keys change the service itself."""
    if event.bandit != SERVICE_ID:
        return {event.bandit}
    if event.kind in ("key", "revoke"):
        return {SERVICE_ID}
    if event.kind in PART_KINDS:
        return set()
    return {event.seq if event.kind == "create" else decode(event.body).get("bandit", -1)}


def model_parts(event: Event) -> list[int]:
    """The numbers of the events that have the model which an event loads, if it does and has it not itself."""
    try:
        return decode_load(event.body).parts if event.kind in LOADING_KINDS else []
    except msgspec.MsgspecError:
        return []  # the fold tells what is wrong with it


def hash_key(secret: str) -> str:
    """What is stored of a key. A key is 32 random bytes and cannot be guessed, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
