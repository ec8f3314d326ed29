"""The player: what it proposes is what is decided, and what it tells about a proposal is true."""

from collections.abc import Sequence

import numpy as np
import pytest

from syndicated import (
    OP,
    SGDTS,
    UCBGLM,
    Agent,
    Consensus,
    Corral,
    Decision,
    Fixed,
    LinTS,
    LinUCB,
    Space,
    Syndicated,
    Theory,
    TwoLayer,
    Uniform,
)
from syndicated._player import Proposal
from syndicated.errors import InputError
from syndicated.policies import Policy
from syndicated.streams import ARMS, NOISE, POLICY, Stream
from syndicated.tuners import Tuner
from syndicated.types import Arms, Array, Choice, NamedArms, Params

SPACE = Space(alpha=[0.1, 1.0], lam=[0.1, 1.0])
EPOCHS = Space(eta0=[0.1, 10.0], alpha1=[0.1, 5.0])
WIDE = Space(alpha=np.linspace(0, 3, 9), lam=np.linspace(0.1, 2, 8))


def _arms(t: int, K: int = 8) -> Array:
    return 2 * Stream(1, ARMS, t).uniforms(K * 3).reshape(K, 3) - 1


def _play(agent: Agent, rounds: int) -> None:
    for t in range(agent.round, agent.round + rounds):
        agent.learn(agent.decide(_arms(t)), float(Stream(1, NOISE, t).uniforms(1)[0]))


def _what(decision: Decision) -> tuple[object, ...]:
    values = decision.arm, decision.x.tobytes(), decision.propensity, dict(decision.params), decision.choice
    return tuple(repr(value) for value in values)


def _explained(agent: Agent, X: Array) -> Proposal:
    return agent.player.propose(X, agent.round, agent.choice, explain=True)


