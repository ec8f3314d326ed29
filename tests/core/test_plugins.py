"""Classes of other packages: small ones are built, installed by pip, and used by name wherever a name is taken.

The good package is the one of docs/extending.md, with a policy and an environment beside its tuner.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.live_service import service

from syndicated import Agent, InputError, StateError, TaskError
from syndicated.checks import ENVIRONMENT_CHECKS, POLICY_CHECKS, TUNER_CHECKS, on_space
from syndicated.cli import main
from syndicated.client import Client
from syndicated.environments import ENVIRONMENTS
from syndicated.experiments import Experiment
from syndicated.experiments import _executors as executors
from syndicated.experiments.scoreboard import choose
from syndicated.policies import POLICIES
from syndicated.registry import Registry, find
from syndicated.service import create_app
from syndicated.spec import build, spec_of
from syndicated.store import SQLite
from syndicated.tuners import TUNERS, Syndicated

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
REGISTRIES: list[Registry[Any]] = [POLICIES, TUNERS, ENVIRONMENTS]

POLICY = '''
from dataclasses import dataclass, field

import numpy as np

from syndicated import Space
from syndicated.policies import Policy
from syndicated.types import Array


@dataclass(kw_only=True, eq=False)
class ShakenRidge(Policy):
    """Ridge regression, its estimate shaken: argmax_a x_a'(theta + alpha z) with z ~ N(0, I)."""

    hyper = {"alpha": (0.0, 1e6), "lam": (1e-6, 1e6)}
    V: Array = field(init=False, repr=False)
    b: Array = field(init=False, repr=False)

    def __post_init__(self):
        super().__post_init__()
        self.V, self.b = np.zeros((self.size, self.size)), np.zeros(self.size)

    @property
    def space(self):
        return Space(alpha=[0.03, 0.1], lam=[0.1, 1.0])

    def theory(self, t, given):
        return {"alpha": 0.1, "lam": 1.0, **given}

    def scores(self, arms, points, rng):
        z = rng.normals(self.size)
        return np.stack([self._dot(arms, self._theta(point) + point["alpha"] * z) for point in points])

    def predict(self, arms, params):
        return self._dot(arms, self._theta(params))

    def learn(self, x, reward, params):
        column = self.columns(x[None])[:, 0]
        self.V += np.outer(column, column)
        self.b += reward * column

    def _theta(self, params):
        return np.linalg.solve(self.V + params["lam"] * np.eye(self.size), self.b)

    def _dot(self, arms, theta):
        return (self.columns(arms) * theta[:, None]).sum(axis=0)
'''

ENVIRONMENT = '''
from dataclasses import dataclass

from syndicated.environments import Linear


@dataclass(frozen=True, kw_only=True)
class Loud(Linear):
    """A linear world of four arms with much noise."""

    dim: int = 3
    arms: int = 4
    noise: float = 0.4
