"""The arms of a request as a table of numbers: those registered with the bandit, and those that the request brings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.features import Encoder, PreparedArm
from syndicated.features._base import Context
from syndicated.service.bandits.messages import Arm, DecideRequest
from syndicated.types import Array


class ArmTable(Struct, frozen=True, gc=False):
    """The arms of one request: their ids, their features (K, dim), and the registered arms they were read with.

    `uses_registered` is false if the request brought all features itself.
    """

    registered: "RegisteredArms"
    uses_registered: bool
    ids: list[str]
    X: Array

    def is_valid_for(self, registered: "RegisteredArms") -> bool:
        """Whether the request would give the same table with these registered arms."""
        same = self.registered is registered
        return same or (not self.uses_registered and self.registered.encoder == registered.encoder)


class RegisteredArms:
    """An encoder and the arms registered for it. It never changes, so any thread may read it.

    `numbers` are those of all arms that were ever registered, in their order. They stand for ids in the log, so an arm
    keeps its number when it goes.
    """

    def __init__(self, encoder: Encoder, arms: Iterable[Arm] = (), numbered: Iterable[str] = ()) -> None:
        self.encoder = encoder
        self.arms: Mapping[str, Arm] = {arm.id: arm for arm in arms}
        self.numbers: Mapping[str, int] = {id_: number for number, id_ in enumerate(numbered)}
        self._prepared = {id_: encoder.prepare(arm) for id_, arm in self.arms.items()}
        self._described = _described(self.arms)

    def with_arms(self, arms: Sequence[Arm], *, numbered: bool) -> "RegisteredArms":
        """These arms too, in place of earlier ones with the same ids."""
        ids = dict.fromkeys([*self.numbers, *(arm.id for arm in arms)]) if numbered else self.numbers
        added = RegisteredArms(self.encoder, arms, ids)
        added.arms, added._prepared = {**self.arms, **added.arms}, self._prepared | added._prepared
        added._described = _described(added.arms)
        return added

    def without_arm(self, id_: str) -> "RegisteredArms":
        """All arms but this one."""
        rest = RegisteredArms(self.encoder, (), self.numbers)
        rest.arms = {other: arm for other, arm in self.arms.items() if other != id_}
        rest._prepared = {other: arm for other, arm in self._prepared.items() if other != id_}
        rest._described = self._described - {id_}
        return rest

    def table(self, request: DecideRequest, X: Array | None) -> ArmTable:
        """The arms of a request; `X` is their table, if it came as one: of a binary body, or of JSON's usual form."""
        uses_registered = False
        if X is not None:
            ids = [arm if isinstance(arm, str) else arm.id for arm in request.arms or map(str, range(len(X)))]
            try:
                X = self.encoder.with_context(request.context, X)
            except InputError:
                if request.shape is not None:
                    raise
                arms = [Arm(id_, x) for id_, x in zip(ids, X.tolist(), strict=True)]  # one of which may be told
                return self.table(replace(request, arms=arms), None)
        else:
            if request.arms is None and not self._prepared:
                raise InputError("arms must be given, or registered before; there are none")
            wanted = cast(list[str | Arm], list(self._prepared)) if request.arms is None else request.arms
            kinds = set(map(type, wanted))
            uses_registered = str in kinds
            if kinds == {str}:
                ids = cast(list[str], wanted)
                X = self._features(request.context, ids)
            else:
                ids = [arm if isinstance(arm, str) else arm.id for arm in wanted]
                brought = [self._by_id(arm) if isinstance(arm, str) else arm for arm in wanted]
                X = self.encoder.table(request.context, brought)
        if len(set(ids)) < len(ids):
            raise InputError(f"the arms of a request must have different ids; got {shorten(ids)}")
        return ArmTable(self, uses_registered, ids, X)

    def _features(self, context: Context, ids: list[str]) -> Array:
        """The features of arms that came as their ids; if none has any, all at once."""
        if self.encoder.takes_ids and self._described.isdisjoint(ids):
            return self.encoder.rows(context, ids)
        return self.encoder.table(context, [self._by_id(id_) for id_ in ids])

    def _by_id(self, id_: str) -> Arm | PreparedArm:
        """An arm that came as its id alone."""
        known = self._prepared.get(id_)
        if known is None and not self.encoder.takes_ids:
            raise InputError(f"an arm without features must be registered; got {shorten(id_)}")
        return known or Arm(id_)


def _described(arms: Mapping[str, Arm]) -> set[str]:
    """The ids of the arms that have features."""
    return {id_ for id_, arm in arms.items() if arm.x is not None or arm.features is not None}
