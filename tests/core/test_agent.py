"""The agent: what decide and learn do, and what they leave alone."""

import math
import pickle
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import FrozenInstanceError, replace

import numpy as np
import numpy.typing as npt
import pytest

from syndicated import (
    OP,
    SGDTS,
    UCBGLM,
    Agent,
    ArmUCB,
    Choice,
    Consensus,
    Corral,
    Decision,
    Fixed,
    InputError,
    LinTS,
    LinUCB,
    Space,
    Syndicated,
    Theory,
)
from syndicated.policies import Policy
from syndicated.streams import ARMS, NOISE, Stream
from syndicated.tuners import Tuner
from syndicated.types import Array, Params

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])


def _arms(t: int, K: int = 5) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(K * 3).reshape(K, 3) - 1


def _reward(t: int) -> float:
    return float(Stream(1, NOISE, t).uniforms(1)[0])


def _play(agent: Agent, rounds: int) -> list[Decision]:
    decisions = []
    for t in range(agent.round, agent.round + rounds):
        decisions.append(agent.decide(_arms(t)))
        agent.learn(decisions[-1], _reward(t))
    return decisions


def _what(decisions: Sequence[Decision]) -> list[tuple[object, ...]]:
    return [(d.arm, d.x.tobytes(), repr(d.propensity), dict(d.params), repr(d.choice)) for d in decisions]


def test_a_decision_holds_what_its_reward_needs() -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE), seed=2)
    X = _arms(0)
    decision = agent.decide(X)
    assert (decision.agent, decision.round, decision.id) == (agent.id, 0, f"{agent.id}-0")
    assert decision.x.tolist() == X[decision.arm].tolist()
    assert decision.choice is not None
    assert decision.params == {**decision.choice.params, "intercept": 1.0, "memory": 1.0}
    assert decision.choice.draw_probability == math.prod(decision.choice.probability) == 0.25


def test_the_best_score_is_played_and_the_first_of_equals() -> None:
    agent = Agent(LinUCB(dim=2, intercept=False), Fixed(Space(alpha=[0.0])))
    for _ in range(5):
        agent.learn(agent.decide([[0.0, 1.0]]), 1.0)
    assert agent.decide([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5]]).arm == 1
    assert agent.decide([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]).arm == 1
    assert agent.decide([[1.0, 0.0], [-1.0, 0.0]]).arm == 0


def test_learning_teaches_the_policy_and_the_tuner() -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE), seed=2)
    decision = agent.decide(_arms(0))
    agent.learn(decision, 1.0)
    policy, tuner = LinUCB(dim=3), Syndicated(SPACE)
    assert decision.choice is not None
    policy.learn(decision.x, 1.0, decision.params)
    tuner.learn(decision.choice, 1.0)
    assert isinstance(agent.policy, LinUCB)
    assert isinstance(agent.tuner, Syndicated)
    assert (agent.policy.model.b == policy.model.b).all()
    assert (agent.policy.model.G == policy.model.G).all()
    assert (agent.tuner.logw == tuner.logw).all()
    assert np.unique(agent.tuner.logw).size > 1


def test_arms_may_be_a_list_or_any_kind_of_number() -> None:
    rows = [[1, 0], [0, 3]]
    given: list[npt.ArrayLike] = [rows, np.array(rows, dtype=np.int8), np.array(rows, order="F"), np.array(rows)[::-1]]
    assert [Agent(LinUCB(dim=2), Theory()).decide(X).arm for X in given] == [1, 1, 1, 0]


def test_a_decision_does_not_follow_the_caller_s_array() -> None:
    X = _arms(0)
    decision = Agent(LinUCB(dim=3)).decide(X)
    X[:] = 9.0
    assert decision.x.tolist() == _arms(0)[decision.arm].tolist()


def test_without_a_tuner_the_policy_s_own_space_is_tuned() -> None:
    policy = UCBGLM(dim=3)  # which advises no point
    tuner = Agent(policy).tuner
    assert isinstance(tuner, Consensus)
    assert tuner.space == policy.space


