"""Many at once: `decide_many` and `learn_many` are the loops over `decide` and `learn`, to the bit."""

import copy

import numpy as np
import pytest

from syndicated import Agent, Consensus, Corral, LinUCB, Space, Syndicated
from syndicated.errors import InputError
from syndicated.policies import POLICIES
from syndicated.policies._ridge_policy import TRIAL_ROUNDS
from syndicated.types import Array, Decision, Ints

CONTEXTS = [{"hour": float(hour), "country": country} for hour in range(12) for country in ("fr", "de")]
ARMS = ["tea", "coffee", {"id": "milk", "price": 2.0}]
AGENTS = {name: (lambda name=name: Agent(POLICIES[name](dim=3), id="a")) for name in POLICIES} | {
    "Consensus": lambda: Agent(LinUCB(dim=3), Consensus(Space(alpha=[0.1, 1.0])), id="a"),
    "Corral": lambda: Agent(LinUCB(dim=3), Corral(Space(alpha=[0.1, 1.0])), id="a"),
    "warm-up": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0]), warmup=10), id="a"),
    "nothing set": lambda: Agent(id="a"),
}


def _tables(rounds: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rounds, 4, 3))


def _rewards(decisions: list[Decision], seed: int = 0) -> list[float]:
    noise = np.random.default_rng(seed).random(len(decisions))
    return [float(noise[n] < 1 / (1 + np.exp(-decision.x[0]))) for n, decision in enumerate(decisions)]


def _fields(decision: Decision) -> tuple[object, ...]:
    return decision.id, decision.arm, decision.x.tolist(), decision.propensity, dict(decision.params), decision.choice


