"""The first minutes on the command line: completion, a runnable example, and what is installed."""

import runpy
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from syndicated.cli import COMMANDS, doctor, main
from syndicated.cli.completion import completions


def _script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_completions_know_every_command_and_its_values() -> None:
    found = completions()
    assert list(found) == [name for name, *_ in COMMANDS]
    assert {"Consensus", "Theory"} <= set(found["run"].values["--tuner"])
    assert found["completion"].values[""] == ["bash", "zsh", "fish"]
    assert "--histories" in found["evaluate"].options


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["syndicated", "eva"], ["evaluate"]),
        (["syndicated", "run", "--policy", "LinT"], ["LinTS"]),
        (["syndicated", "evaluate", "--hist"], ["--histories"]),
        (["syndicated", "completion", "z"], ["zsh"]),
        (["syndicated", "evaluate", "log.cs"], ["log.csv"]),
    ],
)
def test_bash_completes(
    words: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text("")
    (tmp_path / "script").write_text(_script("bash", capsys))
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
    line = f'source ./script; {asked}; _syndicated; echo "${{COMPREPLY[@]}}"'
    ended = subprocess.run(["bash", "--norc", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (ended.stdout.split(), ended.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_that_they_can_read(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = _script(shell, capsys)
    for name, help_, *_ in COMMANDS:
        assert name in script
        assert shell == "zsh" or help_.replace("'", "") in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_the_quickstart_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart", str(tmp_path / "new")]) == 0
    file = tmp_path / "new" / "first_agent.py"
    assert capsys.readouterr().out == f"{file}\nRun it: python {file}\n"
    runpy.run_path(str(file), run_name="__main__")
    shown = capsys.readouterr().out
    assert "for the young, after a restart: sports" in shown
    assert "for the old, after a restart: politics" in shown
    assert main(["quickstart", str(tmp_path / "new")]) == 2
    assert "must have no first_agent.py, which would be written over" in capsys.readouterr().err


def test_the_doctor_says_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_extras", lambda: {"one": ["numpy", "no-such-package"], "two": ["numpy"]})
    assert main(["doctor", "--offline"]) == 0
    shown = capsys.readouterr().out
    assert sys.executable in shown
    assert "lacks no-such-package: pip install 'syndicated[one]'" in shown
    assert "kernels in the cache" in shown
    assert "reachable" not in shown


def test_the_doctor_says_what_is_reachable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "rows.csv").write_text("1\n" * 500_000)
    monkeypatch.setattr("syndicated.datasets.movielens.cache", lambda: tmp_path)
    monkeypatch.setattr(doctor, "_compiled", lambda: iter(()))
    for code, expected in ((0, "yes"), (1, "no: data sets"), (None, "no answer")):

        def run(command: list[str], code: int | None = code, **options: object) -> subprocess.CompletedProcess[str]:
            if code is None:
                raise subprocess.TimeoutExpired(command, 1)
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr("syndicated.cli.doctor.subprocess.run", run)
        assert main(["doctor", "--url", "http://127.0.0.1:9"]) == 0
        shown = capsys.readouterr().out
        assert f"package index            {expected}" in shown
        assert "http://127.0.0.1:9: [Errno" in shown
        assert "1.0 MB" in shown


def test_a_package_that_is_not_installed_has_no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", missing)
    assert doctor._extras() == {}
    monkeypatch.setattr(doctor, "requires", lambda name: ["rich>=13; extra == 'experiments'", "numpy>=2"])
    assert doctor._extras() == {"experiments": ["rich"]}
