"""Where tasks are computed: an engine takes tasks and gives each with its curve, in any order, as they are done.

Results do not depend on the engine: a task draws all its randomness by address. A failed task raises TaskError.
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
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

from syndicated.errors import InputError, TaskError
from syndicated.experiments.experiment import Task
from syndicated.experiments.run import Curve, Engine, perform

PATIENCE = 10  # seconds in which a scheduler must answer


def processes(jobs: int) -> Engine:
    """So many processes on this machine."""
    return partial(_on_processes, jobs=jobs)


def _on_processes(tasks: Sequence[Task], jobs: int) -> Generator[tuple[Task, Curve], None, None]:
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


def dask(jobs: int, scheduler: str | None = None, say: Callable[[str], None] = lambda text: None) -> Engine:
    """The Dask cluster of a scheduler, or one of so many processes on this machine; `say` hears of its dashboard."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("the Dask engine needs an extra: pip install 'syndicated[dask]'") from None
    return partial(_on_dask, jobs=jobs, scheduler=scheduler, say=say)


def _on_dask(
    tasks: Sequence[Task], jobs: int, scheduler: str | None, say: Callable[[str], None]
) -> Generator[tuple[Task, Curve], None, None]:
    import distributed

    if not tasks:
        return
    with _own_cluster(jobs) if scheduler is None else _cluster_at(scheduler) as client:
        say(f"Dask with {len(client.nthreads())} workers, dashboard at {client.dashboard_link}")
        futures = client.map(_perform_alike, tasks, [task.key for task in tasks], pure=False)
        by_future = dict(zip(futures, tasks, strict=True))
        for future in distributed.as_completed(futures, loop=client.loop):
            yield by_future[future], _result(future, by_future[future])


@contextmanager
def _own_cluster(jobs: int) -> Iterator[Any]:
    """No limit of memory: Dask would give each process its share of it, and on many cores kill all of them."""
    from distributed import Client, LocalCluster

    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, memory_limit=0, **where) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _cluster_at(scheduler: str) -> Iterator[Any]:
    from distributed import Client

    try:
        asyncio.run(asyncio.wait_for(_knock(scheduler), PATIENCE))
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # a TypeError comes of a worker's address
        got = str(error) or f"no answer in {PATIENCE} s"
        raise InputError(f"there must be a Dask scheduler at {scheduler!r}; got: {got}") from None
    with client:
        yield client


async def _knock(scheduler: str) -> None:
    """A client that is refused leaves threads and noise behind, so knock before making one."""
    from distributed import Security
    from distributed.comm import connect

    comm = await connect(scheduler, **Security().get_connection_args("client"))
    await comm.close()


def _perform_alike(task: Task, key: str) -> Curve:
    """The task's curve, unless this worker's packages are others than those that made the key."""
    if task.key != key:
        raise TaskError(f"{task} failed: a worker's version of syndicated or of a plug-in gives other results")
    return perform(task)


def _result(future: Any, task: Task) -> Curve:
    """The curve, once more computed elsewhere whenever a worker is lost: Dask gives up at its `allowed-failures`."""
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    try:
        curve: Curve = future.result()
    except TaskError:
        raise
    except KilledWorker as error:
        raise TaskError(f"{task} failed: {error.allowed_failures + 1} workers died of it or beside it") from None
    except FutureCancelledError:
        raise TaskError("the connection to the Dask scheduler was lost") from None
    except Exception as error:
        raise TaskError(f"{task} failed on the cluster: {type(error).__name__}: {error}") from error
    return curve
