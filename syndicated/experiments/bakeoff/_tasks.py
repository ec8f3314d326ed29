"""The tasks of a bake-off: one pass of one player over the rows of one data set, in an order that the seed gives."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict

import numpy as np

from syndicated._validation import check_count
from syndicated.datasets.classification import ClassificationSet, Rows, find_sets, load
from syndicated.errors import InputError, TaskError
from syndicated.experiments._experiment import RESULTS_VERSION
from syndicated.experiments.bakeoff._peers import Peers, play_peer
from syndicated.experiments.bakeoff._players import PLAYERS, Stage, feasible
from syndicated.experiments.bakeoff.peer_worker import play
from syndicated.types import Array

BAKEOFF_VERSION = 1  # raise it when the players of other libraries, the references or the rows change
MAX_ROWS = 2_000
REPEATS = 3
FIRST_SEED = 1
WARM_UP = 20  # rows that are played before the time is taken: the first calls in a process load compiled code


class Pass(TypedDict):
    """What is kept of a task: how many rounds and arms, the sum of the rewards, and the seconds of all rounds."""

    rounds: int
    arms: int
    reward: float
    seconds: float


@dataclass(frozen=True)
class PassTask:
    """One player, one set, one order of its rows. `version` and `python` are of another library."""

    data: str
    player: str
    max_rows: int
    seed: int
    version: str = ""
    python: str = ""

    @property
    def key(self) -> str:
        """Equal for tasks with equal rewards; where the other library is installed does not matter."""
        of = self.version or f"results {RESULTS_VERSION}"
        sha256 = find_sets([self.data])[0].sha256
        what = [BAKEOFF_VERSION, of, self.data, sha256, self.player, self.max_rows, self.seed]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:24]

    def __str__(self) -> str:
        return f"{self.player} on {self.data}, seed {self.seed}"


@dataclass(frozen=True)
class BakeOff:
    """Which players play which sets, how many rows at most, how many orders of the rows."""

    sets: Sequence[ClassificationSet]
    players: Sequence[str]
    peers: Peers
    max_rows: int = MAX_ROWS
    repeats: int = REPEATS
    seed: int = FIRST_SEED

    def __post_init__(self) -> None:
        check_count("rows", self.max_rows)
        check_count("repeats", self.repeats)
        check_count("seed", self.seed, low=0)
        unknown = [label for label in self.players if label not in self.labels]
        if unknown:
            raise InputError(f"a player must be one of {', '.join(self.labels)}; got {unknown[0]!r}")

    @property
    def labels(self) -> list[str]:
        """Who may play: the players here, and those of the libraries that are installed."""
        return [*PLAYERS, *self.peers.players]

    def tasks(self) -> list[PassTask]:
        """Of all sets and players; the first order of the rows comes first."""
        fits = [(one, label) for one in self.sets for label in self.players or self.labels if self._fits(one, label)]
        return [self._task(one, label, self.seed + i) for i in range(self.repeats) for one, label in fits]

    def _fits(self, one: ClassificationSet, label: str) -> bool:
        rows = _rows(one.name)
        return feasible(label, rows.x.shape[1], len(rows.classes))

    def _task(self, one: ClassificationSet, label: str, seed: int) -> PassTask:
        version = self.peers.players.get(label, "")
        return PassTask(one.name, label, self.max_rows, seed, version, self.peers.python if version else "")


@lru_cache(maxsize=64)
def _rows(name: str) -> Rows:
    """The rows of a set, with mean 0 and deviation 1 in every column that is not of 0 and 1."""
    rows = load(find_sets([name])[0])
    return rows._replace(x=standardised(rows.x))


def standardised(x: Array) -> Array:
    """Columns of numbers in units of their deviation around their mean; columns of 0 and 1 as they are."""
    numbers = ~np.isin(x, (0.0, 1.0)).all(axis=0)
    deviations = x.std(axis=0)
    scaled = (x - x.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    return np.where(numbers, scaled, x)


def run_pass(task: PassTask) -> Pass:
    """What the player earned; a failure names the task."""
    rows = _rows(task.data)
    arms = len(rows.classes)
    order = np.random.default_rng(task.seed).permutation(len(rows.labels))[: task.max_rows]
    x, labels = rows.x[order], rows.labels[order]
    try:
        if task.version:
            outcome = play_peer(task.python, task.player, task.seed, x, labels, arms)
        else:
            stage, make = Stage(x.shape[1], arms, task.seed, labels), PLAYERS[task.player].make
            play(make(stage), x[:WARM_UP], labels[:WARM_UP])
            outcome = play(make(stage), x, labels)
    except Exception as error:
        raise TaskError(f"{task} failed: {type(error).__name__}: {error}") from error
    return Pass(rounds=len(labels), arms=arms, reward=float(sum(outcome["rewards"])), seconds=outcome["seconds"])