'''


def _template() -> dict[str, Any]:
    """The project of the page."""
    (text,) = re.findall(r"^```toml\n# pyproject.toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return tomllib.loads(text)


def _tuner() -> str:
    (text,) = re.findall(r"^```python\n# syndicated/tuners/exp3ix.py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(text).replace("from syndicated.tuners.base import", "from syndicated.tuners import")


def _wheel(folder: Path, project: Mapping[str, Any], files: Mapping[str, str]) -> Path:
    """What building the project gives, written here: a build would fetch its tools."""
    name, version = project["name"].replace("-", "_"), project["version"]
    points = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in offers.items())
        for group, offers in project["entry-points"].items()
    ]
    about = f"{name}-{version}.dist-info"
    contents = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "\n".join(points),
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in contents.items())
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**contents, f"{about}/RECORD": f"{record}{about}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return file


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _pip_install(target: Path, *wheels: Path) -> Path:
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *map(str, wheels)], check=True)
    return target


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of the page installed in it."""
    project, folder = _template()["project"], tmp_path_factory.mktemp("acme")
    project["entry-points"] |= {
        "syndicated.policies": {"ShakenRidge": "acme_bandits.policy:ShakenRidge"},
        "syndicated.environments": {"Loud": "acme_bandits.environment:Loud"},
    }
    sources = {"__init__": "", "exp3ix": _tuner(), "policy": POLICY, "environment": ENVIRONMENT}
    files = {f"acme_bandits/{module}.py": text for module, text in sources.items()}
    return _pip_install(folder / "site", _wheel(folder, project, files))


def _bad(folder: Path, name: str, entry_point: str, module: str = "", group: str = "policies") -> Path:
    """A package of one module with one entry point."""
    key, _, value = entry_point.partition(" = ")
    project = {"name": name, "version": "2.0", "entry-points": {f"syndicated.{group}": {key: value}}}
    return _wheel(folder, project, {f"{name.replace('-', '_')}.py": module})


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages in it that offer what cannot be had, and a good one."""
    folder = tmp_path_factory.mktemp("bad")
    return _pip_install(
        folder / "site",
        _bad(folder, "broken-bandits", "Broken = broken_bandits:Broken", "import no_such_module\n"),
        _bad(folder, "loud-bandits", "Raising = loud_bandits:Raising", "raise RuntimeError('two\\nlines')\n"),
        _bad(folder, "missing-bandits", "Missing = missing_bandits:Missing"),
        _bad(folder, "number-bandits", "Number = number_bandits:Number", "Number = 7\n"),
        _bad(folder, "other-bandits", "Other = syndicated.tuners:Uniform"),
        _bad(folder, "base-bandits", "Policy = syndicated.policies:Policy"),
        _bad(folder, "alias-bandits", "Alias = syndicated.policies:LinUCB"),
        _bad(folder, "taken-bandits", "lin_ucb = taken_bandits:nothing", "raise SystemExit\n"),
        _bad(folder, "first-bandits", "Twin = first_bandits:Twin"),
        _bad(folder, "second-bandits", "TWIN = second_bandits:TWIN"),
        _bad(folder, "good-bandits", "Good = good_bandits:Good", POLICY.replace("ShakenRidge", "Good")),
    )


def _forget() -> None:
    """As in a new process: what is installed is not known yet."""
    for registry in REGISTRIES:
        registry._loaded.clear()
        for name in ("_entry_points", "_plugins"):
            vars(registry).pop(name, None)


@pytest.fixture
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One of the folders on the path of this process, and of those that it starts."""
    folder: Path = request.getfixturevalue(request.param)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))
    _forget()
    yield folder
    _forget()


with_acme = pytest.mark.parametrize("installed", ["acme"], indirect=True)
with_bad = pytest.mark.parametrize("installed", ["bad"], indirect=True)

# In specs.


@with_acme
@pytest.mark.parametrize(
    ("registry", "name"),
    [(POLICIES, "ShakenRidge"), (TUNERS, "EXP3IX"), (ENVIRONMENTS, "Loud")],
    ids=["policy", "tuner", "world"],
)
def test_a_class_of_another_package_is_found_by_its_name(installed: Path, registry: Registry[Any], name: str) -> None:
    assert find(registry, name.upper()).__name__ == name
    assert registry.package(name) == "acme-bandits 1.0"
    assert name in registry
    assert list(registry)[-1] == name
    assert len(registry) == len(list(registry)) == len(registry.built_in) + 1


@with_acme
def test_specs_round_trip_and_states_are_restored(installed: Path) -> None:
    policy = build(POLICIES, {"name": "shaken-ridge", "dim": 2})
    tuner = build(TUNERS, {"name": "EXP3IX", "space": {"alpha": [0.1, 1.0]}})
    assert spec_of(policy)["name"] == "ShakenRidge"
    assert spec_of(build(TUNERS, spec_of(tuner))) == spec_of(tuner)
    agent = Agent(policy, tuner, seed=1)
    agent.learn(agent.decide([[1.0, 0.0], [0.0, 1.0]]), 1.0)
    twin = Agent(policy.fresh(), tuner.fresh(), seed=1)
    twin.restore(agent.state())
    assert twin.state() == agent.state()
    with pytest.raises(StateError):
        Agent(policy.fresh(), Syndicated(policy.space), seed=1).restore(agent.state())


@with_acme
def test_the_checks_are_for_other_packages_too(installed: Path) -> None:
    for policy_check in POLICY_CHECKS:
        policy_check(POLICIES["ShakenRidge"])
    for tuner_check in TUNER_CHECKS:
        tuner_check(on_space(TUNERS["EXP3IX"]))
    for world_check in ENVIRONMENT_CHECKS:
        world_check(ENVIRONMENTS["Loud"])


@with_acme
def test_the_command_of_the_page_runs_the_checks(installed: Path) -> None:
    (command,) = re.findall(r'^python -c "(from acme_bandits.*)"$', PAGE, re.MULTILINE)
    subprocess.run([sys.executable, "-c", command], check=True)


# On the command line.


@with_acme
def test_the_list_shows_it_with_its_package(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^  ShakenRidge +Ridge regression, .* \(acme-bandits 1\.0\)$", shown.out, re.MULTILINE)
    assert re.search(r"^  EXP3IX +EXP3-IX over .* \(acme-bandits 1\.0\)$", shown.out, re.MULTILINE)
    assert re.search(r"^  Loud +A linear world .* \(acme-bandits 1\.0\)$", shown.out, re.MULTILINE)
    assert re.search(r"^  LinUCB +[^(]*$", shown.out, re.MULTILINE)
    assert shown.err == ""


RUN = ["run", "--policy", "ShakenRidge", "--tuner", "EXP3IX", "--environment", "Loud", "--horizon", "60"]


@with_acme
def test_runs_give_the_same_in_processes_and_on_dask(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for engine in ("processes", "dask"):
        arguments = [*RUN, "--repeats", "2", "--jobs", "2", "--engine", engine, "--out", str(tmp_path / engine)]
        assert main(arguments) == 0
        assert "ShakenRidge in Loud" in capsys.readouterr().out
    tables = [(tmp_path / engine / "run.csv").read_text() for engine in ("processes", "dask")]
    assert tables[0] == tables[1]
    assert "EXP3IX" in tables[0]


# In experiments.

EXPERIMENT = Experiment(
    "plugin", "A plug-in", {"name": "Loud"}, {"name": "ShakenRidge", "dim": 3}, {"A": {"name": "EXP3IX"}}, 40, 1
)


@with_acme
def test_another_version_of_a_plug_in_is_another_task(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = EXPERIMENT.tasks()
    before = task.key
    assert task.key == before
    monkeypatch.setattr(TUNERS, "package", lambda name: "acme-bandits 1.1")
    assert task.key != before


@with_acme
def test_only_plug_ins_add_their_version_to_the_key(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(EXPERIMENT, environment={"name": "Linear", "dim": 3}, policy={"name": "LinUCB", "dim": 3})
    (task,) = replace(plain, tuners={"A": {"name": "Theory"}}).tasks()
    assert task._plugins() == []
    assert EXPERIMENT.tasks()[0]._plugins() == ["acme-bandits 1.0"] * 3


def test_a_worker_without_the_package_says_what_is_missing(acme: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(acme)
        _forget()
        (task,) = EXPERIMENT.tasks()
        key = task.key
    _forget()
    with pytest.raises(InputError, match="no 'Loud' is registered"):
        executors._run_same_version(task, key)


@with_acme
def test_a_worker_with_another_version_of_the_package_is_refused(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = EXPERIMENT.tasks()
    key = task.key
    monkeypatch.setattr(TUNERS, "package", lambda name: "acme-bandits 1.1")
    with pytest.raises(TaskError, match=r"plugin, tuner A, .* a worker's version of syndicated or of a plug-in"):
        executors._run_same_version(task, key)


@with_acme
def test_a_tuner_joins_the_scoreboard_when_it_is_named(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--world", "range", "--tuner", "EXP3IX", "--horizon", "40", "--repeats", "2", "--jobs", "1"]
    assert main(["scoreboard", *where, "--out", str(tmp_path)]) == 0
    assert "EXP3IX" in capsys.readouterr().out
    assert "| EXP3IX |" in (tmp_path / "scoreboard.md").read_text()
    assert (tmp_path / "scoreboard.png").exists()
    (experiment,) = choose(["range"], ["EXP3IX"])["Harder, LinUCB with intercept"]
    assert experiment.tuners.keys() == {"Syndicated", "EXP3IX"}
    assert experiment.tuners["EXP3IX"] == {"name": "EXP3IX", "rewards": [-50, 200]}
    assert experiment.policies["EXP3IX"]["intercept"] is True


@with_acme
def test_the_board_has_no_guests_unless_they_are_named(installed: Path) -> None:
    assert not any("EXP3IX" in each.tuners for group in choose().values() for each in group)


# In the service.


@with_acme
def test_the_service_takes_it_and_comes_back_with_it(installed: Path, tmp_path: Path) -> None:
    file, spec = tmp_path / "journal.db", {"features": {"kind": "vector", "dim": 2}}
    spec |= {"policy": {"name": "ShakenRidge"}, "tuner": {"name": "EXP3IX"}}
    for start in range(2):
        with service(file) as server, Client(server.url, server.key) as client:
            if start == 0:
                client.create("b", spec)
            answer = client.decide("b", [{"id": "one", "x": [1.0, 0.0]}, {"id": "two", "x": [0.0, 1.0]}])
            assert client.reward_now("b", answer, 1.0) == "learned"
            assert client.get("b")["rewards"] == start + 1


# What is wrong with a package is said of that package, and of no other.


@with_bad
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Broken", r"of broken-bandits 2\.0 cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'$"),
        ("Raising", r"of loud-bandits 2\.0 cannot be loaded: RuntimeError: two lines$"),
        ("Missing", r"of missing-bandits 2\.0 cannot be loaded: AttributeError: .*'Missing'"),
        ("Number", r"of number-bandits 2\.0 must be a subclass of Policy; got 7$"),
        ("Other", r"of other-bandits 2\.0 must be a subclass of Policy; got <class .*Uniform'>$"),
        ("Policy", r"of base-bandits 2\.0 must be a subclass of Policy; got <class .*Policy'>$"),
        ("Alias", r"of alias-bandits 2\.0 must have the name of its class; got LinUCB$"),
        ("Twin", r"of second-bandits 2\.0 and of first-bandits 2\.0 cannot be told apart"),
    ],
)
def test_what_cannot_be_had_is_one_line_that_names_the_package(installed: Path, name: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^the policy '{name}' {reason}".replace("'Twin'", "'TWIN'")) as caught:
        find(POLICIES, name)
    assert "\n" not in str(caught.value)
    assert find(POLICIES, "good").__name__ == "Good"


@with_bad
def test_a_built_in_name_cannot_be_taken(installed: Path) -> None:
    assert find(POLICIES, "lin_ucb").__module__ == "syndicated.policies.linucb"
    assert "lin_ucb" not in POLICIES
    (reason,) = POLICIES.refused()
    assert reason == "the policy 'lin_ucb' of taken-bandits 2.0 is left out: LinUCB is built in"


@with_bad
def test_the_list_goes_on_behind_a_broken_plug_in(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^  Good .* \(good-bandits 2\.0\)$", shown.out, re.MULTILINE)
    assert all(name in shown.out for registry in REGISTRIES for name in registry.built_in)
    complaints = shown.err.splitlines()
    assert len(complaints) == 9
    assert all(line.startswith("syndicated: the policy '") for line in complaints)


@with_bad
def test_a_command_that_asks_for_a_broken_plug_in_ends_with_its_line(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--policy", "Broken"]) == 2
    assert capsys.readouterr().err.startswith("syndicated: the policy 'Broken' of broken-bandits 2.0 cannot be loaded:")


# Nobody pays for what is not used.


def test_a_built_in_name_is_found_without_a_look_at_what_is_installed() -> None:
    code = "import sys; from syndicated.registry import find; from syndicated.policies import POLICIES; "
    code += "find(POLICIES, 'ucb-glm'); print(vars(POLICIES).keys() & {'_entry_points', '_plugins'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_class_is_imported_when_it_is_asked_for(acme: Path) -> None:
    code = "import sys; from syndicated.tuners import TUNERS; names = list(TUNERS), TUNERS.package('exp3-ix'); "
    code += "before = 'acme_bandits' in sys.modules; TUNERS['EXP3IX']; print(before, 'acme_bandits' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(acme), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "False True\n"


@with_acme
def test_a_service_without_a_plug_in_that_it_needs_says_which(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    spec = {"features": {"kind": "vector", "dim": 2}, "tuner": {"name": "EXP3IX"}}
    with service(file) as server, Client(server.url, server.key) as client:
        client.create("b", spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [entry for entry in sys.path if entry != str(installed)])
        _forget()
        with closing(SQLite(file)) as store, pytest.raises(InputError, match="no 'EXP3IX' is registered"):
            create_app(store)
