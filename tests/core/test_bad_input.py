"""Bad input: an error that says what must hold and what came, and nothing is changed. Every `raise` is reached."""

import contextlib
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from syndicated import (
    OP,
    SGDTS,
    UCBGLM,
    Agent,
    Consensus,
    Corral,
    Fixed,
    InputError,
    LinTS,
    LinUCB,
    Space,
    StateError,
    Syndicated,
    SyndicatedError,
    TwoLayer,
    Uniform,
)
from syndicated._statefile import pack, unpack
from syndicated._validation import shorten
from syndicated.environments import ENVIRONMENTS, Linear, Logistic
from syndicated.policies import POLICIES, Policy
from syndicated.registry import find
from syndicated.spec import build
from syndicated.streams import Stream
from syndicated.tuners import TUNERS
from syndicated.types import Arms, Array, Params

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])
ARMS = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])
NAN, INF = math.nan, math.inf
LARGE = [1e6, 1e8, 1e20, 1e60, 1e154, 1e160, 1e300]

AGENTS: dict[str, Callable[[], Agent]] = {
    "LinUCB": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE), seed=1),
    "LinTS": lambda: Agent(LinTS(dim=3), TwoLayer(SPACE), seed=1),
    "UCBGLM": lambda: Agent(UCBGLM(dim=3), Corral(SPACE), seed=1),
    "SGDTS": lambda: Agent(SGDTS(dim=3, tau=2), Syndicated(Space(eta0=[0.1, 1.0])), seed=1),
    "warm-up": lambda: Agent(LinUCB(dim=3), OP(SPACE, warmup=100), seed=1),
}


class Wrong(NamedTuple):
    """A call that must fail, and what its message must say."""

    call: Callable[[Any], object]
    message: str
    error: type[SyndicatedError] = InputError


def _name(part: object) -> str:
    return type(part).__name__


def _played(name: str) -> Agent:
    """An agent that has seen some rounds and waits for a reward."""
    agent = AGENTS[name]()
    for reward in (0.0, 1.0, 0.5, 0.25, 0.75):
        agent.learn(agent.decide(ARMS), reward)
    agent.decide(ARMS)
    return agent


SHAPE = r"the arms must have shape \(K, 3\) with K >= 1; got shape "
TABLE = r"the arms must be a table of numbers, one row an arm; got "

DECIDE: dict[str, Wrong] = {
    "NaN": Wrong(lambda a: a.decide([[0, 1, 0], [1, NAN, 1]]), "features must be finite; arm 1, feature 1 is nan"),
    "infinite": Wrong(lambda a: a.decide([[0, 1, INF]]), "features must be finite; arm 0, feature 2 is inf"),
    "minus infinite": Wrong(lambda a: a.decide([[-INF, 1, 0]]), "features must be finite; arm 0, feature 0 is -inf"),
    "missing": Wrong(lambda a: a.decide([[None, 1, 0]]), "features must be finite; arm 0, feature 0 is nan"),
    "too few features": Wrong(lambda a: a.decide(ARMS[:, :2]), SHAPE + r"\(2, 2\)"),
    "too many features": Wrong(lambda a: a.decide(np.ones((2, 4))), SHAPE + r"\(2, 4\)"),
    "one arm, flat": Wrong(lambda a: a.decide([1, 0, 0]), SHAPE + r"\(3,\)"),
    "three axes": Wrong(lambda a: a.decide(np.ones((1, 2, 3))), SHAPE + r"\(1, 2, 3\)"),
    "no arms": Wrong(lambda a: a.decide(np.ones((0, 3))), SHAPE + r"\(0, 3\)"),
    "nothing": Wrong(lambda a: a.decide([]), SHAPE + r"\(0,\)"),
    "a number": Wrong(lambda a: a.decide(3.0), r"the arms must have shape \(K, 3\) with K >= 1; got "),
    "ragged": Wrong(lambda a: a.decide([[1, 0, 0], [1, 0]]), TABLE + r"\[\[1, 0, 0\], \[1, 0\]\]"),
    "words": Wrong(lambda a: a.decide([["a", "b", "c"]]), TABLE + r"\[\['a', 'b', 'c'\]\]"),
    "objects": Wrong(lambda a: a.decide({"alpha": 1}), TABLE + r"\{'alpha': 1\}"),
    "integers beyond any float": Wrong(lambda a: a.decide([[10**400, 0, 0]]), TABLE + r"\[\[1000.*\.\.\."),
}

