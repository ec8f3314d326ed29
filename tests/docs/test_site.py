"""The documentation site builds, with no broken link and no page outside the navigation."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """All but the writing of pages, which takes as long again: every page is read, and every link resolved."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "--quiet", "--builder", "dummy"]
    done = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {page.stem for page in (tmp_path / ".doctrees").glob("*.doctree")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= pages
