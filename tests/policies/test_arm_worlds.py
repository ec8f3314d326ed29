"""Models of arms in worlds that are not kind: outliers, other units, levels that move, late rewards, bad luck."""

from collections import Counter, deque
from collections.abc import Callable

import numpy as np
import pytest

from syndicated import Agent, Decision, Fixed, Space
from syndicated._models.arm_kernels import FOLLOWING, SUSPICION
from syndicated._models.arm_models import FIRST_HOPE, HOPE, ArmModels
from syndicated.policies import ArmUCB
from syndicated.types import Array

ROUNDS, ARMS, SEEDS = 800, ("a", "b", "c", "d"), range(1, 6)
Rewards = Callable[[Array, Array, np.random.Generator], Array]

pytestmark = pytest.mark.no_cover  # many rounds: nothing new is covered


def _world(seed: int) -> tuple[Array, Array, Array, np.random.Generator]:
    """Contexts, the mean of every arm in each, and noise."""
    rng = np.random.default_rng([seed, 13])
    X, slopes = rng.normal(size=(ROUNDS, 3)), rng.normal(size=(3, len(ARMS))) / np.sqrt(3)
    return X, X @ slopes + 0.5 * rng.normal(size=len(ARMS)), rng.normal(size=ROUNDS), rng


def _regret(rewards: Rewards = lambda means, noise, rng: noise) -> float:
    """Of the default over all seeds; `rewards` gives what a reward is above its mean."""
    total = 0.0
    for seed in SEEDS:
        X, means, noise, rng = _world(seed)
        above, agent = rewards(means, noise, rng), Agent(seed=seed)
        for x, mean, more in zip(X.tolist(), means, above, strict=True):
            decision = agent.decide(x, arms=ARMS)
            agent.learn(decision, float(mean[decision.place] + more))
            total += float(mean.max() - mean[decision.place])
    return total


@pytest.fixture(scope="module")
def plain() -> float:
    return _regret()


def test_a_few_outliers_cost_next_to_nothing(plain: float) -> None:
    def rewards(means: Array, noise: Array, rng: np.random.Generator) -> Array:
        return np.where(rng.random(ROUNDS) < 0.002, rng.choice([-1e4, 1e4], ROUNDS), noise)

    assert _regret(rewards) < 1.1 * plain


@pytest.mark.parametrize("place", [0, 7, 30])
def test_an_outlier_among_the_first_rewards_does_not_stay(plain: float, place: int) -> None:
    """Before the eighth reward nobody can tell which one it is, and it costs a few rounds."""

    def rewards(means: Array, noise: Array, rng: np.random.Generator) -> Array:
        return np.where(np.arange(ROUNDS) == place, 1e6, noise)

    assert _regret(rewards) < 1.5 * plain


def test_a_level_of_all_rewards_may_be_huge(plain: float) -> None:
    assert _regret(lambda means, noise, rng: 1e9 + noise) < 1.1 * plain


@pytest.mark.parametrize("rounds", [300, ROUNDS])
def test_a_level_that_moves_is_followed(plain: float, rounds: int) -> None:
    """A season, and half a one: a level that rises and falls by ten times the noise."""
    season = 5.0 * np.sin(2 * np.pi * np.arange(ROUNDS) / rounds)
    assert _regret(lambda means, noise, rng: noise + season) < 2.5 * plain


def test_a_level_that_stays_is_not_followed() -> None:
    for seed in SEEDS:
        X, means, noise, _ = _world(seed)
        policy = ArmUCB(dim=3, link="linear")
        for t, x in enumerate(X):
            policy.learn_arm(t % 4, x, float(means[t, t % 4] + noise[t]), {})
        assert policy.linear.sums[FOLLOWING] == 0.0


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_the_unit_of_rewards_does_not_matter(unit: float) -> None:
    X, means, noise, _ = _world(1)
    agents = Agent(seed=1), Agent(seed=1)
    for x, mean, more in zip(X.tolist(), means, noise, strict=True):
        decisions = [agent.decide(x, arms=ARMS) for agent in agents]
        assert decisions[0].arm == decisions[1].arm
        for agent, decision, scale in zip(agents, decisions, (1.0, unit), strict=True):
            agent.learn(decision, scale * float(mean[decision.place] + more))


