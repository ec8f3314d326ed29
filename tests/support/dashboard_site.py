"""A service with a dashboard, and a visitor of its pages who has a key."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import httpx

from support.html_reader import Reader
from syndicated._security_headers import SERVICE_POLICY
from syndicated.environments import Linear
from syndicated.service import create_app
from syndicated.service.bandits.messages import (
    Arm,
    Create,
    DecideReply,
    DecideRequest,
    KeyRequest,
    RewardRequest,
    Scope,
    Spec,
)
from syndicated.service.bandits.state import hash_key
from syndicated.service.http.auth import Sessions
from syndicated.store import SQLite

HOSTILE = "<script>alert('x')</script><b style=\"color:red\" onclick='x'>&amp;"
VECTOR = {"kind": "vector", "dim": 3}
AXES = {"alpha": [0.0, 0.1, 1.0], "lam": [0.1, 1.0]}


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A service, its pages, and a visitor who has a key."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.app = create_app(SQLite(folder / "journal.db"), clock=self.clock)
        self.service = self.app.services.home
        self.client = self.visitor()
        self.secret, self.stopped = "", False

    def visitor(self, scheme: str = "http") -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=f"{scheme}://test")

    async def __aenter__(self) -> Self:
        self.service.start()
        self.secret = await self.key("the keeper", "admin")
        self.client.cookies.set("syndicated_session", self.session(self.secret))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        if not self.stopped:
            await self.stop()

    async def stop(self) -> None:
        self.stopped = True
        await self.service.stop()

    def session(self, secret: str) -> str:
        """The token that a log-in with this key would give."""
        sessions = Sessions(self.service)
        return sessions.begin(self.service.state.by_hash[hash_key(secret)])

    async def key(self, name: str, *scopes: Scope) -> str:
        key = await self.service.admin.create_key("test", KeyRequest(name=name, scopes=list(scopes)))
        assert key.secret is not None
        return key.secret

    async def create(self, name: str, **spec: Any) -> None:
        await self.service.admin.create("test", Create(name=name, spec=Spec(**({"features": VECTOR} | spec))))

    async def decide(self, name: str, **more: Any) -> DecideReply:
        arms = [Arm(id_, x=x) for id_, x in (("a", [1.0, 0, 0]), ("b", [0, 1.0, 0]), ("c", [0, 0, 1.0]))]
        return await self.service.decisions.decide(name, DecideRequest(**({"arms": arms} | more)))

    async def reward(self, name: str, decision: DecideReply, reward: float) -> None:
        await self.service.decisions.reward(name, RewardRequest(decision_id=decision.decision_id, reward=reward))

    async def play(self, name: str, rounds: int, **more: Any) -> list[DecideReply]:
        """Decisions in a world, all at once, and then the rewards of two thirds of them."""
        world = list(Linear(dim=3, arms=5).rounds(seed=1, horizon=rounds))
        asked = [
            DecideRequest(arms=[Arm(f"arm-{k}", x=x) for k, x in enumerate(r.arms.tolist())], **more) for r in world
        ]
        made: list[DecideReply] = []
        for start in range(0, rounds, 500):
            made += await asyncio.gather(
                *[self.service.decisions.decide(name, each) for each in asked[start : start + 500]]
            )
            self.clock.now += 60
            due = [(d, r) for d, r in zip(made, world, strict=False)][start : start + 500]
            paid = [(d, min(1.0, max(0.0, float(r.rewards[int(d.arm[4:])])))) for d, r in due]
            await asyncio.gather(*[self.reward(name, d, value) for k, (d, value) in enumerate(paid) if k % 3])
        return made

    async def get(self, path: str, status: int = 200) -> "Page":
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text[:500]
        return Page(answer)


class Page(Reader):
    """An answer whose tags must match, and that must keep to the content-security policy by itself."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(answer.text)
        self.check(answer)

    def check(self, answer: httpx.Response) -> None:
        assert answer.headers["content-security-policy"] == SERVICE_POLICY
        assert answer.headers["cache-control"] == "no-store"
        assert self.open == []
        assert "style" not in self.tags
        assert not [name for _, name, _ in self.attributes if name == "style" or name.startswith("on")]
        assert self.tags["script"] == len([1 for tag, name, _ in self.attributes if (tag, name) == ("script", "src")])
        assert not re.search(r"javascript:|https?://(?!test|www\.w3\.org)", self.source)
        assert self.tags["caption"] == self.tags["table"]
        ids = Counter(self.values("id"))
        assert not ids or max(ids.values()) == 1
        assert "nan" not in re.findall(r"\w+", self.text)
        assert not re.search(r"[\", ]nan[\", ]", self.source)


def tell(folder: Path, story: Callable[[Site], Awaitable[None]]) -> None:
    """Run a story in a fresh service."""

    async def whole() -> None:
        async with Site(folder) as site:
            await story(site)

    asyncio.run(whole())


async def visit(site: Site, name: str) -> Page:
    """Every page of a bandit, the pages of its decisions too; the first of them comes back."""
    page = await site.get(f"/bandits/{name}")
    live = await site.get(f"/bandits/{name}/live")
    assert live.source.strip() in page.source
    assert f"{name} · syndicated" in page.text
    links = [link for link in page.values("href") if link.startswith(f"/bandits/{name}/")]
    for link in {*links, f"/bandits/{name}?by=time", f"/bandits/{name}/arms", f"/bandits/{name}/decisions"}:
        await site.get(link)
    return page
