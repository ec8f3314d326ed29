"""Many at once: `decide_many` and `learn_many` are the loops over `decide` and `learn`, to the bit."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from syndicated import SGDTS, Agent, ArmUCB, Consensus, Corral, LinTS, LinUCB, Space, Syndicated, TwoLayer
from syndicated._decision_history import MAX_ARMS
from syndicated._models.ridge import Ridge
from syndicated.errors import InputError
from syndicated.policies import POLICIES, Policy
from syndicated.policies._ridge_policy import TRIAL_ROUNDS
from syndicated.streams import Stream
from syndicated.types import Arms, Array, Choice, Decision, Ints, NamedArms, Params

CONTEXTS = [{"hour": float(hour), "country": country} for hour in range(12) for country in ("fr", "de")]
ARMS = ["tea", "coffee", {"id": "milk", "price": 2.0}]
AGENTS = {name: (lambda name=name: Agent(POLICIES[name](dim=3), id="a")) for name in POLICIES} | {
    "Consensus": lambda: Agent(LinUCB(dim=3), Consensus(Space(alpha=[0.1, 1.0])), id="a"),
    "Corral": lambda: Agent(LinUCB(dim=3), Corral(Space(alpha=[0.1, 1.0])), id="a"),
    "warm-up": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0]), warmup=10), id="a"),
    "nothing set": lambda: Agent(id="a"),
    "two axes": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0, 9.0])), id="a"),
    "factors": lambda: Agent(LinTS(dim=3), TwoLayer(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])), id="a"),
    "forgetting": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0], memory=[0.8, 1.0])), id="a"),
    "losses": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0]), layer="Tsallis-INF"), id="a"),
    "a changing best": lambda: Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0]), layer="EXP3.S"), id="a"),
    "epochs": lambda: Agent(SGDTS(dim=3, tau=4), Syndicated(Space(eta0=[0.1, 1.0])), id="a"),
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


@pytest.mark.parametrize("row", [10, 63, 64, 65])
def test_a_tuned_model_that_loses_its_precision_is_computed_again_at_the_same_reward(row: int) -> None:
    """At a row that is far out where a penalty is small, next to where inverses are looked at again anyway."""
    space = Space(alpha=[0.1, 1.0], lam=[1e-6, 1.0])
    one, many = (Agent(LinUCB(dim=3), Syndicated(space), id="a") for _ in range(2))
    tables, rewards = _tables(200), np.random.default_rng(0).random(200).tolist()
    tables[row] *= 1e7
    apart, together = ([agent.decide(table) for table in tables] for agent in (one, many))
    for decision, reward in zip(apart, rewards, strict=True):
        one.learn(decision, reward)
    many.learn_many(together, rewards)
    assert many.state() == one.state()


def test_outliers_are_cut_for_the_tuner_too() -> None:
    one, many = (Agent(LinUCB(dim=3), Consensus(LinUCB(dim=3).space), id="a") for _ in range(2))
    for part in range(2):
        apart, together = ([agent.decide(table) for table in _tables(150, part)] for agent in (one, many))
        rewards = [1e6 if n % 50 == 49 else reward for n, reward in enumerate(_rewards(apart, part))]
        for decision, reward in zip(apart, rewards, strict=True):
            one.learn(decision, reward)
        many.learn_many(together, rewards)
        assert many.state() == one.state()


class _ClipsRewards:
    """A part of a policy, for several: rewards count at most as a half."""

    def usual(self, reward: float) -> float:
        return min(reward, 0.5)


class _CreditsHalf:
    """A part of a tuner, for several: rewards count as a half."""

    def learn(self, choice: Choice, reward: float, share: float = 1.0) -> None:
        super().learn(choice, 0.5 * reward, share)  # type: ignore[misc]


class _ClippedLinUCB(_ClipsRewards, LinUCB):
    pass


class _HalfSyndicated(_CreditsHalf, Syndicated):
    pass


class _LearnsHalf(LinUCB):
    """Both ways to learn are its own, and play and replay are not."""

    def learn(self, x: Array, reward: float, params: Params) -> None:
        super().learn(x, 0.5 * reward, params)

    def learn_many(self, X: Array, rewards: Array, params: Sequence[Params]) -> None:
        super().learn_many(X, 0.5 * rewards, params)


class _PlaysTheWorst(LinUCB):
    """Scores and the best of them are its own, and those of many rounds are not."""

    best = Policy.best

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return -super().scores(arms, points, rng)


@pytest.mark.parametrize("policy", [_LearnsHalf, _PlaysTheWorst])
def test_calls_for_many_rounds_know_what_a_subclass_has_of_its_own(policy: Any) -> None:
    one, many, again, looped = (Agent(policy(dim=3), id="a") for _ in range(4))
    tables = _tables(200)
    apart, together = [one.decide(table) for table in tables], many.decide_many(tables)
    assert [each.arm for each in apart] == [each.arm for each in together]
    for decision, reward in zip(apart, _rewards(apart), strict=True):
        one.learn(decision, reward)
    many.learn_many(together, _rewards(apart))
    assert many.state() == one.state()
    rng = np.random.default_rng(2)
    places, paid = rng.integers(4, size=200), rng.random(200)
    assert again.replay(tables, places, paid).tolist() == _looped(looped, tables, places, paid)
    assert again.state() == looped.state()


@pytest.mark.parametrize(("policy", "tuner"), [(_ClippedLinUCB, Syndicated), (LinUCB, _HalfSyndicated)])
def test_a_compiled_form_gives_way_to_what_a_mixin_has_in_its_place(policy: Any, tuner: Any) -> None:
    one, many = (Agent(policy(dim=3), tuner(Space(alpha=[0.1, 1.0])), id="a") for _ in range(2))
    apart, together = ([agent.decide(table) for table in _tables(30)] for agent in (one, many))
    for decision in apart:
        one.learn(decision, 1.0)
    many.learn_many(together, [1.0] * 30)
    assert many.state() == one.state()


class _StartsAgain(Syndicated):
    """After each reward a new copy of the policy plays."""

    def replaced(self) -> Mapping[int, int | None]:
        return {0: None}


class _Freezes(Syndicated):
    """The policy plays without learning."""

    def frozen(self, slot: int) -> bool:
        return True


@pytest.mark.parametrize("tuner", [_StartsAgain, _Freezes])
def test_a_tuner_that_replaces_or_freezes_the_policy_does_so_at_each_reward(tuner: type[Syndicated]) -> None:
    one, many = (Agent(LinUCB(dim=3), tuner(Space(alpha=[0.1, 1.0])), id="a") for _ in range(2))
    apart, together = ([agent.decide(table) for table in _tables(5)] for agent in (one, many))
    for decision in apart:
        one.learn(decision, 1.0)
    many.learn_many(together, [1.0] * 5)
    assert many.state() == one.state()


def test_a_ridge_with_a_catalogue_learns_many_as_one_after_the_other() -> None:
    one, many = (LinUCB(dim=3) for _ in range(2))
    X, rewards = np.random.default_rng(0).normal(size=(40, 3)), np.random.default_rng(1).random(40)
    for policy in (one, many):
        policy.prepare([{"alpha": 1.0, "lam": 0.5}], X[:7])
    for x, reward in zip(X, rewards.tolist(), strict=True):
        one.learn(x, reward, {})
    many.learn_many(X, rewards, [{}] * 40)
    arms, points = np.arange(7), [{"alpha": 1.0, "lam": 0.5, "intercept": 1.0}]
    apart, together = (policy.scores(arms, points, Stream(1, 0)) for policy in (one, many))
    assert np.array_equal(together, apart)


@pytest.mark.parametrize("policy", [ArmUCB, LinUCB])
def test_decisions_of_which_some_have_names_are_learned_one_after_the_other(policy: Any) -> None:
    one, many = (Agent(policy(dim=3), id="a") for _ in range(2))
    tables = [table if n % 2 else NamedArms(tuple("wxyz"), table) for n, table in enumerate(_tables(20))]
    apart, together = ([agent.decide(table) for table in tables] for agent in (one, many))
    for decision, reward in zip(apart, _rewards(apart), strict=True):
        one.learn(decision, reward)
    many.learn_many(together, _rewards(apart))
    assert many.state() == one.state()


class _Clips(LinUCB):
    def usual(self, reward: float) -> float:
        return min(reward, 0.5)


def test_a_policy_that_counts_a_reward_otherwise_has_its_tuner_learn_reward_by_reward() -> None:
    one, many = (Agent(_Clips(dim=3), Syndicated(Space(alpha=[0.1, 1.0])), id="a") for _ in range(2))
    apart, together = ([agent.decide(table) for table in _tables(20)] for agent in (one, many))
    for decision, reward in zip(apart, _rewards(apart), strict=True):
        one.learn(decision, reward)
    many.learn_many(together, _rewards(apart))
    assert many.state() == one.state()


def test_a_tuned_policy_learns_many_in_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ridge, "learn", None)
    monkeypatch.setattr(Syndicated, "learn", None)
    agent = Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.1, 1.0])), id="a")
    agent.learn_many(agent.decide_many(_tables(50)), [1.0] * 50)
    assert agent.policy.model.count == 50  # type: ignore[attr-defined]


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


def test_named_arms_of_a_tuned_policy_that_shares_one_model() -> None:
    encoder, ids = {"kind": "ids", "arms": ["tea", "milk"], "context": 2}, ["tea", "milk"]
    tuner = Syndicated(Space(alpha=[0.1, 1.0], lam=[0.1, 1.0]))
    one, many = (Agent.for_arms(policy="LinUCB", encoder=encoder, tuner=tuner, id="a") for _ in range(2))
    contexts = np.random.default_rng(0).normal(size=(60, 2)).tolist()
    for _ in range(2):
        apart, together = [one.decide(context, ids) for context in contexts], many.decide_many(contexts, ids)
        assert list(map(_fields, together)) == list(map(_fields, apart))
        for decision, reward in zip(apart, _rewards(apart), strict=True):
            one.learn(decision, reward)
        many.learn_many(together, _rewards(apart))
        assert many.state() == one.state()


def _contexts(kind: str, rounds: int, part: int, rng: np.random.Generator) -> Any:
    """Contexts of four numbers, as a table, lists or objects; alike, or with a new field in the middle of a batch."""
    rows = np.ones((rounds, 4)) if kind == "alike" else rng.normal(size=(rounds, 4))
    if kind == "table":
        return rows
    if kind != "new fields":
        return rows.tolist()
    more = [{f"new {part}": 1.0} if n >= rounds // 2 else {} for n in range(rounds)]
    return [dict(zip("wxyz", row, strict=True)) | new for row, new in zip(rows.tolist(), more, strict=True)]


@pytest.mark.parametrize("given", [{}, {"models": "hybrid"}, {"models": "shared"}, {"without": ArmUCB.parts}])
@pytest.mark.parametrize("kind", ["clicks", "numbers", "a fraction", "alike", "new fields", "table"])
def test_named_arms_in_batches_and_replays_are_one_after_the_other(kind: str, given: dict[str, Any]) -> None:
    """Through refreshes, another link, a world that changes, rewards out of order, and arms that are tried again."""
    policy, rng, ids = {"name": "ArmUCB", **given}, np.random.default_rng(3), list("abcde")
    one, many, loop, replayed = (Agent.for_arms(policy=policy, seed=3, id="a") for _ in range(4))
    theta = rng.normal(size=(4, 5))
    for part, rounds in enumerate((3, 40, 200, 300, 33)):
        contexts = _contexts(kind, rounds, part, rng)
        means = rng.normal(size=(rounds, 4)) @ theta * (1 if part < 3 else -1)
        paid = (rng.random((rounds, 5)) < 1 / (1 + np.exp(-means))).astype(float) if kind != "numbers" else means
        paid[rounds // 2] = 0.5 if kind == "a fraction" and part == 2 else paid[rounds // 2]
        apart, together = [one.decide(context, ids) for context in contexts], many.decide_many(contexts, ids)
        assert list(map(_fields, together)) == list(map(_fields, apart))
        order = (rng.permutation(rounds) if part == 2 else np.arange(rounds)).tolist()
        for n in order:
            one.learn(apart[n], paid[n, apart[n].place])
        many.learn_many([together[n] for n in order], [paid[n, apart[n].place] for n in order])
        assert many.state() == one.state()
        places = rng.integers(5, size=rounds)
        rewards = paid[np.arange(rounds), places]
        played = replayed.replay(contexts, places, rewards, ids).tolist()
        assert played == _looped(loop, contexts, places, rewards, ids)
        assert replayed.state() == loop.state()
    assert one.policy.model.count == 576  # type: ignore[attr-defined]


def test_named_arms_are_played_and_replayed_in_compiled_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, rng = Agent(id="a"), np.random.default_rng(0)
    contexts, ids = rng.normal(size=(300, 3)).tolist(), ["a", "b"]
    agent.learn_many(agent.decide_many(contexts, ids), rng.integers(2, size=300).tolist())
    monkeypatch.setattr(ArmUCB, "best", None)
    monkeypatch.setattr(ArmUCB, "learn_arm", None)
    agent.learn_many(agent.decide_many(contexts, ids), rng.integers(2, size=300).tolist())
    played = agent.replay(contexts, rng.integers(2, size=300), rng.integers(2, size=300), ids)
    assert (len(played), agent.round) == (300, 900)


@pytest.mark.parametrize("ids", [None, ["a", "b", "c"]])
def test_numbers_may_be_read_only_and_columns_of_a_table(ids: list[str] | None) -> None:
    rng = np.random.default_rng(0)
    shape = (100, 4) if ids else (100, 3, 4)
    X, log = rng.normal(size=shape), np.column_stack([rng.normal(size=100), rng.integers(3, size=100)])
    X.flags.writeable = log.flags.writeable = False
    agent = Agent(seed=1)
    for n in range(5):
        agent.learn(agent.decide(X[n], ids), log[n, 0])
    agent.learn_many(agent.decide_many(X, ids), log[:, 0])
    assert len(agent.replay(X, log[:, 1].astype(int), log[:, 0], ids)) == 100
    assert agent.round == 205


def test_an_id_that_is_0_is_a_name() -> None:
    given: dict[str, Any] = {"context": {"x": "number"}, "features": {"p": "number"}, "policy": "LinUCB"}
    one, many = (Agent.for_arms(**given, seed=1) for _ in range(2))
    contexts, arms = [{"x": 3.0}, {"x": 5.0}], [{"id": 0, "p": 1.0}]
    for context in contexts:
        one.learn(one.decide(context, arms), 1.0)
    decided = [many.decide(context, arms) for context in contexts]
    many.learn_many(decided, [1.0, 1.0])
    assert many.decide({}, arms).x.tolist() == one.decide({}, arms).x.tolist()


def test_what_is_masked_in_a_table_of_contexts_is_missing_as_in_the_loop() -> None:
    table = np.ma.masked_equal(np.array([[1.0, 99.0], [2.0, 3.0]]), 99.0)
    one, many = Agent(seed=1), Agent(seed=1)
    apart, together = [one.decide(row, ["a", "b"]) for row in table], many.decide_many(table, ["a", "b"])
    assert [each.x.tolist() for each in together] == [each.x.tolist() for each in apart]


def test_decisions_of_a_table_of_contexts_do_not_change_with_it() -> None:
    agent, table = Agent(), np.random.default_rng(0).normal(size=(3, 2))
    before, decisions = table.copy(), agent.decide_many(table, ["a", "b"])
    table[:] = 0.0
    assert [decision.x.tolist() for decision in decisions] == before.tolist()


def test_a_policy_of_arms_with_scores_or_learning_of_its_own_inherits_no_compiled_batches() -> None:
    class Last(ArmUCB):
        def scores(self, arms: Any, points: Sequence[Params], rng: Stream) -> Array:
            return np.tile(np.arange(len(arms), dtype=np.float64), (len(points), 1))

    class Deaf(ArmUCB):
        def learn_arm(self, number: int, x: Array, reward: float, params: Params) -> None:
            super().learn_arm(number, x, 0.0, params)

    contexts, ids = np.random.default_rng(0).normal(size=(200, 3)).tolist(), ["a", "b"]
    for policy in (Last(dim=3), Deaf(dim=3)):
        one, many = (Agent.for_arms(policy=policy, id="a") for _ in range(2))
        for _ in range(2):
            apart, together = [one.decide(context, ids) for context in contexts], many.decide_many(contexts, ids)
            assert list(map(_fields, together)) == list(map(_fields, apart))
            for decision in apart:
                one.learn(decision, 1.0)
            many.learn_many(together, [1.0] * 200)
            assert [each.tolist() for each in many.policy.state().values()] == (
                [each.tolist() for each in one.policy.state().values()]
            )


def test_the_history_of_a_batch_is_that_of_the_loop() -> None:
    one, many = Agent(LinUCB(dim=3), id="a"), Agent(LinUCB(dim=3), id="a")
    for part, rounds in enumerate((3, 70, 400, 260)):
        apart, together = (
            [one.decide(table) for table in _tables(rounds, part)],
            many.decide_many(_tables(rounds, part)),
        )
        rewards = _rewards(apart, part)
        order = np.random.default_rng(0).permutation(rounds).tolist() if part == 3 else list(range(rounds))
        for n in order:
            one.learn(apart[n], rewards[n])
        many.learn_many([together[n] for n in order], [rewards[n] for n in order])
    loop, batch = (agent._history for agent in (one, many))
    assert batch.windows.keys() == loop.windows.keys()
    for number, window in loop.windows.items():
        mine = batch.windows[number]
        assert (mine.count, mine.arms, mine.params) == (window.count, window.arms, window.params)
        assert (mine.total, mine.squares) == pytest.approx((window.total, window.squares))


def test_the_history_of_a_batch_counts_no_more_arms_than_that_of_the_loop() -> None:
    agent = Agent(LinUCB(dim=3))
    decision = agent.decide(_tables(1)[0])
    decisions = [replace(decision, round=n, place=n % 250) for n in range(500)]
    agent._history.add_many(decisions, np.ones(500), agent.tuner)
    assert len(agent._history._arms) == MAX_ARMS
    assert sum(window.arms.total() for window in agent._history.windows.values()) == 2 * MAX_ARMS


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


def _looped(agent: Agent, tables: Any, places: Ints, rewards: Array, arms: list[str] | None = None) -> list[int]:
    """`replay` as decide and learn; decisions that the log did not make get no reward, and are not open."""
    played = []
    for table, place, reward in zip(tables, places.tolist(), rewards.tolist(), strict=True):
        decision = agent.decide(table, arms)
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


def test_what_is_explained_after_a_replay_knows_what_was_learned_in_it() -> None:
    agent, tables, rng = Agent(LinUCB(dim=3)), _tables(400), np.random.default_rng(0)
    player, choice = agent.player, agent.decide(tables[0]).choice
    assert choice is not None
    player.propose(tables[0], 1, choice, explain=True)
    agent.replay(tables, rng.integers(4, size=400), rng.normal(size=400))
    explained, plain = (player.propose(tables[0], 401, choice, explain=each).decision for each in (True, False))
    assert explained.params == plain.params


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
