"""What the checks of policies, tuners and environments share."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from syndicated._learner import Learner
from syndicated.space import Space
from syndicated.spec import build, spec_of

DIM = 3
SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 10.0])
SIGMAS = 4.5  # how far an average may be from what is stated: a right one is farther once in 100,000 seeds


def checks_of(namespace: Mapping[str, object], make: object) -> tuple[Callable[[Any], None], ...]:
    """The checks in a module that take such a factory: found, not listed, so that none is forgotten."""
    functions = [f for name, f in namespace.items() if inspect.isfunction(f) and not name.startswith("_")]
    return tuple(f for f in functions if f.__annotations__ == {"make": make, "return": None})


def holds(statement: object, reason: str) -> None:
    """An assertion that also python -O makes."""
    if not statement:
        raise AssertionError(reason)


def state_of(learner: Learner) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in learner.state().items()}


def parameters_of(part: object) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in fields(part) if f.init}  # type: ignore[arg-type]


def another(value: float, place: int) -> float:
    """Another value of the same type, different for every place."""
    if isinstance(value, bool):
        return not value
    return value + 1 + place if isinstance(value, int) else value * (0.9 - 0.01 * place)


def parameters_round_trip(part: object) -> None:
    """Every argument lands in its own parameter, and the spec describes the whole part."""
    numbers = {name: value for name, value in parameters_of(part).items() if isinstance(value, (int, float))}
    given = {name: another(value, place) for place, (name, value) in enumerate(numbers.items())}
    changed = replace(part, **given)  # type: ignore[type-var]
    for name, value in given.items():
        holds(getattr(changed, name) == value, f"{name}={value} became {getattr(changed, name)}")
    again = build({type(part).__name__: type(part)}, json.loads(json.dumps(spec_of(changed))))
    holds(parameters_of(again) == parameters_of(changed), f"{changed} came back from its spec as {again}")


def restores_to_the_bit(learner: Learner, twin: Learner, go_on: Callable[[Any], object]) -> None:
    saved = learner.state()
    content = state_of(learner)
    twin.restore(saved)
    holds(state_of(twin) == content, "a restored state is not the saved one")
    holds(go_on(learner) == go_on(twin), "a restored twin goes on otherwise")
    holds(state_of(twin) == state_of(learner), "a restored twin learns otherwise")
    for name, array in saved.items():
        holds(array.tobytes() == content[name][2], f"after a restore, learning writes into the saved {name!r}")


def has_no_history(fresh: Learner, new: Learner, old: Learner, go_on: Callable[[Any], object]) -> None:
    before = state_of(old)
    holds(state_of(fresh) == state_of(new), "fresh() remembers")
    holds(fresh.params() == old.params(), "fresh() has other parameters")
    go_on(fresh)
    holds(state_of(old) == before, "what fresh() gives shares its state with the old one")


def twins_agree(make: Callable[[], Learner], go_on: Callable[..., object]) -> None:
    """What one gives and becomes, its twin does, whatever a third did in between."""
    one, between, other = make(), make(), make()
    given = go_on(one)
    go_on(between, start=500)
    holds(go_on(other) == given, "two with the same history answer otherwise")
    holds(state_of(one) == state_of(other), "two with the same history differ")
