"""Arms with vectors, read from JSON straight into a table, without an object for each of their numbers.

    {..., "arms": [{"id": "a", "x": [0.5, 1]}, {"id": "b", "x": [0.2, 0]}], ...}

This is the usual form of a request, and no other is read here. What differs from it, such as an id with an escape or a
number that is missing, is left to a general reader, which may have nothing to object to or says what is wrong.
"""

import math

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated.features._decimals import MAX_DIGITS, nearest_float
from syndicated.types import Array

__all__ = ["split_json"]

Bytes = npt.NDArray[np.uint8]

MAX_ID = 256  # characters
MAX_EXPONENT = 1000  # of ten: a number with this one, or a larger one, is not read
NOT_READ, MAYBE = -1, -2  # in place of where the next part begins: there is none, or a key has an escape

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _BACKSLASH, _DELETE = b'\t\n\r "\\\x7f'
_COMMA, _COLON, _LIST, _LIST_END, _OBJECT, _OBJECT_END = b",:[]{}"
_MINUS, _PLUS, _POINT, _ZERO, _NINE, _E, _CAPITAL_E = b"-+.09eE"
_I, _D, _X = b"idx"
_ARMS = np.frombuffer(b'"arms"', dtype=np.uint8)
_10, _0 = np.uint64(10), np.uint64(0)


