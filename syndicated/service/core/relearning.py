"""Another model for a bandit that keeps what was learned: the log's rewards are learned again, then it is changed.

The log is read in pages between batches, and learned from on another thread, so that nobody waits. What comes
meanwhile is learned at the end, within the change itself.

Features stay as they are, or go from kind ids to named arms: a row of kind ids is a block of its arm with the context
in it, so the context can be read from the row that every decision has in the log.
"""

from itertools import islice

import numpy as np

from syndicated._decided_by import COUNTED
from syndicated._validation import check_number
from syndicated.agent import Agent
from syndicated.errors import InputError
from syndicated.features import Encoder, Ids
from syndicated.service.core.bandit import Bandit, build_parts, is_named, reward_range
from syndicated.service.core.batch import Batch
from syndicated.service.core.messages import Arm, Spec
from syndicated.service.core.records import Decided, decode_decided
from syndicated.types import Array, Decision

PAGE_EVENTS = 500

Page = list[tuple[Decided, float]]


class Relearning:
    """The model of a new spec, on its way through the log of a bandit's epoch."""

    def __init__(self, bandit: Bandit, spec: Spec) -> None:
        self._ids = bandit.encoder if becomes_named(bandit, spec) else None
        if self._ids is None and spec.features != bandit.spec.features:
            raise InputError("features must stay as they are if what was learned is to be kept")
        self.epoch = bandit.epoch
        self._bandit, self._after, self._learned = bandit.id, 0, 0
        self._encoder, self._agent = build_parts(spec, bandit.agent.id)
        self._named, self._range = is_named(self._encoder, self._agent), reward_range(spec, self._agent)

    def page(self, batch: Batch) -> Page | None:
        """The next decisions that were learned from, with their rewards; None at the end of the log.

        Only what is folded: before what another process has just committed, a smaller number may still come.
        """
        found = list(islice(batch.store.after(self._after, self._bandit, upto=batch.state.seq), PAGE_EVENTS))
        if not found:
            return None
        self._after = found[-1][0].seq
        learned = ((event.learn, about) for event, about in found)
        pairs = [
            (decode_decided(about.body), learn)
            for learn, about in learned
            if learn is not None and about and about.body
        ]
        return [(decided, learn) for decided, learn in pairs if decided.epoch == self.epoch and decided.by in COUNTED]

    def learn(self, page: Page) -> None:
        """Learn again. The tuner learns nothing from what another one has drawn."""
        for decided, reward in page:
            check_number("a reward in the log, if the new model is to learn it,", reward, *self._range)
            name, params = decided.arm if self._named else None, self._agent.policy.theory(0, {})
            decision = Decision(self._agent.id, 0, decided.place, self._row(decided), None, params, None, name)
            self._agent.player.learn(decision, reward)
        self._learned += len(page)

    @property
    def agent(self) -> Agent | None:
        """The new model, if there was something to learn."""
        return self._agent if self._learned else None

    def _row(self, decided: Decided) -> Array:
        """The row of a decision's arm, as the new model has it."""
        x = np.frombuffer(bytearray(decided.x))
        if isinstance(self._ids, Ids):
            row: Array = self._encoder.table(self._ids.context_of(x), [Arm(decided.arm)])[0]
            return row
        return x.reshape(2, -1) if decided.sparse else x


def becomes_named(bandit: Bandit, spec: Spec) -> bool:
    """Whether a bandit of kind ids would get named arms, with features that can take the old contexts."""
    if not isinstance(bandit.encoder, Ids) or bandit.named:
        return False
    encoder, agent = build_parts(spec)
    return is_named(encoder, agent) and _takes(encoder, bandit.encoder)


def _takes(encoder: Encoder, old: Ids) -> bool:
    """Whether the old contexts are such of the new features, with nothing missing."""
    try:
        table = encoder.table(old.context_of(np.zeros(old.dim)), [Arm("")])
    except InputError:
        return False
    return bool(np.isfinite(table).all())
