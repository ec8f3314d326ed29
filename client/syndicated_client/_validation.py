"""Checks of arguments, before anything is sent."""

import math
import operator

from syndicated_client._errors import InputError


def check_number(what: str, value: object, low: float = -math.inf) -> float:
    """A finite number of at least `low`, as a float."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be a number; got {shorten(value)}") from None
    if number < low or not math.isfinite(number):
        bounds = "finite" if low == -math.inf else f"at least {low:g}"
        raise InputError(f"{what} must be {bounds}; got {number}")
    return number


def check_count(what: str, value: object, low: int = 1) -> int:
    """A whole number of at least `low`."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < low:
        raise InputError(f"{what} must be a whole number of at least {low}; got {shorten(value)}")
    return number


def shorten(value: object) -> str:
    """A value as text that fits into a one-line message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
