"""Networks of bandits are trained beside the batches, so that no decision waits for it.

A decision trains what takes a moment, as the library would. What takes longer is trained on another thread, from the
observations of one moment. Until that is done decisions are made with the networks as far as they are trained. The
state has the observations alone, so it is the same on every replica and in every replay.
"""

import asyncio
import logging

from syndicated.policies._neural_policy import Training
from syndicated.service.bandits.problems import Problem
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.service.commit.own_thread import on_own_thread

log = logging.getLogger("syndicated")


class NetworkTraining:
    """Trains networks that are behind their observations, one bandit after the other."""

    def __init__(self, group_commit: GroupCommit) -> None:
        self._group_commit = group_commit
        self._wanted: set[int] = set()  # numbers of bandits
        self._task: asyncio.Task[None] | None = None

    def want(self, bandit: int) -> None:
        """Train the networks of a bandit soon. On the event loop's thread."""
        self._wanted.add(bandit)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._train_wanted())

    async def _train_wanted(self) -> None:
        try:
            while self._wanted:
                for training in await self._begin(self._wanted.pop()):
                    await on_own_thread("training", training.run)
                    await self._hand_over(training)
        except Problem:
            pass  # the journal is away, or this is the end; the next decision asks again
        except Exception:  # for want of memory, say: decisions are made with the networks of before
            log.exception("a network could not be trained")

    def _begin(self, id_: int) -> "asyncio.Future[list[Training]]":
        def begin(batch: Batch) -> list[Training]:
            return [policy.training() for policy in batch.state.bandits[id_].networks if policy.is_behind]

        return self._group_commit.go_on(begin)

    def _hand_over(self, training: Training) -> "asyncio.Future[None]":
        return self._group_commit.go_on(lambda batch: training.hand_over())