@pytest.mark.parametrize("rewards", [[], [0.0], [0.0, 1.0]])
def test_many_open_decisions_do_not_all_go_to_one_arm(rewards: list[float]) -> None:
    agent = Agent(seed=2)
    for reward in rewards:
        agent.learn(agent.decide([1.0], arms=ARMS), reward)
    played = Counter(agent.decide([1.0], arms=ARMS).arm for _ in range(200))
    assert len(played) >= len(ARMS) - len(rewards)
    assert max(played.values()) < 180


@pytest.mark.parametrize("rewards", [(0.0, 1.0), (0.0, 0.7)])
def test_an_arm_with_bad_luck_is_played_again(rewards: tuple[float, float]) -> None:
    """The better arm loses its first three plays; the other one always pays a little."""
    agent, low, high = Agent(seed=3), *rewards
    for t in range(2_000):
        decision = agent.decide(arms=["good", "poor"])
        unlucky = Counter(a for a in agent.arms)["good"] == 0 or t < 6
        pays = 0.1 if decision.arm == "poor" else 0.0 if unlucky else 0.9
        agent.learn(decision, high if (t * 0.618) % 1.0 < pays else low)
    assert agent.decide(arms=["good", "poor"]).arm == "good"


def test_outliers_are_none_for_a_tuner() -> None:
    policy, rng = ArmUCB(dim=1, link="linear"), np.random.default_rng(1)
    for reward in rng.normal(size=100):
        policy.learn_arm(0, np.ones(1), float(reward), {})
        assert policy.usual(float(reward)) == pytest.approx(reward)
    policy.learn_arm(0, np.ones(1), 1e6, {})
    assert policy.usual(1e6) < 20.0
    assert abs(policy.predict(np.ones((1, 1)), {})[0]) < 1.0


