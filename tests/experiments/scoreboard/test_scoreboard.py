"""The scoreboard: its worlds as data, its ratios against plain loops, its page and its figure."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit

from syndicated import InputError
from syndicated._formatting import ratio_number
from syndicated.cli import main
from syndicated.experiments import run_experiments, save_figure
from syndicated.experiments._results import RESAMPLES
from syndicated.experiments.scoreboard import BOARD, _figure, _markdown, choose
from syndicated.experiments.scoreboard._arm_worlds import ARM_GROUP, arm_worlds
from syndicated.experiments.scoreboard._policy_worlds import POLICY_GROUP, policy_worlds
from syndicated.experiments.scoreboard._ratios import (
    BARS,
    REGRET_COLUMNS,
    Ratio,
    Way,
    World,
    findings,
    gather,
    overall,
    ratio,
    task_seconds,
    trade_off,
    world_rows,
)
from syndicated.experiments.scoreboard._tuner_worlds import TUNER_GROUP, tuner_worlds
from syndicated.experiments.scoreboard._worlds import (
    ABLATIONS,
    BEST_FIXED,
    FORESEEN_FIXED,
    OUR_TUNER,
    candidates,
    labels,
    only,
)
from syndicated.policies import POLICIES, ArmUCB
from syndicated.streams import BOOTSTRAP, Stream
from syndicated.tuners import TUNERS
from syndicated.tuners._layers import LAYERS
from syndicated.types import Array

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "scoreboard.md"
WORLDS = {each.name: each for group in BOARD.values() for each in group}
GROUPS = {each.name: group for group, worlds in BOARD.items() for each in worlds}
OTHER_UNITS = ["offset", "large-unit", "small-unit", "outliers"]
OTHER_REWARDS = ["money", "clicks", "noiseless", "quadratic", "quadratic-lints"]
HARD = [
    *OTHER_UNITS,
    "season",
    "trend",
    "late",
    "one-hot-delay",
    *OTHER_REWARDS,
    "short",
    "short-one-hot",
    "short-fixed",
]
INTERCEPT = {"linucb-intercept", "lints-intercept", "drift", "range", "wide", "delay", *HARD}
SHORT = {"noiseless": 1000, "short": 500, "short-one-hot": 1000, "short-fixed": 1000}
NATURAL = {f"boldness={value:g}" for value in (0, 0.25, 0.5, 1, 1.4, 2, 2.8, 4)}

SGDTS_FIXED = set(candidates(WORLDS["sgdts-paper"].tuners))


def made_up(name: str = "linucb-paper", /, **regrets: Sequence[float] | Array) -> World:
    """A world of the board with these regrets."""
    arrays = {label: np.array(values, dtype=float) for label, values in regrets.items()}
    experiment = replace(WORLDS[name], repeats=len(next(iter(arrays.values()))))
    return World(experiment, GROUPS[name], arrays, best="boldness=1", seconds=90.0)


def whole_board(ours: float = 0.2, spread: float = 0.01, best: float = 0.2, **others: float) -> list[World]:
    """Every world, ours and the best fixed value at these ratios to Syndicated's, with so much noise."""
    worlds = []
    for place, name in enumerate(WORLDS):
        rng = np.random.default_rng(place)
        mean = {"Syndicated": 1.0, OUR_TUNER: others.get(name.replace("-", "_"), ours), "OP": 0.9, BEST_FIXED: best}
        n, world = WORLDS[name].repeats, WORLDS[name].environment
        width = world.get("high", 1) - world.get("low", 0)
        worlds.append(
            made_up(name, **{k: 100 * width * m * np.exp(spread * rng.normal(size=n)) for k, m in mean.items()})
        )
    return worlds


# The worlds.


def test_the_board_has_the_worlds_of_the_standing_comparison() -> None:
    assert list(WORLDS) == [
        *("linucb-paper", "linucb-intercept", "linucb-unshifted", "lints-paper", "lints-intercept"),
        *("fixed-paper", "fixed-unshifted", "ucbglm-paper", "sgdts-paper"),
        *("movielens-linucb", "movielens-lints", "movielens-ucbglm", "movielens-sgdts"),
        *("drift", "range", "wide", "delay", *HARD),
    ]
    assert len({each.title for each in WORLDS.values()}) == len(WORLDS)


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_can_be_played_at_its_size(name: str) -> None:
    e = WORLDS[name]
    assert (e.horizon, e.seed, e.watched) == (SHORT.get(name, 10_000), 1001, False)
    same_rows = e.environment.get("fixed") or e.environment.get("one_hot")
    assert e.repeats == (8 if "movielens" in name else 100 if name in SHORT else 30 if same_rows else 20)
    assert e.policy["intercept"] == (name in INTERCEPT)
    assert e.policies[OUR_TUNER] == {**e.policy, "intercept": True}
    assert all(e.policies[label] == e.policies[OUR_TUNER] for label in candidates(e.tuners))
    assert e.policy["name"] == "SGDTS" or candidates(e.tuners).keys() == NATURAL
    assert ("Syndicated, intercept" in e.tuners) == (not e.policy["intercept"])
    assert e.delay == {"delay": 500, "one-hot-delay": 2000}.get(name, 0)
    registered = {label: spec for label, spec in e.tuners.items() if spec["name"] in TUNERS}
    for task in replace(e, tuners=registered, repeats=1).tasks():
        assert task.agent().policy.dim == task.world().dim


