"""The loop, the runner, and what the results support."""

import csv
import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from syndicated import SGDTS, Agent, InputError, LinUCB, Space, TaskError, TwoLayer
from syndicated.environments import Linear
from syndicated.environments.movielens import factors
from syndicated.experiments import Experiment, Result, Run, Task, collect, processes, summary, write_table
from syndicated.experiments import _plots as plots
from syndicated.experiments import _run as runner
from syndicated.experiments._experiment import RESULTS_VERSION
from syndicated.experiments._results import COLUMNS, check_published, interval
from syndicated.experiments.paper import _experiments as paper
from syndicated.policies import POLICIES
from syndicated.spec import Spec

SMALL = Experiment(
    name="small",
    title="a small one",
    environment={"name": "Linear", "dim": 3, "arms": 5},
    policy={"name": "LinUCB", "dim": 3},
    tuners={
        "TL": {"name": "TwoLayer", "space": {"alpha": [0.1, 1]}},
        "Theory": {"name": "Theory"},
        "Corral": {"name": "Corral", "space": {"alpha": [0.1, 1]}},
    },
    horizon=50,
    repeats=3,
)
NEVER_FITS = replace(
    SMALL, name="never", policy={"name": "UCBGLM", "dim": 3}, environment={"name": "Linear", "dim": 3, "noise": 9}
)

# A program that ends itself with kill -9 once three tasks are done.
SUICIDE = """
import os, signal, sys
from pathlib import Path
from syndicated.experiments import processes, run
sys.path.insert(0, {tests!r})
from test_experiments import SMALL

def main():
    finished = []
    def done(task):
        finished.append(task)
        if len(finished) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    run(SMALL.tasks(), Path({folder!r}), processes(2), done)

if __name__ == "__main__":
    main()
"""

# A program in whose world a worker process dies.
MURDER = """
import os, signal, sys
from pathlib import Path
from syndicated.environments import ENVIRONMENTS, Linear
from syndicated.experiments import processes, run
sys.path.insert(0, {tests!r})
from test_experiments import SMALL
from dataclasses import replace

class Deadly(Linear):
    def rounds(self, seed, horizon):
        os.kill(os.getpid(), signal.SIGKILL)

ENVIRONMENTS.built_in["Deadly"] = Deadly
if __name__ == "__main__":
    run(replace(SMALL, environment={{"name": "Deadly", "dim": 3}}).tasks(), Path({folder!r}), processes(2))
"""


def script(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "program.py"
    file.write_text(text.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "tasks")))
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)


def timeless(curves: list[runner.Curve]) -> list[runner.Curve]:
    """Curves without the time they took, the one thing in them that may differ between runs."""
    return [{**curve, "seconds": 0.0} for curve in curves]


def test_the_loop_measures_what_the_best_arm_would_have_earned_more() -> None:
    world, horizon = Linear(dim=3, arms=4), 20
    agent, twin = (Agent(LinUCB(dim=3), TwoLayer(Space(alpha=[0.1, 1])), seed=5) for _ in range(2))
    expected = []
    for each in world.rounds(5, horizon):
        decision = twin.decide(each.arms)
        twin.learn(decision, float(each.rewards[decision.arm]))
        expected.append(max(each.means) - each.means[decision.arm])
    assert runner.simulate(world, agent, horizon, 5).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("delay", [1, 7, 100])
def test_a_delayed_reward_is_learned_after_so_many_more_decisions(delay: int) -> None:
    world, horizon = Linear(dim=3, arms=4), 20
    agent, twin = (Agent(LinUCB(dim=3), TwoLayer(Space(alpha=[0.1, 1])), seed=5) for _ in range(2))
    decisions, rewards, expected = [], [], []
    for each in world.rounds(5, horizon):
        decisions.append(twin.decide(each.arms))
        rewards.append(float(each.rewards[decisions[-1].arm]))
        expected.append(max(each.means) - each.means[decisions[-1].arm])
        if len(decisions) > delay:
            twin.learn(decisions[-1 - delay], rewards[-1 - delay])
    assert runner.simulate(world, agent, horizon, 5, delay=delay).tolist() == pytest.approx(expected)
    assert agent.open == twin.open == min(delay, horizon)


