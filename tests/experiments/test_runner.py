"""The simulation of one task, and the runner: paired, restartable, and no failure is swallowed."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import FAILING_EXPERIMENT, SMALL, timeless

from syndicated import Agent, LinUCB, Space, TaskError, TwoLayer
from syndicated.environments import Linear
from syndicated.experiments import Task, collect, processes
from syndicated.experiments import _run as runner
from syndicated.experiments._executors import _groups, processes_for
from syndicated.experiments._experiment import world_key
from syndicated.streams import LOST, Stream

# A program that ends itself with kill -9 once three tasks are done.
SUICIDE = """
import os, signal, sys
from pathlib import Path
from syndicated.experiments import processes, run
sys.path.insert(0, {tests!r})
from support.experiments import SMALL

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
from support.experiments import SMALL
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
    file.write_text(text.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path / "tasks")))
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=600)


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


def test_a_task_that_is_not_watched_has_the_same_regret_and_nothing_else(tmp_path: Path) -> None:
    watched, blind = SMALL.tasks(), replace(SMALL, watched=False).tasks()
    assert not {task.key for task in watched} & {task.key for task in blind}
    for seen, unseen in zip(runner.run(watched, tmp_path), runner.run(blind, tmp_path), strict=True):
        assert (unseen["round"], unseen["regret"]) == (seen["round"], seen["regret"])
        assert unseen["trace"] == []
        assert np.isnan([unseen["warmup"], unseen["tuning"]]).all()


@pytest.mark.parametrize("delay", [0, 7])
def test_lost_rewards_are_never_learned_and_are_those_of_the_same_rounds(delay: int) -> None:
    world, horizon = Linear(dim=3, arms=5), 60
    agent, twin = (Agent(LinUCB(dim=3), seed=2) for _ in range(2))
    expected, played = [], []
    for t, each in enumerate(world.rounds(5, horizon)):
        decision = twin.decide(each.arms)
        expected.append(each.regret(decision))
        played.append((decision, each.reward(decision)))
        if t >= delay and Stream(5, LOST, t - delay).uniforms(1)[0] >= 0.4:
            twin.learn(*played[t - delay])
    assert runner.simulate(world, agent, horizon, 5, delay=delay, lost=0.4).tolist() == expected
    assert agent.open == twin.open > delay


def test_the_runner_plays_with_lost_rewards(tmp_path: Path) -> None:
    whole, lossy = (runner.run(replace(SMALL, lost=lost).tasks(), tmp_path) for lost in (0.0, 0.5))
    assert [curve["regret"] for curve in whole] != [curve["regret"] for curve in lossy]


def test_the_runner_plays_with_the_delay(tmp_path: Path) -> None:
    prompt, late = (runner.run(replace(SMALL, delay=delay).tasks(), tmp_path) for delay in (0, 40))
    assert sum(curve["regret"][-1] for curve in late) > sum(curve["regret"][-1] for curve in prompt)


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


def test_kept_results_that_are_older_than_the_code_of_a_part_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = SMALL.tasks()
    runner.run(tasks, tmp_path)
    runner.run(tasks, tmp_path)
    assert caplog.messages == []
    file = tmp_path / f"{tasks[0].key}.json"
    os.utime(file, (0, 0))
    runner.run(tasks, tmp_path)
    changed = [str(Path(*Path(said.removesuffix(" was changed")).parts[-2:])) for said in caplog.messages]
    assert changed == ["environments/simulation.py", "policies/linucb.py", "tuners/twolayer.py"]
    assert caplog.messages[0].startswith(f"syndicated: 1 of 9 results are kept ones in {tmp_path}, from before ")


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
        runner.run(FAILING_EXPERIMENT.tasks(), tmp_path, executor)
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


@pytest.mark.parametrize(("given", "seen"), [(None, "1"), ("3", "3")])
def test_processes_have_one_thread_for_linear_algebra_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, seen: str
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    found = dict(processes_for(os.getenv, 2)(["OPENBLAS_NUM_THREADS", "PATH"]))  # type: ignore[type-var]
    assert found == {"OPENBLAS_NUM_THREADS": seen, "PATH": os.environ["PATH"]}
    assert os.getenv("OPENBLAS_NUM_THREADS") == given


def test_tasks_of_one_world_share_its_rounds_and_give_what_each_gives_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [*SMALL.tasks(), *replace(SMALL, horizon=SMALL.horizon // 2).tasks()]
    together = timeless([runner.run_task(task) for task in tasks])
    assert runner._rounds(tasks[-1]) is runner._rounds(tasks[-1])
    monkeypatch.setattr(runner, "MAX_KEPT_NUMBERS", 0)
    runner._kept_rounds.clear()
    assert timeless([runner.run_task(task) for task in tasks]) == together
    assert not runner._kept_rounds


def test_tasks_of_one_world_go_to_one_process_unless_they_are_few() -> None:
    few, many = SMALL.tasks(), replace(SMALL, repeats=32).tasks()
    assert list(_groups(few, world_key, jobs=2)) == [[task] for task in few]
    groups = list(_groups(many, world_key, jobs=2))
    assert [task for group in groups for task in group] == many
    assert [{task.seed for task in group} for group in groups] == [{SMALL.seed + n} for n in range(32)]
