"""The rows that were played last: how often each was, what it paid on average, and the effect of its own that shows.

What is known of a row is a column of one array. Its place is found by its fingerprint, in a hash table with open
addressing: a slot has the place plus 1, or 0, and a row is in the first free slot from its own one on.
"""

import math

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated.types import Array

PLAYS, MEAN, PLAYED_LAST, MARK, FEATURES = range(5)  # the rows of the array; from the last on, features
MAX_ROWS = 256  # that are remembered
SLOTS = 1021  # about four for a row; a prime, so that numbers of any pattern spread over them
GOLDEN = 0.6180339887498949  # its multiples, less their integers, are all different
MARKS = 0.5 + GOLDEN * np.arange(4096) % 1.0  # weights of the features in a fingerprint


@compiled("f8(f8[::1])")
def fingerprint(x: Array) -> float:
    """A number that two rows have in common only if they are equal, but for a rare chance."""
    total = 0.0
    for j in range(len(x)):
        total += x[j] * MARKS[j & 4095]
    return total


@compiled("i8(f8)")
def own_slot(mark: float) -> int:
    """The slot of a row with this fingerprint, unless others have taken it: its digits, whatever its size."""
    if not abs(mark) < np.inf:
        return 0
    digits, exponent = math.frexp(abs(mark))
    return (int(digits * 2.0**53) + exponent + 1100) % SLOTS


@compiled("i8(f8[:,::1], f8[::1], f8[::1], f8)")
def slot_of(known: Array, slots: Array, x: Array, mark: float) -> int:
    """The slot that has the row with this fingerprint, or the free one in which it would be."""
    at = own_slot(mark)
    while slots[at] > 0.0:
        place = int(slots[at]) - 1
        if known[MARK, place] == mark:
            same = True
            for j in range(len(x)):
                same = same and known[FEATURES + j, place] == x[j]
            if same:
                return at
        at = (at + 1) % SLOTS
    return at


@compiled("void(f8[:,::1], f8[::1], i8)")
def free_slot(known: Array, slots: Array, at: int) -> None:
    """Free a slot. The rows behind it that would be found no more move up."""
    behind = (at + 1) % SLOTS
    while slots[behind] > 0.0:
        own = own_slot(known[MARK, int(slots[behind]) - 1])
        if (behind - own) % SLOTS >= (behind - at) % SLOTS:
            slots[at] = slots[behind]
            at = behind
        behind = (behind + 1) % SLOTS
    slots[at] = 0.0


@compiled("void(f8[:,::1], f8[::1])")
def fill_slots(known: Array, slots: Array) -> None:
    """Where each of the rows is, from nothing."""
    slots[:] = 0.0
    for place in range(known.shape[1]):
        if known[PLAYED_LAST, place] > 0.0:
            x = known[FEATURES:, place].copy()
            slots[slot_of(known, slots, x, known[MARK, place])] = place + 1.0


@compiled("i8(f8[:,::1], f8[::1], f8[::1])")
def find(known: Array, slots: Array, x: Array) -> int:
    """The place of a row; -1 if it is not remembered."""
    return int(slots[slot_of(known, slots, x, fingerprint(x))]) - 1


@compiled("Tuple((i8, b1))(f8[:,::1], f8[::1], f8[::1], i8)")
def recall(known: Array, slots: Array, x: Array, count: int) -> tuple[int, bool]:
    """The place of the row of the count-th observation, and whether it is new: then it has that of the oldest."""
    mark = fingerprint(x)
    place = int(slots[slot_of(known, slots, x, mark)]) - 1
    new = place < 0
    if new:
        place = int(np.argmin(known[PLAYED_LAST]))
        if known[PLAYED_LAST, place] > 0.0:
            free_slot(known, slots, slot_of(known, slots, known[FEATURES:, place].copy(), known[MARK, place]))
        slots[slot_of(known, slots, x, mark)] = place + 1.0
        known[PLAYS, place], known[MEAN, place], known[MARK, place], known[FEATURES:, place] = 0.0, 0.0, mark, x
    known[PLAYED_LAST, place] = count
    return place, new


@compiled("UniTuple(f8, 2)(f8, f8)")
def own_share(plays: float, variance: float) -> tuple[float, float]:
    """How much a row's own mean counts after so many plays, and the variance, over the noise's, that its effect keeps.

    The effects of rows are N(0, variance noise²).
    """
    whole = 1.0 + plays * variance
    return plays * variance / whole, variance / whole


@compiled("void(f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[::1], f8)")
def own_effects(
    shares: Array, means: Array, left: Array, X: Array, known: Array, slots: Array, variance: float
) -> None:
    """`own_share` of every row of X, and the mean of its rewards."""
    for a in range(len(X)):
        k = find(known, slots, X[a])
        means[a] = known[MEAN, k] if k >= 0 else 0.0
        shares[a], left[a] = own_share(known[PLAYS, k] if k >= 0 else 0.0, variance)


@compiled("void(b1[::1], f8[:,::1], f8[:,::1], f8[::1])")
def find_untried(out: npt.NDArray[np.bool_], X: Array, known: Array, slots: Array) -> None:
    """Whether each row of X was never played, as far as is remembered."""
    for a in range(len(X)):
        k = find(known, slots, X[a])
        out[a] = k < 0 or known[PLAYS, k] == 0.0
