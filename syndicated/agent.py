"""The agent: a policy and its tuner, joined by two verbs.

decide(arms) -> Decision      the tuner chooses hyper-parameters, theory fills in the rest, the policy scores
                              the arms, the best is played
learn(decision, reward)       at any later time, in any order: the policy and the tuner learn
"""

import hashlib
import json
import math
import secrets
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated._learner import Learner, within
from syndicated._statefile import pack, unpack
from syndicated._validation import check_arms, check_count, check_features, check_number, check_numbers, shorten
from syndicated.errors import InputError, StateError
from syndicated.policies import Policy
from syndicated.spec import spec_of
from syndicated.streams import POLICY, TUNER, WARMUP, Stream
from syndicated.survey import Panel, Survey, best
from syndicated.tuners import Consensus, Tuner
from syndicated.types import Arms, Array, Choice, Decision, Ints, Params

NOTHING: Array = np.empty((0, 0))
NOBODY: Ints = np.empty(0, dtype=np.int64)


class Agent:
    """A self-tuning bandit.

    The policy and the tuner given here are descriptions: the agent works on fresh copies. Arms may differ in number
    and features from round to round. With a `catalogue`, the features of all arms there will ever be, arms are given
    by their numbers in it, which is faster when they are many. An agent is for one thread at a time.

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
        self, policy: Policy, tuner: Tuner | None = None, *, seed: int = 0, catalogue: npt.ArrayLike | None = None
    ) -> None:
        self.seed = check_count("seed", seed, low=0)
        self.catalogue = None if catalogue is None else check_arms(catalogue, policy.dim).copy()
        if self.catalogue is not None:
            check_features(self.catalogue)
        self.tuner = (tuner or Consensus(policy.space)).fresh()
        for point in self.tuner.points:
            policy.check(point)
        self.policies = [policy.fresh() for _ in range(self.tuner.slots)]
        for slot, copy in enumerate(self.policies):
            points = self.tuner.points if self.tuner.slots == 1 else self.tuner.points[slot : slot + 1]
            copy.prepare(points, self.catalogue)
        self.id = secrets.token_hex(8)
        self.round = 0
        self.warmup = max(policy.warmup, self.tuner.warmup_rounds)
        self._period = policy.period
        self.choice = Choice({})
        self._open: set[int] = set()
        self._kept: Panel | None = None
        self._steady = all(policy.steady(point) for point in self.tuner.points)
        self._seats: dict[tuple[int, ...], tuple[int, list[int]]] = {}

    @property
    def policy(self) -> Policy:
        """The bottom layer (the first copy, if the tuner wants several)."""
        return self.policies[0]

    @property
    def open(self) -> int:
        """How many decisions have not had their reward."""
        return len(self._open)

    def decide(self, arms: npt.ArrayLike) -> Decision:
        """Play one of K arms: the rows of a table of features, or numbers of the catalogue if there is one."""
        decision = self.propose(arms, self.round, self.choice)
        self.record(decision.choice)
        self._open.add(decision.round)
        return decision

    def propose(self, arms: npt.ArrayLike, round_: int, choice: Choice) -> Decision:
        """What this agent would decide in that round, the last choice before it being this one. Changes nothing."""
        arms = self._check(arms)
        if round_ < self.warmup:
            return self._explore(arms, round_)
        return self._play(arms, round_, self._choose(round_, choice))

    def record(self, choice: Choice | None) -> None:
        """Count a proposed decision, made by this choice: it was carried out."""
        self.choice = choice or self.choice
        self.round += 1

    def follow(self, arms: npt.ArrayLike, arm: int) -> Decision:
        """Play this arm as if the agent had come to it by itself: the tuner draws until its choice plays the arm."""
        arms = self._check(arms)
        if not 0 <= arm < len(arms) or not self.survey(arms, self.round, self.choice).chances[arm] > 0.0:
            raise InputError(f"an agent can follow to an arm that it might play now; got arm {arm}")
        decision = self.propose(arms, self.round, self.choice)
        if self.round < self.warmup:
            decision = replace(decision, arm=arm, x=self._x(arms, arm))
        draws = Stream(self.seed, TUNER, self._drawn_in(self.round))
        while decision.arm != arm:
            decision = self._play(arms, self.round, self.tuner.choose(draws))
        self.record(decision.choice)
        self._open.add(decision.round)
        return decision

    def learn(self, decision: Decision, reward: float) -> None:
        """Learn the reward of a decision of this agent, once, whenever it comes."""
        if not isinstance(decision, Decision) or decision.agent != self.id:
            raise InputError(f"a reward must be for a decision of this agent, {self.id}; got {shorten(decision)}")
        if decision.round not in self._open:
            raise InputError(f"a decision gets one reward; decision {decision.id} already had its own")
        self.absorb(decision, check_number("a reward of this policy", reward, *self.policy.rewards))
        self._open.remove(decision.round)

    def absorb(self, decision: Decision, reward: float) -> None:
        """Learn a reward whose keeper answers for it: that the decision is of this agent, and had none before."""
        self._kept = None
        choice = decision.choice
        for policy in self.policies if choice is None else [self.policies[choice.slot]]:
            policy.learn(decision.x, reward, decision.params)
        if choice is not None:
            self.tuner.learn(choice, reward, 1.0 if choice.allies else 1 / self._period)

    def survey(self, arms: npt.ArrayLike, round_: int, choice: Choice) -> Survey:
        """`propose`, and what it saw in each arm."""
        arms = self._check(arms)
        K = len(arms)
        if round_ < self.warmup:
            return Survey(self._explore(arms, round_), range(K), [1 / K] * K, np.zeros(K), np.zeros(K))
        choice = self._choose(round_, choice)
        policy, fresh = self.policies[choice.slot], (round_ - self.warmup) % self._period == 0
        shared = len(self.policies) == 1 and (fresh or bool(choice.odds))
        panel = self._panel(round_) if shared else Panel(policy, round_, (choice.params,))
        mine, rivals = self._seat(choice) if shared else (0, [])
        scores = policy.scores(arms, panel.asked, Stream(self.seed, POLICY, self._drawn_in(round_)))
        played = self._best(arms, scores)
        others = played[rivals] if rivals else NOBODY
        decision = self._decision(arms, round_, choice, panel.asked[mine], int(played[mine]), others)
        bonus = scores[mine] - scores[panel.greedy[mine]]
        if not fresh:
            return Survey(decision, [decision.arm], [1.0], scores[mine], bonus)
        odds = choice.odds if rivals and len(choice.index) == 1 else panel.odds(self.tuner)
        would = played.tolist()[: len(odds)] if shared else self.recommend(arms, round_).tolist()
        return Survey(decision, would, odds, scores[mine], bonus)

    def _panel(self, round_: int) -> Panel:
        """All points, as this round asks them."""
        if self._kept is None or not (self._steady or self._kept.round == round_):
            self._kept = Panel(self.policy, round_, self.tuner.points)
        return self._kept

    def _seat(self, choice: Choice) -> tuple[int, list[int]]:
        """The places of a choice and of its rivals among the tuner's points."""
        seat = self._seats.get(choice.index)
        if seat is None:
            rivals = self.tuner.rivals(choice)
            seat = self.tuner.points.index(choice.params), [self.tuner.points.index(point) for point in rivals]
            self._seats[choice.index] = seat
        return seat

    def recommend(self, arms: npt.ArrayLike, round_: int | None = None) -> Ints:
        """The arm that each of the tuner's points would play now (or in that round), given the policy's own draw."""
        arms = self._check(arms)
        check_features(self._features(arms))
        round_ = self.round if round_ is None else round_
        points = self.tuner.points
        shares = [points] if len(self.policies) == 1 else [(point,) for point in points]
        scores = []
        for policy, share in zip(self.policies, shares, strict=True):
            params = [policy.theory(round_, point) for point in share]
            scores.append(policy.scores(arms, params, Stream(self.seed, POLICY, self._drawn_in(round_))))
        played: Ints = np.argmax(np.concatenate(scores), axis=1)
        return played

    def _drawn_in(self, round_: int) -> int:
        """The period of a round, which is the address of its draws."""
        return max(0, round_ - self.warmup) // self._period

    def _check(self, arms: npt.ArrayLike) -> Arms:
        if self.catalogue is None:
            return check_arms(arms, self.policy.dim)
        return check_numbers(arms, len(self.catalogue))

    def _features(self, arms: Arms) -> Array:
        """The table of features that came from outside with these arms; those of the catalogue are checked already."""
        return arms if self.catalogue is None else NOTHING

    def _x(self, arms: Arms, arm: int) -> Array:
        x: Array = arms[arm] if self.catalogue is None else self.catalogue[arms[arm]]
        return x.copy()

    def _explore(self, arms: Arms, round_: int) -> Decision:
        """A round of the warm-up: any arm, all equally likely."""
        check_features(self._features(arms))
        arm = int(Stream(self.seed, WARMUP, round_).uniforms(1)[0] * len(arms))
        params = self.policy.theory(round_, {})
        return Decision(self.id, round_, arm, self._x(arms, arm), 1 / len(arms), params, None)

    def _choose(self, round_: int, last: Choice) -> Choice:
        """The choice of a round: a new one at the start of a period, then the last one."""
        period, place = divmod(round_ - self.warmup, self._period)
        return last if place else self.tuner.choose(Stream(self.seed, TUNER, period))

    def _play(self, arms: Arms, round_: int, choice: Choice) -> Decision:
        """Score with this choice, and take the best arm, the first of equals."""
        policy, rivals = self.policies[choice.slot], self.tuner.rivals(choice)
        params = [policy.theory(round_, point) for point in rivals or (choice.params,)]
        scores = policy.scores(arms, params, Stream(self.seed, POLICY, self._drawn_in(round_)))
        mine = choice.index[0] if rivals else 0
        played = self._best(arms, scores)
        return self._decision(arms, round_, choice, params[mine], int(played[mine]), played)

    def _best(self, arms: Arms, scores: Array) -> Ints:
        """The arm that each row of scores plays."""
        played = np.empty(len(scores), dtype=np.int64)
        best(played, scores, self._features(arms))
        return played

    def _decision(self, arms: Arms, round_: int, choice: Choice, params: Params, arm: int, rivals: Ints) -> Decision:
        """The decision for an arm, given the arms of the rivals; -1 stands for none that could be played."""
        if arm < 0:
            check_features(self._features(arms))
            name = type(self.policies[choice.slot]).__name__
            raise InputError(f"{name} must give finite scores; it did not with {dict(params)}")
        propensity = math.prod(choice.probability)
        if choice.odds and len(rivals) > 1:
            allies = tuple((rivals == arm).nonzero()[0].tolist())
            choice = Choice(choice.params, choice.index, choice.probability, choice.slot, choice.odds, allies)
            propensity = choice.propensity if self._period == 1 else propensity
        return Decision(self.id, round_, arm, self._x(arms, arm), propensity, params, choice)

    def state(self) -> bytes:
        """Everything needed to go on elsewhere, to the bit, as the content of a file."""
        head = {"spec": self._spec(), "id": self.id, "round": self.round, "choice": asdict(self.choice)}
        arrays = {"open": np.array(sorted(self._open), dtype=np.int64), **self._arrays()}
        return pack(head, arrays)

    def restore(self, data: bytes) -> None:
        """Go on from the state of an agent with the same policy, tuner, seed and catalogue."""
        head, arrays = unpack(data)
        spec = head.get("spec")
        for part, mine in self._spec().items():
            given = spec.get(part) if isinstance(spec, dict) else None
            if json.dumps(given) != json.dumps(mine):
                raise StateError(f"the {part} of a state must be {mine}; got {given}")
        if arrays.keys() != {"open", *self._arrays()}:
            raise StateError(f"a state of this agent has other arrays; got {shorten(sorted(arrays))}")
        id_, round_, choice = self._head(head)
        opened = arrays["open"]
        if opened.dtype != np.int64 or opened.ndim != 1 or not within(opened, round_):
            raise StateError(f"the open rounds of a state must be before its round {round_}; got {shorten(opened)}")
        shares = {
            prefix: {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            for prefix in self._parts()
        }
        for prefix, learner in self._parts().items():
            wrong = learner.misfit(shares[prefix])
            if wrong is not None:
                given = shares[prefix][wrong]
                must = f"the array {prefix}{wrong} of a state must have the shape, type and range of this agent's"
                raise StateError(f"{must}; got {given.dtype} {given.shape} {shorten(given)}")
        self.id, self.round, self.choice, self._open = id_, round_, choice, set(opened.tolist())
        self._kept = None
        for prefix, learner in self._parts().items():
            learner.restore(shares[prefix])

    def _head(self, head: dict[str, Any]) -> tuple[str, int, Choice]:
        """The id, the round and the last choice of a state, checked."""
        if not isinstance(head.get("id"), str):
            raise StateError(f"the id of a state must be text; got {shorten(head.get('id'))}")
        given = head.get("choice")
        try:
            round_ = check_count("the round of a state", head.get("round"), low=0)
            choice = choice_of(given)
            self.policy.check(choice.params)
        except InputError as error:
            raise StateError(str(error)) from None
        if choice != Choice({}) and not self.tuner.could_draw(choice):
            raise StateError(f"the choice of a state must be one that the tuner can make; got {shorten(given)}")
        return head["id"], round_, choice

    def _parts(self) -> dict[str, Learner]:
        return {"tuner/": self.tuner} | {f"policy{slot}/": copy for slot, copy in enumerate(self.policies)}

    def _arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        parts = self._parts().items()
        return {prefix + name: array for prefix, part in parts for name, array in part.state().items()}

    def _spec(self) -> dict[str, Any]:
        catalogue = None if self.catalogue is None else hashlib.sha256(self.catalogue.tobytes()).hexdigest()
        parts = {"policy": spec_of(self.policy), "tuner": spec_of(self.tuner)}
        return {**parts, "seed": self.seed, "catalogue": catalogue}


def choice_of(given: Any) -> Choice:
    """A choice out of its JSON."""
    whole, number = (int,), (int, float)
    numbers = {"index": whole, "probability": number, "slot": whole, "odds": number, "allies": whole}
    right = isinstance(given, dict) and given.keys() == {"params", *numbers} and isinstance(given["params"], dict)
    for name, kinds in numbers.items() if right else ():
        values = [given[name]] if name == "slot" else given[name]
        right = right and isinstance(values, list) and all(type(value) in kinds for value in values)
    if not right or not all(type(value) in number for value in given["params"].values()):
        raise InputError(f"the choice of a state must be what a tuner drew; got {shorten(given)}")
    drawn: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return Choice(**drawn)
