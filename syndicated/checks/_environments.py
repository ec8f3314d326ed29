"""What every environment must make true; `make` is called with nothing."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from syndicated._validation import shorten
from syndicated.arm_sets import ArmSet
from syndicated.checks._common import (
    SIGMAS,
    checks_of,
    holds,
    parameters_round_trip,
)
from syndicated.environments import Environment, Round
from syndicated.types import Array, NamedArms

MakeEnvironment = Callable[[], Environment]


def _contents(rounds: Iterable[Round]) -> list[bytes]:
    return [b"".join(array.tobytes() for array in _arrays(seen)) for seen in rounds]


def _arrays(seen: Round) -> tuple[Array, ...]:
    """What a round is: its arms, of an arm set those at its ends, their means and rewards."""
    arms = seen.arms.best(np.eye(seen.arms.dim)) if isinstance(seen.arms, ArmSet) else _table(seen)
    return arms, seen.means, seen.rewards


def _table(seen: Round) -> Any:
    """The features or the numbers of its arms, or an arm set."""
    return seen.arms.x if isinstance(seen.arms, NamedArms) else seen.arms


def rounds_have_the_stated_shape(make: MakeEnvironment) -> None:
    world = make()
    rounds, catalogue = list(world.rounds(1, 5)), world.catalogue()
    holds(len(rounds) == 5, f"a horizon of 5 gave {len(rounds)} rounds")
    for seen in rounds:
        if isinstance(seen.arms, ArmSet):
            holds(world.arms == 0, f"a world of arm sets has 0 arms; got {world.arms}")
            holds(seen.arms.dim == world.dim, f"the arm set has dimension {seen.arms.dim}")
        elif catalogue is None:
            holds(_table(seen).shape == (world.arms, world.dim), f"features have shape {_table(seen).shape}")
            ids = seen.arms.ids if isinstance(seen.arms, NamedArms) else range(world.arms)
            holds(len(set(ids)) == world.arms, f"{world.arms} arms need as many different ids; got {shorten(ids)}")
        else:
            holds(_table(seen).shape == (world.arms,), f"numbers of arms have shape {_table(seen).shape}")
            holds(set(_table(seen).tolist()) <= set(range(len(catalogue))), "an arm is not in the catalogue")
        entries = (world.arms or 1,)
        holds(seen.means.shape == seen.rewards.shape == entries, "means and rewards need one entry an arm")
        holds(all(np.isfinite(array).all() for array in _arrays(seen)), "not all numbers are finite")


def same_seed_same_world(make: MakeEnvironment) -> None:
    holds(_contents(make().rounds(1, 20)) == _contents(make().rounds(1, 20)), "the same seed gave another world")


def another_seed_another_world(make: MakeEnvironment) -> None:
    pairs = zip(make().rounds(1, 20), make().rounds(2, 20), strict=True)
    holds(not any(np.array_equal(one.means, other.means) for one, other in pairs), "two seeds gave the same means")


def rounds_do_not_depend_on_the_horizon(make: MakeEnvironment) -> None:
    short, long = _contents(make().rounds(1, 20)), _contents(make().rounds(1, 40))
    holds(short == long[:20], "the first rounds depend on the horizon")


def players_cannot_change_the_rounds(make: MakeEnvironment) -> None:
    world = make()
    before = _contents(world.rounds(1, 20))
    for seen, other, content in zip(world.rounds(1, 20), world.rounds(1, 20), before, strict=True):
        holds(_contents([seen, other]) == [content, content], "two players of one world meet different rounds")
        for array in (_table(seen), seen.means, seen.rewards):
            if isinstance(array, np.ndarray):  # an arm set cannot be changed
                array[:] = 0
    holds(_contents(world.rounds(1, 20)) == before, "what one player writes into a round, the next one meets")


def rewards_have_the_stated_means(make: MakeEnvironment) -> None:
    errors = []
    for seen in (seen for seed in range(1, 6) for seen in make().rounds(seed, 400)):
        error, centred = seen.rewards - seen.means, seen.means - seen.means.mean()
        errors.append([error[0], error.mean(), error @ centred / max(np.linalg.norm(centred), 1e-9)])
    mean, spread = np.mean(errors, axis=0), np.std(errors, axis=0) / math.sqrt(len(errors))
    holds((np.abs(mean) <= SIGMAS * spread + 1e-12).all(), f"rewards are off their means by {mean}, spread {spread}")


def parameters_of_environments_round_trip(make: MakeEnvironment) -> None:
    parameters_round_trip(make())


ENVIRONMENT_CHECKS = checks_of(globals(), MakeEnvironment)
