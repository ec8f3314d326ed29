"""The log as JSON lines and Parquet, and its import into another bandit."""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import httpx
import msgspec
import pytest
from support.api_service import ARMS, VECTOR, Api, learn
from support.live_service import LONG_SECONDS
from support.live_service import service as running

from syndicated._statefile import unpack
from syndicated.service.bandits.problems import Problem
from syndicated.service.bandits.state import State
from syndicated.service.core import export, log_lines
from syndicated.service.core.log_lines import LogLine, to_line
from syndicated.service.http import handlers, parquet
from syndicated.store import StoreError, _sql

NESTED: Any = []
for _ in range(900):
    NESTED = [NESTED]


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
    async def test(api: Api) -> None:
        await learn(api, "old", 40, **spec)
        log = (await api.call("GET", "/v1/bandits/old/log")).content
        await api.create("new", **spec, seed=5)
        reply = await api.call("POST", "/v1/bandits/new/log", log)
        assert reply.json() == {"imported": len(log.splitlines()), "left_out": 0}
        old, new = [(await api.call("GET", f"/v1/bandits/{b}/models/current")).content for b in ("old", "new")]
        assert _agent(old) == _agent(new)
        for kept, line in zip(await api.lines("old"), await api.lines("new"), strict=True):
            assert {k: v for k, v in line.items() if k not in ("seq", "ref", "bandit", "epoch", "version")} == {
                k: v for k, v in kept.items() if k not in ("seq", "ref", "bandit", "epoch", "version")
            }
        again = await api.call("POST", "/v1/bandits/new/log", log)
        assert (again.status_code, again.json()["type"]) == (409, "/docs#problem-not-empty")
        live = [snapshot.state for snapshot in api.service.state.snapshots()]
        assert live == [s.state for s in State.load(api.service.group_commit.store, whole=True).snapshots()]

    play(test)