def test_theory_fills_in_everything() -> None:
    agent, policy = Agent(LinUCB(dim=3), Theory()), LinUCB(dim=3)
    assert [d.params for d in _play(agent, 5)] == [policy.theory(t, {}) for t in range(5)]


def test_theory_fills_in_what_the_tuner_leaves_out() -> None:
    agent, policy = Agent(LinUCB(dim=3), Fixed(Space(lam=[0.1]))), LinUCB(dim=3)
    assert [d.params for d in _play(agent, 5)] == [policy.theory(t, {"lam": 0.1}) for t in range(5)]


def test_theory_leaves_alone_what_the_tuner_sets() -> None:
    decisions = _play(Agent(LinUCB(dim=3), Syndicated(Space(alpha=[0.25, 0.5]))), 40)
    assert {d.params["alpha"] for d in decisions} == {0.25, 0.5}
    assert {d.params["lam"] for d in decisions} == {1.0}


# Periods and warm-up.


def _sgdts(warmup: int | str = 0, horizon: int = 10_000) -> Agent:
    space = Space(eta0=[0.1, 0.3, 1.0], alpha1=[0.1, 1.0])
    return Agent(SGDTS(dim=3, tau=5), Syndicated(space, warmup=warmup, horizon=horizon), seed=4)


def test_a_choice_lasts_a_period() -> None:
    choices = [d.choice for d in _play(_sgdts(), 65)]
    assert choices[:5] == [None] * 5
    periods = [choices[start : start + 5] for start in range(5, 65, 5)]
    assert all(choice is period[0] for period in periods for choice in period)
    assert len({id(period[0]) for period in periods}) == 12


def test_the_tuner_draws_once_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, rounds = _sgdts(), []
    choose = agent.tuner.choose

    def watched(rng: Stream) -> Choice:
        rounds.append(agent.round)
        return choose(rng)

    monkeypatch.setattr(agent.tuner, "choose", watched)
    _play(agent, 23)
    assert rounds == [5, 10, 15, 20]


def test_the_rewards_of_a_period_add_up_to_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    agent, credited = _sgdts(), []
    monkeypatch.setattr(agent.tuner, "learn", lambda choice, reward, share: credited.append((reward, share)))
    _play(agent, 15)
    assert credited == [(_reward(t), 1 / 5) for t in range(5, 15)]


def test_one_draw_of_thompson_sampling_lasts_a_period() -> None:
    agent = Agent(SGDTS(dim=3, tau=5), Fixed(Space(alpha1=[5.0], alpha2=[0.0])), seed=4)
    for t in range(5):
        agent.learn(agent.decide(_arms(t)), _reward(t))
    arms = [agent.decide(_arms(99)).arm for _ in range(50)]
    assert all(len(set(arms[start : start + 5])) == 1 for start in range(0, 50, 5))
    assert len(set(arms)) > 1


@pytest.mark.parametrize(
    ("warmup", "rounds"), [(0, 0), (7, 7), ("T^2/3", 100), ("T^4/7", 52)], ids=["none", "seven", "T^2/3", "T^4/7"]
)
def test_warm_up_lasts_as_long_as_asked_for(warmup: int | str, rounds: int) -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE, horizon=1000, warmup=warmup))
    decisions = _play(agent, rounds + 5)
    assert [d.choice is None for d in decisions] == [True] * rounds + [False] * 5
    assert [d.propensity for d in decisions] == [1 / 5] * rounds + [None] * 5


def test_the_longer_of_two_warm_ups_counts() -> None:
    assert sum(d.choice is None for d in _play(_sgdts(warmup=2), 20)) == 5
    assert sum(d.choice is None for d in _play(_sgdts(warmup=8), 20)) == 8