def test_worlds_are_the_papers_but_for_what_their_names_say() -> None:
    said = {name: e.environment for name, e in WORLDS.items()}
    plain = {"name": "Linear", "dim": 10, "noise": 0.1}
    table1 = {"name": "Linear", "dim": 5, "noise": 0.5, "fixed": True}
    assert said["linucb-paper"] == said["linucb-intercept"] == said["lints-paper"] == said["delay"] == plain
    assert said["linucb-unshifted"] == {**plain, "shift": False}
    assert (said["fixed-paper"], said["fixed-unshifted"]) == (table1, {**table1, "shift": False})
    assert said["drift"] == {**plain, "change": 2500}
    assert said["range"] == {**plain, "low": -50, "high": 200}
    assert (said["wide"]["dim"], said["wide"]["arms"]) == (50, 10)


def test_theory_is_told_the_noise_and_the_papers_tuners_the_range_of_rewards() -> None:
    for name, e in WORLDS.items():
        world = e.environment
        if world["name"] == "Linear":
            assert e.policy["sigma"] == world["noise"] * (world.get("high", 1) - world.get("low", 0))
        told = {label for label, spec in e.tuners.items() if "rewards" in spec}
        other = {"Syndicated", "TL-Combined", "TL", "OP", "Corral"} & e.tuners.keys()
        assert told == (other if name in ("range", "offset", "money") else set())


@pytest.mark.parametrize(
    ("name", "fixed", "one"),
    [("linucb-paper", 17, "alpha"), ("lints-paper", 17, "alpha"), ("movielens-sgdts", 15, "eta0")],
)
def test_tuners_and_fixed_candidates_are_those_of_the_policy(name: str, fixed: int, one: str) -> None:
    tuners = WORLDS[name].tuners
    assert [spec["name"] for spec in tuners.values()].count("Fixed") == fixed
    for label in ("OP", "Corral", "TL"):
        assert list(tuners[label]["space"]) == [one]
    assert tuners["Syndicated"]["space"] == tuners["TL-Combined"]["space"] == tuners["Uniform"]["space"]
    assert len(tuners["Syndicated"]["space"]) == (3 if one == "eta0" else 2)
    advised = {
        "LinUCB": {"boldness": [2.5]},
        "LinTS": {"boldness": [0.85]},
        "SGDTS": {"boldness": [0.25], "stride": [10.0]},
    }
    assert tuners[OUR_TUNER] == {"name": "Fixed", "space": advised[WORLDS[name].policy["name"]]}


def test_all_registered_tuners_are_on_the_board_or_join_when_they_are_named() -> None:
    on_it = {spec["name"] for spec in WORLDS["linucb-paper"].tuners.values()}
    for name in set(TUNERS) - on_it:
        ((world,),) = choose(worlds=["range"], tuners=[name]).values()
        assert world.tuners[name] == {"name": name, "rewards": [-50, 200]}


LINEAR_PARTS = {f"no {part}" for part in ("discount", "effects", "outliers", "relevance", "restarts", "trials")}
ESTIMATES = {
    "LinUCB": {"no evidence, lam=1": {"boldness": [2.5], "lam": [1], "memory": [1]}},
    "LinTS": {"no evidence, lam=1": {"boldness": [0.85], "lam": [1], "memory": [1]}},
    "UCBGLM": {
        "always an intercept": {"boldness": [1.0, 2.0, 4.0], "intercept": [1]},
        "no own units, lam=1": {"boldness": [1.0, 2.0, 4.0], "lam": [1]},
    },
    "SGDTS": {"no own units, eta0=1": {"boldness": [0.25], "eta0": [1]}},
}


def test_ablations_are_the_default_without_one_of_its_parts() -> None:
    for e in WORLDS.values():
        ours, name, default = e.tuners[OUR_TUNER], e.policy["name"], e.policies[OUR_TUNER]
        parts = LINEAR_PARTS if name in ("LinUCB", "LinTS") else set()
        assert set(ABLATIONS) & e.tuners.keys() == {"no intercept", *ESTIMATES[name], *parts}
        assert e.tuners["no intercept"] == ours
        assert e.policies["no intercept"] == {**default, "intercept": False}
        for label, space in ESTIMATES[name].items():
            assert e.tuners[label] == {**ours, "space": space}
            assert e.policies[label] == default
        for label in parts:
            assert e.tuners[label] == ours
            assert e.policies[label] == {**default, "without": [label.removeprefix("no ")]}


def test_named_arms_are_played_without_each_part_too() -> None:
    for e in arm_worlds():
        assert e.environment["name"] == "Contexts"
        assert [label for label in e.tuners if label not in ABLATIONS] == [OUR_TUNER]
        assert {each["without"][0] for each in e.policies.values() if "without" in each} == set(ArmUCB.parts)
        assert e.policies["always linear"]["link"] == "linear"
        assert not e.policies["no intercept"]["intercept"]