AGENTS = {
    "Syndicated": lambda: Agent(LinUCB(dim=3), Syndicated(SPACE, horizon=50), seed=2),
    "Consensus": lambda: Agent(LinUCB(dim=3), Consensus(SPACE), seed=2),
    "Consensus, axes apart": lambda: Agent(LinTS(dim=3), Consensus(WIDE), seed=2),
    "Consensus, nothing shared": lambda: Agent(LinTS(dim=3), Consensus(SPACE, sharing=False), seed=2),
    "Consensus, epochs": lambda: Agent(SGDTS(dim=3, tau=10), Consensus(SGDTS(dim=3).space), seed=2),
    "Corral": lambda: Agent(LinTS(dim=3), Corral(SPACE, horizon=50), seed=2),
    "OP": lambda: Agent(UCBGLM(dim=3), OP(SPACE), seed=2),
    "epochs": lambda: Agent(SGDTS(dim=3, tau=10), Syndicated(Space(eta0=[0.1, 1.0], alpha1=[0.1, 5.0])), seed=2),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_explained_proposal_is_what_is_then_decided(name: str) -> None:
    agent = AGENTS[name]()
    for t in range(40):
        X = _arms(t)
        proposal = _explained(agent, X)
        decision = agent.decide(X)
        assert _what(proposal.decision) == _what(decision)
        agent.learn(decision, float(Stream(1, NOISE, t).uniforms(1)[0]))


@pytest.mark.parametrize("name", AGENTS)
def test_a_round_can_be_proposed_before_the_ones_in_between_have_their_rewards(name: str) -> None:
    agent = AGENTS[name]()
    _play(agent, 25)
    first = agent.player.propose(_arms(25), 25, agent.choice)
    ahead = agent.player.propose(_arms(26), 26, first.decision.choice or agent.choice, explain=True)
    agent.decide(_arms(25))
    assert _what(agent.decide(_arms(26))) == _what(ahead.decision)


@pytest.mark.parametrize("name", AGENTS)
def test_what_was_prepared_does_not_outlive_a_reward_or_a_restored_state(name: str) -> None:
    agent = AGENTS[name]()
    for t in range(40):
        X, twin = _arms(t), AGENTS[name]()
        twin.restore(agent.state())
        seen, new = _explained(agent, X), _explained(twin, X)
        assert (list(seen.played), list(seen.probabilities)) == (list(new.played), list(new.probabilities))
        assert (seen.table.tobytes(), seen.row, seen.greedy_row) == (new.table.tobytes(), new.row, new.greedy_row)
        agent.learn(agent.decide(X), float(Stream(1, NOISE, t).uniforms(1)[0]))
        if t == 30:
            _explained(agent, X)
            agent.restore(AGENTS[name]().state())


TOGETHER = {
    "nothing set": lambda: Agent(LinUCB(dim=3)),
    "Syndicated": AGENTS["Syndicated"],
    "Syndicated, natural": lambda: Agent(LinUCB(dim=3), Syndicated(LinUCB(dim=3).space), seed=2),
    "TwoLayer of another layer": lambda: Agent(LinUCB(dim=3), TwoLayer(SPACE, layer="Tsallis-INF"), seed=2),
    "Consensus": AGENTS["Consensus"],
    "Consensus, nothing shared": lambda: Agent(LinUCB(dim=3), Consensus(SPACE, sharing=False), seed=2),
    "Uniform": lambda: Agent(LinUCB(dim=3, intercept=False), Uniform(SPACE), seed=2),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", TOGETHER)
def test_proposals_for_many_rounds_are_those_of_each(name: str, known: bool) -> None:
    """Tables of any length, also of rows that come again: some of them equally good, some tried for the first time."""
    agent = TOGETHER[name]()
    for start in range(0, 200, 20):
        sizes, rows = [1 + (start + t) % 7 for t in range(20)], _arms(1)
        tables = [rows[:K].copy() if known else _arms(start + t, K) for t, K in enumerate(sizes)]
        assert agent.player.scores_together
        together = agent.player.propose_many(tables, start)
        for t, (table, seen) in enumerate(zip(tables, together, strict=True)):
            alone = agent.player.propose(table, start + t, agent.choice, explain=True)
            assert _what(seen.decision) == _what(alone.decision)
            assert (seen.row, seen.greedy_row) == (alone.row, alone.greedy_row)
            for one, other in zip(seen[1:4], alone[1:4], strict=True):
                assert np.array_equal(one, other)
            for arm in range(len(table)):
                assert seen.why(arm) == alone.why(arm)
        for table in tables:
            decision = agent.decide(table)
            agent.learn(decision, float(decision.x[0] > 0))


def test_proposals_for_many_rounds_with_named_arms_and_missing_numbers() -> None:
    agent, ids = Agent.for_arms(context={"x": "number"}, features={"p": "number"}, policy="LinUCB"), ("a", "b", "c")
    for t in range(40):
        agent.learn(agent.decide({"x": t % 5}, [{"id": each, "p": float(n)} for n, each in enumerate(ids)]), t % 2)
    given = [
        NamedArms(ids[:K], np.array([[np.nan, 1.0, 2.0], [1.0, np.nan, 0.0]] * 2)[:K, : agent.policy.dim])
        for K in (1, 3)
    ]
    together = agent.player.propose_many(given, 40)
    for n, (arms, seen) in enumerate(zip(given, together, strict=True)):
        alone = agent.player.propose(arms, 40 + n, agent.choice, explain=True)
        assert _what(seen.decision) == _what(alone.decision)
        assert (seen.decision.name, seen.why(0)) == (alone.decision.name, alone.why(0))


@pytest.mark.parametrize("wrong", [np.full((2, 3), np.nan), np.full((2, 3), 1e200), np.zeros((2, 4)), np.zeros((0, 3))])
def test_one_wrong_table_of_many_is_refused(wrong: Array) -> None:
    player = TOGETHER["Syndicated"]().player
    with pytest.raises(InputError):
        player.propose_many([_arms(0), wrong, _arms(1)], 0)


@pytest.mark.parametrize("name", ["Corral", "OP", "epochs", "Consensus, axes apart"])
def test_copies_periods_and_policies_without_a_compiled_form_are_not_scored_together(name: str) -> None:
    assert not AGENTS[name]().player.scores_together


def test_a_policy_or_a_tuner_with_a_way_of_its_own_inherits_no_compiled_form() -> None:
    class Last(LinUCB):
        def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
            return np.tile(np.arange(len(arms), dtype=np.float64), (len(points), 1))

    class First(Syndicated):
        def choose(self, rng: Stream) -> Choice:
            return Choice(SPACE.points[0], (0, 0), (1.0, 1.0))

    assert not Agent(Last(dim=3)).player.scores_together
    chosen = First(SPACE).choose_many(Stream(0, 0), 9)
    assert [choice.index for choice in chosen] == [(0, 0)] * 9


def _scores(agent: Agent, X: Array, decision: Decision) -> tuple[list[float], list[float]]:
    """What the policy by itself says of arms, and what it says without exploration."""
    if decision.choice is None:
        return [0.0] * len(X), [0.0] * len(X)
    player = agent.player
    policy, period = player.policy_of(decision.choice), (decision.round - player.warmup) // agent.policy.period
    greedy = {**decision.params, **dict.fromkeys(policy.exploring, 0.0)}
    scores, plain = policy.scores(X, [decision.params, greedy], Stream(player.seed, POLICY, period))
    return scores.tolist(), plain.tolist()


@pytest.mark.parametrize("name", AGENTS)
def test_scores_are_the_policy_s_also_without_exploration(name: str) -> None:
    agent = AGENTS[name]()
    for t in range(40):
        proposal = _explained(agent, _arms(t))
        greedy = proposal.table[proposal.greedy_row]
        assert (proposal.scores.tolist(), greedy.tolist()) == _scores(agent, _arms(t), proposal.decision)
        _play(agent, 1)


def _disputed(agent: Agent) -> Array:
    """Arms of which the agent's points would not all play the same."""
    tables = (_arms(t) for t in range(100, 200))
    return next(X for X in tables if len(set(agent.player.arms_of_points(X, agent.round))) > 1)


@pytest.mark.parametrize("name", AGENTS)
def test_chances_are_the_frequencies_of_the_arms(name: str) -> None:
    agent, draws, n = AGENTS[name](), Stream(9, NOISE), 3000
    _play(agent, 30)
    X = _disputed(agent)
    proposal, arms = _explained(agent, X), agent.player.arms_of_points(X, agent.round)
    rows = {repr(point): row for row, point in enumerate(agent.tuner.points)}
    played = [arms[rows[repr(agent.tuner.choose(draws).params)]] for _ in range(n)]
    assert proposal.chances.sum() == pytest.approx(1.0)
    assert [proposal.chance(arm) for arm in range(8)] == pytest.approx(proposal.chances.tolist())
    spread = np.sqrt(proposal.chances * (1 - proposal.chances) / n)
    assert (np.abs(np.bincount(played, minlength=8) / n - proposal.chances) <= 4 * spread + 0.002).all()


@pytest.mark.parametrize("name", AGENTS)
def test_a_propensity_is_the_chance_of_the_arm_or_unknown(name: str) -> None:
    agent, known = AGENTS[name](), 0
    for t in range(40):
        proposal = _explained(agent, _arms(t))
        propensity = proposal.decision.propensity
        if propensity is not None:
            assert propensity == pytest.approx(proposal.chance(proposal.decision.arm), rel=1e-12)
            known += 1
        _play(agent, 1)
    expected = {"Consensus": 40, "Consensus, epochs": 40, "epochs": 10 + 27}  # epochs: all rounds but the first of each
    assert known == expected.get(name, 0)


def test_a_propensity_is_certain_where_there_is_one_point_or_one_arm() -> None:
    for tuner in (Theory(), Fixed(Space(alpha=[0.5])), Syndicated(Space(alpha=[0.5])), Consensus(Space(alpha=[0.5]))):
        assert Agent(LinTS(dim=3), tuner).decide(_arms(0)).propensity == 1.0
    assert Agent(LinUCB(dim=3), OP(SPACE)).decide(_arms(0, K=1)).propensity == 1.0


def test_the_probability_of_a_draw_is_the_product_over_its_axes_or_unknown() -> None:
    agents = Agent(LinUCB(dim=3), Syndicated(SPACE)), Agent(LinUCB(dim=3), OP(SPACE))
    choices = [agent.decide(_arms(0)).choice for agent in agents]
    assert [choice.draw_probability for choice in choices if choice] == [0.25, None]


def test_within_a_period_the_only_chance_is_that_of_the_choice_that_lasts() -> None:
    agent = Agent(SGDTS(dim=3, tau=10), Syndicated(Space(alpha1=[0.1, 5.0])), seed=2)
    assert _explained(agent, _arms(99)).chances.tolist() == [1 / 8] * 8
    _play(agent, 33)
    proposal = _explained(agent, _arms(99))
    assert sorted(proposal.chances.tolist()) == [0.0] * 7 + [1.0]
    assert proposal.chance(proposal.decision.arm) == 1.0
    assert proposal.decision.choice == agent.choice


@pytest.mark.parametrize("make", [LinUCB, LinTS, UCBGLM])
def test_the_points_play_the_same_arms_of_a_catalogue_as_of_its_features(make: type[Policy]) -> None:
    catalogue = 2 * Stream(3, ARMS).uniforms(120).reshape(40, 3) - 1
    by_number, by_features = (Agent(make(dim=3), Syndicated(SPACE), catalogue=c) for c in (catalogue, None))
    for t in range(100):
        numbers = (40 * Stream(4, ARMS, t).uniforms(12)).astype(int)
        arms = by_number.player.arms_of_points(numbers, t), by_features.player.arms_of_points(catalogue[numbers], t)
        assert arms[0].tolist() == arms[1].tolist()
        decisions = by_number.decide(numbers), by_features.decide(catalogue[numbers])
        by_number.learn(decisions[0], float(decisions[0].x[0] > 0))
        by_features.learn(decisions[1], float(decisions[1].x[0] > 0))


def test_one_call_of_scores_answers_a_proposal_explained_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(LinUCB(dim=3), Consensus(SPACE))
    asked: list[int] = []
    scores = agent.policy.scores

    def counted(X: Array, points: Sequence[Params], rng: Stream) -> Array:
        asked.append(len(points))
        return scores(X, points, rng)

    monkeypatch.setattr(agent.policy, "scores", counted)
    agent.player.propose(_arms(0), 0, agent.choice)
    _explained(agent, _arms(0))
    assert asked == [4, 6]  # all points; and the greedy ones, one for each lam


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_feature_that_is_too_large_is_refused_in_any_arm(place: int) -> None:
    X = np.full((3, 2), 0.5)
    X[place, 1] = 1e60  # in every arm it makes the best score
    agent = Agent(LinUCB(dim=2), Fixed(Space(alpha=[1.0])))
    with pytest.raises(InputError, match=f"features must be at most .*; arm {place}, feature 1 is 1e\\+60"):
        agent.decide(X)


@pytest.mark.parametrize(("tuner", "share"), [(Uniform(Space(alpha1=[0.1, 5.0])), 0.1), (Consensus(EPOCHS), 1.0)])
def test_each_reward_of_an_epoch_is_its_share_unless_credit_is_shared(
    tuner: Tuner, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    monkeypatch.setattr(type(tuner), "learn", lambda self, choice, reward, share: shares.append(share))
    _play(Agent(SGDTS(dim=3, tau=10), tuner, seed=2), 40)
    assert shares == [share] * 30  # the first ten rounds are random


def test_the_propensity_of_an_epoch_is_that_of_its_first_round_then_certain() -> None:
    agent = Agent(SGDTS(dim=3, tau=10), Consensus(EPOCHS), seed=2)
    _play(agent, 10)  # of the warm-up
    epochs = [[agent.decide(_arms(10 * epoch + t)) for t in range(10)] for epoch in range(20)]
    for first, *others in epochs:
        assert first.choice is not None
        known = [first.choice.candidate_probabilities[j] for j in first.choice.agreeing]
        assert first.propensity == pytest.approx(min(1.0, sum(known)))
        assert [each.propensity for each in others] == [1.0] * 9
    assert min(first.propensity or 1.0 for first, *_ in epochs) < 0.9
