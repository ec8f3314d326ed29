"""The door for named arms: a context and arms, as programs have them, to ids with rows of numbers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from syndicated._validation import shorten
from syndicated.errors import InputError, StateError
from syndicated.features._arm import Arm, InlineArm, PreparedArm
from syndicated.features._base import Encoder
from syndicated.features._values import plain_row, plain_value
from syndicated.types import ArmId, NamedArms, NamedRounds

ID_TYPES = frozenset({str, int})
PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})


class ArmReader:
    """An encoder, and the agent's own arms: those that are meant where none are given.

    >>> reader = ArmReader({"kind": "fields", "context": "learned", "arm": "learned"})
    >>> read = reader.read({"age": 31}, ["tea", {"id": "milk", "price": 2.5}])
    >>> read.ids, read.x.tolist()
    (('tea', 'milk'), [[31.0, nan, 1.0], [31.0, 2.5, 0.0]])
    """

    def __init__(self, spec: Mapping[str, Any], arms: Any = None) -> None:
        self.spec, self.encoder = dict(spec), Encoder.from_spec(spec)
        self._plain = self.encoder.kind != "fields"  # whether values must be made plain first
        self._own: dict[ArmId, Arm] = {}
        self._described: set[ArmId] = set()  # of the own arms, those that have features
        self._bare: list[ArmId] | None = None  # the ids that came last, and the same as a tuple
        self._ids: tuple[ArmId, ...] = ()
        self._repeated = RepeatedArms(self.encoder)
        if arms is not None and len(arms):
            self.add(arms)

    @property
    def ids(self) -> list[ArmId]:
        """The ids of the own arms."""
        return list(self._own)

    def read(self, context: Any, arms: Any) -> NamedArms:
        """The arms with their rows in this context. Refused input changes nothing."""
        if type(context) is not dict and type(context) is not list:
            context = plain_row(context)
        if self._plain:
            context = plain_value(context)
        if type(arms) is not list:
            arms = self._listed(arms)
        if not _equal(arms, self._bare):
            if not ID_TYPES.issuperset(map(type, arms)) or not self._described.isdisjoint(arms):
                return self._read_described(context, arms)
            self._ids = _different(arms)
            self._bare = list(arms)
        rows = self.encoder.plain_rows(context, len(self._ids))
        if rows is not None:
            return NamedArms(self._ids, rows, True)
        return NamedArms(self._ids, self.encoder.rows(context, self._ids), self.encoder.complete)

    def read_on(self, first: NamedArms, contexts: Any, arms: Any) -> NamedRounds | list[NamedArms]:
        """`read` in each of these contexts, the first of which was read just now, with the same arms."""
        rows = self.encoder.plain_contexts(contexts) if first.ids is self._ids else None
        if rows is not None:
            return NamedRounds(first.ids, rows)
        return [first, *(self.read(context, arms) for context in contexts[1:])]

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """In this block refused input changes nothing, also if other input was read before it."""
        learned = self.encoder.state() if self.encoder.grows else None
        try:
            yield
        except InputError:
            if learned is not None:
                self.encoder = Encoder.from_spec(self.spec)
                self.encoder.restore(learned)
                self._bare, self._repeated = None, RepeatedArms(self.encoder)
            raise

    def _read_described(self, context: Any, arms: list[Any]) -> NamedArms:
        """Arms of which some have features."""
        ids, given = self._repeated.find(arms, self._arms_of)
        try:
            return NamedArms(ids, self.encoder.table(context, given), self.encoder.complete)
        except InputError:
            self._repeated = RepeatedArms(self.encoder)
            raise

    def add(self, arms: Any) -> None:
        """Take arms among the own ones, in place of earlier ones with the same ids."""
        added = [_with_plain_values(arm) for arm in self._arms_of(self._listed(arms))]
        _different([arm.id for arm in added])
        self.encoder.prepare_all(added)
        self._own |= {arm.id: arm for arm in added}
        self._described = {id_ for id_, arm in self._own.items() if arm.x is not None or arm.features}
        self._bare, self._repeated = None, RepeatedArms(self.encoder)

    def retire(self, id_: ArmId) -> None:
        """Take an arm from the own ones, if it is one."""
        self._own.pop(id_, None)
        self._described.discard(id_)
        self._bare, self._repeated = None, RepeatedArms(self.encoder)

    def state(self) -> dict[str, Any]:
        """Everything needed to read on elsewhere."""
        arms = [[arm.id, arm.x, arm.features] for arm in self._own.values()]
        return {"spec": self.spec, "learned": self.encoder.state(), "arms": arms}

    @classmethod
    def from_state(cls, given: Any) -> "ArmReader":
        """The reader that `state` gave."""
        try:
            reader = cls(given["spec"])
            reader.encoder.restore(given["learned"])
            before = reader.encoder.state()
            if given["arms"]:
                reader.add([InlineArm(id_, x, features) for id_, x, features in given["arms"]])
            right = reader.encoder.state() == before
        except (InputError, KeyError, TypeError, ValueError):
            right = False
        if not right:
            raise StateError(f"a state must have features and arms that fit them; got {shorten(given)}")
        return reader

    def _listed(self, arms: Any) -> list[Any]:
        if arms is None and self._own:
            return list(self._own)
        if isinstance(arms, Mapping):
            return [_described(id_, features) for id_, features in arms.items()]
        if hasattr(arms, "to_dicts"):  # a data frame of polars
            return list(arms.to_dicts())
        if hasattr(arms, "iterrows"):  # one of pandas
            return list(arms.to_dict("records"))
        if hasattr(arms, "tolist"):
            arms = arms.tolist()
        if isinstance(arms, str | bytes) or not isinstance(arms, Iterable):
            raise InputError(f"arms must be a list of ids and objects with ids; got {shorten(arms)}")
        return list(arms)

    def _arms_of(self, arms: Sequence[Any]) -> list[Arm]:
        given = [self._arm_of(f"arms[{k}]", arm) for k, arm in enumerate(arms)]
        return [_with_plain_values(arm) for arm in given] if self._plain else given

    def _arm_of(self, path: str, given: Any) -> Arm:
        if isinstance(given, Arm):
            check_id(f"{path}.id", given.id)
            return given
        if isinstance(given, str | int | np.integer):
            id_ = check_id(path, given)
            return self._own.get(id_) or InlineArm(id_)
        row = plain_row(given)
        if not isinstance(row, dict) or "id" not in row:
            raise InputError(f"{path} must be an id, or an object with one; got {shorten(given)}")
        features = {name: value for name, value in row.items() if name != "id"}
        id_ = check_id(f"{path}.id", row["id"])
        if self.encoder.kind == "vector":
            return InlineArm(id_, **features) if features.keys() == {"x"} else InlineArm(id_, features=features)
        return InlineArm(id_, features=features)


class RepeatedArms:
    """The arms that came last. If they come again they are prepared, so that their features are read once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._last: list[Any] | None = None  # copies; None if they have parts that can be changed from outside
        self._ids: tuple[ArmId, ...] = ()
        self._prepared: list[PreparedArm] | None = None
        self._width = 0

    def find(
        self, arms: list[Any], arms_of: Callable[[list[Any]], list[Arm]]
    ) -> tuple[tuple[ArmId, ...], Sequence[Arm | PreparedArm]]:
        """The ids of arms, and the arms, prepared if the same came before. New columns make them be read again."""
        if not _equal(arms, self._last):
            given = arms_of(arms)
            self._ids, self._prepared = _different([arm.id for arm in given]), None
            self._last = [dict(arm) if type(arm) is dict else arm for arm in arms] if _is_plain(arms) else None
            return self._ids, given
        if self._prepared is None or self._width != self._encoder.dim:
            self._prepared, self._width = self._encoder.prepare_all(arms_of(arms)), self._encoder.dim
        return self._ids, self._prepared


