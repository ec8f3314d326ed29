"""The services of several journals as one: a bandit's name decides which journal has it."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain

from syndicated.errors import InputError
from syndicated.service.bandits.messages import BanditReply
from syndicated.service.core.service import Service
from syndicated.store import place_of


class Services:
    """A service for each journal. The first, `home`, has the keys of all; most have no other."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = tuple(services)
        self.home = services[0]
        for number, service in enumerate(services, 1):
            for name in service.state.names:
                if self.of(name) is not service:
                    raise InputError(f"a bandit must be in the journal of its name; {name} is in journal {number}")

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services)

    def of(self, name: str) -> Service:
        """The service that has, or would have, the bandit of this name."""
        count = len(self._services)
        return self.home if count == 1 else self._services[place_of(name, count)]

    def start(self) -> None:
        """Begin to work, for requests of the running event loop."""
        for service in self:
            service.start()

    async def stop(self) -> None:
        """Finish what is queued, take snapshots, and end."""
        await asyncio.gather(*(service.stop() for service in self))

    @property
    def failed(self) -> bool:
        """Whether the process must be started again."""
        return any(service.group_commit.failed is not None for service in self)

    @property
    def ready(self) -> bool:
        """Whether there are bandits that can be asked: a journal that is away takes only its own with it."""
        return not self.failed and any(service.group_commit.ready for service in self)

    @property
    def store_errors(self) -> list[str]:
        """Why journals cannot be used, while they cannot."""
        return [service.group_commit.store_error for service in self if service.group_commit.store_error]

    async def bandits(self) -> list[BanditReply]:
        """The bandits of all journals."""
        return list(chain.from_iterable(await asyncio.gather(*(service.admin.bandits() for service in self))))

    async def erase(self, actor: str, subject: str) -> int:
        """Empty what all logs have about a subject. If it fails, some of them may be done; it can be repeated."""
        return sum(await asyncio.gather(*(service.admin.erase(actor, subject) for service in self)))
