"""Consensus against plain loops, and what it needs not to know."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from syndicated import SGDTS, UCBGLM, Agent, Consensus, LinTS, LinUCB, Space, Syndicated, Theory
from syndicated._models.ridge import Ridge
from syndicated.environments import Linear
from syndicated.experiments import simulate
from syndicated.policies import Policy
from syndicated.policies._ridge_policy import CANDIDATE_LAMS, RidgePolicy
from syndicated.streams import ARMS, NOISE, TUNER, Stream
from syndicated.types import Array, Choice

SPACE = Space(boldness=[0.5, 1.0, 2.0, 4.0])
IX, CAUTION, MAX_JOINT_POINTS = 0.02, 10.0, 64  # as docs/theory.md states them


def _arms(t: int, K: int = 12) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(3 * K).reshape(K, 3) - 1


def _reward(t: int) -> float:
    return float(Stream(1, NOISE, t).uniforms(1)[0])


def plain_odds(history: list[tuple[Choice, float]], n: int) -> list[float]:
    """p after these rewards, from the formulas of the tuner's page."""
    m = sum(y for _, y in history) / len(history)
    G, V, weight = [0.0] * n, 0.0, 0.0
    for choice, y in history:
        q = sum(choice.candidate_probabilities[j] for j in choice.agreeing)
        for j in choice.agreeing:
            G[j] += (y - m) / (q + IX)
        V += q * (1 - q) * ((y - m) / (q + IX)) ** 2
        if q < 1 - 1e-9:
            weight = max(weight, 1 / (q + IX))
    B = max(abs(y - m) for _, y in history) * weight
    eta = math.sqrt(math.log(n) / (V + CAUTION * B**2)) if V + B > 0 else 0.0
    w = [math.exp(eta * (g - max(G))) for g in G]
    return [each / sum(w) for each in w]


@pytest.mark.parametrize("policy", [LinUCB(dim=3), LinTS(dim=3), UCBGLM(dim=3)], ids=lambda p: type(p).__name__)
def test_credit_is_shared_among_those_who_would_have_played_the_same_arm(policy: Policy) -> None:
    agent = Agent(policy, Consensus(SPACE), seed=3)
    history = []
    for t in range(60):
        played = agent.player.arms_of_points(_arms(t), agent.round)
        decision = agent.decide(_arms(t))
        choice = decision.choice
        assert choice is not None
        assert choice.agreeing == tuple(np.flatnonzero(played == decision.arm))
        assert decision.propensity == pytest.approx(sum(choice.candidate_probabilities[j] for j in choice.agreeing))
        agent.learn(decision, _reward(t))
        history.append((choice, _reward(t)))
        np.testing.assert_allclose(agent.tuner.probabilities()[0], plain_odds(history, 4), rtol=1e-8)
    assert len({len(choice.agreeing) for choice, _ in history}) > 1


def test_rounds_in_which_all_agree_change_nothing() -> None:
    tuner = Consensus(SPACE)
    for t in range(50):
        choice = tuner.choose(Stream(1, TUNER, t))
        tuner.learn(replace(choice, agreeing=(0, 1, 2, 3)), _reward(t))
    assert tuner.probabilities()[0].tolist() == pytest.approx([0.25] * 4)
    assert tuner.spreads[:, 3].tolist() == [0.0]  # nor do they count as a credit that caution must reckon with


@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (250.0, -50.0), (1.0, 1000.0), (1.0, 1e9)])
def test_probabilities_do_not_depend_on_the_scale_and_the_shift_of_rewards(scale: float, shift: float) -> None:
    plain, other = Consensus(SPACE), Consensus(SPACE)
    for t in range(200):
        choice = plain.choose(Stream(1, TUNER, t))
        plain.learn(choice, _reward(t))
        other.learn(choice, scale * _reward(t) + shift)
    np.testing.assert_allclose(plain.probabilities()[0], other.probabilities()[0], rtol=1e-6)


def exact_odds(history: list[tuple[Choice, float]], n: int) -> list[float]:
    """`plain_odds` with sums that round nothing."""
    whole, least = [(choice, Fraction(y)) for choice, y in history], Fraction(IX)
    m = sum((y for _, y in whole), Fraction(0)) / len(whole)
    G, V, weight = [Fraction(0)] * n, Fraction(0), Fraction(0)
    for choice, y in whole:
        q = sum((Fraction(choice.candidate_probabilities[j]) for j in choice.agreeing), Fraction(0))
        for j in choice.agreeing:
            G[j] += (y - m) / (q + least)
        V += q * (1 - q) * ((y - m) / (q + least)) ** 2
        weight = max(weight, 1 / (q + least))
    B = max(abs(y - m) for _, y in whole) * weight
    eta = math.sqrt(math.log(n) / (V + Fraction(CAUTION) * B**2))
    w = [math.exp(eta * float(g - max(G))) for g in G]
    return [each / sum(w) for each in w]


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e9, 1e9])
def test_probabilities_are_those_of_exact_sums_at_any_level_of_rewards(offset: float) -> None:
    tuner, history = Consensus(SPACE), []
    for t in range(400):
        choice = tuner.choose(Stream(1, TUNER, t))
        allies = tuple(sorted({choice.index[0], t % 4}))
        history.append((replace(choice, agreeing=allies), offset + 0.3 * choice.index[0] + _reward(t)))
        tuner.learn(*history[-1])
    expected = exact_odds(history, 4)
    np.testing.assert_allclose(tuner.probabilities()[0], expected, rtol=0, atol=1e-9)
    assert max(expected) > 0.5


