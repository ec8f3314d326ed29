"""Bandits of many kinds, and requests that fit them."""

from typing import Any

import numpy as np

from syndicated.service.bandits.messages import Arm, DecideRequest

SPECS: list[dict[str, Any]] = [
    {"policy": {"name": "LinUCB"}, "tuner": {"name": "Syndicated", "horizon": 500}, "space": {"alpha": [0.1, 1.0]}},
    {"policy": {"name": "LinTS"}, "window": 30.0, "default_reward": 0.0, "floor": 0.2},
    {"policy": {"name": "UCBGLM"}, "tuner": {"name": "Corral", "horizon": 500}, "space": {"alpha": [0.1, 1.0]}},
    {"policy": {"name": "SGDTS", "tau": 5}, "window": 30.0, "aggregate": "last", "holdout": 0.1},
    {"policy": {"name": "LinUCB"}, "deferred": True, "mode": "apprentice"},
    {"features": {"kind": "open", "dim": 4}, "log": "all", "floor": 0.1},
    {"features": {"kind": "fields", "context": {"hour": "number"}}, "tuner": {"name": "Corral", "horizon": 500}},
]
NAMED = ("b5", "b6")  # bandits with named arms


def request_for(name: str, rng: np.random.Generator) -> DecideRequest:
    """A request with arms that fit the bandit."""
    if name in NAMED:
        given: list[str | Arm] = [f"arm{k}" for k in rng.permutation(9)[:4]]
        context = {"hour": float(rng.integers(24))} if rng.random() < 0.8 else None
        return DecideRequest(arms=given, context=context)
    arms: list[str | Arm] = [Arm(str(k), x=row) for k, row in enumerate(rng.normal(size=(4, 3)).tolist())]
    return DecideRequest(arms=arms)
