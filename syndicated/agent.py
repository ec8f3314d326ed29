"""The agent: a policy and its tuner, joined by two verbs.

decide(context, arms) -> Decision     the tuner chooses hyper-parameters, theory fills in the rest, the policy scores
                                      the arms, the best is played
learn(decision, reward)               at any later time, in any order: the policy and the tuner learn
"""

import secrets
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from syndicated import _files
from syndicated._agent_state import decision_from_json, pack_agent, parts_in, tuner_spec_in, unpack_agent
from syndicated._decision_history import DecisionHistory, draw_series
from syndicated._html import html_table
from syndicated._learner import Parameters
from syndicated._player import Player
from syndicated._validation import check_count, check_each, check_features, check_number, shorten
from syndicated.arm_sets import ArmSet
from syndicated.errors import InputError
from syndicated.features import Encoder
from syndicated.features._columns import MAX_COLUMNS
from syndicated.features._reader import ArmReader, check_id
from syndicated.features._side import LEARNED
from syndicated.policies import POLICIES, Policy
from syndicated.policies.base import ArmPolicy
from syndicated.registry import find
from syndicated.space import Space
from syndicated.spec import build, complete, spec_of, text_of
from syndicated.tuners import TUNERS, Consensus, Fixed, Tuner
from syndicated.types import ArmId, Array, Choice, Decision, Ints, NamedRounds, Params, PlayedRounds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SHOWN_ARMS = 20  # in notebooks
ARM_POLICY, SPARSE_POLICY, ROW_POLICY = "ArmUCB", "DiagonalUCB", "LinUCB"  # the defaults: named arms, and rows
OPEN_FIELDS = {"kind": "fields", "context": LEARNED, "arm": LEARNED, "interactions": False}


def default_tuner(policy: Policy) -> Tuner:
    """The tuner of `Agent(policy)`: the point that the policy advises, or Consensus on its default candidates."""
    point = policy.advised
    return Consensus(policy.space) if point is None else _fixed(point)


def _fixed(point: Params) -> Fixed:
    return Fixed(Space(**{name: [value] for name, value in point.items()}))


