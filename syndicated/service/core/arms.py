"""The arms that a bandit may be asked about: those on its shelf, and those that requests bring."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.features.encoders import Arm, Encoder, Prepared
from syndicated.service.core.messages import DecideRequest
from syndicated.types import Array


class Offer(NamedTuple):
    """The arms of a request as an agent takes them, the shelf with which they were read, and whether it was `needed`.

    It was not if the request brought all features itself.
    """

    shelf: "Shelf"
    needed: bool
    ids: list[str]
    X: Array

    def holds(self, shelf: "Shelf") -> bool:
        """Whether this shelf would give the same."""
        return self.shelf is shelf or (not self.needed and self.shelf.encoder == shelf.encoder)


class Shelf:
    """An encoder and the arms registered for it. A change makes another shelf: any thread may read this one."""

    def __init__(self, encoder: Encoder, arms: Iterable[Arm] = ()) -> None:
        self.encoder = encoder
        self.arms: Mapping[str, Arm] = {arm.id: arm for arm in arms}
        self._prepared = {id_: encoder.prepare(arm) for id_, arm in self.arms.items()}

    def put(self, arms: Sequence[Arm]) -> "Shelf":
        """A shelf with these arms too, instead of earlier ones of the same ids."""
        more = Shelf(self.encoder, arms)
        more.arms, more._prepared = {**self.arms, **more.arms}, self._prepared | more._prepared
        return more

    def drop(self, id_: str) -> "Shelf":
        """A shelf without this arm."""
        less = Shelf(self.encoder)
        less.arms = {other: arm for other, arm in self.arms.items() if other != id_}
        less._prepared = {other: arm for other, arm in self._prepared.items() if other != id_}
        return less

    def offer(self, request: DecideRequest, table: Array | None) -> Offer:
        """The arms of a request; a `table` holds those of a binary body."""
        needed = False
        if table is not None:
            given = request.arms or [str(k) for k in range(len(table))]
            ids = [arm if isinstance(arm, str) else arm.id for arm in given]
            X = self.encoder.rows(request.context, table)
        else:
            if request.arms is None and not self._prepared:
                raise InputError("arms must be given, or registered before; there are none")
            asked: Iterable[str | Arm | Prepared] = self._prepared.values() if request.arms is None else request.arms
            arms = [self._registered(arm) if isinstance(arm, str) else arm for arm in asked]
            ids, X = [arm.id for arm in arms], self.encoder.table(request.context, arms)
            needed = arms != request.arms
        if len(set(ids)) < len(ids):
            raise InputError(f"the arms of a request must have different ids; got {shorten(ids)}")
        return Offer(self, needed, ids, X)

    def _registered(self, arm: str) -> Arm | Prepared:
        """An arm that came as its id alone."""
        known = self._prepared.get(arm)
        if known is None and self.encoder.kind != "ids":
            raise InputError(f"an arm without features must be registered; got {shorten(arm)}")
        return known or Arm(arm)
