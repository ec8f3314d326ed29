"""The engine: one thread that takes requests in batches, decides, journals, and folds what was journalled.

    requests ─► queue ─► [ batch: decide and judge, append, commit ] ─► fold into the state ─► replies

Nothing is answered before it is durable, and the state changes by committed events alone: a batch that could not be
committed has changed nothing. While one batch is being written the next one collects, so the cost of a commit is shared
by all that came meanwhile. With a shared journal several engines take turns, and each folds what the others wrote.
"""

import asyncio
import hmac
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from syndicated.errors import InputError, SyndicatedError, shorten
from syndicated.service.api import (
    BanditReply,
    Create,
    Decided,
    DecideReply,
    DecideRequest,
    KeyReply,
    KeyRequest,
    ModelReply,
    Outcome,
    Problem,
    RewardReply,
    RewardRequest,
    Spec,
)
from syndicated.service.bandit import COUNTED, Bandit, Turn, make
from syndicated.service.features import Arm
from syndicated.service.state import ADMIN, SERVICE, Record, State, decode, encode, hash_key
from syndicated.store import Event, Store, StoreError
from syndicated.types import Array

LARGEST = 512  # requests of one batch
POLL = 0.05  # seconds after which a shared journal is looked at, also if nobody called
TICK = 1.0  # seconds between looks at what the clock asks for
DUE = 500  # windows closed at once
KEEP = 20  # models kept of a bandit
SNAPSHOT = 20_000  # events between snapshots

STOPPED = Problem(503, "stopped", "the engine has stopped; another process, or this one started again, will answer")

T = TypeVar("T")
log = logging.getLogger("syndicated")


class Batch:
    """What one transaction is going to append, and what its requests may see: the state, and each other."""

    def __init__(self, state: State, store: Store, now: float) -> None:
        self.state, self.store, self.now = state, store, now
        self.events: list[Event] = []
        self._turns: dict[int, Turn] = {}
        self._found: dict[int, Record] = {}
        self._keyed: dict[tuple[int, str], Event] = {}

    def fetch(self, refs: Iterable[int], keys: Iterable[tuple[int, str]]) -> None:
        """Look up at once what the requests will ask for and memory does not have."""
        self._find([seq for seq in refs if self.state.record(seq) is None])
        wanted = list(keys)
        if wanted:
            self._keyed = self.store.keyed(wanted)
            self._find([e.seq for e in self._keyed.values() if self.state.record(e.seq) is None])

    def _find(self, seqs: Sequence[int]) -> None:
        if seqs:
            about = self.store.about(seqs)
            for seq, event in self.store.events(seqs).items():
                if event.kind == "decide" and event.body:
                    self._found[seq] = Record(event, None, about.get(seq, ()))

    def record(self, seq: int) -> Record | None:
        """A decision, with what was said about it before and in this batch."""
        record = self._found.get(seq)
        if record is None:
            known = self.state.record(seq)
            if known is None:
                return None
            record = self._found[seq] = Record(known.event, known.decided, known.about)
        return record

    def keyed(self, bandit: int, key: str | None) -> Event | None:
        return None if key is None else self._keyed.get((bandit, key))

    def turn(self, bandit: Bandit) -> Turn:
        return self._turns.get(bandit.id) or bandit.turn()

    def take_turn(self, bandit: Bandit, after: Turn) -> None:
        self._turns[bandit.id] = after

    def add(self, bandit: int, kind: str, body: Any, **more: Any) -> Event:
        """Append an event, which requests behind this one see."""
        seq = self.state.seq + len(self.events) + 1
        event = Event(seq=seq, bandit=bandit, kind=kind, at=self.now, body=encode(body), **more)
        self.events.append(event)
        if event.ref is not None and event.ref in self._found:
            self._found[event.ref].about.append(event)
        if event.key is not None:
            self._keyed[bandit, event.key] = event
        return event

    def decide(self, bandit: int, decided: Decided, request: DecideRequest) -> Event:
        """Append a decision."""
        event = self.add(bandit, "decide", decided, key=request.event_id, subject=request.subject)
        self._found[event.seq] = Record(event, decided)
        return event


