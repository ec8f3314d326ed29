"""The Dask executor: a scheduler and workers as processes of their own on loopback, some of them killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client
from numba.core.dispatcher import Dispatcher
from support.experiments import FAILING_EXPERIMENT, SMALL, timeless

from syndicated import InputError, TaskError
from syndicated._compiled import load_all
from syndicated.cli import main
from syndicated.experiments import Curve, Task, run, run_task
from syndicated.experiments import _executors as executors

PATIENCE = 600  # seconds after which what has hung fails; nothing here waits that long

RUN = ["run", "--horizon", "60", "--repeats", "2", "--jobs", "2"]


@dataclass
class Cluster:
    """A scheduler and its workers, each a process without a nanny: what is killed stays dead."""

    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    address: str = ""

    def start(self, program: str, *arguments: str, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", "--host", "127.0.0.1", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # so that it can import this file
        self.processes.append(subprocess.Popen(command, env=environment, stderr=stderr, text=True))
        return self.processes[-1]

    def start_scheduler(self) -> None:
        options = ["--port", "0", "--dashboard-address", "127.0.0.1:0"]
        scheduler = self.start("dask_scheduler", *options, stderr=subprocess.PIPE)
        assert scheduler.stderr is not None
        ends = threading.Timer(PATIENCE, scheduler.kill)
        ends.start()
        self.address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
        ends.cancel()

    def start_worker(self, threads: int) -> subprocess.Popen[str]:
        return self.start("dask_worker", "--no-nanny", "--no-dashboard", f"--nthreads={threads}", self.address)

    def end(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.communicate()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may answer late."""
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT", PATIENCE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One worker, of two threads, that outlives all tests here; what it loads is compiled before it starts."""
    load_all()
    cluster = Cluster()
    try:
        cluster.start_scheduler()
        cluster.start_worker(threads=2)
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Any]:
    """What the test itself asks the cluster with."""
    with Client(cluster.address, timeout=PATIENCE, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=PATIENCE)
        yield client


def lost_tasks(dask_scheduler: Any) -> int:
    return sum(prefix.suspicious for prefix in dask_scheduler.task_prefixes.values())


def known_tasks(dask_scheduler: Any) -> int:
    return len(dask_scheduler.tasks)


def kernels_compiled_anew() -> tuple[int, int]:
    """Of the kernels that this process has: loaded from the cache, and not found there."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("syndicated")]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
    hits, misses = ([getattr(k.stats, name) for k in found] for name in ("cache_hits", "cache_misses"))
    return sum(sum(hit.values()) for hit in hits), sum(sum(miss.values()) for miss in misses)


def die_in_process(pid: int, task: Task, key: str) -> Curve:
    """The task's curve, but in that process its death."""
    if os.getpid() == pid:
        os.kill(pid, signal.SIGKILL)
    return run_task(task)


