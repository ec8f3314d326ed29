"""Learners of other libraries as policies; each test needs its library."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import Agent, InputError, MissingExtraError, Space, Syndicated
from syndicated.environments import Linear
from syndicated.experiments import Experiment, run_task, simulate
from syndicated.experiments.bakeoff import _peers
from syndicated.policies import PEERS, POLICIES, Policy
from syndicated.policies._peers import MABWiserPolicy, PeerPolicy, RiverPolicy, VowpalWabbitPolicy
from syndicated.registry import find
from syndicated.spec import build, spec_of
from syndicated.streams import POLICY, Stream
from syndicated.types import Array, Params

LIBRARIES: dict[str, type[PeerPolicy]] = {
    "mabwiser": MABWiserPolicy,
    "river": RiverPolicy,
    "vowpalwabbit": VowpalWabbitPolicy,
}
NEVER: Params = {"epsilon": 0.0}
WORLD = Linear(dim=3, arms=5, noise=0.05)


def peer(library: str, **arguments: Any) -> PeerPolicy:
    pytest.importorskip(library)
    return LIBRARIES[library](**{"dim": 3, **arguments})


class Mean(PeerPolicy):
    """A learner that needs no library: it prefers rows that are like the mean of those that paid."""

    def _make(self) -> list[Array]:
        return [np.zeros(self.size)]

    def _values(self, rows: Array) -> Array:
        values: Array = rows @ sum(self._learner)
        return values

    def _learn(self, row: Array, reward: float) -> None:
        self._learner.append(reward * row)


@pytest.mark.parametrize("library", [*LIBRARIES, ""])
def test_a_peer_learns_goes_on_from_its_state_and_can_be_tuned(library: str) -> None:
    policy = peer(library) if library else Mean(dim=3)
    tuner = Syndicated(Space(epsilon=[0.0, 0.5]), horizon=60)
    agent, twin = (Agent(policy, tuner, seed=3, id="a") for _ in range(2))
    for t, seen in enumerate(WORLD.rounds(1, 40)):
        if t == 30:
            twin.restore(agent.state())
        decision = agent.decide(seen.arms)
        if t >= 30:
            other = twin.decide(seen.arms)
            assert other.to_json() == decision.to_json()
            twin.learn(other, seen.reward(other))
        agent.learn(decision, seen.reward(decision))
    assert agent.state() == twin.state()
    assert spec_of(build(POLICIES, spec_of(policy)) if library else policy) == spec_of(policy)


@pytest.mark.parametrize("library", ["mabwiser", "river"])
def test_a_peer_in_an_experiment_comes_close_to_the_best_arm(library: str) -> None:
    regret = simulate(WORLD, Agent(peer(library), seed=1), 300, seed=1)
    uniform = np.mean([(seen.means.max() - seen.means).mean() for seen in WORLD.rounds(1, 300)])
    assert regret[150:].mean() < 0.5 * uniform


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_spec_finds_a_peer_by_its_name(library: str) -> None:
    pytest.importorskip(library)
    name = LIBRARIES[library].__name__
    experiment = Experiment(
        name="peers",
        title="peers",
        environment={"name": "Linear", "dim": 3, "arms": 5},
        policy={"name": name, "dim": 3},
        tuners={"Fixed": {"name": "Fixed", "space": {"epsilon": [0.1]}}},
        horizon=20,
        repeats=1,
    )
    assert 0 < run_task(experiment.tasks()[0])["regret"][-1] < 20
    assert POLICIES.package(name) is None


def test_mabwisers_scores_are_the_formula() -> None:
    policy, X = peer("mabwiser", alpha=0.7, l2_lambda=2.0), np.random.default_rng(0).normal(size=(6, 3))
    rows, rewards = np.column_stack([X, np.ones(6)]), np.arange(6.0)
    for x, reward in zip(X, rewards.tolist(), strict=True):
        policy.learn(x, reward, {})
    V = 2.0 * np.eye(4) + rows.T @ rows
    width = np.sqrt(np.einsum("ij,jk,ik->i", rows, np.linalg.inv(V), rows))
    expected = rows @ np.linalg.solve(V, rows.T @ rewards) + 0.7 * width
    np.testing.assert_allclose(policy.scores(X, [NEVER], Stream(0, POLICY))[0], expected)
    assert policy.scores(X[:1], [NEVER], Stream(0, POLICY))[0] == pytest.approx(expected[:1])


def test_vowpal_wabbit_plays_with_the_probabilities_that_it_gives() -> None:
    policy, arms = peer("vowpalwabbit", options="--epsilon 0.4"), np.eye(3)
    for _ in range(30):
        policy.learn(arms[1], 1.0, {})
        policy.learn(arms[0], 0.0, {})
    played = [policy.best(arms, [NEVER], 0, Stream(n, POLICY))[0] for n in range(600)]
    assert np.bincount(played, minlength=3) / 600 == pytest.approx([0.4 / 3, 1 - 0.8 / 3, 0.4 / 3], abs=0.06)


def test_epsilon_plays_any_arm_and_0_the_preferred_one() -> None:
    policy, arms = Mean(dim=3), np.eye(3)
    policy.learn(arms[2], 1.0, {})
    points = [NEVER, {"epsilon": 1.0}]
    played = np.array([policy.best(arms, points, 0, Stream(n, POLICY)) for n in range(300)])
    assert set(played[:, 0]) == {2}
    assert np.bincount(played[:, 1]) / 300 == pytest.approx([1 / 3] * 3, abs=0.09)


def test_what_peers_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match="Mean says which arm it prefers, not what it expects"):
        Mean(dim=3).predict(np.eye(3), {})
    with pytest.raises(InputError, match=r"model must be a regressor of river such as .*; got 'magic.Wand'"):
        peer("river", model="magic.Wand")
    with pytest.raises(InputError, match="alpha must be"):
        MABWiserPolicy(dim=3, alpha=-1.0)
    nothing = Mean(dim=1)
    for call in (
        lambda: PeerPolicy._make(nothing),
        lambda: PeerPolicy._values(nothing, np.zeros((1, 2))),
        lambda: PeerPolicy._learn(nothing, np.zeros(2), 1.0),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_river_predicts_rewards_and_nothing_before_the_first() -> None:
    policy = peer("river")
    assert policy.predict(np.eye(3), {}).tolist() == [0.0] * 3
    policy.learn(np.array([1.0, 0.0, 0.0]), 1.0, {})
    assert policy.predict(np.eye(3), {})[0] > policy.predict(np.eye(3), {})[1]
    assert Agent(policy).tuner.points == ({"epsilon": 0.05},)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mabwiser", None)
    monkeypatch.setitem(__import__("sys").modules, "mabwiser.mab", None)
    with pytest.raises(MissingExtraError, match=r"MABWiserPolicy needs mabwiser: pip install 'syndicated\[peers\]'"):
        MABWiserPolicy(dim=2)


def test_peers_are_found_and_not_listed_and_their_versions_are_the_bake_offs() -> None:
    assert not set(PEERS) & set(POLICIES)
    assert {find(POLICIES, name) for name in ("mabwiser-policy", "RiverPolicy", "vowpal_wabbit_policy")} == set(
        LIBRARIES.values()
    )
    assert all(issubclass(POLICIES[name], Policy) for name in PEERS)
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = {_peers.REQUIREMENTS[library] for library in LIBRARIES}
    assert set(project["optional-dependencies"]["peers"]) == wanted
