"""What administrators ask for: bandits, arms, models, keys, the log. Each is an event that says who asked."""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.features.encoders import Arm
from syndicated.service.core.bandit import Bandit, make
from syndicated.service.core.batch import Batch
from syndicated.service.core.group_commit import Runner, T
from syndicated.service.core.messages import (
    BanditReply,
    Create,
    KeyReply,
    KeyRequest,
    ModelReply,
    Problem,
    Spec,
    explained,
)
from syndicated.service.core.state import ADMIN, SERVICE, State, hash_key
from syndicated.store import Event


class Administration(Runner):
    """Requests that run alone, between two batches."""

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
        secret = f"syn_{secrets.token_urlsafe(32)}"
        return self.submit(lambda batch: add_key(batch, actor, request, secret), alone=True)

    def revoke_key(self, actor: str, id_: str) -> "asyncio.Future[KeyReply]":
        def run(batch: Batch) -> KeyReply:
            if id_ not in self.state.keys:
                raise Problem(404, "unknown-key", f"there is no key {shorten(id_)}")
            return _revoke(batch, actor, self.state.keys[id_])

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
            self.keep_models(batch)
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
            self.keep_models(batch, every=True)
            count = self.store.erase(subject)
            batch.then.append(self.state.forget)
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


def add_key(batch: Batch, actor: str, request: KeyRequest, secret: str) -> KeyReply:
    """Within a batch: take in a key; of its secret the journal gets the hash alone."""
    key = KeyReply(id=secrets.token_hex(4), name=request.name, scopes=sorted(set(request.scopes)), created=batch.now)
    batch.add(SERVICE, "key", {"actor": actor, "key": msgspec.to_builtins(key), "hash": hash_key(secret)})
    return msgspec.structs.replace(key, secret=secret)


def replace_key(batch: Batch, request: KeyRequest, secret: str) -> None:
    """Within a batch: let this secret in, and of the keys of that name no other."""
    hash_ = hash_key(secret)
    for known, key in batch.state.by_hash.items():
        if key.name == request.name and known != hash_:
            _revoke(batch, "", key)
    if hash_ not in batch.state.by_hash:
        add_key(batch, "", request, secret)


def _revoke(batch: Batch, actor: str, key: KeyReply) -> KeyReply:
    revoked = msgspec.structs.replace(key, revoked=True)
    batch.add(SERVICE, "revoke", {"actor": actor, "key": msgspec.to_builtins(revoked)})
    return revoked


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


def _convert(thing: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(thing, kind)
    except msgspec.ValidationError as error:
        raise InputError(explained(error, kind)) from None
