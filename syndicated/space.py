"""The candidates for each hyper-parameter."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import product

from syndicated._html import html_table
from syndicated._learner import Parameters
from syndicated._validation import check_number, shorten
from syndicated.errors import InputError
from syndicated.types import Params


class Space(Parameters):
    """Axes of candidate values, one axis a hyper-parameter.

    >>> space = Space(alpha=[0, 0.1, 1], lam=[0.1, 1])
    >>> len(space.points), space.points[1]
    (6, {'alpha': 0.0, 'lam': 1.0})
    >>> space.only("alpha")
    Space(alpha=[0.0, 0.1, 1.0])
    """

    def __init__(self, **axes: Iterable[float]) -> None:
        self.axes = {name: _values(name, values) for name, values in axes.items()}

    def parameters(self) -> Mapping[str, object]:
        return self.axes

    @cached_property
    def points(self) -> tuple[Params, ...]:
        """The product of the axes, the first axis outermost; one empty point if there is no axis."""
        return tuple(dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values()))

    def only(self, *names: str) -> "Space":
        """The space with just these axes."""
        unknown = [name for name in names if name not in self.axes]
        if unknown:
            raise InputError(f"the space has the axes {', '.join(self.axes)}; got {shorten(unknown[0])}")
        return Space(**{name: self.axes[name] for name in names})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self.axes.items()) == list(other.axes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def _repr_html_(self) -> str:
        """A row for each axis, for notebooks."""
        rows = [(name, ", ".join(f"{value:g}" for value in values)) for name, values in self.axes.items()]
        return html_table(("hyper-parameter", "candidates"), rows, [f"{len(self.points):,} points"])

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={list(values)}' for name, values in self.axes.items())})"


def _values(name: str, values: object) -> tuple[float, ...]:
    axis = shorten(name)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"axis {axis} must be a list of numbers; got {shorten(values)}")
    numbers = tuple(check_number(f"a candidate for {axis}", value) for value in values)
    if not numbers:
        raise InputError(f"axis {axis} must have at least one candidate; got none")
    if len(set(numbers)) < len(numbers):
        raise InputError(f"the candidates for {axis} must differ; got {shorten(list(numbers))}")
    # The very tuple that was given, if it is one of floats: clones have the parameters of what they are clones of.
    return values if isinstance(values, tuple) and all(type(value) is float for value in values) else numbers
