"""Off-policy evaluation: estimators against plain loops, intervals against the truth, targets against real runs."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from syndicated import (
    OP,
    SGDTS,
    Agent,
    Consensus,
    Corral,
    Fixed,
    InputError,
    LinTS,
    LinUCB,
    Space,
    Syndicated,
    Uniform,
)
from syndicated.cli import main
from syndicated.environments import Environment, Linear, Logistic, Round
from syndicated.evaluate import Estimate, Evaluation, Log, Logged, evaluate, log_from_frame, read_log
from syndicated.evaluate._estimates import summarise
from syndicated.evaluate._intervals import interval
from syndicated.evaluate._walk import Walk, predict_rewards, walk
from syndicated.policies import ArmUCB, Policy
from syndicated.streams import ACCEPT, Stream
from syndicated.types import Arms, Array, Decision, NamedArms, Params

WORLD = Linear(dim=3, arms=4)
SPACE = Space(alpha=[0.0, 0.1, 1.0])
Logger = Callable[[Sequence[Round], int], Log]


@dataclass(kw_only=True, eq=False)
class Known(Policy):
    """Knows the world: plays the best arm, with alpha = 1 the worst; learns nothing."""

    theta: tuple[float, ...] = ()
    hyper: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, 1.0)}

    def theory(self, t: int, given: Params) -> dict[str, float]:
        return {"alpha": 0.0, **given}

    def scores(self, arms: Arms, points: Sequence[Params], rng: Stream) -> Array:
        return np.array([(1 - 2 * point["alpha"]) * (arms @ np.array(self.theta)) for point in points])

    def learn(self, x: Array, reward: float, params: Params) -> None:
        pass


def _known(alphas: Sequence[float] = (0.0,)) -> Agent:
    theta = tuple(WORLD.theta(1).tolist())
    return Agent(Known(dim=3, theta=theta), Uniform(Space(alpha=alphas)))


def _uniform_log(rounds: Sequence[Round], seed: int) -> Log:
    logged, rng = [], np.random.default_rng(seed)
    for each in rounds:
        K = len(each.arms)
        place = int(rng.integers(K))
        logged.append(Logged(each.arms, place, 1 / K, float(each.rewards[place])))
    return Log(logged)


def _floor_log(rounds: Sequence[Round], seed: int, floor: float = 0.6) -> Log:
    """By Thompson sampling with a floor; the propensities are given the sample."""
    agent, logged, rng = Agent(LinTS(dim=3), seed=seed), [], np.random.default_rng(seed)
    for each in rounds:
        proposal = agent.player.propose(each.arms, agent.round, agent.choice, explain=True)
        K, chances = len(each.arms), proposal.chances
        decision = agent.decide(each.arms)
        place = int(rng.integers(K)) if rng.random() < floor else decision.arm
        propensity = (1 - floor) * chances[place] + floor / K
        logged.append(Logged(each.arms, place, float(propensity), float(each.rewards[place])))
        if place == decision.arm:
            agent.learn(decision, logged[-1].reward)
    return Log(logged)


def _rounds(world: Environment, count: int, length: int, seed: int = 1) -> list[list[Round]]:
    """Consecutive pieces of one world: the same parameter, other arms and noise."""
    stream = world.rounds(seed, count * length)
    return [list(islice(stream, length)) for _ in range(count)]


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def _walk(log: Log, agent: Agent, acceptance: float = 0.25) -> Walk:
    predictions = predict_rewards(log, named=False, advance=lambda steps: None)
    return walk(log, agent, acceptance, predictions, learns=True, advance=lambda steps: None)


# The formulas.


def test_the_estimators_are_those_of_plain_loops() -> None:
    n = 40
    draws = Stream(3, ACCEPT, 0).uniforms(4 * n).reshape(4, n)
    w, g, a, r = 3 * draws[0] * (draws[0] > 0.4), draws[1], draws[2], draws[3]
    found = summarise(r, Walk(w, g, a, np.ones(n)), 0.95, 0.5, (0.0, 1.0), 9.0)
    M, d, ratio = max(w), sum(g) / n, sum(w * r) / sum(w)
    corners = [(0.0, 0.0), (0.0, 1.0), (M, 0.0), (M, 1.0)]

    def mean(values: list[float], possible: list[float]) -> tuple[float, float, float]:
        return sum(values) / n, *interval(np.array(values), min(possible), max(possible), 0.95)

    plain = {
        "log": mean([r[k] for k in range(n)], [0.0, 1.0]),
        "IPS": mean([w[k] * r[k] for k in range(n)], [v * b for v, b in corners]),
        "SNIPS": mean(
            [ratio + n * w[k] * (r[k] - ratio) / sum(w) for k in range(n)],
            [ratio + n * v * (b - ratio) / sum(w) for v, b in corners],
        ),
        "DR": mean([g[k] + w[k] * (r[k] - a[k]) for k in range(n)], [d + v * (b - d) for v, b in corners]),
        "gain": mean([g[k] + w[k] * (r[k] - a[k]) - r[k] for k in range(n)], [d + v * (b - d) - b for v, b in corners]),
        "weight": mean([w[k] for k in range(n)], [0.0, M]),
    }
    for estimate in (found.logged, found.ips, found.dr, found.gain, found.weight, found.snips):
        value, low, high = plain[estimate.name]
        most = math.inf if estimate.name == "weight" else 1.0
        ends = estimate.value, estimate.low, estimate.high
        assert ends == pytest.approx((value, max(low, -1.0 if estimate.name == "gain" else 0.0), min(high, most)))
    assert found.effective == pytest.approx(sum(w) ** 2 / sum(v * v for v in w))
    assert found.rewarded == pytest.approx(sum(w * r) ** 2 / sum((v * b) ** 2 for v, b in zip(w, r, strict=True)))
    assert found.clipped == sum(0.5 * v > 1 for v in w)
    assert (found.rounds, found.accepted, found.confidence) == (n, n, 0.95)


def test_weights_and_predictions_are_the_target_s_at_every_round() -> None:
    (rounds,) = _rounds(WORLD, 1, 300)
    log, theta = _uniform_log(rounds, 1), WORLD.theta(1)
    rows = _walk(log, _known([0.0, 1.0]))
    for k, each in enumerate(log.rounds):
        values = each.X @ theta
        chance = 0.5 * (each.place == values.argmax()) + 0.5 * (each.place == values.argmin())
        assert rows.weights[k] == pytest.approx(4 * chance)
    means = np.array([each.means for each in rounds])
    assert np.abs(rows.direct - (means.max(axis=1) + means.min(axis=1)) / 2)[100:].mean() < 0.03
    played = means[np.arange(300), [each.place for each in log.rounds]]
    assert np.abs(rows.guesses - played)[100:].mean() < 0.03


def test_predictions_are_from_earlier_rounds_only() -> None:
    (rounds,) = _rounds(WORLD, 1, 60)
    log = _uniform_log(rounds, 1)
    changed = [Logged(r.X, r.place, r.propensity, r.reward + (k >= 40)) for k, r in enumerate(log.rounds)]
    one, other = (_walk(each, Agent(LinUCB(dim=3))) for each in (log, Log(changed)))
    assert one.direct[:41].tolist() == other.direct[:41].tolist()
    assert one.guesses[:41].tolist() == other.guesses[:41].tolist()
    assert one.guesses[45:].tolist() != other.guesses[45:].tolist()


def _named_log(count: int) -> Log:
    """Two arms without features: the first pays in one half of the contexts, the second in the other."""
    rng, rounds = np.random.default_rng(4), []
    for _ in range(count):
        context, place = rng.normal(), int(rng.integers(2))
        reward = float(place == (context > 0))
        rounds.append(Logged(np.full((2, 1), context), place, 0.5, reward, ("sports", "politics")))
    return Log(rounds)


def test_named_arms_are_known_by_their_ids() -> None:
    log = _named_log(600)
    found = evaluate(log, Agent(ArmUCB(dim=1)))
    assert found.logged.value == pytest.approx(0.5, abs=0.05)
    assert found.dr.low > 0.85
    assert found.dr.high - found.dr.low < found.ips.high - found.ips.low
    nameless = Log([Logged(each.X, each.place, each.propensity, each.reward) for each in log.rounds])
    assert evaluate(nameless, Agent(ArmUCB(dim=1))).ips.value < 0.6


# The truth.


@pytest.mark.no_cover  # tracing would take as long again
@pytest.mark.parametrize("logger", [_uniform_log, _floor_log])
def test_intervals_cover_the_truth_as_often_as_they_say(logger: Logger) -> None:
    pieces = _rounds(WORLD, 800, 80)
    truth = np.mean([each.means.max() for piece in pieces for each in piece])
    found = [evaluate(logger(piece, 1000 + s), _known(), histories=1) for s, piece in enumerate(pieces)]
    for name in ("ips", "snips", "dr"):
        estimates = [getattr(each, name) for each in found]
        covered = np.mean([each.low <= truth <= each.high for each in estimates])
        assert covered >= 0.92
        values = [each.value for each in estimates]
        assert abs(np.mean(values) - truth) < 3 * np.std(values) / math.sqrt(len(values))
    assert np.mean([_half(each.dr) for each in found]) < np.mean([_half(each.ips) for each in found])
    logged = np.mean([each.logged.value for each in found])
    assert np.mean([each.gain.value for each in found]) == pytest.approx(truth - logged, abs=0.01)


ADAPTIVE: dict[str, tuple[Environment, Agent]] = {
    "LinUCB, Consensus": (WORLD, Agent(LinUCB(dim=3))),
    "LinTS, Syndicated, warm-up": (WORLD, Agent(LinTS(dim=3), Syndicated(SPACE, horizon=300, warmup=30))),
    "LinUCB, Corral": (WORLD, Agent(LinUCB(dim=3), Corral(SPACE, horizon=300))),
    "SGDTS, Consensus": (Logistic(dim=3, arms=4), Agent(SGDTS(dim=3, tau=15), Consensus(SGDTS(dim=3).space))),
}


def _real(agent: Agent, rounds: Sequence[Round]) -> float:
    """What the agent earns a round if it plays these itself."""
    earned = []
    for each in rounds:
        decision = agent.decide(each.arms)
        agent.learn(decision, float(each.rewards[decision.arm]))
        earned.append(each.means[decision.arm])
    return float(np.mean(earned))


@pytest.mark.no_cover
@pytest.mark.parametrize(("world", "agent"), ADAPTIVE.values(), ids=ADAPTIVE)
def test_an_adaptive_target_earns_what_it_earns_in_a_real_run(world: Environment, agent: Agent) -> None:
    gaps, count = [], 10
    for s, rounds in enumerate(_rounds(world, count, 600)):
        found = evaluate(_uniform_log(rounds, s), Agent(agent.policy, agent.tuner, seed=s), histories=1)
        assert found.accepted == pytest.approx(150, abs=45)
        runs = [rounds[i * found.accepted :][: found.accepted] for i in range(3)]
        real = [_real(Agent(agent.policy, agent.tuner, seed=100 + 3 * s + i), run) for i, run in enumerate(runs)]
        gaps.append(found.dr.value - np.mean(real))
    error = np.std(gaps, ddof=1) / math.sqrt(count)
    assert abs(np.mean(gaps)) < 2.5 * error
    assert error < 0.02


def test_a_longer_log_shows_more_of_what_the_target_learns() -> None:
    (rounds,) = _rounds(WORLD, 1, 2000)
    short, long = (evaluate(_uniform_log(rounds[:n], 1), Agent(LinUCB(dim=3)), histories=1) for n in (100, 2000))
    assert long.accepted > 10 * short.accepted
    assert long.dr.value > short.dr.value
    assert _half(long.dr) < _half(short.dr)


def test_a_uniform_target_earns_what_a_uniform_log_earned() -> None:
    (rounds,) = _rounds(WORLD, 1, 500)
    found = evaluate(_uniform_log(rounds, 1), Agent(LinUCB(dim=3), OP(SPACE, warmup=500)))
    assert found.ips.value == pytest.approx(found.logged.value)
    assert found.effective == pytest.approx(500)
    assert found.gain.low < 0 < found.gain.high
    assert found.warnings == ()


def test_the_confidence_sets_the_width() -> None:
    log = _uniform_log(_rounds(WORLD, 1, 400)[0], 1)
    narrow, wide = (evaluate(log, _known(), confidence=c) for c in (0.6826894921370859, 0.9544997361036416))
    for name in ("logged", "ips", "snips", "dr", "gain"):
        assert _half(getattr(wide, name)) == pytest.approx(2 * _half(getattr(narrow, name)), rel=0.1)


# Few rewards.


def _end_by_brute_force(values: Array, extra: float) -> float:
    """The upper end by search over the mean: with multiplier b the log likelihood ratio is -Σ log(1 + b (v - mean))."""
    v = np.append(values, extra)

    def deviance(m: float) -> float:
        low, high = -(1 - 1e-12) / (v.max() - m), 0.0
        for _ in range(200):
            b = (low + high) / 2
            low, high = (b, high) if ((v - m) / (1 + b * (v - m))).sum() > 0 else (low, b)
        return float(np.log1p(low * (v - m)).sum())

    low, high = float(v.mean()), float(v.max())
    for _ in range(100):
        m = (low + high) / 2
        low, high = (m, high) if deviance(m) < 1.959963984540054**2 / 2 else (low, m)
    return low


def test_the_interval_is_that_of_empirical_likelihood() -> None:
    values = np.random.default_rng(1).exponential(size=30)
    low, high = interval(values, -1.0, 9.0, 0.95)
    assert high == pytest.approx(_end_by_brute_force(values, 9.0))
    assert low == pytest.approx(-_end_by_brute_force(-values, 1.0))


@pytest.mark.parametrize("events", range(8))
def test_few_events_give_ends_about_those_of_clopper_and_pearson(events: int) -> None:
    n = 500
    low, high = interval(np.repeat([1.0, 0.0], [events, n - events]), 0.0, 1.0, 0.95)
    exact_high = special.betaincinv(events + 1, n - events, 0.975)
    exact_low = special.betaincinv(events, n - events + 1, 0.025) if events else 0.0
    assert exact_high <= high <= 1.25 * exact_high
    assert low <= exact_low + 0.35 / n


def test_an_interval_of_equal_values_is_of_what_was_not_seen() -> None:
    assert interval(np.ones(10), 1.0, 1.0, 0.95) == (1.0, 1.0)
    low, high = interval(np.ones(100), 0.0, 1.0, 0.95)
    assert (round(low, 3), high) == (0.957, 1.0)


def _clicks(rounds: int, arms: int, rate: float, seed: int) -> Log:
    """Clicks that do not depend on the arm: every target's gain is 0."""
    rng, X = np.random.default_rng(seed), np.eye(arms)
    places, clicks = rng.integers(arms, size=rounds), rng.random(rounds) < rate
    return Log([Logged(X, int(a), 1 / arms, float(click)) for a, click in zip(places, clicks, strict=True)])


