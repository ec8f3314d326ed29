"""States that earlier versions wrote: they open, and the agent goes on from what they knew.

The files in data/ are of the version before rewards were counted from an origin and features scaled; those of models of
arms, of the version before outliers were cut; that with boldness 2, of the version before rows were remembered; that
with effects, of the version before rows were tried; that with trials, of the version before rows told whether a level
moves; that with levels, of the version before it was known how large effects of rows may be.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from syndicated import UCBGLM, Agent, Fixed, LinTS, LinUCB, Space, StateError
from syndicated._statefile import pack, unpack
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.types import Arms

DATA = Path(__file__).parent / "data"
CATALOGUE = 2 * Stream(9, ARMS).uniforms(60).reshape(20, 3) - 1
THETA = np.array([0.2, -0.1, 0.05])
AGENTS: dict[str, Callable[[], Agent]] = {
    "linucb": lambda: Agent(LinUCB(dim=3), seed=1),
    "lints": lambda: Agent(LinTS(dim=3), seed=2),
    "linucb-no-intercept": lambda: Agent(LinUCB(dim=3, intercept=False), seed=3),
    "linucb-catalogue": lambda: Agent(LinUCB(dim=3), seed=4, catalogue=CATALOGUE),
    "ucbglm": lambda: Agent(UCBGLM(dim=3), seed=5),
    "linucb-boldness-2": lambda: Agent(LinUCB(dim=3), seed=6),
    "linucb-effects": lambda: Agent(LinUCB(dim=3), seed=7, catalogue=CATALOGUE),
    "linucb-trials": lambda: Agent(LinUCB(dim=3), seed=8, catalogue=CATALOGUE),
    "lints-levels": lambda: Agent(LinTS(dim=3), seed=9, catalogue=CATALOGUE),
}
UNTUNED = ("linucb-boldness-2", "linucb-effects", "linucb-trials", "lints-levels")
names = pytest.mark.parametrize("name", AGENTS)


def _opened(name: str) -> Agent:
    agent = AGENTS[name]()
    agent.restore((DATA / f"{name}.state").read_bytes())
    return agent


def _arms(t: int, agent: Agent) -> Arms:
    if agent.player.catalogue is not None:
        return (20 * Stream(1, ARMS, t).uniforms(5)).astype(np.int64)
    return 2 * Stream(1, ARMS, t).uniforms(15).reshape(5, 3) - 1


def _play(agent: Agent, rounds: int) -> list[int]:
    arms = []
    for t in range(agent.round, agent.round + rounds):
        decision = agent.decide(_arms(t, agent))
        arms.append(decision.arm)
        agent.learn(decision, float(0.5 + decision.x @ THETA + 0.01 * Stream(1, NOISE, t).normals(1)[0]))
    return arms


@names
def test_a_state_of_an_older_version_opens_and_goes_on(name: str) -> None:
    agent = _opened(name)
    assert (agent.round, agent.open, agent.id) == (120, 1, "old")
    arms = _play(agent, 40)
    features = [_arms(t, agent) for t in range(120, 160)]
    if agent.player.catalogue is not None:
        features = [CATALOGUE[numbers] for numbers in features]
    regrets = [(X @ THETA).max() - X[arm] @ THETA for X, arm in zip(features, arms, strict=True)]
    share = 0.7 if name == "linucb-no-intercept" else 0.2  # it cannot know the level, and half of that is luck
    assert np.mean(regrets) < share * np.mean([np.ptp(X @ THETA) for X in features])


@names
def test_what_became_of_an_older_state_is_saved_and_loaded_as_any_other(name: str) -> None:
    agent, twin = _opened(name), AGENTS[name]()
    twin.restore(agent.state())
    assert _play(agent, 20) == _play(twin, 20)
    assert agent.state() == twin.state()


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in UNTUNED])
def test_the_tuner_of_an_older_state_has_the_probabilities_that_it_had(name: str) -> None:
    _, arrays = unpack((DATA / f"{name}.state").read_bytes())
    gains, weights, (count, total, *_) = (arrays[f"tuner/{part}"] for part in ("gains", "weights", "seen"))
    order = np.argsort(gains - total / count * weights)
    assert (np.diff(_opened(name).tuner.probabilities()[0][order]) > 0).all()


@pytest.mark.parametrize("name", ["armucb", "armucb-hybrid"])
def test_models_of_arms_of_before_outliers_were_cut_open_and_go_on(name: str) -> None:
    """Reward 0.5 + x_k for arm k; the state is of round 121, of which one waits."""
    agent, regret = Agent.load(DATA / f"{name}.state"), 0.0
    assert (agent.round, agent.open, agent.id, agent.arms) == (121, 1, "old", ["c", "b", "a"])
    for t in range(121, 221):
        x = 2 * Stream(1, ARMS, t).uniforms(3) - 1
        decision = agent.decide(x.tolist(), arms=["a", "b", "c"])
        agent.learn(decision, float(0.5 + x[decision.place]))
        regret += x.max() - x[decision.place]
    assert regret < 3.0
    twin = Agent.load(DATA / f"{name}.state")
    twin.restore(agent.state())
    assert twin.state() == agent.state()


def test_a_damaged_older_state_is_refused() -> None:
    head, arrays = unpack((DATA / "linucb.state").read_bytes())
    for wrong in ({"tuner/seen": np.zeros(3)}, {"tuner/spreads": np.zeros(4)}, {"tuner/gains": np.full(3, np.nan)}):
        with pytest.raises(StateError, match="tuner/"):
            AGENTS["linucb"]().restore(pack(head, {**arrays, **wrong}))


def test_an_agent_goes_on_with_the_boldness_that_was_the_default_before() -> None:
    agent = _opened("linucb-boldness-2")
    assert agent.tuner.points == ({"boldness": 2.0},)
    with pytest.raises(StateError):
        Agent(LinUCB(dim=3), Fixed(Space(boldness=[2.5])), seed=6).restore(agent.state())
