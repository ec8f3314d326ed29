"""Tables of features, for programs that have NumPy. Nothing here imports it before somebody passes an array."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from syndicated_client._errors import InputError
from syndicated_client._validation import shorten

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
    Table = npt.NDArray[np.float64]
else:
    Array = Table = Sequence


def is_array(thing: object) -> TypeGuard["Array"]:
    """Whether it is an array of NumPy; who has not imported NumPy has none."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.ndarray)


def is_data_frame(thing: object) -> bool:
    """Whether it is a table of pandas or polars."""
    return type(thing).__name__ == "DataFrame" and hasattr(thing, "to_numpy")


def frame_arms(frame: Any) -> Any:
    """The arms of a data frame: objects with features if it has a column `id`, otherwise a table of numbers.

    What is missing is left out of the features.
    """
    if "id" not in frame.columns:
        return frame.to_numpy()
    rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_dict("records")  # polars, or pandas
    return [{"id": row.pop("id"), "features": {k: v for k, v in row.items() if not _is_missing(v)}} for row in rows]


def _is_missing(value: object) -> bool:
    """Whether it is None, NaN or what pandas has for it."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def check_table(arms: "Array") -> "Table":
    """The features of the arms as an array of floats with one row for each arm."""
    import numpy as np

    try:
        table = np.ascontiguousarray(arms, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the arms must be a table of numbers, one row an arm; got {shorten(arms)}") from None
    if table.ndim != 2 or len(table) == 0:
        dim = arms.shape[-1] if arms.ndim else 0
        raise InputError(f"the arms must have shape (K, {dim}) with K >= 1; got shape {table.shape}")
    return table


def join_body(head: Mapping[str, Any], arms: "Array") -> bytes:
    """The binary body of a request to decide: its head, with the shape of the table of arms, and the table.

    It is the length of the head (32 bits), the head as JSON, and the numbers of the table (32 bits each) row by row,
    all little-endian.
    """
    import numpy as np

    table = check_table(arms)
    with np.errstate(over="ignore"):
        numbers = table.astype("<f4")
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        arm, feature = bad[0]
        raise InputError(f"features must be finite; arm {arm}, feature {feature} is {numbers[arm, feature]:g}")
    text = json.dumps({**head, "shape": table.shape}, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + numbers.tobytes()
