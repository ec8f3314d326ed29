"""The example notebooks run from top to bottom, and are committed without outputs."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def _code(notebook: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["compare_tuners", "news_page"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_every_notebook_runs(notebook: Path) -> None:
    """Cell by cell, as a kernel does; what a cell would show is not compared."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(_code(notebook)):
        exec(compile("".join(cell["source"]), f"{notebook.name}, code cell {number}", "exec"), names)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_every_notebook_is_committed_without_outputs(notebook: Path) -> None:
    assert [cell for cell in _code(notebook) if cell["outputs"] or cell["execution_count"]] == []
