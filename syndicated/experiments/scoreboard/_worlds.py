"""The standing comparison as data: every tuner in every kind of world, on seeds that the paper does not use.

In a world that is played as in the paper, the paper's tuners play with the paper's setting of the policy. What `Agent`
does if it is told nothing, fixed values in natural units, and Consensus play with the policy's defaults, which include
an intercept; and the paper's tuner is there with an intercept too.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from syndicated.agent import default_tuner
from syndicated.experiments._experiment import Experiment
from syndicated.experiments.paper._experiments import ALPHAS, ETAS, FIGURE2, FIGURE3, LAMS, TABLE1
from syndicated.policies import POLICIES, ArmUCB, LinUCB
from syndicated.space import Space
from syndicated.spec import Spec, build, spec_of

BOARD_SEED = 1001
BOARD_REPEATS, MOVIELENS_REPEATS = 20, 8
SHORT_REPEATS, SHORT_ROUNDS = 100, 1000  # so many cost little
SAME_ROWS_REPEATS = 30  # where the same rows come back, single runs that lock in decide
OUR_TUNER, BASE_TUNER, RIVAL_TUNER, BEST_FIXED = "Default", "Syndicated", "OP", "Best fixed"
FORESEEN_FIXED = "Best fixed on other repeats"
BASE_WITH_INTERCEPT, BOLDNESS_2 = "Syndicated, intercept", "boldness=2"
ALL_WITH_INTERCEPT = "Syndicated, all with intercept"  # it has one in many worlds anyway
OTHER_POLICY = "LinTS, nothing set"  # beside LinUCB, where rewards come late: it spreads what it plays meanwhile
# The fixed values, of which the best one in hindsight is shown; of SGD-TS both of what it has in natural units.
BOLDNESS_GRID = [0.0, 0.25, 0.5, 1.0, 1.4, 2.0, 2.8, 4.0]
SGDTS_GRID = {"boldness": [0.0, 0.25, 0.5, 1.0], "stride": [3.0, 10.0, 30.0]}
# What the default earns by its parts: itself without one of them.
NO_INTERCEPT, NO_EVIDENCE = "no intercept", "no evidence, lam=1"
ALWAYS_INTERCEPT, NO_UNITS, NO_STRIDE = "always an intercept", "no own units, lam=1", "no own units, eta0=1"
NO_LINK = "always linear"
NO_PARTS = {f"no {part}": part for part in dict.fromkeys([*LinUCB.parts, *ArmUCB.parts])}
ABLATIONS = (NO_INTERCEPT, NO_EVIDENCE, ALWAYS_INTERCEPT, NO_UNITS, NO_STRIDE, NO_LINK, *NO_PARTS)

_PAPER = {experiment.name: experiment for experiment in [*TABLE1, *FIGURE2, *FIGURE3]}
_EXPLORE = {"alpha": ALPHAS, "lam": LAMS}
_NATURAL = {"boldness": BOLDNESS_GRID}
# By policy: what the paper's tuners tune, the one hyper-parameter of OP, Corral and TL, and the fixed values.
_SPACES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "LinUCB": (_EXPLORE, "alpha", _NATURAL),
    "LinTS": (_EXPLORE, "alpha", _NATURAL),
    "UCBGLM": (_EXPLORE, "alpha", _NATURAL),
    "SGDTS": ({"eta0": ETAS, "alpha1": ALPHAS, "alpha2": ALPHAS}, "eta0", SGDTS_GRID),
}
# By policy and label: what is fixed of that which the policy estimates, and what of its space that stands in place of.
_ESTIMATES: dict[str, dict[str, tuple[dict[str, Any], str | None]]] = {
    "LinUCB": {NO_EVIDENCE: ({"lam": [1], "memory": [1]}, None)},
    "LinTS": {NO_EVIDENCE: ({"lam": [1], "memory": [1]}, None)},
    "UCBGLM": {ALWAYS_INTERCEPT: ({"intercept": [1]}, None), NO_UNITS: ({"lam": [1]}, None)},
    "SGDTS": {NO_STRIDE: ({"eta0": [1]}, "stride")},
}
FEW_TUNERS = (OUR_TUNER, BASE_TUNER, "Consensus", RIVAL_TUNER, "Theory", BEST_FIXED, *ABLATIONS)


def _tuners(policy: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Spec]:
    """The tuners of every world. `told` are arguments for the tuners that must know the range of rewards."""
    all_, one, fixed = _SPACES[policy["name"]]
    alone, base = {one: all_[one]}, {"name": "Syndicated", "space": all_, **told}
    ours = default_spec({**policy, "intercept": True})
    return {
        OUR_TUNER: ours,
        BASE_TUNER: base,
        **({} if policy.get("intercept", True) else {BASE_WITH_INTERCEPT: base}),
        "Consensus": {"name": "Consensus"},
        "TL-Combined": {"name": "TwoLayer", "space": all_, **told},
        "TL": {"name": "TwoLayer", "space": alone, **told},
        RIVAL_TUNER: {"name": "OP", "space": alone, **told},
        "Corral": {"name": "Corral", "space": alone, **told},
        "Theory": {"name": "Theory"},
        "Uniform": {"name": "Uniform", "space": all_},
        **{_label(point): {"name": "Fixed", "space": _single(point)} for point in Space(**fixed).points},
        **_ablations(policy["name"], ours),
    }


def default_spec(policy: Mapping[str, Any]) -> Spec:
    """What `Agent(policy)` uses."""
    spec = spec_of(default_tuner(build(POLICIES, policy)))
    return {name: spec[name] for name in ("name", "space")}


def _ablations(policy: str, ours: Spec) -> dict[str, Spec]:
    """The default, for policies without an intercept or a part, and with what is otherwise estimated fixed."""
    fixed = {
        label: {**ours, "space": {name: own for name, own in ours["space"].items() if name != in_place_of} | values}
        for label, (values, in_place_of) in _ESTIMATES[policy].items()
    }
    return {NO_INTERCEPT: ours} | fixed | dict.fromkeys(_parts(policy), ours)


def _parts(policy: str) -> dict[str, str]:
    """By label, the parts that the policy can leave out."""
    own = getattr(POLICIES[policy], "parts", ())
    return {label: part for label, part in NO_PARTS.items() if part in own}


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
    horizon: int = 10_000,
    few: bool = False,
) -> Experiment:
    """One of the paper's experiments, some arguments of its world and its policy changed; with all tuners or few."""
    paper = _PAPER[source]
    environment = {**paper.environment, **(world or {})}
    plays = {**paper.policy, **(policy or {})}
    tuners = _tuners(plays, told or {})
    like_ours = OUR_TUNER, BASE_WITH_INTERCEPT, "Consensus", *_ESTIMATES[plays["name"]], *candidates(tuners)
    ours = [each for each in like_ours if each in tuners]
    policies = {label: {**plays, "intercept": True} for label in ours}
    without = {label: {**plays, "intercept": True, "without": [part]} for label, part in _parts(plays["name"]).items()}
    policies |= {NO_INTERCEPT: {**plays, "intercept": False}, **without}
    whole = Experiment(
        name=name,
        title=title,
        environment=environment,
        policy=plays,
        tuners=tuners,
        policies=policies,
        horizon=horizon,
        repeats=_repeats(environment, horizon),
        seed=BOARD_SEED,
        delay=delay,
        watched=False,
    )
    return only(whole, FEW_TUNERS) if few else whole


