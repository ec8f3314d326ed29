"""Data frames, of whatever library: columns by their names in, pandas or polars out. Neither has to be installed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from syndicated._validation import shorten
from syndicated.errors import InputError, MissingExtraError

LIBRARIES = ("pandas", "polars")


def frame_of(columns: Mapping[str, Sequence[Any]], library: str | None = None) -> Any:
    """A data frame of these columns: of the library that is named, else of pandas, or of polars if only that is there.

    >>> frame_of({"arm": ["tea", "milk"], "reward": [1.0, 0.0]}, "pandas")["arm"].tolist()
    ['tea', 'milk']
    """
    if library not in (None, *LIBRARIES):
        raise InputError(f"library must be one of {', '.join(LIBRARIES)}; got {shorten(library)}")
    for name in LIBRARIES if library is None else (library,):
        if find_spec(name):
            return import_module(name).DataFrame(dict(columns))
    raise MissingExtraError(f"a data frame needs {library or 'pandas or polars'}: pip install 'syndicated[frames]'")


def columns_of(frame: Any) -> dict[str, list[Any]]:
    """The columns of a data frame (pandas, polars, Arrow) or of a mapping to lists, as plain values.

    >>> columns_of({"arm": ["tea"], "reward": np.ones(1)})
    {'arm': ['tea'], 'reward': [1.0]}
    """
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    if names is None and isinstance(frame, Mapping):
        names = frame.keys()
    if names is None:
        raise InputError(f"a table must be a data frame or a mapping from names to columns; got {shorten(frame)}")
    columns = {str(name): np.asarray(frame[name]).tolist() for name in names}
    if len({len(values) for values in columns.values()}) > 1:
        raise InputError("the columns of a table must have the same length; got different ones")
    return columns
