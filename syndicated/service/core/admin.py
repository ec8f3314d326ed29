"""What administrators ask for: bandits, arms, models, keys, the log. Each change is an event that says who asked."""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import msgspec

from syndicated._validation import shorten
from syndicated.agent import Agent
from syndicated.errors import InputError, SyndicatedError
from syndicated.service.bandits.arm_numbers import arm_numbers, most_played
from syndicated.service.bandits.bandit import Bandit, build_parts, known_arms
from syndicated.service.bandits.messages import (
    Arm,
    ArmNumbers,
    BanditReply,
    Create,
    KeyReply,
    KeyRequest,
    ModelReply,
    Spec,
)
from syndicated.service.bandits.model_load import (
    MODEL_PIECE_BYTES,
    PIECE,
    EpochStart,
    ModelLoad,
    Pieces,
    pack_piece,
    restored,
)
from syndicated.service.bandits.problems import Problem, explained
from syndicated.service.bandits.records import Key
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.bandits.size_limits import check_registration, check_rewards
from syndicated.service.bandits.state import AUDIT_KINDS, State, hash_key, unpack_snapshot
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import GroupCommit, T
from syndicated.service.commit.own_thread import on_own_thread
from syndicated.service.core.export import Export, export_room
from syndicated.service.core.log_import import PAUSE_SECONDS, LogImport, check_empty
from syndicated.service.core.log_lines import Imported, LogLine
from syndicated.service.core.new_epoch import NewEpoch, change_body, checked_parts
from syndicated.service.core.relearning import Relearning, becomes_named
from syndicated.store import Event, StoreConflictError, StoreError
from syndicated.store._seal import PackedBody

MAX_ERASE_ATTEMPTS = 3  # beside the others
ERASE_EVENTS = 1000  # that are emptied in one transaction, so that nobody waits long for it
MAX_EPOCH_ATTEMPTS = 3  # the same, to begin an epoch