def test_the_fixed_values_of_sgdts_are_in_natural_units_as_its_default_is() -> None:
    e = WORLDS["sgdts-paper"]
    points = {(s["space"]["boldness"][0], s["space"]["stride"][0]) for s in candidates(e.tuners).values()}
    assert points == {(boldness, stride) for boldness in (0, 0.25, 0.5, 1) for stride in (3, 10, 30)}
    default = e.tuners[OUR_TUNER]["space"]
    assert (default["boldness"][0], default["stride"][0]) in points


def test_another_policy_plays_where_rewards_come_late_and_has_a_row_in_that_world_only() -> None:
    (label,) = (
        {label for e in WORLDS.values() for label in e.tuners}
        - WORLDS["linucb-paper"].tuners.keys()
        - SGDTS_FIXED
        - set(ABLATIONS)
    )
    late = WORLDS["one-hot-delay"]
    assert [e.name for e in WORLDS.values() if label in e.tuners] == ["one-hot-delay"]
    assert late.policies[label] == {**late.policies[OUR_TUNER], "name": "LinTS"}
    assert late.tuners[label] == {"name": "Fixed", "space": {"boldness": [0.85]}}
    text = _markdown.page(
        [made_up("one-hot-delay", Syndicated=[9, 8, 9], **{OUR_TUNER: [4, 4, 4], label: [2, 2, 2]})], {}
    )
    assert f"| world | {OUR_TUNER} |\n" in text
    assert f"| {label} | 2.0 |" in text


def test_the_ratio_with_an_intercept_for_all_has_a_geometric_mean() -> None:
    paper = made_up(Syndicated=[8, 8, 8], **{"Syndicated, intercept": [4, 4, 4], OUR_TUNER: [2, 2, 2]})
    with_it = made_up("drift", Syndicated=[16, 16, 16], **{OUR_TUNER: [2, 2, 2]})
    text = _markdown.page([paper, with_it], {})
    line = next(line for line in text.split("as a multiple of others'")[1].splitlines() if "Geometric mean" in line)
    assert line.endswith("| 0.25 (0.25 to 0.25) |")


def test_the_board_can_be_restricted() -> None:
    board = choose(["drift", "lints-paper"], ["OP", BEST_FIXED])
    assert [e.name for worlds in board.values() for e in worlds] == ["lints-paper", "drift"]
    for e in (e for worlds in board.values() for e in worlds):
        assert {spec["name"] for spec in e.tuners.values()} == {"Syndicated", "OP", "Fixed"}
        assert len(e.tuners) == 2 + len(NATURAL)
    assert choose() == {**BOARD, POLICY_GROUP: policy_worlds(), TUNER_GROUP: tuner_worlds(), ARM_GROUP: arm_worlds()}


def test_every_policy_plays_with_nothing_set_where_its_rewards_are() -> None:
    playing = {e.name: set(e.tuners) for e in policy_worlds()}
    assert playing["policies-clicks"] == set(POLICIES.built_in)
    assert {"LinUCB", "LinTS", "SWLinUCB", "NeuralUCB"} <= playing["policies-drift"] < set(POLICIES.built_in)
    for e in policy_worlds():
        assert (e.horizon, e.repeats, e.seed, e.watched) == (1000, 5, 1001, False)
        assert all(e.policies[name] == {"name": name, "dim": 5} for name in e.tuners)
    assert choose(["policies-drift"]) == {POLICY_GROUP: [policy_worlds()[2]]}
    assert choose((), ["OP"]).keys() == BOARD.keys()


def test_every_tuner_and_every_layer_play_the_same_candidates_in_worlds_of_many_kinds() -> None:
    for e in tuner_worlds():
        assert {spec["name"] for spec in e.tuners.values()} == set(TUNERS.built_in)
        assert {spec.get("layer", "EXP3") for spec in e.tuners.values()} == set(LAYERS)
        spaces = [spec.get("space") for label, spec in e.tuners.items() if label not in ("Theory", "Fixed")]
        assert all(space == {"boldness": [0.25, 1, 4, 16]} for space in spaces)
        assert (e.horizon, e.repeats, e.seed, e.watched) == (200 if e.name == "tuners-ball" else 1000, 5, 1001, False)
    assert {e.environment["name"] for e in tuner_worlds()} == {"Linear", "Logistic", "Revenue", "LinearArmSet"}
    told = {e.name: {"rewards" in spec for spec in e.tuners.values()} for e in tuner_worlds()}
    assert [name for name, any_ in told.items() if True in any_] == ["tuners-revenue"]
    assert next((e.delay, e.lost) for e in tuner_worlds() if e.name == "tuners-late") == (100, 0.3)


def test_what_is_not_on_the_board_is_refused() -> None:
    with pytest.raises(InputError, match=r"the board has no world 'mars'; it has linucb-paper, .*, short-fixed"):
        choose(["mars"])
    with pytest.raises(InputError, match=r"the board has no tuner 'Magic'; it has Default, .*, Best fixed"):
        choose((), ["Magic"])