def test_a_target_without_clicks_is_not_said_to_lose() -> None:
    for seed in range(6):
        log = _clicks(600, 10, 0.01, seed)
        found = evaluate(log, Agent(LinUCB(dim=10)), histories=2, rewards=(0, 1))
        assert found.gain.low <= 0 <= found.gain.high
        assert found.ips.high > 0.01
        assert found.dr.low < 0.01 < found.dr.high


def test_few_rewards_are_warned_of() -> None:
    found = evaluate(_clicks(2000, 4, 0.005, 1), lambda _: np.array([1.0, 0.0, 0.0, 0.0]))
    left = f"the weights leave {found.rewarded:.1f} rewards above 0, fewer than 10"
    assert found.warnings == (f"{left}: the intervals count that, and are wide",)


def test_rewards_that_are_all_the_same_say_nothing_unless_their_range_is_known() -> None:
    log = _clicks(200, 2, 0.0, 1)
    found = evaluate(log, lambda _: [0.5, 0.5])
    assert (found.ips.value, found.ips.low, found.ips.high) == (0.0, -math.inf, math.inf)
    assert found.warnings[0] == "all rewards are 0: nothing can be said of other ones (set their range)"
    known = evaluate(log, lambda _: [0.5, 0.5], rewards=(0, 1))
    assert (known.ips.low, round(known.ips.high, 3)) == (0.0, 0.022)


