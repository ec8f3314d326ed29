"""The log of a bandit, read beside the service: over a connection of its own, and on a thread of its own.

Nobody waits for it. While there are requests it pauses after every piece for as long as the piece has taken, because it
shares the interpreter with those who decide.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from itertools import islice
from typing import TypeVar

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.problems import Problem
from syndicated.service.commit.group_commit import GroupCommit
from syndicated.store import Event, Store
from syndicated.store._base import in_chunks

PIECE_BYTES = 2**20  # of the log in a piece; lines of JSON are several times as long

MAX_EXPORTS = 16  # at once: each has a connection to the journal, of which a database gives few

T = TypeVar("T")


class Export:
    """Events of a bandit after a sequence number, as they were when it was asked for."""

    def __init__(self, group_commit: GroupCommit, bandit: Bandit, after: int, upto: int, limit: int) -> None:
        self._group_commit, self._bandit = group_commit, bandit
        self._after, self._upto, self._limit = after, upto, limit

    async def pieces(self, convert: Callable[[list[Event], Bandit], T], size: int) -> AsyncGenerator[T, None]:
        """What is made of so many events at a time, or fewer if they are large, on the export's thread."""
        with export_room(self._group_commit):
            async with aclosing(self._made(convert, size)) as made:
                async for piece in made:
                    yield piece

    async def _made(self, convert: Callable[[list[Event], Bandit], T], size: int) -> AsyncGenerator[T, None]:
        thread, run = ThreadPoolExecutor(1, thread_name_prefix="export"), asyncio.get_running_loop().run_in_executor
        reader = await run(thread, self._group_commit.store.reader)
        chunks = in_chunks(self._events(reader), size, PIECE_BYTES)

        def make() -> tuple[float, T] | None:
            begin, found = time.perf_counter(), next(chunks, None)
            if found is None:
                return None
            made = convert(found, self._bandit)
            return time.perf_counter() - begin, made

        try:
            while (made := await run(thread, make)) is not None:
                yield made[1]
                if self._group_commit.waiting:
                    await asyncio.sleep(made[0])
        finally:
            thread.submit(reader.close)  # not waited for: a database may hang
            thread.shutdown(wait=False)

    def _events(self, reader: Store) -> Iterator[Event]:
        found = reader.after(self._after, self._bandit.id, self._upto)
        # How far windows are closed is this journal's own affair.
        return islice((event for event, _ in found if event.kind != "closed"), self._limit)


@contextmanager
def export_room(group_commit: GroupCommit) -> Iterator[None]:
    """While something is read beside the service. Too many at once are refused."""
    if group_commit.exports >= MAX_EXPORTS:
        raise Problem(503, "overload", f"at most {MAX_EXPORTS} exports may be read at once; try again later")
    group_commit.exports += 1
    try:
        yield
    finally:
        group_commit.exports -= 1