# What the regrets say.


def resampled_ratios(own: Array, base: Array) -> list[float]:
    """The bootstrap in plain loops: every resample draws repeats, and takes both tuners' regrets of these."""
    n, ratios = len(own), []
    draws = Stream(0, BOOTSTRAP).uniforms(n * RESAMPLES).tolist()
    for start in range(0, n * RESAMPLES, n):
        drawn = [int(u * n) for u in draws[start : start + n]]
        ratios.append(sum(own[i] for i in drawn) / sum(base[i] for i in drawn))
    return ratios


def percentiles(values: Sequence[float], n: int) -> tuple[float, float]:
    tail = 100 * ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975))
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def test_a_ratio_of_means_and_its_paired_interval_are_those_of_plain_loops() -> None:
    own, base = np.array([3.0, 1.0, 7.0, 2.0, 4.0, 4.0]), np.array([9.0, 8.0, 10.0, 3.0, 8.0, 7.0])
    found = ratio([(own, base)])
    assert found.value == pytest.approx((3 + 1 + 7 + 2 + 4 + 4) / (9 + 8 + 10 + 3 + 8 + 7))
    assert (found.low, found.high) == pytest.approx(percentiles(resampled_ratios(own, base), 6), rel=1e-3)


def test_repeats_are_resampled_for_both_tuners_together() -> None:
    base = np.array([1.0, 50.0, 3.0, 9.0, 400.0])
    found = ratio([(2 * base, base)])
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_the_geometric_mean_of_ratios_is_that_of_plain_loops() -> None:
    rng = np.random.default_rng(1)
    pairs = [(rng.exponential(size=n), rng.exponential(size=n)) for n in (6, 6, 9)]
    found = ratio(pairs)
    product = math.prod(own.mean() / base.mean() for own, base in pairs)
    assert found.value == pytest.approx(product ** (1 / 3))
    ratios = [resampled_ratios(own, base) for own, base in pairs]
    means = [math.prod(each) ** (1 / 3) for each in zip(*ratios, strict=True)]
    assert (found.low, found.high) == pytest.approx(percentiles(means, 6), rel=1e-3)
    assert found.repeats == 6