# Targets that do not learn.


def test_a_fixed_target_is_a_function_or_a_table_of_probabilities() -> None:
    log = _named_log(200)
    pi = [0.25, 0.75]
    found, table = evaluate(log, lambda round_: pi), evaluate(log, np.tile(pi, (200, 1)))
    assert found == table
    assert found.ips.value == pytest.approx(np.mean([2 * pi[each.place] * each.reward for each in log.rounds]))
    assert (found.accepted, found.clipped, found.histories) == (0, 0, 1)


def test_a_frozen_agent_plays_as_it_was_trained_and_a_trained_one_goes_on() -> None:
    log = _named_log(300)
    agent = Agent(ArmUCB(dim=1), seed=3)
    for each in _named_log(400).rounds:
        assert each.ids is not None
        agent.learn(agent_decision := _decide(agent, each), float(agent_decision.place == (each.X[0, 0] > 0)))
    before = agent.state()
    fresh, trained, frozen = (evaluate(log, agent, mode=mode, histories=2) for mode in ("fresh", "trained", "frozen"))
    assert agent.state() == before
    assert (frozen.accepted, frozen.histories, trained.histories) == (0, 1, 2)
    assert trained.accepted > 100
    assert min(frozen.ips.value, trained.ips.value) > fresh.ips.value
    assert frozen.dr.value > 0.95


