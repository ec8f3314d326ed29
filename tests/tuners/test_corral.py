"""Corral: its log-barrier step, the direction of its learning rates, and who learns."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from syndicated import Agent, Corral, Decision, Fixed, LinTS, LinUCB, Space
from syndicated.environments import Linear, Round
from syndicated.policies import Policy
from syndicated.policies._ridge_policy import RidgePolicy
from syndicated.streams import TUNER, Stream
from syndicated.tuners._corralling import log_barrier_step
from syndicated.types import Array, Choice

SPACE = Space(alpha=[0, 0.01, 0.1, 1, 10])
P = np.array([0.5, 0.25, 0.15, 0.08, 0.02])
ETAS = np.array([0.02, 0.03, 0.02, 0.05, 0.08])
LOSSES = [1e-9, 0.3, 2.0, 50.0, 1e4, -0.2, -3.0, -100.0]


def losses(played: int, loss: float) -> Array:
    out = np.zeros(len(P))
    out[played] = loss
    return out


def plain_step(p: Array, etas: Array, played: int, loss: float) -> Array:
    """The step by another root finder, between the nu that lets no p' rise and the first that makes a p' 1."""
    L = losses(played, loss)
    high = min(L + (1 / p - 1) / etas)

    def excess(nu: float) -> float:
        return math.fsum(1 / (1 / p[j] + etas[j] * (L[j] - nu)) for j in range(len(p))) - 1

    nu = brentq(excess, min(L), high, xtol=1e-15, rtol=1e-15)
    return np.array([1 / (1 / p[j] + etas[j] * (L[j] - nu)) for j in range(len(p))])


def forced(tuner: Corral, i: int) -> Choice:
    """The choice of point i, with the probability that it has now."""
    return Choice({}, (i,), (float(tuner.probabilities()[0][i]),), slot=i)


@pytest.mark.parametrize("played", range(5))
@pytest.mark.parametrize("loss", LOSSES)
def test_the_log_barrier_step_has_one_nu_for_all(played: int, loss: float) -> None:
    moved = log_barrier_step(P, ETAS, played, loss)
    assert (moved > 0).all()
    assert moved.sum() == pytest.approx(1.0, rel=1e-14)
    nu = losses(played, loss) - (1 / moved - 1 / P) / ETAS
    np.testing.assert_allclose(nu, nu[0], rtol=1e-9, atol=1e-10)
    assert min(0, loss) <= nu.mean() <= max(0, loss)


@pytest.mark.parametrize("played", range(5))
@pytest.mark.parametrize("loss", LOSSES)
def test_the_log_barrier_step_is_that_of_a_root_finder(played: int, loss: float) -> None:
    np.testing.assert_allclose(log_barrier_step(P, ETAS, played, loss), plain_step(P, ETAS, played, loss), rtol=1e-7)


@pytest.mark.parametrize("played", range(5))
def test_after_a_loss_the_played_falls_and_the_others_rise(played: int) -> None:
    moved = log_barrier_step(P, ETAS, played, 2.0)
    others = np.arange(5) != played
    assert moved[played] < P[played]
    assert (moved[others] > P[others]).all()


@pytest.mark.parametrize("played", range(5))
def test_after_a_negative_loss_the_played_rises_and_the_others_fall(played: int) -> None:
    moved = log_barrier_step(P, ETAS, played, -2.0)
    others = np.arange(5) != played
    assert moved[played] > P[played]
    assert (moved[others] < P[others]).all()


def test_a_loss_of_0_changes_nothing() -> None:
    np.testing.assert_allclose(log_barrier_step(P, ETAS, 1, 0.0), P, rtol=1e-15)
    tuner = Corral(SPACE)
    tuner.learn(forced(tuner, 2), 1.0)
    np.testing.assert_allclose(tuner.p, np.full(5, 0.2), rtol=1e-15)


@pytest.mark.parametrize("reward", [-0.5, 0.0, 0.4, 1.0, 1.3])
def test_the_loss_is_1_minus_the_rescaled_reward_over_its_probability(reward: float) -> None:
    plain, declared = Corral(SPACE, horizon=100), Corral(SPACE, horizon=100, rewards=(-50, 200))
    q = (1 - 1 / 100) * 0.2 + 1 / 100 / 5
    expected = plain_step(np.full(5, 0.2), np.full(5, math.sqrt(5 / 100)), 3, (1 - reward) / q)
    plain.learn(forced(plain, 3), reward)
    declared.learn(forced(declared, 3), 250 * reward - 50)
    np.testing.assert_allclose(plain.p, expected, rtol=1e-9)
    np.testing.assert_allclose(declared.p, expected, rtol=1e-9)


def test_the_step_starts_from_p_without_the_uniform_share() -> None:
    tuner = Corral(SPACE, horizon=20)
    tuner.p = P.copy()
    choice = forced(tuner, 4)
    expected = plain_step(P, np.full(5, 0.5), 4, 0.6 / choice.probability[0])
    tuner.learn(choice, 0.4)
    np.testing.assert_allclose(tuner.p, expected, rtol=1e-9)


def test_an_epochs_share_scales_the_loss() -> None:
    tuner = Corral(SPACE, horizon=100)
    choice = forced(tuner, 3)
    expected = plain_step(tuner.p, tuner.etas, 3, 0.25 * (1 - 0.4) / choice.probability[0])
    tuner.learn(choice, 0.4, 0.25)
    np.testing.assert_allclose(tuner.p, expected, rtol=1e-9)


def test_the_first_learning_rate_is_the_square_root_of_M_over_T_unless_given() -> None:
    assert Corral(SPACE, horizon=2_000).etas.tolist() == [math.sqrt(5 / 2_000)] * 5
    assert Corral(SPACE, horizon=2_000, eta=0.3).etas.tolist() == [0.3] * 5


def test_a_learning_rate_grows_by_e_to_1_over_log_T_exactly_when_1_over_q_passes_rho() -> None:
    tuner, horizon = Corral(SPACE, horizon=1_000), 1_000
    etas, rho, growths = [math.sqrt(5 / horizon)] * 5, [10.0] * 5, 0
    random = np.random.default_rng(1)
    for t in range(400):
        i = t % 5
        tuner.learn(forced(tuner, i), random.uniform() if i == 4 else 0.3 * random.uniform())
        for j in range(5):
            q = (1 - 1 / horizon) * tuner.p[j] + 1 / horizon / 5
            if 1 / q > rho[j]:
                rho[j] = 2 / q
                etas[j] *= math.e ** (1 / math.log(horizon))
                growths += 1
        np.testing.assert_allclose(tuner.etas, etas, rtol=1e-13)
        np.testing.assert_allclose(tuner.rho, rho, rtol=1e-13)
    assert growths >= 4
    assert tuner.etas.min() == math.sqrt(5 / horizon) < tuner.etas.max()


def test_stated_probabilities_are_mixed_with_the_uniform_and_equal_the_frequencies_of_draws() -> None:
    tuner, n = Corral(SPACE, horizon=500), 20_000
    for t in range(100):
        tuner.learn(forced(tuner, t % 5), 0.2 * (t % 5))
    q = tuner.probabilities()[0]
    np.testing.assert_allclose(q, [(1 - 1 / 500) * p + 1 / 500 / 5 for p in tuner.p], rtol=1e-14)
    assert q.sum() == pytest.approx(1.0, rel=1e-14)
    assert q.max() > 3 * q.min()
    counts = np.zeros(5)
    for t in range(n):
        choice = tuner.choose(Stream(3, TUNER, t))
        counts[choice.index[0]] += 1
        assert choice.probability == (q[choice.index[0]],)
        assert choice.slot == choice.index[0]
        assert choice.params == SPACE.points[choice.slot]
    assert (abs(counts / n - q) < 4 * np.sqrt(q * (1 - q) / n)).all()


@pytest.mark.parametrize("policy", [LinUCB(dim=10), LinTS(dim=10)], ids=["LinUCB", "LinTS"])
def test_a_single_point_is_the_policy_alone_with_that_point(policy: Policy) -> None:
    space = Space(alpha=[0.5], lam=[0.1])
    corral, alone = Agent(policy, Corral(space), seed=3), Agent(policy, Fixed(space), seed=3)
    for world in Linear(arms=20).rounds(seed=1, horizon=300):
        first, second = corral.decide(world.arms), alone.decide(world.arms)
        assert (first.arm, first.params) == (second.arm, second.params)
        assert first.propensity == pytest.approx(1.0, rel=1e-15)
        for agent, decision in ((corral, first), (alone, second)):
            agent.learn(decision, world.rewards[decision.arm])


def counts(agent: Agent) -> list[int]:
    """How many observations each copy of the policy has."""
    return [policy.model.count for policy in agent.player.policies if isinstance(policy, RidgePolicy)]


def one_round(agent: Agent, world: Round) -> Decision:
    decision = agent.decide(world.arms)
    agent.learn(decision, world.rewards[decision.arm])
    return decision


def test_all_copies_learn_in_the_warm_up_and_only_the_played_one_after_it() -> None:
    agent = Agent(LinUCB(dim=10), Corral(SPACE, warmup=7), seed=3)
    expected = [0] * 5
    for t, world in enumerate(Linear(arms=20).rounds(seed=1, horizon=100)):
        decision = one_round(agent, world)
        for slot in range(5):
            expected[slot] += t < 7 or (decision.choice is not None and slot == decision.choice.slot)
        assert (decision.choice is None) == (t < 7)
        assert counts(agent) == expected
    assert sum(expected) == 5 * 7 + 93


def test_the_warm_up_teaches_the_policy_only() -> None:
    agent = Agent(LinUCB(dim=10), Corral(SPACE, warmup=50), seed=3)
    for world in Linear(arms=20).rounds(seed=1, horizon=50):
        one_round(agent, world)
    assert agent.tuner.state()["p"].tolist() == [0.2] * 5


def test_the_played_copy_learns_the_reward_as_it_came() -> None:
    agent = Agent(LinUCB(dim=2, intercept=False), Corral(SPACE), seed=3)
    decision = agent.decide(np.eye(2))
    agent.learn(decision, 0.75)
    assert decision.choice is not None
    for slot, policy in enumerate(agent.player.policies):
        learned = policy.predict(np.eye(2), {"lam": 1.0})[decision.arm]
        assert learned == (0.75 / 2 if slot == decision.choice.slot else 0.0)