class Agent(Parameters):
    """A self-tuning bandit.

    Nothing has to be given. What comes first decides the policy: arms with ids have a model each (`ArmUCB`), rows of
    numbers share one (`LinUCB`, as wide as the first table). `repr` says what was chosen, and why.

    A policy and a tuner given here are descriptions: the agent works on fresh copies. Arms may differ in number
    and features from round to round. With a `catalogue` of features arms are given by their
    numbers in it, which is faster when they are many; without arms all of them are meant. `id` names the agent
    in its decisions; by default it is random. An agent is for one thread at a time.

    >>> agent = Agent()
    >>> agent.learn(agent.decide({"hour": 9}, arms=["tea", "coffee"]), reward=1.0)
    >>> print(repr(agent).partition(": ")[2])
    round 1, 0 open, 1 arms; logistic: every reward was 0 or 1; a model for each arm, by rule>
    >>> from syndicated import LinUCB, Space, Syndicated
    >>> agent = Agent(LinUCB(dim=2), Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])), seed=7)
    >>> decision = agent.decide([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> agent.learn(decision, reward=1.0)
    >>> agent.round, agent.open
    (1, 0)
    >>> agent = Agent(LinUCB(dim=2), catalogue=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> agent.decide([2, 0]).x.tolist() in ([0.5, 0.5], [1.0, 0.0])
    True
    """

    def __init__(
        self,
        policy: Policy | None = None,
        tuner: Tuner | None = None,
        *,
        seed: int = 0,
        catalogue: npt.ArrayLike | None = None,
        id: str | None = None,
    ) -> None:
        self._given = {"policy": policy, "tuner": tuner, "seed": seed, "catalogue": catalogue, "id": id}
        self._reader: ArmReader | None = None
        if policy is None and catalogue is None:
            self._reader = ArmReader(OPEN_FIELDS)
            policy = _policy_for(None, None, self._reader)
        elif policy is None:
            policy = _policy_for_rows(_table(catalogue))
        if not isinstance(policy, Policy):
            raise InputError(f"policy must be a policy such as LinUCB(dim=3); got {shorten(policy)}")
        if not isinstance(tuner, Tuner | None):
            raise InputError(f"tuner must be a tuner such as Consensus(Space(alpha=[0.1, 1])); got {shorten(tuner)}")
        seed, self._given_tuner = check_count("seed", seed, low=0), tuner
        if policy.warning:
            warnings.warn(policy.warning, stacklevel=2)
        self.player = Player(policy, tuner or default_tuner(policy), seed, catalogue, id or secrets.token_hex(8))
        self.round = 0
        self.choice = Choice({})
        self._open: set[int] = set()
        self._history = DecisionHistory()

    @classmethod
    def for_arms(
        cls,
        context: Any = None,
        *,
        arms: Any = None,
        features: Any = None,
        interactions: bool = False,
        encoder: Mapping[str, Any] | None = None,
        policy: Policy | Mapping[str, Any] | str | None = None,
        models: str | None = None,
        tuner: Tuner | None = None,
        seed: int = 0,
        id: str | None = None,
    ) -> "Agent":
        """An agent for arms that have ids, in a context: numbers, texts, truth values, lists of them, or a vector.

        Nothing has to be given: then it is `Agent()`. `context` and `features` (those of arms) are names of fields, or
        names with their kinds; what they leave open is learned from what comes. `arms` are those that are meant where
        `decide` is given none. `interactions` adds the products of both. `encoder` is the spec of another kind of
        features. `policy` is a policy, its name, or its spec: `ArmUCB` by default, `DiagonalUCB` with features that are
        sparse. `models` are "per-arm", "hybrid" or "shared".

        >>> agent = Agent.for_arms(policy="LinUCB", encoder={"kind": "ids", "arms": ["tea", "milk"], "context": 1})
        >>> decision = agent.decide([0.5], arms=["milk", "tea"])
        >>> decision.arm, decision.place
        ('milk', 0)
        >>> agent.learn(decision, reward=1.0)
        """
        if encoder is None:
            said = {"context": _open(context), "arm": _open(features), "interactions": interactions}
            encoder = {**OPEN_FIELDS, **said}
        elif context is not None or features is not None or interactions:
            raise InputError(f"context, features and interactions are for no encoder of its own; got {encoder}")
        reader = ArmReader(encoder, arms)
        agent = cls(_policy_for(policy, models, reader), tuner, seed=seed, id=id)
        agent._reader = reader
        return agent

    def parameters(self) -> Mapping[str, object]:
        if self._reader is not None and self._given["policy"] is not None:
            raise InputError("an agent that was made by Agent.for_arms has no such parameters; use save and load")
        return self._given

    def __repr__(self) -> str:
        parts = f"{text_of(self.policy)}, {text_of(self.tuner)}, seed={self.player.seed}"
        named = "" if self._reader is None else f", {len(self.arms)} arms"
        chosen = "".join(f"; {text}" for text in self.policy.chosen.values())
        return f"<Agent({parts}): round {self.round}, {self.open} open{named}{chosen}>"

    def _repr_html_(self) -> str:
        """What it is and how far it has come, for notebooks, with the candidates of its tuner."""
        rows = [("policy", text_of(self.policy)), ("tuner", text_of(self.tuner)), ("seed", str(self.player.seed))]
        rows += [("round", f"{self.round:,}"), ("open decisions", f"{self.open:,}")]
        rows += [("arms", ", ".join(str(id_) for id_ in self.arms[:MAX_SHOWN_ARMS]))] if self.arms else []
        rows += self.policy.chosen.items()
        return html_table(("Agent", ""), rows) + self.tuner._repr_html_()

    @property
    def id(self) -> str:
        return self.player.id

    @property
    def policy(self) -> Policy:
        """The bottom layer (the first copy, if the tuner wants several)."""
        return self.player.policies[0]

    @property
    def tuner(self) -> Tuner:
        """The top layer."""
        return self.player.tuner

    @property
    def open(self) -> int:
        """How many decisions have not had their reward."""
        return len(self._open)

    @property
    def arms(self) -> list[ArmId]:
        """The ids that are known: the agent's own arms, then others that have a model; or numbers of the catalogue."""
        if self.player.numbered is not None:
            return list(self.player.numbered.live.tolist())
        own = [] if self._reader is None else self._reader.ids
        return list(dict.fromkeys([*own, *(id_ for book in self.player.books for id_ in book.numbers)]))

    @property
    def catalogue(self) -> Array | None:
        """The features of all arms of the catalogue as they are now, also of retired ones; None if there is none."""
        if self.player.catalogue is None:
            return None
        rows = self.player.catalogue.view()
        rows.flags.writeable = False
        return rows

    def add(self, arms: Any) -> None:
        """Add to the arms that are meant where `decide` is given none; those with known ids take their place.

        Of a catalogue, `arms` are rows, which get the next numbers, or rows by the known numbers whose features they
        are from now on. `LinUCB` and `LinTS` compute what they keep of these arms alone.

        >>> agent = Agent(catalogue=[[1.0, 0.0], [0.0, 1.0]])
        >>> agent.add([[0.5, 0.5], [0.2, 0.8]])
        >>> agent.add({0: [0.9, 0.1]})
        >>> agent.retire(1)
        >>> agent.arms, agent.catalogue[0].tolist()
        ([0, 2, 3], [0.9, 0.1])
        """
        if self.player.numbered is not None:
            self.player.add_numbered(arms)
        else:
            self._named().add(arms)

    def retire(self, id: ArmId) -> None:
        """Forget an arm. A reward that comes later makes it a new one.

        An arm of a catalogue is not played any more; rewards of its decisions are learned.
        """
        if self.player.numbered is not None:
            self.player.numbered.retire(id)
            return
        id = check_id("an arm to retire", id)
        self._named().retire(id)
        self.player.retire(id)

    def _named(self) -> ArmReader:
        if self._reader is None:
            raise InputError("this agent takes rows; arms with ids need Agent() or Agent.for_arms, numbers a catalogue")
        return self._reader

    @overload
    def decide(self, context: Any = None, arms: Any = None) -> Decision: ...

    @overload
    def decide(self, context: Any = None, arms: Any = None, *, k: int) -> list[Decision]: ...

    def decide(self, context: Any = None, arms: Any = None, *, k: int | None = None) -> Decision | list[Decision]:
        """Play one of K arms: ids or objects with ids, in a context.

        Or, without a context, arms that are the rows of a table of features, or numbers of the catalogue if there is
        one: so do agents that were given a policy or a catalogue, and those whose first arms were such a table. LinUCB
        and LinTS also take an arm set, `Ball` or `Ellipsoid`: the decision's `x` is the arm.

        With `k`, play a slate: the k best arms, the best first, each a decision that gets its own reward and counts as
        a round. An arm's propensity is then the probability that it is on the slate.

        >>> slate = Agent().decide({"hour": 9}, arms=["tea", "coffee", "milk"], k=2)
        >>> len({decision.arm for decision in slate})
        2
        """
        given = self._read(context, arms)
        if k is not None:
            slate = self.player.decide_slate(given, self.round, self.choice, check_count("k", k))
            self._record(slate)
            return slate
        decision = self.player.decide(given, self.round, self.choice)
        self._open.add(self.round)
        self.advance(decision.choice)
        return decision

    def decide_many(self, contexts: Any, arms: Any = None) -> list[Decision]:
        """`decide` for each of these contexts, with the same arms, or for each of these tables of rows; all or none.

        The decisions are those of one call after the other. With nothing tuned they are made in one compiled call: by
        `LinUCB` for an array of tables (n, K, d), by `ArmUCB` for contexts of numbers and arms that are ids.

        >>> tables = np.random.default_rng(0).normal(size=(100, 5, 3))
        >>> agent = Agent()
        >>> decisions = agent.decide_many(tables)
        >>> agent.learn_many(decisions, [decision.x[0] for decision in decisions])
        >>> agent.round, agent.open
        (100, 0)
        """
        read = self._read_many(contexts, arms)
        decisions = self.player.decide_many(read, self.round, self.choice)
        self._record(decisions)
        return decisions

    def replay(self, contexts: Any, places: npt.ArrayLike, rewards: npt.ArrayLike, arms: Any = None) -> Ints:
        """Play logged rounds, and learn the logged reward where it plays the arm of the log: the arms that it plays.

        `contexts` and `arms` are as in `decide_many`; `places` and `rewards` say which of its arms was played in each
        round, and what it gave. Where the log drew its arms uniformly, the mean reward of the rounds that agree is what
        the agent would have earned (Li et al., *Unbiased offline evaluation of contextual-bandit-based news article
        recommendation algorithms*, WSDM 2011); `evaluate` does it for other logs, with intervals. What `decide_many`
        decides in one compiled call is replayed at compiled speed.

        >>> rng = np.random.default_rng(0)
        >>> tables, places = rng.normal(size=(500, 4, 2)), rng.integers(4, size=500)
        >>> rewards = tables[np.arange(500), places, 0]
        >>> agent = Agent()
        >>> agrees = agent.replay(tables, places, rewards) == places
        >>> bool(rewards[agrees].mean() > 0.5 > rewards.mean())
        True
        """
        read = self._read_many(contexts, arms)
        logged, earned, n = np.asarray(places), np.array(rewards, dtype=np.float64), len(read)
        if logged.shape != (n,) or logged.dtype.kind not in "iu" or earned.shape != (n,):
            got = f"{logged.dtype} of shape {logged.shape} and {earned.shape}"
            raise InputError(f"places and rewards must be {n} whole numbers and {n} numbers, one a round; got {got}")
        alike = read.shape[1] if isinstance(read, np.ndarray) else len(read.ids) if isinstance(read, NamedRounds) else 0
        sizes = np.full(n, alike) if alike else np.array([len(arms) for arms in read])
        for row in np.flatnonzero((logged < 0) | (logged >= sizes)):
            raise InputError(f"a place must be that of one of its round's {sizes[row]} arms; got {logged[row]}")
        check_each("a reward of this policy", earned.tolist(), *self.policy.rewards)
        if isinstance(read, np.ndarray):
            check_features(read.reshape(-1, read.shape[-1]))
        elif self._reader is None:
            for table in read:
                check_features(self.player.check_table(table))
        played, self.choice = self.player.replay(read, logged.astype(np.int64), earned, self.round, self.choice)
        self.round += len(read)
        return played

    def _read_many(self, contexts: Any, arms: Any) -> Any:
        """What was given to `decide_many`, as the player takes it."""
        if len(contexts) == 0:
            return []
        with nullcontext() if self._reader is None else self._reader.all_or_none():
            first = self._read(contexts[0], arms)
            if self._reader is not None:
                return self._reader.read_on(first, contexts, arms)
        if isinstance(contexts, np.ndarray) and contexts.ndim == 3:
            n, K, dim = contexts.shape
            return self.player.check_table(contexts.reshape(n * K, dim)).reshape(n, K, dim)
        return contexts

    def _read(self, context: Any, arms: Any) -> Any:
        """What was given to `decide`, as the player takes it."""
        if self._reader is not None:
            if arms is not None or not self._takes_rows or (table := _table(context)) is None:
                if isinstance(context, ArmSet):
                    raise InputError(f"an arm set needs an agent for rows; this one has arms with ids; got {context!r}")
                return self._reader.read(context, arms)
            self._take_rows(table)
        if context is None or arms is None:
            return context if arms is None else arms
        raise InputError("a context needs an agent for arms with ids; this one takes rows")

    def _record(self, decisions: Sequence[Decision]) -> None:
        end = self.round + len(decisions)
        self._open.update(range(self.round, end))
        self.choice = next((decision.choice for decision in reversed(decisions) if decision.choice), self.choice)
        self.round = end

    @property
    def _takes_rows(self) -> bool:
        """Whether a table may still decide the policy: nothing was decided, and nothing said that arms have ids."""
        reader = self._reader
        if reader is None or self.round or reader.ids or reader.spec != OPEN_FIELDS:
            return False
        return spec_of(self.policy) == spec_of(_policy_for(None, None, ArmReader(OPEN_FIELDS)))

    def _take_rows(self, table: Array) -> None:
        """Become an agent for rows like these."""
        rows = Agent(_policy_for_rows(table), self._given_tuner, seed=self.player.seed, id=self.id)
        check_features(rows.player.check_table(table))
        self.player, self._reader = rows.player, None

    def advance(self, choice: Choice | None) -> None:
        """Go on to the next round after a decision with this choice (None in the warm-up)."""
        self.choice = choice or self.choice
        self.round += 1

    def learn(self, decision: Decision, reward: float) -> None:
        """Learn the reward of a decision of this agent, once, whenever it comes."""
        self._check_waits(decision)
        checked = check_number("a reward of this policy", reward, *self.policy.rewards)
        self.player.learn(decision, checked)
        self._open.remove(decision.round)
        self._history.add(decision, checked, self.tuner)

    def learn_many(self, decisions: Sequence[Decision], rewards: Iterable[float]) -> None:
        """`learn` the rewards of these decisions one after the other; all or none."""
        values = list(rewards)
        if len(values) != len(decisions):
            raise InputError(f"there must be a reward for each of {len(decisions)} decisions; got {len(values)}")
        rounds = self._rounds_of(decisions)
        checked = check_each("a reward of this policy", values, *self.policy.rewards)
        self.player.learn_many(PlayedRounds.of(decisions), checked)
        self._open -= rounds
        self._history.add_many(decisions, checked, self.tuner)

    def plot(self) -> "Figure":
        """A figure of what was learned since the agent was made or restored, over rounds.

        It shows the arms' shares of the decisions, their mean reward with a 95 % band, the probabilities of what the
        tuner chooses from, and the exploration in use. What is kept for it is small and no part of the state. Rounds of
        `replay` are not in it.
        """
        return draw_series(self._history.series(self.tuner, self.policy.exploring))

    def _rounds_of(self, decisions: Sequence[Decision]) -> set[int]:
        """The rounds of decisions that all wait for their reward."""
        agent = self.player.id
        rounds = {each.round for each in decisions if isinstance(each, Decision) and each.agent == agent}
        if len(rounds) < len(decisions) or not rounds <= self._open:
            given = set[int]()
            for decision in decisions:  # one of them is refused
                self._check_waits(decision, given)
                given.add(decision.round)
        return rounds

    def _check_waits(self, decision: Decision, given: Container[int] = ()) -> None:
        """Refuse what is no decision of this agent, and one whose round had its reward or is given twice."""
        if not isinstance(decision, Decision) or decision.agent != self.player.id:
            got = f"one of {decision.agent}" if isinstance(decision, Decision) else shorten(decision)
            raise InputError(f"a reward must be for a decision of this agent, {self.id}; got {got}")
        if decision.round not in self._open or decision.round in given:
            raise InputError(f"a decision gets one reward; decision {decision.id} already had its own")

    def state(self) -> bytes:
        """Everything needed to go on elsewhere, to the bit, as the content of a file."""
        return pack_agent(self.player, self.round, self.choice, self._open, self._reader)

    def save(self, file: str | PathLike[str]) -> None:
        """Write the state to a file, whole or not at all."""
        _files.write(Path(file), self.state())

    @classmethod
    def load(cls, file: str | PathLike[str], *, catalogue: npt.ArrayLike | None = None) -> "Agent":
        """The agent that `save` wrote. Its policy and tuner must be registered; a catalogue must be given again."""
        data = Path(file).read_bytes()
        policy, tuner, seed, reader = parts_in(data)
        agent = cls(policy, tuner, seed=seed, catalogue=catalogue)
        agent._reader = reader
        agent.restore(data)
        return agent

    def decision_from_json(self, text: str | bytes) -> Decision:
        """A decision of this agent that was kept as `Decision.to_json` gave it."""
        return decision_from_json(self.player, self.round, text, self._reader)

    def restore(self, data: bytes) -> None:
        """Go on from the state of an agent with the same policy, tuner, seed and catalogue.

        An agent that has decided nothing takes over the state of one that was made like it and met rows. One that was
        given no tuner also takes the state of one from when another tuner was the default of its policy.
        """
        if self._takes_rows:
            policy, _, _, reader = parts_in(data)
            if reader is None:
                self._take_rows(np.zeros((1, policy.dim)))
        player = self._player_for(data)
        self.round, self.choice, self._open, self._reader = unpack_agent(player, data, self._reader)
        self.player, self._history = player, DecisionHistory()

    def _player_for(self, data: bytes) -> Player:
        """The player whose state this is: mine, or one with the tuner that was the default before."""
        mine = self.player
        if self._given_tuner is not None or self.policy.advised is None:
            return mine
        earlier = [spec_of(tuner) for tuner in (Consensus(self.policy.space), *map(_fixed, self.policy.space.points))]
        spec = tuner_spec_in(data)
        if spec not in earlier:
            return mine
        return Player(self.policy, build(TUNERS, spec), mine.seed, mine.catalogue, mine.id)