def split_json(body: bytes) -> tuple[bytes, list[str], Array] | None:
    """A body without its arms, their ids, and their table; None if they are not of the usual form.

    Only the arms are checked: the rest, with an empty list in their place, is valid JSON if the body is. Of a body that
    has, or may have, arms once more after these, nothing is read: the last ones count.

    >>> split_json(b'{"k": 2, "arms": [{"id": "a", "x": [0.5, 1]}, {"id": "b", "x": [0.2, 0]}]}')
    (b'{"k": 2, "arms": []}', ['a', 'b'], array([[0.5, 1. ],
           [0.2, 0. ]]))
    """
    if b'"x"' not in body:
        return None
    copy, numbers = bytearray().join((body, b"\x00")), np.empty(len(body) // 2)
    start, end, arms, columns, id_bytes = read_arms(np.frombuffer(copy, dtype=np.uint8), numbers)
    if not arms:
        return None
    table = numbers[: arms * columns].reshape(arms, columns).copy()
    return body[:start] + b"[]" + body[end:], copy[:id_bytes].decode("ascii").split("\n"), table


# In what follows `at` is a place in the data. They end with a NUL, which nothing takes, so `at` never passes it.


@compiled("i8(u1[::1], i8)", makes_arrays=False)
def skip_space(data: Bytes, at: int) -> int:
    while data[at] == _SPACE or data[at] == _NEWLINE or data[at] == _RETURN or data[at] == _TAB:
        at += 1
    return at


@compiled("i8(u1[::1], i8)", makes_arrays=False)
def skip_string(data: Bytes, at: int) -> int:
    at += 1
    while at < len(data) - 1:
        if data[at] == _QUOTE:
            return at + 1
        at += 2 if data[at] == _BACKSLASH else 1
    return NOT_READ


@compiled("i8(u1[::1], i8, i8)")
def find_arms(data: Bytes, at: int, depth: int) -> int:
    """Where the value of the next key `arms` begins, from a place in so many lists and objects on."""
    while at < len(data) - 1:
        if data[at] != _QUOTE:
            depth += int(data[at] == _OBJECT or data[at] == _LIST)
            depth -= int(data[at] == _OBJECT_END or data[at] == _LIST_END)
            at += 1
            continue
        begin, at = at, skip_string(data, at)
        if at == NOT_READ:
            break
        colon = skip_space(data, at)
        if depth == 1 and data[colon] == _COLON:
            if at - begin == len(_ARMS) and (data[begin:at] == _ARMS).all():
                return skip_space(data, colon + 1)
            if (data[begin:at] == _BACKSLASH).any():
                return MAYBE
    return NOT_READ


@compiled("i8(u1[::1], i8, f8[::1], i8)", makes_arrays=False)
def read_number(data: Bytes, at: int, out: Array, n: int) -> int:
    """Read a number into out[n]."""
    negative = data[at] == _MINUS
    at += negative
    w, power, begin = _0, 0, at
    while _ZERO <= data[at] <= _NINE:
        w = w * _10 + np.uint64(data[at] - _ZERO)
        at += 1
    digits, whole = at - begin, True
    if digits == 0 or (data[begin] == _ZERO and digits > 1):
        return NOT_READ
    if data[at] == _POINT:
        point, whole = at, False
        at += 1
        if digits == 1 and w == _0:  # then zeros are no digits; a longer w may be 0 too, modulo 2^64
            digits = 0
            while data[at] == _ZERO:
                at += 1
        begin = at
        while _ZERO <= data[at] <= _NINE:
            w = w * _10 + np.uint64(data[at] - _ZERO)
            at += 1
        digits, power = digits + at - begin, point + 1 - at
        if power == 0:
            return NOT_READ
    if data[at] == _E or data[at] == _CAPITAL_E:
        at, exponent, whole = at + 1, 0, False
        down = data[at] == _MINUS
        at += down or data[at] == _PLUS
        begin = at
        while _ZERO <= data[at] <= _NINE:
            exponent = min(10 * exponent + int(data[at] - _ZERO), MAX_EXPONENT)
            at += 1
        power += -exponent if down else exponent
        if at == begin or exponent == MAX_EXPONENT:
            return NOT_READ
    value = nearest_float(w, power) if digits <= MAX_DIGITS else math.nan
    if math.isnan(value):
        return NOT_READ
    out[n] = -value if negative and not (whole and w == _0) else value  # -0 is a whole number, which has no sign
    return at


@compiled("UniTuple(i8, 2)(u1[::1], i8, f8[::1], i8)", makes_arrays=False)
def read_list(data: Bytes, at: int, out: Array, n: int) -> tuple[int, int]:
    """Read a list of numbers into out[n] and after it; where the next part begins, and how many there are then."""
    if data[at] != _LIST:
        return NOT_READ, n
    while n < len(out):
        at = read_number(data, skip_space(data, at + 1), out, n)
        if at == NOT_READ:
            break
        n += 1
        at = skip_space(data, at)
        if data[at] == _LIST_END:
            return at + 1, n
        if data[at] != _COMMA:
            break
    return NOT_READ, n


@compiled("UniTuple(i8, 2)(u1[::1], i8, i8)", makes_arrays=False)
def read_id(data: Bytes, at: int, n: int) -> tuple[int, int]:
    """Move a text without escapes, and a new line, to data[n] and after it; where to go on, here and there."""
    begin = n
    if data[at] != _QUOTE:
        return NOT_READ, n
    at += 1
    while _SPACE <= data[at] < _DELETE and data[at] != _QUOTE and data[at] != _BACKSLASH:
        data[n] = data[at]
        at, n = at + 1, n + 1
    if data[at] != _QUOTE or not 0 < n - begin <= MAX_ID:
        return NOT_READ, n
    data[n] = _NEWLINE
    return at + 1, n + 1


@compiled("UniTuple(i8, 5)(u1[::1], f8[::1])")
def read_arms(data: Bytes, numbers: Array) -> tuple[int, int, int, int, int]:
    """Read all arms: where their list begins and ends, how many there are, or 0, their columns, and bytes of ids.

    The ids are moved to the beginning of the data, where all has been read by then.
    """
    at, nothing = find_arms(data, 0, 0), (0, 0, 0, 0, 0)
    if at < 0 or data[at] != _LIST:
        return nothing
    begin = at
    arms, columns, read, id_end = 0, 0, 0, 0
    while True:
        at = skip_space(data, at + 1)  # after the bracket, or the comma
        if data[at] != _OBJECT:
            return nothing
        before_ids, before_numbers = id_end, read
        for part in range(2):
            at = skip_space(data, at + 1)
            if data[at] != _QUOTE:
                return nothing
            is_id = data[at + 1] == _I and data[at + 2] == _D and data[at + 3] == _QUOTE
            if not is_id and not (data[at + 1] == _X and data[at + 2] == _QUOTE):
                return nothing
            at = skip_space(data, at + (4 if is_id else 3))
            if data[at] != _COLON:
                return nothing
            at = skip_space(data, at + 1)
            if is_id:
                at, id_end = read_id(data, at, id_end)
            else:
                at, read = read_list(data, at, numbers, read)
            if at == NOT_READ:
                return nothing
            at = skip_space(data, at)
            if data[at] != (_OBJECT_END if part else _COMMA):
                return nothing
        row = read - before_numbers
        columns = columns or row
        if id_end == before_ids or row == 0 or row != columns:  # one part twice, or rows that are not alike
            return nothing
        arms += 1
        at = skip_space(data, at + 1)
        if data[at] == _LIST_END:
            once = find_arms(data, at + 1, 1) == NOT_READ
            return (begin, at + 1, arms, columns, id_end - 1) if once else nothing
        if data[at] != _COMMA:
            return nothing
