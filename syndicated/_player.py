"""The player: copies of a policy and a tuner, joined. It proposes decisions and learns rewards, and keeps no count.

An `Agent` is a player that counts its rounds and knows which decisions still wait for a reward. The service, which
keeps both in its log, and the evaluation, which plays what a log has played, use the player itself.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from syndicated._argmax import best
from syndicated._learner import Learner
from syndicated._validation import check_arms, check_features, check_numbers
from syndicated.errors import InputError
from syndicated.policies import Policy
from syndicated.streams import POLICY, TUNER, WARMUP, Stream
from syndicated.tuners import Tuner
from syndicated.types import Arms, Array, Choice, Decision, Ints, Params

NO_FEATURES: Array = np.empty((0, 0))
NO_SCORES: Array = np.empty(0)
NO_ROWS: Ints = np.empty(0, dtype=np.int64)


class Proposal(NamedTuple):
    """A decision, and if it was asked to explain itself, what the other candidates would have played.

    `played` has the arm of every point that the tuner could have drawn, and `probabilities` how likely each was, given
    the policy's own draw; where a choice lasts several rounds, it is the only one after the first. `scores` has the
    score of every arm, and `bonus` what of it is exploration.
    """

    decision: Decision
    played: Sequence[int] = ()
    probabilities: Sequence[float] = ()
    scores: Array = NO_SCORES
    bonus: Array = NO_SCORES

    def chance(self, arm: int) -> float:
        """The probability of an arm."""
        return min(1.0, sum([p for played, p in zip(self.played, self.probabilities, strict=True) if played == arm]))

    @property
    def chances(self) -> Array:
        """The probability of every arm."""
        return np.asarray(np.bincount(self.played, self.probabilities, len(self.scores)), dtype=np.float64)


class PreparedPoints:
    """Points as a policy scores them in a round: theory filled in, and with `greedy` each also without exploration."""

    def __init__(self, policy: Policy, round_: int, points: Sequence[Params], *, greedy: bool = False) -> None:
        self.round = round_
        self.params: tuple[Params, ...] = tuple([policy.theory(round_, point) for point in points])
        self.greedy_rows: list[int] = []
        if greedy:
            self._add_greedy(policy)

    def _add_greedy(self, policy: Policy) -> None:
        """Points that differ in their exploration only share one greedy twin."""
        greedy = [{**params, **dict.fromkeys(policy.exploring, 0.0)} for params in self.params]
        keys = [tuple(sorted(params.items())) for params in greedy]
        different = dict(zip(keys, greedy, strict=True))
        rows = {key: len(self.params) + row for row, key in enumerate(different)}
        self.greedy_rows = [rows[key] for key in keys]
        self.params = (*self.params, *different.values())


class Player:
    """A policy and a tuner at play, with the seed of their draws.

    What is proposed depends only on what was learned, on the round and on the last choice. So rounds may be proposed in
    any order, or twice.
    """

    def __init__(self, policy: Policy, tuner: Tuner, seed: int, catalogue: npt.ArrayLike | None, id_: str) -> None:
        self.id, self.seed = id_, seed
        self.catalogue = None if catalogue is None else check_arms(catalogue, policy.dim).copy()
        if self.catalogue is not None:
            check_features(self.catalogue)
        self.tuner = tuner.fresh()
        for point in self.tuner.points:
            policy.check(point)
        self.policies = [policy.fresh() for _ in range(self.tuner.slots)]
        for copy, points in zip(self.policies, self._points_of_copies(), strict=True):
            copy.prepare(points, self.catalogue)
        self.warmup = max(policy.warmup, self.tuner.warmup_rounds)
        self._period = policy.period
        self._theory_ignores_round = all(policy.theory_ignores_round(point) for point in self.tuner.points)
        self._rows: dict[tuple[int, ...], tuple[int, Ints]] = {}
        self._forget()

    def propose(self, arms: npt.ArrayLike, round_: int, last: Choice, *, explain: bool = False) -> Proposal:
        """The decision of a round, `last` being the choice before it. Changes nothing."""
        arms = self._check(arms)
        if round_ < self.warmup:
            return self._explore(arms, round_)
        in_period = (round_ - self.warmup) % self._period
        choice = last if in_period else self.tuner.choose(self.draws(round_))
        return self.play(arms, round_, choice, explain=explain)

    def play(self, arms: Arms, round_: int, choice: Choice, *, explain: bool = False) -> Proposal:
        """The decision of a round with this choice, after the warm-up: the arm of the best score."""
        points, row, rivals = self._points_for(round_, choice, explain)
        scores = self._score(self.policy_of(choice), arms, points.params, round_)
        played = self._best(arms, scores)
        decision = self._decision(arms, round_, choice, points.params[row], int(played[row]), played[rivals])
        if not explain:
            return Proposal(decision)
        mine, bonus = scores[row], scores[row] - scores[points.greedy_rows[row]]
        if (round_ - self.warmup) % self._period:
            return Proposal(decision, [decision.arm], [1.0], mine, bonus)
        known = choice.candidate_probabilities if len(choice.index) == 1 else ()
        likely = known or self._probabilities()
        would = played[: len(likely)] if len(self.policies) == 1 else self._arms_of_points(arms, round_)
        return Proposal(decision, would.tolist(), likely, mine, bonus)

    def learn(self, decision: Decision, reward: float) -> None:
        """Learn the reward of a decision; who calls this answers for it being a new one of this player's decisions."""
        self._forget()
        choice = decision.choice
        for policy in self.policies if choice is None else [self.policy_of(choice)]:
            policy.learn(decision.x, reward, decision.params)
        if choice is not None:
            self.tuner.learn(choice, reward, 1.0 if choice.agreeing else 1 / self._period)

    def arms_of_points(self, arms: npt.ArrayLike, round_: int) -> Ints:
        """The arm that each of the tuner's points would play in this round, given the policy's own draw."""
        return self._arms_of_points(self._check(arms), round_)

    def policy_of(self, choice: Choice) -> Policy:
        """The copy of the policy that plays with this choice."""
        return self.policies[choice.slot]

    def draws(self, round_: int) -> Stream:
        """What the tuner draws the choice of a round from."""
        return Stream(self.seed, TUNER, self._period_of(round_))

    def parts(self) -> dict[str, Learner]:
        """Everything that learns, by the name that it has in a state."""
        return {"tuner/": self.tuner} | {f"policy{slot}/": copy for slot, copy in enumerate(self.policies)}

    def restore(self, states: dict[str, dict[str, npt.NDArray[np.generic]]]) -> None:
        """Go on from the arrays of all `parts`."""
        self._forget()
        for name, part in self.parts().items():
            part.restore(states[name])

    def _forget(self) -> None:
        """Drop what was prepared from what had been learned."""
        self._prepared: PreparedPoints | None = None
        self._point_probabilities: list[float] = []

    def _points_for(self, round_: int, choice: Choice, explain: bool) -> tuple[PreparedPoints, int, Ints | slice]:
        """The points to score, the row of the choice among them, and the rows of the tuner's rivals to it."""
        policy = self.policy_of(choice)
        if not explain:
            rivals = self.tuner.rivals(choice)
            points = PreparedPoints(policy, round_, rivals or (choice.params,))
            return points, choice.index[0] if rivals else 0, slice(len(rivals))
        goes_on = (round_ - self.warmup) % self._period > 0
        if len(self.policies) > 1 or (goes_on and not choice.candidate_probabilities):
            return PreparedPoints(policy, round_, (choice.params,), greedy=True), 0, NO_ROWS
        return self._points_at(round_), *self._rows_of(choice)

    def _points_at(self, round_: int) -> PreparedPoints:
        """All points of the tuner, each also without exploration, prepared until something is learned."""
        if self._prepared is None or not (self._theory_ignores_round or self._prepared.round == round_):
            self._prepared = PreparedPoints(self.policies[0], round_, self.tuner.points, greedy=True)
        return self._prepared

    def _rows_of(self, choice: Choice) -> tuple[int, Ints]:
        """The places of a choice and of its rivals among the tuner's points."""
        found = self._rows.get(choice.index)
        if found is None:
            points = self.tuner.points
            rows = np.array([points.index(point) for point in self.tuner.rivals(choice)], dtype=np.int64)
            found = self._rows[choice.index] = points.index(choice.params), rows
        return found

    def _probabilities(self) -> list[float]:
        """The probability of each of the tuner's points."""
        if not self._point_probabilities:
            axes = [axis.tolist() for axis in self.tuner.probabilities()]
            self._point_probabilities = [math.prod(drawn) for drawn in product(*axes)]
        return self._point_probabilities

    def _points_of_copies(self) -> Sequence[Sequence[Params]]:
        """The points that each copy of the policy plays with."""
        points = self.tuner.points
        return [points] if self.tuner.slots == 1 else [(point,) for point in points]

    def _arms_of_points(self, arms: Arms, round_: int) -> Ints:
        played = []
        for policy, points in zip(self.policies, self._points_of_copies(), strict=True):
            params = PreparedPoints(policy, round_, points).params
            own = self._best(arms, self._score(policy, arms, params, round_))
            if own.min() < 0:
                self._refuse(arms, policy, params[int(own.argmin())])
            played.append(own)
        return np.concatenate(played)

    def _score(self, policy: Policy, arms: Arms, points: Sequence[Params], round_: int) -> Array:
        """The only place that asks a policy for scores: one draw serves all points of a period."""
        return policy.scores(arms, points, Stream(self.seed, POLICY, self._period_of(round_)))

    def _best(self, arms: Arms, scores: Array) -> Ints:
        """The arm that each row of scores plays; -1 if there is none to be played."""
        played = np.empty(len(scores), dtype=np.int64)
        best(played, scores, self._features(arms))
        return played

    def _period_of(self, round_: int) -> int:
        """The period of a round, which is the address of its draws."""
        return max(0, round_ - self.warmup) // self._period

    def _check(self, arms: npt.ArrayLike) -> Arms:
        if self.catalogue is None:
            return check_arms(arms, self.policies[0].dim)
        return check_numbers(arms, len(self.catalogue))

    def _features(self, arms: Arms) -> Array:
        """The features that came with these arms; those of the catalogue were checked when it was given."""
        return arms if self.catalogue is None else NO_FEATURES

    def _x(self, arms: Arms, arm: int) -> Array:
        x: Array = arms[arm] if self.catalogue is None else self.catalogue[arms[arm]]
        return x.copy()

    def _explore(self, arms: Arms, round_: int) -> Proposal:
        """A round of the warm-up: any arm, all equally likely."""
        check_features(self._features(arms))
        K = len(arms)
        arm = int(Stream(self.seed, WARMUP, round_).uniforms(1)[0] * K)
        params = self.policies[0].theory(round_, {})
        decision = Decision(self.id, round_, arm, self._x(arms, arm), 1 / K, params, None)
        return Proposal(decision, range(K), [1 / K] * K, np.zeros(K), np.zeros(K))

    def _decision(self, arms: Arms, round_: int, choice: Choice, params: Params, arm: int, rivals: Ints) -> Decision:
        """The decision for an arm, given the arms of the rivals."""
        if arm < 0:
            self._refuse(arms, self.policy_of(choice), params)
        p = choice.candidate_probabilities
        if p and len(rivals) > 1:
            agreeing = tuple((rivals == arm).nonzero()[0].tolist())
            choice = Choice(choice.params, choice.index, choice.probability, choice.slot, p, agreeing)
        propensity = self._propensity(round_, choice, len(arms))
        return Decision(self.id, round_, arm, self._x(arms, arm), propensity, params, choice)

    def _propensity(self, round_: int, choice: Choice, K: int) -> float | None:
        """The probability of the arm that a choice plays, where it is known without asking other points."""
        goes_on = (round_ - self.warmup) % self._period > 0
        if goes_on or K == 1 or len(self.tuner.points) == 1:
            return 1.0
        if choice.agreeing and len(choice.index) == 1:  # on one axis the candidates are all points
            return min(1.0, sum([choice.candidate_probabilities[j] for j in choice.agreeing]))
        return None

    def _refuse(self, arms: Arms, policy: Policy, params: Params) -> NoReturn:
        """Say why there is no arm to be played."""
        check_features(self._features(arms))
        raise InputError(f"{type(policy).__name__} must give finite scores; it did not with {dict(params)}")
