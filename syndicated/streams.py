"""Randomness has an address: a draw depends on (seed, purpose, round) and on nothing that happened before.

A stream is the counter-based generator Philox 4x64-10 (Salmon et al., *Parallel random numbers: as easy as
1, 2, 3*, SC 2011) with key (seed, purpose) and counter (block, round, 0, 0). Opening one costs nothing, so
every round opens its own, and neither the number of processes nor a restart can change what it gives.

>>> Stream(7, ARMS, 3).uniforms(2).tolist() == Stream(7, ARMS, 3).uniforms(2).tolist()
True
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from syndicated._compiled import compiled
from syndicated.types import Array, Ints

__all__ = ["ARMS", "CHANGE", "NOISE", "POLICY", "THETA", "TUNER", "WARMUP", "Stream"]

Word = np.uint64

TUNER, POLICY, WARMUP, THETA, ARMS, NOISE, BOOTSTRAP, FACTORS, CHANGE, GUARD, ACCEPT = range(1, 12)
TURNOVER, SPREAD, WEIGHTS, VALUE, COIN, OUTLIERS, LOST = range(12, 19)

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_11 = np.uint64(11)
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)


@compiled("u8(u8, u8)")
def high_word(a: Word, b: Word) -> Word:
    """The upper 64 bits of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    return a1 * b1 + (middle >> _32) + ((a0 * b1 + (middle & _LOW)) >> _32)


@compiled("UniTuple(u8, 4)(u8, u8, u8, u8)")
def philox(seed: Word, purpose: Word, round_: Word, block: Word) -> tuple[Word, Word, Word, Word]:
    """Four 64-bit words: ten rounds of Philox on the counter (block, round, 0, 0)."""
    c0, c1, c2, c3 = block, round_, np.uint64(0), np.uint64(0)
    k0, k1 = seed, purpose
    for _ in range(10):
        high0, low0 = high_word(_M0, c0), _M0 * c0
        high1, low1 = high_word(_M1, c2), _M1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _W0, k1 + _W1
    return c0, c1, c2, c3


@compiled("void(f8[::1], u8, u8, u8, u8)")
def fill_uniforms(out: Array, seed: Word, purpose: Word, round_: Word, block: Word) -> None:
    """Uniforms in [0, 1), four a block."""
    for start in range(0, len(out), 4):
        words = philox(seed, purpose, round_, block + np.uint64(start // 4))
        for i in range(min(4, len(out) - start)):
            out[start + i] = np.float64(words[i] >> _11) * 2.0**-53


@compiled("void(f8[:,::1], u8, u8, u8, u8)")
def fill_uniforms_of_rounds(out: Array, seed: Word, purpose: Word, round_: Word, block: Word) -> None:
    """The uniforms of rounds from one on, a row for each."""
    for n in range(len(out)):
        fill_uniforms(out[n], seed, purpose, round_ + np.uint64(n), block)


@compiled("void(f8[::1], u8, u8, u8, u8)")
def fill_normals(out: Array, seed: Word, purpose: Word, round_: Word, block: Word) -> None:
    """Standard normals by the method of Box and Muller, four a block."""
    u = np.empty(len(out) + len(out) % 2)
    fill_uniforms(u, seed, purpose, round_, block)
    for i in range(len(out)):
        radius, angle = math.sqrt(-2.0 * math.log(1.0 - u[i - i % 2])), 2.0 * math.pi * u[i - i % 2 + 1]
        out[i] = radius * (math.sin(angle) if i % 2 else math.cos(angle))


@compiled("void(f8[::1], i8[::1], u8, u8, u8, u8)")
def fill_normals_at(out: Array, places: Ints, seed: Word, purpose: Word, round_: Word, block: Word) -> None:
    """Some of the standard normals that `fill_normals` would give; a place costs as much as a block does there."""
    for n in range(len(out)):
        words = philox(seed, purpose, round_, block + np.uint64(places[n] // 4))
        first = places[n] % 4 - places[n] % 2
        radius = math.sqrt(-2.0 * math.log(1.0 - np.float64(words[first] >> _11) * 2.0**-53))
        angle = 2.0 * math.pi * (np.float64(words[first + 1] >> _11) * 2.0**-53)
        out[n] = radius * (math.sin(angle) if places[n] % 2 else math.cos(angle))


class Stream:
    """The draws of one purpose in one round: uniforms in [0, 1) and standard normals."""

    __slots__ = ("_block", "_purpose", "_round", "_seed")

    def __init__(self, seed: int, purpose: int, round_: int = 0) -> None:
        self._seed, self._purpose, self._round, self._block = seed, purpose, round_, 0

    @property
    def round(self) -> int:
        return self._round

    def uniforms(self, n: int) -> Array:
        return self._fill(fill_uniforms, n)

    def normals(self, n: int) -> Array:
        return self._fill(fill_normals, n)

    def later(self, rounds: int) -> "Stream":
        """The stream of a later round, with the same seed and purpose."""
        return Stream(self._seed, self._purpose, self._round + rounds)

    def uniforms_of_rounds(self, rounds: int, n: int) -> Array:
        """(rounds, n): the first uniforms of so many rounds from this one on."""
        out, fill = np.empty((rounds, n)), cast(Callable[..., None], fill_uniforms_of_rounds)
        fill(out, self._seed, self._purpose, self._round, 0)
        return out

    def normals_at(self, places: Ints) -> Array:
        """Those at some places of the next normals, without drawing the others."""
        out, fill = np.empty(places.size), cast(Callable[..., None], fill_normals_at)
        fill(out, places.ravel(), self._seed, self._purpose, self._round, self._block)
        return out.reshape(places.shape)

    def skip(self, n: int) -> tuple[Any, Any, Any, Any]:
        """The address of the next n draws, (seed, purpose, round, block), for compiled code that makes them itself."""
        block = self._block
        self._block += (n + 3) // 4
        return self._seed, self._purpose, self._round, block

    def _fill(self, fill: Callable[[Array, Any, Any, Any, Any], None], n: int) -> Array:
        out = np.empty(n)
        fill(out, *self.skip(n))
        return out
