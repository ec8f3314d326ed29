"""The log as lines of JSON: what a bandit's events are outside of the journal, and how they come back in."""

from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from syndicated.service.api import By, Decided
from syndicated.service.state import Record, decode
from syndicated.store import Event

Kind = Literal["decide", "reward", "late", "activate", "close"]

_decided = msgspec.msgpack.Decoder(Decided)


class Drawn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tuner's choice: the candidate and its probability on each axis, and who would have played the same arm."""

    params: dict[str, float]
    index: tuple[int, ...] = ()
    probability: tuple[float, ...] = ()
    slot: int = 0
    odds: tuple[float, ...] = ()
    allies: tuple[int, ...] = ()


class Seen(Struct, frozen=True, kw_only=True):
    """An arm as the decision saw it: the reward expected, the score, and what of it is exploration."""

    arm: str
    predicted: float
    score: float
    bonus: float


class LogLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a bandit.

    `ref` is the `seq` of the decision that it is about, `learn` the reward that the model learns by it. A decision has
    the fields from `epoch` on, a reward `value` and `outcome`. What was erased has none of them.
    """

    seq: int
    bandit: str
    kind: Kind
    at: float
    ref: int | None = None
    learn: float | None = None
    key: str | None = None
    subject: str | None = None
    value: float | None = None
    outcome: str | None = None
    epoch: int | None = None
    version: int | None = None
    by: By | None = None
    arm: str | None = None
    place: int | None = None
    count: int | None = None
    x: list[float] | None = None
    propensity: float | None = None
    round: int = 0
    params: dict[str, float] = {}
    choice: Drawn | None = None
    deferred: bool = False
    explored: bool = False
    agrees: bool = False
    top: list[Seen] = []
    arms: list[str] | None = None
    X: list[list[float]] | None = None
    context: Any = None


class DecisionReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision, and, where one is looked up, the events about it."""

    decision_id: str
    decision: LogLine
    events: list[LogLine] | None = None


def line_of(event: Event, bandit: str, decided: Decided | None = None) -> LogLine:
    """An event of the journal as a line."""
    own = {name: getattr(event, name) for name in ("seq", "kind", "at", "ref", "learn", "key", "subject")}
    body: dict[str, Any] = {}
    if event.kind == "decide" and event.body:
        body = _fields(decided or _decided.decode(event.body))
    elif event.body:
        body = decode(event.body)
    return LogLine(bandit=bandit, **own, **body)


def decision_reply(record: Record, bandit: str, id_: str) -> DecisionReply:
    """A decision with all that was said about it."""
    events = [line_of(event, bandit) for event in record.about]
    return DecisionReply(decision_id=id_, decision=line_of(record.event, bandit, record.decided), events=events)


def _fields(decided: Decided) -> dict[str, Any]:
    fields = msgspec.structs.asdict(decided)
    fields["x"] = np.frombuffer(decided.x).tolist()
    if decided.X is not None:
        fields["X"] = np.frombuffer(decided.X).reshape(decided.count, -1).tolist()
    if decided.choice is not None:
        fields["choice"] = Drawn(**msgspec.structs.asdict(decided.choice))
    fields["top"] = [Seen(**msgspec.structs.asdict(arm)) for arm in decided.top]
    return fields