def _decide(agent: Agent, each: Logged) -> Decision:
    assert each.ids is not None
    decision = agent.player.propose(NamedArms(each.ids, each.X), agent.round, agent.choice).decision
    agent._open.add(agent.round)
    agent.advance(decision.choice)
    return decision


def test_tiny_propensities_are_weighed() -> None:
    rng, rounds = np.random.default_rng(3), []
    for _ in range(2000):
        place = int(rng.random() < 1e-3)
        rounds.append(Logged(np.eye(2), place, 1e-3 if place else 1 - 1e-3, float(rng.random() < 0.3)))
    rounds.append(Logged(np.eye(2), 1, 1e-6, 1.0))
    found = evaluate(Log(rounds), lambda _: [1 - 1e-6, 1e-6])
    assert found.ips.low < 0.3 < found.ips.high
    assert found.ips.high - found.ips.low < 0.06
    assert found.warnings == ()


def test_agents_that_read_contexts_read_those_of_the_log() -> None:
    table = {"arm": ["tea", "milk"] * 150, "reward": [1, 0] * 150, "propensity": [0.5] * 300, "age": [31, 27, 5] * 100}
    log = log_from_frame(table, context=["age"])
    agent = Agent.for_arms(["age"], seed=1)
    found = evaluate(log, agent, histories=1)
    assert found.dr.value > 0.8
    agent.learn(agent.decide({"age": 3}, arms=["tea", "milk"]), 1.0)
    assert evaluate(log, agent, mode="frozen").accepted == 0


