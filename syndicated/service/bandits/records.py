"""What the journal stores of decisions and keys, and the ways from and to every other shape of them.

    Choice (library)  ── from_choice ─►  ChoiceRecord  ── to_choice ─►  Choice
    Proposal (library) ── Bandit.propose ─►  Decided  ── encode ─►  Event.body  ── decode_decided ─►  Decided
    Event, Decided  ── log_lines.to_line ─►  LogLine  ── log_lines.Importer ─►  Event, Decided
    Event, Decided  ── runs.FeedbackRun.of ─►  FeedbackRun  ── runs.to_rounds ─►  PlayedRounds (library)
    Key  ── admin ─►  KeyReply (messages: with the secret, once)

Structs of the log are msgpack arrays or maps without their defaults. Their fields, their order and their defaults are
the journal's format: a field may be added at the end with a default; nothing else may change.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct, field

from syndicated._decided_by import By
from syndicated.errors import InputError
from syndicated.service.bandits.messages import RankedArm, Scope
from syndicated.store import Event
from syndicated.types import Choice


class ChoiceRecord(Struct, frozen=True, omit_defaults=True, array_like=True, gc=False):
    """A tuner's choice, in the log. A probability that the tuner cannot tell is NaN."""

    params: dict[str, float]
    index: tuple[int, ...] = ()
    probability: tuple[float, ...] = ()
    slot: int = 0
    odds: tuple[float, ...] = ()
    allies: tuple[int, ...] = ()


class TopArm(Struct, frozen=True, array_like=True, gc=False):
    """What ranked an arm: the reward expected of it, its score, and the exploration in that score."""

    arm: str
    predicted: float
    score: float
    bonus: float


class PackedTable(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """The features of all arms, in the log: the usual row, and where each arm differs from it; see `tables`.

    Without `base` the usual row is that of the arm that was played.
    """

    base: bytes = b""
    counts: bytes = b""
    columns: bytes = b""
    values: bytes = b""


class Decided(Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """A decision, in the log: all that its reward needs whenever it comes, and why it was made.

    If all arms are logged, `arms` has their ids, or the numbers of those that are registered, and `X` or `table` their
    features.
    """

    epoch: int
    version: int
    by: By
    arm: str
    place: int
    count: int
    x: bytes
    propensity: float
    round: int = 0
    params: dict[str, float] = field(default_factory=dict)
    choice: ChoiceRecord | None = None
    deferred: bool = False
    explored: bool = False
    agrees: bool = False
    default: float | None = None  # the reward that is learned if none has come when the window closes
    top: tuple[TopArm, ...] = ()
    arms: list[str | int] | None = None
    X: bytes | None = None
    context: Any = None
    sparse: bool = False  # whether x, and each row of X, is its columns and then their values
    table: PackedTable | None = None
    ranking: tuple[RankedArm, ...] = ()


class DecisionHead(Struct, frozen=True, gc=False):
    """What counting a decision needs of it: some fields of `Decided`, read in a third of the time."""

    epoch: int
    by: By
    arm: str
    explored: bool = False
    agrees: bool = False
    default: float | None = None


class Pruned(Struct, frozen=True):
    """A pruning, as far as a start asks: whose events it dropped, and the number of the last of them.

    Those of before this was told have none.
    """

    bandit: int = 0
    last: int = 0


class Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key, in the log. Of its secret the log has the hash alone, beside this."""

    id: str
    name: str
    scopes: list[Scope]
    created: float
    revoked: bool = False


RECORD_BYTES = 1000  # that a decision, or an event about it, takes in memory beside its body


class Record(Struct, gc=False):
    """A decision and the events about it, in memory.

    A record that was just made has what was decided, and the tuner's choice. Others have the log's form, which is a
    fraction of the size, and read it when it is needed.
    """

    event: Event
    _decided: Decided | None = None
    about: tuple[Event, ...] = ()
    _choice: Choice | None = None

    def copy(self, about: Iterable[Event]) -> "Record":
        """The same decision, with these events about it."""
        return Record(self.event, self._decided, tuple(about), self._choice)

    def add(self, event: Event) -> None:
        """Add an event about it."""
        self.about += (event,)

    @property
    def decided(self) -> Decided:
        if self._decided is None:
            self._decided = decode_decided(self.event.body)
        return self._decided

    @property
    def head(self) -> Decided | DecisionHead:
        """What was decided, as far as it is counted. It is not kept."""
        return decode_head(self.event.body) if self._decided is None else self._decided

    @property
    def bytes(self) -> int:
        """About what it takes in memory: its body, as it was read and as it may be used, and the events about it."""
        return 2 * len(self.event.body) + RECORD_BYTES * (1 + len(self.about))

    @property
    def choice(self) -> Choice | None:
        if self._choice is None and self.decided.choice is not None:
            self._choice = to_choice(self.decided.choice)
        return self._choice

    @property
    def activated(self) -> bool:
        return any(event.kind == "activate" for event in self.about)

    @property
    def is_over(self) -> bool:
        return is_over(self.about)

    def rewards(self, *kinds: str) -> list[Event]:
        return [event for event in self.about if event.kind in kinds]


def is_over(about: Iterable[Event]) -> bool:
    """Whether a decision was learned from, or its window has closed, by the events about it."""
    return any(event.kind == "close" or event.learn is not None for event in about)


decode = msgspec.msgpack.decode
decode_decided = msgspec.msgpack.Decoder(Decided).decode
decode_head = msgspec.msgpack.Decoder(DecisionHead).decode
decode_pruned = msgspec.msgpack.Decoder(Pruned).decode
_encoder = msgspec.msgpack.Encoder(enc_hook=np.generic.item)


def encode(body: Any) -> bytes:
    """The body of an event."""
    try:
        return _encoder.encode(body)
    except OverflowError:
        raise InputError("whole numbers must be at least -2^63 and less than 2^64") from None


def from_choice(choice: Choice) -> ChoiceRecord:
    """A tuner's choice, for the log."""
    return ChoiceRecord(
        dict(choice.params),
        choice.index,
        choice.probability,
        choice.slot,
        choice.candidate_probabilities,
        choice.agreeing,
    )


def to_choice(record: ChoiceRecord) -> Choice:
    """The choice that a record is of."""
    return Choice(record.params, record.index, record.probability, record.slot, record.odds, record.allies)
