"""Another policy for a bandit that keeps what was learned: the log's rewards are learned again, then it is changed.

The log is read in pages between batches, and learned from on another thread, so that nobody waits. What comes
meanwhile is learned at the end, within the change itself.
"""

from itertools import islice

import numpy as np

from syndicated._decided_by import COUNTED
from syndicated._validation import check_number
from syndicated.errors import InputError
from syndicated.service.core.bandit import Bandit, build_parts, is_named, reward_range
from syndicated.service.core.batch import Batch
from syndicated.service.core.messages import Spec
from syndicated.service.core.records import Decided, decode_decided
from syndicated.types import Decision

PAGE_EVENTS = 500

Page = list[tuple[Decided, float]]


class Relearning:
    """The model of a new spec, on its way through the log of a bandit's epoch."""

    def __init__(self, bandit: Bandit, spec: Spec) -> None:
        if spec.features != bandit.spec.features:
            raise InputError("features must stay as they are if what was learned is to be kept")
        self.spec, self.epoch = spec, bandit.epoch
        self._bandit, self._after = bandit.id, 0
        encoder, self.agent = build_parts(spec, bandit.agent.id)
        self._named, self._range = is_named(encoder, self.agent), reward_range(spec, self.agent)

    def page(self, batch: Batch) -> Page | None:
        """The next decisions that were learned from, with their rewards; None at the end of the log."""
        found = list(islice(batch.store.after(self._after, self._bandit), PAGE_EVENTS))
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
            x = np.frombuffer(bytearray(decided.x))
            name, params = decided.arm if self._named else None, self.agent.policy.theory(0, {})
            decision = Decision(
                self.agent.id, 0, decided.place, x.reshape(2, -1) if decided.sparse else x, None, params, None, name
            )
            self.agent.player.learn(decision, reward)
