"""The rooms of the service: core <- http <- dashboard, and `create_app` puts them together."""

import ast
from pathlib import Path

import pytest

import syndicated.service

SERVICE = Path(syndicated.service.__file__).parent
ROOMS = ["core", "http", "dashboard"]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_itself_and_the_rooms_before_it(room: str) -> None:
    later = tuple(f"syndicated.service.{other}" for other in ROOMS[ROOMS.index(room) + 1 :])
    for file in (SERVICE / room).rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        imported = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        imported += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        assert [name for name in imported if name == "syndicated.service" or name.startswith(later)] == [], file
