"""One bandit of the service: its spec, its arms, its agent, and how the log's events change them.

`propose` reads and changes nothing. Everything under "what changes a bandit" is called by `State.fold` alone, and uses
only what is in the event: no clock, no other draw. So the same events, folded in the same order, give the same bandit,
to the bit.
"""

import math
import zlib
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, islice, takewhile
from typing import Any, cast
from weakref import ref

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from syndicated._agent_state import AgentCopy
from syndicated._decided_by import COUNTED, By
from syndicated._player import Proposal
from syndicated._statefile import Arrays, pack, unpack
from syndicated._validation import check_number, check_range, shorten
from syndicated.agent import Agent, build_agent, check_sparse
from syndicated.errors import InputError
from syndicated.features import Encoder
from syndicated.policies import POLICIES
from syndicated.policies._neural_policy import NeuralPolicy
from syndicated.policies.base import ArmPolicy
from syndicated.registry import find
from syndicated.service.bandits.arms import ArmTable, RegisteredArms
from syndicated.service.bandits.history import History
from syndicated.service.bandits.messages import NAMED_KINDS, Arm, DecideRequest, RankedArm, Spec
from syndicated.service.bandits.past import MAX_LOADS, MAX_PAST_EPOCHS, Load, PastEpoch, past_epoch
from syndicated.service.bandits.records import Decided, Record, TopArm, decode, from_choice, to_choice
from syndicated.service.bandits.runs import DecisionRun, FeedbackRun, to_rounds
from syndicated.service.bandits.size_limits import check_logged, check_scored, check_work, count_models, max_known_arms
from syndicated.service.bandits.tables import pack_arms, pack_table
from syndicated.spec import takes
from syndicated.store import Event
from syndicated.streams import GUARD, Stream
from syndicated.tuners import TUNERS
from syndicated.types import ArmId, Array, Choice, NamedArms

EPOCH_FIELDS = ("policy", "tuner", "space", "features", "seed")  # of a spec: a change starts a new epoch
NO_DRAWS = (1.0, 1.0, 0.0)  # in place of the guard's: never held out, never on the floor
MAX_TOGETHER = 2**21  # products of scoring the arms of several requests at once, which take 1 to 3 ms
MIN_ALARM_REWARDS = 1000  # before an alarm can be raised
BEGIN_BYTES = 2**19  # of a copy, that take as long as to begin one
COMPRESSED_BYTES = 2**20  # that are decompressed at once
COMPRESSION = 1  # of models in snapshots, the fastest: hashed rows of many arms are mostly zeros


class Turn(Struct, frozen=True, gc=False):
    """Where the next proposal stands: how many decisions were made, the agent's round, and its last choice.

    Replicas may stand at the same round; each has a `salt` of its own for what is drawn.
    """

    made: int
    round: int
    choice: Choice
    salt: int = 0

    def after(self, record: Record) -> "Turn":
        """Where the next one stands after a decision."""
        counted = record.decided.by in COUNTED
        return Turn(self.made + 1, self.round + counted, record.choice or self.choice, self.salt)


class EpochParts(Struct, frozen=True):
    """What an epoch begins with. It may take a tenth of a second to make, and can be made before, on any thread.

    `registered` are the registered arms of `before`, read again if the features are others.
    """

    agent: Agent
    registered: RegisteredArms
    before: RegisteredArms | None

    @classmethod
    def of(cls, encoder: Encoder, agent: Agent, before: RegisteredArms | None = None) -> "EpochParts":
        if before is None:
            return cls(agent, RegisteredArms(encoder), None)
        if before.encoder == encoder:
            return cls(agent, before, before)
        return cls(agent, RegisteredArms(encoder, before.arms.values(), before.numbers), before)


