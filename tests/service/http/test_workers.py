"""The process that keeps workers up; workers are other programs here, and real ones in test_service_faults.py."""

import os
import signal
from collections.abc import Iterator

import pytest

from syndicated.service.http import workers
from syndicated.service.http.workers import _Supervisor, become_worker


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def _spawn(script: str) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", script], {"PATH": os.environ["PATH"]}, setsigmask=[])


def test_a_worker_that_ends_is_replaced_and_one_that_does_not_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.01)
    deaf = "trap '' TERM; while :; do sleep 1; done"
    scripts = ["exec sleep 600", "exit 3", deaf]
    started: list[int] = []

    def fork() -> int:
        started.append(_spawn(scripts[len(started)]))
        if len(started) == 1:
            os.write(supervisor._told, b".")
        if len(started) == 3:
            signal.raise_signal(signal.SIGTERM)
        return started[-1]

    supervisor = _Supervisor(2, fork)
    with pytest.raises(SystemExit) as ended:
        supervisor.run()
    assert ended.value.code == 0
    assert caplog.messages == [f"worker {started[1]} has ended with 3; another one is started"]
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_worker_that_gives_no_sign_of_life_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that is stopped: connections would still go to it."""
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(workers, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(workers, "MAX_SILENT_LOOKS", 3)
    started: list[int] = []

    def fork() -> int:
        started.append(_spawn("exec sleep 600"))
        if len(started) == 1:
            os.write(supervisor._told, b".")
        if len(started) == 3:
            signal.raise_signal(signal.SIGTERM)
        return started[-1]

    def look() -> None:
        os.write(supervisor._beat, started[0].to_bytes(workers.PID_BYTES, "big"))
        looked()

    supervisor = _Supervisor(2, fork)
    looked = supervisor._look
    monkeypatch.setattr(supervisor, "_look", look)
    with pytest.raises(SystemExit):
        supervisor.run()
    assert caplog.messages[:2] == [
        f"worker {started[1]} gives no sign of life; it is killed",
        f"worker {started[1]} has ended with -9; another one is started",
    ]


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -TERM $PPID; exec sleep 600", 0)])
def test_a_first_worker_that_cannot_start_ends_it_all(script: str, code: int) -> None:
    with pytest.raises(SystemExit) as ended:
        become_worker(2, lambda: _spawn(script))
    assert ended.value.code == code