class Admin:
    """Requests of administrators and readers: each is exclusive, a batch of its own."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit

    def _submit(self, run: Callable[[Batch], T]) -> "asyncio.Future[T]":
        return self._group_commit.submit(run, exclusive=True)

    # bandits and their arms

    async def create(self, actor: str, request: Create) -> BanditReply:
        """Create a bandit, which is made on another thread."""
        await self._submit(lambda batch: _check_free(batch.state, request.name))
        body = {"actor": actor, "name": request.name, "spec": msgspec.to_builtins(request.spec)}
        start = await _made(lambda: EpochStart.of(body, checked_parts(request.spec)))

        def run(batch: Batch) -> BanditReply:
            _check_free(batch.state, request.name)
            seq = batch.add(SERVICE_ID, "create", start).seq
            counts = dict.fromkeys(("decisions", "rewards", "arms", "known_arms"), 0)
            return BanditReply(name=request.name, spec=request.spec, epoch=seq, version=seq, retired=False, **counts)

        return await self._group_commit.go_on(run)

    def update(self, actor: str, name: str, changes: Mapping[str, Any]) -> Awaitable[BanditReply]:
        """Change a spec. A bandit that goes from features of kind ids to named arms keeps what was learned."""

        def run(batch: Batch) -> BanditReply | Relearning | NewEpoch:
            bandit = batch.state.bandit(name)
            spec = _changed(bandit, changes)
            if not bandit.starts_epoch(spec):
                _check_change(bandit, spec)
                return _configure(batch, actor, bandit, spec)
            epoch = NewEpoch(actor, bandit.id, spec, bandit.registered)
            return _relearning(bandit, spec) if becomes_named(bandit, spec) else epoch

        return self._completed(actor, name, changes, self._submit(run))  # it has its place in the queue

    def relearn(self, actor: str, name: str, changes: Mapping[str, Any]) -> Awaitable[BanditReply]:
        """Change a spec and keep what was learned: a new model learns the epoch's log again before it takes over."""

        def run(batch: Batch) -> Relearning:
            bandit = batch.state.bandit(name)
            return _relearning(bandit, _changed(bandit, changes))

        return self._completed(actor, name, changes, self._submit(run))

    async def _completed(
        self, actor: str, name: str, changes: Mapping[str, Any], begun: "Awaitable[BanditReply | Relearning | NewEpoch]"
    ) -> BanditReply:
        """The answer to a change, after a new epoch was made ready, or the log learned again, if it must be."""
        first = await begun
        if isinstance(first, BanditReply):
            return first
        if isinstance(first, NewEpoch):
            return await self._start_epoch(name, changes, first)
        relearning = first

        def end(batch: Batch) -> BanditReply:
            bandit = batch.state.bandit(name)
            if bandit.epoch != relearning.epoch:
                raise Problem(409, "conflict", "the bandit got another model while the log was learned again")
            while (rest := relearning.page(batch)) is not None:
                relearning.learn(rest)
            relearning.check_written(batch.store)
            spec = _changed(bandit, changes)  # with what else was changed meanwhile
            _check_change(bandit, spec)  # its arms may be others by now
            return _configure(batch, actor, bandit, spec, relearning)

        while (page := await self._submit(relearning.page)) is not None:
            await asyncio.to_thread(relearning.learn, page)
        model = await asyncio.to_thread(relearning.pack)
        pieces = await self._write_pieces(relearning.bandit, model)
        if pieces is not None:
            await asyncio.to_thread(relearning.go_on, model, pieces)
            while (page := await self._group_commit.go_on(relearning.page)) is not None:
                await asyncio.to_thread(relearning.learn, page)
        return await self._group_commit.go_on(end)

    async def _start_epoch(self, name: str, changes: Mapping[str, Any], epoch: NewEpoch) -> BanditReply:
        """Begin an epoch that is made on another thread.

        If the bandit is changed meanwhile it is made again, and at last while all wait.
        """

        def run(batch: Batch, made: NewEpoch | None, start: EpochStart | None) -> BanditReply | NewEpoch:
            bandit = batch.state.bandit(name)
            now = NewEpoch(epoch.actor, bandit.id, _changed(bandit, changes), bandit.registered)
            if start is not None and now != made:
                return now
            return _configure(batch, epoch.actor, bandit, now.spec, start=start or now.start())

        for _ in range(MAX_EPOCH_ATTEMPTS):
            start = await _made(epoch.start)
            reply = await self._group_commit.go_on(partial(run, made=epoch, start=start))
            if isinstance(reply, BanditReply):
                return reply
            epoch = reply
        reply = await self._group_commit.go_on(partial(run, made=None, start=None))
        assert isinstance(reply, BanditReply)
        return reply

    def retire(self, actor: str, name: str) -> "asyncio.Future[None]":
        def run(batch: Batch) -> None:
            batch.add(SERVICE_ID, "retire", {"actor": actor, "bandit": batch.state.bandit(name).id})

        return self._submit(run)

    def put_arms(self, actor: str, name: str, arms: Sequence[Arm]) -> "asyncio.Future[int]":
        def run(batch: Batch) -> int:
            bandit = batch.state.bandit(name)
            check_registration(arms, bandit.arms)
            for k, arm in enumerate(arms):
                bandit.encoder.prepare(arm, f"arms[{k}]")
            given = msgspec.to_builtins(list(arms))
            body = {"actor": actor, "bandit": bandit.id, "arms": given, "numbered": True}
            batch.add(SERVICE_ID, "arms", body)
            return len(bandit.arms.keys() | {arm.id for arm in arms})

        return self._submit(run)

    def drop_arm(self, actor: str, name: str, arm: str) -> "asyncio.Future[None]":
        def run(batch: Batch) -> None:
            bandit = batch.state.bandit(name)
            known = arm in bandit.known_arms
            if not known and arm not in bandit.arms:
                raise Problem(404, "unknown-arm", f"this bandit has no arm {shorten(arm)}, registered or learned")
            batch.add(SERVICE_ID, "drop", {"actor": actor, "bandit": bandit.id, "arm": arm})
            if known:
                batch.add(bandit.id, "forget", {"arm": arm})

        return self._submit(run)

    def bandits(self) -> "asyncio.Future[list[BanditReply]]":
        return self._submit(lambda batch: [_bandit_reply(bandit) for bandit in batch.state.bandits.values()])

    def bandit(self, name: str) -> "asyncio.Future[BanditReply]":
        return self._submit(lambda batch: _bandit_reply(batch.state.bandit(name)))

    def arms(self, name: str) -> "asyncio.Future[list[Arm]]":
        return self._submit(lambda batch: list(batch.state.bandit(name).arms.values()))

    async def arm_numbers(self, name: str) -> list[ArmNumbers]:
        """The arms that were played in this epoch, those played most first. Ten thousand are made on another thread."""
        counts = await self._submit(lambda batch: batch.state.bandit(name).history.counts_now())
        return await asyncio.to_thread(lambda: arm_numbers(counts, most_played(counts)))

    # keys

    def keys(self) -> "asyncio.Future[list[KeyReply]]":
        """All keys, the oldest first."""
        return self._submit(
            lambda batch: [_key_reply(key) for key in sorted(batch.state.keys.values(), key=lambda key: key.created)]
        )

    def create_key(self, actor: str, request: KeyRequest) -> "asyncio.Future[KeyReply]":
        secret = f"syn_{secrets.token_urlsafe(32)}"
        return self._submit(lambda batch: _add_key(batch, actor, request, secret))

    def revoke_key(self, actor: str, id_: str) -> "asyncio.Future[KeyReply]":
        def run(batch: Batch) -> KeyReply:
            if id_ not in batch.state.keys:
                raise Problem(404, "unknown-key", f"there is no key {shorten(id_)}")
            return _revoke(batch, actor, batch.state.keys[id_])

        return self._submit(run)

    def replace_key(self, request: KeyRequest, secret: str) -> "asyncio.Future[None]":
        """Accept this secret as the only key of that name: earlier ones are revoked."""

        def run(batch: Batch) -> None:
            hash_ = hash_key(secret)
            for known, key in batch.state.by_hash.items():
                if key.name == request.name and known != hash_:
                    _revoke(batch, "", key)
            if hash_ not in batch.state.by_hash:
                _add_key(batch, "", request, secret)

        return self._submit(run)

    # models

    def models(self, name: str) -> "asyncio.Future[list[ModelReply]]":
        def run(batch: Batch) -> list[ModelReply]:
            saved = batch.store.snapshot_sizes(batch.state.bandit(name).id)
            return [ModelReply(version=seq, at=at, bytes=size) for seq, at, size in saved]

        return self._submit(run)

    async def save_model(self, name: str) -> ModelReply:
        """Save the model as it is now, to roll back to it later."""
        id_ = await self._submit(lambda batch: batch.state.bandit(name).id)
        await self._group_commit.snapshots.save()
        version, at, size = await self._group_commit.go_on(lambda batch: batch.store.snapshot_sizes(id_)[0])
        return ModelReply(version=version, at=at, bytes=size)

    async def model(self, name: str, version: int | None = None) -> bytes:
        """The agent's state, as it is now or in a saved model. It becomes a file on another thread."""
        if version is not None:
            id_, last = await self._submit(lambda batch: (batch.state.bandit(name).id, batch.state.seq))
            if version > last:  # a store takes 64 bits
                raise _unknown_model(version)
            with export_room(self._group_commit):
                return await on_own_thread("models", self._saved_model, id_, version)
        copy = await self._submit(lambda batch: batch.state.bandit(name).copy_agent())
        while not await self._group_commit.go_on(lambda batch: copy.advance()):
            pass
        return await asyncio.to_thread(copy.pack)

    def _saved_model(self, bandit: int, version: int) -> bytes:
        """The agent's state in a saved model. On a thread of its own, over a connection of its own."""
        try:
            with closing(self._group_commit.store.reader()) as store:
                saved = store.snapshot(bandit, version)
        except StoreError as error:
            raise Problem(503, "unavailable", str(error)) from None
        if saved is None:
            raise _unknown_model(version)
        return Bandit.from_parts(*unpack_snapshot(saved), saved.seq).agent.state()

    async def load_model(self, actor: str, name: str, model: bytes | int) -> BanditReply:
        """Go on from a model: the content of a file, or the version of a saved one (a roll-back)."""
        data = await self.model(name, model) if isinstance(model, int) else model
        before = await self._submit(lambda batch: batch.state.bandit(name))
        epoch = before.epoch
        agent = await asyncio.to_thread(_agent_of, before.spec, data)
        about = {"actor": actor, "bandit": before.id, **({"version": model} if isinstance(model, int) else {})}
        pieces = await self._write_pieces(before.id, data)
        whole = await asyncio.to_thread(ModelLoad.of, {**about, "model": data}, agent) if pieces is None else None

        def run(batch: Batch) -> BanditReply:
            bandit = batch.state.bandit(name)
            if (bandit.id, bandit.epoch) != (before.id, epoch):
                raise Problem(409, "conflict", "the bandit became another one while the model was read")
            load = whole or ModelLoad.of({**about, "pieces": _end_pieces(batch, pieces)}, agent)
            event = batch.add(SERVICE_ID, "load", load)
            known = len(known_arms(agent))
            return msgspec.structs.replace(_bandit_reply(bandit), version=event.seq, known_arms=known)

        return await self._group_commit.go_on(run)

    async def _write_pieces(self, bandit: int, model: bytes) -> Pieces | None:
        """Write a large model in pieces between batches, all but the last; a small one has none."""
        if len(model) <= MODEL_PIECE_BYTES:
            return None
        *starts, last = range(0, len(model), MODEL_PIECE_BYTES)
        written: list[int] = []
        for start in starts:
            body = await asyncio.to_thread(pack_piece, bandit, model, start)
            written.append(await self._group_commit.go_on(partial(_add_piece, body=body)))
        return Pieces(written, await asyncio.to_thread(pack_piece, bandit, model, last))

    # the log

    async def erase(self, actor: str, subject: str) -> int:
        """Empty what the log has about a subject. What was learned from it stays learned: snapshots have it.

        It is done in pieces, the first of which has the event that tells others to load what they have again: they may
        have folded something that was not empty yet. If more comes about the subject meanwhile snapshots are saved
        again, since a reward of a decision that is still to be emptied would be lost to a replay, and so if a model was
        loaded, which may have been learned again from what is to be emptied; at last while all wait.
        """

        def run(batch: Batch, saved: int | None, begins: bool) -> int | None:
            limit = ERASE_EVENTS
            if saved is None:
                self._group_commit.snapshots.save_at_once(batch)
                saved, limit = batch.state.seq, sys.maxsize
            elif batch.store.last_about(subject) > saved or batch.state.last_load > saved:
                return None
            if begins:
                count = batch.store.count_about(subject, saved)
                batch.add(SERVICE_ID, "erase", {"actor": actor, "count": count})
            erased = batch.store.erase(subject, saved, limit)
            if batch.store.last_about(subject) > saved:  # another process has just written it, and no snapshot has it
                raise StoreConflictError("more has come about a subject while it was erased")
            batch.on_commit += [batch.state.forget_all_records, batch.scrub]
            return erased

        def piece(saved: int | None, begins: bool) -> "asyncio.Future[int | None]":
            return self._group_commit.go_on(lambda batch: run(batch, saved, begins))

        await self._submit(lambda batch: None)
        erased = 0
        for _ in range(MAX_ERASE_ATTEMPTS):
            saved, begins = await self._group_commit.snapshots.save(), True
            while (count := await piece(saved, begins)) is not None:
                erased, begins = erased + count, False
                if count < ERASE_EVENTS:
                    return erased
        async with self._group_commit.snapshots.saving:
            return erased + (await piece(None, begins=True) or 0)

    async def audit(self, limit: int) -> list[Event]:
        """The latest events of the audit log, the newest first."""
        return [event async for page in self._recent(SERVICE_ID, AUDIT_KINDS, limit) for event in page]

    async def latest(self, name: str, limit: int) -> AsyncIterator[list[Event]]:
        """The latest decisions, the newest first, some at a time: large ones are never in memory together."""
        id_ = await self._submit(lambda batch: batch.state.bandit(name).id)
        async for page in self._recent(id_, ["decide"], limit):
            yield page

    async def _recent(self, id_: int, kinds: Sequence[str], limit: int) -> AsyncIterator[list[Event]]:
        ask, before = self._submit, None
        while limit and (page := await ask(partial(_page, id_=id_, kinds=kinds, limit=limit, before=before))):
            yield page
            limit, before = limit - len(page), page[-1].seq
            ask = self._group_commit.go_on  # what has begun is not refused because others wait

    async def export(self, name: str, after: int = 0, limit: int = sys.maxsize) -> Export:
        """The events of a bandit after a sequence number, in order."""
        bandit, upto = await self._submit(lambda batch: (batch.state.bandit(name), batch.state.seq))
        return Export(self._group_commit, bandit, after, upto, limit)

    async def import_log(self, actor: str, name: str, lines: list[LogLine]) -> Imported:
        """Import the lines of another bandit's log, of the same spec, into one that has decided nothing.

        The lines are used up.
        """

        def begin(batch: Batch) -> tuple[bytes, float]:
            bandit = batch.state.bandit(name)
            check_empty(batch, bandit)
            return bandit.snapshot(), batch.now

        try:
            log_import = await asyncio.to_thread(LogImport, actor, *await self._submit(begin), lines)
        finally:
            await asyncio.to_thread(_empty, lines)
        go_on = self._group_commit.go_on  # what has begun is not refused because others wait
        if log_import.has_pieces:
            await go_on(log_import.announce)
            if self._group_commit.store.shared:
                await asyncio.sleep(PAUSE_SECONDS)
        while not await go_on(log_import.append):
            pass
        return log_import.counts