class Bandit:
    """A bandit as the log has made it so far."""

    def __init__(self, id_: int, name: str, spec: Spec, epoch: int, parts: EpochParts | None = None) -> None:
        """`parts` are those of the spec, if they were made before."""
        self.id, self.name, self.retired = id_, name, False
        self.version = self.closed = epoch
        self.lates = 0
        self.importing = False  # whether pieces of an imported log are still to come
        self.past: list[PastEpoch] = []
        self.loads: list[Load] = []
        self.closable = 0  # the last decision that the end of its window may teach something, for all that is known
        self.drafts: list[ref[BanditDraft]] = []  # that have not begun to copy its model and its history
        self._start(spec, epoch, parts or EpochParts.of(*build_parts(spec)))

    def _start(self, spec: Spec, epoch: int, parts: EpochParts) -> None:
        """Begin an epoch: an empty model of this spec."""
        self.spec, self.epoch = spec, epoch
        self.agent, self.registered = parts.agent, parts.registered
        self.agent.player.id = f"{self.id}.{epoch}"
        self.named, self._models = is_named(self.encoder, self.agent), count_models(self.agent)
        self.history = History([len(axis) for axis in self.agent.tuner.axes()])

    def _keep(self) -> None:
        """The model or the history is about to change: drafts begin to copy them, unless nobody wants them any more."""
        while self.drafts:
            draft = self.drafts.pop()()
            if draft is not None:
                draft.begin()

    # what changes a bandit

    def configure(self, spec: Spec, event: Event, parts: EpochParts | None = None) -> None:
        """A new spec: a new epoch if the agent is another one. `parts` are its, if they were made before."""
        if self.starts_epoch(spec):
            self._keep()
            past = past_epoch(self.history, self.epoch, self.spec.policy["name"], self.spec.tuner["name"])
            self.past = [*self.past, past][-MAX_PAST_EPOCHS:] if self.history.count else self.past
            self.loads = []
            self.version = event.seq
            if parts is None or parts.before is not self.registered:  # another process has registered arms in between
                parts = EpochParts.of(*build_parts(spec), self.registered)
            self._start(spec, event.seq, parts)
        self.spec = spec

    def put_arms(self, arms: Sequence[Arm], *, numbered: bool) -> None:
        """Register arms; events of before arms were numbered give them no number."""
        self.registered = self.registered.with_arms(arms, numbered=numbered)

    def drop_arm(self, arm: str) -> None:
        self.registered = self.registered.without_arm(arm)

    def forget_arm(self, arm: str, seq: int) -> None:
        """Free the model of an arm; a reward that comes later makes it a new one."""
        self._keep()
        self.agent.player.retire(arm)
        self.version = seq

    def load(self, model: bytes | Agent, event: Event) -> None:
        """Go on from a stored model of the same agent, or from an agent that was brought to one."""
        self._keep()
        if isinstance(model, Agent):
            self.agent = model
        else:
            self.agent.restore(model)
        self.version = event.seq
        self.loads = [*self.loads, Load(event.seq, event.at, self.history.count)][-MAX_LOADS:]

    def fold_decisions(self, run: DecisionRun) -> None:
        """Count decisions that follow each other, and advance the agent by those that were its rounds."""
        self._keep()
        self.closable = run.closable or self.closable
        if run.epoch != self.epoch:
            return
        choice = None if run.choice is None else to_choice(run.choice)
        for by in run.columns.by:
            if by in COUNTED:
                self.agent.advance(choice)
        self.history.add_decisions(run.columns, self.agent.player.tuner.probabilities)

    def fold_feedback(self, run: FeedbackRun) -> None:
        """Learn what events about decisions say: rewards, late ones, activations, and closed windows."""
        self._keep()
        self.lates += run.lates
        self.closed, self.closable = max(self.closed, run.closed), max(self.closable, run.closable)
        if run.epoch != self.epoch:
            return
        self.version = run.version or self.version
        columns, counted = run.columns, run.columns.counted()
        for by, arm, reward in zip(columns.by, columns.arm, columns.reward, strict=True):
            self.history.add_reward(by, arm, reward)
        if counted.reward:
            self.agent.player.learn_many(to_rounds(counted, named=self.named), np.array(counted.reward))

    # what reads it

    def starts_epoch(self, spec: Spec) -> bool:
        """Whether the agent of this spec is another one."""
        return any(getattr(spec, part) != getattr(self.spec, part) for part in EPOCH_FIELDS)

    @property
    def encoder(self) -> Encoder:
        return self.registered.encoder

    @property
    def arms(self) -> Mapping[str, Arm]:
        return self.registered.arms

    @property
    def known_arms(self) -> set[ArmId]:
        """The arms that have a model of their own."""
        return known_arms(self.agent)

    @property
    def networks(self) -> Sequence[NeuralPolicy]:
        """The copies of its policy, if they train networks."""
        copies = self.agent.player.policies
        return cast(Sequence[NeuralPolicy], copies) if isinstance(copies[0], NeuralPolicy) else ()

    def turn(self, salt: int = 0) -> Turn:
        return Turn(self.history.count, self.agent.round, self.agent.choice, salt)

    def propose_many(self, tables: Collection[ArmTable], turn: Turn) -> list[Proposal]:
        """What the player proposes for the first of these, as many as can be at once; none if each is asked alone.

        So it is where one of them cannot be answered: that is told when its request has its turn.
        """
        player, spec = self.agent.player, self.spec
        if not player.scores_together or spec.mode == "off" or spec.holdout > 0:
            return []
        player.salt = turn.salt
        most = MAX_TOGETHER // (self._models * self.encoder.dim**2 + len(player.tuner.points))
        arms = accumulate(len(table.ids) for table in tables)
        count = sum(1 for _ in takewhile(lambda sum_: sum_ <= most, arms))
        try:
            rows = [self._rows(table) for table in islice(tables, count)]
            return player.propose_many(rows, turn.round) if count > 1 else []
        except InputError:
            return []

    def _rows(self, arms: ArmTable) -> NamedArms | Array:
        """Arms as the player takes them."""
        if not self.named:
            return arms.X
        return self.agent.player.check(NamedArms(tuple(arms.ids), arms.X, self.encoder.complete))

    def propose(
        self, request: DecideRequest, arms: ArmTable, turn: Turn, seen: Proposal | None = None
    ) -> tuple[Decided, Turn]:
        """The decision on a request, and where the next one stands; `seen` if `propose_many` has given it before."""
        ids, spec, K = arms.ids, self.spec, len(arms.ids)
        self._check_ids(ids)
        rows = self._rows(arms)
        X: Array = rows.x if isinstance(rows, NamedArms) else rows
        guarded = spec.mode == "off" or spec.holdout > 0 or spec.floor > 0
        u = Stream(spec.seed ^ turn.salt, GUARD, turn.made).uniforms(3).tolist() if guarded else NO_DRAWS
        held_out = (_share(spec.seed, request.subject) if request.subject else u[0]) < spec.holdout
        if spec.mode == "off" or held_out:
            place, chance = self._fall_back(ids, u[2])
            by: By = "fallback" if spec.mode == "off" else "holdout"
            chances = np.full(K, 1 / K) if spec.fallback == "uniform" else np.arange(K) == place
            ranking = _ranking(request.k, ids, place, chances * 1.0, None)
            decided = self._decided(request, ids, X, place, by=by, propensity=chance, ranking=ranking)
            return decided, replace(turn, made=turn.made + 1)
        self.agent.player.salt = turn.salt
        check_scored(self._models, X)
        check_work(self.agent, K)
        for policy in self.networks:
            policy.trains_apart = True  # see `NetworkTraining`
        seen = seen or self.agent.player.propose(rows, turn.round, turn.choice, explain=True)
        decision = seen.decision
        after = Turn(turn.made + 1, turn.round + 1, decision.choice or turn.choice, turn.salt)
        by, place = "warmup" if decision.choice is None else "agent", decision.place
        if spec.mode == "apprentice":
            by, place = "caller", self._place_played(request, ids)
        elif u[1] < spec.floor:
            by, place = "floor", int(u[2] * K)
        chance, explored, top = self._why(ids, seen, place)
        decided = self._decided(
            request,
            ids,
            X,
            place,
            by=by,
            propensity=1.0 if by == "caller" else (1 - spec.floor) * chance + spec.floor / K,
            round=decision.round,
            params={name: float(value) for name, value in decision.params.items()},
            choice=None if decision.choice is None else from_choice(decision.choice),
            explored=explored,
            agrees=place == decision.place,
            top=top,
            ranking=self._ranked(request.k, ids, seen, place),
        )
        return decided, after

    def _check_ids(self, ids: Sequence[str]) -> None:
        """Refuse arms that are not registered, if new ones are not wanted, and new ones if there are too many."""
        if self.spec.new_arms:
            books = self.agent.player.books
            for book in books:
                limit = max_known_arms(self.encoder.dim, len(books)) if book.numbers else math.inf
                if len(book.numbers) >= limit and (new := [id_ for id_ in ids if id_ not in book.numbers]):
                    must = f"at most {limit} arms may have a model with {self.encoder.dim} columns: remove some"
                    raise InputError(f"{must}; got the new arm {shorten(new[0])}")
            return
        for k, id_ in enumerate(ids):
            if id_ not in self.arms:
                raise InputError(f"arms[{k}] must be a registered arm, since new_arms is false; got {shorten(id_)}")

    def _decided(self, request: DecideRequest, ids: Sequence[str], X: Array, place: int, **own: Any) -> Decided:
        """What is logged of a decision: of the arm that is played, and of the others if the spec says so."""
        spec = self.spec
        if spec.log == "all":
            check_logged(X)
            arms = pack_arms(ids, self.registered.numbers)
            own |= {"arms": arms, "context": request.context} | pack_table(X.reshape(len(X), -1), place)
        return Decided(
            epoch=self.epoch,
            version=self.version,
            count=len(ids),
            deferred=spec.deferred if request.deferred is None else request.deferred,
            default=spec.default_reward,
            sparse=self.encoder.sparse,
            arm=ids[place],
            place=place,
            x=X[place].tobytes(),
            **own,
        )

    def _ranked(self, k: int | None, ids: Sequence[str], seen: Proposal, place: int) -> tuple[RankedArm, ...]:
        """The arm that is played, and those with the best scores; in a warm-up all are equal."""
        if k is None:
            return ()
        K, floor = len(ids), self.spec.floor
        if self.spec.mode == "apprentice":
            chances = (np.arange(K) == place) * 1.0
        elif seen.decision.choice is None:
            chances = np.full(K, 1 / K)
        else:
            chances = (1 - floor) * np.minimum(seen.chances, 1.0) + floor / K
        return _ranking(k, ids, place, chances, None if seen.decision.choice is None else seen.scores)

    def _why(self, ids: Sequence[str], seen: Proposal, place: int) -> tuple[float, bool, tuple[TopArm, ...]]:
        """The probability of an arm, whether another one was expected to give more, and the best as they were seen."""
        if seen.decision.choice is None:
            return seen.chance(place), True, ()
        (chance, explored, _), *best = seen.why(place)
        expected = self.agent.player.policy_of(seen.decision.choice).expected
        return chance, explored > 0, tuple([TopArm(ids[int(a)], expected(s - b), s, b) for a, s, b in best])

    def _place_played(self, request: DecideRequest, ids: Sequence[str]) -> int:
        if request.played not in ids:
            must = "an apprentice must be told the arm that was played, one of the request's"
            raise InputError(f"{must}; got {shorten(request.played)}")
        return ids.index(request.played)

    def _fall_back(self, ids: Sequence[str], u: float) -> tuple[int, float]:
        if self.spec.fallback == "uniform":
            return int(u * len(ids)), 1 / len(ids)
        if self.spec.fallback == "arm" and self.spec.fallback_arm in ids:
            return ids.index(self.spec.fallback_arm), 1.0
        return 0, 1.0

    def check_reward(self, reward: float) -> float:
        """A reward within the bandit's range, or the policy's; a zero without a sign, which not every store keeps."""
        return check_number("a reward of this bandit", reward, *reward_range(self.spec, self.agent)) + 0.0

    def collected(self, record: Record) -> float | None:
        """The reward of a decision whose window has closed; a sum is cut to the range of rewards."""
        if record.decided.deferred and not record.activated:
            return None
        values = [float(decode(event.body)["value"]) for event in record.rewards("reward")]
        if not values:
            return record.decided.default
        low, high = reward_range(self.spec, self.agent)
        return min(max(sum(values), low), high) if self.spec.aggregate == "sum" else values[-1]

    # snapshots

    def copy_agent(self) -> AgentCopy:
        """The agent's state as it is now, of which large arrays are still to be copied."""
        return AgentCopy(self.agent.player, self.agent.round, self.agent.choice)

    def snapshot(self) -> bytes:
        """The whole bandit as the content of a file."""
        draft = BanditDraft(self, {})
        while not draft.advance():
            pass
        return draft.encode()

    @classmethod
    def from_snapshot(cls, data: bytes, seq: int = 0) -> "Bandit":
        """The bandit that a snapshot is of, which was taken at this sequence number."""
        return cls.from_parts(*unpack(data), seq)

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], arrays: Arrays, seq: int) -> "Bandit":
        """The bandit of the head and the arrays of a snapshot."""
        bandit = cls(head["id"], head["name"], msgspec.convert(head["spec"], Spec), head["epoch"])
        bandit.retired, bandit.version = head["retired"], head["learned"]
        bandit.closed, bandit.lates = head["closed"], head["lates"]
        bandit.closable = head.get("closable", seq)  # of before this was kept: any decision up to there
        bandit.importing = head.get("importing", False)
        bandit.past = msgspec.convert(head.get("past", []), list[PastEpoch])
        bandit.loads = msgspec.convert(head.get("loads", []), list[Load])
        arms = msgspec.convert(head["arms"], list[Arm])
        bandit.registered = RegisteredArms(bandit.encoder, arms, head.get("numbered", ()))
        agent = np.asarray(arrays["agent"], dtype=np.uint8)
        bandit.agent.restore(_decompressed(agent.data) if head.get("compressed") else agent.tobytes())
        bandit.history.restore(head["history"], np.asarray(arrays["history"], dtype=np.float64))
        return bandit

    def alarms(self) -> list[str]:
        """What its owner should look at."""
        found: list[str] = []
        if self.history.learned < MIN_ALARM_REWARDS:
            return found
        tuner = self.agent.tuner  # one: metrics ask while a configuration may put another agent in its place
        for axis, p in zip(tuner.axes(), tuner.probabilities(), strict=True):
            if len(p) < 2:
                continue
            value = ", ".join(f"{name}={number:g}" for name, number in axis[int(np.argmax(p))].items())
            if _at_the_edge(axis, int(np.argmax(p))) and p.max() > 0.9:
                found.append(f"{value} is at the edge of its axis with probability {p.max():.2f}: widen the space")
            if p.max() > 0.999:
                found.append(f"the probabilities have collapsed to {value}")
        return found


