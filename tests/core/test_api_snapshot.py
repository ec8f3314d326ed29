"""The public API: what docs/api.md lists is exported, and its names and signatures are those of api.txt.

A change of the API shows in api.txt, and so in the review. To write it again:

    .venv/bin/python tests/core/test_api_snapshot.py

Types are not part of it: they print differently under different versions of Python and numpy.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import syndicated

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).with_name("api.txt")
PAGE = (ROOT / "docs" / "api.md").read_text()
# The rows of the page's tables: a module, and all that it exports.
ROWS = re.findall(r"^\| `(syndicated[\w.]*)` \| (.*?) \|$", PAGE, re.MULTILINE)
LISTED: dict[str, list[str]] = {module: re.findall(r"`(\w+)`", names) for module, names in ROWS}
INTERNAL: list[str] = re.findall(r"`(syndicated[\w.]*)`", PAGE.partition("## Internal packages")[2])


def snapshot() -> str:
    """One line a name."""
    return "".join(f"{line}\n" for module in LISTED for line in _lines(module))


def _lines(module: str) -> Iterator[str]:
    loaded = importlib.import_module(module)
    for name in sorted(loaded.__all__):
        yield from _described(f"{module}.{name}", getattr(loaded, name))


def _described(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type):
        yield f"{name}{_signature(value)}"
        yield from (f"{name}{line}" for line in sorted(_members(value)))
    elif inspect.isroutine(value):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name}: {'alias' if hasattr(value, '__origin__') else type(value).__name__}"


def _members(cls: type) -> set[str]:
    """What a class has beside the arguments of its constructor, without what is the same in a base that is listed."""
    own = [each for each in cls.__mro__ if each.__module__.startswith("syndicated")]
    names = {name for each in own for name in vars(each) if not name.startswith("_")} - _parameters(cls)
    values = {name: getattr(cls, name) for name in names}
    lines = {f".{name}{_signature(v) if callable(v) else ': attribute'}" for name, v in values.items()}
    listed = [base for base in own[1:] if base in _classes()]
    return lines.difference(*map(_members, listed))


@cache
def _classes() -> set[type]:
    return {value for module in LISTED for value in _exports(module) if isinstance(value, type)}


def _parameters(cls: type) -> set[str]:
    try:
        return set(inspect.signature(cls).parameters)
    except ValueError:
        return set()


def _signature(value: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:  # a class of the interpreter's own, such as an exception
        return "(...)"
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return re.sub(r" at 0x\w+", "", str(signature.replace(parameters=bare, return_annotation=signature.empty)))


def test_the_names_and_signatures_are_those_of_the_snapshot() -> None:
    assert snapshot() == SNAPSHOT.read_text(), "the public API has changed: see the first lines of this file"


@pytest.mark.parametrize("module", LISTED)
def test_the_page_lists_what_a_module_exports(module: str) -> None:
    assert LISTED[module] == sorted(LISTED[module], key=str.lower)
    assert sorted(LISTED[module]) == sorted(importlib.import_module(module).__all__)


def test_what_is_not_listed_is_private() -> None:
    """By a name that begins with `_`, in a package that the page calls internal, or as the file of a listed class."""
    modules = [each.name for each in pkgutil.walk_packages(syndicated.__path__, "syndicated.")]
    known = {*LISTED, *INTERNAL, *(cls.__module__ for cls in _classes())}
    private = [name for name in modules if "._" in name or name.startswith(tuple(f"{each}." for each in INTERNAL))]
    assert set(modules) - set(private) - known == set()


def _exports(module: str) -> list[Any]:
    loaded = importlib.import_module(module)
    return [getattr(loaded, name) for name in loaded.__all__]


def test_a_class_has_one_public_home() -> None:
    homes: dict[type, list[str]] = {}
    for module in LISTED:
        for value in _exports(module):
            if isinstance(value, type):
                homes.setdefault(value, []).append(module)
    assert {cls.__name__: found for cls, found in homes.items() if len(found) > 1} == {}


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot())
