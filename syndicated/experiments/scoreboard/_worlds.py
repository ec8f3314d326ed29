"""The standing comparison as data: every tuner in every kind of world, on seeds that the paper does not use.

In a world that is played as in the paper, all other tuners play with the paper's setting of the policy. Consensus and
its ablations play with the policy's defaults, which include an intercept.
"""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from syndicated.errors import InputError
from syndicated.experiments._experiment import Experiment
from syndicated.experiments.paper._experiments import ALPHAS, ETAS, FIGURE2, FIGURE3, LAMS, TABLE1
from syndicated.space import Space
from syndicated.spec import Spec
from syndicated.tuners import TUNERS

BOARD_SEED = 1001
BOARD_REPEATS, MOVIELENS_REPEATS = 20, 8
OUR_TUNER, BASE_TUNER, RIVAL_TUNER, BEST_FIXED = "Consensus", "Syndicated", "OP", "Best fixed"
# How much each part of Consensus contributes: Consensus under other labels, with changed arguments.
ABLATIONS: dict[str, Spec] = {
    "no sharing": {"name": "Consensus", "sharing": False},
    "no baseline": {"name": "Consensus", "baseline": False},
    "a floor of 10%": {"name": "Consensus", "floor": 0.1},
    "fixed rate 0.05": {"name": "Consensus", "rate": 0.05},
    "no tuner, boldness 2": {"name": "Fixed", "space": {"boldness": [2]}},
    "Syndicated on our space": {"name": "Syndicated", "space": {"boldness": [1, 2, 4]}},
}
# One world of each kind, so that the board takes less than an hour.
ABLATED_WORLDS = ("linucb-intercept", "fixed-paper", "ucbglm-paper", "movielens-linucb", "drift")

_PAPER = {experiment.name: experiment for experiment in [*TABLE1, *FIGURE2, *FIGURE3]}
_EXPLORE = {"alpha": ALPHAS, "lam": LAMS}
# By policy: what all tuners tune, the one hyper-parameter of OP, Corral and TL, and the fixed candidates.
_SPACES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "LinUCB": (_EXPLORE, "alpha", {"alpha": ALPHAS, "lam": [1]}),
    "LinTS": (_EXPLORE, "alpha", {"alpha": ALPHAS, "lam": [1]}),
    "UCBGLM": (_EXPLORE, "alpha", {"alpha": ALPHAS, "lam": [1]}),
    "SGDTS": (
        {"eta0": ETAS, "alpha1": ALPHAS, "alpha2": ALPHAS},
        "eta0",
        {"eta0": ETAS, "alpha1": [0.1], "alpha2": [0]},
    ),
}


def _tuners(policy: str, told: Mapping[str, Any]) -> dict[str, Spec]:
    """The tuners of every world. `told` are arguments for the tuners that must know the range of rewards."""
    all_, one, fixed = _SPACES[policy]
    alone = {one: all_[one]}
    return {
        OUR_TUNER: {"name": "Consensus"},
        BASE_TUNER: {"name": "Syndicated", "space": all_, **told},
        "TL-Combined": {"name": "TwoLayer", "space": all_, **told},
        "TL": {"name": "TwoLayer", "space": alone, **told},
        RIVAL_TUNER: {"name": "OP", "space": alone, **told},
        "Corral": {"name": "Corral", "space": alone, **told},
        "Theory": {"name": "Theory"},
        "Uniform": {"name": "Uniform", "space": all_},
        **{_label(point): {"name": "Fixed", "space": _single(point)} for point in Space(**fixed).points},
    }


def _label(point: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in point.items())


def _single(point: Mapping[str, float]) -> dict[str, list[float]]:
    return {name: [value] for name, value in point.items()}


def _world(
    name: str,
    title: str,
    source: str,
    world: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    told: Mapping[str, Any] | None = None,
    delay: int = 0,
) -> Experiment:
    """One of the paper's experiments, with some arguments of its world and its policy changed."""
    paper = _PAPER[source]
    plays = {**paper.policy, **(policy or {})}
    ablations = ABLATIONS if name in ABLATED_WORLDS else {}
    return Experiment(
        name=name,
        title=title,
        environment={**paper.environment, **(world or {})},
        policy=plays,
        tuners=_tuners(plays["name"], told or {}) | ablations,
        policies={label: {**plays, "intercept": True} for label in (OUR_TUNER, *ablations)},
        repeats=MOVIELENS_REPEATS if paper.environment["name"] == "MovieLens" else BOARD_REPEATS,
        seed=BOARD_SEED,
        delay=delay,
        watched=False,
    )