@pytest.mark.parametrize("tuner", [Syndicated, OP, Corral])
def test_warm_up_teaches_every_policy_but_not_the_tuner(tuner: type[Syndicated]) -> None:
    agent = Agent(LinUCB(dim=3), tuner(SPACE, warmup=20))
    before = agent.tuner.state()
    decisions = _play(agent, 20)
    policy = LinUCB(dim=3)
    for t, decision in enumerate(decisions):
        policy.learn(decision.x, _reward(t), decision.params)
    assert all((before[name] == array).all() for name, array in agent.tuner.state().items())
    for copy in agent.player.policies:
        assert isinstance(copy, LinUCB)
        assert (copy.model.G == policy.model.G).all()
    agent.learn(agent.decide(_arms(20)), 0.5)
    assert any((before[name] != array).any() for name, array in agent.tuner.state().items())


def test_late_rewards_of_the_warm_up_do_not_teach_the_tuner_either() -> None:
    agent = Agent(LinUCB(dim=3), Syndicated(SPACE, warmup=1))
    first = agent.decide(_arms(0))
    _play(agent, 5)
    before = agent.tuner.state()["logw"]
    agent.learn(first, 1.0)
    assert (agent.tuner.state()["logw"] == before).all()


# Copies, identities, seeds.


def test_an_agent_works_on_copies_of_what_it_is_given() -> None:
    policy, tuner = LinUCB(dim=3), Syndicated(SPACE)
    before = {**policy.state(), **tuner.state()}
    _play(Agent(policy, tuner), 20)
    after = {**policy.state(), **tuner.state()}
    assert all((before[name] == after[name]).all() for name in before)


def test_a_taught_policy_given_to_an_agent_starts_anew() -> None:
    policy = LinUCB(dim=3)
    policy.learn(np.ones(3), 1.0, {})
    agent = Agent(policy)
    assert isinstance(agent.policy, LinUCB)
    assert agent.policy.model.count == 0


def test_two_agents_of_one_description_share_nothing() -> None:
    policy, tuner = LinUCB(dim=3), Syndicated(SPACE)
    one, other = Agent(policy, tuner, seed=3), Agent(policy, tuner, seed=3)
    decisions = _play(one, 20)
    assert _what(_play(other, 20)) == _what(decisions)


def test_only_the_copy_that_played_learns() -> None:
    agent = Agent(LinUCB(dim=3), Corral(SPACE), seed=1)
    decisions = _play(agent, 30)
    played = [sum(point.items() <= d.params.items() for d in decisions) for point in SPACE.points]
    assert [int(copy.state()["model.count"]) for copy in agent.player.policies] == played
    assert min(played) > 0


def test_every_copy_keeps_what_its_points_need() -> None:
    shared, copies = Agent(LinUCB(dim=3), Syndicated(SPACE)), Agent(LinUCB(dim=3), Corral(SPACE))
    assert [len(copy.state()["model.thetas"]) for copy in shared.player.policies] == [2]
    assert [len(copy.state()["model.thetas"]) for copy in copies.player.policies] == [1, 1, 1, 1]


def test_open_counts_decisions_without_a_reward() -> None:
    agent = Agent(LinUCB(dim=3))
    decisions = [agent.decide(_arms(t)) for t in range(3)]
    counts = [agent.open]
    for decision in decisions:
        agent.learn(decision, 0.5)
        counts.append(agent.open)
    assert counts == [3, 2, 1, 0]
    assert agent.round == 3


def test_ids_of_decisions_are_unique() -> None:
    agents = [Agent(LinUCB(dim=3), seed=1) for _ in range(3)]
    ids = [decision.id for agent in agents for decision in _play(agent, 10)]
    assert len(set(ids)) == 30


