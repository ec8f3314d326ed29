"""What an agent would have earned: estimates from a log that another player wrote.

The target goes through the log as an agent would. Of round k, whose logged arm a with reward r had propensity p:

    w = pi(a)/p                                   pi: the target's chances of every arm, given its history so far
    IPS:  w r           SNIPS:  Σ w r / Σ w           DR:  Σ_b pi(b) g(b) + w (r - g(a))
    with probability c w the target plays a itself and learns r; otherwise it never saw the round

g predicts rewards from the rounds before k. If every arm that the target may play has a positive propensity and
c w <= 1, then an accepted round is distributed as one that the target played itself, whatever its history, and so is
the history. Every history lasts 1/c rounds on average, so the mean over all rounds of the log is that of the target's
own first c n rounds.

Dudík, Erhan, Langford and Li, *Sample-efficient nonstationary policy evaluation for contextual bandits*, UAI 2012;
*Doubly robust policy evaluation and optimization*, Statistical Science 2014.

Several histories of a target are pooled as several imputations of what is missing are: with W the mean of their
variances and B the variance of their H estimates, the variance is W + (1 + 1/H) B.

Rubin, *Multiple imputation for nonresponse in surveys*, Wiley 1987.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from syndicated import _special
from syndicated._player import Player, Proposal
from syndicated._validation import check_count, check_number
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.evaluate._log import MIN_PROPENSITY, Log
from syndicated.evaluate._reward_model import RewardModel
from syndicated.policies.base import ArmPolicy
from syndicated.streams import ACCEPT, Stream
from syndicated.types import Array, Decision, NamedArms

MIN_EFFECTIVE_ROUNDS = 100  # below which normal intervals are not to be trusted
MAX_WEIGHT_ERRORS = 3.0  # standard errors by which the mean weight may differ from 1
POOLED_ESTIMATES = ("ips", "snips", "dr", "gain", "weight")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean reward a round, and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the log earned, what the target would have earned by three estimators, and how far to trust them.

    `gain` is DR less what the log earned, paired round by round. `accepted` rounds are those that the target learned
    from; in `clipped` ones c w was above 1. `effective` is (Σ w)²/Σ w², the number of rounds that the weights leave;
    `weight` is their mean, with its interval, which is 1 if the propensities are right and cover all arms. Of several
    `histories` all these are means.
    """

    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    weight: Estimate
    confidence: float
    rounds: int
    accepted: int
    clipped: int
    effective: float
    histories: int = 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why not to trust it, if there is a reason."""
        found = []
        if self.effective < MIN_EFFECTIVE_ROUNDS:
            left = f"the weights leave {self.effective:.0f} effective rounds, fewer than {MIN_EFFECTIVE_ROUNDS}"
            found.append(f"{left}: the intervals may be too narrow")
        error = (self.weight.high - self.weight.value) / _quantile(self.confidence)
        if abs(self.weight.value - 1.0) > MAX_WEIGHT_ERRORS * error:
            reason = "the propensities are wrong, or arms that the target plays were never played"
            found.append(f"the weights average {self.weight.value:.2f} instead of 1: {reason}")
        if self.clipped:
            share = self.clipped / self.rounds
            found.append(
                f"{share:.1%} of the rounds were clipped: the target's history is not quite that of a real run"
            )
        return tuple(found)


class Walk(NamedTuple):
    """Of every round of a log: the weight w, Σ_b pi(b) g(b), g(a), and whether the target learned from it."""

    weights: Array
    direct: Array
    guesses: Array
    accepted: Array


def evaluate(
    log: Log, agent: Agent, *, confidence: float = 0.95, acceptance: float | None = None, histories: int = 1
) -> Evaluation:
    """What an agent like this one, without history, would have earned in place of the player that wrote the log.

    `acceptance` is c, by default the least propensity in the log, which clips nothing; a larger one gives the target
    a longer history that is not quite that of a real run. The intervals of one history hold for that one; those of
    several, with the seeds from the agent's on, include how far histories differ.

    >>> from syndicated import LinUCB
    >>> from syndicated.evaluate import Logged
    >>> log = Log([Logged(np.eye(2), place=t % 2, propensity=0.5, reward=float(t % 2)) for t in range(1000)])
    >>> found = evaluate(log, Agent(LinUCB(dim=2)))
    >>> round(found.logged.value, 2), bool(found.dr.value > 0.9)
    (0.5, True)
    """
    check_number("confidence", confidence, low=0.01, high=0.9999)
    if agent.player.catalogue is not None:
        raise InputError("an agent without a catalogue can be evaluated: a log has features; got one with a catalogue")
    if agent.policy.dim != log.dim:
        raise InputError(f"the policy must have dim {log.dim}, as the log has; got {agent.policy.dim}")
    for each in log.rounds:
        check_number("a reward of this policy", each.reward, *agent.policy.rewards)
    least = min(each.propensity for each in log.rounds)
    c = least if acceptance is None else check_number("acceptance", acceptance, low=MIN_PROPENSITY, high=1.0)
    rewards = np.array([each.reward for each in log.rounds])
    first = agent.player.seed
    seeds = range(first, first + check_count("histories", histories))
    twins = [Agent(agent.policy, agent.tuner, seed=seed) for seed in seeds]
    return pool([summarise(rewards, walk(log, twin, c), confidence, c) for twin in twins])


def walk(log: Log, agent: Agent, c: float) -> Walk:
    """Go through the log with a fresh agent like this one."""
    seed = agent.player.seed
    target, model = Agent(agent.policy, agent.tuner, seed=seed), RewardModel(log.dim)
    named = isinstance(agent.policy, ArmPolicy) and log.named
    rows = Walk(*np.zeros((4, len(log.rounds))))
    for k, each in enumerate(log.rounds):
        arms = NamedArms(each.ids, each.X) if named and each.ids is not None else each.X
        proposal = target.player.propose(arms, target.round, target.choice, explain=True)
        chances, guesses = proposal.chances, model.predict(arms, k)
        rows.weights[k] = chances[each.place] / each.propensity
        rows.direct[k], rows.guesses[k] = chances @ guesses, guesses[each.place]
        if Stream(seed, ACCEPT, k).uniforms(1)[0] < c * rows.weights[k]:
            decision = accept(target.player, proposal, arms, each.place)
            target.advance(decision.choice)
            target.player.learn(decision, each.reward)
            rows.accepted[k] = 1.0
        model.learn(arms, each.place, each.reward, k)
    return rows


def accept(player: Player, proposal: Proposal, arms: Array | NamedArms, place: int) -> Decision:
    """The decision to play this arm, whose probability must not be 0: its choice is drawn among those that play it.

    It is drawn again until it does, which keeps the tuner's own distribution given the arm. An arm of chance pi takes
    1/pi draws on average and is accepted with probability c pi/p: a round of the log costs c/p <= 1 draws.
    """
    decision = proposal.decision
    if decision.choice is None:
        rows, name = (arms.x, arms.ids[place]) if isinstance(arms, NamedArms) else (arms, None)
        return replace(decision, place=place, x=rows[place].copy(), name=name)
    draws, points = player.draws(decision.round), player.tuner.points
    while decision.place != place:
        choice = player.tuner.choose(draws)
        if proposal.played[points.index(choice.params)] == place:
            decision = player.play(arms, decision.round, choice)
    return decision


def summarise(rewards: Array, rows: Walk, confidence: float, c: float) -> Evaluation:
    """The estimates of the means, with normal intervals from the empirical variance; SNIPS by linearisation."""
    w = rows.weights
    robust = rows.direct + w * (rewards - rows.guesses)
    total, squares = float(w.sum()), float(w @ w)
    ratio = float(w @ rewards) / total if total else math.nan
    residuals = w * (rewards - ratio) / (total / len(w)) if total else np.full(len(w), math.nan)
    z = _quantile(confidence)

    def estimate(name: str, values: Array, value: float | None = None) -> Estimate:
        mean = float(values.mean()) if value is None else value
        half = z * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return Estimate(name, mean, mean - half, mean + half)

    return Evaluation(
        logged=estimate("log", rewards),
        ips=estimate("IPS", w * rewards),
        snips=estimate("SNIPS", residuals, ratio),
        dr=estimate("DR", robust),
        gain=estimate("gain", robust - rewards),
        weight=estimate("weight", w),
        confidence=confidence,
        rounds=len(w),
        accepted=int(rows.accepted.sum()),
        clipped=int((c * w > 1.0 + 1e-9).sum()),
        effective=total**2 / squares if squares else 0.0,
    )


def pool(found: Sequence[Evaluation]) -> Evaluation:
    """One evaluation of several histories of a target."""
    if len(found) == 1:
        return found[0]

    def together(estimates: Sequence[Estimate]) -> Estimate:
        values = np.array([each.value for each in estimates])
        halves = np.array([each.high - each.value for each in estimates])
        between = (_quantile(found[0].confidence) * values.std(ddof=1)) ** 2
        mean = float(values.mean())
        half = math.sqrt(float((halves**2).mean()) + (1 + 1 / len(values)) * between)
        return Estimate(estimates[0].name, mean, mean - half, mean + half)

    pooled: dict[str, Any] = {name: together([getattr(each, name) for each in found]) for name in POOLED_ESTIMATES}
    return replace(
        found[0],
        **pooled,
        accepted=round(sum(each.accepted for each in found) / len(found)),
        clipped=math.ceil(sum(each.clipped for each in found) / len(found)),
        effective=sum(each.effective for each in found) / len(found),
        histories=len(found),
    )


def _quantile(confidence: float) -> float:
    """How many standard errors an interval extends to either side."""
    return float(_special.ndtri(0.5 + confidence / 2))
