"""Named arms with contexts: what `Agent()` plays there, and the same without each of its parts."""

from functools import cache
from typing import Any

from syndicated.experiments._experiment import Experiment
from syndicated.experiments.scoreboard._worlds import (
    BOARD_SEED,
    NO_INTERCEPT,
    NO_LINK,
    NO_PARTS,
    OUR_TUNER,
    default_spec,
)
from syndicated.policies import ArmUCB

ARM_GROUP = "Named arms, ArmUCB"
ARM_ROUNDS, ARM_REPEATS = 3000, 20
_SIZE = {"dim": 4, "arms": 10}
_ALIKE = {**_SIZE, "fixed": True, "noise": 0.3}
# The name of a world, its title, what is not as usual in it, and after how many rounds rewards come.
_WORLDS: list[tuple[str, str, dict[str, Any], int]] = [
    ("arms-contexts", "contexts", _SIZE, 0),
    ("arms-clicks", "contexts, clicks of 2 to 20 %", {**_SIZE, "low": 0.02, "high": 0.2, "clicks": True}, 0),
    ("arms-money", "contexts, from 0 to 1,000, outliers", {**_SIZE, "high": 1000, "outliers": 0.002}, 0),
    ("arms-season", "contexts, a season moves all rewards", {**_SIZE, "season": 0.5}, 0),
    ("arms-change", "contexts, arms change at unknown times", {**_SIZE, "change": 1000}, 0),
    ("arms-many", "contexts, 100 arms", {**_SIZE, "arms": 100}, 0),
    ("arms-delay", "contexts, rewards 500 rounds late", _SIZE, 500),
    ("arms-alike", "no contexts", _ALIKE, 0),
    ("arms-alike-clicks", "no contexts, clicks of 2 to 20 %", {**_ALIKE, "low": 0.02, "high": 0.2, "clicks": True}, 0),
    ("arms-alike-late", "no contexts, the worst arm becomes the best", {**_ALIKE, "late": 1000}, 0),
    ("arms-alike-change", "no contexts, arms change at unknown times", {**_ALIKE, "change": 1000}, 0),
    ("arms-alike-delay", "no contexts, rewards 500 rounds late", _ALIKE, 500),
]


@cache
def arm_worlds() -> list[Experiment]:
    """The worlds of named arms."""
    policy = {"name": "ArmUCB", "dim": _SIZE["dim"]}
    parts = {label: {**policy, "without": [part]} for label, part in NO_PARTS.items() if part in ArmUCB.parts}
    policies = {NO_INTERCEPT: {**policy, "intercept": False}, NO_LINK: {**policy, "link": "linear"}, **parts}
    return [
        Experiment(
            name=name,
            title=title,
            environment={"name": "Contexts", **world},
            policy=policy,
            policies=policies,
            tuners=dict.fromkeys([OUR_TUNER, *policies], default_spec(policy)),
            horizon=ARM_ROUNDS,
            repeats=ARM_REPEATS,
            seed=BOARD_SEED,
            delay=delay,
            watched=False,
        )
        for name, title, world, delay in _WORLDS
    ]
