"""The OpenAPI document and the page made from it agree with the service."""

import asyncio
import html
import json
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from support.api_service import ROOT, Api, check_reply, serving

from syndicated.service.http.headers import BINARY, BYTES, JSON, JSON_LINES
from syndicated.service.http.openapi import openapi_document
from syndicated.service.http.problem_documents import PROBLEM_KINDS
from syndicated.service.http.routes import TABLE


def test_expectation_20_openapi_is_of_the_route_table(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        del api.client.headers["authorization"]
        document = (await api.call("GET", "/openapi.json")).json()
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


def test_the_examples_of_the_docs_work(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        document = openapi_document(TABLE)
        made = {"name": "news"}
        for run in ("create", "put_arms", "decide", "reward", "activate", "create_key", "update"):
            endpoint = next(e for e in TABLE if e.run.__name__ == run)
            body = dict(endpoint.example) | ({"decision_id": made["decision_id"]} if run == "activate" else {})
            reply = await api.client.request(endpoint.method, endpoint.path.format(**made), json=body)
            assert reply.status_code == endpoint.status, (run, reply.text)
            made |= {"decision_id": reply.json()["decision_id"]} if run == "decide" else {}
            operation = document["paths"][endpoint.path][endpoint.method.lower()]
            assert operation["requestBody"]["content"][JSON]["example"] == endpoint.example
        page = html.unescape((await api.client.get("/docs")).text)
        assert page.count("curl ") == len(TABLE)
        assert 'curl -X POST "$URL/v1/bandits/news/reward" \\\n  -H "Authorization: Bearer $KEY"' in page
        assert 'curl "$URL/healthz"</code>' in page
        assert 'curl -X DELETE "$URL/v1/bandits/news/arms/sports"' in page
        assert "--data-binary @file" in page
        assert '<a href="/">' in page

    play(test)


def test_expectation_20_the_docs_page_is_plain_and_safe(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        del api.client.headers["authorization"]
        reply = await api.call("GET", "/docs")
        assert reply.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert "<script" not in reply.text
        assert "style=" not in reply.text
        for endpoint in TABLE:
            assert re.sub(r":\w+}", "}", endpoint.path) in reply.text
        for kind in PROBLEM_KINDS:
            assert f'id="problem-{kind}"' in reply.text
        for name in re.findall(r'href="#([^"]+)"', reply.text):
            assert f'id="{name}"' in reply.text
        style = await api.call("GET", "/docs.css")
        assert style.headers["content-type"].startswith("text/css")

    play(test)


def test_every_field_of_a_spec_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    fields = openapi_document(TABLE)["components"]["schemas"]["Spec"]["properties"]
    assert [name for name in fields if f"| `{name}` |" not in page] == []


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore")
def test_schemathesis_finds_no_fault_inside(tmp_path: Path) -> None:
    """Requests made from the OpenAPI document, good and bad ones; every reply is as the document says."""
    schemathesis.checks.load_all_checks()
    names = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in names]
    document = openapi_document(TABLE)
    for operation in [operation for path in document["paths"].values() for operation in path.values()]:
        for parameter in operation["parameters"]:
            if parameter["name"] == "name":
                parameter["schema"] = {"enum": ["b", "other"]}
        content = operation.get("requestBody", {"content": {}})["content"]
        for kind in content.keys() & {JSON_LINES, BINARY}:
            content[BYTES] = content.pop(kind)
    schema: Any = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    operations.sort(key=lambda operation: operation.method == "delete")
    assert len(operations) == len(TABLE)
    few = settings(max_examples=8, suppress_health_check=list(HealthCheck))
    statuses: set[int] = set()
    with asyncio.Runner() as runner, ExitStack() as stack:
        context = serving(tmp_path / "journal.db")
        api = runner.run(context.__aenter__())
        stack.callback(lambda: runner.run(context.__aexit__(None, None, None)))
        runner.run(api.create())

        def check(case: Any) -> None:
            reply = runner.run(_send(api, case))
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


async def _send(api: Api, case: Any) -> httpx.Response | None:
    """Send a generated request; None if HTTP cannot carry it."""
    sent = case.as_transport_kwargs(base_url="http://test")
    content = json.dumps(sent["json"]) if "json" in sent else sent.get("data")
    if not isinstance(content, bytes | str | None):
        content = json.dumps(content, default=str)
    headers = {"content-type": BINARY if case.media_type == BYTES else JSON}
    try:
        request = api.client.build_request(
            case.method, case.formatted_path, params=sent.get("params"), content=content, headers=headers
        )
    except (ValueError, TypeError, httpx.InvalidURL):
        return None
    return await api.client.send(request)
