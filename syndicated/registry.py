"""Registries are namespaces: what a package's __init__ imports is registered under its class name."""

from collections.abc import Mapping
from typing import TypeVar

from syndicated.errors import InputError

T = TypeVar("T")


def registered(namespace: Mapping[str, object], base: type[T]) -> dict[str, type[T]]:
    """The proper subclasses of `base` among the names of a module, in the order of their names."""
    classes = (value for value in namespace.values() if isinstance(value, type) and value is not base)
    return {c.__name__: c for c in sorted(classes, key=lambda c: c.__name__) if issubclass(c, base)}


def find(registry: Mapping[str, type[T]], name: str) -> type[T]:
    """Look a class up by name; case, hyphens and underscores do not matter.

    >>> from syndicated.policies import POLICIES
    >>> find(POLICIES, "ucb-glm").__name__
    'UCBGLM'
    """
    for key, cls in registry.items():
        if _plain(key) == _plain(name):
            return cls
    raise InputError(f"no {name!r} is registered; there are {', '.join(registry)}")


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
