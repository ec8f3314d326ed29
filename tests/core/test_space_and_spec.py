"""Spaces, registries and specs: parts as values and as data."""

import json
from typing import Any

import numpy as np
import pytest

from syndicated import OP, SGDTS, UCBGLM, Corral, Fixed, InputError, LinTS, LinUCB, Space, Syndicated, Theory, TwoLayer
from syndicated.agent import build_agent
from syndicated.checks import on_space
from syndicated.environments import ENVIRONMENTS, Environment, Linear, Logistic
from syndicated.policies import POLICIES, Policy
from syndicated.registry import MAX_NAME, Registry, find
from syndicated.spec import build, complete, spec_of
from syndicated.tuners import TUNERS, Tuner

SPACE = Space(alpha=[0, 0.1, 1], lam=[0.1, 1])


# Spaces.


def test_points_are_the_product_with_the_first_axis_outermost() -> None:
    points = [(point["alpha"], point["lam"]) for point in SPACE.points]
    assert points == [(0.0, 0.1), (0.0, 1.0), (0.1, 0.1), (0.1, 1.0), (1.0, 0.1), (1.0, 1.0)]


def test_points_follow_the_order_of_the_axes() -> None:
    points = [(point["alpha"], point["lam"]) for point in SPACE.only("lam", "alpha").points]
    assert points == [(0.0, 0.1), (0.1, 0.1), (1.0, 0.1), (0.0, 1.0), (0.1, 1.0), (1.0, 1.0)]


def test_a_space_without_axes_has_one_empty_point() -> None:
    assert list(Space().points) == [{}]


def test_candidates_are_floats_in_the_order_given() -> None:
    values = Space(alpha=(3, 1, 2)).axes["alpha"]
    assert values == (3.0, 1.0, 2.0)
    assert {type(value) for value in values} == {float}


def test_candidates_may_come_from_any_iterable() -> None:
    assert Space(alpha=(value / 2 for value in range(3))) == Space(alpha=[0, 0.5, 1])


def test_only_keeps_the_axes_named_in_that_order() -> None:
    assert SPACE.only("lam") == Space(lam=[0.1, 1])
    assert list(SPACE.only("lam", "alpha").axes) == ["lam", "alpha"]
    assert SPACE.only() == Space()


def test_a_space_prints_as_the_call_that_makes_it() -> None:
    assert repr(SPACE) == "Space(alpha=[0.0, 0.1, 1.0], lam=[0.1, 1.0])"
    assert eval(repr(SPACE)) == SPACE


def test_equal_spaces_have_equal_hashes() -> None:
    same = Space(alpha=[0.0, 0.1, 1.0], lam=(0.1, 1))
    assert same == SPACE
    assert hash(same) == hash(SPACE)
    assert len({same, SPACE}) == 1


@pytest.mark.parametrize(
    "other",
    [
        Space(alpha=[0, 0.1, 1]),
        Space(alpha=[0, 0.1, 2], lam=[0.1, 1]),
        Space(alpha=[0.1, 0, 1], lam=[0.1, 1]),
        Space(lam=[0.1, 1], alpha=[0, 0.1, 1]),
        {"alpha": (0.0, 0.1, 1.0), "lam": (0.1, 1.0)},
    ],
    ids=["fewer axes", "other values", "other order of values", "other order of axes", "no space"],
)
def test_other_spaces_are_not_equal(other: object) -> None:
    assert other != SPACE


# Registries.


@pytest.mark.parametrize("name", ["UCBGLM", "ucbglm", "UCB-GLM", "ucb_glm", "Ucb Glm"])
def test_names_are_found_whatever_their_case_and_hyphens(name: str) -> None:
    assert find(POLICIES, name) is UCBGLM


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=f"no 'exp9' is registered; there are {', '.join(POLICIES)}$"):
        find(POLICIES, "exp9")


def test_a_name_of_megabytes_is_not_looked_through() -> None:
    class Name(str):
        def lower(self) -> str:
            raise AssertionError("a name that long is no name")

    with pytest.raises(InputError, match=f"^no '{'a' * 56}... is registered"):
        find(POLICIES, Name("a" * (MAX_NAME + 1)))


def test_no_message_has_megabytes_of_a_space() -> None:
    class Name(str):
        made = 0

        def __repr__(self) -> str:
            type(self).made += 1
            return super().__repr__()

    name = "a" * 2**21
    wrong: list[Any] = [[], [1, 1], [None], "1"]
    for values in wrong:
        with pytest.raises(InputError) as raised:
            Space(**{name: values})
        assert len(str(raised.value)) < 200
    Space(**{Name("alpha"): range(100)})
    assert Name.made == 1  # and not once for each candidate
    with pytest.raises(InputError, match=r"^Fixed takes one value") as raised:
        build(TUNERS, {"name": "Fixed", "space": Space(**{name: [1, 2]})})
    assert len(str(raised.value)) < 200


def test_a_registry_takes_proper_subclasses_and_sorts_them_by_name() -> None:
    namespace = {"b": LinUCB, "a": LinTS, "base": Policy, "tuner": Theory, "number": 3, "name": "LinTS"}
    assert list(Registry("tests.none", Policy, namespace).items()) == [("LinTS", LinTS), ("LinUCB", LinUCB)]


def test_the_registries_hold_what_the_package_promises() -> None:
    assert {"LinTS", "LinUCB", "SGDTS", "UCBGLM"} <= POLICIES.keys()
    assert {"Corral", "Fixed", "OP", "Syndicated", "Theory", "TwoLayer", "Uniform"} <= TUNERS.keys()
    assert {"Linear", "Logistic"} <= ENVIRONMENTS.keys()


# Specs.