@pytest.mark.parametrize("reward", [0.1, 3.7, 1 / 3, 1e8, 0.0])
def test_rewards_that_do_not_differ_say_nothing(reward: float) -> None:
    tuner = Consensus(SPACE)
    for t in range(1_000):
        tuner.learn(tuner.choose(Stream(1, TUNER, t)), reward)
    assert tuner.probabilities()[0].tolist() == [0.25] * 4


@pytest.mark.parametrize("make", [LinUCB, LinTS])
@pytest.mark.parametrize("scale", [2.0**20, 2.0**-20])
def test_an_agent_plays_the_same_whatever_the_unit_of_rewards(make: type[Policy], scale: float) -> None:
    one, other = Agent(make(dim=3)), Agent(make(dim=3))
    for t in range(300):
        first, second = one.decide(_arms(t)), other.decide(_arms(t))
        assert first.arm == second.arm
        one.learn(first, float(first.x[0]) + _reward(t))
        other.learn(second, scale * (float(second.x[0]) + _reward(t)))


def test_rewards_of_zero_do_not_end_exploration() -> None:
    agent = Agent(LinUCB(dim=20))
    arms = set()
    for _ in range(20):
        decision = agent.decide(np.eye(20))
        arms.add(decision.arm)
        agent.learn(decision, 0.0)
    assert len(arms) == 20


FIVE = range(5)
PRODUCT = Space(first=FIVE, second=FIVE)


def _pays(choice: Choice) -> float:
    """Proposition 1's counter-example: both at 0 pays best, one alone nothing."""
    zeros = sum(value == 0 for value in choice.params.values())
    return [0.6, 0.0, 1.0][zeros]


def _shortfall(tuner: Consensus | Syndicated, horizon: int) -> float:
    total = 0.0
    for t in range(horizon):
        choice = tuner.choose(Stream(1, TUNER, t))
        tuner.learn(choice, _pays(choice))
        total += 1.0 - _pays(choice)
    return total


def test_it_finds_the_joint_best_where_one_exp3_an_axis_does_not() -> None:
    ours, theirs = Consensus(PRODUCT), Syndicated(PRODUCT, horizon=10_000)
    assert _shortfall(ours, 10_000) < 1_500
    assert _shortfall(theirs, 10_000) > 3_500
    assert ours.probabilities()[0][0] > 0.9


@pytest.mark.parametrize(("sizes", "axes"), [((8, 8), [64]), ((5, 13), [5, 13])])
def test_up_to_64_points_are_weighed_one_by_one(sizes: tuple[int, int], axes: list[int]) -> None:
    tuner = Consensus(Space(alpha=range(sizes[0]), lam=range(1, sizes[1] + 1)))
    assert [len(axis) for axis in tuner.axes()] == axes


def test_a_large_space_is_learned_axis_by_axis() -> None:
    space = Space(alpha=[0.1 * i for i in range(1, 10)], lam=[0.1 * i for i in range(1, 10)])
    assert len(space.points) > MAX_JOINT_POINTS
    agent = Agent(LinUCB(dim=3), Consensus(space), seed=1)
    assert [len(axis) for axis in agent.tuner.axes()] == [9, 9]
    for t in range(100):
        decision = agent.decide(_arms(t))
        choice = decision.choice
        assert choice is not None
        assert choice.index[0] in choice.agreeing
        assert 9 + choice.index[1] in choice.agreeing
        assert decision.propensity is None
        assert choice.draw_probability == pytest.approx(math.prod(choice.probability))
        agent.learn(decision, float(decision.x[0]))
    for p in agent.tuner.probabilities():
        assert p.sum() == pytest.approx(1)
        assert np.ptp(p) > 0


def test_an_axis_alone_may_have_more_than_64_candidates() -> None:
    n = MAX_JOINT_POINTS + 1
    tuner = Consensus(Space(alpha=range(n)))
    choice = tuner.choose(Stream(1, TUNER, 0))
    history = [(replace(choice, agreeing=agreeing), y) for agreeing, y in [((0, n - 1), 1.0), ((n - 1,), 0.0)]]
    for each, y in history:
        tuner.learn(each, y)
    np.testing.assert_allclose(tuner.probabilities()[0], plain_odds(history, n), rtol=1e-8)


