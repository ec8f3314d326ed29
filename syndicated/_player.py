"""The player: copies of a policy and a tuner, joined. It proposes decisions and learns rewards, and keeps no count.

An `Agent` is a player that counts its rounds and knows which decisions still wait for a reward. The service, which
keeps both in its log, the evaluation, which plays what a log has played, and experiments use the player itself.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import count, product
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from syndicated._argmax import best_in_tables, best_of, chance_of, explain, explain_tables, largest
from syndicated._arm_book import ArmBook
from syndicated._catalogue import Catalogue
from syndicated._learner import Learner
from syndicated._missing import ColumnMeans, first_invalid
from syndicated._sparse import check_rows
from syndicated._validation import check_arms, check_features, check_numbers, kernel_numbers, shorten
from syndicated.arm_sets import ArmSet
from syndicated.errors import InputError
from syndicated.policies import Policy
from syndicated.policies.base import NO_FEATURES, ArmPolicy
from syndicated.streams import POLICY, TUNER, WARMUP, Stream
from syndicated.tuners import Tuner
from syndicated.types import (
    ArmId,
    ArmRows,
    Arms,
    Array,
    Choice,
    Decision,
    Ints,
    NamedArms,
    NamedRounds,
    Params,
    PlayedRounds,
)

NO_SCORES: Array = np.empty(0)
NO_ARMS: Ints = np.empty(0, dtype=np.int64)
NO_ROWS = slice(0)
TOP_ARMS = 3  # arms that a decision is explained by
# What a policy is asked to score: points with theory filled in; the rows of the choice, of the points that the tuner
# compares it with, and of the choice without exploration.
AskedPoints = tuple[Sequence[Params], int, Ints | slice, int]


class Proposal(NamedTuple):
    """A decision, and if it was asked to explain itself, what the other candidates would have played.

    `played` has the arm of every point that the tuner could have drawn, and `probabilities` how likely each was, given
    the policy's own draw; where a choice lasts several rounds, it is the only one after the first. `table` has the
    scores of every arm for all points that were asked for: those of the choice are at `row`, and without exploration at
    `greedy_row`.
    """

    decision: Decision
    played: Ints = NO_ARMS
    probabilities: Array = NO_SCORES
    table: Array = NO_SCORES
    row: int = 0
    greedy_row: int = 0
    reasons: Sequence[Sequence[float]] = ()

    def why(self, arm: int) -> Sequence[Sequence[float]]:
        """Why an arm is played, as `_argmax.explain` has it; of the decision's own it may be at hand."""
        if self.reasons and arm == self.decision.place:
            return self.reasons
        out = np.empty((1 + min(TOP_ARMS, self.table.shape[1]), 3))
        explain(out, self.table, self.row, self.greedy_row, self.played, self.probabilities, arm)
        reasons: list[list[float]] = out.tolist()
        return reasons

    @property
    def scores(self) -> Array:
        """The score of every arm."""
        scores: Array = self.table[self.row]
        return scores

    def chance(self, arm: int) -> float:
        """The probability of an arm."""
        return chance_of(self.played, self.probabilities, arm)

    @property
    def chances(self) -> Array:
        """The probability of every arm."""
        return np.asarray(np.bincount(self.played, self.probabilities, len(self.scores)), dtype=np.float64)


Replayed = tuple[Ints, Choice]  # the arm that was played in each round, and the last choice


class PreparedPoints:
    """Points with theory filled in as of a round, then the same without exploration, at `greedy_rows`."""

    def __init__(self, policy: Policy, round_: int, points: Sequence[Params]) -> None:
        self.round = round_
        filled = [policy.theory(round_, point) for point in points]
        greedy = [{**params, **dict.fromkeys(policy.exploring, 0.0)} for params in filled]
        keys = [tuple(sorted(params.items())) for params in greedy]
        different = dict(zip(keys, greedy, strict=True))  # points that differ in their exploration only share one
        rows = {key: len(filled) + row for row, key in enumerate(different)}
        self.params: tuple[Params, ...] = (*filled, *different.values())
        self.greedy_rows = [rows[key] for key in keys]


