"""The board, or a part of it."""

import inspect
from collections.abc import Collection
from dataclasses import replace

from syndicated.errors import InputError
from syndicated.experiments._experiment import Experiment
from syndicated.experiments.scoreboard._arm_worlds import ARM_GROUP, arm_worlds
from syndicated.experiments.scoreboard._small_sections import SECTIONS
from syndicated.experiments.scoreboard._worlds import BASE_TUNER, BOARD, labels, only
from syndicated.spec import Spec
from syndicated.tuners import TUNERS


def choose(worlds: Collection[str] = (), tuners: Collection[str] = ()) -> dict[str, list[Experiment]]:
    """The board, or only these worlds and these tuners, with the tuner that all are compared with.

    A tuner of another package is not on the board; it joins when it is named. The small worlds, of all policies, of all
    tuners and of named arms, are there unless tuners are named.
    """
    small = {section.group: section.worlds() for section in SECTIONS} | {ARM_GROUP: arm_worlds()}
    whole = {**BOARD, **small}
    _check("world", worlds, [each.name for group in whole.values() for each in group])
    _check("tuner", tuners, [*labels(), *(name for name in TUNERS if name not in (*labels(), "Fixed", "TwoLayer"))])
    guests = [name for name in tuners if name not in labels()]
    chosen = {
        group: [_joined(only(each, tuners), guests) for each in experiments if not worlds or each.name in worlds]
        for group, experiments in BOARD.items()
    }
    for group, experiments in ({} if tuners else small).items():
        chosen[group] = [each for each in experiments if not worlds or each.name in worlds]
    return {group: experiments for group, experiments in chosen.items() if experiments}


def _check(what: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(f"the board has no {what} {name!r}; it has {', '.join(known)}")


def _joined(experiment: Experiment, guests: Collection[str]) -> Experiment:
    """The experiment with guests too. Like our tuner, they play with the policy's defaults and its own space."""
    as_it_comes = {**experiment.policy, "intercept": True}
    specs = {name: {"name": name, **_told(experiment, name)} for name in guests}
    policies = {**experiment.policies, **dict.fromkeys(guests, as_it_comes)}
    return replace(experiment, tuners={**experiment.tuners, **specs}, policies=policies)


def _told(experiment: Experiment, tuner: str) -> Spec:
    """The range of rewards, if the board's tuners are told it here and this tuner takes it."""
    rewards = experiment.tuners[BASE_TUNER].get("rewards")
    takes = "rewards" in inspect.signature(TUNERS[tuner]).parameters
    return {"rewards": rewards} if rewards is not None and takes else {}
