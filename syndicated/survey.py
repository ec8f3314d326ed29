"""What can be seen of a decision: all points asked at once, the arms they would play, and how likely each was."""

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from syndicated._compiled import compiled
from syndicated._validation import MAX_MAGNITUDE
from syndicated.policies import Policy
from syndicated.tuners import Tuner
from syndicated.types import Array, Decision, Ints, Params


class Survey(NamedTuple):
    """A proposed decision, and what was seen on the way.

    The arms that the tuner's points would play and how likely each point was (given the policy's own draw, and what a
    choice that goes on has decided already); for each arm its score, and what of the score is exploration.
    """

    decision: Decision
    played: Sequence[int]
    odds: Sequence[float]
    scores: Array
    bonus: Array

    def chance(self, arm: int) -> float:
        """The probability of an arm."""
        return min(1.0, sum([p for played, p in zip(self.played, self.odds, strict=True) if played == arm]))

    @property
    def chances(self) -> Array:
        """The probability of every arm."""
        return np.asarray(np.bincount(self.played, self.odds, len(self.scores)), dtype=np.float64)


class Panel:
    """Points put to a policy, each also without exploration; what is asked stays until something is learned."""

    def __init__(self, policy: Policy, round_: int, points: Sequence[Params]) -> None:
        self.round = round_
        filled = [policy.theory(round_, point) for point in points]
        plain = [{**params, **dict.fromkeys(policy.exploring, 0.0)} for params in filled]
        keys = [tuple(sorted(params.items())) for params in plain]
        different = dict(zip(keys, plain, strict=True))
        places = {key: len(filled) + place for place, key in enumerate(different)}
        self.asked: tuple[Params, ...] = (*filled, *different.values())
        self.greedy = [places[key] for key in keys]
        self._odds: list[float] = []

    def odds(self, tuner: Tuner) -> list[float]:
        """The probability of every point."""
        if not self._odds:
            axes = [axis.tolist() for axis in tuner.probabilities()]
            self._odds = [math.prod(drawn) for drawn in product(*axes)]
        return self._odds


@compiled("void(i8[::1], f8[:,::1], f8[:,::1])")
def best(out: Ints, scores: Array, arms: Array) -> None:
    """The place of each row's largest score, the first of equals; -1 if a score is not finite or that arm is huge.

    A feature that is not finite makes its arm's score so; this spares a pass over all features.
    """
    for row in range(len(scores)):
        arm = 0
        nothing = 0.0
        for a in range(scores.shape[1]):
            nothing += 0.0 * scores[row, a]
            if scores[row, a] > scores[row, arm]:
                arm = a
        out[row] = arm if nothing == 0.0 else -1
        for i in range(arms.shape[1]):
            if abs(arms[arm, i]) > MAX_MAGNITUDE:
                out[row] = -1


@compiled("i8[::1](f8[::1], f8[::1], i8)")
def leaders(scores: Array, bonus: Array, count: int) -> Ints:
    """The arm of the largest score without its bonus, and those of the largest scores, the first of equals."""
    found = np.zeros(1 + min(count, len(scores)), dtype=np.int64)
    for a in range(len(scores)):
        if scores[a] - bonus[a] > scores[found[0]] - bonus[found[0]]:
            found[0] = a
        place = min(a + 1, len(found))
        while place > 1 and scores[a] > scores[found[place - 1]]:
            if place < len(found):
                found[place] = found[place - 1]
            place -= 1
        if place < len(found):
            found[place] = a
    return found