# What is accepted, and what is warned of.


def test_the_agent_that_is_evaluated_is_left_alone_and_twins_agree() -> None:
    log = _uniform_log(_rounds(WORLD, 1, 200)[0], 1)
    agent = Agent(LinTS(dim=3), seed=5)
    agent.learn(agent.decide(np.eye(3)), 1.0)
    before = agent.state()
    assert evaluate(log, agent) == evaluate(log, Agent(LinTS(dim=3), seed=5))
    assert agent.state() == before
    assert evaluate(log, agent) != evaluate(log, Agent(LinTS(dim=3), seed=6))


def test_the_interval_of_several_histories_has_only_what_can_be() -> None:
    rng = np.random.default_rng(1)
    clicks = (rng.random(300) < 0.01).tolist()
    log = Log([Logged(np.eye(4), int(rng.integers(4)), 0.25, float(click)) for click in clicks])
    found = evaluate(log, Agent(LinUCB(dim=4)), histories=3)
    assert found.dr.low == min(found.dr.value, 0.0)  # by Rubin's rule it would be less than any share of clicks can be
    assert 0.0 <= found.ips.low <= found.ips.value <= found.ips.high <= 1.0
    assert -1.0 <= found.gain.low < 0.0 < found.gain.high <= 1.0


def test_several_histories_are_pooled_by_rubins_rule() -> None:
    log = _floor_log(_rounds(WORLD, 1, 300)[0], 1)
    agents = [Agent(LinUCB(dim=3), seed=seed) for seed in (4, 5, 6)]
    apart = [evaluate(log, agent, histories=1) for agent in agents]
    found = evaluate(log, agents[0], histories=3)
    assert (found.histories, found.rounds, found.logged) == (3, 300, apart[0].logged)
    assert found.accepted == round(statistics.mean(each.accepted for each in apart))
    for name in ("ips", "snips", "dr", "gain", "weight"):
        own, pooled = [getattr(each, name) for each in apart], getattr(found, name)
        between = 1.959964**2 * 4 / 3 * statistics.variance(each.value for each in own)
        assert between > 0
        assert pooled.value == pytest.approx(statistics.mean(each.value for each in own))
        below = statistics.mean((each.value - each.low) ** 2 for each in own)
        above = statistics.mean((each.high - each.value) ** 2 for each in own)
        assert pooled.value - pooled.low == pytest.approx(math.sqrt(below + between))
        assert pooled.high - pooled.value == pytest.approx(math.sqrt(above + between))


def test_a_larger_acceptance_gives_a_longer_history_and_says_that_it_clips() -> None:
    log = _floor_log(_rounds(WORLD, 1, 600)[0], 1)
    exact = evaluate(log, Agent(LinUCB(dim=3)))
    eager = evaluate(log, Agent(LinUCB(dim=3)), acceptance=0.7, histories=1)
    assert exact.clipped == 0
    assert eager.accepted > 3 * exact.accepted
    assert eager.clipped == sum(0.7 * w > 1.0 for w in _walk(log, Agent(LinUCB(dim=3)), 0.7).weights) > 0
    assert eager.warnings == (
        f"{eager.clipped / 600:.1%} of the rounds were clipped: the target's history is not quite that of a real run",
    )


def test_few_effective_rounds_are_warned_of() -> None:
    found = evaluate(_uniform_log(_rounds(WORLD, 1, 200)[0], 1), _known())
    (warning,) = found.warnings
    assert warning.startswith(
        f"the weights leave {found.effective:.0f} effective rounds, fewer than 100: a few rounds decide"
    )


def test_a_log_without_a_floor_is_warned_of() -> None:
    (rounds,) = _rounds(WORLD, 1, 400)
    places = [int(each.means.argmax()) for each in rounds]
    log = Log([Logged(r.arms, a, 1.0, float(r.rewards[a])) for r, a in zip(rounds, places, strict=True)])
    assert evaluate(log, _known()).warnings == ()
    assert evaluate(log, _known()).dr.value == pytest.approx(evaluate(log, _known()).logged.value)
    half, never = evaluate(log, _known([0.0, 1.0])), evaluate(log, _known([1.0]))
    reason = "the propensities are wrong, or arms that the target plays were never played"
    assert half.warnings == (f"the weights average 0.50 instead of 1: {reason}",)
    assert never.warnings[1] == f"the weights average 0.00 instead of 1: {reason}"
    assert (never.effective, never.accepted, math.isnan(never.snips.value)) == (0.0, 0, True)