def _repeats(environment: Mapping[str, Any], horizon: int) -> int:
    if environment["name"] == "MovieLens":
        return MOVIELENS_REPEATS
    if horizon <= SHORT_ROUNDS:
        return SHORT_REPEATS
    return SAME_ROWS_REPEATS if environment.get("fixed") or environment.get("one_hot") else BOARD_REPEATS


def _hard(name: str, title: str, world: Mapping[str, Any], policy: str = "linucb", **size: int) -> Experiment:
    """A linear world of its own, with an intercept for all and few tuners, which are told noise and range."""
    range_ = [world.get("low", 0), world.get("high", 1)]
    told = {"rewards": range_} if range_ != [0, 1] and not world.get("clicks") else {}
    sigma = world.get("noise", 0.1) * (range_[1] - range_[0])
    knows = {"intercept": True, "dim": world.get("dim", 10), "sigma": sigma}
    return _world(name, title, f"simulation-{policy}", world, knows, told, few=True, **size)


def _with_other_policy(experiment: Experiment) -> Experiment:
    """The world, played by `OTHER_POLICY` too."""
    policy = {**experiment.policy, "name": "LinTS"}
    tuners, policies = {OTHER_POLICY: default_spec(policy)}, {OTHER_POLICY: policy}
    return replace(experiment, tuners={**experiment.tuners, **tuners}, policies={**experiment.policies, **policies})


