"""An arm as programs have it: an id, and numbers or an object or nothing."""

from dataclasses import dataclass
from typing import Any, Protocol

from syndicated.types import ArmId


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm: its id, and `x` or `features` or nothing, as the kind of features wants.

    `x` is a list of numbers, `features` an object of numbers, strings, booleans and lists of strings.
    """

    id: ArmId
    x: list[float] | None = None
    features: dict[str, Any] | None = None


class InlineArm(Arm):
    """An arm whose features stand beside its id, not in an object of their own."""


class ArmFields(Protocol):
    """What encoders read: `Arm`, and any class with its fields, such as the one that the service reads JSON into."""

    @property
    def id(self) -> ArmId: ...

    @property
    def x(self) -> list[float] | None: ...

    @property
    def features(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class PreparedArm:
    """An arm that one encoder has checked and hashed: raw memory, so that many arms join fast."""

    id: ArmId
    keys: bytes
    values: bytes
