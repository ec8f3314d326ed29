"""An arm as programs have it: an id, and numbers or an object or nothing."""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm: its id, and `x` or `features` or nothing, as the kind of features wants.

    `x` is a list of numbers, `features` an object of numbers, strings, booleans and lists of strings.
    """

    id: str
    x: list[float] | None = None
    features: dict[str, Any] | None = None


class ArmFields(Protocol):
    """What encoders read: `Arm`, and any class with its fields, such as the one that the service reads JSON into."""

    @property
    def id(self) -> str: ...

    @property
    def x(self) -> list[float] | None: ...

    @property
    def features(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class PreparedArm:
    """An arm that one encoder has checked and hashed: raw memory, so that many arms join fast."""

    id: str
    keys: bytes
    values: bytes
