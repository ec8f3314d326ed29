"""Compiled kernels: `compiled(signature)` turns a plain function over arrays into machine code, cached on disk.

The signature is given, so the first import after an install compiles and later ones load what was compiled.
No fast-math: a kernel's arithmetic is the one written, the same for every arm whatever its place in the array.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(signature: str) -> Callable[[F], F]:
    """Compile a function for one signature of argument types, in numba's notation."""

    def decorate(function: F) -> F:
        return cast(F, numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function))

    return decorate