async def _made(make: Callable[[], EpochStart]) -> EpochStart:
    """What an epoch begins with, made on another thread; a spec that cannot work is refused."""
    try:
        return await asyncio.to_thread(make)
    except SyndicatedError as error:
        raise Problem(422, "invalid", str(error)) from None


def _page(batch: Batch, id_: int, kinds: Sequence[str], limit: int, before: int | None) -> list[Event]:
    return batch.store.recent(id_, kinds, limit, before)


def _unknown_model(version: int) -> Problem:
    return Problem(404, "unknown-model", f"this bandit has no model {version}")


def _agent_of(spec: Spec, model: bytes) -> Agent:
    """The agent that a model makes, which must be one of this spec."""
    try:
        return restored(spec, model)
    except SyndicatedError as error:
        raise Problem(422, "invalid", str(error)) from None


def _add_piece(batch: Batch, body: PackedBody) -> int:
    return batch.add(SERVICE_ID, PIECE, body).seq


def _end_pieces(batch: Batch, pieces: Pieces | None) -> list[int]:
    """Write the last piece; the numbers of all."""
    return [*pieces.written, _add_piece(batch, pieces.last)] if pieces else []


def _empty(lines: list[LogLine]) -> None:
    """Free lines one by one, so that other threads have their turn: thousands at once would hold up everybody."""
    while lines:
        lines.pop()


