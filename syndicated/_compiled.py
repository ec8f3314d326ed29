"""Compiled kernels: `compiled(signature)` turns a plain function over arrays into machine code, cached on disk.

A kernel is compiled, or loaded from the cache, at its first call: Numba takes longer to import than all the rest, and
most programs call few kernels. The signature is given, so the code does not depend on who calls first, and a call with
other types is an error. No fast-math: a kernel's arithmetic is the one written, the same for every arm whatever its
place in the array.
"""

import functools
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

_lock = threading.RLock()


def compiled(signature: str, *, makes_arrays: bool = True) -> Callable[[F], F]:
    """Compile a function at its first call, for one signature of argument types in numba's notation.

    Numba counts who uses an array, at every call from kernel to kernel. That takes longer than most steps of a loop
    over bytes; a kernel that makes no arrays can do without. It may give arrays only to kernels that do without, too:
    what it is given has no count, and one that counts would change what is in its place.
    """

    def decorate(function: F) -> F:
        return cast(F, Kernel(cast(FunctionType, function), signature, makes_arrays))

    return decorate


class Kernel:
    """A function that waits for its first call.

    The compiled function then takes this object's place in every module that has it under its own name, so that later
    calls cost no more than a call of compiled code does.
    """

    def __init__(self, function: FunctionType, signature: str, makes_arrays: bool) -> None:
        functools.update_wrapper(self, function)
        self.function, self.signature, self.makes_arrays = function, signature, makes_arrays
        self._loaded: Callable[..., Any] | None = None
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)

    def load(self) -> Callable[..., Any]:
        """The compiled function."""
        with _lock:
            if self._loaded is None:
                from syndicated import _numba

                self._loaded = _numba.load(self.function, self.signature, makes_arrays=self.makes_arrays)
                self._give_place_to(self._loaded)
        return self._loaded

    @property
    def _numba_type_(self) -> Any:
        """Numba asks for this when it compiles code that calls the kernel."""
        return self.load()._numba_type_  # type: ignore[attr-defined]

    def _give_place_to(self, loaded: Callable[..., Any]) -> None:
        name = self.function.__name__
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is self:
                setattr(module, name, loaded)


KERNELS: list[Kernel] = []  # of the modules that are imported


def load_all() -> None:
    """Compile or load every kernel of the modules that are imported, so that no call has to wait for it."""
    for kernel in KERNELS:
        kernel.load()
