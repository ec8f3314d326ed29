"""The API without a network, and a caller with an admin key."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from syndicated.service import Limits, create_app
from syndicated.service.bandits.messages import KeyRequest
from syndicated.service.http.app import App
from syndicated.service.http.headers import PROBLEM
from syndicated.service.http.problem_documents import PROBLEM_KINDS
from syndicated.store import SQLite, Store

ROOT = Path(__file__).parents[2]
VECTOR = {"features": {"kind": "vector", "dim": 2}}
ARMS = [{"id": "a", "x": [1, 0]}, {"id": "b", "x": [0, 1]}]
SCRIPT = "<script>alert(1)</script>"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Api:
    """The API of a service, called without a network; `service` is what answers behind it."""

    def __init__(self, app: App, client: httpx.AsyncClient) -> None:
        self.app, self.service, self.client = app, app.services.home, client

    async def key(self, *scopes: Any) -> str:
        reply = await self.service.admin.create_key("test", KeyRequest(name="+".join(scopes), scopes=list(scopes)))
        assert reply.secret is not None
        return reply.secret

    async def call(self, method: str, path: str, body: Any = None, *, key: str | None = None, **more: Any) -> Any:
        """What a request gives; a problem is checked to be a good one."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await self.client.request(method, path, headers=headers | more.pop("headers", {}), **more)
        check_reply(reply)
        return reply

    async def create(self, name: str = "b", **spec: Any) -> None:
        reply = await self.call("POST", "/v1/bandits", {"name": name, "spec": VECTOR | spec})
        assert reply.status_code == 201, reply.text

    async def decide(self, name: str = "b", **more: Any) -> dict[str, Any]:
        reply = await self.call("POST", f"/v1/bandits/{name}/decide", {"arms": ARMS} | more)
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    async def reward(self, decision: dict[str, Any], reward: float = 1.0, name: str = "b", **more: Any) -> Any:
        body = {"decision_id": decision["decision_id"], "reward": reward} | more
        return await self.call("POST", f"/v1/bandits/{name}/reward", body)

    async def lines(self, name: str = "b", query: str = "") -> list[dict[str, Any]]:
        reply = await self.call("GET", f"/v1/bandits/{name}/log{query}")
        return [json.loads(line) for line in reply.text.splitlines()]


def check_reply(reply: httpx.Response) -> None:
    assert reply.headers["x-request-id"]
    if reply.status_code >= 400:
        assert reply.headers["content-type"] == PROBLEM
        problem = reply.json()
        assert problem.keys() == {"type", "title", "status", "detail", "instance"}
        assert problem["status"] == reply.status_code
        assert problem["type"].removeprefix("/docs#problem-") in PROBLEM_KINDS
        assert problem["instance"].endswith(reply.headers["x-request-id"])
        assert "\n" not in problem["detail"]
        assert ("www-authenticate" in reply.headers) == (reply.status_code == 401)
        assert ("retry-after" in reply.headers) == (reply.status_code in (429, 503))


@asynccontextmanager
async def serving(
    journal: Path | Sequence[Store], limits: Limits | None = None, clock: Callable[[], float] = time.time
) -> AsyncIterator[Api]:
    """A service, on a file or on several journals, whose caller has an admin key."""
    app = create_app(SQLite(journal) if isinstance(journal, Path) else journal, limits, clock=clock)
    app.services.start()
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            api = Api(app, client)
            client.headers["authorization"] = f"Bearer {await api.key('admin')}"
            yield api
    finally:
        await app.services.stop()


def play(file: Path, test: Callable[[Api], Coroutine[Any, Any, None]], **more: Any) -> None:
    """Run a test against the service of a journal."""

    async def main() -> None:
        async with serving(file, **more) as api:
            await test(api)

    asyncio.run(main())


async def learn(api: Api, name: str, rounds: int, **spec: Any) -> None:
    """A bandit with a log of every kind of event."""
    rng = np.random.default_rng(5)
    await api.create(name, **spec)
    for t in range(rounds):
        if t == rounds // 4:
            await api.call("PATCH", f"/v1/bandits/{name}", {"seed": 5})
        arms = [{"id": f"arm{k}", "x": rng.normal(size=2).tolist()} for k in range(4)]
        more = {"event_id": f"{SCRIPT}{t}", "subject": f"user{t % 7}"} if t % 3 else {}
        decision = await api.decide(name, arms=arms, deferred=t % 5 == 0, **more)
        if t % 4:
            await api.reward(decision, float(rng.random()), name)
        if t % 10 == 0:
            body = {"decision_id": decision["decision_id"]}
            await api.call("POST", f"/v1/bandits/{name}/activate", body)