def test_a_log_of_another_space_is_refused(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await learn(api, "old", 12, policy={"name": "SGDTS", "tau": 5}, space={"boldness": [0.5, 1.0]})
        log = (await api.call("GET", "/v1/bandits/old/log")).content
        await api.create("new", policy={"name": "SGDTS", "tau": 5}, space={"boldness": [0.25, 0.75]})
        reply = await api.call("POST", "/v1/bandits/new/log", log)
        assert (reply.status_code, "choice must be one that the tuner can make" in reply.json()["detail"]) == (
            422,
            True,
        )
        assert (await api.decide("new"))["arm"] in ("a", "b")

    play(test)


CHOICE = {"params": {"boldness": 1.0}, "index": [0], "probability": [0.5], "odds": [0.5, 0.3, 0.2], "allies": [0]}


BAD_LINES: list[dict[str, Any]] = [
    {"x": [1.0]},
    {"x": None},
    {"x": [1e60, 0]},
    {"place": 7},
    {"by": "nobody"},
    {"propensity": 2},
    {"arm": "a" * 257},
    {"arm": ""},
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
    {"version": 2**63},
    {"round": 2**63},
    {"epoch": -1},
    {"context": 7},
    {"context": ["fr"]},
    {"epoch": 0, "choice": CHOICE | {"probability": []}},  # of an epoch whose tuner is not known
    {"epoch": 0, "choice": CHOICE | {"index": [0, 0], "probability": [0.5, 0.5]}},
    {"epoch": 0, "choice": CHOICE | {"odds": []}},
]


@pytest.mark.parametrize("change", BAD_LINES)
def test_a_log_that_does_not_fit_is_refused_as_a_whole(play: Callable[..., None], change: dict[str, Any]) -> None:
    async def test(api: Api) -> None:
        await api.create("old")
        for _ in range(2):
            await api.reward(await api.decide("old"), name="old")
        lines = await api.lines("old")
        good = lines[2]
        lines[2] = good | change
        await api.create("new")
        log = b"\n".join(json.dumps(line).encode() for line in lines)
        reply = await api.call("POST", "/v1/bandits/new/log", log)
        assert (reply.status_code, "line 3" in reply.json()["detail"]) == (422, True), reply.text
        assert await api.lines("new") == []
        lines[2] = good | {"choice": CHOICE, "at": -0.0}  # which SQLite keeps without its sign
        log = b"\n".join(json.dumps(line).encode() for line in lines)
        assert (await api.call("POST", "/v1/bandits/new/log", log)).status_code == 200
        assert (await api.decide("new"))["arm"]

    play(test)


def test_a_log_learns_a_decision_once_and_has_a_key_once_and_is_in_order(play: Callable[..., None]) -> None:
    async def test(api: Api) -> None:
        await api.create("old")
        await api.reward(await api.decide("old", event_id="e"), name="old")
        decide, reward = await api.lines("old")
        await api.create("new")
        for lines in (
            [decide, reward, reward | {"seq": 99}],
            [decide, decide | {"seq": 99}],
            [reward, decide],
            [decide, reward | {"kind": "late"}],
            [decide, reward | {"value": None}],
            [decide | {"context": NESTED}],
        ):
            log = b"\n".join(json.dumps(line).encode() for line in lines)
            assert (await api.call("POST", "/v1/bandits/new/log", log)).status_code == 422
        reply = await api.call("POST", "/v1/bandits/new/log", json.dumps(reward).encode())
        assert reply.json() == {"imported": 0, "left_out": 1}

    play(test)


def test_the_log_comes_in_parts_and_in_chunks(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "EXPORT_CHUNK", 3)

    async def test(api: Api) -> None:
        await api.create()
        for _ in range(10):
            await api.decide()
        every = await api.lines()
        assert len(every) == 10
        assert await api.lines(query="?limit=7") == every[:7]
        assert await api.lines(query=f"?after={every[3]['seq']}&limit=2") == every[4:6]
        for query in ("?limit=0", "?after=-1", "?format=xml", "?limit=x", "?other=1"):
            assert (await api.call("GET", f"/v1/bandits/b/log{query}")).status_code == 422

    play(test)


def test_expectation_09_parquet_has_what_the_lines_have_or_says_what_is_missing(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_EVENTS", 7)

    async def test(api: Api) -> None:
        await learn(api, "b", 20, log="all")
        reply = await api.call("GET", "/v1/bandits/b/log?format=parquet")
        try:
            arrow = parquet.load_pyarrow()
        except Exception:
            assert (reply.status_code, reply.json()["type"]) == (501, "/docs#problem-not-installed")
            return
        table = arrow.parquet.read_table(arrow.BufferReader(reply.content)).to_pylist()
        for row, line in zip(table, await api.lines(), strict=True):
            for name in parquet.JSON_FIELDS:
                row[name] = None if row[name] is None else json.loads(row[name])
            kept = {name: value for name, value in row.items() if value is not None}
            assert {name: kept.get(name, line[name]) for name in line} == line
            assert kept.keys() - line.keys() <= {"round", "params", "top", "ranking", *parquet.FLAG_FIELDS}

    play(test)


def test_expectation_27_what_writes_parquet_is_imported_beside_the_event_loop(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()

    def note() -> None:
        threads.append(threading.current_thread())
        raise Problem(501, "not-installed", "")

    monkeypatch.setattr(parquet, "load_pyarrow", note)

    async def test(api: Api) -> None:
        await api.create()
        assert (await api.call("GET", "/v1/bandits/b/log?format=parquet")).status_code == 501
        assert threads[0] is not threading.main_thread()

    play(test)


def test_expectation_27_lists_of_decisions_are_made_in_parts_on_another_thread(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all arms of large requests in the log, a list may be hundreds of megabytes."""
    monkeypatch.setattr(_sql, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(handlers, "PIECE_BYTES", 1000)
    threads = list[threading.Thread]()

    def note(*given: Any, **more: Any) -> LogLine:
        threads.append(threading.current_thread())
        return to_line(*given, **more)

    async def test(api: Api) -> None:
        await api.create(log="all")
        assert (await api.call("GET", "/v1/bandits/b/decisions")).json() == []
        made = [(await api.decide())["decision_id"] for _ in range(20)][::-1]
        lines = (await api.lines())[::-1]
        monkeypatch.setattr(handlers, "to_line", note)
        for limit in (1, 7, 1000):
            found = (await api.call("GET", f"/v1/bandits/b/decisions?limit={limit}")).json()
            assert [each["decision_id"] for each in found] == made[:limit]
            assert [each["decision"] for each in found] == lines[:limit]
        assert threads
        assert threading.main_thread() not in threads
        assert (await api.call("GET", "/v1/bandits/unknown/decisions")).status_code == 404

    play(test)


def test_an_export_for_which_there_is_no_connection_is_answered_by_503(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as of a database that has given out all it has; it was told as an invalid request."""

    def refuse() -> NoReturn:
        raise StoreError("too many clients")

    async def test(api: Api) -> None:
        await api.create()
        await api.decide()
        monkeypatch.setattr(api.service.group_commit.store, "reader", refuse)
        for query in ("", "?format=parquet"):
            reply = await api.call("GET", f"/v1/bandits/b/log{query}")
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            assert reply.json()["type"] == "/docs#problem-unavailable"

    play(test)


@pytest.mark.parametrize("place", [0, 4])
def test_expectation_30_an_export_ends_at_a_damaged_event_and_a_line_of_the_log_names_it(
    tmp_path: Path, place: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the reply has begun it is a problem; or else the connection ends, so that nobody takes it for whole."""
    monkeypatch.setattr(handlers, "EXPORT_CHUNK", 2)
    file = tmp_path / "journal.db"
    with running(file) as service, httpx.Client(base_url=service.url, timeout=LONG_SECONDS) as client:
        client.headers["authorization"] = f"Bearer {service.key}"
        client.post("/v1/bandits", json={"name": "b", "spec": VECTOR})
        for _ in range(6):
            client.post("/v1/bandits/b/decide", json={"arms": ARMS})
        seq = client.get("/v1/bandits/b/log").text.splitlines()[place].split('"seq":')[1].split(",")[0]
        with closing(sqlite3.connect(file)) as db:
            db.execute("UPDATE log SET body = substr(body, 1, 9) WHERE seq = ?", (seq,))
            db.commit()
        caplog.clear()
        if place:
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
                client.get("/v1/bandits/b/log")
        else:
            assert client.get("/v1/bandits/b/log").status_code == 503
        assert client.get("/v1/bandits/b").status_code == 200
    (error,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    of = service.app.services.home.state.bandit("b").id
    damage = f"the journal {file} is damaged: event {seq} of bandit {of} is not what was written"
    assert error.getMessage() == f"a request failed: {damage}; see `syndicated repair`"
    assert error.exc_info is None


def test_expectation_27_a_decision_that_is_looked_up_is_made_on_another_thread_some_rows_at_a_time(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 x 100 numbers it is 20 MB of JSON."""
    monkeypatch.setattr(log_lines, "TABLE_NUMBERS", 7)
    encoded, encode = list[tuple[threading.Thread, int]](), msgspec.json.encode

    def note(value: Any) -> bytes:
        json_ = encode(value)
        encoded.append((threading.current_thread(), len(json_)))
        return json_

    async def test(api: Api) -> None:
        await api.create(log="all")
        arms = [{"id": str(k), "x": [k / 7, -k]} for k in range(50)]
        id_ = (await api.decide(arms=arms))["decision_id"]
        (line,) = await api.lines()
        monkeypatch.setattr(msgspec.json, "encode", note)
        found = (await api.call("GET", f"/v1/bandits/b/decisions/{id_}")).json()
        monkeypatch.undo()
        assert line["X"] == [arm["x"] for arm in arms]
        assert found == {"decision_id": id_, "decision": line, "events": []}
        assert len(encoded) == 18  # three rows at a time, and the whole
        assert threading.main_thread() not in [thread for thread, _ in encoded]
        assert (await api.client.get(f"/bandits/b/decisions/{id_}")).status_code == 200

    play(test)


def test_expectation_27_so_many_exports_at_once(play: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not read holds a connection to the journal until its caller is cut off."""
    monkeypatch.setattr(export, "MAX_EXPORTS", 2)

    async def test(api: Api) -> None:
        await api.create()
        await api.decide()
        exports = [(await api.service.admin.export("b")).pieces(lambda events, bandit: events, 1) for _ in range(2)]
        for each in exports:
            await anext(each)
        refused = await api.call("GET", "/v1/bandits/b/log")
        assert (refused.status_code, refused.json()["type"]) == (503, "/docs#problem-overload")
        await exports[0].aclose()
        assert len(await api.lines()) == 1
        await exports[1].aclose()
        assert api.service.group_commit.exports == 0

    play(test)
