"""The log as lines of JSON: how a bandit's events are exported, and how they are imported again."""

import io
import math
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from syndicated._decided_by import COUNTED, By
from syndicated._sparse import check_rows
from syndicated._validation import check_arms, check_count, check_features, check_number, shorten
from syndicated.errors import InputError
from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Outcome, RankedArm, Text
from syndicated.service.bandits.records import (
    ChoiceRecord,
    Decided,
    Record,
    TopArm,
    decode,
    decode_decided,
    encode,
    to_choice,
)
from syndicated.service.bandits.runs import DecisionRun, FeedbackRun
from syndicated.service.bandits.size_limits import check_ids
from syndicated.service.bandits.tables import pack_arms, pack_table, unpack_arms, unpack_table
from syndicated.store import Event
from syndicated.types import Array

TABLE_NUMBERS = 20_000  # of a table that become JSON at once, within 2 ms
MAX_NESTING = 32  # of a context: what nests deeper cannot be read everywhere that it could be written

Kind = Literal["decide", "reward", "late", "activate", "close", "forget"]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # as tables keep it


# `ChoiceRecord` and `TopArm` of the journal are arrays without names, and say NaN; a line has names, and null.


class ChoiceLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A tuner's choice: the candidate and its probability on each axis, and which would have played the same arm.

    A probability is null if the tuner cannot tell it.
    """

    params: dict[str, float]
    index: tuple[Number, ...] = ()
    probability: tuple[float | None, ...] = ()
    slot: Number = 0
    odds: tuple[float, ...] = ()
    allies: tuple[Number, ...] = ()


class ArmLine(Struct, frozen=True, kw_only=True, gc=False):
    """An arm as the decision saw it: the reward expected, the score, and the exploration in that score."""

    arm: str
    predicted: float
    score: float
    bonus: float


class LogLine(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An event of a bandit.

    `ref` is the `seq` of the decision that it is about, `learn` the reward that the model learns by it. A decision has
    the fields from `epoch` on, a reward `value` and `outcome`, and where the model of an arm was given up (`forget`)
    there is the `arm`. What was erased has none of them.
    """

    seq: Number
    bandit: str
    kind: Kind
    at: float
    ref: Number | None = None
    learn: float | None = None
    key: Text | None = None
    subject: Text | None = None
    value: float | None = None
    outcome: Outcome | None = None
    epoch: Number | None = None
    version: Number | None = None
    by: By | None = None
    arm: str | None = None
    place: Number | None = None
    count: Number | None = None
    x: list[float] | None = None
    propensity: float | None = None
    round: Number = 0
    params: dict[str, float] = {}
    choice: ChoiceLine | None = None
    deferred: bool = False
    explored: bool = False
    agrees: bool = False
    default: float | None = None
    top: list[ArmLine] = []
    arms: list[str] | None = None
    X: list[list[float]] | None = None
    context: list[float] | dict[str, Any] | None = None
    sparse: bool = False
    ranking: list[RankedArm] = []


class DecisionReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision, and, where one is looked up, the events about it."""

    decision_id: str
    decision: LogLine
    events: list[LogLine] | None = None


class Imported(Struct, frozen=True, kw_only=True):
    """How many events were imported, and how many were left out because their decision is not in the log."""

    imported: int
    left_out: int


_line = msgspec.json.Decoder(LogLine)


def to_list(X: Array) -> Any:
    return X.tolist()


def to_json(X: Array) -> msgspec.Raw:
    """A table as JSON, of some rows at a time: other threads have their turn in between."""
    rows = max(1, TABLE_NUMBERS // X.shape[1])
    parts = (msgspec.json.encode(X[start : start + rows].tolist())[1:-1] for start in range(0, len(X), rows))
    return msgspec.Raw(b"[%b]" % b",".join(parts))


def to_line(
    event: Event, bandit: Bandit, decided: Decided | None = None, *, table: Callable[[Array], Any] = to_list
) -> LogLine:
    """An event of the journal as a line; the table of all arms becomes what `table` makes of it."""
    own = {name: getattr(event, name) for name in ("seq", "kind", "at", "ref", "learn", "key", "subject")}
    body: dict[str, Any] = {}
    if event.kind == "decide" and event.body:
        body = _fields(decided or decode_decided(event.body), bandit, table)
    elif event.body:
        body = decode(event.body)
    return LogLine(bandit=bandit.name, **own, **body)


def decision_reply(record: Record, bandit: Bandit, id_: str) -> bytes:
    """A decision with the events about it, as JSON."""
    events = [to_line(event, bandit) for event in record.about]
    decision = to_line(record.event, bandit, record.decided, table=to_json)
    return msgspec.json.encode(DecisionReply(decision_id=id_, decision=decision, events=events))


def _fields(decided: Decided, bandit: Bandit, table: Callable[[Array], Any]) -> dict[str, Any]:
    fields = msgspec.structs.asdict(decided)
    del fields["table"]
    fields["x"] = np.frombuffer(decided.x).tolist()
    fields["arms"] = unpack_arms(decided.arms, bandit.registered.numbers)
    X = unpack_table(decided)
    fields["X"] = None if X is None else table(X)
    if decided.choice is not None:
        fields["choice"] = ChoiceLine(**msgspec.structs.asdict(decided.choice))
    fields["ranking"] = list(decided.ranking)
    fields["top"] = [ArmLine(**msgspec.structs.asdict(arm)) for arm in decided.top]
    return fields


def parse(data: bytes) -> list[LogLine]:
    """The lines of a log, in the order of their events. They are cut one by one: millions at once would hold up all."""
    lines: list[LogLine] = []
    for number, text in enumerate(io.BytesIO(data.rstrip()), 1):
        try:
            lines.append(_line.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"line {number} must be an event of a log: {error}") from None
        if len(lines) > 1 and lines[-1].seq <= lines[-2].seq:
            raise InputError(f"events must be in the order of seq; line {number} has {lines[-1].seq}")
    return lines


class Importer:
    """Makes events of a bandit out of lines, and folds them into a copy of it first, to see whether they fit."""

    def __init__(self, bandit: Bandit, next_number: Callable[[], int], now: float) -> None:
        self._bandit, self._next_number, self._now = bandit, next_number, now
        self._trial = Bandit.from_snapshot(bandit.snapshot())
        policy = bandit.agent.policy
        self._params = policy.theory(policy.warmup, bandit.agent.tuner.points[0]).keys()
        self._decided: dict[int, tuple[int, Decided]] = {}
        self._learned: set[int] = set()
        self._keys: set[str] = set()
        self._events: list[tuple[Event, Decided | None]] = []
        self.seconds: list[float] = []  # of processor time, that each of them took to fold

    def read(self, lines: Sequence[LogLine]) -> list[tuple[Event, Decided | None]]:
        """The events and their decisions."""
        last = max((line.epoch for line in lines if line.epoch is not None), default=0)
        for number, line in enumerate(lines, 1):
            try:
                self._read(line, last)
            except InputError as error:
                raise InputError(f"line {number}, the event {line.seq}, does not fit this bandit: {error}") from None
            except (ArithmeticError, LookupError, TypeError, ValueError, msgspec.ValidationError):
                raise InputError(
                    f"line {number}, the event {line.seq}, does not fit this bandit, whose spec must be the same"
                ) from None
        return self._events

    def _read(self, line: LogLine, last: int) -> None:
        if self._is_left_out(line):
            return
        seq = self._next_number()
        own = Event(
            seq,
            self._bandit.id,
            line.kind,
            check_number("at", line.at, 0, self._now) + 0.0,  # a zero without a sign, as every store keeps it
            key=line.key,
            subject=line.subject,
        )
        if line.kind == "decide":
            decided = self._decision(line, self._bandit.epoch if line.epoch == last else 0)
            self._decided[line.seq] = seq, decided
            event, begin = own._replace(body=encode(decided)), time.thread_time()
            self._trial.fold_decisions(DecisionRun.of([Record(event, decided)], self._trial.epoch))
        elif line.kind == "forget":
            event, decided = own._replace(body=encode({"arm": msgspec.convert(line.arm, str)})), None
            begin = time.thread_time()
            self._trial.forget_arm(str(line.arm), seq)
        else:
            assert line.ref is not None
            ref, decided = self._decided[line.ref]
            event = own._replace(ref=ref, learn=self._reward(line), body=encode(_body_of(line)))
            begin = time.thread_time()
            self._trial.fold_feedback(FeedbackRun.of([(event, Record(own, decided))], self._trial.epoch))
        self.seconds.append(time.thread_time() - begin)
        if line.key is not None:
            if line.key in self._keys:
                raise InputError(f"key must be one that no other event has; got {shorten(line.key)}")
            self._keys.add(line.key)
        self._events.append((event, decided))

    def _is_left_out(self, line: LogLine) -> bool:
        """Whether a decision was erased, or an event's decision is not in the log."""
        if line.kind == "decide":
            return line.epoch is None
        return line.kind != "forget" and line.ref not in self._decided

    def _reward(self, line: LogLine) -> float | None:
        """The reward to learn, which a decision can have once."""
        if line.kind in ("reward", "late"):
            self._bandit.check_reward(check_number("value", line.value))
        if line.learn is None:
            return None
        if line.kind == "late" or line.ref in self._learned:
            raise InputError("a decision's reward must be learned once, and not if it came late")
        assert line.ref is not None
        self._learned.add(line.ref)
        return self._bandit.check_reward(line.learn)

    def _decision(self, line: LogLine, epoch: int) -> Decided:
        """The decision of a line; one of another epoch was made by another agent, and is kept and not learned."""
        own = {name for name in Decided.__struct_fields__ if name not in ("x", "X", "table", "arms")}
        fields = {name: getattr(line, name) for name in own}
        choice = line.choice
        fields |= {
            "epoch": epoch,
            "x": self._floats("x", [line.x], 1, epoch, line.sparse).tobytes(),
            "arms": None if line.arms is None else pack_arms(line.arms, self._bandit.registered.numbers),
            "choice": None if choice is None else _choice_record(choice),
            "ranking": tuple(line.ranking),
            "top": tuple(TopArm(**msgspec.structs.asdict(arm)) for arm in line.top),
        }
        if line.X is not None:
            X = self._floats("X", line.X, line.count, epoch, line.sparse)
            fields |= pack_table(X, check_count("place", line.place, low=0))
        _check_nesting(line.context)
        decided = Decided(**fields)
        decode_decided(encode(decided))
        if epoch:
            check_ids([decided.arm, *(line.arms or ())])
            self._check(decided)
        return decided

    def _floats(self, what: str, rows: Any, count: int | None, epoch: int, sparse: bool) -> Array:
        """A table of features; one of another epoch may have any width."""
        if rows is None or rows[0] is None or len(rows) != count:
            raise InputError(f"{what} must be there, with a row for each arm")
        encoder = self._bandit.encoder
        dim = encoder.dim if epoch and not encoder.sparse else len(rows[0])
        X = check_arms(rows, dim)
        check_features(X)
        if epoch and sparse != encoder.sparse:
            raise InputError(f"sparse must be {str(encoder.sparse).lower()} with these features")
        if epoch and sparse:
            if dim % 2:
                raise InputError(f"{what} must have as many columns as values")
            check_rows(X.reshape(len(X), 2, -1), encoder.dim)
        return X

    def _check(self, decided: Decided) -> None:
        """Refuse what compiled code would accept unchecked."""
        check_number("propensity", decided.propensity, 0, 1)
        if decided.default is not None:
            self._bandit.check_reward(decided.default)
        if not 0 <= decided.place < decided.count:
            raise InputError(f"place must be that of one of the {decided.count} arms; got {decided.place}")
        for name, value in decided.params.items():
            check_number(name, value)
        if decided.by in COUNTED and decided.params.keys() != self._params:
            raise InputError(f"params must have {', '.join(self._params)}; got {shorten(list(decided.params))}")
        agent, choice = self._bandit.agent, decided.choice
        if decided.by == "agent" and choice is None:
            raise InputError("choice must be there, since the agent decided")
        if choice is not None:
            agent.policy.check(choice.params)
            if not agent.tuner.could_draw(to_choice(choice)):
                raise InputError("choice must be one that the tuner can make")


def _check_nesting(context: Any) -> None:
    level = [context]
    for _ in range(MAX_NESTING):
        inner = [
            thing.values() if isinstance(thing, dict) else thing for thing in level if isinstance(thing, (dict, list))
        ]
        level = [thing for things in inner for thing in things]
        if not level:
            return
    raise InputError(f"context must be nested at most {MAX_NESTING} deep")


def _choice_record(choice: ChoiceLine) -> ChoiceRecord:
    """A choice whose parts fit each other, also if its tuner is not known here, as that of another epoch."""
    if len(choice.probability) != len(choice.index) or len(choice.index) not in (0, 1, len(choice.params)):
        raise InputError("choice must have a probability for each index, and one of each for all params or for each")
    if max(choice.allies, default=-1) >= len(choice.odds):
        raise InputError("choice must have odds for each of its allies")
    fields = msgspec.structs.asdict(choice)
    fields["probability"] = tuple(math.nan if p is None else p for p in choice.probability)
    return ChoiceRecord(**fields)


def _body_of(line: LogLine) -> dict[str, Any]:
    return {"value": line.value, "outcome": line.outcome} if line.kind in ("reward", "late") else {}