def _add_key(batch: Batch, actor: str, request: KeyRequest, secret: str) -> KeyReply:
    """Add a key; of its secret the journal gets the hash alone."""
    key = Key(id=secrets.token_hex(4), name=request.name, scopes=sorted(set(request.scopes)), created=batch.now)
    batch.add(SERVICE_ID, "key", {"actor": actor, "key": msgspec.to_builtins(key), "hash": hash_key(secret)})
    return _key_reply(key, secret)


def _revoke(batch: Batch, actor: str, key: Key) -> KeyReply:
    revoked = msgspec.structs.replace(key, revoked=True)
    batch.add(SERVICE_ID, "revoke", {"actor": actor, "key": msgspec.to_builtins(revoked)})
    return _key_reply(revoked)


def _key_reply(key: Key, secret: str | None = None) -> KeyReply:
    """A key as the API shows it; with its secret once, when it is made."""
    return KeyReply(**msgspec.structs.asdict(key), secret=secret)


def _changed(bandit: Bandit, changes: Mapping[str, Any]) -> Spec:
    return _convert(msgspec.to_builtins(bandit.spec) | dict(changes), Spec)


def _relearning(bandit: Bandit, spec: Spec) -> Relearning:
    _check_change(bandit, spec)
    return Relearning(bandit, spec)


