"""The handlers of the API: each calls the service with a checked request, and returns the reply."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import (
    Arm,
    ArmNumbers,
    BanditReply,
    DecideReply,
    KeyReply,
    ModelReply,
    RewardReply,
    Strict,
    Text,
)
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import decode
from syndicated.service.bandits.size_limits import BYTES_PER_FIELD, QUICK_WORK, check_request
from syndicated.service.core.export import PIECE_BYTES
from syndicated.service.core.log_lines import DecisionReply, Imported, decision_reply, parse, to_json, to_line
from syndicated.service.core.service import Service
from syndicated.service.http import parquet
from syndicated.service.http.endpoints import Call, off_the_loop
from syndicated.service.http.headers import BINARY, BYTES, JSON, JSON_LINES, PARQUET
from syndicated.service.http.metrics import CONTENT_TYPE
from syndicated.store import Event
from syndicated.store._base import in_chunks

EXPORT_CHUNK = 100  # events of the log that become lines at a time

log = logging.getLogger("syndicated")

Count = Annotated[int, Meta(ge=1, le=1000)]
SequenceNumber = Annotated[int, Meta(ge=0, le=2**62)]


class Latest(Strict, frozen=True):
    """How many of the latest to return."""

    limit: Count = 100


class UpdateQuery(Strict, frozen=True):
    """Whether a new model first learns again what the log has of this epoch; the features must stay the same."""

    relearn: bool = False


class LogQuery(Strict, frozen=True):
    """The part of the log after a sequence number, with at most so many events, as JSON lines or Parquet."""

    after: SequenceNumber = 0
    limit: Annotated[int, Meta(ge=1, le=2**62)] | None = None
    format: Literal["jsonl", "parquet"] = "jsonl"


class Health(Struct, frozen=True):
    status: Literal["ok"] = "ok"


class ArmsReply(Struct, frozen=True):
    """How many arms are registered."""

    arms: int


class Erased(Struct, frozen=True):
    """How many events had their content erased."""

    erased: int


class AuditLine(Struct, frozen=True, kw_only=True):
    """An action of an administrator or of the service itself. `actor` is the id of the key; empty for the service."""

    seq: int
    at: float
    kind: str
    actor: str
    about: dict[str, Any]


# the service


async def healthz(call: Call) -> Health:
    if call.services.failed:
        raise Problem(503, "stopped", "the service has failed; restart the process")
    return Health()


async def readyz(call: Call) -> Health:
    for reason in call.services.store_errors:
        log.warning("the journal is unavailable", extra={"fields": {"reason": reason}})
    if not call.services.ready:
        if call.services.store_errors:
            raise Problem(503, "not-ready", "the journal is unavailable")
        raise Problem(503, "not-ready", "the service is stopping or has failed")
    return Health()


async def metrics(call: Call) -> Response:
    """Made on another thread: with thousands of bandits it takes a tenth of a second."""
    return Response(await asyncio.to_thread(call.metrics.text), headers={"content-type": CONTENT_TYPE})


async def keys(call: Call) -> list[KeyReply]:
    return await call.services.home.admin.keys()


async def create_key(call: Call) -> KeyReply:
    return await call.services.home.admin.create_key(call.actor, call.body)


async def revoke_key(call: Call) -> KeyReply:
    return await call.services.home.admin.revoke_key(call.actor, call.path["id"])


async def erase(call: Call) -> Erased:
    return Erased(await call.services.erase(call.actor, msgspec.convert(call.path["subject"], Text)))


async def audit(call: Call) -> list[AuditLine]:
    """Of several journals, the latest lines of all."""
    lines = [line for service in call.services for line in await _audit_lines(service, call.query.limit)]
    return sorted(lines, key=lambda line: line.at, reverse=True)[: call.query.limit]


async def _audit_lines(service: Service, limit: int) -> list[AuditLine]:
    events = await service.admin.audit(limit)
    names = {bandit.id: bandit.name for bandit in list(service.state.bandits.values())}
    return [_audit_line(event.seq, event.at, event.kind, decode(event.body), names) for event in events]


def _audit_line(seq: int, at: float, kind: str, body: dict[str, Any], names: dict[int, str]) -> AuditLine:
    body.pop("hash", None)
    if "model" in body:
        body["model"] = f"{len(body['model'])} bytes"
    if "bandit" in body:
        body["bandit"] = names.get(body["bandit"])
    return AuditLine(seq=seq, at=at, kind=kind, actor=body.pop("actor", ""), about=body)


# bandits


async def create(call: Call) -> BanditReply:
    return await call.services.of(call.body.name).admin.create(call.actor, call.body)


async def bandits(call: Call) -> list[BanditReply]:
    return await call.services.bandits()


async def bandit(call: Call) -> BanditReply:
    return await call.service.admin.bandit(call.path["name"])


async def update(call: Call) -> BanditReply:
    admin = call.service.admin
    change = admin.relearn if call.query.relearn else admin.update
    return await change(call.actor, call.path["name"], call.body)


async def retire(call: Call) -> None:
    await call.service.admin.retire(call.actor, call.path["name"])


async def arms(call: Call) -> list[Arm]:
    return await call.service.admin.arms(call.path["name"])


async def arm_numbers(call: Call) -> list[ArmNumbers]:
    return await call.service.admin.arm_numbers(call.path["name"])


async def put_arms(call: Call) -> ArmsReply:
    return ArmsReply(await call.service.admin.put_arms(call.actor, call.path["name"], call.body.arms))


async def drop_arm(call: Call) -> None:
    await call.service.admin.drop_arm(call.actor, call.path["name"], call.path["id"])


# decisions


async def decide(call: Call) -> DecideReply:
    if call.body.shape is not None and call.table is None:
        raise Problem(422, "invalid", f"shape is required with a body of type {BINARY}, and not allowed with others")
    name, decisions = call.path["name"], call.service.decisions
    work, given = check_request(call.body, call.table), call.table
    call.hold(work * BYTES_PER_FIELD + (0 if given is None else given.nbytes))
    if work <= QUICK_WORK:
        request, arms = decisions.read(name, call.body, given)
    else:
        request, arms = await off_the_loop(decisions.read, name, call.body, given)
    if arms is not None and arms.X is not given:
        call.hold(arms.X.nbytes)
    answer = decisions.decide_on(name, request, arms, given)
    del request, arms, given
    call.body = call.table = None
    try:
        return await answer
    finally:
        del answer  # else the answer's exception, this frame and the answer keep each other alive


async def reward(call: Call) -> RewardReply:
    return await call.service.decisions.reward(call.path["name"], call.body)


async def activate(call: Call) -> RewardReply:
    return await call.service.decisions.activate(call.path["name"], call.body.decision_id)


async def decision(call: Call) -> Response:
    """A DecisionReply, made on another thread: with all arms it may be megabytes."""
    service, name, id_ = call.service, call.path["name"], call.path["id"]
    record = await service.decisions.decision(name, id_)
    return Response(await asyncio.to_thread(decision_reply, record, service.state.bandit(name), id_), media_type=JSON)


async def decisions(call: Call) -> Response:
    """A list of DecisionReply. It is made on another thread and sent in parts: with all arms, each may be megabytes."""
    service, name = call.service, call.path["name"]

    def encode(events: Sequence[Event], bandit: Bandit) -> bytes:
        lines = ((service.decisions.ids.of(event.seq), to_line(event, bandit, table=to_json)) for event in events)
        return b",".join(msgspec.json.encode(DecisionReply(decision_id=id_, decision=line)) for id_, line in lines)

    async def parts() -> AsyncIterator[bytes]:
        begin = b"["
        async for page in service.admin.latest(name, call.query.limit):
            for chunk in in_chunks(page, EXPORT_CHUNK, PIECE_BYTES):
                yield begin + await asyncio.to_thread(encode, chunk, service.state.bandit(name))
                begin = b","
        yield b"]" if begin == b"," else b"[]"

    return await _streamed(parts(), JSON)


# the log and the models


async def export(call: Call) -> Response:
    query = call.query
    found = await call.service.admin.export(call.path["name"], query.after, query.limit or sys.maxsize)
    if query.format == "parquet":
        return await _streamed(parquet.parquet_file(found, await asyncio.to_thread(parquet.load_pyarrow)), PARQUET)
    return await _streamed(found.pieces(_json_lines, EXPORT_CHUNK), JSON_LINES)


async def _streamed(parts: AsyncIterator[bytes], kind: str) -> Response:
    """The first part is made before the reply begins: what goes wrong with it is a problem document."""
    first = await anext(parts, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    return StreamingResponse(whole(), media_type=kind)


def _json_lines(events: Sequence[Event], bandit: Bandit) -> bytes:
    return b"".join(msgspec.json.encode(to_line(event, bandit, table=to_json)) + b"\n" for event in events)


async def import_(call: Call) -> Imported:
    lines = await asyncio.to_thread(parse, call.body)
    return await call.service.admin.import_log(call.actor, call.path["name"], lines)


async def models(call: Call) -> list[ModelReply]:
    return await call.service.admin.models(call.path["name"])


async def keep_model(call: Call) -> ModelReply:
    return await call.service.admin.save_model(call.path["name"])


async def model(call: Call) -> Response:
    return Response(await call.service.admin.model(call.path["name"]), media_type=BYTES)


async def kept_model(call: Call) -> Response:
    return Response(await call.service.admin.model(call.path["name"], call.path["version"]), media_type=BYTES)


async def load_model(call: Call) -> BanditReply:
    return await call.service.admin.load_model(call.actor, call.path["name"], call.body)


async def restore_model(call: Call) -> BanditReply:
    return await call.service.admin.load_model(call.actor, call.path["name"], call.path["version"])
