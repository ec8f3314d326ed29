"""The model of rewards of doubly robust estimates: what an arm would have paid, from the rounds before."""

import numpy as np

from syndicated._arm_book import ArmBook
from syndicated.policies import ArmUCB, LinUCB
from syndicated.types import ArmRows, Array, NamedArms

LINEAR_POINT = {"boldness": 1.0}  # evidence chooses the penalty


class RewardModel:
    """A regression on the arms' features; of named arms, which may have none, one for each and one for all."""

    def __init__(self, dim: int) -> None:
        self._linear, self._book = LinUCB(dim=dim), ArmBook()
        self._own = ArmUCB(dim=dim, models="hybrid", link="linear")  # no prior level: clicks may be rare
        self._linear.prepare([LINEAR_POINT])
        self._low = self._high = self._count = 0.0

    def predict(self, arms: Array | NamedArms, round_: int) -> Array:
        """The reward of every arm, within the range of those that were seen: two rounds alone may suggest anything."""
        if isinstance(arms, NamedArms):
            guesses = self._own.predict(ArmRows(arms.x, self._book.find(arms.ids)), {})
        else:
            guesses = self._linear.predict(arms, self._linear.theory(round_, LINEAR_POINT))
        return np.clip(guesses, self._low, self._high)

    def learn(self, arms: Array | NamedArms, place: int, reward: float, round_: int) -> None:
        if isinstance(arms, NamedArms):
            self._own.learn_arm(self._book.give(arms.ids[place]), arms.x[place], reward, {})
        else:
            self._linear.learn(arms[place], reward, self._linear.theory(round_, LINEAR_POINT))
        self._low = min(self._low, reward) if self._count else reward
        self._high = max(self._high, reward) if self._count else reward
        self._count += 1