NUMBERS = {
    "another number": ([0, 2], r"the arms must be numbers from 0 to 1, the catalogue's; got \[0, 2\]"),
    "a negative number": ([-1], r"the arms must be numbers from 0 to 1, the catalogue's; got \[-1\]"),
    "features": (ARMS, "the arms must be a list of numbers of the catalogue; got array"),
    "no arms": ([], r"the arms must be a list of numbers of the catalogue; got \[\]"),
    "fractions": ([0.5], r"the arms must be a list of numbers of the catalogue; got \[0.5\]"),
    "words": (["a"], r"the arms must be a list of numbers of the catalogue; got \['a'\]"),
    "ragged": ([[0], [0, 1]], r"the arms must be a list of numbers of the catalogue; got \[\[0\], \[0, 1\]\]"),
}


@pytest.mark.parametrize(("arms", "message"), NUMBERS.values(), ids=NUMBERS)
def test_arms_that_are_not_in_the_catalogue_are_refused(arms: Any, message: str) -> None:
    agent = Agent(LinUCB(dim=3), catalogue=ARMS)
    with pytest.raises(InputError, match=message):
        agent.decide(arms)
    assert agent.round == 0


@pytest.mark.parametrize(("catalogue", "message"), [(ARMS * NAN, "features must be finite"), ([1, 2], "shape")])
def test_a_wrong_catalogue_is_refused(catalogue: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Agent(LinUCB(dim=3), catalogue=catalogue)


LEARN: dict[str, Wrong] = {
    "NaN": Wrong(lambda a: a.learn(a.decide(ARMS), NAN), "a reward of this policy must be .*; got nan"),
    "infinite": Wrong(lambda a: a.learn(a.decide(ARMS), INF), "a reward of this policy must be .*; got inf"),
    "no number": Wrong(
        lambda a: a.learn(a.decide(ARMS), "much"), "a reward of this policy must be a number; got 'much'"
    ),
    "nothing": Wrong(lambda a: a.learn(a.decide(ARMS), None), "a reward of this policy must be a number; got None"),
    "integers beyond any float": Wrong(
        lambda a: a.learn(a.decide(ARMS), 10**400), r"a reward of this policy must be a number; got 1000.*\.\.\."
    ),
}


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("wrong", DECIDE.values(), ids=DECIDE)
def test_bad_arms_are_refused_and_the_agent_is_unchanged(name: str, wrong: Wrong) -> None:
    agent = _played(name)
    before = agent.state()
    with pytest.raises(wrong.error, match=f"^{wrong.message}"):
        wrong.call(agent)
    assert agent.state() == before


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("wrong", LEARN.values(), ids=LEARN)
def test_bad_rewards_are_refused_and_the_decision_stays_open(name: str, wrong: Wrong) -> None:
    agent, twin = _played(name), AGENTS[name]()
    twin.restore(agent.state())
    twin.decide(ARMS)
    with pytest.raises(wrong.error, match=f"^{wrong.message}$"):
        wrong.call(agent)
    assert agent.state() == twin.state()


@pytest.mark.parametrize("name", ["UCBGLM", "SGDTS"])
@pytest.mark.parametrize("reward", [-0.01, 1.01, -1e300, 7])
def test_logistic_policies_refuse_rewards_outside_0_and_1(name: str, reward: float) -> None:
    agent = _played(name)
    decision = agent.decide(ARMS)
    before = agent.state()
    with pytest.raises(
        InputError, match=f"^a reward of this policy must be between 0 and 1; got {re.escape(str(float(reward)))}$"
    ):
        agent.learn(decision, reward)
    assert agent.state() == before
    agent.learn(decision, 1.0)


def test_a_reward_for_a_decision_of_another_agent_is_refused() -> None:
    agent, other = _played("LinUCB"), _played("LinUCB")
    decision = other.decide(ARMS)
    before = agent.state()
    with pytest.raises(InputError, match=f"for a decision of this agent, {agent.id}; got one of {other.id}"):
        agent.learn(decision, 1.0)
    assert agent.state() == before


def test_a_reward_for_no_decision_is_refused() -> None:
    agent = _played("LinUCB")
    before = agent.state()
    with pytest.raises(InputError, match=f"for a decision of this agent, {agent.id}; got '{agent.id}-5'"):
        agent.learn(f"{agent.id}-5", 1.0)  # type: ignore[arg-type]
    assert agent.state() == before


@pytest.mark.parametrize("name", AGENTS)
def test_a_second_reward_is_refused(name: str) -> None:
    agent = _played(name)
    decision = agent.decide(ARMS)
    agent.learn(decision, 1.0)
    before = agent.state()
    with pytest.raises(InputError, match=f"a decision gets one reward; decision {agent.id}-6 already had its own"):
        agent.learn(decision, 1.0)
    assert agent.state() == before


def test_features_too_large_to_score_are_refused() -> None:
    agent = _played("LinUCB")
    before = agent.state()
    with pytest.raises(InputError, match=r"features must be at most 1e\+50 in size; arm 1, feature 1 is -1e\+200"):
        agent.decide([[1.0, 0.0, 0.0], [0.0, -1e200, 0.0]])
    assert agent.state() == before


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("size", LARGE)
def test_large_features_are_refused_or_learned_but_never_break_the_agent(name: str, size: float) -> None:
    agent = AGENTS[name]()
    for _ in range(8):
        before = agent.state()
        try:
            decision = agent.decide(size * np.eye(3))
        except InputError:
            assert agent.state() == before
        else:
            agent.learn(decision, 0.5)
    agent.learn(agent.decide(ARMS), 0.5)
    arrays = unpack(agent.state())[1]
    assert all(np.isfinite(array.astype(float)).all() for array in arrays.values())


@pytest.mark.parametrize("tuner", [Syndicated, TwoLayer, OP, Corral])
@pytest.mark.parametrize("reward", [1e8, 1e16, -1e20, 1e49, -1e300])
def test_large_rewards_are_refused_or_learned_but_never_break_the_agent(tuner: type[OP], reward: float) -> None:
    agent = Agent(LinUCB(dim=3), tuner(Space(alpha=[0, 1, 2]), horizon=10))
    for _ in range(50):
        decision = agent.decide(ARMS)
        with contextlib.suppress(InputError):
            agent.learn(decision, reward)
    arrays = unpack(agent.state())[1]
    assert all(np.isfinite(array.astype(float)).all() for array in arrays.values())


class Broken(LinUCB):
    """A policy of somebody's own that fails to score."""

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return np.full((len(points), len(arms)), np.nan)


def test_a_policy_that_fails_to_score_is_named() -> None:
    agent = Agent(Broken(dim=3))
    before = agent.state()
    with pytest.raises(InputError, match=r"Broken must give finite scores; it did not with {'alpha': "):
        agent.decide(ARMS)
    assert agent.state() == before


@pytest.mark.parametrize("value", [1e-300, 1e-17, 1e155, 1e308])
@pytest.mark.parametrize("policy", [LinUCB(dim=3), LinTS(dim=3), UCBGLM(dim=3), SGDTS(dim=3, tau=2)], ids=_name)
def test_extreme_hyper_parameters_are_refused_or_work(policy: Policy, value: float) -> None:
    for name in policy.hyper:
        with contextlib.suppress(InputError):
            agent = Agent(policy, Fixed(Space(**{name: [value]})))
            for t in range(20):
                agent.learn(agent.decide(ARMS), float(t % 2))


# Constructors.

CONSTRUCTORS: dict[str, Wrong] = {
    # spaces
    "empty axis": Wrong(lambda _: Space(alpha=[]), "axis 'alpha' must have at least one candidate; got none"),
    "duplicates": Wrong(
        lambda _: Space(lam=[1, 2, 1.0]), r"the candidates for 'lam' must differ; got \[1.0, 2.0, 1.0\]"
    ),
    "axis NaN": Wrong(lambda _: Space(alpha=[1, NAN]), "a candidate for 'alpha' must be finite; got nan"),
    "axis word": Wrong(lambda _: Space(alpha=["big"]), "a candidate for 'alpha' must be a number; got 'big'"),  # type: ignore[list-item]
    "axis number": Wrong(lambda _: Space(alpha=1.0), "axis 'alpha' must be a list of numbers; got 1.0"),  # type: ignore[arg-type]
    "axis text": Wrong(lambda _: Space(alpha="12"), "axis 'alpha' must be a list of numbers; got '12'"),  # type: ignore[arg-type]
    "unknown axis": Wrong(lambda _: SPACE.only("alpha", "eta"), "the space has the axes alpha, lam; got 'eta'"),
    # agents
    "a policy's class": Wrong(
        lambda _: Agent(LinUCB),  # type: ignore[arg-type]
        r"policy must be a policy such as LinUCB\(dim=3\); got <class .+LinUCB'>",
    ),
    "a tuner's name": Wrong(
        lambda _: Agent(LinUCB(dim=2), "Consensus"),  # type: ignore[arg-type]
        r"tuner must be a tuner such as Consensus\(Space\(alpha=\[0.1, 1\]\)\); got 'Consensus'",
    ),
    # policies
    "dim 0": Wrong(lambda _: LinUCB(dim=0), "dim must be a whole number of at least 1; got 0"),
    "dim 2.5": Wrong(lambda _: LinUCB(dim=2.5), "dim must be a whole number of at least 1; got 2.5"),  # type: ignore[arg-type]
    "dim True": Wrong(lambda _: LinUCB(dim=True), "dim must be a whole number of at least 1; got True"),
    "sigma": Wrong(lambda _: LinUCB(dim=2, sigma=-1), r"sigma must be between 0 and 1e\+50; got -1.0"),
    "sigma NaN": Wrong(lambda _: LinUCB(dim=2, sigma=NAN), r"sigma must be between 0 and 1e\+50; got nan"),
    "intercept": Wrong(lambda _: LinUCB(dim=2, intercept="no"), "intercept must be True or False; got 'no'"),  # type: ignore[arg-type]
    "delta 0": Wrong(lambda _: LinTS(dim=2, delta=0), "delta must be between 1e-300 and 1; got 0.0"),
    "delta 2": Wrong(lambda _: LinTS(dim=2, delta=2), "delta must be between 1e-300 and 1; got 2.0"),
    "S": Wrong(lambda _: LinTS(dim=2, S=-1), r"S must be between 0 and 1e\+50; got -1.0"),
    "L": Wrong(lambda _: LinTS(dim=2, L=INF), r"L must be between 0 and 1e\+50; got inf"),
    "ridge": Wrong(lambda _: UCBGLM(dim=2, ridge="C"), "ridge must be 'lam' or 'inverse'; got 'C'"),  # type: ignore[arg-type]
    "tau": Wrong(lambda _: SGDTS(dim=2, tau=0), "tau must be a whole number of at least 1; got 0"),
    "policy's horizon": Wrong(lambda _: SGDTS(dim=2, horizon=0), "horizon must be a whole number of at least 1; got 0"),
    # tuners
    "horizon": Wrong(lambda _: Syndicated(SPACE, horizon=0), "horizon must be a whole number of at least 1; got 0"),
    "warm-up name": Wrong(
        lambda _: Syndicated(SPACE, warmup="T^9"),
        r"warmup must be a number of rounds or one of T\^2/3, T\^4/7; got 'T\^9'",
    ),
    "warm-up": Wrong(lambda _: OP(SPACE, warmup=-1), "warmup must be a whole number of at least 0; got -1"),
    "warm-up 1.5": Wrong(lambda _: OP(SPACE, warmup=1.5), "warmup must be a whole number of at least 0; got 1.5"),  # type: ignore[arg-type]
    "range of rewards": Wrong(
        lambda _: TwoLayer(SPACE, rewards=(1, 0)),
        r"the range of rewards must be \(low, high\) with low < high; got \(1, 0\)",
    ),
    "infinite range": Wrong(
        lambda _: TwoLayer(SPACE, rewards=(0, INF)), "an end of the range of rewards must be finite; got inf"
    ),
    "a range of one end": Wrong(lambda _: Syndicated(SPACE, rewards=(1.0,)), ".*range of rewards.*"),  # type: ignore[arg-type]
    "a range of three ends": Wrong(lambda _: Syndicated(SPACE, rewards=(0, 1, 2)), ".*range of rewards.*"),  # type: ignore[arg-type]
    "a range of no ends": Wrong(lambda _: Syndicated(SPACE, rewards=1.0), ".*range of rewards.*"),  # type: ignore[arg-type]
    "no space": Wrong(lambda _: Syndicated({"alpha": [1]}), ".*[Ss]pace.*"),  # type: ignore[arg-type]
    "Uniform without a space": Wrong(lambda _: Uniform({"alpha": [1]}), ".*[Ss]pace.*"),  # type: ignore[arg-type]
    "Fixed without a space": Wrong(lambda _: Fixed({"alpha": [1]}), ".*[Ss]pace.*"),  # type: ignore[arg-type]
    "eta": Wrong(lambda _: Corral(SPACE, eta=0.0), "eta must be at least 1e-300; got 0.0"),
    "negative eta": Wrong(lambda _: Corral(SPACE, eta=-1.0), "eta must be at least 1e-300; got -1.0"),
    "two fixed values": Wrong(
        lambda _: Fixed(Space(alpha=[1, 2])),
        r"Fixed takes one value for each hyper-parameter; got Space\(alpha=\[1.0, 2.0\]\)",
    ),
    # agents
    "unknown hyper-parameter": Wrong(
        lambda _: Agent(LinUCB(dim=2), Syndicated(Space(eta0=[1]))),
        "LinUCB has the hyper-parameters alpha, lam, intercept, memory, boldness, alpha_multiple; got 'eta0'",
    ),
    "boldness and alpha": Wrong(
        lambda _: Agent(LinUCB(dim=2), Syndicated(Space(boldness=[1], alpha=[1]))),
        "boldness stands for alpha, of which one must be given; got {.*}",
    ),
    "a memory that was not kept": Wrong(
        lambda _: LinUCB(dim=2).predict(np.eye(2), {"lam": 1.0, "memory": 0.5}),
        r"a memory must be kept from the first round on, as \[1.0\]; got 0.5",
    ),
    "half an intercept": Wrong(
        lambda _: Agent(LinUCB(dim=2), Syndicated(Space(intercept=[0.5, 1]))), "intercept must be 0 or 1; got 0.5"
    ),
    "boldness that was not prepared": Wrong(
        lambda _: LinUCB(dim=2).theory(0, {"boldness": 1.0}),
        "points in natural units must be prepared before the first round; got {'boldness': 1.0}",
    ),
    "a policy without a space, and no tuner": Wrong(
        lambda _: Agent(Policy(dim=2)), "Policy has no default candidates: the agent must be given a tuner"
    ),
    "sharing": Wrong(lambda _: Consensus(SPACE, sharing=1), "sharing must be True or False; got 1"),  # type: ignore[arg-type]
    "floor": Wrong(lambda _: Consensus(SPACE, floor=2.0), "floor must be between 0 and 1; got 2.0"),
    "rate": Wrong(lambda _: Consensus(SPACE, rate=-1.0), "rate must be at least 0; got -1.0"),
    "lam 0": Wrong(
        lambda _: Agent(LinUCB(dim=2), TwoLayer(Space(lam=[0, 1]))), r"lam must be between 1e-12 and 1e\+12; got 0.0"
    ),
    "negative lam": Wrong(
        lambda _: Agent(LinTS(dim=2), Fixed(Space(lam=[-1]))), r"lam must be between 1e-12 and 1e\+12; got -1.0"
    ),
    "alpha": Wrong(
        lambda _: Agent(LinTS(dim=2), Corral(Space(alpha=[-0.5, 1]))), r"alpha must be between 0 and 1e\+12; got -0.5"
    ),
    "eta0": Wrong(
        lambda _: Agent(SGDTS(dim=2), OP(Space(eta0=[0]))), r"eta0 must be between 1e-12 and 1e\+12; got 0.0"
    ),
    "seed": Wrong(lambda _: Agent(LinUCB(dim=2), seed=-1), "seed must be a whole number of at least 0; got -1"),
    "seed 1.5": Wrong(lambda _: Agent(LinUCB(dim=2), seed=1.5), "seed must be a whole number of at least 0; got 1.5"),  # type: ignore[arg-type]
    "seed too large": Wrong(lambda _: Agent(LinUCB(dim=2), seed=2**64), "seed must .*; got 18446744073709551616"),
    # environments
    "arms": Wrong(lambda _: Linear(arms=0), "arms must be a whole number of at least 1; got 0"),
    "world's dim": Wrong(lambda _: Logistic(dim=-3), "dim must be a whole number of at least 1; got -3"),
    "noise": Wrong(lambda _: Linear(noise=-0.1), "noise must be at least 0; got -0.1"),
    "low above high": Wrong(
        lambda _: Linear(low=2.0), r"the range of rewards must be \(low, high\) with low < high; got \(2.0, 1.0\)"
    ),
    "high": Wrong(lambda _: Linear(high=INF), "an end of the range of rewards must be finite; got inf"),
    "change": Wrong(lambda _: Linear(change=-1), "change must be a whole number of at least 0; got -1"),
    "change 1.5": Wrong(lambda _: Linear(change=1.5), "change must be a whole number of at least 0; got 1.5"),  # type: ignore[arg-type]
    "fixed": Wrong(lambda _: Linear(fixed="yes"), "fixed must be True or False; got 'yes'"),  # type: ignore[arg-type]
    # specs
    "unknown name": Wrong(lambda _: find(TUNERS, "exp9"), "no 'exp9' is registered; there are .*, Uniform"),
    "unknown argument": Wrong(
        lambda _: build(POLICIES, {"name": "LinUCB", "dim": 2, "gamma": 1}),
        "LinUCB has the parameters dim, .*; got 'gamma'",
    ),
    "missing argument": Wrong(lambda _: build(POLICIES, {"name": "LinUCB"}), "LinUCB needs dim"),
    "unknown world": Wrong(
        lambda _: build(ENVIRONMENTS, {"name": "Mars"}),
        f"no 'Mars' is registered; there are {', '.join(ENVIRONMENTS)}",
    ),
}


@pytest.mark.parametrize("wrong", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_bad_arguments_are_refused(wrong: Wrong) -> None:
    with pytest.raises(wrong.error, match=f"^{wrong.message}$"):
        wrong.call(None)


# Every raise is reached.


def _without(agent: Agent, name: str) -> bytes:
    head, arrays = unpack(agent.state())
    return pack(head, {key: array for key, array in arrays.items() if key != name})


def _altered(agent: Agent, **fields: Any) -> bytes:
    """The state of an agent with other fields in its head, or other arrays."""
    head, arrays = unpack(agent.state())
    more = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    return pack({**head, **{name: value for name, value in fields.items() if name not in more}}, {**arrays, **more})


DRAWN = {"params": {"alpha": 1.0, "lam": 1.0}, "index": [1, 9], "probability": [0.5, 0.5], "slot": 0}
STATES: dict[str, Wrong] = {
    "junk": Wrong(
        lambda a: a.restore(b"junk" + hashlib.sha256(b"junk").digest()), "a state must be a zip of arrays", StateError
    ),
    "id": Wrong(lambda a: a.restore(_altered(a, id=7)), "the id of a state must be text; got 7", StateError),
    "round": Wrong(
        lambda a: a.restore(_altered(a, round="x")),
        "the round of a state must be a whole number .*; got 'x'",
        StateError,
    ),
    "choice": Wrong(lambda a: a.restore(_altered(a, choice=DRAWN)), "a choice must be what a tuner drew", StateError),
    "drawn": Wrong(
        lambda a: a.restore(_altered(a, choice={**DRAWN, "odds": [], "allies": []})),
        "the choice of a state must be one that the tuner can make; got {'params'",
        StateError,
    ),
    "open": Wrong(
        lambda a: a.restore(_altered(a, open=np.array([99]))),
        r"the open rounds of a state must be before its round 6; got array\(\[99\]\)",
        StateError,
    ),
    "shape": Wrong(
        lambda a: a.restore(_altered(a, **{"policy0/model.G": np.zeros((1, 1, 1))})),
        r"the array policy0/model.G of a state must have .*; got float64 \(1, 1, 1\)",
        StateError,
    ),
    "cut short": Wrong(lambda a: a.restore(a.state()[:-9]), "a state must be a whole file", StateError),
    "version": Wrong(
        lambda a: a.restore(pack({"version": 99}, {})), "a state must have format version 1; got 99", StateError
    ),
    "other seed": Wrong(
        lambda a: a.restore(Agent(LinUCB(dim=3), Syndicated(SPACE), seed=2).state()),
        "the seed of a state must be 1; got 2",
        StateError,
    ),
    "other arrays": Wrong(
        lambda a: a.restore(_without(a, "tuner/logw")), "a state of this agent has other arrays; got", StateError
    ),
}


@pytest.mark.parametrize("wrong", STATES.values(), ids=STATES)
def test_bad_states_are_refused_and_the_agent_is_unchanged(wrong: Wrong) -> None:
    agent = _played("LinUCB")
    before = agent.state()
    with pytest.raises(wrong.error, match=f"^{wrong.message}"):
        wrong.call(agent)
    assert agent.state() == before


VALUES: dict[str, Any] = {
    "nothing": None,
    "parts": {"a": [1, -0.5, "b\n  'c'"], "d": ((), (1,), (1, 2)), 3: {}},
    "spaces": "a" + 500 * " " + "b",
    "a text": "ab" * 1000,
    "bytes": b"ab" * 1000,
    "numbers": list(range(1000)),
    "tables": {str(k): [k] * 100 for k in range(100)},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_message_shows_the_beginning_of_a_value(value: Any) -> None:
    text = " ".join(repr(value).split())
    assert shorten(value) == (text if len(text) <= 60 else text[:57] + "...")


def test_of_a_value_no_more_becomes_text_than_a_message_shows() -> None:
    shown = []

    class Item:
        def __repr__(self) -> str:
            shown.append(self)
            return "item"

    assert shorten([[Item()] * 5, {"a": Item()}] * 10_000).startswith("[[item, item, ")
    assert len(shown) < 20