@pytest.mark.parametrize("policy", [LinTS(dim=3), SGDTS(dim=3, tau=5)], ids=["LinTS", "SGDTS"])
@pytest.mark.parametrize("tuner", [Theory(), None], ids=["Theory", "Syndicated"])
def test_the_seed_decides(policy: Policy, tuner: Tuner | None) -> None:
    tuner = tuner or Syndicated(Space(**{name: [name != "intercept" and 0.1, 1.0] for name in policy.hyper}))
    plays = [_what(_play(Agent(policy, tuner, seed=seed), 40)) for seed in (5, 5, 6)]
    assert plays[0] == plays[1]
    assert plays[0] != plays[2]


def test_the_tuner_and_the_policy_draw_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(LinTS(dim=3), Syndicated(SPACE), seed=5)
    draws: list[float] = []

    def choose(rng: Stream) -> Choice:
        draws.extend(rng.uniforms(4))
        return Choice({"alpha": 1.0, "lam": 1.0}, (0, 0), (0.5, 0.5))

    def scores(X: Array, points: Sequence[Params], rng: Stream) -> Array:
        draws.extend(rng.uniforms(4))
        return np.zeros((1, len(X)))

    monkeypatch.setattr(agent.tuner, "choose", choose)
    monkeypatch.setattr(agent.policy, "scores", scores)
    _play(agent, 10)
    assert len(set(draws)) == len(draws) == 80


# What crosses the boundary.


def test_decisions_and_choices_are_frozen() -> None:
    decision = Agent(LinUCB(dim=3)).decide(_arms(0))
    with pytest.raises(FrozenInstanceError):
        decision.place = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Choice({}).slot = 2  # type: ignore[misc]


@pytest.mark.parametrize("warmup", [0, 3])
def test_a_decision_kept_across_a_restart_is_accepted(warmup: int) -> None:
    def build() -> Agent:
        return Agent(LinTS(dim=3), Syndicated(SPACE, warmup=warmup), seed=9)

    agent = build()
    _play(agent, 2)
    stored = pickle.dumps(agent.decide(_arms(2)))
    restarted = build()
    restarted.restore(agent.state())
    restarted.learn(pickle.loads(stored), 1.0)
    agent.learn(pickle.loads(stored), 1.0)
    assert restarted.open == 0
    assert restarted.state() == agent.state()


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_a_catalogue_plays_what_its_features_would(make: type[Policy]) -> None:
    catalogue = 2 * Stream(3, ARMS).uniforms(120).reshape(40, 3) - 1
    by_number, by_features = (Agent(make(dim=3), Syndicated(SPACE), catalogue=c) for c in (catalogue, None))
    for t in range(1_100):
        numbers = (40 * Stream(4, ARMS, t).uniforms(12)).astype(int)
        one, other = by_number.decide(numbers), by_features.decide(catalogue[numbers])
        assert (one.x == other.x).all()
        assert one.params == other.params
        for agent, decision in ((by_number, one), (by_features, other)):
            agent.learn(decision, float(decision.x[0] > 0))


def test_an_agent_may_be_given_its_id() -> None:
    agent = Agent(LinUCB(dim=3), id="news.7")
    assert agent.id == "news.7"
    assert agent.decide(_arms(0)).id == "news.7-0"


def test_an_agent_keeps_its_own_catalogue() -> None:
    catalogue = np.eye(3)
    agent = Agent(LinUCB(dim=3), catalogue=catalogue)
    catalogue[:] = 7.0
    assert agent.decide([1]).x.tolist() == [0.0, 1.0, 0.0]


def test_nothing_given_takes_arms_with_ids_and_says_what_it_chose() -> None:
    agent = Agent(seed=3)
    assert "ArmUCB(dim=1)" in repr(agent)
    by_rule = "; a model for each arm, by rule>"
    assert repr(agent).endswith(f"; logistic until a reward comes{by_rule}")
    agent.learn(agent.decide({"hour": 9}, arms=["tea", "milk"]), 1.0)
    assert repr(agent).endswith(f"; logistic: every reward was 0 or 1{by_rule}")
    agent.learn(agent.decide({"hour": 9}, arms=["tea", "milk"]), 2.5)
    assert repr(agent).endswith(f"; linear: a reward was neither 0 nor 1{by_rule}")
    assert repr(Agent.for_arms(policy={"name": "ArmUCB", "link": "linear"})).endswith(f"0 arms{by_rule}")
    assert repr(Agent.for_arms(policy={"name": "ArmUCB", "link": "linear", "models": "shared"})).endswith("0 arms>")


