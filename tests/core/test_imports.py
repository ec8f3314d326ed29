"""The package from outside: imports go one way, public names exist, and nothing heavy is loaded at the door."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import syndicated
from syndicated import errors

PACKAGE = Path(syndicated.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
LAYERS = [
    {"types", "errors", "_decided_by", "_numba", "_special", "_files", "_formatting", "_security_headers", "_blas"},
    {"_compiled", "_extras", "_validation", "_learner", "_series", "_html"},
    {"streams", "_arm_book", "_catalogue", "_missing", "_figures", "_frames", "_progress"},
    {"space", "arm_sets", "registry", "_argmax", "_sparse", "_statefile", "datasets", "features"},
    {"_models"},
    {"policies", "tuners", "environments"},
    {"spec"},
    {"_player"},
    {"_agent_state", "_decision_history"},
    {"agent"},
    {"checks", "experiments", "evaluate", "store"},
    {"client", "experiments.bakeoff", "experiments.paper", "service.bandits"},
    {"experiments.scoreboard", "service.commit"},
    {"service.core"},
    {"service.http"},
    {"service.dashboard"},
    {"service"},  # create_app, which puts its rooms together
    {"cli"},
    {"__init__", "__main__"},  # the front doors
]
LEVELS = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def _room(name: str) -> str:
    """The room that a module, or a name in it, belongs to: the longest that is in the layers."""
    parts = name.split(".")
    inner = ".".join(parts[:2])
    return inner if inner in LEVELS else parts[0]


def _imported(file: Path) -> set[str]:
    """The full names that a file imports from this package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] in ("syndicated", "")}


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_one_way(file: Path) -> None:
    room = _room(".".join(file.relative_to(PACKAGE).with_suffix("").parts))
    for name in _imported(file) - {"syndicated"}:  # the package's own name: its version
        other = _room(name.removeprefix("syndicated."))
        assert other == room or LEVELS[other] < LEVELS[room], f"{room} must not import {name}"


def test_the_page_on_architecture_has_these_layers() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text().partition("## Imports go one way")[2]
    lines = re.findall(r"^\d+\. (.+)$", page.partition("\n## ")[0], re.MULTILINE)
    assert [set(re.findall(r"`([\w.]+)`", line)) for line in lines] == LAYERS[:-1]


def test_only_the_command_line_imports_the_package_itself() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if "syndicated" in _imported(file)]
    assert files == [PACKAGE / "cli" / "__init__.py"]


def test_public_names_exist_are_sorted_and_complete() -> None:
    names = syndicated.__all__
    assert names == sorted(set(names), key=lambda name: (not name.isupper(), name))
    here = {name for name, value in vars(syndicated).items() if not isinstance(value, ModuleType)}
    assert {name for name in here if not name.startswith("_")} == set(names)


def test_every_error_is_public() -> None:
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised <= set(syndicated.__all__)


def test_the_version_is_the_project_s() -> None:
    assert syndicated.__version__ == PROJECT["project"]["version"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["syndicated"]


def _run(code: str) -> Any:
    """What a fresh interpreter prints, read as JSON."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


HEAVY = {"asyncio", "httpx", "matplotlib", "msgspec", "multiprocessing", "numba", "pyarrow", "rich", "scipy", "sqlite3"}
# What no base installation has.
EXTRAS = """
bokeh dask distributed httptools httpx jinja2 matplotlib msgspec platformdirs prometheus_client psycopg pyarrow rich
starlette uvicorn uvloop
"""
COMMAND = """
import io, json, sys
from contextlib import redirect_stdout
sys.modules.update(dict.fromkeys({!r}.split()))
from syndicated.cli import main
out = io.StringIO()
with redirect_stdout(out):
    try:
        code = main({!r})
    except SystemExit as end:
        code = end.code
loaded = [name for name, module in sys.modules.items() if module is not None]
print(json.dumps([code, out.getvalue(), loaded]))
"""


def test_the_library_loads_nothing_heavy() -> None:
    loaded = _run("import json, sys, syndicated; print(json.dumps(sorted(sys.modules)))")
    assert "syndicated.agent" in loaded
    assert {"syndicated.experiments", "syndicated.cli"} & set(loaded) == set()
    assert HEAVY & set(loaded) == set()


def test_the_experiments_load_neither_plots_nor_tables_nor_templates() -> None:
    rooms = ", ".join(f"syndicated.experiments{room}" for room in ("", ".bakeoff", ".paper", ".scoreboard"))
    loaded = _run(f"import json, sys, {rooms}; print(json.dumps(sorted(sys.modules)))")
    assert {"distributed", "jinja2", "matplotlib", "numba", "rich", "scipy"} & set(loaded) == set()


@pytest.mark.parametrize(("argument", "said"), [("--help", "syndicated list"), ("list", "LinUCB")])
def test_help_and_list_load_nothing_heavy_and_need_no_extra(argument: str, said: str) -> None:
    code, printed, loaded = _run(COMMAND.format(EXTRAS, [argument]))
    assert code == 0
    assert said in printed
    assert (HEAVY - {"multiprocessing"}) & set(loaded) == set()


NEEDS = [
    (["run", "--repeats", "1", "--horizon", "10"], "experiments"),
    (["reproduce", "table1"], "experiments"),
    (["scoreboard"], "experiments"),
    (["bakeoff"], "experiments"),
    (["serve"], "serve"),
    (["simulate", "--key", "key"], "client"),
    (["backup", "--store", "postgresql://host/db", "backup.db"], "postgres"),
]


@pytest.mark.parametrize(("arguments", "extra"), NEEDS, ids=str)
def test_a_command_without_its_extra_is_one_line_that_names_it(
    arguments: list[str], extra: str, tmp_path: Path
) -> None:
    code = COMMAND.format(EXTRAS, arguments)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0] == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("syndicated: ")
    assert line.endswith(f": pip install 'syndicated[{extra}]'")
