"""The command line: what it shows, what it writes, and one clear line for every mistake."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from syndicated import Agent, LinUCB
from syndicated.cli import main
from syndicated.environments import ENVIRONMENTS
from syndicated.policies import POLICIES
from syndicated.tuners import TUNERS

SMALL = ["--horizon", "60", "--repeats", "2", "--jobs", "1"]


def test_list_names_everything_registered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*POLICIES, *TUNERS, *ENVIRONMENTS])


EVERY_POLICY = [(policy, ["Consensus"]) for policy in POLICIES]


@pytest.mark.no_cover
@pytest.mark.parametrize(("policy", "tuners"), [*EVERY_POLICY, ("LinUCB", list(TUNERS))])
def test_run_plays_every_policy_and_every_tuner(policy: str, tuners: list[str], tmp_path: Path) -> None:
    world = "Logistic" if POLICIES[policy](dim=3).rewards == (0.0, 1.0) else "Linear"
    options = [option for name in tuners for option in ("--tuner", name)]
    size = ["--set", "environment.dim=3", "--set", "environment.arms=4", "--out", str(tmp_path)]
    epochs = ["--set", "policy.tau=5"] if policy == "SGDTS" else []
    assert main(["run", "--policy", policy, "--environment", world, *options, *size, *epochs, *SMALL]) == 0
    assert len((tmp_path / "run.csv").read_text().splitlines()) == 1 + len(tuners) * 2 * 60


def test_run_prints_the_table_and_writes_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--tuner", "Theory", "--tuner", "OP", "--out", str(tmp_path), *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "LinUCB in Linear: regret after 60 rounds, 2 repeats" in shown
    assert "95% interval" in shown
    assert all((tmp_path / f"run.{kind}").stat().st_size > 0 for kind in ("csv", "png", "svg"))


def test_without_a_tuner_plays_that_of_the_agent(tmp_path: Path) -> None:
    assert main(["run", "--out", str(tmp_path), *SMALL]) == 0
    assert f",{type(Agent(LinUCB(dim=10)).tuner).__name__}," in (tmp_path / "run.csv").read_text()
    assert main(["run", "--set", "alpha=0.1,1", "--out", str(tmp_path), *SMALL]) == 0
    assert ",Consensus," in (tmp_path / "run.csv").read_text()


def test_set_reaches_the_space_the_policy_the_tuner_and_the_world(tmp_path: Path) -> None:
    sets = ["alpha=0.1,1", "policy.intercept=false", "tuner.warmup=T^2/3", "environment.noise=0.5"]
    options = [part for pair in sets for part in ("--set", pair)]
    changed, plain = tmp_path / "changed", tmp_path / "plain"
    assert main(["run", "--tuner", "Syndicated", *options, "--out", str(changed), *SMALL]) == 0
    assert main(["run", "--tuner", "Syndicated", "--out", str(plain), *SMALL]) == 0
    for i in range(4):
        three = [part for j, pair in enumerate(sets) if j != i for part in ("--set", pair)]
        assert main(["run", "--tuner", "Syndicated", *three, "--out", str(tmp_path / str(i)), *SMALL]) == 0
        assert (tmp_path / str(i) / "run.csv").read_text() != (changed / "run.csv").read_text()


def test_rewards_may_be_late_or_lost(tmp_path: Path) -> None:
    given = {"prompt": [], "late": ["--delay", "30"], "lost": ["--lost", "0.5"]}
    for name, how in given.items():
        assert main(["run", *how, "--out", str(tmp_path / name), *SMALL]) == 0
    assert len({(tmp_path / name / "run.csv").read_text() for name in given}) == 3


def test_fixed_takes_one_value_a_hyper_parameter(tmp_path: Path) -> None:
    assert main(["run", "--tuner", "Fixed", "--set", "alpha=0.5", "--out", str(tmp_path), *SMALL]) == 0


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore:SGDTS plays")  # the horizon is tiny here
@pytest.mark.parametrize("what", ["table1", "figure2", "figure3"])
def test_reproduce_runs_every_experiment_of_the_paper(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--horizon", "20", "--repeats", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["reproduce", what, "--environment", "simulation", *small]) == 0
    shown = capsys.readouterr().out
    assert "regret after 20 rounds, 2 repeats" in shown
    assert ("357.21 (188.72)" in shown) == (what == "table1")
    assert ("the paper's numbers are after 10,000 rounds, ours after 20." in shown) == (what == "table1")
    assert (tmp_path / f"{what}.svg").exists()


def test_reproduce_can_be_limited_to_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--horizon", "20", "--repeats", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "figure2", "--environment", "simulation", "--policy", "lin-ts", *small]) == 0
    shown = capsys.readouterr().out
    assert "LinTS" in shown
    assert "LinUCB" not in shown


def test_reproduce_all_writes_tables_figures_and_the_report(tmp_path: Path) -> None:
    small = ["--horizon", "20", "--repeats", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["reproduce", "all", "--policy", "LinUCB", *small]) == 0
    page = (tmp_path / "report.html").read_text()
    panels = ("LinUCB, fixed features", "LinUCB, changing features", "LinUCB, simulation", "LinUCB, MovieLens")
    assert all(panel in page for panel in panels)
    assert all((tmp_path / name).exists() for name in ("all.csv", "table1.svg", "figure2.png"))
    assert not (tmp_path / "figure3.png").exists()


def test_a_second_run_repeats_nothing(tmp_path: Path) -> None:
    assert main(["run", "--out", str(tmp_path), *SMALL]) == 0
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "tasks").iterdir()}
    assert main(["run", "--out", str(tmp_path), *SMALL]) == 0
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "tasks").iterdir()}


MISTAKES = [
    (
        ["run", "--policy", "LinUBC"],
        f"no 'LinUBC' is registered; there are {', '.join(POLICIES)}",
    ),
    (
        ["run", "--tuner", "Magic"],
        f"no 'Magic' is registered; there are {', '.join(TUNERS)}",
    ),
    (["run", "--environment", "Mars"], "no 'Mars' is registered; there are Contexts, Linear, "),
    (["run", "--set", "alpha"], "--set takes NAME=VALUE"),
    (["run", "--set", "planet.x=1"], "--set takes NAME=VALUE"),
    (
        ["run", "--set", "gamma=1"],
        "LinUCB has the hyper-parameters alpha, lam, intercept, memory, boldness, alpha_multiple; got 'gamma'",
    ),
    (["run", "--set", "alpha=high"], "a candidate for 'alpha' must be a number; got 'high'"),
    (["run", "--set", "lam=-1"], "lam must be between 1e-12 and 1e+12; got -1"),
    (["run", "--set", "policy.depth=3"], "LinUCB has the parameters"),
    (["run", "--set", "environment.dim=0"], "dim must be a whole number of at least 1; got 0"),
    (
        ["run", "--tuner", "Syndicated", "--set", "tuner.warmup=T^9"],
        "warmup must be a number of rounds or one of T^2/3, T^4/7; got 'T^9'",
    ),
    (["run", "--tuner", "Fixed", "--set", "alpha=1,2"], "Fixed takes one value for each hyper-parameter"),
    (["run", "--repeats", "0"], "repeats must be a whole number of at least 1; got 0"),
    (["run", "--horizon", "-3"], "horizon must be a whole number of at least 1; got -3"),
    (["run", "--delay", "-1"], "delay must be a whole number of at least 0; got -1"),
    (["run", "--jobs", "0"], "jobs must be a whole number of at least 1; got 0"),
    (
        ["run", "--policy", "UCB-GLM", "--repeats", "1", "--jobs", "1", "--set", "environment.noise=9"],
        "must be between 0 and 1",
    ),
    (["scoreboard", "--world", "mars"], "the board has no world 'mars'; it has linucb-paper, "),
    (["scoreboard", "--tuner", "magic"], "the board has no tuner 'magic'; it has Default, Syndicated, "),
    (
        ["reproduce", "figure2", "--policy", "SGD-TS"],
        "figure2 has no such panel; it has LinUCB, simulation; LinTS, simulation",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("syndicated: ")
    assert message in line


@pytest.mark.parametrize("arguments", [[], ["dance"], ["reproduce", "table9"], ["run", "--repeats", "many"]])
def test_the_parsers_own_errors_are_one_line_too(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["run", "--out", str(tmp_path / "file"), *SMALL]) == 2
    assert "Not a directory" in capsys.readouterr().err


def test_a_pipe_that_nobody_reads_any_more_ends_a_command_without_a_word() -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([sys.executable, "-m", "syndicated", "list"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.count("  syndicated ") >= 6
