"""scikit-learn's contract: parameters by name, and clones of agents, policies, tuners and spaces."""

from typing import Any

import pytest

from syndicated import Agent, InputError, LinUCB, Space, Syndicated
from syndicated.checks import on_space
from syndicated.policies import POLICIES
from syndicated.spec import spec_of
from syndicated.tuners import TUNERS

base = pytest.importorskip("sklearn.base")
SPACE = Space(alpha=[0.1, 1.0], lam=[1.0])
PARTS: list[Any] = [on_space(tuner)(SPACE) for tuner in TUNERS.values()]
PARTS += [policy(dim=2) for policy in POLICIES.values()]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_a_clone_has_the_same_parameters(part: Any) -> None:
    assert spec_of(base.clone(part)) == spec_of(part)


def test_a_cloned_agent_has_learned_nothing() -> None:
    agent = Agent(LinUCB(dim=2), Syndicated(SPACE), seed=3)
    agent.learn(agent.decide([[1.0, 0.0], [0.0, 1.0]]), 1.0)
    clone = base.clone(agent)
    assert (clone.round, clone.player.seed, clone.tuner.space) == (0, 3, SPACE)
    assert clone.id != agent.id


def test_parameters_of_parts_are_set_by_their_path() -> None:
    agent = Agent(LinUCB(dim=2), Syndicated(SPACE))
    assert agent.get_params()["tuner__space__alpha"] == (0.1, 1.0)
    assert agent.set_params(tuner__horizon=50, tuner__space__alpha=[3.0], seed=4) is agent
    assert agent.tuner.params() == Syndicated(Space(alpha=[3.0], lam=[1.0]), horizon=50).params()
    assert (agent.player.seed, agent.get_params(deep=False)["seed"]) == (4, 4)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 1}, "Agent has the parameters policy, tuner, seed, catalogue, id; got 'alpha'"),
        ({"seed__x": 1}, "got 'seed__x'"),
        ({"tuner__horizon": 0}, "horizon must be"),
    ],
)
def test_parameters_that_are_refused_change_nothing(params: dict[str, Any], message: str) -> None:
    agent = Agent(LinUCB(dim=2), Syndicated(SPACE), id="a")
    before = agent.state()
    with pytest.raises(InputError, match=message):
        agent.set_params(**params)
    assert agent.state() == before


def test_an_agent_for_named_arms_is_saved_not_cloned() -> None:
    with pytest.raises(InputError, match="use save and load"):
        Agent.for_arms(arms=["a", "b"]).get_params()
