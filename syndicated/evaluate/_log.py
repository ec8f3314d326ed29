"""Logs of decisions: rounds with the features of all arms, which was played, how likely that was, and what it paid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated._frames import frame_of
from syndicated._validation import MAX_MAGNITUDE, check_arms, check_count, check_features, check_number, shorten
from syndicated.errors import InputError
from syndicated.types import Array

MIN_PROPENSITY = 1e-12
MAX_NAMED = 5  # columns that were not used and are named


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """One round of a log: the features of all arms, which was played, with what probability, and what it paid.

    `ids` are those of the arms, if they have some. `position` is that of the arm in a slate, from 0, if several arms
    are shown at once and each is a round of its own. `context` is what an agent of `Agent.for_arms` reads.
    """

    X: Array
    place: int
    propensity: float
    reward: float
    ids: tuple[str, ...] | None = None
    position: int | None = None
    context: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _table(self.X))
        object.__setattr__(self, "propensity", check_number("propensity", self.propensity, MIN_PROPENSITY, 1.0))
        object.__setattr__(self, "reward", check_number("reward", self.reward, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE))
        if check_count("place", self.place, low=0) >= len(self.X):
            raise InputError(f"place must be a row of X, from 0 to {len(self.X) - 1}; got {self.place}")
        if self.ids is not None and not are_ids(self.ids, len(self.X)):
            raise InputError(f"ids must be {len(self.X)} different texts, one for each arm; got {shorten(self.ids)}")
        if self.position is not None:
            check_count("position", self.position, low=0)


@dataclass(frozen=True, eq=False)
class Log:
    """Rounds in the order in which they were decided, how many were left out, and the columns that were not used.

    >>> Log([Logged(np.eye(2), place=1, propensity=0.5, reward=1.0)]).dim
    2
    """

    rounds: Sequence[Logged]
    unrewarded: int = 0
    featureless: int = 0
    forced: int = 0
    unused: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InputError(f"a log must have decisions with X and a reward; it left out {self.left_out}")
        dims = sorted({each.X.shape[1] for each in self.rounds})
        if len(dims) > 1:
            raise InputError(f"a log must have as many features in all rounds; got {dims[0]} and {dims[-1]}")

    def __repr__(self) -> str:
        arms = sorted({len(each.X) for each in self.rounds})
        counts = f"{arms[0]}" if len(arms) == 1 else f"{arms[0]} to {arms[-1]}"
        mean = sum(each.reward for each in self.rounds) / len(self.rounds)
        return f"<Log: {len(self.rounds):,} rounds, {counts} arms, {self.dim} features, mean reward {mean:.4g}>"

    @property
    def left_out(self) -> str:
        """How many decisions were left out, and why."""
        parts = f"{self.unrewarded:,} without a reward", f"{self.featureless:,} without X"
        more = f" and {len(self.unused) - MAX_NAMED} more" if len(self.unused) > MAX_NAMED else ""
        unused = f", the columns {', '.join(self.unused[:MAX_NAMED])}{more}" if self.unused else ""
        return ", ".join((*parts, f"{self.forced:,} not randomised")) + unused

    @property
    def named(self) -> bool:
        """Whether all arms have ids."""
        return all(each.ids is not None for each in self.rounds)

    @property
    def dim(self) -> int:
        return int(self.rounds[0].X.shape[1])

    @property
    def contexts_only(self) -> bool:
        """Whether all arms of a round have the same row, as those of a table have: only their ids tell them apart."""
        return self.named and all(each.X.strides[0] == 0 for each in self.rounds)

    def at_position(self, position: int) -> "Log":
        """The rounds of one position of a slate."""
        found = [each for each in self.rounds if each.position == position]
        if not found:
            known = sorted({each.position for each in self.rounds if each.position is not None})
            raise InputError(f"position must be one of the log's, {known}; got {shorten(position)}")
        return replace(self, rounds=found)

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame of pandas or polars with a row for each round."""
        named = self.named
        columns: dict[str, list[Any]] = {
            "arm": [each.ids[each.place] if named and each.ids else each.place for each in self.rounds],
            "reward": [each.reward for each in self.rounds],
            "propensity": [each.propensity for each in self.rounds],
            "arms": [len(each.X) for each in self.rounds],
        }
        if any(each.position is not None for each in self.rounds):
            columns["position"] = [each.position for each in self.rounds]
        return frame_of(columns, library)


def are_ids(given: Any, count: int) -> bool:
    """Whether these are ids of so many arms."""
    right = isinstance(given, list | tuple) and all(isinstance(id_, str) for id_ in given)
    return right and len(given) == len(set(given)) == count


def _table(X: npt.ArrayLike) -> Array:
    """A checked table of features of any width. Rows that are all the same may be one row seen several times."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2 and X.size and X.strides[0] == 0:
        check_features(X[:1])
        return X
    try:
        shape = np.shape(X)
    except ValueError:
        shape = ()
    table = check_arms(X, max(1, shape[1]) if len(shape) == 2 else 1)
    check_features(table)
    return table
