"""Worlds drawn at random, on which nothing is chosen: where an agent with nothing set stands in them.

    python benchmarks/random_worlds.py --worlds 90 --repeats 8 --out results/random-worlds

A world is a pure function of its number: 1 to 30 features, 2 to 80 arms, 300 to 6,000 rounds; arms that are new in
every round, fixed, replaced or one-hot; noise from none to 1.5 times the range of rewards; and in most worlds one
trouble more. Syndicated, OP and Theory are told noise and range of the rewards, the others nothing. Tasks are kept, so
that an interrupted run goes on.
"""

import argparse
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from syndicated.experiments import Experiment, Result, collect, processes, run_experiments
from syndicated.experiments.scoreboard._worlds import default_spec

DEFAULT, BEST_FIXED = "Default", "best fixed boldness"
BOLDNESS = [0.25, 0.5, 1.0, 2.0, 4.0]
ALPHAS, LAMS = [0, 0.01, 0.1, 1, 10], [0.01, 0.1, 1]  # the paper's candidates
TOLD = ("Syndicated", "OP", "Theory")  # the players that are told noise and range
LIMIT = 1.3  # of these: a world above it is listed
Drawn = Mapping[str, Any]

# What three worlds in five have besides: arguments of the world, of which a few say something of the arms.
TROUBLES: list[Callable[[np.random.Generator, int], Drawn]] = [
    lambda rng, horizon: {"tails": int(rng.integers(2, 5))},
    lambda rng, horizon: {"spread": float(rng.uniform(1.0, 2.0))},
    lambda rng, horizon: {"outliers": float(rng.choice([0.001, 0.01]))},
    lambda rng, horizon: {"season": _log_uniform(rng, 0.05, 2.0)},
    lambda rng, horizon: {"trend": _log_uniform(rng, 0.3, 5.0) * 10_000 / horizon},
    lambda rng, horizon: {"change": horizon // int(rng.integers(2, 5))},
    lambda rng, horizon: {"drift": horizon // int(rng.integers(1, 4))},
    lambda rng, horizon: {"shape": str(rng.choice(["square", "cosine"]))},
    lambda rng, horizon: {"clicks": True, "low": 0.0, "high": float(rng.choice([0.05, 0.3, 1.0]))},
    lambda rng, horizon: {"unit": float(rng.choice([1e-6, 1e6]))},
    lambda rng, horizon: {"low": -500.0, "high": 1500.0},
    lambda rng, horizon: {"late": horizon // 3, "fixed": True},
    lambda rng, horizon: {"delay": int(rng.choice([20, 200]))},
]


def world(number: int, policy: str, repeats: int) -> Experiment:
    """The world of this number, with all players."""
    rng = np.random.default_rng([2022, number])
    horizon = round(_log_uniform(rng, 300, 6000))
    noise = 0.0 if rng.random() < 0.05 else _log_uniform(rng, 0.01, 1.5)
    drawn: dict[str, Any] = {"dim": _count(rng, 1, 30), "arms": _count(rng, 2, 80), "noise": noise}
    kind = rng.choice(["new", "fixed", "replaced", "one-hot"], p=[0.4, 0.3, 0.15, 0.15])
    if kind == "one-hot":
        drawn |= {"one_hot": True, "dim": drawn["arms"]}
    elif kind != "new":
        drawn |= {"fixed": True, "lifetime": horizon // 5 if kind == "replaced" else 0}
    if rng.random() < 0.6:
        drawn |= TROUBLES[rng.integers(len(TROUBLES))](rng, horizon)
    if drawn.get("one_hot"):
        drawn["fixed"] = False
    delay = drawn.pop("delay", 0)
    return _experiment(f"world-{number:03d}", drawn, policy, horizon, delay, repeats)


def _experiment(name: str, drawn: Drawn, policy: str, horizon: int, delay: int, repeats: int) -> Experiment:
    low, high = drawn.get("low", 0.0), drawn.get("high", 1.0)
    range_ = [0.0, 1.0] if drawn.get("clicks") else [low, high]
    told = {} if range_ == [0.0, 1.0] else {"rewards": range_}
    alone, plays = {"alpha": ALPHAS}, {"name": policy, "dim": drawn["dim"]}
    sigma = 0.5 if drawn.get("clicks") else max(drawn["noise"] * (high - low), 1e-9)
    return Experiment(
        name=name,
        title=", ".join(f"{key}={value:g}" if not isinstance(value, str) else value for key, value in drawn.items()),
        environment={"name": "Linear", **drawn},
        policy={**plays, "sigma": sigma},
        tuners={
            DEFAULT: default_spec(plays),
            "Syndicated": {"name": "Syndicated", "space": {**alone, "lam": LAMS}, **told},
            "OP": {"name": "OP", "space": alone, **told},
            "Theory": {"name": "Theory"},
            "Consensus": {"name": "Consensus"},
            **{f"boldness {c:g}": {"name": "Fixed", "space": {"boldness": [c]}} for c in BOLDNESS},
        },
        horizon=horizon,
        repeats=repeats,
        seed=90_001,
        delay=delay,
        watched=False,
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def _count(rng: np.random.Generator, low: int, high: int) -> int:
    return math.floor(_log_uniform(rng, low, high + 1))


def ratios(result: Result) -> dict[str, float]:
    """The default's mean regret as a multiple of every other player's, and of the best fixed boldness in hindsight."""
    means = {label: result.final(label).mean() for label in result.curves}
    fixed = [label for label in means if label.startswith("boldness")]
    means[BEST_FIXED] = min(means[label] for label in fixed)
    least = 1e-9 * result.experiment.horizon  # regrets that are nothing are equal
    return {label: (means[DEFAULT] + least) / (mean + least) for label, mean in means.items() if label != DEFAULT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=90, help="how many (default 90)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (default 0)")
    parser.add_argument("--repeats", type=int, default=8, help="seeds of each (default 8)")
    parser.add_argument("--policy", choices=["LinUCB", "LinTS"], default="LinUCB")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--out", type=Path, default=Path("results/random-worlds"), help="where tasks are kept")
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.worlds)
    experiments = [world(number, options.policy, options.repeats) for number in numbers]
    runs = run_experiments(experiments, options.out / "tasks", processes(options.jobs), lambda task: None)
    results = [collect(run.experiment, run.curves) for run in runs]
    found = {result.experiment.name: ratios(result) for result in results}
    print("| of | geometric mean | worlds above 1 | above 1.3 | largest |\n|---|---:|---:|---:|---:|")
    for label in next(iter(found.values())):
        values = np.array([own[label] for own in found.values()])
        middle = math.exp(np.log(values).mean())
        print(f"| {label} | {middle:.2f} | {(values > 1).sum()} | {(values > LIMIT).sum()} | {values.max():.2f} |")
    for result in results:
        own, regret = found[result.experiment.name], result.final(DEFAULT).mean()
        above = ", ".join(f"{own[label]:.2f} of {label}" for label in TOLD if own[label] > LIMIT)
        if above:
            size = f"{result.experiment.horizon} rounds, delay {result.experiment.delay}, regret {regret:.3g}"
            print(f"{result.experiment.name}: {result.experiment.title}; {size}: {above}")


if __name__ == "__main__":
    main()
