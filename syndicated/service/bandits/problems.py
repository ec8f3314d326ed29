"""Problems with requests: what the caller is told, and how a validation error is put into words."""

import re
from typing import Any, TypeVar

import msgspec

from syndicated.errors import SyndicatedError

T = TypeVar("T")

_LOCATION = re.compile(r" - at `\$(\S*)`$")
_STEP = re.compile(r"\.(\w+)|\[[^]]*\]")


class Problem(SyndicatedError):
    """A request that is not carried out: the status, the kind of problem, and what must hold and what came."""

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail


def explained(error: msgspec.ValidationError, kind: Any) -> str:
    """A validation error's text; where one of a few words, fields or a name is wanted, with these or the rule."""
    text = str(error)
    location = _LOCATION.search(text)
    wanted: Any = msgspec.inspect.type_info(kind)
    for name in _STEP.findall(location[1]) if location else ():
        wanted = _type_of_part(wanted, name)
    if text.startswith("Invalid enum value") and isinstance(wanted, msgspec.inspect.LiteralType):
        return f"{text}; it must be one of {', '.join(map(str, wanted.values))}"
    if location and "matching regex" in text and isinstance(wanted, msgspec.inspect.Metadata):
        return f"Expected {(wanted.extra_json_schema or {}).get('description')}{location[0]}"
    struct = _one_of(wanted, msgspec.inspect.StructType)
    if "unknown field" in text and struct is not None:
        return f"{text}; the fields are {', '.join(field.encode_name for field in struct.fields)}"
    return text


def _type_of_part(kind: Any, name: str) -> Any:
    """The type of a struct's field or of a list's items; None where it is not known."""
    if name:
        struct = _one_of(kind, msgspec.inspect.StructType)
        return next((field.type for field in struct.fields if field.encode_name == name), None) if struct else None
    items = _one_of(kind, msgspec.inspect.ListType)
    return items.item_type if items else None


def _one_of(kind: Any, wanted: type[T]) -> T | None:
    """A type if it is of the wanted kind, or the one of a union that is."""
    of = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return next((each for each in of if isinstance(each, wanted)), None)
