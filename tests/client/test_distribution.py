"""`syndicated-client` is a distribution of its own: it needs nothing of syndicated, NumPy or Numba."""

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.live_service import service
from support.wheels import built_wheel

import syndicated.client
import syndicated_client

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "client"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
CALL = """
import json, sys
for name in ("syndicated", "numpy", "numba", "scipy"):
    sys.modules[name] = None
sys.path.insert(0, {wheel!r})
from syndicated_client import Client, InputError
with Client({url!r}, {key!r}, timeout=300, patience=600) as client:
    client.create("shop", {{"features": {{"kind": "vector", "dim": 2}}}})
    answer = client.decide("shop", [{{"id": "tea", "x": [1, 0]}}, {{"id": "coffee", "x": [0, 1]}}], event_id="first")
    outcome = client.reward_now("shop", answer, 1.0)
    try:
        client.decide("shop", ["tea"], ids=["tea"])
    except InputError as error:
        said = str(error)
print(json.dumps([answer.arm, outcome, said, sys.modules["syndicated_client"].__file__]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of its folder alone."""
    return built_wheel(CLIENT, tmp_path_factory.mktemp("client"))


def test_the_wheel_calls_a_live_service_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    with service(tmp_path / "journal.db") as server:
        code = CALL.format(wheel=str(wheel), url=server.url, key=server.key)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    arm, outcome, said, file = json.loads(done.stdout)
    assert (arm in ("tea", "coffee"), outcome) == (True, "learned")
    assert said == "ids need arms that are a table, an array of rows; got arms ['tea']"
    assert file.startswith(str(wheel))


def test_the_wheel_has_its_types_and_needs_two_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "syndicated_client/py.typed" in archive.namelist()
    assert [need.partition(">")[0] for need in PROJECT["dependencies"]] == ["httpx", "msgspec"]


@pytest.mark.parametrize("file", sorted((CLIENT / "syndicated_client").glob("*.py")), ids=lambda file: file.name)
def test_no_module_of_the_client_imports_syndicated(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert [name for name in names if name.partition(".")[0] == "syndicated"] == []


def test_syndicated_client_is_re_exported() -> None:
    names = syndicated_client.__all__
    assert syndicated.client.__all__ == names
    assert [name for name in names if getattr(syndicated.client, name) is not getattr(syndicated_client, name)] == []


def test_the_versions_are_the_same() -> None:
    assert PROJECT["version"] == syndicated.__version__
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["client"]
    major, minor, _ = syndicated.__version__.split(".")
    assert needs == [f"syndicated-client>={major}.{minor},<{major}.{int(minor) + 1}"]


WRONG = [
    ("np.array([[1e39]])", "features must be finite; arm 0, feature 0 is inf"),
    ("np.ones(2)", "the arms must have shape (K, 2) with K >= 1; got shape (2,)"),
    ("np.array([['a']])", "the arms must be a table of numbers, one row an arm; got array([['a']], dtype='<U1')"),
]


@pytest.mark.parametrize(("table", "message"), WRONG)
def test_a_table_that_is_none_is_refused_in_one_line(table: str, message: str) -> None:
    with pytest.raises(syndicated_client.InputError, match=f"^{re.escape(message)}$"):
        syndicated_client.join_body({}, eval(table, {"np": np}))
