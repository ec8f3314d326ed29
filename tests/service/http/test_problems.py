"""Every error is a problem document that says what is wrong."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from support.api_service import ROOT, VECTOR, Api

from syndicated.service.http.problem_documents import PROBLEM_KINDS

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
    async def test(api: Api) -> None:
        await api.create()
        assert (await api.call("POST", "/v1/bandits/b/reward", body)).status_code == 422

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
    async def test(api: Api) -> None:
        await api.create(features={"kind": "hashed", "dim": 8}, log="all")
        whole = {"arms": [{"id": "a", "features": {"n": 1}}]} | body
        reply = await api.call("POST", "/v1/bandits/b/decide", whole)
        assert reply.status_code == 422, reply.text
        assert (await api.lines()) == []

    play(test)


def test_expectation_19_the_path_of_a_fault_is_told(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create()
        body = {"arms": [{"id": "a", "x": [1, "2"]}]}
        reply = await api.call("POST", "/v1/bandits/b/decide", body)
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
    ("POST", "/v1/bandits/b/reward", {"event": "e"}, "`event`; the fields are reward, decision_id, event_id"),
    (
        "POST",
        "/v1/bandits/b/decide",
        {"arms": [{"id": "tea", "price": 2}]},
        "unknown field `price` - at `$.arms[0]`; the fields are id, x, features",
    ),
    ("POST", "/v1/keys", {"name": "k", "scopes": 1}, "Expected `array`, got `int` - at `$.scopes`"),
]


@pytest.mark.parametrize(("method", "path", "body", "said"), MISTAKES)
def test_expectation_19_what_would_be_right_is_told(
    play: Callable[..., None], method: str, path: str, body: Any, said: str
) -> None:
    async def test(api: Api) -> None:
        await api.create()
        reply = await api.call(method, path, body)
        assert (reply.status_code, said in reply.json()["detail"]) == (422, True), reply.text

    play(test)


def test_expectation_19_paths_and_methods_that_are_not_there(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for path in ("/nothing", "/v1/", "/v1/bandits/", "/v1/bandits/b/nothing"):
            assert (await api.call("GET", path)).status_code == 404
        assert (await api.call("POST", "/v1/bandits//decide", {})).status_code == 404
        reply = await api.call("GET", "/v1/bandits/b/decide")
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
        reply = await api.call("PUT", "/v1/bandits")
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD, POST")

    play(test)


def test_expectation_19_a_fault_inside_tells_nothing(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("the secret of the house")

    async def test(api: Api) -> None:
        monkeypatch.setattr(api.service.decisions, "decide_on", fail)
        monkeypatch.setattr(api.service.admin, "update", fail)
        for method, path in (("POST", "/v1/bandits/b/decide"), ("PATCH", "/v1/bandits/b")):
            reply = await api.call(method, path, {})
            assert reply.status_code == 500
            assert "secret" not in reply.text
        assert [record.getMessage() for record in caplog.records if record.exc_info] == ["a request failed"] * 2

    play(test)


def test_every_kind_of_problem_is_explained() -> None:
    source = "".join(file.read_text() for file in (ROOT / "syndicated" / "service").rglob("*.py"))
    assert set(re.findall(r'(?:Problem|ProblemWithHeaders)\(\s*[\w.]+, "([a-z-]+)"', source)) == PROBLEM_KINDS.keys()