def _table(given: Any) -> Array | None:
    """Rows of numbers, if they are such; of an arm set one of its arms."""
    if isinstance(given, ArmSet):
        return given.best(np.zeros((1, given.dim)))
    try:
        table = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return table if table.ndim == 2 and table.size else None


def _policy_for_rows(table: Array | None) -> Policy:
    if table is None:
        raise InputError("a catalogue must be a table, one row of features for each arm")
    return build(POLICIES, {"name": ROW_POLICY, "dim": table.shape[1]})


def _open(schema: Any) -> Any:
    """A schema as a spec says it: what is not given is learned."""
    if schema is None:
        return LEARNED
    return dict(schema) if isinstance(schema, Mapping) else list(schema) if isinstance(schema, tuple) else schema


def check_sparse(policy: type[Any], encoder: Encoder) -> None:
    """Refuse features whose rows are sparse for a policy that takes tables, before it makes room for all columns."""
    if encoder.sparse and issubclass(policy, Policy) and not policy.sparse:
        must = f"features.dim must be at most {MAX_COLUMNS} with {policy.__name__}, which takes no sparse rows"
        raise InputError(f"{must}; got {encoder.dim}")


def _policy_for(given: Policy | Mapping[str, Any] | str | None, models: str | None, reader: ArmReader) -> Policy:
    """The policy for what a reader gives: as wide as its rows, and able to grow if they do."""
    policy, encoder = given, reader.encoder
    if policy is None:
        policy = SPARSE_POLICY if encoder.sparse else ARM_POLICY
    if isinstance(policy, str):
        policy = {"name": policy}
    check_sparse(find(POLICIES, str(policy.get("name"))) if isinstance(policy, Mapping) else type(policy), encoder)
    if isinstance(policy, Mapping):
        said = {} if models is None else {"models": models}
        policy = build(POLICIES, {**policy, **said, "dim": encoder.dim})
    elif models is not None:
        raise InputError(f"models are said of a policy by name; got {shorten(models)} and {shorten(policy)}")
    if isinstance(policy, ArmPolicy) or not isinstance(policy, Policy):
        return policy
    if encoder.grows:
        raise InputError(f"{type(policy).__name__} needs rows that do not grow: give the kind of every field, or hash")
    if policy.dim != encoder.dim:
        raise InputError(f"the policy must have dim={encoder.dim}, that of the features; got {policy.dim}")
    return policy


def build_agent(
    policy: Mapping[str, Any],
    tuner: Mapping[str, Any],
    *,
    space: Mapping[str, Any] | None = None,
    seed: int = 0,
    catalogue: npt.ArrayLike | None = None,
    id: str | None = None,
) -> Agent:
    """The agent of two specs; `space` has the candidates of a tuner that does not say its own.

    >>> agent = build_agent({"name": "LinUCB", "dim": 2}, {"name": "Syndicated"}, space={"alpha": [0.1, 1.0]})
    >>> agent.tuner.points
    ({'alpha': 0.1}, {'alpha': 1.0})
    """
    policy, tuner = complete(policy, tuner, space=space)
    return Agent(build(POLICIES, policy), build(TUNERS, tuner), seed=seed, catalogue=catalogue, id=id)
