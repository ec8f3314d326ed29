"""A simulated world that is played against a running service."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.live_service import LONG_SECONDS, PATIENT, Service, free_port, service

from syndicated.cli import main, simulate
from syndicated.service import Limits
from syndicated_client import Client, _flows


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("service") / "journal.db") as running:
        yield running


@pytest.fixture(autouse=True)
def key(server: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNDICATED_KEY", server.key)


def _simulate(server: Service, options: str = "") -> int:
    return main(["simulate", "--url", server.url, *options.split()])


def _counts(server: Service, bandit: str) -> tuple[int, int]:
    with Client(server.url, server.key, **PATIENT) as client:
        found = client.get(bandit)
    return found["decisions"], found["rewards"]


def test_a_world_is_played_and_its_bandit_learns(server: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert _simulate(server, "--rounds 60") == 0
    printed = capsys.readouterr()
    line, address = printed.out.splitlines()
    assert address == f"dashboard: {server.url}/bandits/simulated-linear"
    numbers = re.fullmatch(r"60 rounds: reward a round (\S+) \(uniform (\S+)\), regret (\S+) \(uniform (\S+)\)", line)
    assert numbers
    reward, uniform, regret, uniform_regret = map(float, numbers.groups())
    assert reward > uniform
    assert regret < uniform_regret
    assert len(printed.err.splitlines()) == 10
    assert _counts(server, "simulated-linear") == (60, 60)


def test_a_bandit_that_is_there_goes_on(server: Service) -> None:
    options = "--bandit again --rounds 5 --policy LinTS --tuner Theory"
    assert _simulate(server, options) == _simulate(server, options) == 0
    assert _counts(server, "again") == (10, 10)


def test_late_rewards_and_several_rounds_at_once(server: Service) -> None:
    assert _simulate(server, "--bandit busy --rounds 30 --concurrency 8 --delay 10") == 0
    assert _counts(server, "busy") == (30, 30)


def test_arms_with_ids(server: Service) -> None:
    assert _simulate(server, "--environment Contexts --policy ArmUCB --rounds 10") == 0
    assert _counts(server, "simulated-contexts") == (10, 10)


def test_clicks(server: Service) -> None:
    assert _simulate(server, "--environment Logistic --policy UCBGLM --rounds 10") == 0
    assert _counts(server, "simulated-logistic") == (10, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--rounds 0", "--rounds must be a whole number of at least 1; got 0"),
        ("--rounds 2000000", "--rounds must be at most 1000000; got 2000000"),
        ("--concurrency 65", "--concurrency must be at most 64; got 65"),
        ("--arms 0", "arms must be a whole number of at least 1; got 0"),
        ("--delay -1", "--delay must be a whole number of at least 0; got -1"),
        ("--seed -1", "--seed must be a whole number of at least 0; got -1"),
        ("--key=", "--key or SYNDICATED_KEY must be a key of the service; got none"),
        ("--url ftp://x", "url must begin with http:// or https://; got 'ftp://x'"),
        (
            "--bandit narrow",
            "the bandit narrow must have features {'kind': 'vector', 'dim': 10}; it has {'kind': 'vector', 'dim': 3}",
        ),
        ("--bandit narrow --environment Logistic --floor 2", "--floor must be between 0 and 1; got 2.0"),
        ("--bandit wide --log all", "the bandit wide must have log all; it has chosen"),
        ("--bandit wide --log chosen --floor 0.1", "the bandit wide must have floor 0.1; it has 0.0"),
        ("--key syn_wrong", "a request must carry a valid key: Authorization: Bearer syn_... (401 no-key)"),
    ],
)
def test_bad_options(server: Service, options: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(server.url, server.key, **PATIENT) as client:
        if "narrow" not in [bandit["name"] for bandit in client.list()]:
            client.create("narrow", {"features": {"kind": "vector", "dim": 3}})
            client.create("wide", {"features": {"kind": "vector", "dim": 10}})
    assert _simulate(server, options) == 2
    assert capsys.readouterr().err == f"syndicated: {message}\n"


def test_an_unknown_tuner_makes_no_bandit(server: Service) -> None:
    assert _simulate(server, "--bandit none --tuner Nobody") == 2
    with Client(server.url, server.key, **PATIENT) as client:
        assert "none" not in [bandit["name"] for bandit in client.list()]


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert main(["simulate", "--url", url, "--rounds", "5"]) == 2
    assert re.fullmatch(rf"syndicated: the service is not available: .+; --url is {url}\n", capsys.readouterr().err)


def test_the_address_may_come_from_the_environment(
    server: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SYNDICATED_URL", f"{server.url}/v1")
    assert main(["simulate", "--bandit", "there", "--rounds", "1"]) == 0
    assert f"dashboard: {server.url}/bandits/there\n" in capsys.readouterr().out


def test_what_was_played_can_be_evaluated(server: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--bandit judged --arms 4 --rounds 40 --log all --floor 0.5"
    assert _simulate(server, options) == _simulate(server, options) == 0
    headers = {"authorization": f"Bearer {server.key}"}
    log = httpx.get(f"{server.url}/v1/bandits/judged/log", headers=headers, timeout=LONG_SECONDS)
    assert json.loads(log.text.splitlines()[0])["count"] == 4
    (tmp_path / "log.jsonl").write_bytes(log.content)
    assert main(["evaluate", str(tmp_path / "log.jsonl"), "--tuner", "Theory"]) == 0
    assert "from a log of 80 rounds" in capsys.readouterr().out


def test_a_terminal_has_the_last_line_once(
    server: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert _simulate(server, "--bandit seen --rounds 3") == 0
    printed = capsys.readouterr()
    first, *shown, last = printed.err.split(simulate.CLEAR_LINE)
    assert (first, last, len(shown)) == ("", "", 3)
    assert "\n" not in printed.err
    assert printed.out.splitlines()[0] == shown[-1]


def test_a_service_that_goes_away(server: Service, capsys: pytest.CaptureFixture[str]) -> None:
    group_commit = server.app.services.home.group_commit
    limits = group_commit.limits
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_flows, "FIRST_PAUSE", 1e-4)
            patch.setattr(_flows, "_retry_after", lambda outcome: 0.0)
            real = simulate.Tally.add

            def add(tally: simulate.Tally, *args: object) -> None:
                group_commit.limits = Limits(waiting_requests=0)
                real(tally, *args)  # type: ignore[arg-type]

            patch.setattr(simulate.Tally, "add", add)
            assert _simulate(server, "--bandit gone --rounds 5 --delay 4") == 2
    finally:
        group_commit.limits = limits
    assert capsys.readouterr().err.splitlines()[-1].startswith("syndicated: the service stopped answering after 1")


def test_what_is_not_installed_is_named_in_one_line(
    server: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("syndicated.client", "syndicated_client"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert _simulate(server) == 2
    assert capsys.readouterr().err == "syndicated: the client needs httpx: pip install 'syndicated[client]'\n"