_INTERCEPT = {"intercept": True}
BOARD: dict[str, list[Experiment]] = {
    "Linear, changing arms": [
        _world("linucb-paper", "LinUCB, as in the paper", "simulation-linucb"),
        _world("linucb-intercept", "LinUCB, with intercept", "simulation-linucb", policy=_INTERCEPT),
        _world("linucb-unshifted", "LinUCB, rewards not shifted", "simulation-linucb", world={"shift": False}),
        _world("lints-paper", "LinTS, as in the paper", "simulation-lints"),
        _world("lints-intercept", "LinTS, with intercept", "simulation-lints", policy=_INTERCEPT),
    ],
    "Linear, fixed arms": [
        _world("fixed-paper", "LinUCB, fixed arms of Table 1", "table1-linucb-fixed"),
        _world("fixed-unshifted", "LinUCB, fixed arms, not shifted", "table1-linucb-fixed", world={"shift": False}),
    ],
    "Logistic": [
        _world("ucbglm-paper", "UCB-GLM, as in the paper", "simulation-ucbglm"),
        _world("sgdts-paper", "SGD-TS, as in the paper", "simulation-sgdts"),
    ],
    "MovieLens": [
        _world("movielens-linucb", "LinUCB, MovieLens", "movielens-linucb"),
        _world("movielens-lints", "LinTS, MovieLens", "movielens-lints"),
        _world("movielens-ucbglm", "UCB-GLM, MovieLens", "movielens-ucbglm"),
        _world("movielens-sgdts", "SGD-TS, MovieLens", "movielens-sgdts"),
    ],
    "Harder, LinUCB with intercept": [
        _world("drift", "theta changes at unknown times", "simulation-linucb", {"change": 2500}, _INTERCEPT),
        _world(
            "range",
            "rewards in [-50, 200]",
            "simulation-linucb",
            world={"low": -50, "high": 200},
            policy={**_INTERCEPT, "sigma": 25.0},
            told={"rewards": [-50, 200]},
        ),
        _world("wide", "d = 50, K = 10", "simulation-linucb", {"dim": 50, "arms": 10}, {**_INTERCEPT, "dim": 50}),
        _world("delay", "rewards 500 rounds late", "simulation-linucb", policy=_INTERCEPT, delay=500),
    ],
}


def candidates(tuners: Mapping[str, Spec]) -> dict[str, Spec]:
    """The fixed candidates among them. The board shows only the best of them in hindsight."""
    return {label: spec for label, spec in tuners.items() if spec["name"] == "Fixed" and label not in ABLATIONS}


def choose(worlds: Collection[str] = (), tuners: Collection[str] = ()) -> dict[str, list[Experiment]]:
    """The board, or only these worlds and these tuners, with the tuner that all are compared with.

    A tuner of another package is not on the board; it joins when it is named.
    """
    _check("world", worlds, [each.name for group in BOARD.values() for each in group])
    _check("tuner", tuners, [*labels(), *(name for name in TUNERS if name not in (*labels(), "Fixed", "TwoLayer"))])
    guests = [name for name in tuners if name not in labels()]
    chosen = {
        group: [_joined(_only(each, tuners), guests) for each in experiments if not worlds or each.name in worlds]
        for group, experiments in BOARD.items()
    }
    return {group: experiments for group, experiments in chosen.items() if experiments}


def labels() -> list[str]:
    """The labels of the board; all fixed candidates share one."""
    every = next(iter(BOARD.values()))[0].tuners
    return [*(label for label in every if label not in candidates(every)), BEST_FIXED, *ABLATIONS]


def _check(what: str, given: Collection[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(f"the board has no {what} {name!r}; it has {', '.join(known)}")


def _only(experiment: Experiment, tuners: Collection[str]) -> Experiment:
    def wanted(label: str, spec: Spec) -> bool:
        return label in (BASE_TUNER, *tuners) or (label in candidates({label: spec}) and BEST_FIXED in tuners)

    kept = {label: spec for label, spec in experiment.tuners.items() if not tuners or wanted(label, spec)}
    return replace(experiment, tuners=kept)


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