class BanditDraft:
    """A bandit at one moment, on its way to a snapshot.

    To make one takes references to what is never changed. `advance` copies the rest in pieces: both between batches.
    The bandit has the copy begun before its model or its history change. `encode` uses nothing of the bandit, and may
    be called by any thread.
    """

    def __init__(self, bandit: Bandit, place: Mapping[str, Any]) -> None:
        """The `place` in the log: the number and the time of the last event, and how many there are up to it."""
        self._bandit: Bandit | None = bandit  # until the copy is begun
        bandit.drafts.append(ref(self))
        self._head: dict[str, Any] = {
            **place,
            "id": bandit.id,
            "name": bandit.name,
            "spec": bandit.spec,
            "epoch": bandit.epoch,
            "retired": bandit.retired,
            "arms": bandit.arms,
            "numbered": bandit.registered.numbers,
            "learned": bandit.version,
            "closed": bandit.closed,
            "closable": bandit.closable,
            "lates": bandit.lates,
            "importing": bandit.importing,
            "past": bandit.past,
            "loads": bandit.loads,
            "compressed": True,
        }

    def begin(self) -> None:
        """Copy what is small of the model and the history, if that is not done."""
        if self._bandit is not None:
            history, self._agent = self._bandit.history, self._bandit.copy_agent()
            self._head["history"], self._rows = history.head(), history.held_rows()
            self._bandit = None

    @property
    def bytes_left(self) -> int:
        return BEGIN_BYTES if self._bandit is not None else self._agent.bytes_left

    def advance(self) -> bool:
        """Copy a piece more; whether all is copied."""
        if self._bandit is None:
            return self._agent.advance()
        self.begin()
        return False

    def encode(self) -> bytes:
        """The content of a file. It is compressed in pieces, so that other threads have their turn."""
        head = self._head | {"arms": list(self._head["arms"].values()), "numbered": list(self._head["numbered"])}
        for name in ("spec", "arms", "past", "loads"):
            head[name] = msgspec.to_builtins(head[name])
        pieces: list[bytes] = []
        compressor = zlib.compressobj(COMPRESSION)
        self._agent.pack_into(lambda data: pieces.append(compressor.compress(data)))
        pieces.append(compressor.flush())
        agent = np.frombuffer(b"".join(pieces), np.uint8)
        return pack(head, {"history": self._rows(), "agent": agent})


