"""Health, metrics, request ids and logs."""

import json
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.api_service import ROOT, SCRIPT, Api

from syndicated.service.core.service import Service
from syndicated.service.core.services import Services
from syndicated.service.http.logs import JsonFormatter
from syndicated.service.http.metrics import Metrics
from syndicated.store import SQLite


def test_metrics_are_made_beside_the_event_loop(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of bandits they take a tenth of a second."""
    threads, text = list[threading.Thread](), Metrics.text

    def counted(metrics: Metrics) -> bytes:
        threads.append(threading.current_thread())
        return text(metrics)

    monkeypatch.setattr(Metrics, "text", counted)

    async def test(api: Api) -> None:
        assert (await api.call("GET", "/metrics")).status_code == 200
        assert threads
        assert threading.current_thread() not in threads

    play(test)


def test_expectation_21_health_readiness_and_metrics(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(api: Api) -> None:
        await api.create()
        await api.reward(await api.decide(), 0.5)
        text = (await api.call("GET", "/metrics")).text
        for line in (
            'syndicated_requests_total{route="/v1/bandits/{name}/decide",status="200"} 1.0',
            'syndicated_request_seconds_count{route="/v1/bandits/{name}/reward"} 1.0',
            'syndicated_reward_mean{bandit="b"} 0.5',
            "syndicated_folded_sequence 4.0",
            "syndicated_store_away 0.0",
        ):
            assert line in text.splitlines()
        assert (await api.call("GET", "/healthz")).json() == {"status": "ok"}
        assert (await api.call("GET", "/readyz")).status_code == 200
        api.service.group_commit.store_error = "the disk is full"
        reply = await api.call("GET", "/readyz")
        assert (reply.status_code, reply.json()["detail"]) == (503, "the journal is unavailable")
        assert [record.__dict__["fields"] for record in caplog.records] == [{"reason": "the disk is full"}]
        assert (await api.call("GET", "/healthz")).status_code == 200
        assert "syndicated_store_away 1.0" in (await api.call("GET", "/metrics")).text
        api.service.group_commit.store_error = ""
        api.service.group_commit.failed = ZeroDivisionError()
        assert (await api.call("GET", "/healthz")).status_code == 503
        api.service.group_commit.failed = None

    play(test)


def test_every_metric_is_in_the_documentation(play: Callable[..., None]) -> None:
    page = (ROOT / "docs" / "service.md").read_text()

    async def test(api: Api) -> None:
        await api.create()
        text = (await api.call("GET", "/metrics")).text
        names = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
        assert names
        assert [name for name in names if f"`{name}`" not in page] == []

    play(test)


def test_seconds_are_counted_up_to_and_with_the_edge_of_a_bucket(tmp_path: Path) -> None:
    store = SQLite(tmp_path / "journal.db")
    metrics = Metrics(Services([Service(store)]))
    metrics.observe("/x", 200, 0.001)
    metrics.observe("/x", 200, 99.0)
    lines = metrics.text().decode()
    assert 'syndicated_request_seconds_bucket{le="0.001",route="/x"} 1.0' in lines
    assert 'syndicated_request_seconds_bucket{le="10.0",route="/x"} 1.0' in lines
    assert 'syndicated_request_seconds_bucket{le="+Inf",route="/x"} 2.0' in lines
    assert 'syndicated_request_seconds_sum{route="/x"} 99.001' in lines
    store.close()


def test_requests_have_one_id_in_and_out(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        for path in ("/healthz", "/nothing"):
            reply = await api.call("GET", path, headers={"x-request-id": "my-id.1"})
            assert reply.headers.get_list("x-request-id") == ["my-id.1"]
            reply = await api.call("GET", path, headers={"x-request-id": SCRIPT})
            assert reply.headers["x-request-id"] != SCRIPT

    play(test)


def test_logs_are_lines_without_keys_bodies_and_subjects(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def test(api: Api) -> None:
        await api.create()
        await api.decide(subject="somebody")
        await api.call("DELETE", "/v1/subjects/somebody")
        key = await api.key("read")
        await api.call("GET", f"/v1/{key}?key={key}")
        lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records if hasattr(record, "fields")]
        assert [(line["method"], line["path"], line["status"]) for line in lines] == [
            ("POST", "/v1/bandits", 201),
            ("POST", "/v1/bandits/b/decide", 200),
            ("DELETE", "/v1/subjects/...", 200),
            ("GET", "/v1/syn_...", 404),
        ]
        assert all(line.keys() >= {"time", "level", "message", "request", "ms"} for line in lines)
        text = "".join(JsonFormatter().format(r) for r in caplog.records if r.name.startswith("syndicated"))
        assert key not in text
        assert "somebody" not in text

    play(test)
