"""Checks of arguments. Public functions call them first; the code that they call trusts what it is given."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from syndicated.errors import InputError
from syndicated.types import Array, Ints

MAX_MAGNITUDE = 1e50  # of features and rewards: their squares, summed over any number of rounds, stay finite
MAX_SHOWN = 60  # characters of a value in a message
MAX_LOOKED_AT = 1000  # of a text in it, which may be spaces that become one


def kernel_numbers(X: npt.ArrayLike) -> Array:
    """As kernels take them: contiguous floats, copied if they may only be read."""
    numbers = np.ascontiguousarray(X, dtype=np.float64)
    return numbers if numbers.flags.writeable else numbers.copy()


def check_arms(X: npt.ArrayLike, dim: int) -> Array:
    """The arms' features as a contiguous (K, dim) array of floats; `check_features` is separate, for speed."""
    try:
        arms = kernel_numbers(X)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the arms must be a table of numbers, one row an arm; got {shorten(X)}") from None
    if arms.ndim != 2 or arms.shape[1] != dim or arms.shape[0] == 0:
        raise InputError(f"the arms must have shape (K, {dim}) with K >= 1; got shape {arms.shape}")
    return arms


def check_numbers(arms: npt.ArrayLike, count: int) -> Ints:
    """The arms' numbers in a catalogue of `count`, as an array of whole numbers."""
    try:
        numbers = np.asarray(arms)
    except ValueError:
        numbers = np.zeros(0)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) == 0:
        raise InputError(f"the arms must be a list of numbers of the catalogue; got {shorten(arms)}")
    if numbers.min() < 0 or numbers.max() >= count:
        raise InputError(f"the arms must be numbers from 0 to {count - 1}, the catalogue's; got {shorten(arms)}")
    return np.ascontiguousarray(numbers, dtype=np.int64)


def check_features(X: Array, place: str = "feature") -> None:
    """Refuse NaN, infinity and values whose squared sums would overflow, naming the arm and the place in its row."""
    bad = np.argwhere(~(np.abs(X) <= MAX_MAGNITUDE))
    if len(bad):
        arm, feature = bad[0]
        value = X[arm, feature]
        must = f"at most {MAX_MAGNITUDE:g} in size" if np.isfinite(value) else "finite"
        raise InputError(f"features must be {must}; arm {arm}, {place} {feature} is {value:g}")


def check_number(what: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number within [low, high], as a float."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be a number; got {shorten(value)}") from None
    if not (low <= number <= high) or not math.isfinite(number):
        bounds = "finite" if low == -math.inf else f"at least {low:g}"
        bounds = bounds if high == math.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{what} must be {bounds}; got {number}")
    return number


def check_each(what: str, values: Sequence[object], low: float, high: float) -> Array:
    """`check_number` of each of the values."""
    try:
        numbers = np.array([float(value) for value in values])  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        numbers = np.full(len(values), np.nan)
    if ((low <= numbers) & (numbers <= high)).all():
        return numbers
    return np.array([check_number(what, value, low, high) for value in values])


def check_count(what: str, value: object, low: int = 1) -> int:
    """A whole number of at least `low` that 64 bits can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(f"{what} must be a whole number of at least {low}; got {shorten(value)}")
    if value >= 2**63:
        raise InputError(f"{what} must be less than 2^63; got {shorten(value)}")
    return int(value)


def check_range(what: str, value: object) -> tuple[float, float]:
    """Two finite numbers, the first less than the second."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(f"{what} must be (low, high); got {shorten(value)}")
    low, high = (check_number(f"an end of {what}", end) for end in value)
    if not high - low > 1e-100:
        raise InputError(f"{what} must be (low, high) with low < high; got {shorten(value)}")
    return value if isinstance(value, tuple) and all(type(end) is float for end in value) else (low, high)


def check_flag(what: str, value: object) -> bool:
    """The value, if it is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{what} must be True or False; got {shorten(value)}")
    return value


def check_parts(owner: str, without: Sequence[str], parts: Sequence[str]) -> None:
    """Refuse to leave out what is no part of the owner."""
    if isinstance(without, str) or not set(without) <= set(parts):
        must = f"must be a list of some of {', '.join(parts)}" if parts else "must be empty"
        raise InputError(f"without {must} for {owner}; got {shorten(without)}")


def shorten(value: object) -> str:
    """A value as text that fits into a one-line message. Of one of megabytes no more is made text than that takes."""
    text = shown = ""
    for part in _text_of(value):
        text += part
        shown = " ".join(text.split())
        if len(shown) > MAX_SHOWN:
            return shown[: MAX_SHOWN - 3] + "..."
    return shown


def _text_of(value: object) -> Iterator[str]:
    """The `repr` of a value in parts, of which a text that is longer than what is shown has only its beginning."""
    if type(value) is dict:
        yield "{"
        for k, (key, item) in enumerate(value.items()):
            yield ", " * (k > 0)
            yield from _text_of(key)
            yield ": "
            yield from _text_of(item)
        yield "}"
    elif type(value) is list or type(value) is tuple:
        yield "[" if type(value) is list else "("
        for k, item in enumerate(value):
            yield ", " * (k > 0)
            yield from _text_of(item)
        yield "]" if type(value) is list else ",)" if len(value) == 1 else ")"
    elif type(value) is str or type(value) is bytes:
        yield repr(value[:MAX_LOOKED_AT])
    else:
        yield repr(value)
