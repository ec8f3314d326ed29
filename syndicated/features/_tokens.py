"""JSON values, checked: numbers, lists of them, and the tokens of objects."""

import struct
from typing import Any

from syndicated._validation import MAX_MAGNITUDE, shorten
from syndicated.errors import InputError


def pack_numbers(path: str, x: object, size: int) -> bytes:
    """A list of numbers as raw memory, each checked."""
    if not isinstance(x, list) or len(x) != size:
        raise InputError(f"{path} must be a list of {size} numbers; got {shorten(x)}")
    return struct.pack(f"{size}d", *[check_feature(f"{path}[{j}]", value) for j, value in enumerate(x)])


def check_feature(path: str, value: object) -> float:
    """A finite number that is not too large, and not a boolean; `path` is its name in messages."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{path} must be a number; got {shorten(value)}")
    if not abs(value) <= MAX_MAGNITUDE:
        raise InputError(f"{path} must be finite and at most {MAX_MAGNITUDE:g} in size; got {shorten(value)}")
    return float(value)


def id_token(id_: object, path: str) -> str:
    """The token of an arm's id; a number is another than its digits."""
    if isinstance(id_, bool) or not isinstance(id_, (str, int)):
        raise InputError(f"{path}.id must be a string or a whole number; got {shorten(id_)}")
    return f"id\x1f{id_}" if isinstance(id_, str) else f"number\x1f{id_}"


def tokens_of(path: str, thing: dict[str, Any]) -> list[tuple[str, float]]:
    """The tokens of an object, before they are hashed: a text that tells what it is, and its value."""
    tokens: list[tuple[str, float]] = []
    for name, value in thing.items():
        if isinstance(value, dict):
            for inner, within in value.items():
                _add(tokens, path, f"{name}.{inner}", within)
        else:
            _add(tokens, path, name, value)
    return tokens


def _add(tokens: list[tuple[str, float]], path: str, name: str, value: object) -> None:
    if isinstance(value, str):
        tokens.append((f"{name}\x1f{value}", 1.0))
    elif isinstance(value, bool):
        tokens.append((f"{name}\x1f{'true' if value else 'false'}", 1.0))
    elif isinstance(value, (int, float)):
        tokens.append((name, float(value) if abs(value) <= MAX_MAGNITUDE else check_feature(within(path, name), value)))
    elif isinstance(value, list) and all(isinstance(each, str) for each in value):
        tokens.extend((f"{name}\x1f{each}", 1.0) for each in set(value))
    elif value is not None:
        kinds = "a number, a string, true, false, null or a list of strings"
        raise InputError(f"{within(path, name)} must be {kinds}; got {shorten(value)}")


def within(path: str, name: str) -> str:
    return f"{path}.{name if name.isprintable() and len(name) <= 60 else shorten(name)}"
