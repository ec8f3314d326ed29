"""Logs as tables with a row for each decision: data frames, CSV and Parquet."""

import csv
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from syndicated._extras import extra
from syndicated._frames import columns_of
from syndicated._validation import check_arms, shorten
from syndicated.errors import InputError
from syndicated.evaluate._log import Log, Logged
from syndicated.features._values import is_missing
from syndicated.types import Array


def read_csv(path: Path) -> dict[str, list[Any]]:
    """The columns of a CSV file; what looks like a number is one."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        raise InputError(f"{path.name} must have a line with the names of its columns; it is empty")
    names, body = rows[0], [row for row in rows[1:] if row]
    for number, row in enumerate(body, start=2):
        if len(row) != len(names):
            raise InputError(f"row {number} of {path.name} must have {len(names)} cells; got {len(row)}")
    return {name: [_cell(row[k]) for row in body] for k, name in enumerate(names)}


def read_parquet(path: Path) -> dict[str, list[Any]]:
    """The columns of a Parquet file."""
    with extra("parquet", "a Parquet file"):
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    try:
        table = parquet.read_table(path)
    except arrow.ArrowException as error:
        raise InputError(f"{path.name} must be a Parquet file; {error}") from None
    return {name: table[name].to_pylist() for name in table.column_names}


def log_from_frame(
    frame: Any,
    *,
    arm: str = "arm",
    reward: str = "reward",
    propensity: str = "propensity",
    position: str | None = None,
    context: Sequence[str] = (),
    arms: Sequence[Any] | Mapping[Any, Sequence[float]] | None = None,
) -> Log:
    """The log of a table: a data frame of pandas, polars or Arrow, or a mapping from names to columns.

    A row is a decision: the id of the arm that was played, its reward and its propensity, in the columns that are
    named. `position` is the column of the place in a slate, if several arms were shown at once. The columns of the
    `context` are numbers, or texts, of which every one but the first gets a column of its own; where a number is
    missing, `X` has the mean of the others. `arms` are the ids of all arms that could have been played, by default
    those that were, or a mapping from ids to their features.

    >>> table = {"arm": ["tea", "milk"], "reward": [1, 0], "propensity": [0.5, 0.5], "age": [31, 27]}
    >>> log = log_from_frame(table, context=["age"])
    >>> log.rounds[0].ids, log.rounds[0].X.tolist()
    (('milk', 'tea'), [[31.0], [31.0]])
    """
    columns = {name: _with_missing_as_none(values) for name, values in columns_of(frame).items()}
    used = [arm, reward, propensity, *([] if position is None else [position]), *context]
    missing = [name for name in used if name not in columns]
    if missing:
        must = f"a table must have the columns {', '.join(used)}, or others that are named"
        raise InputError(f"{must}, as in reward='click'; it has {shorten(list(columns))}")
    if None in columns[arm]:
        raise InputError(f"row {columns[arm].index(None)}: {arm} must be the arm that was played; it is missing")
    played = [_id(value) for value in columns[arm]]
    ids = tuple(_id(value) for value in (arms if arms is not None else _in_order(set(columns[arm]))))
    features = [check_arms([row], len(row))[0] for row in arms.values()] if isinstance(arms, Mapping) else []
    rows, places = (
        _context_rows([columns[name] for name in context], len(played)),
        {id_: k for k, id_ in enumerate(ids)},
    )
    levels = {} if position is None else {value: k for k, value in enumerate(_in_order(set(columns[position])))}
    rounds, unrewarded = [], 0
    for k, id_ in enumerate(played):
        if columns[reward][k] is None:
            unrewarded += 1
            continue
        if id_ not in places:
            raise InputError(f"row {k}: {arm} must be one of the arms; got {shorten(id_)}")
        try:
            rounds.append(
                Logged(
                    _table(rows[k], features, len(ids)),
                    places[id_],
                    columns[propensity][k],
                    columns[reward][k],
                    ids,
                    None if position is None else levels[columns[position][k]],
                    {name: columns[name][k] for name in context},
                )
            )
        except InputError as error:
            raise InputError(f"row {k}: {error}") from None
    return Log(rounds, unrewarded, unused=[name for name in columns if name and name not in used])


def _table(context: Array, features: Sequence[Array], count: int) -> Array:
    """The rows of all arms in a context. Where arms have no features it is one row, seen as many times."""
    if features:
        return np.array([np.concatenate([context, own]) for own in features])
    return np.broadcast_to(context if len(context) else np.ones(1), (count, max(1, len(context))))


def _context_rows(columns: Sequence[list[Any]], count: int) -> Array:
    """Numbers as they are, the mean of the others where one is missing; of texts a column for each but the first."""
    parts = [np.empty((count, 0))]
    for values in columns:
        known = [value for value in values if value is not None]
        if all(isinstance(value, int | float) for value in known):
            mean = float(np.mean(known)) if known else 0.0
            parts.append(np.array([mean if value is None else value for value in values], dtype=np.float64)[:, None])
        else:
            texts = np.array(["" if value is None else _id(value) for value in values])
            parts.append((texts[:, None] == np.unique(texts)[None, 1:]).astype(np.float64))
    return np.hstack(parts)


def _in_order(values: set[Any]) -> list[Any]:
    """Numbers by their size, anything else as texts."""
    if all(isinstance(value, int | float) for value in values):
        return sorted(values)
    return sorted(values, key=str)


def _id(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _with_missing_as_none(values: list[Any]) -> list[Any]:
    return [None if is_missing(value) or value == "" else value for value in values]


def _cell(text: str) -> Any:
    """A cell of a CSV file: a number if it is one, None if it is empty."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None
