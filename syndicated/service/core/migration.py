"""From features of kind ids to named arms: what the journal has of the old model's rewards, the new one learns.

A row of kind ids is a block of its arm with the context in it, so the context can be read from the row that every
decision has in the log.
"""

from collections.abc import Iterator

import numpy as np

from syndicated._decided_by import COUNTED
from syndicated._validation import check_number
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.features import Encoder, Ids
from syndicated.service.core.bandit import Bandit, build_parts, is_named, reward_range
from syndicated.service.core.batch import Batch
from syndicated.service.core.messages import Arm, Spec
from syndicated.service.core.records import decode_decided
from syndicated.types import Array, Decision

MAX_MIGRATED_REWARDS = 50_000  # the latest: a few seconds, in which the service answers nobody
PAGE_EVENTS = 1000
LEARNING_KINDS = ("reward", "activate", "close")


def migrated_model(batch: Batch, bandit: Bandit, spec: Spec) -> Agent | None:
    """The model of a new spec, after the rewards of a bandit; None if it is not from ids to named arms.

    Nor if the new features cannot take the old contexts: then it is another bandit.
    """
    old = bandit.encoder
    encoder, agent = build_parts(spec, bandit.agent.id)
    if not isinstance(old, Ids) or bandit.named or not is_named(encoder, agent) or not _takes(encoder, old):
        return None
    learned = False
    for arm, x, reward in _rewards(batch, bandit):
        what = f"a reward of {arm} in the log, if the new model is to learn it,"
        check_number(what, reward, *reward_range(spec, agent))
        _learn(agent, arm, encoder.table(old.context_of(x), [Arm(arm)])[0], reward)
        learned = True
    return agent if learned else None


def _takes(encoder: Encoder, old: Ids) -> bool:
    """Whether the old contexts are such of the new features, with nothing missing."""
    try:
        table = encoder.table(old.context_of(np.zeros(old.dim)), [Arm("")])
    except InputError:
        return False
    return bool(np.isfinite(table).all())


def _rewards(batch: Batch, bandit: Bandit) -> Iterator[tuple[str, Array, float]]:
    """The arms, rows and rewards that the model has learned, in their order."""
    events = batch.store.recent(bandit.id, LEARNING_KINDS, MAX_MIGRATED_REWARDS)[::-1]
    for start in range(0, len(events), PAGE_EVENTS):
        page = events[start : start + PAGE_EVENTS]
        decisions = batch.store.events([event.ref for event in page if event.ref is not None])
        for event in page:
            about = decisions.get(event.ref or 0)
            if event.learn is not None and about is not None and about.body:
                decided = decode_decided(about.body)
                if decided.epoch == bandit.epoch and decided.by in COUNTED:
                    yield decided.arm, np.frombuffer(decided.x), event.learn


def _learn(agent: Agent, arm: str, x: Array, reward: float) -> None:
    """The tuner learns nothing from what another one has drawn."""
    params = agent.policy.theory(0, {})
    agent.player.learn(Decision(agent.id, 0, 0, x, None, params, None, arm), reward)