def build_parts(spec: Spec, id_: str | None = None) -> tuple[Encoder, Agent]:
    """The encoder and the agent of a spec; a spec that cannot work is refused."""
    encoder = Encoder.from_spec(spec.features)
    if encoder.grows:
        raise InputError(f"features must say the kind of every field, so that they stay; got {shorten(spec.features)}")
    for part in (spec.policy, spec.tuner):
        if not isinstance(part.get("name"), str):
            raise InputError(f"a policy and a tuner must have a name; got {shorten(part)}")
    if "dim" in spec.policy and spec.policy["dim"] != encoder.dim:
        raise InputError(f"policy.dim must be {encoder.dim}, that of the features; got {shorten(spec.policy['dim'])}")
    check_sparse(find(POLICIES, spec.policy["name"]), encoder)
    tuner = dict(spec.tuner)
    if spec.space is not None:
        tuner["space"] = spec.space
    elif takes(TUNERS, tuner["name"], "space"):
        tuner.pop("space", None)  # it has never counted here, and journals hold such specs: the spec's own `space` does
    agent = build_agent({**spec.policy, "dim": encoder.dim}, tuner, seed=spec.seed, id=id_)
    if spec.rewards is not None:
        check_range("rewards", list(spec.rewards))
    if spec.aggregate != "first" and spec.window is None:
        raise InputError(f"rewards are collected ({spec.aggregate}) until a window closes: window must be given")
    if spec.default_reward is not None and spec.window is None:
        raise InputError("a default reward is for when the window closes: window must be given")
    if (spec.fallback == "arm") != (spec.fallback_arm is not None):
        raise InputError("fallback_arm must be given with the fallback 'arm', and only then")
    if spec.default_reward is not None:
        check_number("default_reward", spec.default_reward, *reward_range(spec, agent))
    return encoder, agent