def test_a_hybrid_says_how_much_of_it_is_common() -> None:
    agent = Agent.for_arms(models="hybrid")
    assert "models" not in agent.policy.chosen
    for t in range(40):
        decision = agent.decide({"hour": float(t % 7)}, arms=["tea", "milk"])
        agent.learn(decision, float(t % 7) / 7)
    share = agent.policy.model.share  # type: ignore[attr-defined]
    assert agent.policy.chosen["models"] == f"{share:.0%} of the prior variance is common to all arms, by evidence"


@pytest.mark.parametrize("policy", [LinUCB(dim=3), LinTS(dim=3)])
def test_a_model_in_natural_units_says_what_it_estimates(policy: Policy) -> None:
    agent = Agent(policy)
    assert repr(agent).endswith("round 0, 0 open>")
    _play(agent, 60)
    model, new = agent.policy.model, 1.0 - 20 / 80  # type: ignore[attr-defined]
    noise = model.estimate({})[1] / (1 - 0.8 * new)
    assert agent.policy.chosen == {
        "penalty": f"penalty {model.lam:.2g} by evidence",
        "noise": f"noise {noise:.2g}",
        "new rows": "75% of rows are new, so boldness 1 is 0.4 standard errors",
    }
    assert repr(agent).endswith("".join(f"; {text}" for text in agent.policy.chosen.values()) + ">")
    assert "75% of rows are new" in agent._repr_html_()
    assert Agent(policy, Fixed(Space(alpha=[1.0]))).policy.chosen == {}


def _learned(rewards: Array, rows: Array) -> dict[str, str]:
    policy = LinUCB(dim=rows.shape[1])
    policy.prepare([{"boldness": 2.5}])
    policy.learn_many(rows, rewards, [{}] * len(rows))
    return policy.chosen


def test_noise_that_no_error_has_shown_is_not_said_to_be_1() -> None:
    rows = np.tile([[1.0], [2.0]], (10, 1))
    for rewards in (np.ones(1), np.full(20, 5.0)):
        assert _learned(rewards, rows[: len(rewards)])["noise"] == "no noise until now"
    assert _learned(np.arange(20.0), rows)["noise"].startswith("noise ")


def test_effects_of_rows_are_said_where_features_do_not_tell_what_they_pay() -> None:
    rows = np.tile(np.arange(6.0)[:, None], (20, 1))
    noise = 0.1 * Stream(1, NOISE, 0).normals(len(rows))
    assert "effects" not in _learned(rows[:, 0] + noise, rows + noise[:, None])  # no row comes back
    paid = np.tile([3.0, -1.0, 2.0, 0.0, -4.0, 1.0], 20)
    assert _learned(paid + noise, rows)["effects"].startswith("rows have effects of their own, ")


def test_a_level_that_is_followed_and_the_last_restart_are_said() -> None:
    t = np.arange(2000)
    rows, noise = Stream(1, ARMS, 0).normals(2000 * 3).reshape(2000, 3), 0.1 * Stream(1, NOISE, 0).normals(2000)
    paid = rows @ np.array([1.0, -1.0, 0.5]) + noise
    assert {"level", "restart"}.isdisjoint(_learned(paid, rows))
    changed = _learned(np.where(t < 500, paid, -paid), rows)
    assert "level" not in changed
    restart = re.fullmatch(r"1,(\d+) of 2,000 rewards count, as the world had changed", changed["restart"])
    assert restart is not None
    assert 400 < int(restart[1]) < 500
    assert _learned(paid + 20.0 * np.sin(t / 100), rows)["level"] == "the level of rewards moves and is followed"