def candidates(tuners: Mapping[str, Spec]) -> dict[str, Spec]:
    """The fixed values among them. The board shows only the best of them in hindsight, and boldness 2."""
    known = (OUR_TUNER, OTHER_POLICY, *ABLATIONS)
    return {label: spec for label, spec in tuners.items() if spec["name"] == "Fixed" and label not in known}


def only(experiment: Experiment, tuners: Collection[str]) -> Experiment:
    def wanted(label: str, spec: Spec) -> bool:
        return label in (BASE_TUNER, *tuners) or (label in candidates({label: spec}) and BEST_FIXED in tuners)

    kept = {label: spec for label, spec in experiment.tuners.items() if not tuners or wanted(label, spec)}
    return replace(experiment, tuners=kept)


_INTERCEPT = {"intercept": True}
_ONE_HOT = {"one_hot": True, "dim": 20, "arms": 20}
_FIXED = {"fixed": True, "dim": 5, "arms": 50}
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
    "Other units, with intercept": [
        _hard("offset", "rewards from 10^6 to 10^6 + 1", {"low": 1e6, "high": 1e6 + 1}),
        _hard("large-unit", "features times 10^6", {"unit": 1e6}),
        _hard("small-unit", "features times 10^-6", {"unit": 1e-6}),
        _hard("outliers", "one reward in 1,000 is 100 times the noise off", {"outliers": 0.001}),
    ],
    "Levels and arms that move, with intercept": [
        _hard("season", "a season moves all rewards", {"season": 0.5}),
        _hard("trend", "fixed arms, all rewards rise", {"dim": 5, "arms": 50, "fixed": True, "trend": 2.0}),
        _hard("late", "the worst of 20 arms becomes the best", {**_ONE_HOT, "noise": 0.3, "late": 2500}),
        _with_other_policy(
            _hard("one-hot-delay", "one-hot arms, rewards 2,000 rounds late", {**_ONE_HOT, "noise": 0.3}, delay=2000)
        ),
    ],
    "Other kinds of rewards, with intercept": [
        _hard("money", "one-hot arms, from 0 to 1,000, little noise", {**_ONE_HOT, "high": 1000, "noise": 0.02}),
        _hard("clicks", "one-hot arms, clicks of 2 to 5 %", {**_ONE_HOT, "low": 0.02, "high": 0.05, "clicks": True}),
        _hard("noiseless", "fixed arms, no noise, 1,000 rounds", {**_FIXED, "noise": 0.0}, horizon=1000),
        _hard("quadratic", "fixed arms, rewards are squares", {**_FIXED, "shape": "square"}),
        _hard("quadratic-lints", "LinTS, the same", {**_FIXED, "shape": "square"}, "lints"),
    ],
    "Short, with intercept": [
        _hard("short", "500 rounds", {}, horizon=500),
        _hard("short-one-hot", "one-hot arms, 1,000 rounds", {**_ONE_HOT, "noise": 0.3}, horizon=1000),
        _hard("short-fixed", "fixed arms, 1,000 rounds", {**_FIXED, "noise": 0.5}, horizon=1000),
    ],
}


def labels() -> list[str]:
    """The labels of the board; all fixed candidates share one."""
    tuners = [each.tuners for group in BOARD.values() for each in group]
    every = dict.fromkeys(label for own in tuners for label in own if label not in candidates(own))
    return [*every, BEST_FIXED]