def _payments(rounds: int, rates: list[float], later: list[float], link: str, seed: int) -> Array:
    """Of every arm in each round: clicks, or levels with noise; from the half on other ones."""
    rng = np.random.default_rng([seed, 17])
    means = np.where(np.arange(rounds)[:, None] < rounds // 2, rates, later)
    if link == "logistic":
        return np.asarray(rng.random((rounds, 1)) < means, dtype=np.float64)
    return np.asarray(means + 0.3 * rng.normal(size=(rounds, 1)), dtype=np.float64)


def _play(agent: Agent, payments: Array) -> list[int]:
    places = []
    for row in payments:
        decision = agent.decide(arms=ARMS)
        agent.learn(decision, float(row[decision.place]))
        places.append(decision.place)
    return places


def _model(agent: Agent) -> ArmModels:
    policy = agent.policy
    assert isinstance(policy, ArmUCB)
    return policy.model


@pytest.mark.parametrize(("link", "most"), [("logistic", 120), ("linear", 60)])
def test_an_arm_that_pays_less_than_it_did_is_left(link: str, most: int) -> None:
    """What it paid in a thousand rounds would outweigh hundreds of new rewards."""
    for seed in SEEDS:
        agent = Agent(seed=seed)
        places = _play(agent, _payments(2_000, [0.8, 0.5, 0.4, 0.3], [0.2, 0.5, 0.4, 0.3], link, seed))
        assert Counter(places[1_000:])[0] < most


@pytest.mark.parametrize("link", ["logistic", "linear"])
def test_no_arm_forgets_much_where_nothing_changes(link: str) -> None:
    """One that is tried again, and lucky, may forget the few plays that it had; the best one keeps all."""
    rates = [0.8, 0.5, 0.4, 0.3]
    for seed in SEEDS:
        agent = Agent(seed=seed)
        _play(agent, _payments(2_000, rates, rates, link, seed))
        assert 1_980 <= _model(agent).plays.sum() <= 2_000


def test_an_agent_that_suspects_an_arm_is_saved_and_loaded_to_the_bit() -> None:
    payments = _payments(2_000, [0.8, 0.5, 0.4, 0.3], [0.2, 0.5, 0.4, 0.3], "logistic", 1)
    agent, twin = Agent(seed=1), Agent(seed=1)
    _play(agent, payments[:1_010])
    assert _model(agent).falls[:, SUSPICION].max() > 0.0
    twin.restore(agent.state())
    assert _play(agent, payments[1_010:1_200]) == _play(twin, payments[1_010:1_200])
    assert _model(agent).plays.sum() < 1_200
    assert agent.state() == twin.state()


@pytest.mark.parametrize(("link", "late"), [("logistic", [0.5, 0.4, 0.3, 0.9]), ("linear", [0.5, 0.4, 0.3, 1.0])])
def test_an_arm_that_becomes_the_best_one_is_found(link: str, late: list[float]) -> None:
    found = 0
    for seed in SEEDS:
        agent = Agent(seed=seed)
        places = _play(agent, _payments(4_000, [0.5, 0.4, 0.3, 0.1], late, link, seed))
        found += Counter(places[3_000:])[3] > 800
    assert found >= len(SEEDS) - 1


@pytest.mark.parametrize("link", ["logistic", "linear"])
def test_arms_are_tried_again_four_times_while_the_rounds_double(link: str) -> None:
    """Where nothing changes a trial ends soon: the plays of what is not best grow with the logarithm of the rounds."""
    rates = [0.8, 0.5, 0.4, 0.3]
    for seed in SEEDS:
        agent = Agent(seed=seed)
        places = _play(agent, _payments(4_096, rates, rates, link, seed))
        assert sum(place != 0 for place in places[1_024:]) < 60
        assert len(set(places[1_024:])) > 1


def test_nothing_is_tried_again_without_boldness_or_where_rows_differ() -> None:
    def played(rows_differ: bool, boldness: float) -> int:
        rng, agent = np.random.default_rng(5), Agent.for_arms(tuner=Fixed(Space(boldness=[boldness])), seed=5)
        for place in range(1_024):  # the third arm is played until the 64th round
            decision = agent.decide([rng.random() * rows_differ], arms=[ARMS[place % 3 if place < 64 else place % 2]])
            agent.learn(decision, float(rng.random() < (0.6, 0.5, 0.01)[ARMS.index(str(decision.arm))]))
        return agent.decide([0.0], arms=ARMS[:3]).place  # round 1,024 is a round of trials

    assert played(rows_differ=False, boldness=1.0) == 2
    assert played(rows_differ=False, boldness=0.0) != 2
    assert played(rows_differ=True, boldness=1.0) != 2


def test_an_agent_with_hope_for_an_arm_is_saved_and_loaded_to_the_bit() -> None:
    payments = _payments(4_000, [0.5, 0.4, 0.3, 0.1], [0.5, 0.4, 0.3, 0.9], "logistic", 1)
    agent, twin, hoped = Agent(seed=1), Agent(seed=1), 0
    for row in payments:
        if _model(agent).trial[HOPE] > FIRST_HOPE:
            hoped += 1
            twin.restore(agent.state())
            assert twin.state() == agent.state()
        elif hoped:
            assert _play(twin, row[None]) == _play(agent, row[None])
            continue
        _play(agent, row[None])
        if hoped:
            _play(twin, row[None])
    assert hoped > 2
    assert twin.state() == agent.state()


def test_while_rewards_are_late_an_arm_is_tried_about_once_in_the_time_that_they_take() -> None:
    payments = _payments(4_000, [0.5, 0.4, 0.3, 0.1], [0.5, 0.4, 0.3, 0.1], "logistic", 2)
    agent, waiting, places = Agent(seed=2), deque[tuple[Decision, float]](), []
    for row in payments:
        decision = agent.decide(arms=ARMS)
        waiting.append((decision, float(row[decision.place])))
        places.append(decision.place)
        if len(waiting) > 100:
            agent.learn(*waiting.popleft())
    assert sum(place == 3 for place in places[2_000:]) < 60