def test_a_worker_killed_at_work_costs_a_retry_and_changes_nothing(
    cluster: Cluster, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = cluster.start_worker(threads=1)
    client.wait_for_workers(2, timeout=PATIENCE)
    before = client.run_on_scheduler(lost_tasks)
    monkeypatch.setattr(executors, "_run_same_version", partial(die_in_process, victim.pid))
    curves = run(SMALL.tasks(), tmp_path / "dask", executors.dask(1, cluster.address))
    assert victim.wait(timeout=PATIENCE) == -signal.SIGKILL
    assert client.run_on_scheduler(lost_tasks) > before
    assert timeless(curves) == timeless(run(SMALL.tasks(), tmp_path / "serial"))


def test_a_failed_run_names_its_task_and_leaves_nothing_on_the_cluster(
    cluster: Cluster, client: Any, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=r"never, tuner .* \(seed .* must be between 0 and 1.*0 of 9 tasks are done"):
        run(FAILING_EXPERIMENT.tasks(), tmp_path, executors.dask(1, cluster.address))
    deadline = time.monotonic() + PATIENCE
    while client.run_on_scheduler(known_tasks):
        assert time.monotonic() < deadline
    assert len(client.nthreads()) >= 1


def run_first_repeat_alone(task: Task, key: str) -> Curve:
    """The task's curve; later repeats never end."""
    if task.repeat:
        threading.Event().wait()
    return run_task(task)


def test_a_scheduler_lost_at_work_fails_the_run_and_keeps_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_run_same_version", run_first_repeat_alone)
    cluster = Cluster()
    try:
        cluster.start_scheduler()
        cluster.start_worker(threads=1)
        with pytest.raises(TaskError, match=r"connection to the Dask scheduler was lost \(\d of 9 tasks are done"):
            run(SMALL.tasks(), tmp_path, executors.dask(1, cluster.address), lambda task: cluster.processes[0].kill())
    finally:
        cluster.end()


def test_workers_load_the_kernels_that_are_compiled(cluster: Cluster, client: Any, tmp_path: Path) -> None:
    run(SMALL.tasks(), tmp_path, executors.dask(1, cluster.address))
    for loaded, compiled in client.run(kernels_compiled_anew).values():
        assert loaded > 0
        assert compiled == 0


def test_a_worker_of_another_version_is_refused() -> None:
    task = SMALL.tasks()[0]
    with pytest.raises(TaskError, match=r"small, tuner TL, repeat 0 .*worker's version of syndicated"):
        executors._run_same_version(task, "the key of another version")


# Where a task that kills its workers notes how often it did, and how often it will: the environment of the workers.
NOTES, DEATHS = "SYNDICATED_TEST_NOTES", "SYNDICATED_TEST_DEATHS"


def run_or_die(task: Task, key: str) -> Curve:
    notes = Path(os.environ[NOTES])
    deaths = len(list(notes.iterdir()))
    if deaths < int(os.environ[DEATHS]):
        (notes / str(deaths)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return run_task(task)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setenv(NOTES, str(notes))
    monkeypatch.setattr(executors, "_run_same_version", run_or_die)
    return notes


def test_a_task_lost_several_times_is_tried_again(notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a worker takes longer to start than Dask waits for it: here, not at all."""
    monkeypatch.setenv(DEATHS, "2")
    task = SMALL.tasks()[:1]
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0 s"}):
        curves = run(task, tmp_path / "dask", executors.dask(1))
    assert len(list(notes.iterdir())) == 2
    assert timeless(curves) == timeless(run(task, tmp_path / "serial"))


def test_a_task_that_always_kills_its_worker_fails_by_name(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEATHS, "100")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        pytest.raises(TaskError, match=r"small, tuner TL, repeat 0 .* failed: 2 workers died"),
    ):
        run(SMALL.tasks()[:1], tmp_path / "tasks", executors.dask(1))
    assert len(list(notes.iterdir())) == 2


def test_the_command_line_gives_the_same_table_with_every_engine(
    cluster: Cluster, client: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*RUN, "--out", str(tmp_path / "processes")]) == 0
    assert "dashboard" not in capsys.readouterr().err
    for workers, options in ((2, []), (len(client.nthreads()), ["--scheduler", cluster.address])):
        out = tmp_path / f"dask{len(options)}"
        assert main([*RUN, "--engine", "dask", *options, "--out", str(out)]) == 0
        shown = capsys.readouterr().err
        assert f"Dask with {workers} workers, dashboard at http://127.0.0.1:" in shown
        assert answers(shown) == bool(options)  # an own cluster ends with the run, another's does not
        assert (out / "run.csv").read_text() == (tmp_path / "processes" / "run.csv").read_text()


def answers(shown: str) -> bool:
    """Whether somebody listens at the dashboard's address."""
    port = int(shown.split("dashboard at http://127.0.0.1:")[1].split("/")[0])
    with socket.socket() as probe:
        probe.settimeout(PATIENCE)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_no_cluster_is_started_when_all_is_done(tmp_path: Path) -> None:
    first = run(SMALL.tasks(), tmp_path)
    assert run(SMALL.tasks(), tmp_path, executors.dask(2, "nowhere", say=pytest.fail)) == first


def last_line(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*RUN, *arguments, "--out", str(folder)]) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_a_missing_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = last_line(["--engine", "dask"], tmp_path, capsys)
    assert line == "syndicated: the Dask engine needs distributed: pip install 'syndicated[dask]'"


def test_a_scheduler_without_dask_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = last_line(["--scheduler", "127.0.0.1:8786"], tmp_path, capsys)
    assert line == "syndicated: --scheduler is for --engine dask; got --engine processes"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "mars://127.0.0.1:1", "nonsense", ""])
def test_a_scheduler_that_is_not_there_is_one_clear_line(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT", 1)
    line = last_line(["--engine", "dask", "--scheduler", address], tmp_path, capsys)
    assert line.startswith(f"syndicated: there must be a Dask scheduler at {address!r}; got: ")


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "SCHEDULER_TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match="there must be a Dask scheduler at"):
            run(SMALL.tasks(), tmp_path, executors.dask(1, address))
