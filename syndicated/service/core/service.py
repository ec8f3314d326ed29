"""The running service without its HTTP: its parts, and what they share."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from syndicated.service.bandits.state import State
from syndicated.service.commit.batch import Batch
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.service.commit.limits import Limits
from syndicated.service.core.admin import Admin
from syndicated.service.core.decisions import Decisions
from syndicated.service.core.windows import Windows
from syndicated.store import Store

T = TypeVar("T")


class Service:
    """A service on a journal. `decisions` and `admin` take requests; what they return is a future of the answer."""

    def __init__(self, store: Store, limits: Limits | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.group_commit = GroupCommit(store, limits or Limits(), clock=clock)
        self.clock = self.group_commit.now
        self.decisions = Decisions(self.group_commit)
        self.admin = Admin(self.group_commit)
        self.windows = Windows(self.group_commit)

    def start(self) -> None:
        """Begin to work, for requests of the running event loop."""
        self.group_commit.start(self.windows)

    async def stop(self) -> None:
        """Finish what is queued, take a snapshot, and end."""
        await self.group_commit.stop()

    @property
    def state(self) -> State:
        """The state as of the last batch. To read more than one thing of it, use `read`."""
        return self.group_commit.state

    @property
    def counts(self) -> dict[str, int]:
        """Counters since the start: batches, events, and requests that were repeated, in conflict or refused."""
        return {**self.group_commit.counts, **self.decisions.counts}

    def read(self, view: Callable[[Batch], T]) -> "asyncio.Future[T]":
        """What a reader makes of `batch.state` and `batch.store`, between two batches."""
        return self.group_commit.submit(view, exclusive=True)