def test_a_delay_is_another_task_and_no_delay_is_the_same_as_ever() -> None:
    late = replace(SMALL, delay=5)
    assert {task.delay for task in late.tasks()} == {5}
    assert not {task.key for task in SMALL.tasks()} & {task.key for task in late.tasks()}
    first = SMALL.tasks()[0]
    names = ("environment", "policy", "tuner", "horizon", "seed")
    text = json.dumps({"version": RESULTS_VERSION, **{name: getattr(first, name) for name in names}})
    assert first.key == hashlib.sha256(text.encode()).hexdigest()[:24]


def test_a_task_that_is_not_watched_has_the_same_regret_and_nothing_else(tmp_path: Path) -> None:
    watched, blind = SMALL.tasks(), replace(SMALL, watched=False).tasks()
    assert not {task.key for task in watched} & {task.key for task in blind}
    for seen, unseen in zip(runner.run(watched, tmp_path), runner.run(blind, tmp_path), strict=True):
        assert (unseen["round"], unseen["regret"]) == (seen["round"], seen["regret"])
        assert unseen["trace"] == []
        assert np.isnan([unseen["warmup"], unseen["tuning"]]).all()


def test_the_runner_plays_with_the_delay(tmp_path: Path) -> None:
    prompt, late = (runner.run(replace(SMALL, delay=delay).tasks(), tmp_path) for delay in (0, 40))
    assert sum(curve["regret"][-1] for curve in late) > sum(curve["regret"][-1] for curve in prompt)


def test_tasks_pair_every_tuner_with_every_world() -> None:
    tasks = SMALL.tasks()
    assert len(tasks) == 9
    assert {task.seed for task in tasks if task.tuner_name == "TL"} == {1, 2, 3}
    assert len({task.key for task in tasks}) == 9


def test_tuners_get_the_experiments_horizon_unless_they_say_their_own() -> None:
    own = {"name": "TwoLayer", "space": {"alpha": [1]}, "horizon": 7}
    tasks = replace(SMALL, tuners={"own": own, "TL": SMALL.tuners["TL"]}).tasks()
    assert [task.tuner["horizon"] for task in tasks[:2]] == [7, 50]


def test_a_tuner_may_play_with_another_setting_of_the_policy() -> None:
    plain = {"name": "LinUCB", "dim": 3, "intercept": False}
    tasks = replace(SMALL, policies={"Theory": plain}).tasks()
    assert [task.policy for task in tasks[:3]] == [SMALL.policy, plain, SMALL.policy]
    same = [one.key == other.key for one, other in zip(tasks, SMALL.tasks(), strict=True)]
    assert same[:3] == [True, False, True]
    assert not tasks[1].agent().policy.intercept


class _Spacious(LinUCB):
    """A policy with a space of its own, which depends on how it was made."""

    @property
    def space(self) -> Space:
        return Space(alpha=[0.5, self.sigma])


def test_a_tuner_without_a_space_gets_the_policys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES.built_in, "Spacious", _Spacious)
    tuners: dict[str, Spec] = {"TL": {"name": "TwoLayer"}, "own": {"name": "TwoLayer", "space": {"alpha": [1]}}}
    policies = [{"name": "Spacious", "dim": 3, "sigma": sigma} for sigma in (0.25, 0.125)]
    one, other = (replace(SMALL, policy=policy, tuners=tuners).tasks() for policy in policies)
    assert [dict(point) for point in one[0].agent().tuner.points] == [{"alpha": 0.5}, {"alpha": 0.25}]
    assert [dict(point) for point in one[1].agent().tuner.points] == [{"alpha": 1.0}]
    assert one[0].tuner != other[0].tuner


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    one = runner.run(SMALL.tasks(), tmp_path / "one")
    assert timeless(runner.run(SMALL.tasks(), tmp_path / "two", processes(2))) == timeless(one)


def test_the_order_of_tuners_does_not_change_their_numbers(tmp_path: Path) -> None:
    backwards = replace(SMALL, tuners=dict(reversed(list(SMALL.tuners.items()))))
    one = collect(SMALL, runner.run(SMALL.tasks(), tmp_path / "one"))
    two = collect(backwards, runner.run(backwards.tasks(), tmp_path / "two"))
    assert all(np.array_equal(one.curves[label], two.curves[label]) for label in SMALL.tuners)


