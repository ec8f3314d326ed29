"""Decimal numbers as floats, in compiled code: the nearest one, as Python reads them; or it is not known which one is.

    w 10^q = w 5^q 2^q,    5^q = (P + e) 2^s    with 128 bits of P and 0 <= e < 1

The first 53 bits of w P are those of the float, and what follows them says how to round. Only where that is a half, or
less by so little that e counts, it is not known. The method is that of Lemire, *Number parsing at a gigabyte per
second*, 2021, without its harder cases.
"""

import math

import numpy as np

from syndicated._compiled import compiled
from syndicated.streams import Word, high_word
from syndicated.types import Array

MAX_DIGITS = 19  # of w: any number with so many fits into a word
MAX_POWER = 60  # q, up or down
MAX_EXACT_POWER = 22  # of ten, that is a float


def _power(q: int) -> tuple[int, int, int]:
    """5^q as the words of P, upper and lower, whose first bit is 1; and s + 128."""
    length = (5**q).bit_length() if q >= 0 else 1 - (5**-q).bit_length()
    P = (5**q << 128) >> length if q >= 0 else (1 << (128 - length)) // 5**-q
    return P >> 64, P & (2**64 - 1), length


_POWERS = [_power(q) for q in range(-MAX_POWER, MAX_POWER + 1)]
_UPPER = np.array([upper for upper, _, _ in _POWERS], dtype=np.uint64)
_LOWER = np.array([lower for _, lower, _ in _POWERS], dtype=np.uint64)
_LENGTHS = np.array([length for _, _, length in _POWERS], dtype=np.int64)

_TENS: Array = np.array([float(10**q) for q in range(MAX_EXACT_POWER + 1)])
_EXACT = np.uint64(2**53)
_0, _1, _11, _63 = np.uint64(0), np.uint64(1), np.uint64(11), np.uint64(63)
_FIRST_BIT = np.uint64(2**63)
_HALF = np.uint64(2**10)  # of the 11 bits of a word that follow the 53 of a float
_NEARLY_ONE = np.uint64(2**64 - 4)


@compiled("f8(u8, i8)")
def nearest_float(w: Word, q: int) -> float:
    """The float that is nearest to w 10^q; NaN if it is not known."""
    if w == _0:
        return 0.0
    if w < _EXACT and -MAX_EXACT_POWER <= q <= MAX_EXACT_POWER:  # both are floats, so one operation rounds
        return float(np.float64(w) * _TENS[q] if q > 0 else np.float64(w) / _TENS[-q])
    if q < -MAX_POWER or q > MAX_POWER:
        return math.nan
    upper_power, lower_power = _UPPER[q + MAX_POWER], _LOWER[q + MAX_POWER]
    exponent = 64 + q + _LENGTHS[q + MAX_POWER]
    for bits in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - bits) == _0:
            w = w << np.uint64(bits)
            exponent -= bits
    # The first two of the three words of w P. What follows them, and w e, are less than 2 of their last bit.
    upper, lower, carried = high_word(w, upper_power), w * upper_power, high_word(w, lower_power)
    lower = lower + carried
    if lower < carried:
        upper = upper + _1
    if upper < _FIRST_BIT:
        upper, lower = (upper << _1) | (lower >> _63), lower << _1
        exponent -= 1
    rest = upper & (_HALF + _HALF - _1)
    if (rest == _HALF and lower == _0) or (rest == _HALF - _1 and lower >= _NEARLY_ONE):
        return math.nan
    mantissa = (upper >> _11) + (_1 if rest >= _HALF else _0)
    return math.ldexp(np.float64(mantissa), exponent - 53)