def test_a_world_that_is_there_twice_is_no_more_evidence() -> None:
    pair = np.array([3.0, 1.0, 7.0, 2.0, 4.0]), np.array([9.0, 8.0, 10.0, 3.0, 8.0])
    once, twice = ratio([pair]), ratio([pair, pair])
    assert (twice.low, twice.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize(
    ("own", "base", "value"), [(0.0, 2.0, 0.001), (2.0, 0.0, 1000.0), (0.0, 0.0, 1.0), (1.0, 2.0, 0.5)]
)
def test_a_regret_of_0_counts_as_a_thousandth_of_the_other(own: float, base: float, value: float) -> None:
    found = ratio([(np.full(5, own), np.full(5, base))])
    assert (found.value, found.low, found.high) == pytest.approx((value,) * 3)
    assert ratio([(np.array([0.0, 4.0]), np.array([2.0, 2.0]))]).low == pytest.approx(0.001)


@pytest.mark.no_cover
@pytest.mark.parametrize(("n", "covered"), [(8, 0.936), (20, 0.946)])
def test_the_interval_covers_the_ratio_about_as_often_as_it_says(n: int, covered: float) -> None:
    """Regrets are skewed, and resamples of few do not go far enough out for all of the 95%: what is expected here was
    measured over 10,000 samples; the margin is three standard errors of 1,000."""
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        world, own, base = np.exp(0.5 * rng.normal(size=(3, n)))
        found.append(ratio([(0.5 * world * own, world * base)]))
    assert np.mean([each.low <= 0.5 <= each.high for each in found]) == pytest.approx(covered, abs=0.025)


@pytest.mark.parametrize(
    ("low", "high", "repeats", "verdict"),
    [
        (0.5, 0.9, 20, "better"),
        (1.1, 1.9, 20, "worse"),
        (0.9, 1.1, 20, "not settled"),
        (1.0, 1.2, 20, "not settled"),
        (0.5, 0.9, 4, "not settled"),
    ],
)
def test_the_verdict_is_the_intervals(low: float, high: float, repeats: int, verdict: str) -> None:
    assert Ratio((low + high) / 2, low, high, repeats).verdict == verdict


def test_standings_are_those_of_plain_loops() -> None:
    world = made_up(Syndicated=[10, 20, 30, 40, 60], Theory=[1, 2, 4, 8, 16], OP=[5, 5, 5, 5, 5])
    lines = world_rows(world)
    assert [line.tuner for line in lines] == ["OP", "Theory", "Syndicated"]
    theory, syndicated = lines[1], lines[2]
    assert (theory.mean, theory.median, theory.largest) == (6.2, 4.0, 16.0)
    squares = sum((x - 6.2) ** 2 for x in (1, 2, 4, 8, 16))
    assert theory.error == pytest.approx(math.sqrt(squares / 4 / 5))
    assert theory.ratio is not None
    assert theory.to_rival is not None
    assert (theory.ratio.value, theory.to_rival.value) == pytest.approx((31 / 160, 31 / 25))
    assert syndicated.ratio is None  # to itself
    assert math.isnan(world_rows(made_up(Syndicated=[1]))[0].error)


def test_of_the_fixed_candidates_the_one_with_the_least_mean_stays(tmp_path: Path) -> None:
    (chosen,) = choose(["linucb-paper"], [BEST_FIXED, "OP"])["Linear, changing arms"]
    small = replace(chosen, horizon=60, repeats=3)
    (run,) = run_experiments([small], tmp_path)
    world = gather("group", run)
    sums: dict[str, float] = {}
    for task, curve in zip(run.tasks, run.curves, strict=True):
        sums[task.tuner_name] = sums.get(task.tuner_name, 0.0) + curve["regret"][-1]
    fixed = {label: total for label, total in sums.items() if label not in ("Syndicated", "OP")}
    assert len(fixed) == len(NATURAL)
    assert world.best == min(fixed, key=lambda label: fixed[label])
    two = {"boldness=2": sums["boldness=2"]}
    assert {label: values.sum() for label, values in world.regrets.items()} == pytest.approx(
        {"Syndicated": sums["Syndicated"], "OP": sums["OP"], **two, BEST_FIXED: min(fixed.values())}
    )
    assert world.seconds == sum(curve["seconds"] for curve in run.curves)
    each = {
        label: [c["regret"][-1] for t, c in zip(run.tasks, run.curves, strict=True) if t.tuner_name == label]
        for label in fixed
    }
    assert world.foreseen is not None
    for k, own in enumerate(world.foreseen):
        others = {label: sum(values) - values[k] for label, values in each.items()}
        assert own == each[min(others, key=lambda label: others[label])][k]
    assert world.ratio("OP", FORESEEN_FIXED).value == pytest.approx(sums["OP"] / world.foreseen.sum())  # type: ignore[union-attr]


def test_the_overall_ratio_is_over_the_worlds_where_both_played() -> None:
    worlds = [made_up(Syndicated=[1, 1], OP=[2, 2]), made_up(Syndicated=[1, 1]), made_up(OP=[7, 7])]
    found = overall(worlds, "OP")
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert overall(worlds, OUR_TUNER) is None


# The bars.


def test_bars_that_hold() -> None:
    assert [found.verdict for found in findings(whole_board(ours=0.2, best=0.2))] == ["holds"] * len(BARS)
    assert [bar.most for bar in BARS] == [1.0, 1.0, 0.3, 1.05, 1.3, 1.1]


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"drift": 1.01, "best": 0.21}, [0, 1, 4]),
        ({"drift": 0.95}, [1, 4]),  # clearly above OP's 0.9 only
        ({"lints_intercept": 0.28}, [4]),
        ({"outliers": 0.23}, [5]),
        ({"ours": 0.6}, [2, 3, 4]),
        ({"best": 0.19}, [3]),
    ],
)
def test_bars_that_do_not_hold_say_where(changed: dict[str, float], broken: list[int]) -> None:
    found = findings(whole_board(**{"ours": 0.2, "best": 0.2, **changed}, spread=0.001))
    assert [place for place, each in enumerate(found) if each.verdict == "does not hold"] == broken
    where = WORLDS.get(next(iter(changed)).replace("_", "-"))
    if where:
        assert {found[place].worst[0] for place in broken} == {where.title}  # type: ignore[index]


def test_a_wide_interval_is_not_clearly_worse() -> None:
    worlds = [made_up(Syndicated=[1, 1, 1, 1, 30], OP=[1, 1, 1, 1, 1], Default=[30, 1, 1, 1, 1])]
    assert findings(worlds)[0].verdict == "holds"


def test_few_repeats_settle_no_bar() -> None:
    for regrets in ([0.01] * 4, [90.0] * 4):
        found = findings([made_up(Syndicated=[1, 2, 1, 2], OP=[1, 1, 1, 1], Default=regrets)])
        assert {each.verdict for each in found if each.worst} == {"not settled"}


def test_bars_of_what_was_not_played_are_open() -> None:
    worlds = [made_up(Syndicated=[1, 2], OP=[1, 2])]
    assert {found.verdict for found in findings(worlds)} == {"not played"}


# The page.


def test_the_page_shows_every_ratio_and_what_became_of_the_bars() -> None:
    worlds = whole_board()
    text = _markdown.page(worlds, {"Time on the wall": "3 s"})
    for world in worlds:
        r = world.ratio(OUR_TUNER)
        assert r
        value, low, high = map(ratio_number, (r.value, r.low, r.high))
        line = f"| {world.experiment.title} | **{value}** ({low} to {high}) |"
        assert line in text
    assert text.count("<details>") == text.count("</details>") == len(WORLDS)
    assert text.count("| holds |") == len(BARS)
    assert f"{BEST_FIXED} (boldness=1)" in text
    assert "| Time on the wall | 3 s |\n" in text


