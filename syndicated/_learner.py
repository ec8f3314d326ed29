"""What policies and tuners share: parameters that describe them, and a state of arrays."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self
from weakref import ref

import numpy as np
import numpy.typing as npt

from syndicated.errors import InputError

MAX_COUNT = 2**62
PIECE_BYTES = 8 * 2**20  # of a copy that is made in pieces, each some milliseconds


def within(numbers: npt.NDArray[Any], end: int) -> bool:
    """Whether all numbers are at least 0 and less than this."""
    return bool(np.all((numbers >= 0) & (numbers < end)))


def overrides(cls: type, compiled: str, *plain: str) -> bool:
    """Whether a class has a plain form, of its own or of a mixin, that its compiled form knows nothing of."""
    nearest = next(base for base in cls.__mro__ if not vars(base).keys().isdisjoint((compiled, *plain)))
    return compiled not in vars(nearest)


def _part(arrays: Mapping[str, npt.NDArray[np.generic]], name: str) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of the learner of this name, by their names in it."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


class RowsCopy:
    """A copy of arrays with as many rows each, as they were when it was begun, although it is made in pieces.

    Who changes a row of them in between must `keep` it before. Arrays that are replaced by others need nothing.
    """

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.arrays = {name: np.empty_like(array) for name, array in arrays.items()}
        self._pairs = [(array, self.arrays[name]) for name, array in arrays.items()]
        self._left = np.ones(len(self._pairs[0][0]), dtype=np.bool_)  # rows that are still to be copied
        self._row_bytes = max(1, sum(array[:1].nbytes for array in arrays.values()))
        self._next = 0  # the rows before it are copied

    @property
    def finished(self) -> bool:
        return self._next >= len(self._left)

    @property
    def bytes_left(self) -> int:
        return (len(self._left) - self._next) * self._row_bytes

    def advance(self, size: int) -> None:
        """Copy rows of about so many bytes, at least one."""
        end = min(len(self._left), self._next + max(1, size // self._row_bytes))
        rows = np.flatnonzero(self._left[self._next : end]) + self._next
        self._copy(rows if len(rows) < end - self._next else slice(self._next, end))
        self._next = end

    def keep(self, rows: npt.NDArray[np.int64]) -> None:
        """Copy rows that are about to change."""
        rows = rows[rows < len(self._left)]
        rows = rows[self._left[rows]]
        if len(rows):
            self._copy(rows)

    def _copy(self, rows: "slice | npt.NDArray[Any]") -> None:
        for array, copy in self._pairs:
            copy[rows] = array[rows]
        self._left[rows] = False


class Parameters:
    """scikit-learn's contract for what has parameters: `get_params`, `set_params`, and so `sklearn.base.clone`."""

    def parameters(self) -> Mapping[str, object]:
        """The constructor's arguments, as they were given."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """The parameters by name; with `deep`, those of parameters too, as in `tuner__horizon`."""
        own = dict(self.parameters())
        parts = [(name, part) for name, part in own.items() if deep and isinstance(part, Parameters)]
        return own | {f"{name}__{inner}": value for name, part in parts for inner, value in part.get_params().items()}

    def set_params(self, **params: object) -> Self:
        """Change parameters in place. What was learned is gone; parameters that are refused change nothing."""
        own, inner = dict(self.parameters()), dict[str, dict[str, object]]()
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in own or (rest and not isinstance(own[name], Parameters)):
                raise InputError(f"{type(self).__name__} has the parameters {', '.join(own) or 'none'}; got {key!r}")
            if rest:
                inner.setdefault(name, {})[rest] = value
            else:
                own[name] = value
        for name, changes in inner.items():
            part: Any = own[name]
            own[name] = type(part)(**part.parameters()).set_params(**changes)
        self.__dict__ = type(self)(**own).__dict__
        return self


class Learner(Parameters):
    """What policies and tuners share: parameters are the init fields; state is the rest, and it is arrays.

    Subclasses are dataclasses. Constructors only store and check; `fresh` is the same thing with no history. The arrays
    that are `growing` may have any number of rows; all others keep the shape that they have from the start. Those that
    are `by_rows` may be large: `begin_state` leaves them to be copied in pieces, and who changes rows calls `_keep`.
    """

    growing: ClassVar[tuple[str, ...]] = ()
    by_rows: ClassVar[tuple[str, ...]] = ()
    _copies: tuple["ref[RowsCopy]", ...] = ()  # under way, unless nobody wants them any more

    def parameters(self) -> Mapping[str, object]:
        return self.params()

    def params(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def fresh(self) -> Self:
        return replace(self)  # type: ignore[type-var]

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        for name, value in self._history().items():
            if isinstance(value, Learner):
                arrays |= {f"{name}.{inner}": array for inner, array in value.state().items()}
            else:
                arrays[name] = np.array(value)
        return arrays

    def begin_state(self) -> tuple[dict[str, npt.NDArray[np.generic]], list[RowsCopy]]:
        """The arrays of `state`, and the copies that must be finished before some of them are it."""
        parts = [self, *(value for value in self._history().values() if isinstance(value, Learner))]
        if not any(part.by_rows for part in parts):
            return self.state(), []
        arrays: dict[str, npt.NDArray[np.generic]] = {}
        copies: list[RowsCopy] = []
        for name, value in self._history().items():
            if isinstance(value, Learner):
                inner, begun = value.begin_state()
                arrays |= {f"{name}.{key}": array for key, array in inner.items()}
                copies += begun
            else:
                arrays[name] = np.empty(0) if name in self.by_rows else np.array(value)
        if self.by_rows:
            copy = RowsCopy({name: getattr(self, name) for name in self.by_rows})
            self._copies = (*self._copies, ref(copy))
            copies.append(copy)
            arrays |= copy.arrays
        return arrays, copies

    def _keep(self, *rows: int) -> None:
        """Rows of the arrays `by_rows` are about to change: copies under way take them as they are."""
        wanted = [copy for held in self._copies if (copy := held()) is not None and not copy.finished]
        self._copies = tuple(map(ref, wanted))
        for copy in wanted:
            copy.keep(np.array(rows, dtype=np.int64))

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        for name, value in self._history().items():
            if isinstance(value, Learner):
                value.restore(_part(arrays, name))
            else:
                array = arrays[name]
                setattr(self, name, array.item() if array.ndim == 0 else array.copy())

    def upgraded(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays of a state as this version has them; those of an older version are brought up to date."""
        return arrays

    def invalid_array(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> str | None:
        """The first array whose dtype, shape or values this learner cannot have; None if all are valid.

        Numbers must be finite, or all as they were at the start; counts neither negative nor close to overflow.
        """
        for name, value in self._history().items():
            if isinstance(value, Learner):
                inner = value.invalid_array(_part(arrays, name))
                if inner is not None:
                    return f"{name}.{inner}"
                continue
            mine, given, fixed = np.asarray(value), arrays[name], slice(name in self.growing, None)
            if (given.dtype, given.ndim, given.shape[fixed]) != (mine.dtype, mine.ndim, mine.shape[fixed]):
                return name
            if given.dtype.kind == "i" and not within(given, MAX_COUNT):
                return name
            if not np.all(np.isfinite(given)) and not np.array_equal(given, np.asarray(self.fresh()._history()[name])):
                return name
        return None

    def _history(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.init}  # type: ignore[arg-type]
