"""What a bandit is to begin with or to go on from: all that takes long is done before its event is written.

A small model is in the event that loads it. A large one is cut into pieces, each an event of the kind `piece`, which
are written between batches and change nothing; the event that loads the model names them. So nobody waits for more than
a piece, and a load that was never finished has no effect. Who has not written the event itself reads the pieces again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from syndicated.agent import Agent
from syndicated.errors import StateError
from syndicated.service.bandits.bandit import EpochParts, build_parts
from syndicated.service.bandits.messages import Spec
from syndicated.service.bandits.records import encode
from syndicated.store import Event, Store
from syndicated.store._seal import PackedBody
from syndicated.types import Decision

READ_EVENTS = 4  # that are read at once

PIECE, RELEARN = PART_KINDS = ("piece", "relearn")  # events that change nothing: parts of a model that is loaded later
LOADING_KINDS = ("load", "configure")
MODEL_PIECE_BYTES = 256 * 2**10


class LoadHead(Struct, frozen=True, gc=False):
    """What an event that loads a model says of it: the numbers of its pieces, if it has not the model itself.

    Then come those of rewards that it learned after its pieces were written, while it was learned again from the log.
    """

    bandit: int
    pieces: list[int] = []
    relearned: list[int] = []

    @property
    def parts(self) -> list[int]:
        return [*self.pieces, *self.relearned]


class Lesson(Struct, frozen=True, gc=False):
    """The body of a `relearn` event: what a reward is learned with."""

    bandit: int
    place: int
    x: bytes
    arm: str | None = None
    sparse: bool = False

    def teach(self, agent: Agent, reward: float) -> None:
        """Learn a reward that another model has learned before; the tuner learns nothing from what it has not drawn."""
        x = np.frombuffer(bytearray(self.x))
        row = x.reshape(2, -1) if self.sparse else x
        points = agent.tuner.points
        params = agent.policy.theory(0, points[0] if len(points) == 1 else {})  # some are learned with: a step size
        decision = Decision(agent.id, 0, self.place, row, None, params, None, self.arm)
        agent.player.learn(decision, reward)


class ModelLoad(PackedBody):
    """The body of an event that loads a model, with the agent that the model makes: the fold takes it over."""

    agent: Agent

    @classmethod
    def of(cls, body: bytes | Mapping[str, Any], agent: Agent) -> "ModelLoad":
        load = cls(body if isinstance(body, bytes) else encode(body))
        load.agent = agent
        return load

    @classmethod
    def read(cls, store: Store, event: Event, spec: Spec) -> "ModelLoad":
        """The load of a model that is in pieces, into a bandit of this spec. On any thread, with a store of its own."""
        head = decode_load(event.body)
        data = [msgspec.msgpack.decode(piece.body)["data"] for piece in _found(store, head.pieces)]
        agent = restored(spec, b"".join(data))
        for taught in _found(store, head.relearned):
            if taught.learn is not None:  # or it was erased
                decode_lesson(taught.body).teach(agent, taught.learn)
        return cls.of(event.body, agent)


class EpochStart(PackedBody):
    """The body of an event that begins an epoch, with what it begins with: the fold takes it over."""

    parts: EpochParts

    @classmethod
    def of(cls, body: Mapping[str, Any], parts: EpochParts) -> "EpochStart":
        start = cls(encode(body))
        start.parts = parts
        return start


def _found(store: Store, seqs: Sequence[int]) -> Iterator[Event]:
    """Events that another one names, a few at a time."""
    for start in range(0, len(seqs), READ_EVENTS):
        part = seqs[start : start + READ_EVENTS]
        found = store.events(part)
        for seq in part:
            if seq not in found:
                raise StateError(f"event {seq}, a part of its model, is missing or damaged")
            yield found[seq]


def restored(spec: Spec, model: bytes) -> Agent:
    """The agent of a spec as a model has it. On any thread."""
    _, agent = build_parts(spec)
    agent.restore(model)
    return agent


class Pieces(Struct, frozen=True):
    """The pieces of a large model: the numbers of those that are written, and the last.

    The last is written with the event that loads the model. So an earlier version, which does not know pieces, always
    meets one before that event, also after a snapshot in between.
    """

    written: list[int]
    last: PackedBody


def pack_piece(bandit: int, model: bytes, start: int) -> PackedBody:
    """The body of the piece that begins there. On any thread."""
    return PackedBody(encode({"bandit": bandit, "data": memoryview(model)[start : start + MODEL_PIECE_BYTES]}))


decode_load = msgspec.msgpack.Decoder(LoadHead).decode
decode_lesson = msgspec.msgpack.Decoder(Lesson).decode