def test_better_and_worse_look_different_and_the_unsettled_like_neither() -> None:
    world = made_up(Syndicated=[9, 10, 11, 10, 10], OP=[4, 5, 5, 6, 5], Corral=[30] * 5, TL=[11, 8, 11, 9, 11])
    text = _markdown.page([world], {})
    assert "| world | OP | Corral | TL |" in text
    assert "| **0.50** | *3.00* | 1.00 |" in text


def test_every_table_of_the_page_is_one() -> None:
    rows: list[int] = []
    for line in _markdown.page(whole_board(), {}).splitlines():
        if line.startswith("|"):
            rows.append(line.count("|"))
        else:
            assert len(set(rows)) <= 1
            rows = []


def test_a_part_of_the_board_says_that_it_is_one() -> None:
    assert "Not the whole board" not in _markdown.page(whole_board(), {})
    worlds = [
        replace(world, experiment=choose([world.experiment.name], ["OP"])[world.group][0]) for world in whole_board()
    ]
    part = _markdown.page([*whole_board()[2:], made_up("linucb-paper", Syndicated=[1, 2])], {})
    assert (
        "**Not the whole board**: 32 of 33 worlds, 2 to 100 repeats; left out: the worlds `linucb-intercept`.\n" in part
    )
    assert "32 of 33 worlds, 8 to 100 repeats; left out: the worlds `linucb-paper` and the tuners Default, " in (
        _markdown.page(worlds[1:], {})
    )


def test_ablations_have_a_table_of_their_own() -> None:
    own = {"Syndicated": [9, 8, 9], OUR_TUNER: [2, 2, 2], "no intercept": [3, 3, 3]}
    text = _markdown.page([made_up(**own), made_up("drift", Syndicated=[1], Consensus=[1])], {})
    board, appendix = text.split("## Appendix")[:2]
    assert "no intercept" not in board
    assert "### LinUCB\n\n| world | no intercept |\n" in appendix
    assert "| LinUCB, as in the paper | 1.50 (1.50 to 1.50) |\n" in appendix
    assert "| theta changes" not in appendix.split("## ")[0]
    assert "Appendix" not in _markdown.page([made_up(Syndicated=[1])], {})


def test_worlds_with_the_same_parts_share_a_table_and_named_arms_have_their_own() -> None:
    own = {"Syndicated": [9, 8, 9], OUR_TUNER: [2, 2, 2]}
    glm = made_up("ucbglm-paper", **own, **{"always an intercept": [3, 3, 3]})
    lin = [made_up(name, **own, **{"no trials": [4, 4, 4]}) for name in ("linucb-paper", "lints-paper")]
    (experiment, *_) = arm_worlds()
    named = World(experiment, ARM_GROUP, {OUR_TUNER: np.full(5, 2.0), "no neglect": np.full(5, 5.0)}, "", 1.0)
    appendix = _markdown.page([glm, *lin, named], {}).split("## Appendix")[1].split("## How")[0]
    heads = [line for line in appendix.splitlines() if line.startswith(("### ", "| world"))]
    assert heads[:2] == ["### UCBGLM", "| world | always an intercept |"]
    assert heads[2:4] == ["### LinUCB and LinTS", "| world | no trials |"]
    assert heads[4:] == ["### ArmUCB", "| world | no neglect |"]
    assert "| contexts | 2.50 (2.50 to 2.50) |" in appendix
    assert (
        "- `arms-contexts`, contexts: Contexts(dim=4, arms=10), 3,000 rounds, 20 repeats, seeds from 1001;" in appendix
    )
    alone = _markdown.page([named], {})
    assert "### ArmUCB" in alone
    assert "Ratio of mean regret" not in alone


def test_a_task_that_two_worlds_have_counts_once(tmp_path: Path) -> None:
    chosen = [replace(WORLDS[name], horizon=5, repeats=1) for name in ("linucb-paper", "linucb-intercept")]
    runs = run_experiments([only(each, [OUR_TUNER]) for each in chosen], tmp_path)
    (one, base), (same, with_intercept) = (run.curves for run in runs)
    assert one == same
    assert task_seconds(runs) == pytest.approx(sum(each["seconds"] for each in (one, base, with_intercept)))


def test_the_trade_off_has_other_tuners_too_and_what_most_worlds_have() -> None:
    worlds = [
        replace(made_up(name, Syndicated=[9], **{OUR_TUNER: [mean]}), fixed={"boldness=2": 1.0}, best="boldness=2")
        for name, mean in zip(WORLDS, range(1, 12), strict=False)
    ]
    ways = {way.label: way for way in trade_off(worlds)}
    assert ways.keys() == {"boldness=2", OUR_TUNER, "Syndicated"}
    assert (ways[OUR_TUNER].worst, ways[OUR_TUNER].mostly) == pytest.approx((11.0, 10.0))
    assert ways[OUR_TUNER].mean == pytest.approx(math.factorial(11) ** (1 / 11))


