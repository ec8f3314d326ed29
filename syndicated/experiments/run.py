"""The one loop, and the one runner: parallel, restartable, and it never swallows a failure.

Every finished task is a file of its own, written whole or not at all. What has a file is not run again, so a run that
was ended, by whatever means, goes on where it stood.
"""

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from syndicated.agent import Agent
from syndicated.environments import Environment
from syndicated.errors import TaskError
from syndicated.experiments.experiment import Task
from syndicated.types import Array

POINTS = 200  # how many rounds of a regret curve are kept

Curve = dict[str, list[float]]


def play(environment: Environment, agent: Agent, horizon: int, seed: int) -> Array:
    """Cumulative regret, round by round: the best mean reward minus the played arm's."""
    regret = np.zeros(horizon)
    for t, world in enumerate(environment.rounds(seed, horizon)):
        decision = agent.decide(world.X)
        agent.learn(decision, world.rewards[decision.arm])
        regret[t] = world.means.max() - world.means[decision.arm]
    return np.cumsum(regret)


def perform(task: Task) -> Curve:
    """The task's regret curve; a failure names the task."""
    try:
        regret = play(task.world(), task.agent(), task.horizon, task.seed)
    except Exception as error:
        raise TaskError(f"{task} failed: {type(error).__name__}: {error}") from error
    rounds = np.unique(np.linspace(1, task.horizon, min(POINTS, task.horizon)).round().astype(int))
    return {"round": rounds.tolist(), "regret": regret[rounds - 1].tolist()}


def run(
    tasks: Sequence[Task], folder: Path, jobs: int = 1, done: Callable[[Task], None] = lambda task: None
) -> list[Curve]:
    """The curve of every task, computed on `jobs` processes unless the folder has it; `done` hears of each."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [task for task in tasks if not _file(folder, task).exists()]
    for task in tasks:
        if task not in missing:
            done(task)
    left = len(missing)
    try:
        for task, curve in _here(missing) if jobs == 1 else _processes(missing, jobs):
            write(_file(folder, task), json.dumps(curve))
            left -= 1
            done(task)
    except TaskError as error:
        kept = f"{len(tasks) - left} of {len(tasks)} tasks are done and kept; the same command goes on from there"
        raise TaskError(f"{error} ({kept})") from error
    return [json.loads(_file(folder, task).read_text()) for task in tasks]


def _file(folder: Path, task: Task) -> Path:
    return folder / f"{task.key}.json"


def write(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part", delete=False) as part:
        part.write(text)
    os.replace(part.name, file)


def _here(tasks: Sequence[Task]) -> Iterator[tuple[Task, Curve]]:
    for task in tasks:
        yield task, perform(task)


def _processes(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, Curve]]:
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_serve)
    try:
        futures = {pool.submit(perform, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise TaskError("a worker process was killed") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _serve() -> None:
    """A worker leaves interrupts to its parent, and ends when the parent does, also by kill -9."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[parent_process()], daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