def _check_change(bandit: Bandit, spec: Spec) -> None:
    """Refuse a change that cannot work. A bandit that keeps its model may be one of before the limits."""
    if bandit.starts_epoch(spec):
        checked_parts(spec, bandit.registered)
    else:
        _, agent = build_parts(spec)
        check_rewards(spec, agent)


def _check_free(state: State, name: str) -> None:
    before = state.names.get(name)
    if before is not None and not before.retired:
        raise Problem(409, "exists", f"a bandit must have a name of its own; there is a {name!r}")


def _configure(
    batch: Batch,
    actor: str,
    bandit: Bandit,
    spec: Spec,
    relearning: Relearning | None = None,
    start: EpochStart | None = None,
) -> BanditReply:
    """Append a change of the spec, and what the new epoch begins with or goes on from, if that was made before."""
    body = change_body(actor, bandit.id, spec)
    agent = None if relearning is None else relearning.agent
    if relearning is not None and agent is not None and relearning.pieces is not None:
        parts = {"pieces": _end_pieces(batch, relearning.pieces), "relearned": relearning.written}
        event = batch.add(SERVICE_ID, "configure", ModelLoad.of(body | parts, agent))
    else:
        event = batch.add(SERVICE_ID, "configure", start or body)
    reply = msgspec.structs.replace(_bandit_reply(bandit), spec=spec)
    if bandit.starts_epoch(spec):
        reply = msgspec.structs.replace(reply, epoch=event.seq, version=event.seq, decisions=0, rewards=0, known_arms=0)
    if agent is not None:
        if not isinstance(event.body, ModelLoad):
            event = batch.add(SERVICE_ID, "load", {"actor": actor, "bandit": bandit.id, "model": agent.state()})
        reply = msgspec.structs.replace(reply, version=event.seq, known_arms=len(known_arms(agent)))
    return reply


def _bandit_reply(bandit: Bandit) -> BanditReply:
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
        known_arms=len(bandit.known_arms),
    )


def _convert(thing: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise InputError(explained(error, kind)) from None