def test_the_axes_of_a_large_space_get_the_credit_of_their_own_allies() -> None:
    space = Space(alpha=range(9), lam=range(1, 10))
    tuner = Consensus(space)
    choice = tuner.choose(Stream(1, TUNER, 0))
    tuner.learn(
        Choice(choice.params, choice.index, choice.probability, 0, choice.candidate_probabilities, (0, 1, 2, 9)), 1.0
    )
    assert tuner.weights.round(9).tolist()[:3] == pytest.approx([1 / (3 / 9 + IX)] * 3)
    assert tuner.weights[9] == pytest.approx(1 / (1 / 9 + IX))
    assert np.count_nonzero(tuner.weights) == 4


def test_a_floor_is_the_least_probability() -> None:
    tuner = Consensus(PRODUCT, floor=0.25)
    _shortfall(tuner, 3_000)
    assert min(tuner.probabilities()[0]) == pytest.approx(0.25 / 25, rel=1e-3)


def test_without_sharing_no_other_point_is_asked() -> None:
    agent = Agent(LinUCB(dim=3), Consensus(SPACE, sharing=False))
    decision = agent.decide(_arms(0))
    assert decision.choice is not None
    assert decision.choice.agreeing == ()
    assert decision.propensity is None


def test_a_fixed_rate_is_the_one_given() -> None:
    tuner = Consensus(SPACE, rate=0.5, baseline=False)
    choice = tuner.choose(Stream(1, TUNER, 0))
    tuner.learn(choice, 1.0)
    p = tuner.probabilities()[0]
    i = choice.index[0]
    assert p[i] / p[i - 1] == pytest.approx(math.exp(0.5 / (0.25 + IX)))


def _regret(world: Linear, make: Callable[[], Agent]) -> float:
    return float(simulate(world, make(), 2_000, 1).sum())


def test_it_beats_the_paper_s_tuner_by_far_where_arms_change() -> None:
    world, paper = Linear(), Space(alpha=[0, 0.01, 0.1, 1, 10], lam=[0.01, 0.1, 1])
    ours = _regret(world, lambda: Agent(LinUCB(dim=10), Consensus(Space(boldness=[1, 2, 4]))))
    theirs = _regret(world, lambda: Agent(LinUCB(dim=10, intercept=False), Syndicated(paper, horizon=2_000)))
    assert ours < 0.3 * theirs


# Natural units.


def test_boldness_is_in_units_of_the_noise_that_the_errors_show() -> None:
    for noise in (0.1, 3.0):
        policy = LinUCB(dim=2)
        policy.prepare([{"boldness": 2.0}])
        for t in range(3_000):
            x = 2 * Stream(1, ARMS, t % 100).uniforms(2) - 1
            policy.learn(x, 1.0 + x[0] + noise * Stream(1, NOISE, t).normals(1)[0], {})
        assert policy.theory(3_000, {"boldness": 2.0})["alpha"] == pytest.approx(2 * noise, rel=0.1)


def _taught(change: bool) -> LinUCB:
    policy = LinUCB(dim=2)
    policy.prepare([{"boldness": 1.0, "intercept": 1.0}])
    for t in range(2_000):
        x, sign = 2 * Stream(1, ARMS, t).uniforms(2) - 1, -1.0 if change and t // 500 % 2 else 1.0
        policy.learn(x, sign * x[0] + 0.1 * Stream(1, NOISE, t).normals(1)[0], {})
    return policy


def test_evidence_forgets_where_the_world_changes_and_not_where_it_stays() -> None:
    point = {"boldness": 1.0, "intercept": 1.0}
    assert _taught(change=True).theory(0, point)["memory"] < 1.0
    assert _taught(change=False).theory(0, point)["memory"] == 1.0


def test_what_a_point_says_of_the_prior_is_kept() -> None:
    policy = _taught(change=False)
    policy.prepare([{"boldness": 1.0, "lam": 0.25}])
    assert policy.theory(0, {"boldness": 1.0, "lam": 0.25})["lam"] == 0.25


