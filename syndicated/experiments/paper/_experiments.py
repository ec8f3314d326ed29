"""The paper's experiments, as data. Published numbers are mean and standard deviation, as Table 1 prints them."""

import math
from collections.abc import Mapping
from typing import Any

from syndicated.experiments._experiment import Experiment
from syndicated.spec import Spec

ALPHAS = [0, 0.01, 0.1, 1, 10]
LAMS = [0.01, 0.1, 1]
ETAS = [0.01, 0.1, 1, 10]
CANDIDATES = {"alpha": ALPHAS, "lam": LAMS, "eta0": ETAS, "alpha1": ALPHAS, "alpha2": ALPHAS}
ALPHA_GRID = [i / 2 for i in range(21)]


def _tuners(one: Mapping[str, Any], all_: Mapping[str, Any]) -> dict[str, Spec]:
    """The paper's methods; OP, Corral and TL tune one hyper-parameter, the others all."""
    return {
        "OP": {"name": "OP", "space": one},
        "Corral": {"name": "Corral", "space": one},
        "Corral-Combined": {"name": "Corral", "space": all_},
        "TL": {"name": "TwoLayer", "space": one},
        "TL-Combined": {"name": "TwoLayer", "space": all_},
        "Syndicated": {"name": "Syndicated", "space": all_},
    }


def _table1(policy: str, features: str, published: Mapping[str, tuple[float, float]]) -> Experiment:
    return Experiment(
        name=f"table1-{policy}-{features}".lower(),
        title=f"{policy}, {features} features",
        environment={"name": "Linear", "dim": 5, "noise": 0.5, "fixed": features == "fixed"},
        policy={"name": policy, "dim": 5, "intercept": False, "sigma": 0.5},
        tuners={f"alpha={a}": {"name": "Fixed", "space": {"alpha": [a]}} for a in ALPHA_GRID}
        | {"Theory": {"name": "Theory"}},
        repeats=5,
        published=published,
    )


TABLE1 = [
    _table1("LinUCB", "fixed", {"alpha=4.0": (357.21, 188.72), "Theory": (364.99, 151.54)}),
    _table1("LinUCB", "changing", {"alpha=1.5": (312.69, 42.53), "Theory": (582.59, 523.60)}),
    _table1("LinTS", "fixed", {"alpha=1.5": (336.44, 137.01), "Theory": (576.83, 110.48)}),
    _table1("LinTS", "changing", {"alpha=3.5": (352.79, 109.84), "Theory": (488.99, 141.34)}),
]

_EXPLORE = {"Theory": {"name": "Theory"}} | _tuners({"alpha": ALPHAS}, {"alpha": ALPHAS, "lam": LAMS})
_STEP = _tuners({"eta0": ETAS}, {"eta0": ETAS, "alpha1": ALPHAS, "alpha2": ALPHAS})
_LINEAR: Spec = {"name": "Linear", "dim": 10, "noise": 0.1}
_LOGISTIC: Spec = {"name": "Logistic", "dim": 10}
_RATINGS: Spec = {"name": "MovieLens", "model": "linear"}
_LIKES: Spec = {"name": "MovieLens", "model": "logistic"}
_MAX_MOVIE_NORM = 3.5927  # of a movie's features; in the simulations it is 1 or sqrt(d) by construction


def _panel(place: str, label: str, environment: Spec, tuners: Mapping[str, Spec], **policy: Any) -> Experiment:
    name = label.replace("-", "")
    return Experiment(
        name=f"{place}-{name}".lower(),
        title=f"{label}, {place}",
        environment=environment,
        policy={"name": name, "intercept": False, **policy},
        tuners=tuners,
    )


FIGURE2 = [
    _panel("simulation", "LinUCB", _LINEAR, _EXPLORE, dim=10, sigma=0.1),
    _panel("simulation", "LinTS", _LINEAR, _EXPLORE, dim=10, sigma=0.1),
    _panel("simulation", "UCB-GLM", _LOGISTIC, _EXPLORE, dim=10, L=math.sqrt(10), ridge="inverse"),
    _panel("MovieLens", "LinUCB", _RATINGS, _EXPLORE, dim=20, sigma=1.0, L=_MAX_MOVIE_NORM),
    _panel("MovieLens", "LinTS", _RATINGS, _EXPLORE, dim=20, sigma=1.0, L=_MAX_MOVIE_NORM),
    _panel("MovieLens", "UCB-GLM", _LIKES, _EXPLORE, dim=20, L=_MAX_MOVIE_NORM, ridge="inverse"),
]

FIGURE3 = [
    _panel("simulation", "SGD-TS", _LOGISTIC, _STEP, dim=10),
    _panel("MovieLens", "SGD-TS", _LIKES, _STEP, dim=20),
]

PAPER = {"table1": TABLE1, "figure2": FIGURE2, "figure3": FIGURE3}