def known_arms(agent: Agent) -> set[ArmId]:
    """The arms that have a model of their own."""
    return {id_ for book in agent.player.books for id_ in book.numbers}


def is_named(encoder: Encoder, agent: Agent) -> bool:
    """Whether arms are known by their ids: for a model of each, or to fill in numbers that are missing."""
    return isinstance(agent.policy, ArmPolicy) or encoder.kind in NAMED_KINDS


def reward_range(spec: Spec, agent: Agent) -> tuple[float, float]:
    """The range of rewards that a spec allows and its policy can learn."""
    low, high = agent.policy.rewards
    return (low, high) if spec.rewards is None else (max(low, spec.rewards[0]), min(high, spec.rewards[1]))


def _decompressed(data: memoryview) -> bytes:
    """What was compressed. In pieces, since a large one at once would keep other threads from their turn."""
    decompressor = zlib.decompressobj()
    starts = range(0, len(data), COMPRESSED_BYTES)
    parts = [decompressor.decompress(data[start : start + COMPRESSED_BYTES]) for start in starts]
    return b"".join([*parts, decompressor.flush()])


def _ranking(
    k: int | None, ids: Sequence[str], place: int, chances: Array, scores: Array | None
) -> tuple[RankedArm, ...]:
    """The first k arms: the one at `place`, then the others by their scores, the first of equals first."""
    if k is None:
        return ()
    order = range(len(ids)) if scores is None else np.argsort(-scores, kind="stable").tolist()
    best = [place, *(a for a in order if a != place)][:k]
    return tuple(RankedArm(ids[a], float(chances[a]), None if scores is None else float(scores[a])) for a in best)


def _at_the_edge(axis: Sequence[Mapping[str, float]], best: int) -> bool:
    """Whether a candidate has the least or the largest value of a hyper-parameter with three values or more."""
    for name, value in axis[best].items():
        values = sorted({point[name] for point in axis})
        if len(values) > 2 and value in (values[0], values[-1]):
            return True
    return False


def _share(seed: int, subject: str) -> float:
    """A number in [0, 1), always the same for a subject."""
    digest = blake2b(subject.encode("utf-8", "surrogatepass"), digest_size=8, salt=seed.to_bytes(16, "little"))
    return int.from_bytes(digest.digest(), "little") / 2**64
