"""Values as programs have them: what is missing, what is a number, what is a vector."""

import math
from array import array
from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np

from syndicated._missing import first_invalid
from syndicated._validation import MAX_MAGNITUDE, kernel_numbers, shorten
from syndicated.errors import InputError
from syndicated.types import Array


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, or what data frames have for it."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Number | np.datetime64) and bool(value != value)


def is_number(value: object) -> bool:
    """Whether a value is a number or a truth value, Python's or NumPy's."""
    return isinstance(value, Number | np.bool_) and not isinstance(value, complex | np.complexfloating)


def read_number(path: str, value: Any) -> float:
    """A number of any kind, NaN if it is missing; a truth value is 0 or 1."""
    if is_missing(value):
        return math.nan
    if not is_number(value):
        raise InputError(f"{path} must be a number; got {shorten(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= MAX_MAGNITUDE:
        raise InputError(f"{path} must be finite and at most {MAX_MAGNITUDE:g} in size; got {shorten(value)}")
    return number


def pack_plain(values: Any) -> Array | None:
    """A vector of numbers as an array, if all of them are valid and none is missing."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or values.dtype.kind not in "fiub":
            return None
        numbers = kernel_numbers(values)
    else:
        try:
            numbers = np.frombuffer(array("d", values))
        except (TypeError, ValueError, OverflowError):
            return None
    return numbers if len(numbers) and first_invalid(numbers.reshape(1, -1)) < 0 else None


def read_vector(path: str, given: Any, size: int | None = None) -> Array:
    """A list or an array of numbers, NaN where they are missing."""
    numbers = pack_plain(given) if isinstance(given, np.ndarray | list | tuple) else None
    if numbers is not None and size in (None, len(numbers)):
        return numbers
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, list | tuple) or not given or size not in (None, len(given)):
        must = "a list of numbers" if size is None else f"a list of {size} numbers"
        raise InputError(f"{path} must be {must}; got {shorten(given)}")
    return np.array([read_number(f"{path}[{j}]", value) for j, value in enumerate(given)])


def plain_value(value: Any) -> Any:
    """A value as JSON has it: arrays are lists, numbers are Python's, and what is missing is None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain_value(each) for name, each in value.items()}
    return None if is_missing(value) else value


def plain_row(given: Any) -> Any:
    """An object or a list out of what holds one row: a mapping, a row of a data frame, a named tuple, a vector."""
    if given is None or type(given) in (dict, list, np.ndarray):
        return given
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "_asdict"):
        return given._asdict()
    if hasattr(given, "to_dicts"):  # a data frame of polars, of which one row was cut out
        rows = given.to_dicts()
        return rows[0] if len(rows) == 1 else rows
    if hasattr(given, "to_dict"):
        return given.to_dict()
    return given.tolist() if hasattr(given, "tolist") else given
