"""Where tasks are computed: an executor takes tasks and gives each with its curve, in any order, as they are done.

Results do not depend on the executor: a task draws all its randomness by address. A failed task raises TaskError.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

from syndicated._blas import ONE_BLAS_THREAD
from syndicated._extras import extra
from syndicated.errors import InputError, TaskError
from syndicated.experiments._experiment import Task, world_key
from syndicated.experiments._run import AnyTask, Curve, Executor, ExecutorOf, Outcome, run_task

SCHEDULER_TIMEOUT = 10  # seconds
MIN_TURNS = 8  # of each process: a turn is a task, or a few that meet the same rounds

# Dask's own cluster gives a lost worker up for good after 15 s, while its nanny still starts it anew: on a busy machine
# that takes longer, and a run without workers would wait forever.
KEEP_LOST_WORKERS = {"distributed.deploy.lost-worker-timeout": "365 days"}


def processes(jobs: int) -> Executor:
    """An executor of `jobs` processes on this machine; one is this process itself.

    Tasks that meet the same rounds go to the same process, which computes those once.
    """
    return processes_for(run_task, jobs, world_key)


def processes_for(
    work: Callable[[AnyTask], Outcome], jobs: int, world: Callable[[AnyTask], object] | None = None
) -> ExecutorOf[AnyTask, Outcome]:
    """An executor of `jobs` processes on this machine for any kind of task; neighbours of one `world` stay together."""
    return partial(_on_processes, work=work, jobs=jobs, world=world)


def _on_processes(
    tasks: Sequence[AnyTask],
    work: Callable[[AnyTask], Outcome],
    jobs: int,
    world: Callable[[AnyTask], object] | None,
) -> Generator[tuple[AnyTask, Outcome], None, None]:
    if jobs == 1:  # a process of its own would only have to import everything again
        yield from ((task, work(task)) for task in tasks)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_start_worker)
    try:
        with _one_blas_thread():
            futures = {pool.submit(_work_on, group, work): group for group in _groups(tasks, world, jobs)}
        for future in as_completed(futures):
            yield from zip(futures[future], future.result(), strict=True)
    except BrokenProcessPool:
        raise TaskError("a worker process was killed") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _groups(
    tasks: Sequence[AnyTask], world: Callable[[AnyTask], object] | None, jobs: int
) -> Iterator[Sequence[AnyTask]]:
    """Neighbours of one world together, as far as there is enough left for every process to have many turns."""
    size = max(1, len(tasks) // (MIN_TURNS * jobs))
    for _, alike in groupby(tasks, world):
        group = list(alike)
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _work_on(tasks: Sequence[AnyTask], work: Callable[[AnyTask], Outcome]) -> list[Outcome]:
    return [work(task) for task in tasks]


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Processes that are started meanwhile have one thread for linear algebra, unless the environment says otherwise.

    By default each would have as many as there are cores, and they would fight for them.
    """
    added = {name: value for name, value in ONE_BLAS_THREAD.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _start_worker() -> None:
    """A worker leaves interrupts to its parent, and ends when the parent does, also by kill -9."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_after, args=[parent_process()], daemon=True).start()


def _exit_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def dask(jobs: int, scheduler: str | None = None, say: Callable[[str], None] = lambda text: None) -> Executor:
    """The Dask cluster of a scheduler, or one of `jobs` processes on this machine.

    `say` is called with a line that has the address of its dashboard.
    """
    with extra("dask", "the Dask engine"):
        import distributed  # noqa: F401
    return partial(_on_dask, jobs=jobs, scheduler=scheduler, say=say)


def _on_dask(
    tasks: Sequence[Task], jobs: int, scheduler: str | None, say: Callable[[str], None]
) -> Generator[tuple[Task, Curve], None, None]:
    import distributed

    if not tasks:
        return
    with _own_cluster(jobs) if scheduler is None else _cluster_at(scheduler) as client:
        say(f"Dask with {len(client.nthreads())} workers, dashboard at {client.dashboard_link}")
        futures = client.map(_run_same_version, tasks, [task.key for task in tasks], pure=False)
        by_future = dict(zip(futures, tasks, strict=True))
        for future in distributed.as_completed(futures, loop=client.loop):
            yield by_future[future], _result(future, by_future[future])


@contextmanager
def _own_cluster(jobs: int) -> Iterator[Any]:
    """No memory limit: Dask would give each process its share of the memory, and on many cores kill all of them."""
    from dask import config
    from distributed import Client, LocalCluster

    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        config.set(KEEP_LOST_WORKERS),
        LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, memory_limit=0, **where) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _cluster_at(scheduler: str) -> Iterator[Any]:
    from distributed import Client

    try:
        asyncio.run(asyncio.wait_for(_check_reachable(scheduler), SCHEDULER_TIMEOUT))
        client = Client(scheduler, timeout=SCHEDULER_TIMEOUT, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # a TypeError if it is the address of a worker
        got = str(error) or f"no answer in {SCHEDULER_TIMEOUT} s"
        raise InputError(f"there must be a Dask scheduler at {scheduler!r}; got: {got}") from None
    with client:
        yield client


async def _check_reachable(scheduler: str) -> None:
    """A client that is refused leaves threads and log lines behind, so try the address before making one."""
    from distributed import Security
    from distributed.comm import connect

    comm = await connect(scheduler, **Security().get_connection_args("client"))
    await comm.close()


def _run_same_version(task: Task, key: str) -> Curve:
    """The task's curve, unless this worker's packages are others than those that made the key."""
    if task.key != key:
        raise TaskError(f"{task} failed: a worker's version of syndicated or of a plug-in gives other results")
    return run_task(task)


def _result(future: Any, task: Task) -> Curve:
    """The curve. Dask computes it again elsewhere when a worker is lost, up to its `allowed-failures`."""
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        curve: Curve = future.result()
    except TaskError:
        raise
    except KilledWorker as error:
        raise TaskError(f"{task} failed: {error.allowed_failures + 1} workers died of it or beside it") from None
    except (CommClosedError, FutureCancelledError):
        raise TaskError("the connection to the Dask scheduler was lost") from None
    except Exception as error:
        raise TaskError(f"{task} failed on the cluster: {type(error).__name__}: {error}") from error
    return curve
