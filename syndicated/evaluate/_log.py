"""Logs of decisions: JSON lines, of which two kinds matter.

    {"seq": 17, "bandit": "news", "kind": "decide", "place": 1, "X": [[...], [...]], "propensity": 0.25, ...}
    {"seq": 21, "bandit": "news", "kind": "reward", "ref": 17, "learn": 1.0, ...}

A line of any kind with `ref` and a number `learn` is the reward of decision `ref` of its bandit. Decisions count in the
order of `seq`, wherever their lines stand. Decisions made by someone else (see `by`) without randomisation say nothing
about the other arms and are left out. Other keys and other lines are ignored.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from syndicated._decided_by import BY_OTHERS
from syndicated._validation import MAX_MAGNITUDE, check_arms, check_count, check_features, check_number, shorten
from syndicated.errors import InputError
from syndicated.types import Array

MIN_PROPENSITY = 1e-12
LOG_ALL = '"log": "all"'  # in a bandit's spec: log the features of all arms with every decision
Key = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """One round of a log: the features of all arms, which was played, with what probability, and what it paid.

    `ids` are those of the arms, if they have some.
    """

    X: Array
    place: int
    propensity: float
    reward: float
    ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _table(self.X))
        object.__setattr__(self, "propensity", check_number("propensity", self.propensity, MIN_PROPENSITY, 1.0))
        object.__setattr__(self, "reward", check_number("reward", self.reward, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE))
        if check_count("place", self.place, low=0) >= len(self.X):
            raise InputError(f"place must be a row of X, from 0 to {len(self.X) - 1}; got {self.place}")
        if self.ids is not None and not _are_ids(self.ids, len(self.X)):
            raise InputError(f"ids must be {len(self.X)} different texts, one for each arm; got {shorten(self.ids)}")


@dataclass(frozen=True, eq=False)
class Log:
    """Rounds in the order in which they were decided, and how many were left out.

    >>> Log([Logged(np.eye(2), place=1, propensity=0.5, reward=1.0)]).dim
    2
    """

    rounds: Sequence[Logged]
    unrewarded: int = 0
    featureless: int = 0
    forced: int = 0

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InputError(f"a log must have decisions with X and a reward; it left out {self.left_out}")
        dims = sorted({each.X.shape[1] for each in self.rounds})
        if len(dims) > 1:
            raise InputError(f"a log must have as many features in all rounds; got {dims[0]} and {dims[-1]}")

    @property
    def left_out(self) -> str:
        """How many decisions were left out, and why."""
        parts = f"{self.unrewarded:,} without a reward", f"{self.featureless:,} without X"
        return ", ".join((*parts, f"{self.forced:,} not randomised"))

    @property
    def named(self) -> bool:
        """Whether all arms have ids."""
        return all(each.ids is not None for each in self.rounds)

    @property
    def dim(self) -> int:
        return int(self.rounds[0].X.shape[1])


def read_log(path: str | Path, bandit: str | None = None) -> Log:
    """The log of one bandit, which must be named if the file has several."""
    if not Path(path).exists():
        raise InputError(f"a log must be a file; there is no file {path}")
    names: set[str] = set()
    decisions: dict[Key, Logged | str] = {}
    rewards: dict[Key, float] = {}
    for where, line in _lines(Path(path)):
        name = str(line.get("bandit"))
        if line.get("kind") == "decide":
            names.add(name)
            if bandit in (None, name):
                key = name, _at(where, check_count, "seq", line.get("seq"), 0)
                if key in decisions:
                    raise InputError(f"{where}: a decision must be logged once; {key[1]} is logged twice")
                decisions[key] = _at(where, _decision, line)
        elif isinstance(line.get("ref"), int) and line.get("learn") is not None:
            key = name, line["ref"]
            if key in rewards:
                raise InputError(f"{where}: a decision must have one reward; {key[1]} has two")
            rewards[key] = _at(where, check_number, "learn", line["learn"], -MAX_MAGNITUDE, MAX_MAGNITUDE)
    _check_bandit(Path(path), names, bandit)
    return _join(decisions, rewards)


def _decision(line: dict[str, Any]) -> Logged | str:
    """The decision without its reward; or the name of the count in `Log` if it is left out."""
    if line.get("X") is None:
        return "featureless"
    if line.get("sparse"):
        raise InputError("the features of a log must be tables: sparse rows cannot be evaluated")
    line = {"place": None, "propensity": None, **line}  # what is missing is refused as null is
    logged = Logged(line["X"], line["place"], line["propensity"], 0.0)
    if _are_ids(line.get("arms"), len(logged.X)):  # in other logs the key may stand for something else
        logged = replace(logged, ids=tuple(line["arms"]))
    forced = line.get("by") in BY_OTHERS and logged.propensity == 1.0 and len(logged.X) > 1
    return "forced" if forced else logged


def _join(decisions: dict[Key, Logged | str], rewards: dict[Key, float]) -> Log:
    """Every decision with its reward, in order."""
    left = Counter(each for each in decisions.values() if isinstance(each, str))
    if left["featureless"] == len(decisions):
        raise InputError(f"a log must have the features of all arms, X; set {LOG_ALL} in the bandit's configuration")
    found = [(key, each) for key in sorted(decisions) if isinstance(each := decisions[key], Logged)]
    rounds = tuple(replace(each, reward=rewards[key]) for key, each in found if key in rewards)
    return Log(rounds, len(found) - len(rounds), left["featureless"], left["forced"])


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line that is not empty, with its number and file for error messages."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                where = f"line {number} of {path.name}"
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    line = None
                if not isinstance(line, dict):
                    raise InputError(f"{where}: every line must be a JSON object; got {shorten(text.strip())}")
                yield where, line


def _check_bandit(path: Path, there: set[str], wanted: str | None) -> None:
    """Refuse a log without decisions, without the wanted bandit, or with several bandits if none was named."""
    names = ", ".join(sorted(there))
    if not there:
        raise InputError(f'{path.name} must have decisions, lines with "kind": "decide"; got none')
    if wanted is not None and wanted not in there:
        raise InputError(f"{path.name} has the bandits {names}; got {wanted!r}")
    if wanted is None and len(there) > 1:
        raise InputError(f"{path.name} has the bandits {names}: one must be chosen (--bandit)")


def _at(where: str, check: Callable[..., T], *arguments: Any) -> T:
    """The result of a check; its error names the line."""
    try:
        return check(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _table(X: npt.ArrayLike) -> Array:
    """A checked table of features of any width."""
    try:
        shape = np.shape(X)
    except ValueError:
        shape = ()
    table = check_arms(X, max(1, shape[1]) if len(shape) == 2 else 1)
    check_features(table)
    return table


def _are_ids(given: Any, count: int) -> bool:
    """Whether these are ids of so many arms."""
    right = isinstance(given, list | tuple) and all(isinstance(id_, str) for id_ in given)
    return right and len(given) == len(set(given)) == count