def _equal(arms: list[Any], last: list[Any] | None) -> bool:
    try:
        return arms == last
    except (TypeError, ValueError):  # arrays, and what data frames have for missing values, do not compare
        return False


def _is_plain(arms: list[Any]) -> bool:
    """Whether arms are ids, and objects of nothing but texts and numbers."""
    return all(
        PLAIN_TYPES.issuperset(map(type, arm.values())) if type(arm) is dict else type(arm) in ID_TYPES for arm in arms
    )


def check_id(path: str, given: Any) -> ArmId:
    """An id: a text or a whole number."""
    if isinstance(given, bool) or not isinstance(given, str | int | np.integer):
        raise InputError(f"{path} must be a text or a whole number; got {shorten(given)}")
    return str(given) if isinstance(given, str) else int(given)


def _different(ids: Sequence[ArmId]) -> tuple[ArmId, ...]:
    """The ids, of which there must be one, and no two alike."""
    if not ids:
        raise InputError("arms must be at least one; got none")
    if len(set(ids)) < len(ids):
        k = next(k for k, id_ in enumerate(ids) if id_ in ids[:k])
        raise InputError(f"arms[{k}].id must differ from those before it; got {shorten(ids[k])} twice")
    return tuple(ids)


def _described(id_: Any, given: Any) -> Arm:
    """An arm of a mapping from ids to features."""
    features = plain_row(given)
    if features is None or isinstance(features, dict):
        return InlineArm(id_, features=features)
    return InlineArm(id_, x=features)


def _with_plain_values(arm: Arm) -> Arm:
    """The arm as it can be kept in a file."""
    features = arm.features and {name: plain_value(value) for name, value in arm.features.items()}
    return type(arm)(arm.id, plain_value(arm.x), features)
