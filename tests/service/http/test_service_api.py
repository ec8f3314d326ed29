"""The service over HTTP: what its callers may rely on."""

import asyncio
import hashlib
import itertools
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from support.live_service import service as running

from syndicated._statefile import pack, unpack
from syndicated.cli import _parser, main, serve
from syndicated.features.binary import join_body
from syndicated.service.core.messages import KeyRequest
from syndicated.service.core.service import Service as Core
from syndicated.service.core.state import State, hash_key
from syndicated.service.http import handlers, logs, openapi, parquet
from syndicated.service.http.app import App
from syndicated.service.http.endpoints import (
    BINARY,
    BYTES,
    JSON,
    LINES,
    PROBLEM,
    PROBLEMS,
    Endpoint,
    Limits,
    Rate,
    Refusal,
)
from syndicated.service.http.metrics import Metrics
from syndicated.service.http.routes import TABLE
from syndicated.service.http.uvicorn_protocol import Bundled
from syndicated.store import SQLite

ROOT = Path(__file__).parents[3]
VECTOR = {"features": {"kind": "vector", "dim": 2}}
ARMS = [{"id": "a", "x": [1, 0]}, {"id": "b", "x": [0, 1]}]
SCRIPT = "<script>alert(1)</script>"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Service:
    """An app on a journal, and a caller of it."""

    def __init__(self, app: App, client: httpx.AsyncClient) -> None:
        self.app, self.core, self.client = app, app.service, client

    async def key(self, *scopes: Any) -> str:
        reply = await self.core.admin.create_key("test", KeyRequest(name="+".join(scopes), scopes=list(scopes)))
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
        assert problem["type"].removeprefix("/docs#problem-") in PROBLEMS
        assert problem["instance"].endswith(reply.headers["x-request-id"])
        assert "\n" not in problem["detail"]
        assert ("www-authenticate" in reply.headers) == (reply.status_code == 401)
        assert ("retry-after" in reply.headers) == (reply.status_code in (429, 503))


@asynccontextmanager
async def serving(file: Path, *, limits: Limits | None = None, **more: Any) -> AsyncIterator[Service]:
    """A service whose caller has an admin key."""
    core = Core(SQLite(file), **more)
    core.start()
    try:
        app = App(core, limits)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            service = Service(app, client)
            client.headers["authorization"] = f"Bearer {await service.key('admin')}"
            yield service
    finally:
        await core.stop()


