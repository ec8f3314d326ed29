"""Sparse rows: for each arm the columns that are not 0 and their values, an array (K, 2, n).

>>> check_rows([[[3, 70_000], [1.0, 0.5]], [[3, 0], [2.0, 0.0]]], 2**18).shape  # the second row has one entry
(2, 2, 2)
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from syndicated._compiled import compiled
from syndicated._validation import check_arms, check_features, kernel_numbers, shorten
from syndicated.errors import InputError
from syndicated.types import Array


def check_rows(X: npt.ArrayLike, dim: int) -> Array:
    """The arms' features: a table, as `check_arms` gives it, or sparse rows, also those of a SciPy matrix."""
    if hasattr(X, "tocsr"):
        X = _from_scipy(X.tocsr(copy=True), dim)
    try:
        if np.ndim(X) != 3:
            return check_arms(X, dim)
        rows = kernel_numbers(X)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the arms must be a table of numbers, one row an arm; got {shorten(X)}") from None
    if rows.shape[1] != 2 or len(rows) == 0:
        raise InputError(f"sparse arms must have shape (K, 2, n) with K >= 1; got shape {rows.shape}")
    wrong = _first_wrong_column(rows, dim)
    if wrong >= 0:
        a, j = divmod(wrong, rows.shape[2])
        must = f"the columns of a sparse row must be whole numbers from 0 to {dim - 1}, rising"
        raise InputError(f"{must}; arm {a} has {shorten(rows[a, 0].tolist())}, wrong at place {j}")
    check_features(rows[:, 1], "entry")
    return rows


def _from_scipy(matrix: Any, dim: int) -> Array:
    if matrix.shape[1] != dim or matrix.shape[0] == 0:
        raise InputError(f"the arms must have shape (K, {dim}) with K >= 1; got shape {matrix.shape}")
    matrix.sum_duplicates()  # it sorts the columns too
    counts = np.diff(matrix.indptr)
    rows = np.zeros((len(counts), 2, counts.max()))
    there = np.arange(rows.shape[2]) < counts[:, None]
    rows[:, 0][there], rows[:, 1][there] = matrix.indices, matrix.data
    return rows


@compiled("i8(f8[:,:,::1], i8)")
def _first_wrong_column(rows: Array, dim: int) -> int:
    """The place of the first column that is none of `dim`, or not after the one before it; -1 if there is none."""
    for a in range(len(rows)):
        last = -1.0
        for j in range(rows.shape[2]):
            column, counts = rows[a, 0, j], rows[a, 1, j] != 0.0
            one_of_them = 0.0 <= column < dim and column == np.floor(column)
            if not one_of_them or (counts and column <= last):
                return int(a * rows.shape[2] + j)
            if counts:
                last = column
    return -1