def test_wrong_propensities_are_warned_of() -> None:
    log = _uniform_log(_rounds(WORLD, 1, 600)[0], 1)
    wrong = Log([Logged(r.X, r.place, 0.5, r.reward) for r in log.rounds])
    assert "instead of 1" in evaluate(wrong, _known()).warnings[0]


# Reading logs.


def _lines(log: Log, bandit: str = "news", start: int = 1) -> list[dict[str, Any]]:
    """As a service writes it: a decision, something else, and later the reward."""
    lines: list[dict[str, Any]] = []
    for k, each in enumerate(log.rounds):
        seq, head = start + 3 * k, {"bandit": bandit, "at": 1763280000.1 + k}
        logged = {"X": each.X.tolist(), "place": each.place, "propensity": each.propensity, "by": "agent"}
        lines.append({"seq": seq, **head, "kind": "decide", "arms": ["a", "b", "c", "d"], "arm": "a", **logged})
        lines.append({"seq": seq + 1, **head, "kind": "note", "ref": seq, "learn": None, "X": "nothing"})
        lines.append({"seq": seq + 2, **head, "kind": "reward", "ref": seq, "learn": each.reward})
    return lines


def _write(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "\n")
    return path


def _same(one: Log, other: Log) -> bool:
    rows = [[(r.X.tolist(), r.place, r.propensity, r.reward) for r in log.rounds] for log in (one, other)]
    return one.left_out == other.left_out and rows[0] == rows[1]


SMALL = _uniform_log(_rounds(WORLD, 1, 6)[0], 1)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    log = read_log(_write(tmp_path / "log.jsonl", _lines(SMALL)))
    assert _same(log, SMALL)
    assert (log.named, SMALL.named, log.rounds[0].ids) == (True, False, ("a", "b", "c", "d"))


@settings(max_examples=40)
@given(order=st.permutations(range(2 * 18)))
def test_the_order_of_lines_does_not_matter(order: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = _lines(SMALL) + _lines(SMALL, "shop", start=2)
    file = tmp_path_factory.getbasetemp() / "shuffled.jsonl"
    assert _same(read_log(_write(file, [lines[i] for i in order]), "news"), SMALL)


def test_decisions_without_reward_or_features_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = _lines(SMALL)
    lines[0]["X"] = None
    del lines[3]["X"]
    lines[8]["learn"] = None
    log = read_log(_write(tmp_path / "log.jsonl", lines))
    assert _same(log, Log(SMALL.rounds[3:], unrewarded=1, featureless=2))


@pytest.mark.parametrize("by", ["caller", "fallback", "holdout"])
def test_decisions_that_others_made_count_only_if_they_were_drawn(by: str, tmp_path: Path) -> None:
    lines = _lines(SMALL)
    lines[0] |= {"by": by, "propensity": 1.0}
    lines[3] |= {"by": by}
    lines[6] |= {"propensity": 1.0}
    log = read_log(_write(tmp_path / "log.jsonl", lines))
    assert (log.forced, len(log.rounds), log.rounds[1].propensity) == (1, 5, 1.0)


def _with(line: int, **changes: Any) -> list[dict[str, Any]]:
    lines = _lines(SMALL)
    lines[line] |= changes
    return lines


WHERE = "line 1 of log.jsonl: "
BAD_LOGS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{...}", WHERE + "every line must be a JSON object; got '{...}'"),
    "too deep": ("[" * 100_000, WHERE + "every line must be a JSON object; got '[[[[["),
    "no object": ("[1, 2]", WHERE + "every line must be a JSON object; got '[1, 2]'"),
    "no text": (b"\xff\x00", WHERE + "every line must be a JSON object; got "),
    "empty": ("", 'log.jsonl must have decisions, lines with "kind": "decide"; got none'),
    "two bandits": (_lines(SMALL) + _lines(SMALL, "shop"), "log.jsonl has the bandits news, shop: one must be chosen"),
    "no features": (
        [{key: value for key, value in line.items() if key != "X"} for line in _lines(SMALL)],
        'a log must have the features of all arms, X; set "log": "all" in the bandit\'s configuration',
    ),
    "no rewards": (
        [line for line in _lines(SMALL) if line["kind"] == "decide"],
        "a log must have decisions with X and a reward; it left out 6 without a reward, 0 without X, 0 not randomised",
    ),
    "no number": (_with(0, seq="1"), WHERE + "seq must be a whole number of at least 0; got '1'"),
    "twice": (_with(3, seq=1), "line 4 of log.jsonl: a decision must be logged once; 1 is logged twice"),
    "two rewards": (_with(5, ref=1), "line 6 of log.jsonl: a decision must have one reward; 1 has two"),
    "a reward that is no number": (_with(2, learn="much"), "line 3 of log.jsonl: learn must be a number; got 'much'"),
    "a huge reward": (_with(2, learn=1e99), "line 3 of log.jsonl: learn must be between -1e+50 and 1e+50; got 1e+99"),
    "no place": (_with(0, place=None), WHERE + "place must be a whole number of at least 0; got None"),
    "a place that is no row": (_with(0, place=4), WHERE + "place must be a row of X, from 0 to 3; got 4"),
    "propensity 0": (_with(0, propensity=0), WHERE + "propensity must be between 1e-12 and 1; got 0.0"),
    "propensity 2": (_with(0, propensity=2), WHERE + "propensity must be between 1e-12 and 1; got 2.0"),
    "no propensity": (_with(0, propensity=None), WHERE + "propensity must be a number; got None"),
    "a missing propensity": (
        [{key: value for key, value in line.items() if key != "propensity"} for line in _lines(SMALL)],
        WHERE + "propensity must be a number; got None",
    ),
    "a missing place": (
        [{key: value for key, value in line.items() if key != "place"} for line in _lines(SMALL)],
        WHERE + "place must be a whole number of at least 0; got None",
    ),
    "flat X": (_with(0, X=[1, 2]), WHERE + "the arms must have shape (K, 1) with K >= 1; got shape (2,)"),
    "ragged X": (_with(0, X=[[1], [1, 2]]), WHERE + "the arms must be a table of numbers, one row an arm; got "),
    "empty X": (_with(0, X=[[]]), WHERE + "the arms must have shape (K, 1) with K >= 1; got shape (1, 0)"),
    "infinite X": (_with(0, X=[[1, math.inf]]), WHERE + "features must be finite; arm 0, feature 1 is inf"),
    "sparse X": (
        _with(0, sparse=True),
        WHERE + "the features of a log must be tables: sparse rows cannot be evaluated",
    ),
    "another width": (
        _with(0, X=[[1.0]], place=0),
        "a log must have as many features in all rounds; got 1 and 3",
    ),
}


