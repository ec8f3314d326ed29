"""What the passes are evidence for: ranks, significant wins and losses, regret to the supervised fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from pathlib import Path

import numpy as np

from syndicated._files import write_csv
from syndicated.datasets.classification import ClassificationSet
from syndicated.experiments.bakeoff._players import SUPERVISED
from syndicated.experiments.bakeoff._tasks import Pass, PassTask

LEVEL = 0.05  # of a significant difference


@dataclass(frozen=True)
class Score:
    """A player on a data set: mean reward of a round over all orders of the rows, and microseconds of a round."""

    rounds: int
    arms: int
    reward: float
    error: float  # the standard error over the orders; NaN of a single one
    microseconds: float


@dataclass(frozen=True)
class Board:
    """The scores by set and player."""

    sets: Sequence[ClassificationSet]
    scores: dict[str, dict[str, Score]]

    @property
    def players(self) -> list[str]:
        return list(dict.fromkeys(label for own in self.scores.values() for label in own))

    @property
    def everywhere(self) -> list[str]:
        """The bandits that played every set: the others are ranked among them."""
        played = [label for label in self.players if all(label in own for own in self.scores.values())]
        return [label for label in played if label != SUPERVISED]

    def only(self, sets: Sequence[ClassificationSet]) -> "Board":
        return Board(sets, {one.name: self.scores[one.name] for one in sets})

    def sets_of(self, player: str) -> list[str]:
        return [name for name, own in self.scores.items() if player in own]

    def rank(self, name: str, player: str) -> float:
        """1 and the number of others that earned more; half of those that earned the same."""
        own, mine = self.scores[name], self.scores[name][player].reward
        others = [own[label].reward for label in self.everywhere if label != player]
        return 1 + sum(other > mine for other in others) + sum(other == mine for other in others) / 2

    def mean_rank(self, player: str) -> float:
        return _mean([self.rank(name, player) for name in self.sets_of(player)])

    def wins_and_losses(self, player: str, other: str) -> tuple[int, int]:
        """On how many sets the player earned significantly more than the other, and on how many less."""
        verdicts = [
            significant(own[player].reward, own[other].reward, own[player].rounds)
            for own in self.scores.values()
            if player in own and other in own
        ]
        return verdicts.count(1), verdicts.count(-1)

    def regret(self, player: str) -> float:
        """The mean difference to the supervised fit, in rewards of a round."""
        return _mean(
            [
                own[SUPERVISED].reward - own[player].reward
                for own in self.scores.values()
                if SUPERVISED in own and player in own
            ]
        )

    def reward(self, player: str) -> float:
        return _mean([self.scores[name][player].reward for name in self.sets_of(player)])

    def microseconds(self, player: str) -> float:
        """The median over the sets."""
        return float(np.median([self.scores[name][player].microseconds for name in self.sets_of(player)]))


def significant(mine: float, other: float, rounds: int) -> int:
    """1 or -1 if the difference of two mean rewards of 0 and 1 is significant, otherwise 0.

    The test of Bietti, Agarwal and Langford: 1 - Phi(z) < 0.05 for
    z = (p - q) / sqrt(p (1 - p) / n + q (1 - q) / n).

    >>> significant(0.55, 0.45, 1000), significant(0.45, 0.55, 1000), significant(0.55, 0.45, 50)
    (1, -1, 0)
    """
    variance = (mine * (1 - mine) + other * (1 - other)) / rounds
    if mine == other:
        return 0
    z = abs(mine - other) / sqrt(variance) if variance > 0 else float("inf")
    return (1 if mine > other else -1) if upper_tail(z) < LEVEL else 0


def upper_tail(z: float) -> float:
    """1 - Phi(z) of the standard normal distribution."""
    return erfc(z / sqrt(2)) / 2


def gather(sets: Sequence[ClassificationSet], tasks: Sequence[PassTask], passes: Sequence[Pass]) -> Board:
    """The scores of all passes, means over the orders of the rows."""
    found: dict[str, dict[str, list[Pass]]] = {one.name: {} for one in sets}
    for task, own in zip(tasks, passes, strict=True):
        found[task.data].setdefault(task.player, []).append(own)
    return Board(sets, {name: {label: _score(own) for label, own in by.items()} for name, by in found.items()})


def _score(passes: Sequence[Pass]) -> Score:
    rewards = [own["reward"] / own["rounds"] for own in passes]
    error = float(np.std(rewards, ddof=1) / sqrt(len(rewards))) if len(rewards) > 1 else float("nan")
    micros = float(np.median([1e6 * own["seconds"] / own["rounds"] for own in passes]))
    return Score(passes[0]["rounds"], passes[0]["arms"], _mean(rewards), error, micros)


def write_rewards(file: Path, tasks: Sequence[PassTask], passes: Sequence[Pass]) -> None:
    """Write a row for each pass."""
    head = ["data", "player", "version", "seed", "rounds", "reward", "microseconds"]
    rows = [
        [t.data, t.player, t.version, t.seed, p["rounds"], p["reward"], f"{1e6 * p['seconds'] / p['rounds']:.1f}"]
        for t, p in zip(tasks, passes, strict=True)
    ]
    write_csv(file, head, rows)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
