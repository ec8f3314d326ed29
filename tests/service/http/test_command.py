"""`syndicated serve` as a command."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from support.api_service import ARMS, VECTOR
from support.live_service import LONG_SECONDS

from syndicated._blas import ONE_BLAS_THREAD
from syndicated.cli import _parser, main, serve
from syndicated.service.http import logs, server
from syndicated.store import SQLite

CORES = len(os.sched_getaffinity(0))


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
    with httpx.Client(base_url=base, headers={"authorization": f"Bearer {key}"}, timeout=LONG_SECONDS) as client:
        assert client.post("/v1/bandits", json={"name": "b", "spec": VECTOR}).status_code == 201
        decision = client.post("/v1/bandits/b/decide", json={"arms": ARMS, "event_id": "e"}).json()
        assert client.get("/readyz").status_code == 200
        second = command()
        _, error = second.communicate(timeout=LONG_SECONDS)
        assert second.returncode == 2
        assert re.fullmatch(r"syndicated: the journal .* must have one owner; it is in use by process \d+\n", error)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=LONG_SECONDS)
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
        again = httpx.post(
            f"{base}/v1/bandits/b/decide", json={"arms": ARMS, "event_id": "e"}, headers=headers, timeout=LONG_SECONDS
        )
        assert again.json() == decision | {"repeated": True}
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=LONG_SECONDS)
    assert (process.returncode, error) == (0, "")


BAD_FLAGS = {
    ("--port", "70000"): "--port must be between 0 and 65535",
    ("--log-level", "loud"): "--log-level must be one of debug, info, warning, error",
    ("--rate", "-1"): "--rate must be at least 0",
    ("--body-limit", "0"): "--body-limit must be a whole number of at least 1",
    ("--queue", "0"): "--queue must be a whole number of at least 1",
    ("--host", "256.0.0.1"): "--host and --port must be free to listen on",
    ("--workers", "0"): "--workers must be a whole number of at least 1",
    ("--workers", "2"): "--workers must be 1 with a journal in a file, which has one owner; got 2",
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


def test_a_short_admin_key_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNDICATED_ADMIN_KEY", "secret")
    assert main(["serve"]) == 2
    assert "SYNDICATED_ADMIN_KEY must be at least 24" in capsys.readouterr().err


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
    assert serve.without_password(address) == shown


def test_the_command_line_does_not_need_the_extra() -> None:
    check = "import sys, syndicated.cli; print([n for n in ('starlette', 'msgspec', 'uvicorn') if n in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"


@pytest.mark.parametrize(("variables", "threads"), [({}, {1}), ({"OPENBLAS_NUM_THREADS": "2"}, {min(2, CORES)})])
def test_the_service_has_one_blas_thread_unless_the_environment_says_how_many(
    tmp_path: Path, variables: dict[str, str], threads: set[int]
) -> None:
    """Of every library that is loaded, also by compiled kernels, where the server would begin to serve."""
    code = """
import sys
from threadpoolctl import threadpool_info
from syndicated.cli import main
from syndicated.service.http import server
server.run = lambda *given: print([b["num_threads"] for b in threadpool_info() if b["user_api"] == "blas"], flush=True)
main(["serve", "--port", "0", "--store", sys.argv[1]])
"""
    own = {name: value for name, value in os.environ.items() if name not in ONE_BLAS_THREAD}
    command = [sys.executable, "-c", code, str(tmp_path / "journal.db")]
    printed = subprocess.run(command, env=own | variables, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed.splitlines()[0])
    assert len(found) >= 2
    assert set(found) == threads


def test_the_collector_of_cycles_looks_at_all_objects_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody waits for such a look, and for one at many new objects."""
    seen: list[tuple[int, int, int]] = []

    class Seeing:
        started = True

        def __init__(self, app: Any) -> None:
            pass

        async def serve(self, sockets: Any) -> None:
            seen.append(gc.get_threshold())

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    monkeypatch.setattr(server, "Server", Seeing)
    try:
        server.run(cast(Any, None), cast(Any, None))
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        sys.setswitchinterval(interval)
    ((new, middle, old),) = seen
    assert new <= 10_000
    assert middle * old >= 2000
