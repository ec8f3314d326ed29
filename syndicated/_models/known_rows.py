"""The rows that were played last: how often each was, what it paid on average, and the effect of its own that shows.

Where the model has started again, that is counted anew; how often a row was played and what it paid before is kept.

What is known of a row is a column of one array. Its place is found by its fingerprint, in a hash table with open
addressing: a slot has the place plus 1, or 0, and a row is in the first free slot from its own one on.

Kernels that are called for every arm are given the table and the number of its row: a view of the row would cost as
much as finding it.
"""

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated.types import Array

# The rows of the array; from the last on, features.
PLAYS, MEAN, PLAYED_LAST, MARK, PLAYS_BEFORE, MEAN_BEFORE, FEATURES = range(7)
MAX_ROWS = 256  # that are remembered
SLOT_BITS = 10
SLOTS = 2**SLOT_BITS  # four for a row
GOLDEN = 0.6180339887498949  # its multiples, less their integers, are all different
GOLDEN_BITS = np.uint64(0x9E3779B97F4A7C15)  # the first 64 of them
OTHER_BITS = np.uint64(64 - SLOT_BITS)
MARKS = 0.5 + GOLDEN * np.arange(4096) % 1.0  # weights of the features in a fingerprint


@compiled("f8(f8[:,::1], i8)")
def fingerprint(X: Array, a: int) -> float:
    """A number that two rows have in common only if they are equal, but for a rare chance."""
    total = 0.0
    for j in range(X.shape[1]):
        total += X[a, j] * MARKS[j & 4095]
    return total


@compiled("i8(f8)")
def own_slot(mark: float) -> int:
    """The slot of a row with this fingerprint, unless others have taken it: its bits, spread over the slots."""
    return np.int64((np.float64(mark).view(np.uint64) * GOLDEN_BITS) >> OTHER_BITS)  # type: ignore[return-value]


@compiled("i8(f8[:,::1], f8[::1], f8[:,::1], i8, f8)")
def slot_of(known: Array, slots: Array, X: Array, a: int, mark: float) -> int:
    """The slot that has the row with this fingerprint, or the free one in which it would be."""
    at = own_slot(mark)
    while slots[at] > 0.0:
        place = int(slots[at]) - 1
        if known[MARK, place] == mark:
            same = True
            for j in range(X.shape[1]):
                same = same and known[FEATURES + j, place] == X[a, j]
            if same:
                return at
        at = (at + 1) % SLOTS
    return at


@compiled("i8(f8[:,::1], f8[::1], i8)")
def slot_of_place(known: Array, slots: Array, place: int) -> int:
    """The slot that has the row at this place, or the free one in which it would be."""
    return slot_of(known, slots, known[FEATURES:, place].copy().reshape((1, -1)), 0, known[MARK, place])


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
            slots[slot_of_place(known, slots, place)] = place + 1.0


@compiled("i8(f8[:,::1], f8[::1], f8[:,::1], i8)")
def find(known: Array, slots: Array, X: Array, a: int) -> int:
    """The place of a row; -1 if it is not remembered."""
    return int(slots[slot_of(known, slots, X, a, fingerprint(X, a))]) - 1


@compiled("UniTuple(i8, 2)(f8[:,::1], f8[::1], f8[::1], i8)")
def recall(known: Array, slots: Array, x: Array, count: int) -> tuple[int, int]:
    """The place of the row of the count-th observation, and which observation of it was the last, 0 if it is new.

    A new row has the place of the oldest.
    """
    X = x.reshape((1, -1))
    mark = fingerprint(X, 0)
    place = int(slots[slot_of(known, slots, X, 0, mark)]) - 1
    if place < 0:
        place = int(np.argmin(known[PLAYED_LAST]))
        if known[PLAYED_LAST, place] > 0.0:
            free_slot(known, slots, slot_of_place(known, slots, place))
        slots[slot_of(known, slots, X, 0, mark)] = place + 1.0
        known[:, place] = 0.0
        known[MARK, place], known[FEATURES:, place] = mark, x
    last = int(known[PLAYED_LAST, place])
    known[PLAYED_LAST, place] = count
    return place, last


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
        k = find(known, slots, X, a)
        if k >= 0:
            means[a] = known[MEAN, k]
            shares[a], left[a] = own_share(known[PLAYS, k], variance)
        else:
            means[a], shares[a], left[a] = 0.0, 0.0, variance


@compiled("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def draw_effects(scores: Array, shares: Array, means: Array, left: Array, alphas: Array, z: Array) -> None:
    """Scores of rows without effects to those with a draw of the effect of each, `alphas` times as wide as is known."""
    for n in range(len(scores)):
        for a in range(len(z)):
            own = shares[a] * (means[a] - scores[n, a])
            scores[n, a] += own + alphas[n] * (np.sqrt(left[a]) * z[a])


@compiled("void(b1[::1], f8[:,::1], f8[:,::1], f8[::1])")
def find_untried(out: npt.NDArray[np.bool_], X: Array, known: Array, slots: Array) -> None:
    """Whether each row of X was never played, as far as is remembered."""
    for a in range(len(X)):
        k = find(known, slots, X, a)
        out[a] = k < 0 or known[PLAYS, k] == 0.0


@compiled("i8(f8[:,::1], f8[:,::1], f8[::1], f8)")
def find_unseen(X: Array, known: Array, slots: Array, before: float) -> int:
    """The number of the row of X that went unplayed for longest, at least since this round; -1 if none did."""
    unseen = -1
    for a in range(len(X)):
        k = find(known, slots, X, a)
        if k >= 0 and known[PLAYS, k] > 0.0 and known[PLAYED_LAST, k] < before:
            unseen, before = a, known[PLAYED_LAST, k]
    return unseen
