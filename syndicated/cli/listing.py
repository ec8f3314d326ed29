"""`syndicated list`: what is registered, each with the first line of its documentation."""

import argparse
import sys
from typing import Any

from syndicated.environments import ENVIRONMENTS
from syndicated.errors import InputError
from syndicated.policies import POLICIES
from syndicated.registry import Registry
from syndicated.tuners import TUNERS


def add_list(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_list)


def _list(options: argparse.Namespace) -> None:
    registries: dict[str, Registry[Any]] = {"policies": POLICIES, "tuners": TUNERS, "environments": ENVIRONMENTS}
    for title, registry in registries.items():
        print(title)
        width = max(map(len, registry))
        for name in registry:
            _list_class(registry, name, width)
        for reason in registry.refused():
            print(f"syndicated: {reason}", file=sys.stderr)


def _list_class(registry: Registry[Any], name: str, width: int) -> None:
    """One line: the name, what it is, and the package unless it is this one. A broken plug-in does not end the list."""
    try:
        first = (registry[name].__doc__ or "").split("\n")[0]
    except InputError as error:
        print(f"syndicated: {error}", file=sys.stderr)
        return
    package = registry.package(name)
    print(f"  {name:<{width}}  {first}" + (f" ({package})" if package else ""))