def test_a_finished_task_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = runner.run(SMALL.tasks()[:4], tmp_path)
    performed: list[Task] = []
    heard: list[Task] = []
    original = runner.run_task

    def counting(task: Task) -> runner.Curve:
        performed.append(task)
        return original(task)

    monkeypatch.setattr(runner, "run_task", counting)
    curves = runner.run(SMALL.tasks(), tmp_path, done=heard.append)
    assert performed == SMALL.tasks()[4:]
    assert len(heard) == len(SMALL.tasks())
    assert curves[:4] == first


def test_another_horizon_or_seed_is_another_task(tmp_path: Path) -> None:
    keys = {task.key for task in SMALL.tasks()}
    assert not keys & {task.key for task in replace(SMALL, horizon=51).tasks()}
    assert not keys & {task.key for task in replace(SMALL, seed=9).tasks()}
    assert keys == {task.key for task in replace(SMALL, title="another title").tasks()}


def test_a_run_ended_with_kill_9_goes_on_and_gives_the_same(tmp_path: Path) -> None:
    ended = script(tmp_path, SUICIDE)
    assert ended.returncode == -9
    kept = list((tmp_path / "tasks").glob("*.json"))
    assert 3 <= len(kept) < len(SMALL.tasks())
    for file in kept:
        json.loads(file.read_text())
    again = runner.run(SMALL.tasks(), tmp_path / "tasks", processes(2))
    assert timeless(again) == timeless(runner.run(SMALL.tasks(), tmp_path / "uninterrupted"))


def test_what_a_killed_writer_left_behind_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "tmpabc.part").write_text('{"round": [1, ')
    assert len(runner.run(SMALL.tasks(), tmp_path)) == 9


@pytest.mark.parametrize("executor", [runner.serial, processes(2)], ids=["serial", "processes"])
def test_an_error_names_its_task_and_keeps_what_was_done(tmp_path: Path, executor: runner.Executor) -> None:
    with pytest.raises(TaskError) as caught:
        runner.run(NEVER_FITS.tasks(), tmp_path, executor)
    message = str(caught.value)
    assert "never, tuner" in message
    assert "(seed " in message
    assert "must be between 0 and 1" in message
    assert "0 of 9 tasks are done" in message


def test_a_killed_worker_is_reported_not_swallowed(tmp_path: Path) -> None:
    ended = script(tmp_path, MURDER)
    assert ended.returncode == 1
    assert "a worker process was killed" in ended.stderr
    assert "0 of 9 tasks are done" in ended.stderr


def test_sizes_of_an_experiment_are_checked() -> None:
    with pytest.raises(InputError, match="repeats must be a whole number of at least 1; got 0"):
        replace(SMALL, repeats=0)
    with pytest.raises(InputError, match="horizon must be a whole number of at least 1; got -5"):
        replace(SMALL, horizon=-5)
    with pytest.raises(InputError, match="seed must be a whole number of at least 0; got -1"):
        replace(SMALL, seed=-1)
    with pytest.raises(InputError, match="delay must be a whole number of at least 0; got -1"):
        replace(SMALL, delay=-1)


def made_up(**finals: list[float]) -> Result:
    curves = {label: np.array([[0.0, value] for value in values]) for label, values in finals.items()}
    experiment = replace(SMALL, tuners={label: {"name": "Theory"} for label in finals}, published={"A": (10.0, 1.0)})
    zeros = {label: np.zeros_like(values) for label, values in curves.items()}
    return Result(experiment, np.array([1, 50]), curves, warmup=zeros, tuning=zeros, traces={}, seconds=0.0)


def test_the_summary_compares_world_by_world() -> None:
    rows = summary(made_up(A=[10, 20, 30], B=[12, 21, 33]))
    assert [row.tuner for row in rows] == ["A", "B"]
    assert rows[1].difference == pytest.approx(2.0)
    assert 1.0 <= rows[1].low <= 2.0 <= rows[1].high <= 3.0
    assert rows[0].std == pytest.approx(np.std([10, 20, 30]))
    assert rows[0].error == pytest.approx(np.std([10, 20, 30], ddof=1) / np.sqrt(3))
    assert (rows[0].published, rows[1].published) == ((10.0, 1.0), None)


