"""Another model for a bandit that keeps what was learned: the log's rewards are learned again, then it is changed.

The log is read in pages between batches, and learned from on another thread, so that nobody waits. What comes
meanwhile is learned at the end, within the change itself. A large model is written before that, in pieces, and what it
learns from then on beside it: the rewards are `relearn` events, each with all that it is learned with.

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
from syndicated.service.bandits.bandit import Bandit, build_parts, is_named, reward_range
from syndicated.service.bandits.messages import Arm, Spec
from syndicated.service.bandits.model_load import RELEARN, Lesson, Pieces, restored
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.records import Decided, decode_decided
from syndicated.service.bandits.runs import SERVICE_ID
from syndicated.service.commit.batch import Batch
from syndicated.store import Store

PAGE_EVENTS = 500

Page = list[tuple[Lesson, float]]


class Relearning:
    """The model of a new spec, on its way through the log of a bandit's epoch."""

    def __init__(self, bandit: Bandit, spec: Spec) -> None:
        self._ids = bandit.encoder if becomes_named(bandit, spec) else None
        if self._ids is None and spec.features != bandit.spec.features:
            raise InputError("features must stay as they are if what was learned is to be kept")
        self.epoch, self.bandit, self._spec = bandit.epoch, bandit.id, spec
        self._after, self._learned = 0, 0
        self._encoder, self._agent = build_parts(spec, bandit.agent.id)
        self._named, self._range = is_named(self._encoder, self._agent), reward_range(spec, self._agent)
        self.pieces: Pieces | None = None  # of the model, once they are written
        self.written: list[int] = []  # the numbers of what it has learned since then

    def page(self, batch: Batch) -> Page | None:
        """The next decisions that were learned from, with their rewards; None at the end of the log.

        Only what is folded: before what another process has just committed, a smaller number may still come.
        """
        found = list(islice(batch.store.after(self._after, self.bandit, upto=batch.state.seq), PAGE_EVENTS))
        if not found:
            return None
        self._after = found[-1][0].seq
        page = []
        for event, about in found:
            if event.learn is None or about is None or not about.body:
                continue
            decided = decode_decided(about.body)
            if decided.epoch == self.epoch and decided.by in COUNTED:
                page.append((self._lesson(decided), event.learn))
                if self.pieces is not None:
                    taught = batch.add(SERVICE_ID, RELEARN, page[-1][0], learn=event.learn, subject=about.subject)
                    self.written.append(taught.seq)
        return page

    def learn(self, page: Page) -> None:
        """Learn again. The tuner learns nothing from what another one has drawn."""
        for lesson, reward in page:
            check_number("a reward in the log, if the new model is to learn it,", reward, *self._range)
            lesson.teach(self._agent, reward)
        self._learned += len(page)

    @property
    def agent(self) -> Agent | None:
        """The new model, if there was something to learn."""
        return self._agent if self._learned else None

    def pack(self) -> bytes:
        """The new model as the content of a file."""
        return self._agent.state() if self._learned else b""

    def go_on(self, model: bytes, pieces: Pieces) -> None:
        """Go on from the model in the pieces that were written, as all who read them do."""
        self._agent, self.pieces = restored(self._spec, model), pieces

    def check_written(self, store: Store) -> None:
        """Refuse to end if what was learned since the pieces is gone: a replay would not learn it."""
        if any(event.learn is None for event in store.events(self.written).values()):
            raise Problem(409, "conflict", "something was erased while the log was learned again; try again")

    def _lesson(self, decided: Decided) -> Lesson:
        """What a decision teaches the new model, with the row of its arm as that one has it."""
        arm, x = decided.arm if self._named else None, decided.x
        if isinstance(self._ids, Ids):
            context = self._ids.context_of(np.frombuffer(bytearray(decided.x)))
            x = self._encoder.table(context, [Arm(decided.arm)])[0].tobytes()
        return Lesson(self.bandit, decided.place, x, arm, decided.sparse)


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
