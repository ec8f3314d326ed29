"""The arms of a request as a table of numbers: those registered with the bandit, and those that the request brings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.features import Encoder, PreparedArm
from syndicated.service.core.messages import Arm, DecideRequest
from syndicated.types import Array


class ArmTable(NamedTuple):
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

    def with_arms(self, arms: Sequence[Arm], *, numbered: bool) -> "RegisteredArms":
        """These arms too, in place of earlier ones with the same ids."""
        ids = dict.fromkeys([*self.numbers, *(arm.id for arm in arms)]) if numbered else self.numbers
        added = RegisteredArms(self.encoder, arms, ids)
        added.arms, added._prepared = {**self.arms, **added.arms}, self._prepared | added._prepared
        return added

    def without_arm(self, id_: str) -> "RegisteredArms":
        """All arms but this one."""
        rest = RegisteredArms(self.encoder, (), self.numbers)
        rest.arms = {other: arm for other, arm in self.arms.items() if other != id_}
        rest._prepared = {other: arm for other, arm in self._prepared.items() if other != id_}
        return rest

    def table(self, request: DecideRequest, X: Array | None) -> ArmTable:
        """The arms of a request; `X` is the table of a binary body."""
        uses_registered = False
        if X is not None:
            listed = request.arms or [str(k) for k in range(len(X))]
            ids = [arm if isinstance(arm, str) else arm.id for arm in listed]
            X = self.encoder.with_context(request.context, X)
        else:
            if request.arms is None and not self._prepared:
                raise InputError("arms must be given, or registered before; there are none")
            wanted: Iterable[str | Arm | PreparedArm] = (
                self._prepared.values() if request.arms is None else request.arms
            )
            arms = [self._by_id(arm) if isinstance(arm, str) else arm for arm in wanted]
            ids, X = [str(arm.id) for arm in arms], self.encoder.table(request.context, arms)
            uses_registered = arms != request.arms
        if len(set(ids)) < len(ids):
            raise InputError(f"the arms of a request must have different ids; got {shorten(ids)}")
        return ArmTable(self, uses_registered, ids, X)

    def _by_id(self, id_: str) -> Arm | PreparedArm:
        """An arm that came as its id alone."""
        known = self._prepared.get(id_)
        if known is None and not self.encoder.takes_ids:
            raise InputError(f"an arm without features must be registered; got {shorten(id_)}")
        return known or Arm(id_)