class Request:
    """Something to run within a batch, and the future that waits for its answer."""

    __slots__ = ("alone", "future", "keys", "refs", "run")

    def __init__(
        self,
        run: Callable[[Batch], Any],
        future: "asyncio.Future[Any] | None",
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        alone: bool = False,
    ) -> None:
        self.run, self.future, self.refs, self.keys, self.alone = run, future, refs, keys, alone


class Engine:
    """A running service without its HTTP: every method is a request, answered when it is durable."""

    def __init__(self, store: Store, *, limit: int = 1024, clock: Callable[[], float] = time.time) -> None:
        self.store, self.limit, self.clock = store, limit, clock
        self.secret = store.secret
        self.state = State.of(store)
        self.failed: BaseException | None = None
        self.away = ""  # why the journal cannot be used, while it cannot
        self.staleness = 0.0  # seconds that the last event of another engine was old when it was folded here
        self.counts: dict[str, int] = {"repeated": 0, "conflict": 0, "batches": 0, "events": 0, "overload": 0}
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._carried: Request | None = None
        self._waiting = 0
        self._snapped = self.state.seq
        self._ticked = 0.0
        self._scanned: dict[int, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._stopping = False

    # life

    def start(self) -> None:
        """Begin to work, for requests of the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._threads = [threading.Thread(target=self._work, name="engine")]
        if self.store.shared:
            self._threads.append(threading.Thread(target=self._listen, name="listener", daemon=True))
        for thread in self._threads:
            thread.start()

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        self._stopping = True
        self._queue.put(None)
        await asyncio.to_thread(self._threads[0].join)
        self.store.close()

    @property
    def ready(self) -> bool:
        return self.failed is None and not self.away and not self._stopping

    def _work(self) -> None:
        try:
            while True:
                requests = self._take()
                if requests is None:
                    break
                self._serve(requests)
                self._keep_time()
            with suppress(StoreError):
                self._commit([Request(self._snap, None, alone=True)])
        except BaseException as error:
            log.exception("the engine has stopped")
            self.failed = error
            self._fail_all(STOPPED)

    def _listen(self) -> None:
        while not self._stopping:
            with suppress(StoreError):
                self.store.wait(TICK)
                self._queue.put(Request(lambda batch: None, None))

    def _take(self) -> list[Request] | None:
        """The requests of the next batch, in their order; None when there will be no more."""
        first = self._carried
        self._carried = None
        if first is None:
            try:
                first = self._queue.get(timeout=POLL if self.store.shared else TICK)
            except queue.Empty:
                return []
            if first is None:
                return None
        requests = [first]
        while not requests[-1].alone and len(requests) < LARGEST:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._queue.put(None)
                break
            if more.alone:
                self._carried = more
                break
            requests.append(more)
        return requests

    def _serve(self, requests: Sequence[Request]) -> None:
        """One batch, and its answers."""
        try:
            answers = self._commit(requests)
            self.away = ""
        except StoreError as error:
            self.away = str(error)
            answers = [Problem(503, "unavailable", str(error))] * len(requests)
        except BaseException:
            self._answer(requests, [STOPPED] * len(requests))
            raise
        self._answer(requests, answers)

    def _answer(self, requests: Sequence[Request], answers: Sequence[Any]) -> None:
        waiting = [(r.future, answer) for r, answer in zip(requests, answers, strict=True) if r.future is not None]
        if waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._resolve, waiting)

    def _resolve(self, waiting: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
        self._waiting -= len(waiting)
        for future, answer in waiting:
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _fail_all(self, error: Exception) -> None:
        while True:
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return
            if request is not None:
                self._answer([request], [error])

    def _commit(self, requests: Sequence[Request]) -> list[Any]:
        """Run requests in one transaction, fold what it appended, and give the answers."""
        if not requests and not self.store.shared:
            return []
        if not any(request.future or request.alone for request in requests):
            self._follow(self.store.last())
            return [None] * len(requests)
        with self.store.batch() as last:
            self._follow(last)
            batch = Batch(self.state, self.store, self.clock())
            names = self.state.names
            keys = [(names[name].id, key) for request in requests for name, key in request.keys if name in names]
            batch.fetch([seq for request in requests for seq in request.refs], keys)
            answers = [_run(request.run, batch) for request in requests]
            if batch.events:
                self.store.append(batch.events)
        for event in batch.events:
            self.state.fold(event, batch.record(event.seq if event.ref is None else event.ref))
        self.counts["batches"] += 1
        self.counts["events"] += len(batch.events)
        return answers

    def _follow(self, last: int) -> None:
        """Fold what others have appended."""
        if last > self.state.seq:
            self.state.follow(self.store)
            self.staleness = max(0.0, self.clock() - self.state.at)

    def _keep_time(self) -> None:
        """What is to be done now and then."""
        if self.state.seq - self._snapped >= SNAPSHOT:
            self._serve([Request(self._snap, None, alone=True)])
        now = self.clock()
        if now - self._ticked >= TICK:
            self._ticked = now
            for bandit in list(self.state.bandits.values()):
                spec = bandit.spec
                if spec.window is not None and (spec.default_reward is not None or spec.aggregate != "first"):
                    self._serve([Request(lambda batch, b=bandit: self._close(batch, b), None, alone=True)])  # type: ignore[misc]
                if spec.retention is not None:
                    self._serve([Request(lambda batch, b=bandit: self._prune(batch, b), None, alone=True)])  # type: ignore[misc]

    def _snap(self, batch: Batch) -> None:
        if self.state.seq > self._snapped:
            self.store.save(self.state.snapshots(), KEEP)
            self.state.changed.clear()
            self._snapped = self.state.seq

    def _close(self, batch: Batch, bandit: Bandit) -> None:
        """Close the windows that have passed: learn what was collected, or the default reward."""
        spec = bandit.spec
        assert spec.window is not None
        start = max(bandit.closed, self._scanned.get(bandit.id, 0))
        due = self.store.due(bandit.id, start, batch.now - spec.window, DUE)
        batch.fetch([event.seq for event in due], ())
        for event in due:
            record = batch.record(event.seq)
            if record is not None and not any(e.kind == "close" or e.learn is not None for e in record.about):
                learn = _collected(record, spec)
                if learn is not None:
                    batch.add(bandit.id, "close", {}, ref=event.seq, learn=learn, subject=event.subject)
        if due:
            self._scanned[bandit.id] = due[-1].seq

    def _prune(self, batch: Batch, bandit: Bandit) -> None:
        """Drop what is older than the bandit's retention."""
        assert bandit.spec.retention is not None
        saved = self.store.snapshots(bandit.id)
        count = self.store.prune(bandit.id, batch.now - bandit.spec.retention, saved[0].seq) if saved else 0
        if count:
            self.state.forget()
            batch.add(SERVICE, "prune", {"actor": "", "bandit": bandit.id, "count": count})

    # requests

    def submit(
        self,
        run: Callable[[Batch], T],
        refs: Sequence[int] = (),
        keys: Sequence[tuple[str, str]] = (),
        alone: bool = False,
    ) -> "asyncio.Future[T]":
        """Queue something to run within a batch; a full queue is refused at once."""
        loop = asyncio.get_running_loop()
        if self.failed is not None or self._stopping:
            raise STOPPED
        if self._waiting >= self.limit:
            self.counts["overload"] += 1
            raise Problem(503, "overload", f"at most {self.limit} requests may wait; try again later")
        self._waiting += 1
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(Request(run, future, refs, keys, alone))
        return future

    def decide(self, name: str, request: DecideRequest, table: Array | None = None) -> "asyncio.Future[DecideReply]":
        keys = [(name, request.event_id)] if request.event_id is not None else []
        return self.submit(lambda batch: self._decide(batch, name, request, table), keys=keys)

    def _decide(self, batch: Batch, name: str, request: DecideRequest, table: Array | None) -> DecideReply:
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
        decided, after = bandit.propose(request, table, batch.turn(bandit))
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
            if same[0].ref != seq or decode(same[0].body).get("value") != value:
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

    # administration

    def create(self, actor: str, request: Create) -> "asyncio.Future[BanditReply]":
        def run(batch: Batch) -> BanditReply:
            if request.name in self.state.names:
                raise Problem(409, "exists", f"a bandit must have a name of its own; there is a {request.name!r}")
            make(request.spec)
            body = {"actor": actor, "name": request.name, "spec": msgspec.to_builtins(request.spec)}
            event = batch.add(SERVICE, "create", body)
            return describe(Bandit(event.seq, request.name, request.spec, event.seq))

        return self.submit(run, alone=True)

    def update(self, actor: str, name: str, changes: Mapping[str, Any]) -> "asyncio.Future[BanditReply]":
        def run(batch: Batch) -> BanditReply:
            bandit = self.bandit(name)
            spec = _convert(msgspec.to_builtins(bandit.spec) | dict(changes), Spec)
            encoder, _ = make(spec)
            for arm in bandit.arms.values():
                encoder.prepare(arm, f"the registered arm {shorten(arm.id)}")
            body = {"actor": actor, "bandit": bandit.id, "spec": msgspec.to_builtins(spec)}
            event = batch.add(SERVICE, "configure", body)
            after = Bandit.of(bandit.snapshot())
            after.configure(spec, event.seq)
            return describe(after)

        return self.submit(run, alone=True)

    def retire(self, actor: str, name: str) -> "asyncio.Future[None]":
        def run(batch: Batch) -> None:
            batch.add(SERVICE, "retire", {"actor": actor, "bandit": self.bandit(name).id})

        return self.submit(run, alone=True)

    def put_arms(self, actor: str, name: str, arms: Sequence[Arm]) -> "asyncio.Future[int]":
        def run(batch: Batch) -> int:
            bandit = self.bandit(name)
            for k, arm in enumerate(arms):
                bandit.encoder.prepare(arm, f"arms[{k}]")
            body = {"actor": actor, "bandit": bandit.id, "arms": msgspec.to_builtins(list(arms))}
            batch.add(SERVICE, "arms", body)
            return len(bandit.arms.keys() | {arm.id for arm in arms})

        return self.submit(run, alone=True)

    def drop_arm(self, actor: str, name: str, arm: str) -> "asyncio.Future[None]":
        def run(batch: Batch) -> None:
            bandit = self.bandit(name)
            if arm not in bandit.arms:
                raise Problem(404, "unknown-arm", f"this bandit has no registered arm {shorten(arm)}")
            batch.add(SERVICE, "drop", {"actor": actor, "bandit": bandit.id, "arm": arm})

        return self.submit(run, alone=True)

    def create_key(self, actor: str, request: KeyRequest) -> "asyncio.Future[KeyReply]":
        def run(batch: Batch) -> KeyReply:
            secret = f"syn_{secrets.token_urlsafe(32)}"
            key = KeyReply(
                id=secrets.token_hex(4), name=request.name, scopes=sorted(set(request.scopes)), created=batch.now
            )
            body = {"actor": actor, "key": msgspec.to_builtins(key), "hash": hash_key(secret)}
            batch.add(SERVICE, "key", body)
            return msgspec.structs.replace(key, secret=secret)

        return self.submit(run, alone=True)

    def revoke_key(self, actor: str, id_: str) -> "asyncio.Future[KeyReply]":
        def run(batch: Batch) -> KeyReply:
            if id_ not in self.state.keys:
                raise Problem(404, "unknown-key", f"there is no key {shorten(id_)}")
            key = msgspec.structs.replace(self.state.keys[id_], revoked=True)
            batch.add(SERVICE, "revoke", {"actor": actor, "key": msgspec.to_builtins(key)})
            return key

        return self.submit(run, alone=True)

    def models(self, name: str) -> "asyncio.Future[list[ModelReply]]":
        def run(batch: Batch) -> list[ModelReply]:
            saved = self.store.snapshots(self.bandit(name).id)
            return [ModelReply(version=s.seq, at=s.at, bytes=len(s.state)) for s in saved]

        return self.submit(run, alone=True)

    def save_model(self, name: str) -> "asyncio.Future[ModelReply]":
        """Keep the model as it is now, to roll back to it later."""

        def run(batch: Batch) -> ModelReply:
            self.bandit(name)
            self._snap(batch)
            newest = self.store.snapshots(self.bandit(name).id)[0]
            return ModelReply(version=newest.seq, at=newest.at, bytes=len(newest.state))

        return self.submit(run, alone=True)

    def model(self, name: str, version: int | None = None) -> "asyncio.Future[bytes]":
        """The agent's state, as it is now or in a kept model."""
        return self.submit(lambda batch: self._model(name, version), alone=True)

    def _model(self, name: str, version: int | None) -> bytes:
        bandit = self.bandit(name)
        if version is None:
            return bandit.agent.state()
        for snapshot in self.store.snapshots(bandit.id):
            if snapshot.seq == version:
                return Bandit.of(snapshot.state).agent.state()
        raise Problem(404, "unknown-model", f"this bandit has no model {version}")

    def load_model(self, actor: str, name: str, model: bytes | int) -> "asyncio.Future[BanditReply]":
        """Go on from a model: the content of a file, or the version of a kept one (a roll-back)."""

        def run(batch: Batch) -> BanditReply:
            bandit = self.bandit(name)
            data = self._model(name, model) if isinstance(model, int) else model
            _, agent = make(bandit.spec)
            agent.restore(data)
            event = batch.add(SERVICE, "load", {"actor": actor, "bandit": bandit.id, "model": data})
            after = Bandit.of(bandit.snapshot())
            after.load(data, event.seq)
            return describe(after)

        return self.submit(run, alone=True)

    def erase(self, actor: str, subject: str) -> "asyncio.Future[int]":
        """Empty what the log has about a subject. What was learned from it stays learned."""

        def run(batch: Batch) -> int:
            self.store.save(self.state.snapshots(every=True), KEEP)
            self.state.changed.clear()
            self._snapped = self.state.seq
            count = self.store.erase(subject)
            self.state.forget()
            batch.add(SERVICE, "erase", {"actor": actor, "count": count})
            return count

        return self.submit(run, alone=True)

    def audit(self, limit: int) -> "asyncio.Future[list[Event]]":
        return self.submit(lambda batch: self.store.recent(SERVICE, ADMIN, limit), alone=True)

    def latest(self, name: str, limit: int) -> "asyncio.Future[list[Event]]":
        """The latest decisions."""
        return self.submit(lambda batch: self.store.recent(self.bandit(name).id, ["decide"], limit), alone=True)

    def export(self, name: str, after: int, limit: int) -> "asyncio.Future[list[Event]]":
        """Events of a bandit behind a sequence number, in their order."""

        def run(batch: Batch) -> list[Event]:
            found = self.store.after(after, self.bandit(name).id)
            return [event for (event, _), _ in zip(found, range(limit), strict=False)]

        return self.submit(run, alone=True)

    def look(self, view: Callable[[State], T]) -> "asyncio.Future[T]":
        """What a reader makes of the state, between two batches."""
        return self.submit(lambda batch: view(self.state), alone=True)

    def bandit(self, name: str) -> Bandit:
        bandit = self.state.names.get(name)
        if bandit is None:
            raise Problem(404, "unknown-bandit", f"there is no bandit {shorten(name)}")
        return bandit

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


def describe(bandit: Bandit) -> BanditReply:
    """A bandit as the API shows it."""
    return BanditReply(
        name=bandit.name,
        spec=bandit.spec,
        epoch=bandit.epoch,
        version=bandit.version,
        retired=bandit.retired,
        decisions=bandit.history.count,
        rewards=bandit.history.learned,
        arms=len(bandit.arms),
    )


def _run(run: Callable[[Batch], Any], batch: Batch) -> Any:
    """The answer to a request, or the problem with it."""
    try:
        return run(batch)
    except (Problem, StoreError) as problem:
        if isinstance(problem, StoreError):
            raise
        return problem
    except SyndicatedError as error:
        return Problem(422, "invalid", str(error))
    except Exception as error:
        log.exception("a request failed")
        return error


def _late(record: Record, spec: Spec, now: float) -> bool:
    closed = any(event.kind == "close" for event in record.about)
    return closed or (spec.window is not None and now - record.event.at > spec.window)


def _activated(record: Record) -> bool:
    return any(event.kind == "activate" for event in record.about)


def _collected(record: Record, spec: Spec) -> float | None:
    """The reward of a decision whose window has closed."""
    if record.decided.deferred and not _activated(record):
        return None
    rewards = [decode(event.body)["value"] for event in record.about if event.kind == "reward"]
    if not rewards:
        return spec.default_reward
    return float(sum(rewards)) if spec.aggregate == "sum" else float(rewards[-1])


def _convert(thing: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from None
