"""Logs in files: JSON lines, CSV and Parquet.

Of JSON lines two kinds matter, and those without a kind, which are whole rounds in the order of their lines:

    {"seq": 17, "bandit": "news", "kind": "decide", "place": 1, "X": [[...], [...]], "propensity": 0.25, ...}
    {"seq": 21, "bandit": "news", "kind": "reward", "ref": 17, "learn": 1.0, ...}

    {"place": 1, "X": [[...], [...]], "propensity": 0.25, "reward": 1.0}

A line of any kind with `ref` and a number `learn` is the reward of decision `ref` of its bandit. Decisions count in the
order of `seq`, wherever their lines stand. Decisions made by someone else (see `by`) without randomisation say nothing
about the other arms and are left out. Other keys, and lines of other kinds, are ignored.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from syndicated._decided_by import BY_OTHERS
from syndicated._validation import MAX_MAGNITUDE, check_count, check_number, shorten
from syndicated.errors import InputError
from syndicated.evaluate._log import Log, Logged, are_ids
from syndicated.evaluate._tables import log_from_frame, read_csv, read_parquet

LOG_ALL = '"log": "all"'  # in a bandit's spec: log the features of all arms with every decision
EXPORTED = {"seq", "kind", "ref", "learn"}  # the columns of an exported log, as no other table has them
JSON_COLUMNS = ("X", "arms")  # of an exported log in Parquet
Key = tuple[str, int]
Line = tuple[int, dict[str, Any]]  # with its number
T = TypeVar("T")


def read_log(path: str | Path, bandit: str | None = None, **columns: Any) -> Log:
    """The log in a file: JSON lines or Parquet as the service exports them, or a table in CSV or Parquet.

    Of an export it is the log of one bandit, which must be named if the file has several. What the columns of a table
    are is said as for `log_from_frame`.
    """
    file = Path(path)
    if not file.exists():
        raise InputError(f"a log must be a file; there is no file {path}")
    kind = file.suffix.lower()
    table = read_csv(file) if kind == ".csv" else read_parquet(file) if kind == ".parquet" else None
    if table is not None and not table.keys() >= EXPORTED:
        if bandit is not None:
            raise InputError(f"a table has no bandits to choose from; got {bandit!r}")
        return log_from_frame(table, **columns)
    if columns:
        raise InputError(f"{file.name} is no table whose columns could be named; got {shorten(columns)}")
    return _read_lines(file, _lines(file) if table is None else _rows(table), bandit)


def _read_lines(file: Path, lines: Iterable[Line], bandit: str | None) -> Log:
    """The log of one bandit among the lines of a file."""
    names: set[str] = set()
    decisions: dict[Key, Logged | str] = {}
    rewards: dict[Key, float] = {}
    for number, line in lines:
        where, name = f"line {number} of {file.name}", str(line.get("bandit"))
        whole = "kind" not in line and "ref" not in line
        if whole or line.get("kind") == "decide":
            names.add(name)
            if bandit not in (None, name):
                continue
            key = name, number if whole else _at(where, check_count, "seq", line.get("seq"), 0)
            if key in decisions:
                raise InputError(f"{where}: a decision must be logged once; {key[1]} is logged twice")
            if whole:
                _check_whole(where, line)
            decisions[key], reward = _at(where, _decision, line), line.get("reward") if whole else None
        else:
            key, reward = (name, line.get("ref", 0)), line.get("learn") if isinstance(line.get("ref"), int) else None
        if reward is not None:
            if key in rewards:
                raise InputError(f"{where}: a decision must have one reward; {key[1]} has two")
            what = "reward" if whole else "learn"
            rewards[key] = _at(where, check_number, what, reward, -MAX_MAGNITUDE, MAX_MAGNITUDE)
    _check_bandit(file, names, bandit)
    return _join(decisions, rewards)


def _check_whole(where: str, line: dict[str, Any]) -> None:
    """Refuse a line without a kind that is not a whole round: it must not be ignored without a word."""
    missing = [key for key in ("X", "place", "propensity", "reward") if key not in line]
    if missing:
        must = 'a line must have a "kind", or be a round with X, place, propensity and reward'
        raise InputError(f"{where}: {must}; there is no {', '.join(missing)} in {shorten(line)}")


def _decision(line: dict[str, Any]) -> Logged | str:
    """The decision without its reward; or the name of the count in `Log` if it is left out."""
    if line.get("X") is None:
        return "featureless"
    if line.get("sparse"):
        raise InputError("the features of a log must be tables: sparse rows cannot be evaluated")
    line = {"place": None, "propensity": None, **line}  # what is missing is refused as null is
    logged = Logged(line["X"], line["place"], line["propensity"], 0.0, position=line.get("position"))
    if are_ids(line.get("arms"), len(logged.X)):  # in other logs the key may stand for something else
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


def _lines(path: Path) -> Iterator[Line]:
    """Every line that is not empty, with its number."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    line = None
                if not isinstance(line, dict):
                    must = f"line {number} of {path.name}: every line must be a JSON object"
                    raise InputError(f"{must}; got {shorten(text.strip())}")
                yield number, line


def _rows(table: Mapping[str, Sequence[Any]]) -> Iterator[Line]:
    """The rows of an exported table as lines."""
    for number, values in enumerate(zip(*table.values(), strict=True), start=1):
        line = dict(zip(table, values, strict=True))
        texts = {name: line.get(name) for name in JSON_COLUMNS}
        yield number, line | {name: text and json.loads(text) for name, text in texts.items()}


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
