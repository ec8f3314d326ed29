"""docs/extending.md, done: its files written into a copy of the package, its import lines added, its commands run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
REGISTRIES = {f"syndicated/{kind}/__init__.py" for kind in ("policies", "tuners", "environments")}
COMMANDS = re.findall(r"^syndicated (.*)$", PAGE, re.MULTILINE)
SMALL = ["--horizon", "200", "--repeats", "2", "--jobs", "1"]

CHECKS = """\
from syndicated.checks import ENVIRONMENT_CHECKS, POLICY_CHECKS, TUNER_CHECKS, on_space
from syndicated.environments import Weekend
from syndicated.policies import PlainEpsilonGreedy
from syndicated.tuners import EXP3IX
for check in POLICY_CHECKS:
    check(PlainEpsilonGreedy)
for check in TUNER_CHECKS:
    check(on_space(EXP3IX))
for check in ENVIRONMENT_CHECKS:
    check(Weekend)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with what the page adds; copied caches spare it the compilation of the kernels."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "syndicated", folder / "syndicated")
    for name, text in FILES.items():
        file = folder / name
        file.write_text(_with_import(file.read_text(), text) if name in REGISTRIES else text)
    return folder


def _with_import(registry: str, line: str) -> str:
    assert line.startswith("from ")
    assert line.count("\n") == 1
    return registry + line  # where a hurried reader puts it


def _run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_addition_is_one_new_file_and_one_import_line() -> None:
    new = {Path(name).parent for name in FILES.keys() - REGISTRIES if not (ROOT / name).exists()}
    assert len(FILES) == 2 * len(REGISTRIES)
    assert new == {Path(name).parent for name in REGISTRIES}


def test_the_list_shows_what_was_added(extended: Path) -> None:
    lines = _run(extended, "-m", "syndicated", "list")
    assert re.search(r"^  PlainEpsilonGreedy *Epsilon-greedy with", lines, re.MULTILINE)
    assert re.search(r"^  EXP3IX *EXP3-IX over", lines, re.MULTILINE)
    assert re.search(r"^  Weekend *Clicks on arms", lines, re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("run ")])
def test_the_commands_of_the_page_run(extended: Path, tmp_path: Path, command: str) -> None:
    printed = _run(extended, "-m", "syndicated", *command.split(), *SMALL, "--out", str(tmp_path))
    assert "EXP3IX" in printed
    assert "regret after 200 rounds, 2 repeats" in printed


def test_what_was_added_passes_the_conformance_checks(extended: Path) -> None:
    _run(extended, "-c", CHECKS)


def test_the_new_files_pass_the_linter_and_the_formatter(extended: Path) -> None:
    added = [name for name in FILES if name not in REGISTRIES]
    configuration = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    _run(extended, "-m", "ruff", "check", *configuration, *added)
    _run(extended, "-m", "ruff", "format", "--check", *configuration, *added)
