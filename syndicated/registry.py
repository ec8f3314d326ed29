"""Registries: classes by name, the built-in ones and those of other installed packages.

Built in is what a package's `__init__` imports, under its class name. Another distribution adds its own by entry points
in the group of the same name as the package: `syndicated.policies`, `syndicated.tuners`, `syndicated.environments`.
Entry points are read when a name is not built in, or when everything is listed, and a class is imported when it is
asked for: other packages cost nothing until they are used, and a broken one breaks only itself.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from syndicated._validation import shorten
from syndicated.errors import InputError

__all__ = ["Registry", "find"]

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

MAX_NAME = 1000  # characters of a name that is looked for: a service is sent megabytes

T = TypeVar("T")


class Registry(Mapping[str, type[T]], Generic[T]):
    """The subclasses of `base` among the names of a module and among the entry points of a group.

    Those that are `unlisted`, by name with their module, need an extra: they are found by name only.

    >>> from syndicated.policies import POLICIES
    >>> POLICIES["LinUCB"].__name__
    'LinUCB'
    """

    def __init__(
        self, group: str, base: type[T], namespace: Mapping[str, object], unlisted: Mapping[str, str] = {}
    ) -> None:
        self.group, self.base, self.unlisted = group, base, dict(unlisted)
        self.kind, self._namespace = base.__name__.lower(), namespace
        self._loaded: dict[str, type[T]] = {}

    @cached_property
    def built_in(self) -> dict[str, type[T]]:
        """What the module imports, also below the line that makes the registry: it is looked at when first used.

        Classes in the base's own file are there to be inherited from.
        """
        classes = [value for value in self._namespace.values() if isinstance(value, type)]
        named = {c.__name__: c for c in classes if issubclass(c, self.base) and c.__module__ != self.base.__module__}
        return dict(sorted(named.items()))

    def __getitem__(self, name: str) -> type[T]:
        if name in self.built_in:
            return self.built_in[name]
        if name in self.unlisted:
            found: type[T] = getattr(import_module(self.unlisted[name]), name)
            return found
        if name not in self._loaded:
            self._loaded[name] = self._load(self._plugins[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        """The built-in names first: the others need a search of all installed packages."""
        yield from self.built_in
        yield from self._plugins

    def __len__(self) -> int:
        return len(self.built_in) + len(self._plugins)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._plugins

    def package(self, name: str) -> str | None:
        """The distribution and version that a class comes from; None for those that are built in."""
        key = _key(self, name)
        return None if key in self.built_in or key in self.unlisted else _package(self._plugins[key][0])

    def plugins(self) -> list[str]:
        """The names that other packages offer."""
        return list(self._plugins)

    def refused(self) -> list[str]:
        """Why entry points were left out: another class has the name already."""
        taken = {_plain(name): name for name in self.built_in}
        return [
            f"the {self.kind} {each.name!r} of {_package(each)} is left out: {taken[_plain(each.name)]} is built in"
            for each in self._entry_points
            if _plain(each.name) in taken
        ]

    @cached_property
    def _entry_points(self) -> "list[EntryPoint]":
        from importlib.metadata import entry_points  # it is slow to import, and seldom needed

        return sorted(entry_points(group=self.group), key=lambda each: (each.name, _package(each)))

    @cached_property
    def _plugins(self) -> "dict[str, list[EntryPoint]]":
        """The entry points whose name is not built in; those that `find` cannot tell apart are together."""
        taken, found = set(map(_plain, self.built_in)), dict[str, "list[EntryPoint]"]()
        for each in self._entry_points:
            if _plain(each.name) not in taken:
                name = next((name for name in found if _plain(name) == _plain(each.name)), each.name)
                found.setdefault(name, []).append(each)
        return found

    def _load(self, offers: "list[EntryPoint]") -> type[T]:
        what = f"the {self.kind} {offers[0].name!r} of {' and of '.join(map(_package, offers))}"
        if len(offers) > 1:
            raise InputError(f"{what} cannot be told apart: one of the packages must go")
        try:
            cls = offers[0].load()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(f"{what} cannot be loaded: {text}") from error
        if not (isinstance(cls, type) and issubclass(cls, self.base) and cls is not self.base):
            raise InputError(f"{what} must be a subclass of {self.base.__name__}; got {cls!r}")
        if cls.__name__ != offers[0].name:
            raise InputError(f"{what} must have the name of its class; got {cls.__name__}")
        return cls


def find(registry: Mapping[str, type[T]], name: str) -> type[T]:
    """Look a class up by name; case, hyphens and underscores do not matter.

    >>> from syndicated.policies import POLICIES
    >>> find(POLICIES, "ucb-glm").__name__
    'UCBGLM'
    """
    return registry[_key(registry, name)]


def _key(registry: Mapping[str, object], name: str) -> str:
    unlisted = registry.unlisted if isinstance(registry, Registry) else {}
    wanted = _plain(name) if len(name) <= MAX_NAME else ""
    for key in chain(registry, unlisted):
        if _plain(key) == wanted:
            return key
    raise InputError(f"no {shorten(name)} is registered; there are {', '.join(registry)}")


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())


def _package(entry_point: "EntryPoint") -> str:
    distribution = entry_point.dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unknown package"
