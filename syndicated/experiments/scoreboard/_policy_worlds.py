"""Every policy as an agent plays it with nothing set, in a few small worlds."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from syndicated.experiments._experiment import Experiment
from syndicated.experiments.scoreboard._worlds import BOARD_SEED, default_spec
from syndicated.policies import POLICIES
from syndicated.spec import Spec, build

POLICY_GROUP, BASE_POLICY = "Every policy with nothing set", "LinUCB"
POLICY_ROUNDS, POLICY_REPEATS = 1000, 5
_SIZE = {"dim": 5, "arms": 20}
_CLICKS = (0.0, 1.0)
SLOW_POLICIES = ("GPTS", "IGPUCB")  # a round costs them a hundred times as much as others
SLOW_WORLDS = ("policies-linear", "policies-clicks")  # where these play
_WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "policies-linear": ("linear, changing arms", {"name": "Linear", **_SIZE}),
    "policies-fixed": ("linear, fixed arms", {"name": "Linear", **_SIZE, "fixed": True, "noise": 0.3}),
    "policies-drift": ("linear, theta changes", {"name": "Linear", **_SIZE, "change": 300}),
    "policies-clicks": ("clicks, logistic", {"name": "Logistic", **_SIZE}),
}


@cache
def policy_worlds() -> list[Experiment]:
    """The worlds in which the policies of this package meet, as far as their rewards and their cost allow it."""
    specs = [{"name": name, "dim": _SIZE["dim"]} for name in POLICIES.built_in]
    return [_policy_world(name, specs) for name in _WORLDS]


def _policy_world(name: str, specs: list[Spec]) -> Experiment:
    title, environment = _WORLDS[name]
    playing = {spec["name"]: spec for spec in specs if _plays(spec, name, environment)}
    return Experiment(
        name=name,
        title=title,
        environment=environment,
        policy=playing[BASE_POLICY],
        policies=playing,
        tuners={label: default_spec(spec) for label, spec in playing.items()},
        horizon=POLICY_ROUNDS,
        repeats=POLICY_REPEATS,
        seed=BOARD_SEED,
        watched=False,
    )


def _plays(spec: Spec, world: str, environment: Mapping[str, Any]) -> bool:
    if spec["name"] in SLOW_POLICIES and world not in SLOW_WORLDS:
        return False
    return environment["name"] == "Logistic" or build(POLICIES, spec).rewards != _CLICKS
