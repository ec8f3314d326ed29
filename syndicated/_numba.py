"""How a kernel is compiled: through Numba's cache, by one process at a time, announced by one line."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TextIO, cast

import numba
import numpy as np
from numba.core import event

HOW_LONG = "some seconds for an agent, a minute or two for a service"
LOCK_FILE = "syndicated.lock"  # beside the cached code

log = logging.getLogger("syndicated")


class _Announcement(event.Listener):
    """One line before the first kernel that this process compiles.

    It is logged, not printed: without any handler logging writes it to standard error as it is, and in the service it
    is a line of JSON like all others there.
    """

    def __init__(self) -> None:
        self.cache_path: str | None = None
        self.made = False

    def on_start(self, event: Any) -> None:
        if not self.made:
            self.made = True
            log.warning("syndicated: compiling kernels for this machine, %s; %s", HOW_LONG, self._next_time())

    def on_end(self, event: Any) -> None:
        pass

    def _next_time(self) -> str:
        if self.cache_path is None:
            return "every process does so until NUMBA_CACHE_DIR is a folder that can be written"
        return f"later runs load them from {self.cache_path}"


_announcement = _Announcement()
_has_turn = False  # whether this process is the one that compiles; one thread at a time is in here


def load(function: FunctionType, signature: str, *, makes_arrays: bool) -> Callable[..., Any]:
    """Numba's dispatcher for this one signature, from the cache or compiled now."""
    dispatcher = dispatcher_of(function, makes_arrays=makes_arrays)
    if not hasattr(dispatcher, "stats"):  # NUMBA_DISABLE_JIT: it is the function itself
        return cast(Callable[..., Any], dispatcher)
    _announcement.cache_path = dispatcher.stats.cache_path
    with event.install_listener("numba:compile", _announcement), _one_process_at_a_time(dispatcher.stats.cache_path):
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return cast(Callable[..., Any], dispatcher)


def dispatcher_of(function: FunctionType, *, makes_arrays: bool = True) -> Any:
    # A call from kernel to kernel that is not inlined costs as much as what most of them compute.
    compiler = partial(numba.njit, nogil=True, error_model="numpy", forceinline=True, _nrt=makes_arrays)
    try:
        dispatcher: Any = compiler(cache=True)(function)
    except RuntimeError:  # neither beside the source nor in the user's cache can a file be written
        return compiler(cache=False)(function)
    if hasattr(dispatcher, "stats"):
        # Numba looks for changes in the function's own file only, and would go on with old code of what is inlined.
        file = dispatcher._cache._cache_file
        file._source_stamp = file._source_stamp, digest_of(function)
    return dispatcher


def digest_of(function: FunctionType) -> str:
    """A digest of all that the machine code of a kernel is made from: the kernels that it calls, and constants."""
    return hashlib.sha256(repr(sorted(_sources(function, {}).items())).encode()).hexdigest()


def _sources(function: FunctionType, found: dict[str, Any]) -> dict[str, Any]:
    """The code of a kernel and of those that it calls, and the values of the constants there, by their names."""
    code, place = function.__code__, f"{function.__module__}.{function.__qualname__}"
    if place in found:
        return found
    found[place] = code.co_code.hex(), code.co_consts, code.co_names
    for name in code.co_names:
        value = function.__globals__.get(name)
        called = getattr(value, "py_func", getattr(value, "function", None))  # loaded, or a kernel that waits
        if isinstance(called, FunctionType):
            _sources(called, found)
        elif value is not None and not isinstance(value, ModuleType):
            found[f"{place} {name}"] = value.tobytes().hex() if isinstance(value, np.ndarray) else value
    return found


@contextmanager
def _one_process_at_a_time(folder: str | None) -> Iterator[None]:
    """Of processes that start together one compiles, and the others load what it has compiled.

    A kernel that is compiled because another one calls it is within that one's turn.
    """
    global _has_turn
    if folder is None or _has_turn:
        yield
        return
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # Windows, another user's folder, a file system without locks
            _wait_for(stack.enter_context(Path(folder, LOCK_FILE).open("a")))
        _has_turn = True
        try:
            yield
        finally:
            _has_turn = False


def _wait_for(file: TextIO) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _announcement.made = True  # by the process that is compiling
        fcntl.flock(file, fcntl.LOCK_EX)
