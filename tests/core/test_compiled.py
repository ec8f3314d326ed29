"""Kernels are compiled when they are first called: once a machine, by one process, with one line that says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import syndicated.features._json_table  # noqa: F401  # whose kernels are looked at
from syndicated._compiled import KERNELS, Kernel

# Three kernels in two modules; nobody calls `unused`.
LOWER = """
from syndicated._compiled import compiled

TWO = 2.0

@compiled("f8(f8)")
def double(x):
    return TWO * x

@compiled("f8(f8)")
def unused(x):
    return x
"""
UPPER = """
from lower import double
from syndicated._compiled import compiled

@compiled("f8(f8)")
def quadruple(x):
    return double(double(x))
"""
CALL = """
import json, lower, upper
values = [upper.quadruple(1.5), upper.quadruple(2)]
from syndicated._compiled import KERNELS
loaded = {kernel.function.__name__: kernel._loaded.stats for kernel in KERNELS if kernel._loaded is not None}
print(json.dumps({
    "values": values,
    "hits": sum(sum(stats.cache_hits.values()) for stats in loaded.values()),
    "misses": sum(sum(stats.cache_misses.values()) for stats in loaded.values()),
    "loaded": sorted(loaded),
    "kinds": {
        "lower.double": type(lower.double).__name__,
        "upper.double": type(upper.double).__name__,
        "upper.quadruple": type(upper.quadruple).__name__,
        "lower.unused": type(lower.unused).__name__,
    },
}))
"""
EXAMPLE = """
import json
from syndicated import Agent, LinUCB
agent = Agent(LinUCB(dim=3), seed=7)
decision = agent.decide([[1.0, 0.2, 0.0], [0.3, 0.0, 1.0]])
agent.learn(decision, reward=1.0)
from syndicated._compiled import KERNELS
loaded = {kernel.function.__name__: kernel._loaded.stats for kernel in KERNELS if kernel._loaded is not None}
print(json.dumps({
    "hits": sum(sum(stats.cache_hits.values()) for stats in loaded.values()),
    "misses": sum(sum(stats.cache_misses.values()) for stats in loaded.values()),
    "loaded": sorted(loaded),
    "waiting": sum(kernel._loaded is None for kernel in KERNELS),
}))
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the two modules are."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "lower.py").write_text(LOWER)
    (source / "upper.py").write_text(UPPER)
    return source


