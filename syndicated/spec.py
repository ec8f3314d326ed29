"""Parts as data: a policy, tuner or environment as a JSON-ready dict of its name and parameters, and back.

>>> from syndicated.policies import POLICIES, LinUCB
>>> spec_of(LinUCB(dim=3, sigma=0.1))["sigma"]
0.1
>>> build(POLICIES, {"name": "LinUCB", "dim": 3}).dim
3
>>> complete({"name": "LinUCB", "dim": 3}, {"name": "Uniform"})[1]
{'name': 'Uniform', 'space': {'boldness': [1.0, 2.0, 4.0]}}
"""

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from syndicated._validation import shorten
from syndicated.errors import InputError
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.space import Space
from syndicated.tuners import TUNERS

__all__ = ["Spec", "build", "spec_of"]

Spec = dict[str, Any]
T = TypeVar("T")


def spec_of(part: object) -> Spec:
    """The part's class name and constructor arguments."""
    names = inspect.signature(type(part)).parameters
    return {"name": type(part).__name__} | {name: _plain(getattr(part, name)) for name in names}


def text_of(part: object) -> str:
    """The part as it would be written, without the arguments that have their default.

    >>> from syndicated.policies import LinUCB
    >>> text_of(LinUCB(dim=3, sigma=0.1))
    'LinUCB(dim=3, sigma=0.1)'
    """
    known = inspect.signature(type(part)).parameters
    said = [f"{n}={getattr(part, n)!r}" for n, p in known.items() if getattr(part, n) != p.default]
    return f"{type(part).__name__}({', '.join(said)})"


def build(registry: Mapping[str, type[T]], spec: Mapping[str, Any]) -> T:
    """The part that a spec describes."""
    arguments = dict(spec)
    cls = find(registry, str(arguments.pop("name")))
    known = inspect.signature(cls).parameters
    for name in arguments:
        if name not in known:
            raise InputError(f"{cls.__name__} has the parameters {', '.join(known) or 'none'}; got {shorten(name)}")
    missing = [n for n, p in known.items() if p.default is p.empty and n not in arguments]
    if missing:
        raise InputError(f"{cls.__name__} needs {', '.join(missing)}")
    return cls(**{name: _rich(name, value) for name, value in arguments.items()})


def takes(registry: Mapping[str, type[Any]], name: str, argument: str) -> bool:
    """Whether the part of this name has such a constructor argument."""
    return argument in inspect.signature(find(registry, name)).parameters


def complete(
    policy: Mapping[str, Any],
    tuner: Mapping[str, Any],
    *,
    space: Mapping[str, Any] | None = None,
    horizon: int | None = None,
) -> tuple[Spec, Spec]:
    """The specs of a policy and its tuner with everything said that decides what they do.

    The horizon goes to the parts that take one and do not say their own. A tuner that takes a space has its own, or
    this one, or else the policy's default candidates.
    """
    policy, tuner = _with_horizon(POLICIES, policy, horizon), _with_horizon(TUNERS, tuner, horizon)
    if "space" in tuner or not takes(TUNERS, tuner["name"], "space"):
        return policy, tuner
    return policy, {**tuner, "space": _plain(build(POLICIES, policy).space if space is None else space)}


def _with_horizon(registry: Mapping[str, type[Any]], spec: Mapping[str, Any], horizon: int | None) -> Spec:
    default = horizon is not None and takes(registry, spec["name"], "horizon")
    return {"horizon": horizon, **spec} if default else dict(spec)


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