def _bad(folder: Path, content: Any) -> Path:
    file = folder / "log.jsonl"
    if isinstance(content, list):
        return _write(file, content)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize(("content", "message"), BAD_LOGS.values(), ids=BAD_LOGS)
def test_bad_logs_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_log(_bad(tmp_path, content))
    assert str(caught.value).startswith(message)


LOGISTIC = Agent(SGDTS(dim=3))
BAD_CALLS: dict[str, tuple[Callable[[], Evaluation], str]] = {
    "confidence": (lambda: evaluate(SMALL, _known(), confidence=1.0), "confidence must be between 0.01 and 0.9999"),
    "acceptance": (lambda: evaluate(SMALL, _known(), acceptance=0), "acceptance must be between 1e-12 and 1; got 0.0"),
    "dim": (lambda: evaluate(SMALL, Agent(LinUCB(dim=2))), "the policy must have dim 3, as the log has; got 2"),
    "catalogue": (
        lambda: evaluate(SMALL, Agent(LinUCB(dim=3), catalogue=np.eye(3))),
        "an agent without a catalogue can be evaluated",
    ),
    "ids": (
        lambda: evaluate(Log([Logged(np.eye(3), 0, 0.5, 1.0, ("a", "b", "a"))]), LOGISTIC),
        "ids must be 3 different texts, one for each arm",
    ),
    "mode": (lambda: evaluate(SMALL, _known(), mode="new"), "mode must be one of fresh, trained, frozen"),  # type: ignore[arg-type]
    "range": (lambda: evaluate(SMALL, _known(), rewards=(5, 6)), "rewards must hold those of the log, from "),
    "target": (lambda: evaluate(SMALL, 3), "a target must be an agent, a function, or a table"),  # type: ignore[arg-type]
    "short table": (lambda: evaluate(SMALL, np.ones((2, 4))), "a table of probabilities must have a row for each of 6"),
    "no probabilities": (lambda: evaluate(SMALL, lambda _: [0.5] * 4), "the target's probabilities of round 0 must be"),
    "text": (lambda: evaluate(SMALL, lambda _: ["a"] * 4), "the target's probabilities of round 0 must be 4 numbers"),
    "contexts": (lambda: evaluate(SMALL, Agent.for_arms()), "an agent that reads contexts needs a log with contexts"),
    "position": (lambda: evaluate(SMALL.at_position(1), LOGISTIC), "position must be one of the log's, []; got 1"),
    "place": (lambda: evaluate(Log([Logged(np.eye(3), 3, 0.5, 1.0)]), LOGISTIC), "place must be a row of X"),
    "rewards": (
        lambda: evaluate(Log([Logged(np.eye(3), 0, 0.5, 1.5)]), LOGISTIC),
        "a reward of this policy must be between 0 and 1; got 1.5",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_bad_arguments_are_refused(call: Callable[[], Evaluation], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_another_bandit_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^log.jsonl has the bandits news; got 'shop'$"):
        read_log(_write(tmp_path / "log.jsonl", _lines(SMALL)), "shop")


def test_one_round_gives_no_interval() -> None:
    found = evaluate(Log([Logged(np.eye(3), 0, 0.5, 0.5)]), Agent(LinUCB(dim=3)))
    assert (found.logged.value, found.logged.high) == (0.5, math.inf)
    assert evaluate(Log([Logged(np.eye(3), 0, 0.5, 0.5)]), Agent(LinUCB(dim=3)), rewards=(0, 1)).logged.high > 0.9


# The command line.


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _uniform_log(_rounds(WORLD, 1, 500)[0], 1)
    lines = _lines(log) + _lines(SMALL, "shop", start=9001)
    lines[2]["learn"] = None
    file = _write(tmp_path / "log.jsonl", lines)
    chosen = ["--tuner", "Consensus", "--tuner", "fixed", "--set", "alpha=0.5", "--bandit", "news", "--seed", "3"]
    assert main(["evaluate", str(file), *chosen, "--confidence", "0.9", "--histories", "2"]) == 0
    shown = capsys.readouterr().out
    agent = Agent(LinUCB(dim=3), Fixed(Space(alpha=[0.5])), seed=3)
    found = evaluate(Log(log.rounds[1:]), agent, confidence=0.9, histories=2)
    assert "LinUCB: reward a round, from a log of 499 rounds" in shown
    assert "90% interval" in shown
    assert "the target's own first rounds, as many as were accepted; the log had 499.\n" in shown
    assert "\nMeans over 2 histories of each target; the intervals include how far they differ.\n" in shown
    assert "Left out: 1 without a reward, 0 without X, 0 not randomised." in shown
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == ["the log", "Consensus", "", "", "", "Fixed", "", "", ""]
    for row, estimate in zip(rows[5:], (found.dr, found.snips, found.ips, found.gain), strict=True):
        assert float(row[2]) == pytest.approx(estimate.value, abs=0.1 * _half(estimate))
        low, high = row[3].split(" to ")
        assert (float(low), float(high)) == pytest.approx((estimate.low, estimate.high), abs=0.1 * _half(estimate))
    assert rows[5][4:] == [f"{found.accepted:,}", f"{found.effective:,.0f}", f"{found.rewarded:,.0f}"]


def test_the_command_prints_warnings_and_what_cannot_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = _lines(Log([Logged(np.eye(3), 2, 1.0, 0.5)]))
    assert main(["evaluate", str(_write(tmp_path / "log.jsonl", lines)), "--tuner", "Theory", "--histories", "1"]) == 0
    shown = capsys.readouterr().out
    assert "The target learned nothing: it is the same in all rounds of the log." in shown
    assert "Warning, Theory: the weights leave 0 effective rounds, fewer than 100" in shown
    assert "–" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tuner", "Magic"], "no 'Magic' is registered"),
        (["--policy", "Magic"], "no 'Magic' is registered"),
        (["--set", "environment.dim=3"], "--set of this command takes policy. and tuner. only; got environment."),
        (["--bandit", "shop"], "log.jsonl has the bandits news; got 'shop'"),
        (["--confidence", "95"], "confidence must be between 0.01 and 0.9999; got 95.0"),
        (["--acceptance", "2"], "acceptance must be between 1e-12 and 1; got 2.0"),
        (["--histories", "0"], "histories must be a whole number of at least 1; got 0"),
        (["--seed", "-1"], "seed must be a whole number of at least 0; got -1"),
    ],
)
def test_a_mistake_is_one_clear_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _write(tmp_path / "log.jsonl", _lines(SMALL))
    assert main(["evaluate", str(file), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_log_that_is_not_there_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tmp_path / "none.jsonl")]) == 2
    assert capsys.readouterr().err == f"syndicated: a log must be a file; there is no file {tmp_path / 'none.jsonl'}\n"


def test_a_default_target_is_the_agent_s_own_default() -> None:
    log = _uniform_log(_rounds(WORLD, 1, 100)[0], 1)
    policy = LinUCB(dim=3)
    assert evaluate(log, Agent(policy)) == evaluate(log, Agent(policy, Fixed(Space(boldness=[2.5]))))
