"""A service without its HTTP for tests: on a file, with a clock that is set."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from syndicated.service.bandits.messages import Arm, Create, DecideReply, DecideRequest, RewardRequest, Spec
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.state import State
from syndicated.service.core.service import Service
from syndicated.store import Event, SQLite

VECTOR = {"kind": "vector", "dim": 3}
ARMS = [Arm(name, x=x) for name, x in (("a", [1.0, 0.0, 0.0]), ("b", [0.0, 1.0, 0.0]), ("c", [0.0, 0.0, 1.0]))]
ASK = DecideRequest(arms=list(ARMS))
HANG_SECONDS = 600  # only so that a test that hangs ends: none comes near it, also not on a busy machine


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Harness:
    """A service on a file, a clock that is set, and short ways to ask."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self.file, self.clock = file, clock
        self.service = Service(SQLite(file), clock=clock)
        self.service.start()

    async def create(self, name: str = "b", **spec: Any) -> None:
        await self.service.admin.create("", Create(name=name, spec=Spec(**{"features": VECTOR, **spec})))

    async def decide(self, name: str = "b", **request: Any) -> DecideReply:
        return await self.service.decisions.decide(name, DecideRequest(**{"arms": list(ARMS), **request}))

    async def reward(self, id_: str, value: float, name: str = "b", event_id: str | None = None) -> str:
        asked = RewardRequest(decision_id=id_, reward=value, event_id=event_id)
        return (await self.service.decisions.reward(name, asked)).outcome

    async def wait_for_rewards(self, count: int) -> None:
        """Make so many decisions of a new bandit, whose windows are open."""
        await self.create(window=10.0, default_reward=0.5)
        for _ in range(count):
            await self.decide()

    async def pass_time(self, seconds: float) -> None:
        """Set the clock and wait until all that it asks for is done."""
        self.clock.now += seconds
        for _ in range(2):
            await self.service.read(lambda batch: None)
        while self.service.windows.has_backlog:
            await self.service.read(lambda batch: None)

    async def snapshots_are_taken(self) -> None:
        """Wait until those that are due are."""
        await self.service.read(lambda batch: None)
        saver = self.service.group_commit.snapshots._saver
        if saver is not None:
            await saver

    async def restart(self) -> None:
        await self.service.stop()
        self.service = Service(SQLite(self.file), clock=self.clock)
        self.service.start()

    def contents(self) -> list[bytes]:
        return contents(self.service.state)

    def replayed(self) -> list[bytes]:
        store = SQLite(self.file, read_only=True)
        try:
            return contents(State.load(store, whole=True))
        finally:
            store.close()

    def ready(self) -> bool:
        return self.service.group_commit.ready

    @property
    def learned(self) -> int:
        return self.service.state.bandit("b").history.learned


def contents(state: State) -> list[bytes]:
    return [snapshot.state for snapshot in state.snapshots()]


@contextmanager
def refused(status: int, kind: str, detail: str = ".") -> Iterator[None]:
    with pytest.raises(Problem, match=detail) as caught:
        yield
    assert (caught.value.status, caught.value.kind) == (status, kind), caught.value.detail


Test = Callable[[Harness], Coroutine[Any, Any, None]]
PlayCore = Callable[[Test], None]


def play(file: Path, test: Test) -> None:
    """Run a test against a service; at the end the live state must be that of a full replay, to the bit."""

    async def play_and_replay() -> None:
        harness = Harness(file, Clock())
        try:
            await test(harness)
            assert harness.contents() == harness.replayed()
        finally:
            await harness.service.stop()

    run(play_and_replay())


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, HANG_SECONDS))


async def exported(service: Service, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
    """The events that an export of a bandit's log has."""
    export = await service.admin.export(name, after, limit)
    return [event async for piece in export.pieces(lambda events, _: events, 7) for event in piece]


async def latest(service: Service, name: str, limit: int) -> list[Event]:
    """The latest decisions of a bandit."""
    return [event async for page in service.admin.latest(name, limit) for event in page]