def test_the_trade_off_is_drawn_above_1_with_a_name_for_each_point() -> None:
    ways = [Way("boldness=2", 1.2, 3.0, "here", 2.0), Way(OUR_TUNER, 0.9, 1.5, "there", 1.0), Way("OP", 4, 500, "", 20)]
    two, ours, op = _figure.way_marks(ways)
    assert (two.text, two.fixed, ours.text, ours.fixed) == ("2", True, OUR_TUNER, False)
    assert (two.mean, two.worst, two.mostly) == pytest.approx((0.2, 2.0, 1.0))
    assert (ours.mean, ours.mostly) == (_figure.MIN_LOSS, _figure.MIN_LOSS)
    ax = _figure.draw_trade_off(ways).axes[0]
    assert [text.get_text() for text in ax.texts][:3] == ["2", OUR_TUNER, "OP"]
    assert ax.get_ylim()[1] > op.worst


def test_the_page_shows_what_one_boldness_for_all_worlds_would_give() -> None:
    fixed = {"boldness=1": 2.0, "boldness=2": 4.0}
    worlds = [
        replace(made_up(Syndicated=[9], **{OUR_TUNER: [3]}), fixed=fixed),
        replace(made_up("drift", Syndicated=[9], **{OUR_TUNER: [1]}), fixed={"boldness=1": 1.0, "boldness=2": 4.0}),
    ]
    text = _markdown.page(worlds, {})
    assert "| boldness=1 | LinUCB, as in the paper | 1.00 | 1.00 |" in text
    assert "| boldness=2 | theta changes at unknown times | 4.00 | 2.83 |" in text
    assert f"| {OUR_TUNER} | LinUCB, as in the paper | 1.50 | 1.22 |" in text
    assert "what is played" not in _markdown.page([made_up(Syndicated=[1])], {})


def test_settings_tell_every_world_and_label() -> None:
    text = _markdown.settings(list(WORLDS.values()))
    for e in WORLDS.values():
        assert f"| `{e.name}` | {e.environment['name']}(" in text
    rows = _markdown.tuner_rows(list(WORLDS.values()))
    assert {row[0] for row in rows} == set(labels())
    assert ["Consensus", "Consensus()", "everywhere"] in rows
    assert "Fixed(boldness in {2.5})" in {row[1] for row in rows if row[0] == OUR_TUNER}
    best = [row for row in rows if row[0] == BEST_FIXED]
    assert [row[1].split(":")[0] for row in best] == ["the best of 8", "the best of 12"]
    assert best[1][2] == "`sgdts-paper`, `movielens-sgdts`"
    assert "| intercept=True | 0 | 10,000 | 8 | 1001 to 1008 |" in text
    assert "| the same | 500 | 10,000 | 20 | 1001 to 1020 |" in text


@pytest.mark.skipif(not PAGE.exists(), reason="`make scoreboard` has not written it yet")
def test_the_page_in_the_docs_is_of_this_board() -> None:
    text = PAGE.read_text()
    for part in (_markdown.INTRO, _markdown.READING):
        assert part in text
    left_out = text.split("left out: ")[-1].split("\n")[0] if "**Not the whole board**" in text else ""
    for name in WORLDS:
        assert (f"(<code>{name}</code>)" in text) != (f"`{name}`" in left_out)
    for figure in ("scoreboard.svg", "scoreboard-trade-off.svg"):
        assert (PAGE.parent / figure).exists()


def test_the_section_on_policies_has_their_ratios_to_linucb_the_best_first() -> None:
    linear, clicks = (each for each in policy_worlds() if each.name in ("policies-linear", "policies-clicks"))
    regrets = {"LinUCB": [2.0] * 5, "UCBGLM": [1.0] * 5, "LinTS": [8.0] * 5}
    worlds = [
        World(linear, POLICY_GROUP, {name: np.array(regrets[name]) for name in ("LinUCB", "LinTS")}, "", 1.0),
        World(clicks, POLICY_GROUP, {name: np.array(own) for name, own in regrets.items()}, "", 1.0),
    ]
    text = _markdown.page(worlds, {})
    rows = [line for line in text.splitlines() if line.startswith("| `") and "policies-" not in line]
    assert [row.split("`")[1] for row in rows] == ["UCBGLM", "LinUCB", "LinTS"]
    assert rows[0].endswith("| – | **0.50** | **0.50** |")
    assert rows[1:] == [
        "| `LinUCB` | Fixed(boldness in {2.5}) | 1 | 1 | 1 |",
        "| `LinTS` | Fixed(boldness in {0.85}) | *4.00* | *4.00* | *4.00* |",
    ]
    assert "1,000 rounds, 5 repeats, seeds from 1001; LinUCB's mean regret is 2.0." in text
    whole = _markdown.page([*whole_board(), *worlds], {})
    assert text.split("## Versions")[0] in whole
    assert "Not the whole board" not in whole


