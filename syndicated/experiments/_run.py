"""Run experiments: the simulation of one task, and the runner of many.

The runner can be interrupted at any time. Every task that an executor has given back is a file of its own, written
whole or not at all, and a task that has a file is not run again. A failed task ends the run; its error is never
swallowed.
"""

import json
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np

from syndicated._files import write
from syndicated._series import evenly_spaced
from syndicated._validation import check_number
from syndicated.agent import Agent
from syndicated.environments import Environment, Round
from syndicated.errors import TaskError
from syndicated.experiments._experiment import Experiment, Task, source_files, world_key
from syndicated.experiments._watch import Watch
from syndicated.streams import LOST, Stream
from syndicated.types import Arms, Array, Decision

log = logging.getLogger("syndicated")

MAX_CURVE_ROUNDS = 200  # rounds of a curve that are kept
MAX_KEPT_NUMBERS = 3 * 10**7  # of a world whose rounds are kept: 240 MB
_kept_rounds: dict[str, list[Round]] = {}


class Curve(TypedDict):
    """What is kept of a task, at up to `MAX_CURVE_ROUNDS` rounds: cumulative regret, its parts, the tuner's
    probabilities.

    Of a task that was not watched, the parts are NaN, and there are no probabilities.
    """

    round: list[int]
    regret: list[float]
    warmup: list[float]
    tuning: list[float]
    trace: list[list[list[float]]]
    seconds: float


class KeyedTask(Protocol):
    """What can be run and kept: tasks with equal keys have equal results."""

    @property
    def key(self) -> str: ...


AnyTask = TypeVar("AnyTask", bound=KeyedTask)
Outcome = TypeVar("Outcome")
ExecutorOf = Callable[[Sequence[AnyTask]], Generator[tuple[AnyTask, Outcome], None, None]]
Executor = ExecutorOf[Task, Curve]


class Run(NamedTuple):
    """An experiment that has been run, with its tasks and their curves."""

    experiment: Experiment
    tasks: list[Task]
    curves: list[Curve]


class Unrecorded:
    """An agent that plays in a task: it keeps no open decisions and nothing to plot, which would cost 2 µs a round."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._player, self._limits = agent, agent.player, agent.policy.rewards

    def decide(self, arms: Arms) -> Decision:
        decision = self._player.decide(arms, self._agent.round, self._agent.choice)
        self._agent.advance(decision.choice)
        return decision

    def learn(self, decision: Decision, reward: float) -> None:
        self._player.learn(decision, check_number("a reward of this policy", reward, *self._limits))


def simulate(
    environment: Environment,
    agent: Agent,
    horizon: int,
    seed: int,
    watch: Callable[[int, Round], None] | None = None,
    delay: int = 0,
    lost: float = 0.0,
) -> Array:
    """The regret of every round: the best mean reward minus the played arm's. `watch` sees each round beforehand.

    The reward of round t is learned after the decision of round t + delay, but for a share of `lost` ones.
    """
    return _play(environment.rounds(seed, horizon), agent, horizon, watch, delay, lost_rounds(seed, horizon, lost))


def lost_rounds(seed: int, horizon: int, share: float) -> frozenset[int]:
    """The rounds whose reward never comes."""
    return frozenset(t for t in range(horizon) if share and Stream(seed, LOST, t).uniforms(1)[0] < share)


def _play(
    rounds: Iterable[Round],
    agent: Agent | Unrecorded,
    horizon: int,
    watch: Callable[[int, Round], None] | None,
    delay: int,
    lost: frozenset[int],
) -> Array:
    regret = np.zeros(horizon)
    waiting: deque[tuple[Decision, float]] = deque()
    for t, world in enumerate(rounds):
        if watch:
            watch(t, world)
        decision = agent.decide(world.arms)
        waiting.append((decision, world.reward(decision)))
        if t >= delay:
            decided = waiting.popleft()
            if t - delay not in lost:
                agent.learn(*decided)
        regret[t] = world.regret(decision)
    return regret


def _rounds(task: Task) -> Iterable[Round]:
    """The rounds of a task's world, which are kept, if they are not too many: the next task often has the same."""
    key = world_key(task)
    if key not in _kept_rounds:
        _kept_rounds.clear()
        world = task.world()
        rounds = world.rounds(task.seed, task.horizon)
        of_an_arm = 2 + (world.dim if world.catalogue() is None else 1)  # what it pays, and its features or its number
        if max(world.arms, 1) * of_an_arm * task.horizon > MAX_KEPT_NUMBERS:
            return rounds
        _kept_rounds[key] = list(rounds)
    return _kept_rounds[key]