PARTS: list[Any] = [
    LinUCB(dim=4, intercept=False, sigma=0.1, delta=0.2, S=3.0, L=4.0),
    LinTS(dim=5, sigma=0.2),
    UCBGLM(dim=6, ridge="inverse", L=2.0),
    SGDTS(dim=7, horizon=500, tau=9),
    SGDTS(dim=7),
    Syndicated(SPACE, horizon=77, warmup="T^2/3", rewards=(-1.0, 3.0)),
    TwoLayer(SPACE.only("lam"), warmup=5),
    OP(SPACE, rewards=(0.0, 2.0)),
    Corral(SPACE, eta=0.25),
    Corral(SPACE),
    Fixed(Space(alpha=[0.5])),
    Theory(),
    Linear(dim=3, arms=7, fixed=True, noise=0.5, shift=False),
    Logistic(dim=4, arms=9, fixed=True),
    *(policy(dim=3) for policy in POLICIES.values()),
    *(on_space(tuner)(SPACE) for tuner in TUNERS.values()),
    *(world() for world in ENVIRONMENTS.values()),  # type: ignore[call-arg]
]
REGISTRIES: list[tuple[type[Any], Any]] = [(Policy, POLICIES), (Tuner, TUNERS), (Environment, ENVIRONMENTS)]


def _registry(part: object) -> Any:
    return next(registry for base, registry in REGISTRIES if isinstance(part, base))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_part_comes_back_from_its_spec(part: object) -> None:
    spec = spec_of(part)
    again = build(_registry(part), json.loads(json.dumps(spec)))
    assert type(again) is type(part)
    assert repr(again) == repr(part)
    assert spec_of(again) == spec


def test_a_spec_is_the_name_and_every_argument() -> None:
    assert spec_of(Syndicated(SPACE)) == {
        "name": "Syndicated",
        "space": {"alpha": [0.0, 0.1, 1.0], "lam": [0.1, 1.0]},
        "horizon": 10_000,
        "warmup": 0,
        "rewards": [0.0, 1.0],
        "layer": "EXP3",
    }


def test_the_order_of_the_axes_survives_a_spec() -> None:
    space = SPACE.only("lam", "alpha")
    again = build(TUNERS, json.loads(json.dumps(spec_of(Syndicated(space)))))
    assert isinstance(again, Syndicated)
    assert list(again.space.axes) == ["lam", "alpha"]


def test_what_a_spec_leaves_out_has_its_default() -> None:
    assert repr(build(POLICIES, {"name": "lin-ucb", "dim": 3})) == repr(LinUCB(dim=3))


def test_building_leaves_the_spec_alone() -> None:
    spec = {"name": "LinUCB", "dim": 3}
    build(POLICIES, spec)
    assert spec == {"name": "LinUCB", "dim": 3}


def test_an_unknown_argument_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"^LinUCB has the parameters dim, intercept, sigma, .*; got 'alpha'$"):
        build(POLICIES, {"name": "LinUCB", "dim": 3, "alpha": 1})


def test_missing_arguments_are_named() -> None:
    with pytest.raises(InputError, match=r"^SGDTS needs dim$"):
        build(POLICIES, {"name": "SGDTS", "tau": 5})
    with pytest.raises(InputError, match=r"^OP needs space$"):
        build(TUNERS, {"name": "OP"})


def test_bad_values_in_a_spec_are_refused_as_in_a_constructor() -> None:
    with pytest.raises(InputError, match="dim must be a whole number"):
        build(POLICIES, {"name": "LinUCB", "dim": "three"})
    with pytest.raises(InputError, match="axis 'alpha' must have at least one candidate"):
        build(TUNERS, {"name": "OP", "space": {"alpha": []}})


LINUCB, OWN = {"name": "LinUCB", "dim": 3}, {"boldness": [1.0, 2.0, 4.0]}


def test_a_tuner_has_its_own_space_or_the_given_one_or_else_the_policy_s() -> None:
    mine, given = {"alpha": [0.5]}, {"alpha": [0.1, 1.0]}
    assert complete(LINUCB, {"name": "Uniform", "space": mine}, space=given)[1]["space"] == mine
    assert complete(LINUCB, {"name": "Uniform"}, space=given)[1]["space"] == given
    assert complete(LINUCB, {"name": "Uniform"})[1]["space"] == OWN
    assert complete(LINUCB, {"name": "Fixed"}, space={})[1]["space"] == {}


def test_a_tuner_that_takes_no_space_gets_none() -> None:
    assert complete(LINUCB, {"name": "Theory"}, space=OWN) == (LINUCB, {"name": "Theory"})


def test_a_horizon_goes_to_the_parts_that_take_one_and_do_not_say_their_own() -> None:
    sgdts = {"name": "SGDTS", "dim": 3}
    assert complete(sgdts, {"name": "Theory"}, horizon=50)[0] == {"horizon": 50, **sgdts}
    assert complete(LINUCB, {"name": "OP", "horizon": 9}, horizon=50)[0] == LINUCB
    assert complete(LINUCB, {"name": "OP", "horizon": 9}, horizon=50)[1]["horizon"] == 9
    assert "horizon" not in complete(sgdts, {"name": "OP"})[0]


def test_an_agent_is_built_from_two_specs() -> None:
    agent = build_agent(LINUCB, {"name": "TwoLayer"}, seed=4, catalogue=np.eye(3), id="news")
    assert repr(agent.tuner) == repr(TwoLayer(Space(**OWN)))
    assert repr(agent.policy) == repr(LinUCB(dim=3))
    assert (agent.player.seed, agent.id, agent.decide([1]).x.tolist()) == (4, "news", [0.0, 1.0, 0.0])