class Player:
    """A policy and a tuner at play, with the seed of their draws.

    Arms are rows of features, numbers of the catalogue, or `NamedArms`. Of named arms every copy of a policy that keeps
    a model for each has a book, and all of them share the means of their columns.

    What is proposed depends only on what was learned, on the round and on the last choice. So rounds may be proposed in
    any order, or twice.
    """

    def __init__(self, policy: Policy, tuner: Tuner, seed: int, catalogue: npt.ArrayLike | None, id_: str) -> None:
        self.id, self.seed = id_, seed
        self.salt = 0  # of players of one agent in several processes, which may play the same round, each has its own
        self._check_table = check_rows if policy.sparse else check_arms
        self.catalogue: Array | None = None
        if catalogue is not None:
            self.catalogue = self._check_table(catalogue, policy.dim).copy()
            check_features(self.catalogue)
        self.numbered = None if self.catalogue is None else Catalogue(self.catalogue)
        self.tuner = tuner.fresh()
        for point in self.tuner.points:
            policy.check(point)
        self.policies = [policy] * self.tuner.slots
        self.books, self.means = [ArmBook() for _ in self.policies], ColumnMeans()
        for slot in range(len(self.policies)):
            self._replace(slot, None)
        self.warmup = max(policy.warmup, self.tuner.warmup_rounds)
        self._policy_period = policy.period  # of the policy's own draws
        self._period = policy.period * self.tuner.period  # of a choice
        self._has_periods = self.warmup > 0 or self._period > 1  # if not, a round is a period
        self._theory_ignores_round = all(policy.theory_ignores_round(point) for point in self.tuner.points)
        # Whether arms of many rounds can be scored at once: see `propose_many`.
        self.scores_together = (
            type(policy).scores_many is not Policy.scores_many
            and len(self.policies) == 1
            and not self._has_periods
            and self._theory_ignores_round
            and catalogue is None
        )
        kind = type(self.tuner)  # of a tuner that has no say in which copy of the policy learns
        self._one_policy = len(self.policies) == 1 and (kind.frozen, kind.replaced) == (Tuner.frozen, Tuner.replaced)
        self._one_point = len(self.tuner.points) == 1
        self._only = self.tuner.points if self._one_point else ()  # one tuple, which policies know again
        self._untuned = self._one_point and not self.tuner.draws  # so that the tuner has nothing to choose or to learn
        self._nothing_drawn = self._untuned and not self._has_periods
        self._only_choice = self.tuner.choose(Stream(seed, TUNER)) if self._nothing_drawn else Choice({})
        self._plain_rows = self.catalogue is None and not policy.sparse  # where arms have no ids
        self._in_batches = self._nothing_drawn and self._theory_ignores_round and self._plain_rows
        self._rows: dict[tuple[int, ...], tuple[int, Ints]] = {}
        self._prepared: PreparedPoints | None = None  # like the next, until something is learned
        self._point_probabilities: Array | None = None

    def decide(self, given: npt.ArrayLike | NamedArms | ArmSet, round_: int, last: Choice) -> Decision:
        """The decision of a round, `last` being the choice before it. Changes nothing."""
        if isinstance(given, ArmSet):
            return self._decide_in(given, round_, last)
        arms = self.check(given)
        if round_ < self.warmup:
            return self._explore(arms, round_).decision
        if self._nothing_drawn:
            return self._play_only_point(arms, round_)
        return self.play(arms, round_, self._choice(round_, last))

    def _play_only_point(self, arms: Arms | NamedArms, round_: int) -> Decision:
        """`play` with the only point there is, without asking the tuner for it in every round."""
        policy, choice = self.policies[0], self._only_choice
        rows = self._rows_for(0, arms) if isinstance(arms, NamedArms) else arms
        arm = policy.best(rows, self._only, round_, Stream(self.seed ^ self.salt, POLICY, round_))[0]
        params = policy.theory(round_, choice.params)
        if arm < 0:
            self._refuse(arms, policy, params)
        if self._plain_rows and rows is arms:
            return Decision(self.id, round_, arm, arms[arm].copy(), 1.0, params, choice)
        x, place = self._x(arms, arm), self._place(arms, arm)
        return Decision(self.id, round_, place, x, 1.0, params, choice, _name(arms, arm))

    def _decide_in(self, arms: ArmSet, round_: int, last: Choice) -> Decision:
        """The decision of a round whose arms are an arm set: the arm is its `x`, and its place is 0."""
        self._check_set(arms)
        if round_ < self.warmup:
            x = arms.draw(Stream(self.seed ^ self.salt, WARMUP, round_))
            return Decision(self.id, round_, 0, x, None, self.policies[0].theory(round_, {}), None)
        choice = self._choice(round_, last)
        rivals = self.tuner.rivals(choice)
        found = self._best_in(choice.slot, arms, rivals or (choice.params,), round_)
        x = found[choice.index[0] if rivals else 0]
        same = [0 if np.array_equal(row, x) else -1 for row in found]
        params = self.policies[choice.slot].theory(round_, choice.params)
        return self._decision(x[None], round_, choice, params, 0, same, self._choice_is_certain(round_))

    def _best_in(self, slot: int, arms: ArmSet, points: Sequence[Params], round_: int) -> Array:
        """The arm of a set that each point plays with this copy of the policy."""
        return self.policies[slot].best_in(arms, points, round_, self._stream(round_))

    def _check_set(self, arms: ArmSet) -> None:
        if self.catalogue is not None:
            raise InputError(f"an agent with a catalogue takes its numbers; got {shorten(arms)}")
        if arms.dim != self.policies[0].dim:
            raise InputError(f"the arm set must have dim={self.policies[0].dim}, the policy's; got {shorten(arms)}")

    def play(self, arms: Arms | NamedArms, round_: int, choice: Choice) -> Decision:
        """The decision of a round with this choice, after the warm-up: the arm of the best score."""
        policy, rivals = self.policies[choice.slot], self.tuner.rivals(choice)
        played = self._best(choice.slot, arms, rivals or self._only or (choice.params,), round_)
        arm = played[choice.index[0] if rivals else 0]
        params, certain = policy.theory(round_, choice.params), self._certain(arms, round_)
        return self._decision(arms, round_, choice, params, arm, played, certain)

    def decide_many(self, given: Sequence[Any] | Array, round_: int, last: Choice) -> list[Decision]:
        """The decisions of rounds from this one on, nothing being learned between them. Changes nothing."""
        if isinstance(given, np.ndarray) and given.ndim == 3 and self._in_batches:
            return self._decide_tables(given, round_)
        if isinstance(given, NamedRounds) and self._in_batches and isinstance(self.policies[0], ArmPolicy):
            return self._decide_named(given, self.policies[0], round_)
        decisions: list[Decision] = []
        for n, arms in enumerate(given):
            decision = self.decide(arms, round_ + n, last)
            last = decision.choice or last
            decisions.append(decision)
        return decisions

    def _decide_tables(self, given: Array, round_: int) -> list[Decision]:
        """The decisions of a tuner that draws nothing, of tables that are alike."""
        choice = self._only_choice
        tables, policy = kernel_numbers(given), self.policies[0]
        params = policy.theory(round_, choice.params)
        arms = policy.best_many(tables, choice.params, round_, self._stream)
        if min(arms) < 0:
            self._refuse(tables[arms.index(min(arms))], policy, params)
        id_, rows = self.id, tables[np.arange(len(tables)), arms]
        played = zip(count(round_), arms, rows)
        return [Decision(id_, t, arm, x, 1.0, params, choice) for t, arm, x in played]

    def _decide_named(self, given: NamedRounds, policy: ArmPolicy, round_: int) -> list[Decision]:
        """The decisions of a tuner that draws nothing, of arms that bring nothing but their ids."""
        choice, id_, ids = self._only_choice, self.id, given.ids
        params = policy.theory(round_, choice.params)
        arms = policy.best_alike(given.x, self.books[0].find(ids), choice.params, round_, self._stream)
        if min(arms) < 0:
            self._refuse(given[arms.index(min(arms))], policy, params)
        played = zip(count(round_), arms, given.x)
        return [Decision(id_, t, arm, x, 1.0, params, choice, ids[arm]) for t, arm, x in played]

    def replay(self, given: Any, places: Ints, rewards: Array, round_: int, last: Choice) -> Replayed:
        """Play rounds from this one on, and learn the reward of those in which the arm is the one that was played."""
        played, done = np.empty(len(given), dtype=np.int64), 0
        self._prepared = self._point_probabilities = None
        while done < len(given):
            more = self._replay_on(given, places, rewards, round_, played, done) if self._in_batches else 0
            if not more:
                decision, more = self.decide(given[done], round_ + done, last), 1
                last, played[done] = decision.choice or last, decision.place
                if decision.place == places[done]:
                    self.learn(decision, float(rewards[done]))
            done += more
        return played, last

    def _replay_on(self, given: Any, places: Ints, rewards: Array, round_: int, played: Ints, done: int) -> int:
        """Go on with a replay as far as the policy has a compiled form of it; how many rounds."""
        policy, log = self.policies[0], (places[done:], rewards[done:], self._only[0])
        if isinstance(given, np.ndarray) and given.ndim == 3:
            return policy.replay(given[done:], *log, round_ + done, played[done:])
        if not isinstance(given, NamedRounds) or not isinstance(policy, ArmPolicy):
            return 0
        X, numbers, rng = given.x[done:], self.books[0].find(given.ids), self._stream(round_ + done)
        more = policy.replay_alike(X, numbers, *log, rng, played[done:])
        self.means.learn_many(X[:more][played[done : done + more] == places[done : done + more]])
        return more

    def decide_slate(self, given: npt.ArrayLike | NamedArms, round_: int, last: Choice, k: int) -> list[Decision]:
        """The k best arms by the choice of a round, each a decision of its own from this round on. Changes nothing.

        An arm's propensity is the probability that it is on the slate; rivals that have it on theirs agree.
        """
        arms = self.check(given)
        if k > len(arms):
            raise InputError(f"k must be at most the number of arms, {len(arms)}; got {k}")
        if round_ < self.warmup:
            return self._explore_slate(arms, round_, k)
        choice = self._choice(round_, last)
        policy, rivals = self.policies[choice.slot], self.tuner.rivals(choice)
        points = [policy.theory(round_, point) for point in rivals or (choice.params,)]
        scores, played = self._score(choice.slot, arms, points, round_)
        if played.min() < 0:
            self._refuse(arms, policy, points[int(played.argmin())])
        slates = np.empty((len(points), k), dtype=np.int64)
        for slate, own in zip(slates, scores, strict=True):
            largest(slate, own)
        row = choice.index[0] if rivals else 0
        certain = self._certain(arms, round_) or k == len(arms)
        return [
            self._decision(
                arms, round_ + i, choice, points[row], arm, [arm if arm in s else -1 for s in slates], certain
            )
            for i, arm in enumerate(slates[row].tolist())
        ]

    def _explore_slate(self, arms: Arms | NamedArms, round_: int, k: int) -> list[Decision]:
        """k different arms in a round of the warm-up, all equally likely."""
        check_features(self._features(arms))
        draws, left = Stream(self.seed ^ self.salt, WARMUP, round_).uniforms(k).tolist(), list(range(len(arms)))
        slate = [left.pop(int(draw * len(left))) for draw in draws]
        return [self._explored(arms, round_ + i, arm, k / len(arms)) for i, arm in enumerate(slate)]

    def propose(
        self, given: npt.ArrayLike | NamedArms, round_: int, last: Choice, *, explain: bool = False
    ) -> Proposal:
        """What `decide` gives, and if it is to be explained, what the other candidates would have played."""
        if not explain:
            return Proposal(self.decide(given, round_, last))
        arms = self.check(given)
        if round_ < self.warmup:
            return self._explore(arms, round_)
        choice = self._choice(round_, last)
        goes_on = choice is last and self._goes_on(round_)
        policy = self.policies[choice.slot]
        params, row, rivals, greedy_row = self._points_to_explain(policy, round_, choice, goes_on)
        scores, played = self._score(choice.slot, arms, params, round_)
        agreeing = played[rivals].tolist() if choice.candidate_probabilities else []
        certain = self._certain(arms, round_)
        decision = self._decision(arms, round_, choice, params[row], int(played[row]), agreeing, certain)
        if goes_on:
            return Proposal(decision, played[row : row + 1], np.ones(1), scores, row, greedy_row)
        likely = self._likely(choice)
        would = played[: len(likely)] if len(self.policies) == 1 else self._arms_of_points(arms, round_)
        return Proposal(decision, would, likely, scores, row, greedy_row)

    def propose_many(self, given: Sequence[Any], round_: int) -> list[Proposal]:
        """`propose`, explained, for rounds from this one on, nothing being learned between them.

        For players that `scores_together`: all tables are scored, and all choices drawn, in a few compiled calls.
        """
        arms, points = [self.check(each) for each in given], self._points_at(round_)
        rows = [self._rows_for(0, each) for each in arms]
        ends, P = np.cumsum([len(each) for each in arms]), len(points.params)
        scores = self.policies[0].scores_many(rows, points.params, self._stream(round_))
        # As `_features`: those of a table may be invalid, which the scores will show. All others were checked.
        tables = [each for each in arms if not isinstance(each, NamedArms)]
        features = np.concatenate(tables) if tables else np.empty((ends[-1], 0))
        played = np.empty((len(arms), P), dtype=np.int64)
        best_in_tables(played, scores, ends, features)
        choices = self._choices(round_, len(arms))
        asked = [self._rows_of(choice) for choice in choices]
        own, greedy = [row for row, _ in asked], [points.greedy_rows[row] for row, _ in asked]
        likely, reasons = self._likely(choices[0]), np.empty((len(arms), 1 + TOP_ARMS, 3))
        explain_tables(reasons, scores, ends, played, np.array(own), np.array(greedy), likely)
        places, would = played[np.arange(len(arms)), own].tolist(), played[:, : len(likely)]
        proposals: list[Proposal] = []
        end = 0
        for n, (table, choice, why) in enumerate(zip(arms, choices, reasons.tolist(), strict=True)):
            row, rivals = asked[n]
            agreeing = played[n][rivals].tolist() if choice.candidate_probabilities else []
            certain = self._certain(table, round_ + n)
            decision = self._decision(table, round_ + n, choice, points.params[row], places[n], agreeing, certain)
            start, end = end, end + P * len(table)
            seen = scores[start:end].reshape(P, -1)
            proposals.append(Proposal(decision, would[n], likely, seen, row, greedy[n], why[: 1 + len(table)]))
        return proposals

    def _choices(self, round_: int, rounds: int) -> list[Choice]:
        """The choices of rounds from this one on, each a period of its own."""
        if self._nothing_drawn:
            return [self._only_choice] * rounds
        return self.tuner.choose_many(Stream(self.seed ^ self.salt, TUNER, round_), rounds)

    def _goes_on(self, round_: int) -> bool:
        """Whether the choice of the round before is that of this one too."""
        return (round_ - self.warmup) % self._period > 0

    def _choice(self, round_: int, last: Choice) -> Choice:
        """The choice of a round after the warm-up: a new one at the start of a period."""
        if self._nothing_drawn:
            return self._only_choice
        period, goes_on = divmod(round_ - self.warmup, self._period) if self._has_periods else (round_, 0)
        # Of several processes none may have played the first round of a period: then there is no choice to go on with.
        return last if goes_on and last.params else self.tuner.choose(Stream(self.seed ^ self.salt, TUNER, period))

    def _decision(
        self,
        arms: Arms | NamedArms,
        round_: int,
        choice: Choice,
        params: Params,
        arm: int,
        rivals: list[int],
        certain: bool,
    ) -> Decision:
        """The decision to play an arm, the rivals of whose choice play these."""
        if arm < 0:
            self._refuse(arms, self.policies[choice.slot], params)
        shared = None
        if choice.candidate_probabilities and len(rivals) > 1:
            choice, shared = _with_agreeing(choice, rivals, arm)
        x, name, propensity = self._x(arms, arm), _name(arms, arm), 1.0 if certain else shared
        return Decision(self.id, round_, self._place(arms, arm), x, propensity, params, choice, name)

    def _certain(self, arms: Arms | NamedArms, round_: int) -> bool:
        """Whether nothing is left to chance but the policy's own draw."""
        return len(arms) == 1 or self._choice_is_certain(round_)

    def _choice_is_certain(self, round_: int) -> bool:
        return self._one_point or (self._has_periods and self._goes_on(round_))

    def learn(self, decision: Decision, reward: float) -> None:
        """Learn the reward of a decision. The caller makes sure that it is this player's, and has not been learned."""
        self._learn(decision.x, reward, decision.params, decision.choice, decision.name)

    def _learn(self, x: Array, reward: float, params: Params, choice: Choice | None, name: ArmId | None) -> None:
        self._prepared = self._point_probabilities = None
        if choice is None:
            for slot in range(len(self.policies)):
                self._teach(slot, x, reward, params, name)
        elif not self.tuner.frozen(choice.slot):
            self._teach(choice.slot, x, reward, params, name)
        if name is not None and x.ndim == 1:
            self.means.learn(x)
        if choice is not None and not self._untuned:
            reward = self.policies[choice.slot].usual(reward)
            self.tuner.learn(choice, reward, 1.0 if choice.agreeing else 1 / self._period)
            for slot, source in self.tuner.replaced().items():
                self._replace(slot, source)

    def learn_many(self, played: PlayedRounds, rewards: Array) -> None:
        """`learn` one after the other."""
        X, params, choices, names = played
        if not isinstance(X, np.ndarray) or not self._learns_together(choices, names):
            for x, reward, given, choice, name in zip(X, rewards.tolist(), params, choices, names, strict=True):
                self._learn(x, reward, given, choice, name)
            return
        self._prepared = self._point_probabilities = None
        policy, ids = self.policies[0], [name for name in names if name is not None]
        if isinstance(policy, ArmPolicy) and ids:
            policy.learn_arms(np.array([self.books[0].give(id_) for id_ in ids]), X, rewards, params)
        else:
            policy.learn_many(X, rewards, params)
        if ids:
            self.means.learn_many(X)
        if not self._untuned:
            drawn = [choice for choice in choices if choice is not None]
            shares = [1.0 if choice.agreeing else 1 / self._period for choice in drawn]
            self.tuner.learn_many(drawn, rewards, np.array(shares))

    def _learns_together(self, choices: Sequence[Choice | None], names: Sequence[ArmId | None]) -> bool:
        """Whether the policy can learn a table of rows, and then the tuner."""
        if not self._one_policy or not self._plain_rows or len({name is None for name in names}) != 1:
            return False
        return self._untuned or not (self.policies[0].cuts_outliers or any(choice is None for choice in choices))

    def retire(self, id_: ArmId) -> None:
        """Forget the model of an arm. A reward that comes later makes it a new one."""
        self._prepared = None
        for policy, book in zip(self.policies, self.books, strict=True):
            number = book.retire(id_)
            if number is not None and isinstance(policy, ArmPolicy):
                policy.retire_arm(number)

    def add_numbered(self, arms: Any) -> None:
        """Add rows to the catalogue, or give known numbers other rows."""
        assert self.numbered is not None
        count, by_number = len(self.numbered.rows), isinstance(arms, Mapping)
        rows = self.check_table(list(arms.values()) if by_number else arms)
        check_features(rows)
        if rows.ndim != self.numbered.rows.ndim:
            raise InputError(f"the rows of a catalogue must be all sparse, or none of them; got shape {rows.shape}")
        numbers = check_numbers(list(arms), count) if by_number else np.arange(count, count + len(rows))
        self.numbered.put(numbers, rows)
        self.catalogue = self.numbered.rows
        for policy in self.policies:
            policy.update_catalogue(self.catalogue, numbers)

    def check(self, arms: Any) -> Arms | NamedArms:
        """Arms as they are scored: features that are valid, with means in place of missing numbers.

        None stands for all arms of the catalogue.
        """
        if isinstance(arms, NamedArms):
            return self._check_named(arms)
        return self.check_table(arms) if self.numbered is None else self.numbered.check(arms)

    def arms_of_points(self, arms: npt.ArrayLike | NamedArms | ArmSet, round_: int) -> Ints | Array:
        """The arm that each of the tuner's points would play in this round, given the policy's own draw.

        Its place, or of an arm set its features.
        """
        if isinstance(arms, ArmSet):
            self._check_set(arms)
            copies = enumerate(self._points_of_copies())
            return np.concatenate([self._best_in(slot, arms, points, round_) for slot, points in copies])
        return self._arms_of_points(self.check(arms), round_)

    def policy_of(self, choice: Choice) -> Policy:
        """The copy of the policy that plays with this choice."""
        return self.policies[choice.slot]

    def draws(self, round_: int) -> Stream:
        """What the tuner draws the choice of a round after the warm-up from."""
        return Stream(self.seed ^ self.salt, TUNER, (round_ - self.warmup) // self._period)

    def check_table(self, X: npt.ArrayLike) -> Array:
        """Features as the policy takes them: a table, or sparse rows too."""
        return self._check_table(X, self.policies[0].dim)

    def parts(self) -> dict[str, Learner]:
        """Everything that learns, by the name that it has in a state."""
        return {"tuner/": self.tuner} | {f"policy{slot}/": copy for slot, copy in enumerate(self.policies)}

    def restore(self, states: dict[str, dict[str, npt.NDArray[np.generic]]]) -> None:
        """Go on from the arrays of all `parts`."""
        self._prepared = self._point_probabilities = None
        for name, part in self.parts().items():
            part.restore(states[name])

    def _teach(self, slot: int, x: Array, reward: float, params: Params, name: ArmId | None) -> None:
        policy = self.policies[slot]
        if name is None or not isinstance(policy, ArmPolicy):
            policy.learn(x, reward, params)
        else:
            policy.learn_arm(self.books[slot].give(name), x, reward, params)

    def _replace(self, slot: int, source: int | None) -> None:
        """Put a copy of another slot's policy, or a new one, in a slot, with what is known of arms."""
        if source is None:
            self.policies[slot] = self.policies[slot].fresh()
            self.policies[slot].prepare(self._points_of_copies()[slot], self.catalogue)
            self.books[slot] = ArmBook()
        else:
            self.policies[slot].restore(self.policies[source].state())
            self.books[slot] = ArmBook.from_dict(self.books[source].as_dict())

    def _points_to_explain(self, policy: Policy, round_: int, choice: Choice, goes_on: bool) -> AskedPoints:
        """All points that could have been drawn, each also without exploration; of several copies the own one's."""
        if len(self.policies) > 1 or (goes_on and not choice.candidate_probabilities):
            points = PreparedPoints(policy, round_, (choice.params,))
            return points.params, 0, NO_ROWS, points.greedy_rows[0]
        points, (row, rivals) = self._points_at(round_), self._rows_of(choice)
        return points.params, row, rivals, points.greedy_rows[row]

    def _points_at(self, round_: int) -> PreparedPoints:
        """All points of the tuner, each also without exploration, prepared until something is learned."""
        if self._prepared is None or not (self._theory_ignores_round or self._prepared.round == round_):
            self._prepared = PreparedPoints(self.policies[0], round_, self.tuner.points)
        return self._prepared

    def _rows_of(self, choice: Choice) -> tuple[int, Ints]:
        """The places of a choice and of its rivals among the tuner's points."""
        found = self._rows.get(choice.index)
        if found is None:
            points = self.tuner.points
            rows = np.array([points.index(point) for point in self.tuner.rivals(choice)], dtype=np.int64)
            found = self._rows[choice.index] = points.index(choice.params), rows
        return found

    def _likely(self, choice: Choice) -> Array:
        """The probability of each of the tuner's points, when this choice was made."""
        known = choice.candidate_probabilities if len(choice.index) == 1 else ()
        return np.array(known) if known else self._probabilities()

    def _probabilities(self) -> Array:
        """The probability of each of the tuner's points, now."""
        if self._point_probabilities is None:
            axes = [axis.tolist() for axis in self.tuner.probabilities()]
            self._point_probabilities = np.array([math.prod(drawn) for drawn in product(*axes)])
        return self._point_probabilities

    def _points_of_copies(self) -> Sequence[Sequence[Params]]:
        """The points that each copy of the policy plays with."""
        points = self.tuner.points
        return [points] if self.tuner.slots == 1 else [(point,) for point in points]

    def _arms_of_points(self, arms: Arms | NamedArms, round_: int) -> Ints:
        arms_of_copies: list[int] = []
        for slot, points in enumerate(self._points_of_copies()):
            played, policy = self._best(slot, arms, points, round_), self.policies[slot]
            if min(played) < 0:
                self._refuse(arms, policy, policy.theory(round_, points[played.index(-1)]))
            arms_of_copies += played
        return np.array(arms_of_copies, dtype=np.int64)

    def _best(self, slot: int, arms: Arms | NamedArms, points: Sequence[Params], round_: int) -> list[int]:
        """The arm that each point plays with this copy of the policy; -1 if there is none to be played."""
        rows = self._rows_for(slot, arms) if isinstance(arms, NamedArms) else arms
        return self.policies[slot].best(rows, points, round_, self._stream(round_))

    def _score(self, slot: int, arms: Arms | NamedArms, params: Sequence[Params], round_: int) -> tuple[Array, Ints]:
        """The scores of all arms for each point, and the arm that each plays; -1 if there is none to be played."""
        scores = self.policies[slot].scores(self._rows_for(slot, arms), params, self._stream(round_))
        return scores, best_of(scores, self._features(arms))

    def _stream(self, round_: int) -> Stream:
        """What the policy draws from in a round. One draw serves all points and all rounds of its period."""
        period = max(0, round_ - self.warmup) // self._policy_period if self._has_periods else round_
        return Stream(self.seed ^ self.salt, POLICY, period)

    def _rows_for(self, slot: int, arms: Arms | NamedArms) -> Any:
        """Arms as a policy takes them: those with ids come with the numbers of their models, if it has any."""
        if not isinstance(arms, NamedArms):
            return arms
        keeps_models = isinstance(self.policies[slot], ArmPolicy)
        return ArmRows(arms.x, self.books[slot].find(arms.ids)) if keeps_models else arms.x

    def _check_named(self, arms: NamedArms) -> NamedArms:
        """Arms with ids, their missing numbers filled in; rows of any width for a policy that grows with them."""
        if arms.complete:
            return arms
        policy, X = self.policies[0], arms.x
        X = check_arms(X, X.shape[-1]) if isinstance(policy, ArmPolicy) else self.check_table(X)
        if len(X) != len(arms.ids):
            raise InputError(f"the arms must have one row for each of {len(arms.ids)} ids; got {len(X)}")
        if X.ndim == 2 and first_invalid(X) >= 0:
            X = self.means.fill(X)
            check_features(X)
        return NamedArms(arms.ids, X, X.ndim == 2)

    def _features(self, arms: Arms | NamedArms) -> Array:
        """Features that may be invalid: those of a table, which the scores will show. All others were checked."""
        return NO_FEATURES if isinstance(arms, NamedArms) or arms.ndim != 2 else arms

    def _x(self, arms: Arms | NamedArms, arm: int) -> Array:
        rows = arms.x if isinstance(arms, NamedArms) else arms
        x: Array = rows[arm] if self.catalogue is None else self.catalogue[rows[arm]]
        return np.ascontiguousarray(x[:, x[1] != 0.0]) if x.ndim == 2 else x.copy()  # entries, without what fills up

    def _place(self, arms: Arms | NamedArms, arm: int) -> int:
        """The place among the arms that were given; where none were, the number in the catalogue."""
        return arm if self.numbered is None or arms is not self.numbered.live else int(self.numbered.live[arm])

    def _explore(self, arms: Arms | NamedArms, round_: int) -> Proposal:
        """A round of the warm-up: any arm, all equally likely."""
        check_features(self._features(arms))
        K = len(arms)
        arm = int(Stream(self.seed ^ self.salt, WARMUP, round_).uniforms(1)[0] * K)
        decision = self._explored(arms, round_, arm, 1 / K)
        return Proposal(decision, np.arange(K), np.full(K, 1 / K), np.zeros((1, K)))

    def _explored(self, arms: Arms | NamedArms, round_: int, arm: int, propensity: float) -> Decision:
        params = self.policies[0].theory(round_, {})
        x, place = self._x(arms, arm), self._place(arms, arm)
        return Decision(self.id, round_, place, x, propensity, params, None, _name(arms, arm))

    def _refuse(self, arms: Arms | NamedArms, policy: Policy, params: Params) -> NoReturn:
        """Say why there is no arm to be played."""
        check_features(self._features(arms))
        raise InputError(f"{type(policy).__name__} must give finite scores; it did not with {dict(params)}")


def _name(arms: Arms | NamedArms, arm: int) -> ArmId | None:
    return arms.ids[arm] if isinstance(arms, NamedArms) else None


def _with_agreeing(choice: Choice, rivals: list[int], arm: int) -> tuple[Choice, float | None]:
    """The choice with the rivals that play the same arm, and the arm's probability if on one axis they are all."""
    p, agreeing, shared = choice.candidate_probabilities, [], 0.0
    for j, played in enumerate(rivals):
        if played == arm:
            agreeing.append(j)
            shared += p[j]
    joined = Choice(choice.params, choice.index, choice.probability, choice.slot, p, tuple(agreeing))
    return joined, min(1.0, shared) if len(choice.index) == 1 else None
