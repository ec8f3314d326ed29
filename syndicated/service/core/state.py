"""All that a service knows, as the log has made it: a fold of events, the same for whoever folds the same log."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from syndicated._statefile import pack, unpack
from syndicated.errors import InputError
from syndicated.features.encoders import Arm
from syndicated.service.core.bandit import Bandit
from syndicated.service.core.messages import Decided, KeyReply, Spec
from syndicated.store import Event, Snapshot, Store

SERVICE = 0  # the bandit number of events that are about the service itself: its audit log
CACHED = 50_000  # decisions kept in memory, the latest; others are looked up in the journal
CHANGES = ("erase", "prune")  # events after which the journal is not what it was
ADMIN = ("create", "configure", "retire", "arms", "drop", "load", "key", "revoke", "erase", "prune", "import")

decode = msgspec.msgpack.decode
_encoder = msgspec.msgpack.Encoder(enc_hook=np.generic.item)
_decided = msgspec.msgpack.Decoder(Decided)


def encode(body: Any) -> bytes:
    """The body of an event."""
    try:
        return _encoder.encode(body)
    except OverflowError:
        raise InputError("whole numbers must be at least -2^63 and less than 2^64") from None


class Record:
    """A decision and what was said about it since."""

    __slots__ = ("about", "decided", "event")

    def __init__(self, event: Event, decided: Decided | None = None, about: Iterable[Event] = ()) -> None:
        self.event, self.about = event, list(about)
        self.decided = decided or _decided.decode(event.body)


class State:
    """Bandits, keys and the latest decisions."""

    def __init__(self) -> None:
        self.seq = self.snapped = 0
        self.at = 0.0
        self.bandits: dict[int, Bandit] = {}
        self.names: dict[str, Bandit] = {}
        self.keys: dict[str, KeyReply] = {}
        self.by_hash: dict[str, KeyReply] = {}
        self.changed: set[int] = set()
        self._records: OrderedDict[int, Record] = OrderedDict()

    @classmethod
    def of(cls, store: Store, *, whole: bool = False) -> "State":
        """The state of a journal: its snapshots and the tail behind them, or with `whole` all of it from the start."""
        state = cls()
        for bandit, seq, at, data in [] if whole else store.snapshots():
            if bandit == SERVICE:
                state._restore(data)
                state.seq, state.snapped, state.at = seq, seq, at
            else:
                state._add(Bandit.of(data))
        for event, about in store.after(state.seq):
            state._step(event, about)
        return state

    def follow(self, store: Store) -> bool:
        """Fold what the journal has behind what is known; false if it was changed before that, by erasing or pruning.

        What was there may then be missing, or be in memory still: only the snapshots have all that was learned.
        """
        for event, about in store.after(self.seq):
            if event.kind in CHANGES:
                return False
            self._step(event, about)
        return True

    def _step(self, event: Event, about: Event | None) -> None:
        """Fold an event as the journal gives it, with the decision that it is about."""
        known = None if event.ref is None else self.record(event.ref)
        if known is None and about is not None and about.body:
            known = Record(about)
        self.fold(event, known)

    def fold(self, event: Event, record: Record | None = None) -> None:
        """Take in the next event of the log; `record` is the decision that it is, or is about, if that is known."""
        self.seq, self.at = event.seq, event.at
        self.changed.add(event.bandit)
        if event.bandit == SERVICE:
            self._administer(event)
        elif event.kind == "decide":
            if event.body:
                record = Record(event, None if record is None else record.decided)
                self._remember(record)
                self.bandits[event.bandit].decided(event, record.decided)
        elif event.kind == "closed":
            self.bandits[event.bandit].closed = decode(event.body)["upto"]
        elif record is not None and event.ref is not None:
            if event.ref in self._records:
                self._records[event.ref].about.append(event)
            self.bandits[event.bandit].rewarded(event, record.decided)

    def record(self, seq: int) -> Record | None:
        """A decision, if it is in memory."""
        return self._records.get(seq)

    def _remember(self, record: Record) -> None:
        self._records[record.event.seq] = record
        if len(self._records) > CACHED:
            self._records.popitem(last=False)

    def forget(self) -> None:
        """Let go of what is in memory beside the journal: it was changed there."""
        self._records.clear()

    def _administer(self, event: Event) -> None:
        body = decode(event.body)
        if event.kind == "create":
            self._add(Bandit(event.seq, body["name"], msgspec.convert(body["spec"], Spec), event.seq))
            self.changed.add(event.seq)
        elif event.kind in ("key", "revoke"):
            self._keep(msgspec.convert(body["key"], KeyReply), body.get("hash", ""))
        elif "bandit" in body:
            bandit = self.bandits[body["bandit"]]
            self.changed.add(bandit.id)
            if event.kind == "configure":
                bandit.configure(msgspec.convert(body["spec"], Spec), event.seq)
            elif event.kind == "retire":
                bandit.retired = True
            elif event.kind == "arms":
                bandit.put_arms(msgspec.convert(body["arms"], list[Arm]))
            elif event.kind == "drop":
                bandit.drop_arm(body["arm"])
            elif event.kind == "load":
                bandit.load(body["model"], event.seq)

    def _add(self, bandit: Bandit) -> None:
        self.bandits[bandit.id] = self.names[bandit.name] = bandit

    def _keep(self, key: KeyReply, hash_: str) -> None:
        self.keys[key.id] = key
        for known in [h for h, k in self.by_hash.items() if k.id == key.id]:
            del self.by_hash[known]
        if not key.revoked:
            self.by_hash[hash_] = key

    def snapshots(self, *, every: bool = False) -> list[Snapshot]:
        """Of the service, and of the bandits that changed since the last snapshots (or of all)."""
        head = {"keys": [[hash_, msgspec.to_builtins(self.keys[key.id])] for hash_, key in self.by_hash.items()]}
        head["revoked"] = [msgspec.to_builtins(key) for key in self.keys.values() if key.revoked]
        wanted = [b for b in self.bandits.values() if every or b.id in self.changed]
        found = [Snapshot(b.id, self.seq, self.at, b.snapshot()) for b in wanted]
        return [Snapshot(SERVICE, self.seq, self.at, pack(head, {})), *found]

    def _restore(self, data: bytes) -> None:
        head, _ = unpack(data)
        for hash_, key in head["keys"]:
            self._keep(msgspec.convert(key, KeyReply), hash_)
        for key in head["revoked"]:
            self._keep(msgspec.convert(key, KeyReply), "")


def hash_key(secret: str) -> str:
    """What is kept of a key. A key is 32 random bytes: there is nothing to guess, so one round of SHA-256 is right."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
