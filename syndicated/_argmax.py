"""From scores to arms: the largest of each row, and the few largest of one."""

import numpy as np

from syndicated._compiled import compiled
from syndicated._validation import MAX_MAGNITUDE
from syndicated.types import Array, Ints


@compiled("void(i8[::1], f8[:,::1], f8[:,::1])")
def best(out: Ints, scores: Array, arms: Array) -> None:
    """The index of each row's largest score, the first of equals; -1 if a score is not finite or that arm too large.

    A feature that is not finite makes its arm's score so; this spares a pass over all features.
    """
    for row in range(len(scores)):
        arm = 0
        nothing = 0.0
        for a in range(scores.shape[1]):
            nothing += 0.0 * scores[row, a]
            if scores[row, a] > scores[row, arm]:
                arm = a
        out[row] = arm if nothing == 0.0 else -1
        for i in range(arms.shape[1]):
            if abs(arms[arm, i]) > MAX_MAGNITUDE:
                out[row] = -1


def best_of(scores: Array, arms: Array) -> Ints:
    """`best` in a new array."""
    out = np.empty(len(scores), dtype=np.int64)
    best(out, scores, arms)
    return out


@compiled("void(i8[::1], f8[::1])")
def largest(out: Ints, scores: Array) -> None:
    """The places of the largest scores, as many as there is room for, in order; the first of equals first."""
    for a in range(len(scores)):
        place = min(a, len(out))
        while place > 0 and scores[a] > scores[out[place - 1]]:
            if place < len(out):
                out[place] = out[place - 1]
            place -= 1
        if place < len(out):
            out[place] = a


@compiled("f8(i8[::1], f8[::1], i8)")
def chance_of(played: Ints, probabilities: Array, arm: int) -> float:
    """The probability of an arm: that of all points which play it."""
    chance = 0.0
    for n in range(len(played)):
        if played[n] == arm:
            chance += probabilities[n]
    return min(1.0, chance)


@compiled("void(f8[:,::1], f8[:,::1], i8, i8, i8[::1], f8[::1], i8)")
def explain(out: Array, scores: Array, row: int, greedy_row: int, played: Ints, probabilities: Array, arm: int) -> None:
    """Why an arm is played: in one call, since each costs as much as what it computes.

    Into the first row of `out` its probability, and whether another arm has a larger score without exploration. Into
    the others the arms with the largest scores, of which it is one, in any case the last: their place, their score, and
    what of it is exploration.
    """
    own, greedy, top = scores[row], scores[greedy_row], np.empty(len(out) - 1, dtype=np.int64)
    largest(top, own)
    if not (top == arm).any():
        top[-1] = arm
    out[0, 0] = chance_of(played, probabilities, arm)
    out[0, 1], out[0, 2] = (1.0 if greedy[arm] < greedy.max() else 0.0), 0.0
    for n in range(len(top)):
        out[n + 1, 0], out[n + 1, 1], out[n + 1, 2] = top[n], own[top[n]], own[top[n]] - greedy[top[n]]


@compiled("f8[:,::1](f8[::1], i8[::1], i8, i8)")
def table_in(scores: Array, ends: Ints, points: int, n: int) -> Array:
    """The scores of the n-th of several tables, which stand one after the other: a row for each point."""
    start, end = (ends[n - 1] if n > 0 else 0), ends[n]
    table: Array = scores[points * start : points * end].reshape(points, end - start)
    return table


@compiled("void(i8[:,::1], f8[::1], i8[::1], f8[:,::1])")
def best_in_tables(out: Ints, scores: Array, ends: Ints, arms: Array) -> None:
    """`best` of each of several tables of scores, whose arms end at these rows of `arms`."""
    start = 0
    for n in range(len(ends)):
        best(out[n], table_in(scores, ends, out.shape[1], n), arms[start : ends[n]])
        start = ends[n]


@compiled("void(f8[:,:,::1], f8[::1], i8[::1], i8[:,::1], i8[::1], i8[::1], f8[::1])")
def explain_tables(
    out: Array, scores: Array, ends: Ints, played: Ints, rows: Ints, greedy_rows: Ints, probabilities: Array
) -> None:
    """`explain` of the arm that each table's own row plays; what has no room in `out`, or no arm, is left out."""
    for n in range(len(ends)):
        table, rivals = table_in(scores, ends, played.shape[1], n), played[n, : len(probabilities)]
        numbers = out[n, : 1 + table.shape[1]]
        explain(numbers, table, rows[n], greedy_rows[n], rivals, probabilities, played[n, rows[n]])