def test_the_section_on_tuners_has_their_ratios_to_uniform_and_says_how_rewards_came() -> None:
    late = next(each for each in tuner_worlds() if each.name == "tuners-late")
    regrets = {"Uniform": [2.0] * 5, "TwoLayer, EXP3-IX": [1.0] * 5, "Theory": [8.0] * 5}
    world = World(late, TUNER_GROUP, {name: np.array(own) for name, own in regrets.items()}, "", 1.0)
    text = _markdown.page([world], {})
    assert text.startswith("## Every tuner on the same candidates")
    rows = [line for line in text.splitlines() if line.startswith("| `") and "tuners-" not in line]
    assert rows == [
        "| `TwoLayer, EXP3-IX` | **0.50** | **0.50** |",
        "| `Uniform` | 1 | 1 |",
        "| `Theory` | *4.00* | *4.00* |",
    ]
    assert "rewards 100 rounds late, 30 % of them lost, 1,000 rounds, 5 repeats, seeds from 1001; Uniform's" in text


# The figure.


def test_the_figure_has_a_row_a_world_and_the_geometric_mean_last() -> None:
    worlds = whole_board()
    rows = _figure.board_rows(worlds)
    assert [row.title for row in rows] == [*(e.title for e in WORLDS.values()), "Geometric mean"]
    assert list(rows[0].ratios) == ["OP", BEST_FIXED, OUR_TUNER]  # what is drawn last lies above
    assert rows[3].ratios[OUR_TUNER] == worlds[3].ratio(OUR_TUNER)
    assert rows[-1].ratios[OUR_TUNER] == overall(worlds, OUR_TUNER)


def test_groups_of_the_figure_stand_apart() -> None:
    rows = _figure.board_rows(whole_board())
    places = _figure.heights(rows)
    steps = np.diff(places)
    assert [bool(step > 1.1) for step in steps] == [one.group != other.group for one, other in pairwise(rows)]


@pytest.mark.parametrize("worlds", [1, len(WORLDS)])
def test_the_legend_and_the_titles_fit_into_the_figure(worlds: int) -> None:
    figure = _figure.draw_board(whole_board()[:worlds])
    figure.draw_without_rendering()
    legend, ax = figure.legends[0].get_window_extent(), figure.axes[0]
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width
    below = ax.xaxis.label.get_window_extent().y0
    assert 0 <= legend.y0 < legend.y1 <= below
    texts = [text.get_window_extent() for text in (*ax.texts, *ax.get_yticklabels())]
    assert all(0 <= box.x0 < box.x1 <= figure.bbox.width for box in texts)


def test_every_mark_lies_within_the_axes() -> None:
    figure = _figure.draw_board(whole_board(drift=9.0, wide=0.003))
    low, high = figure.axes[0].get_xlim()
    values = [float(x) for line in figure.axes[0].lines for x in np.asarray(line.get_xdata())]
    assert low < min(values) < 0.004
    assert 8 < max(values) < high


def test_the_figure_is_reproducible(tmp_path: Path) -> None:
    worlds = whole_board()[:3]
    one, two = (save_figure(_figure.draw_board(worlds), tmp_path / name)[1] for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


# The command.

SMALL = ["scoreboard", "--horizon", "30", "--repeats", "2", "--jobs", "1"]


def test_the_command_writes_the_table_the_page_and_the_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds = ["--world", "delay", "--world", "movielens-lints"]
    options = [*SMALL, *worlds, "--tuner", "OP", "--tuner", BEST_FIXED, "--output", str(tmp_path)]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "as a multiple of Syndicated's, over 2 worlds" in shown
    assert "What is asked of" not in shown
    rows = list(csv.DictReader((tmp_path / "scoreboard.csv").read_text().splitlines()))
    assert tuple(rows[0]) == REGRET_COLUMNS
    assert len(rows) == 2 * (2 + len(NATURAL)) * 2
    assert {(row["world"], row["repeat"]) for row in rows} == {
        (world, repeat) for world in ("delay", "movielens-lints") for repeat in "01"
    }
    assert all(float(row["regret"]) > 0 for row in rows)
    text = (tmp_path / "scoreboard.md").read_text()
    assert "Not the whole board" in text
    assert "Time on the wall, this command" in text
    assert all((tmp_path / f"scoreboard.{kind}").stat().st_size > 0 for kind in ("png", "svg"))
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "tasks").iterdir()}
    assert main(options) == 0
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "tasks").iterdir()}


def test_the_page_may_be_asked_for_policies_alone(tmp_path: Path) -> None:
    assert main([*SMALL, "--world", "policies-drift", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "scoreboard.md").read_text()
    assert text.startswith("## Every policy with nothing set")
    assert text.count("\n| `") == len(policy_worlds()[2].tuners) + 1
    assert not (tmp_path / "scoreboard.png").exists()


def test_every_tuner_can_play_every_small_world(tmp_path: Path) -> None:
    worlds = [part for e in tuner_worlds() for part in ("--world", e.name)]
    assert main([*SMALL, *worlds, "--horizon", "10", "--repeats", "1", "--out", str(tmp_path)]) == 0
    rows = list(csv.DictReader((tmp_path / "scoreboard.csv").read_text().splitlines()))
    assert len(rows) == sum(len(e.tuners) for e in tuner_worlds())


def test_the_page_may_be_asked_for_one_world_and_one_repeat(tmp_path: Path) -> None:
    alone = ["--world", "fixed-paper", "--tuner", "Syndicated", "--repeats", "1", "--out", str(tmp_path)]
    assert main([*SMALL, *alone]) == 0
