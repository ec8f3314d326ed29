"""The examples of deployment fit the service."""

import re
from pathlib import Path

from syndicated.cli import _parser
from syndicated.service.http.routes import TABLE
from syndicated.service.http.server import DRAIN_SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "syndicated.service").read_text()
OPTIONS = vars(_parser().parse_args(["serve"]))


def test_there_is_time_to_drain() -> None:
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    (stop,) = re.findall(r"--stop-timeout (\d+)", DOCKERFILE)
    assert min(int(seconds), int(stop)) > DRAIN_SECONDS
    assert "\nKillSignal=SIGTERM\n" in UNIT
    assert "\nSTOPSIGNAL SIGTERM\n" in DOCKERFILE


def test_settings_are_options_of_the_service() -> None:
    for text in (DOCKERFILE, UNIT):
        names = re.findall(r"\bSYNDICATED_(\w+)=", text)
        assert names
        assert {name.lower() for name in names} <= set(OPTIONS)


def test_nobody_is_root() -> None:
    user, command = DOCKERFILE.index("\nUSER syndicated\n"), DOCKERFILE.index("\nCMD ")
    assert user < command
    assert "\nDynamicUser=yes\n" in UNIT


def test_the_health_check_asks_a_path_that_needs_no_key() -> None:
    (port, path) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", DOCKERFILE)[0]
    assert int(port) == int(OPTIONS["port"])
    assert [row.scope for row in TABLE if row.path == path] == [None]


def test_both_start_the_same_command() -> None:
    assert '\nCMD ["syndicated", "serve"]\n' in DOCKERFILE
    assert re.findall(r"^ExecStart=\S+/(.+)$", UNIT, re.MULTILINE) == ["syndicated serve"]


def test_the_page_on_operations_names_metrics_that_there_are() -> None:
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    code = (DEPLOY.parent / "syndicated" / "service" / "http" / "metrics.py").read_text()
    named = set(re.findall(r"`syndicated_(\w+?)(?:_total)?`", page))
    assert len(named) > 5
    assert [name for name in named if f'"syndicated_{name}"' not in code and f'    "{name}": ' not in code] == []
