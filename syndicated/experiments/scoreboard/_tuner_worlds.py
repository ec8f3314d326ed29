"""Every tuner on the same candidates, in small worlds of kinds that the board does not have."""

import inspect
from functools import cache
from typing import Any, NamedTuple

from syndicated.experiments._experiment import Experiment
from syndicated.experiments.scoreboard._worlds import BOARD_SEED, default_spec
from syndicated.spec import Spec
from syndicated.tuners import TUNERS
from syndicated.tuners._layers import LAYERS

TUNER_GROUP, UNTUNED = "Every tuner on the same candidates", "Uniform"
TUNER_ROUNDS, BALL_ROUNDS, TUNER_REPEATS = 1000, 200, 5  # the best arm of a ball takes a hundred times as long
CANDIDATES = {"boldness": [0.25, 1, 4, 16]}
_SIZE = {"dim": 5, "arms": 20}
_POLICY = {"name": "LinUCB", "dim": _SIZE["dim"]}
_LINEAR = {"name": "Linear", **_SIZE}


class _Kind(NamedTuple):
    """A kind of world: its environment, how rewards come, and which range of them tuners are told."""

    title: str
    environment: dict[str, Any]
    delay: int = 0
    lost: float = 0.0
    rewards: tuple[float, float] = (0.0, 1.0)
    rounds: int = TUNER_ROUNDS


_KINDS = {
    "tuners-linear": _Kind("linear", _LINEAR),
    "tuners-fixed": _Kind("fixed arms", {**_LINEAR, "fixed": True, "noise": 0.3}),
    "tuners-change": _Kind("theta changes", {**_LINEAR, "change": 300}),
    "tuners-drift": _Kind("theta drifts", {**_LINEAR, "drift": 500}),
    "tuners-late": _Kind("late and lost rewards", _LINEAR, delay=100, lost=0.3),
    "tuners-turnover": _Kind("arms come and go", {**_LINEAR, "fixed": True, "lifetime": 200}),
    "tuners-tails": _Kind("heavy tails", {**_LINEAR, "noise": 0.3, "tails": 2}),
    "tuners-spread": _Kind("noise by arm", {**_LINEAR, "spread": 2.0}),
    "tuners-cosine": _Kind("not linear", {**_LINEAR, "shape": "cosine"}),
    "tuners-clicks": _Kind("clicks of 1 %", {"name": "Logistic", **_SIZE, "rate": 0.01}),
    "tuners-revenue": _Kind("rare purchases", {"name": "Revenue", **_SIZE}, rewards=(0.0, 10.0)),
    "tuners-ball": _Kind("a ball of arms", {"name": "LinearArmSet", "dim": _SIZE["dim"]}, rounds=BALL_ROUNDS),
}


@cache
def tuner_worlds() -> list[Experiment]:
    """The worlds in which all tuners of this package meet, each with LinUCB."""
    return [_tuner_world(name, kind) for name, kind in _KINDS.items()]


def _tuner_world(name: str, kind: _Kind) -> Experiment:
    return Experiment(
        name=name,
        title=kind.title,
        environment=kind.environment,
        policy=_POLICY,
        tuners={label: {**spec, **_told(spec["name"], kind)} for label, spec in _tuners().items()},
        horizon=kind.rounds,
        repeats=TUNER_REPEATS,
        seed=BOARD_SEED,
        delay=kind.delay,
        lost=kind.lost,
        watched=False,
    )


def _tuners() -> dict[str, Spec]:
    """Every tuner, TwoLayer with every layer; Fixed plays what the policy advises, and Theory needs no candidates."""
    tuned = [name for name in TUNERS.built_in if name not in ("Fixed", "Theory")]
    layers = [layer for layer in LAYERS if layer != "EXP3"]
    return {
        "Theory": {"name": "Theory"},
        "Fixed": default_spec(_POLICY),
        **{name: {"name": name, "space": CANDIDATES} for name in tuned},
        **{f"TwoLayer, {each}": {"name": "TwoLayer", "space": CANDIDATES, "layer": each} for each in layers},
    }


def _told(tuner: str, kind: _Kind) -> Spec:
    """The range of rewards, if it is not 0 to 1 and the tuner takes it."""
    takes = "rewards" in inspect.signature(TUNERS[tuner]).parameters
    return {"rewards": list(kind.rewards)} if takes and kind.rewards != (0.0, 1.0) else {}