def run_task(task: Task) -> Curve:
    """The task's curve; a failure names the task."""
    started = time.process_time()
    kept = evenly_spaced(1, task.horizon, MAX_CURVE_ROUNDS)
    try:
        agent = task.agent()
        watch = Watch(agent, task.horizon, kept) if task.watched else None
        lost = lost_rounds(task.seed, task.horizon, task.lost)
        regret = _play(_rounds(task), Unrecorded(agent), task.horizon, watch, task.delay, lost)
    except Exception as error:
        raise TaskError(f"{task} failed: {type(error).__name__}: {error}") from error
    warmup, tuning = watch.split(regret) if watch else np.full((2, task.horizon), np.nan)
    return Curve(
        round=kept.tolist(),
        regret=np.cumsum(regret)[kept - 1].tolist(),
        warmup=warmup[kept - 1].tolist(),
        tuning=tuning[kept - 1].tolist(),
        trace=[axis.round(5).tolist() for axis in watch.trace] if watch else [],
        seconds=time.process_time() - started,
    )


def serial(tasks: Sequence[Task]) -> Generator[tuple[Task, Curve], None, None]:
    """The simplest executor: one task after the other, in this process."""
    for task in tasks:
        yield task, run_task(task)


def run(
    tasks: Sequence[Task],
    folder: str | Path,
    executor: Executor = serial,
    done: Callable[[Task], None] = lambda task: None,
) -> list[Curve]:
    """The curve of every task, computed by the executor unless the folder has it; `done` is called with each."""
    _warn_of_older(tasks, Path(folder))
    return run_tasks(tasks, folder, executor, done)


def _warn_of_older(tasks: Sequence[Task], folder: Path) -> None:
    """A result is kept under what the task is made of, not under the code: say where that was changed since."""
    older = Counter[Path]()
    for task in tasks:
        kept = _file(folder, task)
        if kept.exists():
            since = kept.stat().st_mtime
            older.update(source for source in source_files(task) if source.stat().st_mtime > since)
    for source, count in sorted(older.items()):
        what = f"{count} of {len(tasks)} results are kept ones in {folder}, from before {source} was changed"
        log.warning("syndicated: %s", what)


def run_tasks(
    tasks: Sequence[AnyTask],
    folder: str | Path,
    executor: ExecutorOf[AnyTask, Outcome],
    done: Callable[[AnyTask], None],
) -> list[Outcome]:
    """The outcome of every task of any kind; it must be JSON."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[str, AnyTask] = {}
    for task in tasks:
        if task.key in missing or _file(folder, task).exists():  # the same task may be there under two labels
            done(task)
        else:
            missing[task.key] = task
    left = len(missing)
    try:
        with closing(executor(list(missing.values()))) as finished:
            for task, outcome in finished:
                write(_file(folder, task), json.dumps(outcome))
                left -= 1
                done(task)
    except TaskError as error:
        kept = f"{len(tasks) - left} of {len(tasks)} tasks are done and kept; the same command goes on from there"
        raise TaskError(f"{error} ({kept})") from error
    return [json.loads(_file(folder, task).read_text()) for task in tasks]


def run_experiments(
    experiments: Sequence[Experiment],
    folder: str | Path,
    executor: Executor = serial,
    done: Callable[[Task], None] = lambda task: None,
) -> list[Run]:
    """Run all tasks of these experiments together. Mistakes in their specs are found before the first task runs."""
    tasks = [experiment.tasks() for experiment in experiments]
    for task in (task for own in tasks for task in own if task.repeat == 0):
        task.world()
        task.agent()
    curves = iter(run([task for own in tasks for task in own], folder, executor, done))
    return [Run(e, own, [next(curves) for _ in own]) for e, own in zip(experiments, tasks, strict=True)]


def _file(folder: Path, task: KeyedTask) -> Path:
    return folder / f"{task.key}.json"