@pytest.mark.parametrize("name", AGENTS)
def test_many_are_one_after_the_other(name: str) -> None:
    one, many = AGENTS[name](), AGENTS[name]()
    for start, rounds in ((0, 3), (3, 40), (43, 20)):
        tables = _tables(rounds, start)
        apart = [one.decide(table) for table in tables]
        together = many.decide_many(tables)
        assert list(map(_fields, together)) == list(map(_fields, apart))
        rewards = _rewards(apart, start)
        for decision, reward in zip(apart, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(together, rewards)
        assert many.state() == one.state()


def test_a_model_that_refreshes_and_starts_again_does_so_at_the_same_reward() -> None:
    one, many = Agent(LinUCB(dim=3), id="a"), Agent(LinUCB(dim=3), id="a")
    rng = np.random.default_rng(1)
    theta = rng.normal(size=3)
    for part in range(4):
        apart, together = ([agent.decide(table) for table in _tables(600, part)] for agent in (one, many))
        theta = -theta  # all that was learned is wrong
        rewards = [float(decision.x @ theta + 0.1 * rng.normal()) for decision in apart]
        rewards[300] = 1e6
        for decision, reward in zip(apart, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(together, rewards)
        assert many.state() == one.state()
    assert one.policy.model.G[-1, -1] < 2400  # type: ignore[attr-defined]


def test_contexts_with_named_arms() -> None:
    one, many = Agent(id="a"), Agent(id="a")
    for _ in range(2):
        apart, together = [one.decide(context, ARMS) for context in CONTEXTS], many.decide_many(CONTEXTS, ARMS)
        assert [decision.arm for decision in together] == [decision.arm for decision in apart]
        rewards = [float(decision.arm == "tea") for decision in apart]
        for decision, reward in zip(apart, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(together, rewards)
        assert many.state() == one.state()


def test_nothing_is_decided_for_no_contexts() -> None:
    agent = Agent()
    assert agent.decide_many([]) == []
    agent.learn_many([], [])
    assert agent.round == 0


def test_a_mistake_anywhere_changes_nothing() -> None:
    agent = Agent(LinUCB(dim=3))
    tables = _tables(10)
    tables[7, 2, 1] = np.nan
    with pytest.raises(InputError, match="feature"):
        agent.decide_many(tables)
    with pytest.raises(InputError, match="a context needs an agent for arms with ids"):
        agent.decide_many(_tables(2), arms=["a"])
    with pytest.raises(InputError, match="shape"):
        agent.decide_many(np.zeros((2, 4, 5)))
    assert (agent.round, agent.open) == (0, 0)
    decisions = agent.decide_many(_tables(3))
    before = agent.state()
    other = Agent(LinUCB(dim=3)).decide(_tables(1)[0])
    for given, rewards, message in (
        (decisions, [1.0, 2.0], "a reward for each of 3 decisions; got 2"),
        (decisions, [1.0, 2.0, np.nan], "a reward of this policy must"),
        ([*decisions, decisions[0]], [1.0] * 4, "a decision gets one reward"),
        ([*decisions[:2], other], [1.0] * 3, "a decision of this agent"),
    ):
        with pytest.raises(InputError, match=message):
            agent.learn_many(given, rewards)
    assert agent.state() == before


def _looped(agent: Agent, tables: Array, places: Ints, rewards: Array) -> list[int]:
    """`replay` as decide and learn; decisions that the log did not make get no reward, and are not open."""
    played = []
    for table, place, reward in zip(tables, places.tolist(), rewards.tolist(), strict=True):
        decision = agent.decide(table)
        played.append(decision.place)
        if decision.place == place:
            agent.learn(decision, reward)
        agent._open.discard(decision.round)
    return played


@pytest.mark.parametrize("name", ["LinUCB", "LinTS", "UCBGLM", "ArmUCB", "Consensus", "Corral", "nothing set"])
def test_a_replay_is_the_loop_over_the_log(name: str) -> None:
    one, many = AGENTS[name](), AGENTS[name]()
    for part, rounds in enumerate((5, 400)):
        rng = np.random.default_rng(part)
        tables, places = _tables(rounds, part), rng.integers(4, size=rounds)
        rewards = (rng.random(rounds) < 1 / (1 + np.exp(-tables[np.arange(rounds), places, 0]))).astype(float)
        assert many.replay(tables, places, rewards).tolist() == _looped(one, tables, places, rewards)
        assert (many.round, many.open) == (one.round, 0)
        assert many.state() == one.state()


def test_batches_and_replays_check_a_level_that_moves_in_the_rounds_of_the_loop() -> None:
    """The same rows in every round, whose rewards rise: now and then one that is not the best has to confirm that."""
    one, many, replayed = (Agent(LinUCB(dim=3), id="a") for _ in range(3))
    rows, noise = _tables(1)[0], np.random.default_rng(2)
    for part in range(60):
        tables, level = np.tile(rows, (64, 1, 1)), 0.1 * part
        apart, together = [one.decide(table) for table in tables], many.decide_many(tables)
        assert list(map(_fields, together)) == list(map(_fields, apart))
        rewards = [float(decision.x @ [1.0, 0.5, 0.2] + level + 0.1 * noise.normal()) for decision in apart]
        for decision, reward in zip(apart, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(together, rewards)
        assert many.state() == one.state()
    best = int(np.argmax(rows @ [1.0, 0.5, 0.2]))
    tables, loop = np.tile(rows, (4000, 1, 1)), copy.deepcopy(replayed)
    places = np.where(noise.random(4000) < 0.8, best, noise.integers(4, size=4000))
    rewards = rows[places] @ [1.0, 0.5, 0.2] + 0.002 * np.arange(4000) + 0.1 * noise.normal(size=4000)
    played = replayed.replay(tables, places, rewards)
    assert played.tolist() == _looped(loop, tables, places, rewards)
    assert replayed.state() == loop.state()
    assert any(played[t] != best for t in range(1024, 4000, 32) if t not in TRIAL_ROUNDS)
    assert np.mean(played[1000:] != best) < 0.05


def test_named_arms_are_replayed() -> None:
    agent, places = Agent(), np.arange(len(CONTEXTS)) % 3
    played = agent.replay(CONTEXTS, places, np.ones(len(CONTEXTS)), arms=ARMS)
    assert set(played.tolist()) <= {0, 1, 2}
    assert agent.round == len(CONTEXTS)


def test_a_log_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    agent = Agent(LinUCB(dim=3))
    tables = _tables(4)
    for places, rewards, message in (
        ([0, 1], [1.0] * 4, "must be 4 whole numbers and 4 numbers, one a round"),
        ([0.0] * 4, [1.0] * 4, "one a round; got float64 of shape"),
        ([0] * 4, [1.0, 2.0], "must be 4 whole numbers and 4 numbers, one a round"),
        ([0, 1, 4, 0], [1.0] * 4, "a place must be that of one of its round's 4 arms; got 4"),
        ([0, 1, -1, 0], [1.0] * 4, "a place must be that of one of its round's 4 arms; got -1"),
        ([0] * 4, [1.0, 2.0, np.inf, 0.0], "a reward of this policy must"),
    ):
        with pytest.raises(InputError, match=message):
            agent.replay(tables, places, rewards)
    tables[3, 1, 1] = np.nan
    with pytest.raises(InputError, match="feature"):
        agent.replay(tables, [0] * 4, [1.0] * 4)
    assert (agent.round, int(agent.policy.state()["model.count"])) == (0, 0)
