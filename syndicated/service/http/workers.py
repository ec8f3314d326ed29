"""Several replicas on one machine: a process that starts workers, starts another for one that ends, and ends them all.

A worker is a fork that goes on as a server of its own. It listens on the common port (SO_REUSEPORT) once it is ready,
and the kernel spreads connections over those that listen, also to one that is stopped. So workers give signs of life,
and one that gives none is killed, which loses nothing that was acknowledged.
"""

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

STOP_SECONDS = 8.0  # that workers have to end before they are killed
RESTART_SECONDS = 1.0  # that a worker must have lived to be replaced at once
LOOK_SECONDS = 0.1  # between looks at whether a worker has ended or is silent
BEAT_SECONDS = 0.5  # between a worker's signs of life
MAX_SILENT_LOOKS = 40  # counted, not timed: while the whole machine is suspended nobody looks
PID_BYTES = 4  # of a sign of life, which is the worker's process id
SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger("syndicated")


class Worker(NamedTuple):
    """What a worker knows of itself, and what it calls when it is ready."""

    first: bool
    ready: Callable[[], None]


def become_worker(count: int, fork: Callable[[], int] = os.fork) -> Worker:
    """Start workers, the others when the first is ready, and keep them up until SIGINT or SIGTERM.

    This returns in the workers. In the process that starts them it ends with SystemExit. There must be no threads yet.
    """
    return _Supervisor(count, fork).run()


class _Supervisor:
    def __init__(self, count: int, fork: Callable[[], int]) -> None:
        self._count, self._fork = count, fork
        self._began: dict[int, float] = {}  # when each worker was started, by its process
        self._silent: dict[int, int] = {}  # looks since each has given a sign of life
        self._stopping = False
        self._lifeline, self._held = os.pipe()  # the second end is closed with this process, and its workers see that
        self._ready, self._told = os.pipe()
        self._beats, self._beat = os.pipe()
        os.set_blocking(self._beats, False)
        os.set_blocking(self._beat, False)

    def run(self) -> Worker:
        for number in SIGNALS:
            signal.signal(number, lambda *_: self._stop())
        signal.signal(signal.SIGALRM, lambda *_: self._send(signal.SIGKILL))
        if self._start():
            return Worker(True, self._tell)
        os.close(self._told)
        if not os.read(self._ready, 1):  # the first ended before it was ready: so would the others
            code = os.waitstatus_to_exitcode(os.wait()[1])
            raise SystemExit(0 if self._stopping else code)
        while self._began or not self._stopping:
            if self._stopping or len(self._began) == self._count:
                self._await_end()
            elif self._start():
                return Worker(False, lambda: None)
        raise SystemExit(0)

    def _start(self) -> bool:
        """Start a worker; true in the worker."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # a signal between the fork and the next line would be lost
        pid = self._fork()
        if pid:
            self._began[pid], self._silent[pid] = time.monotonic(), 0
        else:
            self._live()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return not pid

    def _tell(self) -> None:
        """In the first worker: the others can be started."""
        os.write(self._told, b".")
        os.close(self._told)

    def _live(self) -> None:
        """In a worker: signals are its own, and it ends with the process that started it."""
        for number in (*SIGNALS, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        os.close(self._held)
        threading.Thread(target=self._give_signs, name="lifeline", daemon=True).start()

    def _give_signs(self) -> None:
        pid = os.getpid()
        while not select.select([self._lifeline], [], [], BEAT_SECONDS)[0]:
            with suppress(OSError):  # nobody has read for long, or the other process has just ended
                os.write(self._beat, pid.to_bytes(PID_BYTES, "big"))
        os.kill(pid, signal.SIGTERM)

    def _await_end(self) -> None:
        """Wait until a worker ends, and kill those that give no sign of life."""
        while not (ended := os.waitpid(-1, os.WNOHANG))[0]:
            self._look()
            time.sleep(LOOK_SECONDS)
        pid, status = ended
        lived = time.monotonic() - self._began.pop(pid)
        del self._silent[pid]
        if not self._stopping:
            log.error("worker %d has ended with %d; another one is started", pid, os.waitstatus_to_exitcode(status))
            time.sleep(max(0.0, RESTART_SECONDS - lived))

    def _look(self) -> None:
        with suppress(BlockingIOError):
            given = os.read(self._beats, PID_BYTES * 1024)
            for start in range(0, len(given), PID_BYTES):
                pid = int.from_bytes(given[start : start + PID_BYTES], "big")
                if pid in self._silent:
                    self._silent[pid] = 0
        for pid in self._silent:
            self._silent[pid] += 1
            if self._silent[pid] == MAX_SILENT_LOOKS:
                log.error("worker %d gives no sign of life; it is killed", pid)
                os.kill(pid, signal.SIGKILL)

    def _stop(self) -> None:
        self._stopping = True
        self._send(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, STOP_SECONDS)

    def _send(self, number: int) -> None:
        for pid in self._began:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)