def test_named_arms_say_that_a_level_is_followed() -> None:
    policy = ArmUCB(dim=1, link="linear", models="shared")
    noise = 0.1 * Stream(1, NOISE, 0).normals(600)
    for t in range(600):
        policy.learn_arm(0, np.array([float(t % 5)]), float(t % 5 + noise[t] + 5.0 * (t >= 300)), {})
    assert policy.chosen == {"level": "the level of rewards moves and is followed"}


def test_ucbglm_says_whether_it_plays_with_an_intercept() -> None:
    agent = Agent(UCBGLM(dim=3))
    assert agent.policy.chosen == {}
    for t in range(150):
        decision = agent.decide(_arms(t))
        logit = 3.0 * decision.x.sum() - 3.0
        agent.learn(decision, float(_reward(t) < 1.0 / (1.0 + np.exp(-logit))))
    policy = agent.policy
    noise = policy.theory(0, {"boldness": 1.0})["alpha"]
    said = "an intercept, as rewards were likelier with it"
    assert policy.chosen == {"intercept": said, "noise": f"noise {noise:.2g}"}
    assert UCBGLM(dim=3, intercept=False).chosen == {}


def test_a_decision_shows_what_matters_of_it() -> None:
    decision = Agent(seed=3).decide({"hour": 9}, arms=["tea"])
    assert repr(decision) == "<Decision: arm 'tea' in round 0, propensity 1, boldness 1>"
    unlikely = replace(decision, name=None, propensity=None)
    assert repr(unlikely) == "<Decision: arm 0 in round 0, propensity not known, boldness 1>"


def test_nothing_given_takes_rows_as_wide_as_the_first_table() -> None:
    agent, given = Agent(seed=3), Agent(LinUCB(dim=3), seed=3)
    assert _what(_play(agent, 30)) == _what(_play(given, 30))
    assert type(agent.policy) is LinUCB
    for wrong in ({"context": {"hour": 1}, "arms": ["a"]}, {"context": [[1.0, 2.0]]}):
        with pytest.raises(InputError):
            agent.decide(**wrong)
    twin = Agent(seed=3)
    twin.restore(agent.state())
    assert twin.state() == agent.state()


def test_a_catalogue_alone_says_the_policy() -> None:
    agent = Agent(catalogue=_arms(0))
    assert (type(agent.policy), agent.policy.dim) == (LinUCB, 3)
    agent.learn(agent.decide([1, 4]), 1.0)
    with pytest.raises(InputError, match="a catalogue must be a table"):
        Agent(catalogue=[1.0, 2.0])


def test_a_tuner_alone_tunes_what_comes() -> None:
    tuner = Fixed(Space(boldness=[3.0]))
    rows, named = Agent(tuner=tuner), Agent(tuner=tuner)
    assert rows.decide(_arms(0)).params["alpha"] > 0.0
    assert named.decide(arms=["a", "b"]).params == {"boldness": 3.0}


@pytest.mark.parametrize("given", [{"hour": 9}, [1.0, 2.0], "rows", [[1.0, math.nan]], [[]], [[1.0], [2.0, 3.0]]])
def test_what_is_neither_ids_nor_rows_is_refused_and_decides_nothing(given: object) -> None:
    agent = Agent()
    with pytest.raises(InputError):
        agent.decide(given)
    assert agent.decide({"hour": 9}, arms=["a", "b"]).arm in ("a", "b")


def test_what_says_that_arms_have_ids_takes_no_rows() -> None:
    decided = Agent()
    decided.decide(arms=["a", "b"])
    for agent in (
        decided,
        Agent.for_arms(arms=["a"]),
        Agent.for_arms(context=["hour"]),
        Agent.for_arms(policy="ArmTS"),
    ):
        before = type(agent.policy)
        with suppress(InputError):
            agent.decide([[1.0, 2.0], [3.0, 4.0]])
        assert type(agent.policy) is before