def test_an_intercept_may_be_tuned() -> None:
    space = Space(alpha=[0.1], intercept=[0, 1])
    agent = Agent(LinUCB(dim=3, intercept=False), Consensus(space))
    plain, wide = Agent(LinUCB(dim=3, intercept=False), Theory()), Agent(LinUCB(dim=3), Theory())
    for t in range(50):
        decision = agent.decide(_arms(t))
        for each in (agent.policy, plain.policy, wide.policy):
            each.learn(decision.x, 5.0 + _reward(t), {})
    for value, twin in ((0.0, plain), (1.0, wide)):
        params = {"alpha": 0.1, "lam": 1.0, "intercept": value, "memory": 1.0}
        got, expected = (p.scores(_arms(99), [params], Stream(0, 0)) for p in (agent.policy, twin.policy))
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_a_memory_weighs_the_past_down() -> None:
    policy = LinUCB(dim=3, intercept=False)
    policy.prepare([{"memory": 0.9, "lam": 0.5}])
    X, y = np.array([_arms(t, 1)[0] for t in range(42)]), np.array([_reward(t) for t in range(42)])
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), {})
    weights = 0.9 ** np.arange(41, -1, -1)
    theta = np.linalg.solve(0.5 * np.eye(3) + (X.T * weights) @ X, (X.T * weights) @ y)
    np.testing.assert_allclose(policy.predict(_arms(99), {"lam": 0.5, "memory": 0.9}), _arms(99) @ theta, rtol=1e-9)


def test_the_units_of_sgd_ts_are_what_an_epoch_tells() -> None:
    policy = SGDTS(dim=2, intercept=False, tau=10)
    for t in range(10):
        policy.learn(np.array([2.0, 0.0]), float(t % 2), {"eta0": 1.0})
    params = policy.theory(10, {"boldness": 3.0, "stride": 0.5})
    information = 10 * 0.25 * 2.0
    assert params["eta0"] == pytest.approx(0.5 / information)
    assert params["alpha1"] == pytest.approx(3.0 / math.sqrt(2 * information))
    assert params["alpha2"] == 0.0


@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_evidence_is_the_likelihood_of_recent_rewards_each_predicted_from_those_before(make: type[RidgePolicy]) -> None:
    policy = make(dim=2, intercept=False)
    policy.prepare([{"boldness": 1.0, "memory": 1.0}])
    squared, logs = dict.fromkeys(CANDIDATE_LAMS, 0.0), dict.fromkeys(CANDIDATE_LAMS, 0.0)
    plain = dict.fromkeys(CANDIDATE_LAMS, 0.0)
    X, y = np.array([_arms(t, 1)[0, :2] for t in range(60)]), np.array([_reward(t) for t in range(60)])
    for t in range(60):
        for lam in CANDIDATE_LAMS:
            V = lam * np.eye(2) + X[:t].T @ X[:t]
            error, w = y[t] - X[t] @ np.linalg.solve(V, X[:t].T @ y[:t]), X[t] @ np.linalg.solve(V, X[t])
            plain[lam] += error**2 / (1 + w)
            squared[lam] = 0.999 * squared[lam] + error**2 / (1 + w)
            logs[lam] = 0.999 * logs[lam] + math.log(1 + w)
        policy.learn(X[t], float(y[t]), {})
        assert isinstance(policy.model, Ridge)
        np.testing.assert_allclose(policy.model.tallies[:, 2], list(squared.values()), rtol=1e-7)
        np.testing.assert_allclose(policy.model.tallies[:, 3], list(logs.values()), rtol=1e-7)
        n = sum(0.999**age for age in range(t + 1))
        values = {lam: -0.5 * (n * math.log(squared[lam] / n) + logs[lam]) for lam in CANDIDATE_LAMS}
        best = max(values, key=lambda lam: values[lam])
        params = policy.theory(t, {"boldness": 2.0, "memory": 1.0})
        assert params["lam"] == best
        assert params["alpha"] == pytest.approx(2 * math.sqrt(plain[best] / (t + 1)), rel=1e-6)


@pytest.mark.parametrize("make", [LinUCB, LinTS])
@pytest.mark.parametrize("catalogue", [True, False])
def test_between_rebuilds_forgetting_takes_the_penalty_along(make: type[RidgePolicy], catalogue: bool) -> None:
    policy, arms = make(dim=3, intercept=False), _arms(99)
    policy.prepare([{"memory": 0.9, "lam": 0.5}], arms if catalogue else None)
    X, y = np.array([_arms(t, 1)[0] for t in range(40)]), np.array([_reward(t) for t in range(40)])
    for x, reward in zip(X, y, strict=True):
        policy.learn(x, float(reward), {})
    weights, since = 0.9 ** np.arange(39, -1, -1), 40 % 6  # 0.9^6 is the last power above one half
    V = 0.5 * 0.9**since * np.eye(3) + (X.T * weights) @ X
    params, given = {"lam": 0.5, "memory": 0.9, "alpha": 1.0}, np.arange(len(arms)) if catalogue else arms
    means = arms @ np.linalg.solve(V, (X.T * weights) @ y)
    np.testing.assert_allclose(policy.predict(given, params), means, rtol=1e-9)
    if make is LinUCB:
        widths = np.sqrt(np.sum(arms * np.linalg.solve(V, arms.T).T, axis=1))
        np.testing.assert_allclose(policy.scores(given, [params], Stream(0, 0))[0], means + widths, rtol=1e-9)
