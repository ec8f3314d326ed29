"""Targets go through a log: the weight of every round, and what the target learns on the way.

An agent that learns goes through the log as it would through the world. With probability c w it plays the logged arm
itself and learns its reward; otherwise it never saw the round. If every arm that it may play has a positive propensity
and c w <= 1, then an accepted round is distributed as one that the target played itself, whatever its history, and so
is the history. Every history lasts 1/c rounds on average, so the mean over all rounds of the log is that of the
target's own first c n rounds.

Dudík, Erhan, Langford and Li, *Sample-efficient nonstationary policy evaluation for contextual bandits*, UAI 2012;
*Doubly robust policy evaluation and optimization*, Statistical Science 2014.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from syndicated._player import Player, Proposal
from syndicated._validation import shorten
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.evaluate._log import Log, Logged
from syndicated.evaluate._reward_model import RewardModel
from syndicated.policies.base import ArmPolicy
from syndicated.streams import ACCEPT, Stream
from syndicated.types import Array, Decision, NamedArms

MAX_SUM_ERROR = 1e-6  # of probabilities that were given
Advance = Callable[[int], object]


class Walk(NamedTuple):
    """Of every round of a log: the weight w, Σ_b pi(b) g(b), g(a), and whether the target learned from it."""

    weights: Array
    direct: Array
    guesses: Array
    accepted: Array


def predict_rewards(log: Log, named: bool, advance: Advance) -> list[Array]:
    """g: what every arm of every round would have paid, by the rounds before it."""
    model, predictions = RewardModel(log.dim), []
    for k, each in enumerate(log.rounds):
        arms = rows_of(each, named)
        predictions.append(model.predict(arms, k))
        model.learn(arms, each.place, each.reward, k)
        advance(1)
    return predictions


def walk(log: Log, target: Agent, c: float, predictions: Sequence[Array], learns: bool, advance: Advance) -> Walk:
    """Go through the log with an agent. One that does not learn decides every round in its own way."""
    seed, named = target.player.seed, knows_ids(log, target)
    rows = Walk(*np.zeros((4, len(log.rounds))))
    for k, each in enumerate(log.rounds):
        arms = _arms_for(target, each, named)
        proposal = target.player.propose(arms, target.round, target.choice, explain=True)
        _weigh(rows, k, each, proposal.chances, predictions[k])
        if not learns:
            target.advance(proposal.decision.choice)
        elif Stream(seed, ACCEPT, k).uniforms(1)[0] < c * rows.weights[k]:
            decision = accept(target.player, proposal, arms, each.place)
            target.advance(decision.choice)
            target.player.learn(decision, each.reward)
            rows.accepted[k] = 1.0
        advance(1)
    return rows


def walk_fixed(log: Log, probabilities: Callable[[Logged], npt.ArrayLike], predictions: Sequence[Array]) -> Walk:
    """Go through the log with the probabilities of every round's arms."""
    rows = Walk(*np.zeros((4, len(log.rounds))))
    for k, each in enumerate(log.rounds):
        _weigh(rows, k, each, _check_probabilities(probabilities(each), k, len(each.X)), predictions[k])
    return rows


def knows_ids(log: Log, target: Agent) -> bool:
    """Whether a target knows the arms of a log by their ids."""
    return log.named and isinstance(target.policy, ArmPolicy)


def rows_of(each: Logged, named: bool) -> Array | NamedArms:
    """The arms of a round, in rows of their own also where the log has one row for all."""
    X = np.ascontiguousarray(each.X)
    return NamedArms(each.ids, X) if named and each.ids is not None else X


def _arms_for(target: Agent, each: Logged, named: bool) -> Array | NamedArms:
    """The arms of a round as the target takes them: one that reads contexts reads those of the log."""
    if target._reader is None:
        return rows_of(each, named)
    read = target._reader.read(each.context, list(each.ids or ()))
    return target.player.check(read)


def _weigh(rows: Walk, k: int, each: Logged, chances: Array, predictions: Array) -> None:
    rows.weights[k] = chances[each.place] / each.propensity
    rows.direct[k], rows.guesses[k] = chances @ predictions, predictions[each.place]


def _check_probabilities(given: npt.ArrayLike, k: int, count: int) -> Array:
    try:
        pi = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        pi = np.empty(0)
    if pi.shape != (count,) or not pi.min() >= 0.0 or not abs(pi.sum() - 1.0) <= MAX_SUM_ERROR:
        must = f"the target's probabilities of round {k} must be {count} numbers of at least 0 that sum to 1"
        raise InputError(f"{must}; got {shorten(given)}")
    return pi


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
