"""The rooms of the service: core <- http <- dashboard <- create_app, and no web framework in the core."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import syndicated.service

SERVICE = Path(syndicated.service.__file__).parent
ROOMS = ["core", "http", "dashboard"]
WEB = {"starlette", "jinja2", "uvicorn", "httptools", "prometheus_client", "markupsafe"}


def _imported(file: Path) -> set[str]:
    tree = ast.walk(ast.parse(file.read_text()))
    names = [node.module or "" for node in tree if isinstance(node, ast.ImportFrom)]
    tree = ast.walk(ast.parse(file.read_text()))
    return {*names, *(alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names)}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_itself_and_the_rooms_before_it(room: str) -> None:
    later = tuple(f"syndicated.service.{other}" for other in ROOMS[ROOMS.index(room) + 1 :])
    for file in (SERVICE / room).rglob("*.py"):
        wrong = [name for name in _imported(file) if name == "syndicated.service" or name.startswith(later)]
        assert wrong == [], file


def test_the_core_knows_no_web_framework() -> None:
    for file in (SERVICE / "core").rglob("*.py"):
        assert {name.split(".")[0] for name in _imported(file)} & WEB == set(), file


def test_importing_the_core_loads_no_web_framework() -> None:
    check = f"import sys, pkgutil, importlib, syndicated.service.core as core;\
[importlib.import_module(f'syndicated.service.core.{{m.name}}') for m in pkgutil.iter_modules(core.__path__)];\
print(sorted({WEB!r} & sys.modules.keys()))"
    printed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
