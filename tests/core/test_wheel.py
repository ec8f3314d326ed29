"""What the index will have: the wheel decides where only it and the packages that it requires are installed."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.wheels import built_wheel

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = [need.partition(">")[0] for need in PROJECT["dependencies"]]
# Every package that is installed here and that a base installation has not, is hidden.
FIRST_EXAMPLE = f"""
import doctest, sys
from importlib.metadata import packages_distributions
for name, owners in packages_distributions().items():
    if not {{"llvmlite", *{BASE!r}}} & set(owners):
        sys.modules[name] = None
sys.modules.pop("syndicated", None)
sys.path.insert(0, sys.argv[1])
done = doctest.testfile(sys.argv[2], module_relative=False)
assert done.attempted and not done.failed
print(sys.modules["syndicated"].__version__, sys.modules["syndicated"].__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_readme_s_first_example_runs_from_the_wheel_with_nothing_but_what_it_requires(wheel: Path) -> None:
    """Not compiled, which would take most of a minute: that a kernel compiles is tested elsewhere."""
    python = [sys.executable, "-I", "-W", "ignore::RuntimeWarning"]
    command = [*python, "-c", FIRST_EXAMPLE, str(wheel), str(ROOT / "README.md")]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=wheel.parent, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    version, file = done.stdout.split()
    assert (version, Path(file).parents[1]) == (PROJECT["version"], wheel)


def test_a_folder_with_the_package_s_name_does_not_hide_it(tmp_path: Path) -> None:
    """Such as the checkout itself, seen from the folder it was cloned into."""
    (tmp_path / "syndicated").mkdir()
    command = [sys.executable, "-c", "from syndicated import Agent"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
