"""Parts as data: a policy, tuner or environment as a JSON-ready dict of its name and parameters, and back.

>>> from syndicated.policies import POLICIES, LinUCB
>>> spec_of(LinUCB(dim=3, sigma=0.1))["sigma"]
0.1
>>> build(POLICIES, {"name": "LinUCB", "dim": 3}).dim
3
"""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from syndicated.errors import InputError
from syndicated.registry import find
from syndicated.space import Space

Spec = dict[str, Any]
T = TypeVar("T")


def spec_of(part: object) -> Spec:
    """The part's class name and constructor arguments."""
    names = inspect.signature(type(part)).parameters
    return {"name": type(part).__name__} | {name: _plain(getattr(part, name)) for name in names}


def build(registry: Mapping[str, type[T]], spec: Mapping[str, Any]) -> T:
    """The part that a spec describes."""
    arguments = dict(spec)
    cls = find(registry, str(arguments.pop("name")))
    known = inspect.signature(cls).parameters
    for name in arguments:
        if name not in known:
            raise InputError(f"{cls.__name__} has the parameters {', '.join(known) or 'none'}; got {name!r}")
    missing = [n for n, p in known.items() if p.default is p.empty and n not in arguments]
    if missing:
        raise InputError(f"{cls.__name__} needs {', '.join(missing)}")
    return cls(**{name: _rich(name, value) for name, value in arguments.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Space):
        return {name: list(values) for name, values in value.axes.items()}
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _rich(name: str, value: Any) -> Any:
    if name == "space" and isinstance(value, Mapping):
        return Space(**value)
    return tuple(value) if isinstance(value, list) else value