Test = Callable[[Service], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Runs a test against a service on a journal; run again, the service has been restarted."""

    def run(test: Test, **more: Any) -> None:
        async def main() -> None:
            async with serving(tmp_path / "journal.db", **more) as service:
                await test(service)

        asyncio.run(main())

    return run


# what users expect of such a service


def test_expectation_01_decide_tells_all_about_the_decision(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(tuner={"name": "Syndicated", "horizon": 100}, space={"alpha": [0.1, 1], "lam": [1, 2]})
        reply = await service.decide()
        assert reply["arm"] in ("a", "b")
        assert 0 < reply["propensity"] <= 1
        assert reply["params"]["alpha"] in (0.1, 1)
        assert reply["params"]["lam"] in (1, 2)
        assert reply["version"] == reply["epoch"] > 0
        assert reply["decision_id"]

    play(test)


def test_expectation_02_an_event_id_gives_the_same_decision_also_after_a_restart(play: Callable[..., None]) -> None:
    seen: list[dict[str, Any]] = []

    async def test(service: Service) -> None:
        if not seen:
            await service.create()
            seen.append(await service.decide(event_id="e1"))
            assert not seen[0]["repeated"]
        again = await service.decide(event_id="e1")
        assert again == seen[0] | {"repeated": True}

    play(test)
    play(test)


def test_expectation_03_reward_is_idempotent(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        decision = await service.decide()
        assert (await service.reward(decision)).json()["outcome"] == "learned"
        again = await service.reward(decision)
        assert (again.status_code, again.json()["outcome"]) == (200, "repeated")
        assert (await service.reward(decision, 2.0)).status_code == 409
        assert (await service.reward({"decision_id": "3-0123456789abcdef"})).status_code == 404
        assert (await service.reward({"decision_id": 5})).status_code == 422
        assert (await service.call("GET", "/v1/bandits/b")).json()["rewards"] == 1

    play(test)


def test_expectation_04_late_rewards_are_logged_and_not_learned(play: Callable[..., None]) -> None:
    clock = Clock()

    async def test(service: Service) -> None:
        await service.create(window=60)
        decision = await service.decide()
        clock.now += 61
        assert (await service.reward(decision)).json()["outcome"] == "late"
        late = (await service.lines())[-1]
        assert (late["kind"], late["value"], "learn" in late) == ("late", 1.0, False)
        assert 'syndicated_late_total{bandit="b"} 1.0' in (await service.call("GET", "/metrics")).text

    play(test, clock=clock)


def test_expectation_06_several_rewards_of_a_decision(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(window=60, aggregate="sum")
        decision = await service.decide()
        for event in ("one", "two", "two"):
            reply = await service.reward(decision, event_id=event)
            assert reply.status_code == 200
        assert reply.json()["outcome"] == "repeated"
        assert [line["value"] for line in await service.lines() if line["kind"] == "reward"] == [1.0, 1.0]

    play(test)


def test_expectation_07_deferred_decisions_are_learned_if_activated(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(deferred=True)
        decision = await service.decide()
        assert (await service.reward(decision)).json()["outcome"] == "held"
        body = {"decision_id": decision["decision_id"]}
        outcomes = [(await service.call("POST", "/v1/bandits/b/activate", body)).json()["outcome"] for _ in range(2)]
        assert outcomes == ["learned", "repeated"]

    play(test)


def test_expectation_08_propensities_are_logged(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(floor=0.2)
        decision = await service.decide()
        (line,) = await service.lines()
        assert line["propensity"] == decision["propensity"]
        found = (await service.call("GET", f"/v1/bandits/b/decisions/{decision['decision_id']}")).json()
        assert found["decision"] == line

    play(test)


async def _learn(service: Service, name: str, rounds: int, **spec: Any) -> None:
    """A bandit with a log of every kind of event."""
    rng = np.random.default_rng(5)
    await service.create(name, **spec)
    for t in range(rounds):
        if t == rounds // 4:
            await service.call("PATCH", f"/v1/bandits/{name}", {"seed": 5})
        arms = [{"id": f"arm{k}", "x": rng.normal(size=2).tolist()} for k in range(4)]
        more = {"event_id": f"{SCRIPT}{t}", "subject": f"user{t % 7}"} if t % 3 else {}
        decision = await service.decide(name, arms=arms, deferred=t % 5 == 0, **more)
        if t % 4:
            await service.reward(decision, float(rng.random()), name)
        if t % 10 == 0:
            body = {"decision_id": decision["decision_id"]}
            await service.call("POST", f"/v1/bandits/{name}/activate", body)


def _agent(data: bytes) -> tuple[Any, dict[str, bytes]]:
    """A model without the name of its agent."""
    head, arrays = unpack(data)
    return json.dumps({k: v for k, v in head.items() if k != "id"}), {
        name: array.tobytes() for name, array in arrays.items()
    }


SPECS: list[dict[str, Any]] = [
    {},
    {"log": "all", "holdout": 0.2, "floor": 0.1},
    {"tuner": {"name": "Syndicated", "horizon": 100}, "space": {"alpha": [0.1, 1], "lam": [1, 2]}},
    {"tuner": {"name": "Corral", "horizon": 100}, "space": {"alpha": [0.1, 1]}},
    {"policy": {"name": "SGDTS"}},
    {"tuner": {"name": "OP"}},
]


@pytest.mark.parametrize("spec", SPECS)
def test_expectation_09_the_log_exports_and_imports_to_the_same_model(play: Callable[..., None], spec: Any) -> None:
    async def test(service: Service) -> None:
        await _learn(service, "old", 40, **spec)
        log = (await service.call("GET", "/v1/bandits/old/log")).content
        await service.create("new", **spec, seed=5)
        reply = await service.call("POST", "/v1/bandits/new/log", log)
        assert reply.json() == {"imported": len(log.splitlines()), "left_out": 0}
        old, new = [(await service.call("GET", f"/v1/bandits/{b}/models/current")).content for b in ("old", "new")]
        assert _agent(old) == _agent(new)
        for kept, line in zip(await service.lines("old"), await service.lines("new"), strict=True):
            assert {k: v for k, v in line.items() if k not in ("seq", "ref", "bandit", "epoch", "version")} == {
                k: v for k, v in kept.items() if k not in ("seq", "ref", "bandit", "epoch", "version")
            }
        again = await service.call("POST", "/v1/bandits/new/log", log)
        assert (again.status_code, again.json()["type"]) == (409, "/docs#problem-not-empty")
        live = [snapshot.state for snapshot in service.core.state.snapshots(every=True)]
        assert live == [s.state for s in State.load(service.core.group_commit.store, whole=True).snapshots(every=True)]

    play(test)


def test_a_log_of_another_space_is_refused(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await _learn(service, "old", 12, policy={"name": "SGDTS", "tau": 5}, space={"boldness": [0.5, 1.0]})
        log = (await service.call("GET", "/v1/bandits/old/log")).content
        await service.create("new", policy={"name": "SGDTS", "tau": 5}, space={"boldness": [0.25, 0.75]})
        reply = await service.call("POST", "/v1/bandits/new/log", log)
        assert (reply.status_code, "choice must be one that the tuner can make" in reply.json()["detail"]) == (
            422,
            True,
        )
        assert (await service.decide("new"))["arm"] in ("a", "b")

    play(test)


CHOICE = {"params": {"boldness": 1.0}, "index": [0], "probability": [0.5], "odds": [0.5, 0.3, 0.2], "allies": [0]}
BAD_LINES: list[dict[str, Any]] = [
    {"x": [1.0]},
    {"x": None},
    {"x": [1e60, 0]},
    {"place": 7},
    {"by": "nobody"},
    {"propensity": 2},
    {"at": 1e12},
    {"params": {"alpha": "1"}},
    {"params": {}},
    {"params": {"alpha": 1.0}},
    {"params": {"alpha": 1.0, "lam": 1.0, "intercept": 1.0, "memory": 1.0, "eta0": 1.0}},
    {"choice": None},
    {"choice": CHOICE | {"params": {}}},
    {"choice": CHOICE | {"params": {"alpha": 1.0}}},
    {"choice": CHOICE | {"params": {"boldness": -1.0}}},
    {"choice": CHOICE | {"index": [99]}},
    {"choice": CHOICE | {"probability": [0]}},
    {"choice": CHOICE | {"probability": [None]}},
    {"choice": CHOICE | {"odds": [0.5], "allies": [0]}},
    {"choice": CHOICE | {"odds": [0.5, 0.3, 2]}},
    {"choice": CHOICE | {"allies": [99]}},
    {"choice": CHOICE | {"slot": -1}},
    {"seq": "x"},
    {"key": ""},
]


@pytest.mark.parametrize("change", BAD_LINES)
def test_a_log_that_does_not_fit_is_refused_as_a_whole(play: Callable[..., None], change: dict[str, Any]) -> None:
    async def test(service: Service) -> None:
        await service.create("old")
        for _ in range(2):
            await service.reward(await service.decide("old"), name="old")
        lines = await service.lines("old")
        good = lines[2]
        lines[2] = good | change
        await service.create("new")
        log = b"\n".join(json.dumps(line).encode() for line in lines)
        reply = await service.call("POST", "/v1/bandits/new/log", log)
        assert (reply.status_code, "line 3" in reply.json()["detail"]) == (422, True), reply.text
        assert await service.lines("new") == []
        lines[2] = good | {"choice": CHOICE}
        log = b"\n".join(json.dumps(line).encode() for line in lines)
        assert (await service.call("POST", "/v1/bandits/new/log", log)).status_code == 200
        assert (await service.decide("new"))["arm"]

    play(test)


def test_a_log_learns_a_decision_once_and_has_a_key_once_and_is_in_order(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create("old")
        await service.reward(await service.decide("old", event_id="e"), name="old")
        decide, reward = await service.lines("old")
        await service.create("new")
        for lines in (
            [decide, reward, reward | {"seq": 99}],
            [decide, decide | {"seq": 99}],
            [reward, decide],
            [decide, reward | {"kind": "late"}],
            [decide, reward | {"value": None}],
        ):
            log = b"\n".join(json.dumps(line).encode() for line in lines)
            assert (await service.call("POST", "/v1/bandits/new/log", log)).status_code == 422
        reply = await service.call("POST", "/v1/bandits/new/log", json.dumps(reward).encode())
        assert reply.json() == {"imported": 0, "left_out": 1}

    play(test)


def test_the_log_comes_in_parts_and_in_chunks(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "CHUNK", 3)

    async def test(service: Service) -> None:
        await service.create()
        for _ in range(10):
            await service.decide()
        every = await service.lines()
        assert len(every) == 10
        assert await service.lines(query="?limit=7") == every[:7]
        assert await service.lines(query=f"?after={every[3]['seq']}&limit=2") == every[4:6]
        for query in ("?limit=0", "?after=-1", "?format=xml", "?limit=x", "?other=1"):
            assert (await service.call("GET", f"/v1/bandits/b/log{query}")).status_code == 422

    play(test)


def test_parquet_has_what_the_lines_have_or_says_what_is_missing(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "CHUNK", 7)

    async def test(service: Service) -> None:
        await _learn(service, "b", 20, log="all")
        reply = await service.call("GET", "/v1/bandits/b/log?format=parquet")
        try:
            arrow = parquet.find()
        except Exception:
            assert (reply.status_code, reply.json()["type"]) == (501, "/docs#problem-not-installed")
            return
        table = arrow.parquet.read_table(arrow.BufferReader(reply.content)).to_pylist()
        for row, line in zip(table, await service.lines(), strict=True):
            for name in parquet.JSON:
                row[name] = None if row[name] is None else json.loads(row[name])
            kept = {name: value for name, value in row.items() if value is not None}
            assert {name: kept.get(name, line[name]) for name in line} == line
            assert kept.keys() - line.keys() <= {"round", "params", "top", *parquet.FLAGS}

    play(test)


def test_expectation_10_the_state_is_what_the_log_makes_of_it(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await _learn(service, "b", 40)
        live = [snapshot.state for snapshot in service.core.state.snapshots(every=True)]
        assert live == [s.state for s in State.load(service.core.group_commit.store, whole=True).snapshots(every=True)]

    play(test)


def test_expectation_11_models_are_kept_exported_imported_and_rolled_back(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        await service.reward(await service.decide())
        kept = (await service.call("POST", "/v1/bandits/b/models")).json()
        first = (await service.call("GET", "/v1/bandits/b/models/current")).content
        await service.reward(await service.decide())
        assert (await service.call("GET", "/v1/bandits/b/models/current")).content != first
        version = kept["version"]
        assert version in [model["version"] for model in (await service.call("GET", "/v1/bandits/b/models")).json()]
        assert (await service.call("GET", f"/v1/bandits/b/models/{version}")).content == first
        assert (await service.call("POST", f"/v1/bandits/b/models/{version}/restore")).status_code == 200
        assert (await service.call("GET", "/v1/bandits/b/models/current")).content == first
        await service.create("other")
        assert (await service.call("PUT", "/v1/bandits/other/models/current", first)).status_code == 200
        assert (await service.call("GET", "/v1/bandits/other/models/current")).content == first
        assert (await service.call("PUT", "/v1/bandits/other/models/current", first[:-1])).status_code == 422
        assert (await service.call("GET", "/v1/bandits/b/models/999999")).status_code == 404

    play(test)


def test_expectation_12_bandits_are_apart(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create("one")
        await service.create("two")
        decision = await service.decide("one")
        assert (await service.reward(decision, name="two")).status_code == 404
        path = f"/v1/bandits/two/decisions/{decision['decision_id']}"
        assert (await service.call("GET", path)).status_code == 404
        found = (await service.call("GET", "/v1/bandits")).json()
        assert [(b["name"], b["decisions"]) for b in found] == [("one", 1), ("two", 0)]
        assert (await service.call("POST", "/v1/bandits", {"name": "one", "spec": VECTOR})).status_code == 409

    play(test)


def test_expectation_13_arms_come_and_go(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        arms = [{"id": "x/y ü", "x": [1, 0]}, *ARMS]
        assert (await service.call("PUT", "/v1/bandits/b/arms", {"arms": arms})).json() == {"arms": 3}
        decision = (await service.call("POST", "/v1/bandits/b/decide", {"arms": ["x/y ü"]})).json()
        assert (await service.call("DELETE", "/v1/bandits/b/arms/x/y%20%C3%BC")).status_code == 204
        assert [arm["id"] for arm in (await service.call("GET", "/v1/bandits/b/arms")).json()] == ["a", "b"]
        assert (await service.call("DELETE", "/v1/bandits/b/arms/x/y%20%C3%BC")).status_code == 404
        assert (await service.call("POST", "/v1/bandits/b/decide", {"arms": ["x/y ü"]})).status_code == 422
        assert (await service.reward(decision)).json()["outcome"] == "learned"

    play(test)


def test_expectation_14_the_kill_switch(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        changes = {"mode": "off", "fallback": "arm", "fallback_arm": "b"}
        assert (await service.call("PATCH", "/v1/bandits/b", changes)).json()["spec"]["mode"] == "off"
        decision = await service.decide()
        assert (decision["arm"], decision["by"], decision["propensity"]) == ("b", "fallback", 1.0)
        assert (await service.lines())[0]["by"] == "fallback"
        assert (await service.call("PATCH", "/v1/bandits/b", {"mode": "asleep"})).status_code == 422
        assert (await service.call("PATCH", "/v1/bandits/b", {"mod": "off"})).status_code == 422
        assert (await service.call("PATCH", "/v1/bandits/b", [])).status_code == 422

    play(test)


def test_expectation_15_an_apprentice_learns_from_what_was_played(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(mode="apprentice")
        decision = await service.decide(played="b")
        assert (decision["arm"], decision["by"]) == ("b", "caller")
        assert (await service.reward(decision)).json()["outcome"] == "learned"
        assert (await service.call("POST", "/v1/bandits/b/decide", {"arms": ARMS})).status_code == 422

    play(test)


def test_expectation_16_a_share_is_held_out(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create(holdout=0.5)
        first = [(await service.decide(subject=f"user{k}"))["by"] for k in range(20)]
        again = [(await service.decide(subject=f"user{k}"))["by"] for k in range(20)]
        assert {"holdout"} < set(first)
        assert [by == "holdout" for by in first] == [by == "holdout" for by in again]

    play(test)


def test_expectation_17_keys_are_shown_once_hashed_scoped_and_revoked(
    play: Callable[..., None], tmp_path: Path
) -> None:
    async def test(service: Service) -> None:
        made = (await service.call("POST", "/v1/keys", {"name": SCRIPT, "scopes": ["read"]})).json()
        assert made["name"] == SCRIPT
        listed = (await service.call("GET", "/v1/keys")).text
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert made["id"] in listed
        assert made["secret"] not in listed
        assert made["secret"].encode() not in stored
        assert (await service.call("GET", "/v1/bandits", key=made["secret"])).status_code == 200
        assert (await service.call("DELETE", f"/v1/keys/{made['id']}")).json()["revoked"]
        assert (await service.call("GET", "/v1/bandits", key=made["secret"])).status_code == 401
        assert (await service.call("DELETE", "/v1/keys/nobody")).status_code == 404
        assert (await service.call("POST", "/v1/keys", {"name": "x", "scopes": ["root"]})).status_code == 422

    play(test)


def _filled(endpoint: Endpoint) -> str:
    return re.sub(r"{(\w+)(?::(\w+))?}", lambda place: "1" if place[2] == "int" else "b", endpoint.path)


def test_the_matrix_of_scopes_and_routes(play: Callable[..., None]) -> None:
    """No key, a revoked one, and a wrong scope never get in; the right scope and admin do, whatever comes of it."""

    async def test(service: Service) -> None:
        await service.create()
        del service.client.headers["authorization"]
        keys = {scope: await service.key(scope) for scope in ("decide", "reward", "read", "admin")}
        revoked = await service.key("admin")
        await service.core.admin.revoke_key("", service.core.state.by_hash[hash_key(revoked)].id)
        for endpoint in TABLE:
            body = {"content": b"nonsense"} if endpoint.method in ("POST", "PUT", "PATCH") else {}
            for name, key in {"none": None, "revoked": revoked, "wrong": "syn_" + "x" * 43, **keys}.items():
                status = (await service.call(endpoint.method, _filled(endpoint), key=key, **body)).status_code
                case = f"{endpoint.method} {endpoint.path} with {name}: {status}"
                if endpoint.scope is None:
                    assert status == 200, case
                elif name in ("none", "revoked", "wrong"):
                    assert status == 401, case
                elif name not in (endpoint.scope, "admin"):
                    assert status == 403, case
                else:
                    assert status in (200, 201, 204, 404, 422), case

    play(test)


def test_the_cookie_of_the_pages_can_only_read(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        key = await service.key("admin")
        del service.client.headers["authorization"]
        headers = {"cookie": f"syndicated_key={key}"}
        assert (await service.call("GET", "/v1/bandits", headers=headers)).status_code == 200
        assert (await service.call("POST", "/v1/bandits/b/decide", {}, headers=headers)).status_code == 401
        assert (await service.call("DELETE", "/v1/bandits/b", headers=headers)).status_code == 401

    play(test)


def test_expectation_18_bodies_are_limited(play: Callable[..., None]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 50

    async def test(service: Service) -> None:
        for path in ("/v1/bandits/b/decide", "/v1/bandits", "/v1/bandits/b/log"):
            assert (await service.call("POST", path, b" " * 101)).status_code == 413
            assert (await service.call("POST", path, content=chunks())).status_code == 413
        assert (await service.call("POST", "/v1/bandits", b" " * 100)).status_code == 422

    play(test, limits=Limits(body=100))


def test_expectation_18_rates_are_limited(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        codes = [(await service.call("GET", "/v1/bandits")).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        page = await service.client.get("/")
        assert (page.status_code, page.headers["retry-after"]) == (429, "1")
        assert "key may send 2 requests a second" in page.text
        other = await service.key("decide")
        assert (await service.call("POST", "/v1/bandits/b/decide", {}, key=other)).status_code == 404
        assert (await service.call("GET", "/healthz")).status_code == 200

    play(test, limits=Limits(rate=2.0))


def test_a_bucket_fills_again() -> None:
    clock = Clock()
    rate = Rate(0.5, clock)
    rate.take("key")
    with pytest.raises(Refusal) as refused:
        rate.take("key")
    assert refused.value.headers == {"retry-after": "2"}
    clock.now += 2
    rate.take("key")


def test_expectation_18_a_full_queue_is_refused(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        service.core.group_commit.limit = 0
        reply = await service.call("POST", "/v1/bandits/b/decide", {})
        assert (reply.status_code, reply.json()["type"]) == (503, "/docs#problem-overload")

    play(test)


BAD_BODIES = {
    "no JSON": b"{",
    "not UTF-8": b'{"decision_id": "\xff", "reward": 1}',
    "NaN": b'{"decision_id": "x", "reward": NaN}',
    "infinite": b'{"decision_id": "x", "reward": 1e999}',
    "unknown field": b'{"decision_id": "x", "reward": 1, "rewards": 2}',
    "empty": b"",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "NUL": b'{"decision_id": "a\\u0000", "reward": 1}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_expectation_19_bad_bodies_are_problems(play: Callable[..., None], body: bytes) -> None:
    async def test(service: Service) -> None:
        await service.create()
        assert (await service.call("POST", "/v1/bandits/b/reward", body)).status_code == 422

    play(test)


BAD_CONTEXTS: list[dict[str, Any]] = [
    {"context": {"n": 10**30}},
    {"context": {"n": {"deep": {"deeper": 1}}}},
    {"arms": [{"id": "a", "features": {"n": 10**400}}]},
    {"arms": [{"id": "a", "features": None}]},
    {"arms": []},
    {"arms": ["unknown"]},
    {"arms": [{"id": "a", "features": {}}, {"id": "a", "features": {}}]},
    {"shape": [1, 2]},
]


@pytest.mark.parametrize("body", BAD_CONTEXTS)
def test_expectation_19_bad_features_are_problems(play: Callable[..., None], body: dict[str, Any]) -> None:
    async def test(service: Service) -> None:
        await service.create(features={"kind": "hashed", "dim": 8}, log="all")
        whole = {"arms": [{"id": "a", "features": {"n": 1}}]} | body
        reply = await service.call("POST", "/v1/bandits/b/decide", whole)
        assert reply.status_code == 422, reply.text
        assert (await service.lines()) == []

    play(test)


def test_expectation_19_the_path_of_a_fault_is_told(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        body = {"arms": [{"id": "a", "x": [1, "2"]}]}
        reply = await service.call("POST", "/v1/bandits/b/decide", body)
        assert "$.arms[0]" in reply.json()["detail"]

    play(test)


MISTAKES = [
    (
        "POST",
        "/v1/bandits",
        {"name": "b\n", "spec": VECTOR},
        "Expected letters, digits and . _ -, at most 64 - at `$.name`",
    ),
    ("POST", "/v1/bandits", {"name": "c", "spec": VECTOR | {"mode": "on"}}, "one of apprentice, live, off"),
    ("PATCH", "/v1/bandits/b", {"log": "none"}, "`$.log`; it must be one of all, chosen"),
    (
        "POST",
        "/v1/keys",
        {"name": "k", "scopes": ["write"]},
        "`$.scopes[0]`; it must be one of admin, decide, read, reward",
    ),
    ("GET", "/v1/bandits/b/log?format=csv", None, "one of jsonl, parquet"),
    ("POST", "/v1/keys", {"name": "k", "scopes": 1}, "Expected `array`, got `int` - at `$.scopes`"),
]


@pytest.mark.parametrize(("method", "path", "body", "said"), MISTAKES)
def test_expectation_19_what_would_be_right_is_told(
    play: Callable[..., None], method: str, path: str, body: Any, said: str
) -> None:
    async def test(service: Service) -> None:
        await service.create()
        reply = await service.call(method, path, body)
        assert (reply.status_code, said in reply.json()["detail"]) == (422, True), reply.text

    play(test)


def test_a_model_that_is_none_is_refused_and_the_bandit_goes_on(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        await service.reward(await service.decide())
        state = (await service.call("GET", "/v1/bandits/b/models/current")).content
        head, arrays = unpack(state)
        junk = b"junk" * 100
        for bad in (
            junk,
            junk + hashlib.sha256(junk).digest(),
            pack({**head, "round": "x"}, arrays),
            pack(head, {**arrays, "policy0/model.G": np.zeros((1, 1, 1))}),
        ):
            reply = await service.call("PUT", "/v1/bandits/b/models/current", bad)
            assert (reply.status_code, "state must" in reply.json()["detail"]) == (422, True), reply.text
        assert (await service.call("GET", "/v1/bandits/b/models/current")).content == state
        await service.reward(await service.decide())

    play(test)


def test_expectation_19_paths_and_methods_that_are_not_there(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        for path in ("/nothing", "/v1/", "/v1/bandits/", "/v1/bandits/b/nothing"):
            assert (await service.call("GET", path)).status_code == 404
        assert (await service.call("POST", "/v1/bandits//decide", {})).status_code == 404
        reply = await service.call("GET", "/v1/bandits/b/decide")
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
        reply = await service.call("PUT", "/v1/bandits")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, POST")

    play(test)


def test_expectation_19_a_fault_inside_tells_nothing(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("the secret of the house")

    async def test(service: Service) -> None:
        monkeypatch.setattr(service.core.decisions, "decide", fail)
        monkeypatch.setattr(service.core.admin, "update", fail)
        for method, path in (("POST", "/v1/bandits/b/decide"), ("PATCH", "/v1/bandits/b")):
            reply = await service.call(method, path, {})
            assert reply.status_code == 500
            assert "secret" not in reply.text
        assert [record.getMessage() for record in caplog.records if record.exc_info] == ["a request failed"] * 2

    play(test)


def test_every_kind_of_problem_is_explained() -> None:
    source = "".join(file.read_text() for file in (ROOT / "syndicated" / "service").rglob("*.py"))
    assert set(re.findall(r'(?:Problem|Refusal)\(\s*[\w.]+, "([a-z-]+)"', source)) == PROBLEMS.keys()


def test_expectation_20_openapi_is_of_the_route_table(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        del service.client.headers["authorization"]
        document = (await service.call("GET", "/openapi.json")).json()
        assert document["openapi"] == "3.1.0"
        found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
        assert found == {(e.method, re.sub(r":\w+}", "}", e.path)) for e in TABLE}
        ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
        assert len(set(ids)) == len(ids) == len(TABLE)
        changes = document["components"]["schemas"]["SpecChanges"]
        assert changes["required"] == []
        assert changes["properties"].keys() == document["components"]["schemas"]["Spec"]["properties"].keys()
        names = re.findall(r"#/components/schemas/(\w+)", json.dumps(document))
        assert set(names) <= document["components"]["schemas"].keys()

    play(test)


def test_expectation_20_the_docs_page_is_plain_and_safe(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        del service.client.headers["authorization"]
        reply = await service.call("GET", "/docs")
        assert reply.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "<script" not in reply.text
        assert "style=" not in reply.text
        for endpoint in TABLE:
            assert re.sub(r":\w+}", "}", endpoint.path) in reply.text
        for kind in PROBLEMS:
            assert f'id="problem-{kind}"' in reply.text
        for name in re.findall(r'href="#([^"]+)"', reply.text):
            assert f'id="{name}"' in reply.text
        style = await service.call("GET", "/docs.css")
        assert style.headers["content-type"].startswith("text/css")

    play(test)


def test_expectation_21_health_readiness_and_metrics(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(service: Service) -> None:
        await service.create()
        await service.reward(await service.decide(), 0.5)
        text = (await service.call("GET", "/metrics")).text
        for line in (
            'syndicated_requests_total{route="/v1/bandits/{name}/decide",status="200"} 1.0',
            'syndicated_request_seconds_count{route="/v1/bandits/{name}/reward"} 1.0',
            'syndicated_reward_mean{bandit="b"} 0.5',
            "syndicated_folded_sequence 4.0",
            "syndicated_store_away 0.0",
        ):
            assert line in text.splitlines()
        assert (await service.call("GET", "/healthz")).json() == {"status": "ok"}
        assert (await service.call("GET", "/readyz")).status_code == 200
        service.core.group_commit.store_error = "the disk is full"
        reply = await service.call("GET", "/readyz")
        assert (reply.status_code, reply.json()["detail"]) == (503, "the journal is away")
        assert [record.__dict__["fields"] for record in caplog.records] == [{"reason": "the disk is full"}]
        assert (await service.call("GET", "/healthz")).status_code == 200
        assert "syndicated_store_away 1.0" in (await service.call("GET", "/metrics")).text
        service.core.group_commit.store_error = ""
        service.core.group_commit.failed = ZeroDivisionError()
        assert (await service.call("GET", "/healthz")).status_code == 503
        service.core.group_commit.failed = None

    play(test)


def test_every_metric_is_in_the_documentation(play: Callable[..., None]) -> None:
    page = (ROOT / "docs" / "service.md").read_text()

    async def test(service: Service) -> None:
        await service.create()
        text = (await service.call("GET", "/metrics")).text
        names = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
        assert names
        assert [name for name in names if f"`{name}`" not in page] == []

    play(test)


def test_every_field_of_a_spec_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    fields = openapi.describe(TABLE)["components"]["schemas"]["Spec"]["properties"]
    assert [name for name in fields if f"| `{name}` |" not in page] == []


def test_expectation_24_a_subject_is_erased_and_admins_are_watched(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        decision = await service.decide(subject="me/you")
        assert (await service.call("DELETE", "/v1/subjects/me/you")).json() == {"erased": 1}
        assert "me/you" not in (await service.call("GET", "/v1/bandits/b/log")).text
        assert (await service.reward(decision)).status_code == 404
        audit = (await service.call("GET", "/v1/audit?limit=2")).json()
        assert [(line["kind"], line["about"].get("name")) for line in audit] == [("erase", None), ("create", "b")]
        keys = (await service.call("GET", "/v1/keys")).json()
        assert {line["actor"] for line in audit} == {keys[0]["id"]}
        assert "hash" not in (await service.call("GET", "/v1/audit")).text
        assert (await service.call("DELETE", "/v1/subjects/%00")).status_code == 422

    play(test)


def test_retired_bandits_take_rewards_and_decide_no_more(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        decision = await service.decide()
        assert (await service.call("DELETE", "/v1/bandits/b")).status_code == 204
        assert (await service.call("POST", "/v1/bandits/b/decide", {"arms": ARMS})).status_code == 409
        assert (await service.reward(decision)).status_code == 200

    play(test)


def test_a_binary_body_decides_as_json_does(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        body = join_body({"arms": ["a", "b"], "event_id": "e"}, np.eye(2))
        headers = {"content-type": "application/x-syndicated"}
        reply = (await service.call("POST", "/v1/bandits/b/decide", body, headers=headers)).json()
        assert reply == (await service.decide(event_id="e")) | {"repeated": False}
        for bad in (body[:-1], body[:3], b"", b"\xff" * 8):
            assert (await service.call("POST", "/v1/bandits/b/decide", bad, headers=headers)).status_code == 422

    play(test)


def test_script_text_in_names_is_data(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        assert (await service.call("POST", "/v1/bandits", {"name": SCRIPT, "spec": VECTOR})).status_code == 422
        await service.create()
        arms = [{"id": SCRIPT, "x": [1, 0]}]
        decision = await service.decide(arms=arms, subject=SCRIPT, event_id=SCRIPT)
        assert decision["arm"] == SCRIPT
        reply = await service.call("GET", "/v1/bandits/b/decisions?limit=1")
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-content-type-options"] == "nosniff"
        (found,) = reply.json()
        assert (found["decision"]["arm"], found["decision"]["subject"], found["decision"]["key"]) == (SCRIPT,) * 3
        missing = await service.call("GET", f"/v1/bandits/{SCRIPT.replace('/', '')}")
        assert missing.status_code == 404

    play(test)


def test_ids_of_decisions_cannot_be_guessed(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        number, _, mac = (await service.decide())["decision_id"].partition("-")
        for guess in (
            number,
            f"{number}-",
            f"{number}-{'0' * len(mac)}",
            f"{int(number, 16) + 1:x}-{mac}",
            f"-{mac}",
            "ü",
        ):
            assert (await service.call("GET", f"/v1/bandits/b/decisions/{guess}")).status_code == 404
            assert (await service.reward({"decision_id": guess})).status_code == 404

    play(test)


def test_requests_have_one_id_in_and_out(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        for path in ("/healthz", "/nothing"):
            reply = await service.call("GET", path, headers={"x-request-id": "my-id.1"})
            assert reply.headers.get_list("x-request-id") == ["my-id.1"]
            reply = await service.call("GET", path, headers={"x-request-id": SCRIPT})
            assert reply.headers["x-request-id"] != SCRIPT

    play(test)


def test_logs_are_lines_without_keys_bodies_and_subjects(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test(service: Service) -> None:
        await service.create()
        await service.decide(subject="somebody")
        await service.call("DELETE", "/v1/subjects/somebody")
        key = await service.key("read")
        await service.call("GET", f"/v1/{key}?key={key}")
        lines = [json.loads(logs.Lines().format(record)) for record in caplog.records if hasattr(record, "fields")]
        assert [(line["method"], line["path"], line["status"]) for line in lines] == [
            ("POST", "/v1/bandits", 201),
            ("POST", "/v1/bandits/b/decide", 200),
            ("DELETE", "/v1/subjects/...", 200),
            ("GET", "/v1/syn_...", 404),
        ]
        assert all(line.keys() >= {"time", "level", "message", "request", "ms"} for line in lines)
        text = "".join(logs.Lines().format(r) for r in caplog.records if r.name.startswith("syndicated"))
        assert key not in text
        assert "somebody" not in text

    play(test)


def test_a_caller_who_goes_changes_nothing(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        await service.create()
        key = service.client.headers["authorization"].encode()
        messages = [{"type": "http.request", "body": b'{"arms":', "more_body": True}, {"type": "http.disconnect"}]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/v1/bandits/b/decide", "query_string": b""}
        await service.app({**scope, "headers": [(b"authorization", key)]}, receive, send)
        assert sent[0]["status"] == 400
        assert await service.lines() == []

    play(test)


@pytest.mark.filterwarnings("ignore")
def test_schemathesis_finds_no_fault_inside(tmp_path: Path) -> None:
    """Requests made from the OpenAPI document, good and bad ones; every reply is as the document says."""
    schemathesis.checks.load_all_checks()
    names = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in names]
    document = openapi.describe(TABLE)
    for operation in [operation for path in document["paths"].values() for operation in path.values()]:
        for parameter in operation["parameters"]:
            if parameter["name"] == "name":
                parameter["schema"] = {"enum": ["b", "other"]}
        content = operation.get("requestBody", {"content": {}})["content"]
        for kind in content.keys() & {LINES, BINARY}:
            content[BYTES] = content.pop(kind)
    schema: Any = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    operations.sort(key=lambda operation: operation.method == "delete")
    assert len(operations) == len(TABLE)
    few = settings(
        max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    statuses: set[int] = set()
    with asyncio.Runner() as runner, ExitStack() as stack:
        context = serving(tmp_path / "journal.db")
        service = runner.run(context.__aenter__())
        stack.callback(lambda: runner.run(context.__aexit__(None, None, None)))
        runner.run(service.create())

        def check(case: Any) -> None:
            reply = runner.run(_send(service, case))
            if reply is not None:
                statuses.add(reply.status_code)
                check_reply(reply)
                if case.media_type != BYTES:
                    case.validate_response(reply, checks=checks)

        for each in operations:
            for mode in schemathesis.GenerationMode:
                with suppress(Unsatisfiable):
                    made: Any = given(each.as_strategy(generation_mode=mode))
                    few(made(check))()
    assert {200, 201, 204, 404, 422} <= statuses
    assert [status for status in statuses if status >= 500 and status != 501] == []


async def _send(service: Service, case: Any) -> httpx.Response | None:
    """Send a generated request; None if HTTP cannot carry it."""
    sent = case.as_transport_kwargs(base_url="http://test")
    content = json.dumps(sent["json"]) if "json" in sent else sent.get("data")
    if not isinstance(content, bytes | str | None):
        content = json.dumps(content, default=str)
    headers = {"content-type": BINARY if case.media_type == BYTES else JSON}
    try:
        request = service.client.build_request(
            case.method, case.formatted_path, params=sent.get("params"), content=content, headers=headers
        )
    except (ValueError, TypeError, httpx.InvalidURL):
        return None
    return await service.client.send(request)


# the command


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts `syndicated serve` on a free port of this machine; it is killed at the end if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def start(*flags: str, **variables: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "syndicated", "serve", *flags],
            env=os.environ | {"SYNDICATED_STORE": str(tmp_path / "journal.db"), "SYNDICATED_PORT": "0"} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _announced(process: "subprocess.Popen[str]", lines: int) -> dict[str, str]:
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(lines)]
    assert all(printed), process.stderr.read() if process.stderr else ""
    return {line[:11].strip(): line[11:].strip() for line in printed}


def test_expectation_22_the_command_serves_drains_and_goes_on(command: Any, tmp_path: Path) -> None:
    process = command()
    told = _announced(process, 5)
    key = told["admin key"].split()[0]
    base = told["API"].removesuffix("/v1")
    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=20) as client:
        assert client.post("/v1/bandits", json={"name": "b", "spec": VECTOR}).status_code == 201
        decision = client.post("/v1/bandits/b/decide", json={"arms": ARMS, "event_id": "e"}).json()
        assert client.get("/readyz").status_code == 200
        second = command()
        _, error = second.communicate(timeout=60)
        assert second.returncode == 2
        assert re.fullmatch(r"syndicated: the journal .* must have one owner; it is in use by process \d+\n", error)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0
    assert key not in error
    assert [json.loads(line)["level"] for line in error.splitlines()]
    store = SQLite(tmp_path / "journal.db", read_only=True)
    assert store.snapshots()
    store.close()
    process = command("--log-level", "error", SYNDICATED_ADMIN_KEY="a-key-of-my-own-with-32-letters!")
    base = _announced(process, 4)["API"].removesuffix("/v1")
    for known in (key, "a-key-of-my-own-with-32-letters!"):
        headers = {"authorization": f"Bearer {known}"}
        again = httpx.post(f"{base}/v1/bandits/b/decide", json={"arms": ARMS, "event_id": "e"}, headers=headers)
        assert again.json() == decision | {"repeated": True}
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")


def test_another_admin_key_of_the_environment_takes_the_place_of_the_one_before(play: Callable[..., None]) -> None:
    async def test(service: Service) -> None:
        mine = await service.key("admin")
        for value in ("first", "second", "second", "first"):
            assert await serve.first_key(service.core, value) is None
            for known in ("first", "second"):
                reply = await service.call("GET", "/v1/keys", key=known)
                assert reply.status_code == (200 if known == value else 401)
        assert (await service.call("GET", "/v1/keys", key=mine)).is_success
        keys = (await service.call("GET", "/v1/keys", key="first")).json()
        assert [key.get("revoked", False) for key in keys if key["name"] == serve.ADMIN_KEY] == [True, True, False]

    play(test)


def _answer(port: int, parts: Iterable[bytes]) -> bytes:
    """The first bytes of an answer to what is sent until there is one."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
        with suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                caller.sendall(part)
        return caller.recv(12)


def _calling(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)


def test_headers_are_limited(tmp_path: Path) -> None:
    start, line = b"GET /healthz HTTP/1.1\r\nhost: x\r\n", b"name: " + b"x" * 1000 + b"\r\n"
    with running(tmp_path / "journal.db") as server:
        port = int(server.url.rpartition(":")[2])
        assert _answer(port, [start, line * 60, b"\r\n"]) == b"HTTP/1.1 200"
        assert _answer(port, [start, line * 70, b"\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [start + line * 70 + b"\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"]) == b"HTTP/1.1 431"
        assert _answer(port, [b"no HTTP\r\n\r\n"]) == b"HTTP/1.1 400"
        headers = {"authorization": f"Bearer {server.key}"}
        large = {"name": "b", "spec": VECTOR | {"policy": {"name": "x" * 200_000}}}
        with httpx.Client(base_url=server.url, headers=headers) as client:
            assert [client.post("/v1/bandits", json=large).status_code for _ in range(2)] == [422, 422]


def test_replies_with_and_without_a_body_come_one_after_another(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server, _calling(server) as caller:
        seen = caller.makefile("rb")
        for method in ("HEAD", "GET", "HEAD"):
            caller.sendall(f"{method} /healthz HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            status, *headers = iter(seen.readline, b"\r\n")
            assert status == b"HTTP/1.1 200 OK\r\n"
            length = next(int(line.split()[1]) for line in headers if line.startswith(b"content-length"))
            seen.read(length if method == "GET" else 0)
        patient = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 2\r\n"
        caller.sendall(patient + f"authorization: Bearer {server.key}\r\nconnection: close\r\n\r\n".encode())
        assert seen.readline() == b"HTTP/1.1 100 Continue\r\n"
        caller.sendall(b"{}")
        assert seen.read().startswith(b"\r\nHTTP/1.1 422 ")


def test_a_caller_who_will_send_no_more_is_answered(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        key = f"authorization: Bearer {server.key}\r\n\r\n".encode()
        for path in 10 * (b"/healthz", b"/v1/bandits"):  # answered at once, and after a batch
            with _calling(server) as caller:
                caller.sendall(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n" + key)
                caller.shutdown(socket.SHUT_WR)
                assert caller.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
        with _calling(server) as caller:
            caller.sendall(b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nkey=")
            caller.shutdown(socket.SHUT_WR)
            assert caller.makefile("rb").read() == b""


def test_what_is_written_to_a_caller_who_has_gone_is_dropped() -> None:
    class Gone(asyncio.Transport):
        def is_closing(self) -> bool:
            return True

        def close(self) -> None:
            pass

    async def test() -> None:
        transport = Bundled(Gone(), asyncio.get_running_loop())
        transport.write(b"x")
        transport.close()
        transport.write(b"y")
        await asyncio.sleep(0)

    asyncio.run(test())


def test_trailers_are_limited(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        port = int(server.url.rpartition(":")[2])
        start = b"POST /login HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nkey=\r\n0\r\n"
        for endless in (b"name: " + b"x" * 1000 + b"\r\n", b"x" * 1000):
            with _calling(server) as caller:
                seen = 0
                with suppress(BrokenPipeError, ConnectionResetError):
                    caller.sendall(start + b"name: ")
                    while seen < 100_000_000:
                        caller.sendall(endless * 20)
                        seen += len(endless) * 20
                assert seen < 100_000_000
        assert _answer(port, [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"]) == b"HTTP/1.1 200"
        head = f"host: x\r\nauthorization: Bearer {server.key}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        chunks = b"1\r\n \r\n" * 50_000 + b"0\r\n\r\n"  # what stands between them is more than may stand beside
        assert _answer(port, [b"POST /v1/bandits HTTP/1.1\r\n" + head + chunks]) == b"HTTP/1.1 422"


def test_a_length_that_is_too_large_is_refused_before_the_body_comes(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        port, key = int(server.url.rpartition(":")[2]), f"authorization: Bearer {server.key}\r\n".encode()
        announced = b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n" + key + b"content-length: 99999999\r\n\r\n"
        assert _answer(port, [announced]) == b"HTTP/1.1 413"


def test_seconds_are_counted_up_to_and_with_the_edge_of_a_bucket(tmp_path: Path) -> None:
    store = SQLite(tmp_path / "journal.db")
    metrics = Metrics(Core(store))
    metrics.observe("/x", 200, 0.001)
    metrics.observe("/x", 200, 99.0)
    lines = metrics.text().decode()
    assert 'syndicated_request_seconds_bucket{le="0.001",route="/x"} 1.0' in lines
    assert 'syndicated_request_seconds_bucket{le="10.0",route="/x"} 1.0' in lines
    assert 'syndicated_request_seconds_bucket{le="+Inf",route="/x"} 2.0' in lines
    assert 'syndicated_request_seconds_sum{route="/x"} 99.001' in lines
    store.close()


def test_a_large_body_does_not_count_as_headers_of_the_next_request(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server, _calling(server) as caller:
        head = f"authorization: Bearer {server.key}\r\ncontent-length: 200000\r\n\r\n".encode()
        caller.sendall(b"POST /v1/bandits HTTP/1.1\r\nhost: x\r\n" + head + b" " * 200_000 + b"GET /healthz HT")
        caller.sendall(b"TP/1.1\r\nconnection: close\r\nho")
        caller.sendall(b"st: x\r\n\r\n")
        answers = caller.makefile("rb").read()
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"422", b"200"]


def test_a_header_without_end_is_refused(tmp_path: Path) -> None:
    with running(tmp_path / "journal.db") as server:
        parts = itertools.chain([b"GET /healthz HTTP/1.1\r\nname: "], itertools.repeat(b"x" * 10_000, 1000))
        with suppress(ConnectionResetError):
            assert _answer(int(server.url.rpartition(":")[2]), parts) == b"HTTP/1.1 431"
        assert httpx.get(f"{server.url}/healthz").status_code == 200


BAD_FLAGS = {
    ("--port", "70000"): "--port must be between 0 and 65535",
    ("--log-level", "loud"): "--log-level must be one of debug, info, warning, error",
    ("--rate", "-1"): "--rate must be at least 0",
    ("--body-limit", "0"): "--body-limit must be a whole number of at least 1",
    ("--queue", "0"): "--queue must be a whole number of at least 1",
    ("--host", "256.0.0.1"): "--host and --port must be free to listen at",
    ("--store", "mysql://here"): "a journal must be a file or an address of sqlite, postgresql",
}


@pytest.mark.parametrize("flags", BAD_FLAGS)
def test_bad_flags_are_one_line(
    flags: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "set_up", lambda level: None)
    assert main(["serve", "--port", "0", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"syndicated: {BAD_FLAGS[flags]}")
    assert error.count("\n") == 1


def test_a_short_admin_key_and_a_missing_extra_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNDICATED_ADMIN_KEY", "secret")
    assert main(["serve"]) == 2
    assert "SYNDICATED_ADMIN_KEY must be at least 24" in capsys.readouterr().err
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["serve"]) == 2
    assert capsys.readouterr().err == 'syndicated: serving needs uvicorn: pip install "syndicated[serve]"\n'


def test_variables_stand_for_flags_and_flags_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNDICATED_PORT", "9")
    monkeypatch.setenv("SYNDICATED_BODY_LIMIT", "10")
    options = _parser().parse_args(["serve", "--port", "8"])
    assert (options.port, options.body_limit, options.queue) == (8, 10, 1024)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@host/db?password=secret", "postgresql://me@host/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("/data/me@home.db", "/data/me@home.db"),
    ],
)
def test_passwords_of_journals_are_not_shown(address: str, shown: str) -> None:
    assert serve.shown(address) == shown


def test_the_command_line_does_not_need_the_extra() -> None:
    check = "import sys, syndicated.cli; print([n for n in ('starlette', 'msgspec', 'uvicorn') if n in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
