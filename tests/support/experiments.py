"""Experiments that are small, and results that are made up."""

from dataclasses import replace

import numpy as np

from syndicated.experiments import Curve, Experiment, Result
from syndicated.experiments.paper import PAPER
from syndicated.experiments.paper._experiments import ALPHA_GRID
from syndicated.spec import build
from syndicated.tuners import TUNERS
from syndicated.types import Array

SMALL = Experiment(
    name="small",
    title="a small one",
    environment={"name": "Linear", "dim": 3, "arms": 5},
    policy={"name": "LinUCB", "dim": 3},
    tuners={
        "TL": {"name": "TwoLayer", "space": {"alpha": [0.1, 1]}},
        "Theory": {"name": "Theory"},
        "Corral": {"name": "Corral", "space": {"alpha": [0.1, 1]}},
    },
    horizon=50,
    repeats=3,
)
FAILING_EXPERIMENT = replace(
    SMALL, name="never", policy={"name": "UCBGLM", "dim": 3}, environment={"name": "Linear", "dim": 3, "noise": 9}
)
ROUNDS = np.array([1.0, 50.0, 100.0])
# Some panels of each kind stand for all, since drawing takes most of the time.
PANELS = {"table1": PAPER["table1"][:2], "figure2": PAPER["figure2"][::3], "figure3": PAPER["figure3"][-1:]}


def timeless(curves: list[Curve]) -> list[Curve]:
    """Curves without the time they took, the one thing in them that may differ between runs."""
    return [{**curve, "seconds": 0.0} for curve in curves]


def made_up(**finals: list[float]) -> Result:
    curves = {label: np.array([[0.0, value] for value in values]) for label, values in finals.items()}
    experiment = replace(SMALL, tuners={label: {"name": "Theory"} for label in finals}, published={"A": (10.0, 1.0)})
    zeros = {label: np.zeros_like(values) for label, values in curves.items()}
    return Result(experiment, np.array([1, 50]), curves, warmup=zeros, tuning=zeros, traces={}, seconds=0.0)


def made(experiment: Experiment, finals: dict[str, list[float]]) -> Result:
    """A result with these final regrets; a quarter of each is warm-up, an eighth is saved by tuning."""
    tuners = {label: np.array(finals[label])[:, None] * ROUNDS / 100 for label in experiment.tuners}
    repeats = len(next(iter(finals.values())))
    return Result(
        experiment=replace(experiment, repeats=repeats),
        rounds=ROUNDS,
        curves=tuners,
        warmup={label: curves / 4 for label, curves in tuners.items()},
        tuning={label: -curves / 8 for label, curves in tuners.items()},
        traces={label: uniform(experiment, label) for label in experiment.tuners},
        seconds=75.0,
    )


def uniform(experiment: Experiment, label: str) -> list[Array]:
    axes = build(TUNERS, experiment.tuners[label]).axes()
    return [np.full((len(ROUNDS), len(axis)), 1 / len(axis)) for axis in axes]


def spread(experiment: Experiment) -> dict[str, list[float]]:
    """Regrets of 10, 20, ... in the order of the tuners, the same in 6 repeats except for a small step."""
    return {label: [10.0 * (i + 1) + r for r in range(6)] for i, label in enumerate(experiment.tuners)}


def sections() -> dict[str, list[Result]]:
    return {name: [made(e, spread(e)) for e in experiments] for name, experiments in PANELS.items()}


def grid(best: float, theory: float, noise: float = 0.0) -> dict[str, list[float]]:
    """Regret grows with the distance from the best alpha; with noise all of the grid is about the same."""
    finals = {f"alpha={a}": [10 + (noise or abs(a - best)) + noise * ((r + i) % 3) for r in range(6)]
              for i, a in enumerate(ALPHA_GRID)}  # fmt: skip
    return finals | {"Theory": [theory] * 6}
