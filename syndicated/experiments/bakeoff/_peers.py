"""Other libraries, in an environment of their own: made once, asked through a worker process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from syndicated._blas import ONE_BLAS_THREAD
from syndicated._files import write
from syndicated.datasets._wheels import pip_reason
from syndicated.errors import TaskError
from syndicated.experiments.bakeoff import peer_worker
from syndicated.types import Array, Ints

REQUIREMENTS = {
    "vowpalwabbit": "vowpalwabbit>=9.11,<10",
    "contextualbandits": "contextualbandits>=0.3.30,<0.4",
    "mabwiser": "mabwiser>=2.7,<3",
    "river": "river>=0.21,<1",
}
SMALL_REQUIREMENTS = {"coba": "coba>=8.1,<9", "bayesianbandits": "bayesianbandits>=1.5,<2"}  # of `SMALL_PLAYERS`
INSTALL_TIMEOUT = 900  # seconds


@dataclass(frozen=True)
class Peers:
    """The interpreter of the environment, the version behind each player, and why some libraries are not there."""

    python: str = ""
    players: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def no_peers() -> Peers:
    return Peers()


def install_peers(folder: Path, say: Callable[[str], None] = lambda text: None, *, small: bool = False) -> Peers:
    """The environment in this folder, made if it is not there. A library that cannot be installed is left out.

    With `small`, also those that can play small problems only.
    """
    requirements = REQUIREMENTS | (SMALL_REQUIREMENTS if small else {})
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    report = folder / "missing.json"
    if not report.exists():
        say(f"installing {', '.join(requirements)} into {folder}")
        _run([sys.executable, "-m", "venv", str(folder)])
        write(report, json.dumps(_install(str(python), requirements)))
    versions = json.loads(_run([str(python), peer_worker.__file__, "versions"]).stdout)
    missing = dict(json.loads(report.read_text()))
    missing |= {name: "it is not installed" for name in requirements if name not in {**versions, **missing}}
    playing = peer_worker.PLAYERS | (peer_worker.SMALL_PLAYERS if small else {})
    labels = {label: name for label, (name, _, _) in playing.items()}
    players = {label: f"{name} {versions[name]}" for label, name in labels.items() if name not in missing}
    return Peers(str(python), players, missing)


def _install(python: str, requirements: Mapping[str, str]) -> dict[str, str]:
    """Why libraries could not be installed or imported, by name."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    failed = {}
    for name, requirement in requirements.items():
        ended = _run([*pip, requirement])
        if ended.returncode:
            failed[name] = pip_reason(ended.stderr)
        elif _run([python, "-c", f"import {name}"]).returncode:
            failed[name] = "it cannot be imported"
    return failed


def play_peer(python: str, player: str, seed: int, x: Array, labels: Ints, arms: int) -> dict[str, Any]:
    """One pass of a player of another library."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "rows.npz")
        np.savez(file, x=x, labels=labels, arms=arms)
        outcome = _ask(_worker(python), {"file": str(file), "player": player, "seed": seed})
    if "error" in outcome:
        raise TaskError(outcome["error"])
    return outcome


@lru_cache(maxsize=1)
def _worker(python: str) -> "subprocess.Popen[str]":
    """The worker of this process, kept: loading a library takes longer than many a pass. It ends with its input."""
    return subprocess.Popen(
        [python, peer_worker.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(),
    )


def _ask(worker: "subprocess.Popen[str]", request: Mapping[str, Any]) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        print(json.dumps(request), file=worker.stdin, flush=True)
        answer = worker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    if not answer:
        end_worker(worker)
        raise TaskError("the worker process of the other libraries was killed")
    outcome: dict[str, Any] = json.loads(answer)
    return outcome


def end_worker(worker: "subprocess.Popen[str]") -> None:
    """End a worker; the next task gets a new one."""
    _worker.cache_clear()
    for pipe in (worker.stdin, worker.stdout):
        with suppress(BrokenPipeError):
            assert pipe is not None
            pipe.close()
    worker.wait()


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT, env=_environment())


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return own | ONE_BLAS_THREAD