def _start(code: str, folder: Path, **environment: str) -> "subprocess.Popen[str]":
    """A process that finds the modules of the folder; a variable that is empty is not set."""
    paths = {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    given = {name: value for name, value in (dict(os.environ) | paths | environment).items() if value}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _end(process: "subprocess.Popen[str]") -> tuple[Any, str]:
    """What it printed, and what it said on standard error."""
    printed, said = process.communicate()
    assert process.returncode == 0, said
    return json.loads(printed), said


def test_the_first_call_compiles_what_it_needs_and_says_so_once(folder: Path, tmp_path: Path) -> None:
    found, said = _end(_start(CALL, folder, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert found["values"] == [6.0, 8.0]
    assert (found["loaded"], found["misses"]) == (["double", "quadruple"], 2)
    (line,) = said.splitlines()
    assert line.startswith("syndicated: compiling kernels for this machine, some seconds for an agent,")
    assert str(tmp_path / "cache") in line


def test_the_compiled_function_takes_the_place_of_the_kernel_in_every_module(folder: Path, tmp_path: Path) -> None:
    found, _ = _end(_start(CALL, folder, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    dispatcher = "CPUDispatcher"
    assert found["kinds"] == {
        "lower.double": dispatcher,
        "upper.double": dispatcher,
        "upper.quadruple": dispatcher,
        "lower.unused": "Kernel",
    }


def test_a_second_process_compiles_nothing_and_says_nothing(folder: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    _end(_start(CALL, folder, NUMBA_CACHE_DIR=cache))
    found, said = _end(_start(CALL, folder, NUMBA_CACHE_DIR=cache))
    assert (found["values"], found["loaded"]) == ([6.0, 8.0], ["quadruple"])  # the other one is inside it
    assert (found["hits"], found["misses"], said) == (1, 0, "")


@pytest.mark.parametrize(("before", "after"), [("TWO = 2.0", "TWO = 3.0"), ("TWO * x", "TWO * x + x")])
def test_a_kernel_is_compiled_anew_if_one_that_is_inlined_changes(
    before: str, after: str, folder: Path, tmp_path: Path
) -> None:
    """As with an upgrade of the package: the file of the other one stays as it is."""
    cache = str(tmp_path / "cache")
    _end(_start(CALL, folder, NUMBA_CACHE_DIR=cache))
    (folder / "lower.py").write_text(LOWER.replace(before, after))
    found, _ = _end(_start(CALL, folder, NUMBA_CACHE_DIR=cache))
    assert found["values"] == [13.5, 18.0]


def test_processes_that_start_together_compile_every_kernel_once(folder: Path, tmp_path: Path) -> None:
    processes = [_start(CALL, folder, NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(3)]
    ends = [_end(process) for process in processes]
    assert [found["values"] for found, _ in ends] == [[6.0, 8.0]] * 3
    assert sum(found["misses"] for found, _ in ends) == 2
    assert sum(said.count("\n") for _, said in ends) == 1


def test_where_no_folder_can_be_written_kernels_are_compiled_in_memory(folder: Path) -> None:
    """Files where folders would have to be stop the superuser too."""
    (folder / "__pycache__").touch()
    nowhere = str(folder / "__pycache__" / "home")
    variables = {"NUMBA_CACHE_DIR": "", "HOME": nowhere, "XDG_CACHE_HOME": nowhere, "LOCALAPPDATA": nowhere}
    found, said = _end(_start(CALL, folder, **variables))
    assert (found["values"], found["loaded"]) == ([6.0, 8.0], ["double", "quadruple"])
    (line,) = said.splitlines()
    assert line.endswith("every process does so until NUMBA_CACHE_DIR is a folder that can be written")


def test_other_types_than_the_signature_s_are_refused(folder: Path, tmp_path: Path) -> None:
    code = "import upper\ntry: upper.quadruple('text')\nexcept TypeError as error: print('[\"refused\"]')"
    found, _ = _end(_start(code, folder, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert found == ["refused"]


def test_without_numba_s_compiler_the_functions_are_plain(folder: Path) -> None:
    code = "import json, upper; print(json.dumps([upper.quadruple(1.5), type(upper.quadruple).__name__]))"
    assert _end(_start(code, folder, NUMBA_DISABLE_JIT="1")) == ([6.0, "function"], "")


def test_the_first_example_loads_few_kernels_and_compiles_none_twice() -> None:
    _end(_start(EXAMPLE, ROOT))
    found, said = _end(_start(EXAMPLE, ROOT))
    assert (found["misses"], said) == (0, "")
    assert found["hits"] == len(found["loaded"]) < 10
    assert {"decide_round", "learn_round"} <= set(found["loaded"])
    assert found["waiting"] > 20


def test_kernels_release_the_lock_of_the_interpreter() -> None:
    from syndicated._numba import dispatcher_of

    function: Any = test_kernels_release_the_lock_of_the_interpreter
    assert dispatcher_of(function).targetoptions["nogil"]


def _called(kernel: Kernel) -> set[str]:
    """The kernels that one calls, which may be loaded already."""
    found = (kernel.function.__globals__.get(name) for name in kernel.function.__code__.co_names)
    functions = (getattr(value, "py_func", getattr(value, "function", None)) for value in found)
    return {function.__qualname__ for function in functions if isinstance(function, FunctionType)}


def test_a_kernel_that_counts_no_uses_of_arrays_gives_none_to_one_that_does() -> None:
    """What it is given has no count: a kernel that counts would write where none is."""
    calls = {kernel.function.__qualname__: _called(kernel) for kernel in KERNELS if not kernel.makes_arrays}
    without_arrays = {kernel.function.__qualname__ for kernel in KERNELS if "[" not in kernel.signature}
    assert calls["read_list"] == {"skip_space", "read_number"}
    assert set().union(*calls.values()) <= calls.keys() | without_arrays
