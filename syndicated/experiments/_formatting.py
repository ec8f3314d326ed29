"""Facts about a run as text: versions, times, specs and tables."""

import platform
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from syndicated.spec import Spec


def versions() -> dict[str, str]:
    """The versions that the numbers were computed with."""
    return {
        "syndicated": version("syndicated"),
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "numba": version("numba"),
    }


def time_text(seconds: float) -> str:
    """Seconds as text.

    >>> time_text(4.25), time_text(754)
    ('4.2 s', '12 min 34 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if seconds >= 60 else f"{seconds:.1f} s"


def spec_text(spec: Spec) -> str:
    """A spec on one line.

    >>> spec_text({"name": "TwoLayer", "space": {"alpha": [0, 1]}, "horizon": 10})
    'TwoLayer(alpha in {0, 1}, horizon=10)'
    """
    said = []
    for name, value in spec.items():
        if name == "space":
            said += [f"{axis} in {{{', '.join(f'{each:g}' for each in values)}}}" for axis, values in value.items()]
        elif name != "name":
            said.append(f"{name}={f'{value:.4g}' if isinstance(value, float) else value}")
    return f"{spec['name']}({', '.join(said)})"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    r"""A table whose first `texts` columns are text and the others numbers.

    >>> print(table(["who", "how much"], [["a|b", "1"]]), end="")
    | who | how much |
    |---|---:|
    | a\|b | 1 |
    """
    rules = ["---" if place < texts else "---:" for place in range(len(headings))]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (headings, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rules)}|", *lines[1:]]) + "\n"
