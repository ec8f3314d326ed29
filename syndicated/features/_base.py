"""What an encoder is: from a context and arms, as programs have them, to the table of numbers that an agent takes."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from syndicated._validation import shorten
from syndicated.errors import InputError, StateError
from syndicated.features._arm import ArmFields, InlineArm, PreparedArm
from syndicated.features._tokens import pack_numbers
from syndicated.types import ArmId, Array

MAX_CELLS = 10_000_000  # numbers of a table, and pairs of tokens in a request: a tenth of a second

Context = list[float] | dict[str, Any] | Array | None
Parts = tuple[bytes, bytes]  # 64-bit keys and floats
KINDS: dict[str, "type[Encoder]"] = {}


class Encoder(ABC):
    """Turns contexts and arms into tables of `dim` columns.

    One that `grows` learns new columns from what it is given. All others have no state, and any thread may use them.
    One that is `sparse` gives sparse rows in place of tables. One that `takes_ids` needs nothing of an arm but its id.
    Rows of one that is `complete` are known to be valid, and no number is missing.
    """

    kind: ClassVar[str]
    dim: int
    grows = False
    sparse = False
    takes_ids = False
    complete = False

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    @staticmethod
    def from_spec(spec: Mapping[str, Any]) -> "Encoder":
        """The encoder that the `features` part of a bandit's spec describes."""
        if not isinstance(spec, Mapping):
            raise InputError(f"features must be an object; got {shorten(spec)}")
        arguments = dict(spec)
        kind = arguments.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"features.kind must be one of {', '.join(KINDS)}; got {shorten(kind)}")
        known = inspect.signature(KINDS[kind]).parameters
        for name in arguments:
            if name not in known:
                raise InputError(f"features of kind {kind} have {', '.join(known)}; got {shorten(name)}")
        return KINDS[kind](**arguments)

    def state(self) -> dict[str, Any]:
        """What was learned, for a state file."""
        return {}

    def restore(self, learned: Any) -> None:
        """Take what `state` gave, before anything else was learned."""
        if learned != {}:
            raise StateError(f"features of kind {self.kind} learn nothing; got {shorten(learned)}")

    def prepare(self, arm: ArmFields, path: str = "arm") -> PreparedArm:
        """Check and hash an arm once, for any number of tables; `path` is its name in messages."""
        return PreparedArm(arm.id, *self._parts(arm, path))

    def prepare_all(self, arms: Sequence[ArmFields]) -> list[PreparedArm]:
        """Check and hash arms of a list."""
        return [self.prepare(arm, f"arms[{k}]") for k, arm in enumerate(arms)]

    def table(self, context: Context, arms: Sequence[ArmFields | PreparedArm]) -> Array:
        """The features of every arm in this context: (K, dim), or sparse rows (K, 2, n)."""
        if not arms:
            raise InputError(f"arms must be a list of at least one arm; got {shorten(arms)}")
        self._check_cells(len(arms))
        given = self._context(context)
        return self._fill(given, self._all(arms))

    def plain_rows(self, context: Context, count: int) -> Array | None:
        """`rows` of so many arms by the short way, if the context is nothing but numbers that are all there."""
        return None

    def plain_contexts(self, contexts: Any) -> Array | None:
        """The row that arms without features have in each of many contexts, if all are as `plain_rows` takes them."""
        return None

    def rows(self, context: Context, ids: Sequence[ArmId]) -> Array:
        """The features of arms that bring nothing but their ids."""
        return self.table(context, [InlineArm(id_) for id_ in ids])

    def with_context(self, context: Context, X: npt.ArrayLike) -> Array:
        """The features of arms that are a table already, such as a binary body's, with the context's beside them."""
        raise InputError(f"a table of arms needs features of kind vector; these are of kind {self.kind}")

    def _check_cells(self, arms: int) -> None:
        if not self.sparse and arms * self.dim > MAX_CELLS:
            raise InputError(f"arms must be at most {MAX_CELLS // self.dim} with {self.dim} columns; got {arms}")

    def _all(self, arms: Sequence[ArmFields | PreparedArm]) -> list[Parts]:
        return [
            (arm.keys, arm.values) if isinstance(arm, PreparedArm) else self._parts(arm, f"arms[{k}]")
            for k, arm in enumerate(arms)
        ]

    @abstractmethod
    def _context(self, context: Context) -> Parts: ...

    @abstractmethod
    def _parts(self, arm: ArmFields, path: str) -> Parts: ...

    @abstractmethod
    def _fill(self, context: Parts, arms: list[Parts]) -> Array: ...

    def _numbers(self, context: Context, size: int) -> bytes:
        """A context of `size` numbers as raw memory."""
        if context and not size:
            self._refuse("context", context)
        return pack_numbers("context", context, size) if size else b""

    def _refuse(self, path: str, value: object) -> NoReturn:
        raise InputError(f"{path} must be absent with these features of kind {self.kind}; got {shorten(value)}")


def join(parts: list[Parts], which: int, dtype: type[Any]) -> npt.NDArray[Any]:
    """One array of all parts; of a bytearray, because compiled code takes only arrays that can be written."""
    return np.frombuffer(bytearray().join([part[which] for part in parts]), dtype)