@pytest.mark.parametrize(("n", "covered"), [(5, 0.93), (10, 0.95), (30, 0.95)])
def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says(n: int, covered: float) -> None:
    """Resampled means of 5 values cannot go far enough out for all of the 95%: 93% were measured over 2,000 samples."""
    rng = np.random.default_rng(0)
    ends = [interval(rng.normal(size=n)) for _ in range(1000)]
    assert np.mean([low <= 0 <= high for low, high in ends]) == pytest.approx(covered, abs=0.025)


def test_a_mean_of_five_varies_more_than_the_mean_of_all() -> None:
    check = check_published(made_up(A=list(range(50))))[0]
    narrow, wide = (high - low for low, high in (check.mean_interval, check.five_interval))
    assert wide / narrow == pytest.approx(np.sqrt(50 / 5), rel=0.1)


def test_the_tidy_table_has_a_row_for_every_kept_round(tmp_path: Path) -> None:
    tasks = SMALL.tasks()
    curves = runner.run(tasks, tmp_path)
    write_table(tmp_path / "all.csv", [Run(SMALL, tasks, curves)])
    rows = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 9 * 50
    assert float(rows[-1]["regret"]) == curves[-1]["regret"][-1]


def test_a_line_is_a_mean_with_its_band() -> None:
    drawn = plots.line("A", np.array([1, 2]), np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert drawn.mean.tolist() == [2.0, 4.0]
    assert (drawn.high - drawn.mean).tolist() == pytest.approx([1.96 * 1.0, 1.96 * 2.0])


def test_grid_lines_are_ordered_by_alpha_beside_theory() -> None:
    made = made_up(**{"alpha=10.0": [7.0, 7.0], "alpha=2.0": [5.0, 6.0], "Theory": [1.0, 2.0]})
    fixed, theory = plots.grid_lines(made)
    assert fixed.x.tolist() == [2.0, 10.0]
    assert fixed.mean.tolist() == [5.5, 7.0]
    assert theory.mean.tolist() == [1.5, 1.5]


@pytest.mark.parametrize(("panels", "shown"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (6, (2, 3))])
def test_panels_stand_in_rows_of_three_at_most(panels: int, shown: tuple[int, int]) -> None:
    figure = plots.draw_regret([made_up(A=[10, 20, 30], B=[12, 21, 33])] * panels)
    grid = figure.axes[0].get_subplotspec().get_gridspec()  # type: ignore[union-attr]
    assert (grid.nrows, grid.ncols) == shown
    assert sum(ax.get_visible() for ax in figure.axes) == panels


@pytest.mark.parametrize("panels", [1, 2, 3, 6])
def test_the_legend_of_all_methods_fits_into_the_figure(panels: int) -> None:
    figure = plots.draw_regret([made_up(**{label: [10.0, 20.0] for label in paper.FIGURE2[0].tuners})] * panels)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width


def test_figures_are_written_twice_and_are_reproducible(tmp_path: Path) -> None:
    results = [made_up(A=[10, 20, 30], B=[12, 21, 33])]
    files = [plots.save_figure(plots.draw_regret(results), tmp_path / name) for name in ("one", "two")]
    assert [file.suffix for file in files[0]] == [".png", ".svg"]
    assert files[0][1].read_bytes() == files[1][1].read_bytes()


def test_the_papers_experiments_have_the_papers_sizes() -> None:
    assert [len(e.tasks()) for e in paper.TABLE1] == [22 * 5] * 4
    assert [len(e.tasks()) for e in paper.FIGURE2] == [7 * 10] * 6
    assert [len(e.tasks()) for e in paper.FIGURE3] == [6 * 10] * 2
    for experiment in [*paper.TABLE1, *paper.FIGURE2, *paper.FIGURE3]:
        assert experiment.horizon == 10_000
        assert experiment.policy["intercept"] is False
        movies = experiment.environment["name"] == "MovieLens"
        for task in experiment.tasks()[: len(experiment.tuners)]:
            world, policy = task.world(), task.agent().policy
            assert world.arms == (1_000 if movies else 100)
            assert policy.dim == world.dim == (20 if movies else 5 if "table1" in experiment.name else 10)
            assert not isinstance(policy, SGDTS) or policy.period == (200 if movies else 100)


def test_theory_knows_the_length_of_the_movies_features() -> None:
    longest = np.linalg.norm(factors(20)[1], axis=1).max()
    lengths = {e.policy["L"] for e in paper.FIGURE2 if e.environment["name"] == "MovieLens"}
    assert list(lengths) == [pytest.approx(longest, abs=5e-5)]
