"""Sparse rows through the agent: decisions that keep no zeros, in JSON too, and rows that are refused."""

import json
import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from syndicated import Agent, DiagonalUCB, Fixed, InputError, LinUCB, Space
from syndicated.types import Array

DIM = 2**18
ROWS: Any = [[[1, 9, 70_000], [1.0, -0.5, 2.0]], [[3, 9, 0], [1.0, 1.0, 0.0]]]
ENTRIES = [[[1, 9, 70_000], [1.0, -0.5, 2.0]], [[3, 9], [1.0, 1.0]]]


def agent(**arguments: Any) -> Agent:
    return Agent(DiagonalUCB(dim=DIM), id="a", **arguments)


def test_a_decision_keeps_the_entries_alone() -> None:
    for decision in (agent().decide(ROWS), agent().decide(ROWS[::-1])):
        assert decision.x.tolist() in ENTRIES
        assert json.loads(decision.to_json())["x"] in ENTRIES


def test_a_decision_comes_back_from_json_and_is_learned_the_same() -> None:
    one, other = agent(), agent()
    for _ in range(5):
        one.learn(one.decide(ROWS), 1.0)
        other.learn(other.decision_from_json(other.decide(ROWS).to_json()), 1.0)
    assert one.state() == other.state()


def test_the_order_of_arms_does_not_matter() -> None:
    one, other = (Agent(DiagonalUCB(dim=DIM), Fixed(Space(boldness=[1.0]))) for _ in range(2))
    for each in (one, other):
        each.learn(each.decide(ROWS[:1]), 0.0)  # before that, all arms are equally good
    for reward in (0.0, 1.0, 0.0, 0.0, 1.0):
        first, second = one.decide(ROWS), other.decide(ROWS[::-1])
        assert first.x.tolist() == second.x.tolist()
        one.learn(first, reward)
        other.learn(second, reward)


def test_arms_of_a_sparse_catalogue_are_given_by_number() -> None:
    known, given = agent(catalogue=ROWS), agent()
    for reward in (0.0, 1.0, 1.0):
        mine, its = known.decide([1, 0]), given.decide(ROWS[::-1])
        assert mine.x.tolist() == its.x.tolist()
        known.learn(mine, reward)
        given.learn(its, reward)


def test_a_scipy_matrix_is_sparse_rows() -> None:
    columns, values = [70_000, 9, 1, 9, 3], [2.0, -0.5, 1.0, 1.0, 1.0]
    matrix = sparse.csr_array((values, ([0, 0, 0, 1, 1], columns)), shape=(2, DIM))
    decision = agent().decide(matrix)
    assert decision.x.tolist() == ENTRIES[decision.arm]
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [4, 4])), shape=(1, DIM))
    assert agent().decide(twice).x.tolist() == [[4.0], [3.0]]


def test_rows_without_entries_are_played() -> None:
    assert agent().decide(np.zeros((2, 2, 0))).x.shape == (2, 0)


def rows(**changes: Any) -> Array:
    X = np.array(ROWS, dtype=np.float64)
    for place, value in changes.values():
        X[place] = value
    return X


WRONG: dict[str, tuple[Any, str]] = {
    "three parts": (np.zeros((2, 3, 4)), "sparse arms must have shape (K, 2, n) with K >= 1; got shape (2, 3, 4)"),
    "no arms": (np.zeros((0, 2, 4)), "got shape (0, 2, 4)"),
    "ragged": ([[[1], [1.0]], [[1, 2], [1.0, 1.0]]], "the arms must be a table of numbers"),
    "text": ([[["a"], ["b"]]], "the arms must be a table of numbers"),
    "falling": (rows(a=((0, 0, 1), 0)), "from 0 to 262143, rising; arm 0 has [1.0, 0.0, 70000.0], wrong at place 1"),
    "twice": (rows(a=((0, 0, 1), 1)), "rising; arm 0"),
    "outside": (rows(a=((1, 0, 1), DIM)), "rising; arm 1 has [3.0, 262144.0, 0.0], wrong at place 1"),
    "negative": (rows(a=((1, 0, 0), -1)), "rising; arm 1"),
    "outside, filled up": (rows(a=((1, 0, 2), 1e300)), "wrong at place 2"),
    "half a column": (rows(a=((1, 0, 1), 3.5)), "wrong at place 1"),
    "no column": (rows(a=((1, 0, 1), np.nan)), "wrong at place 1"),
    "no number": (rows(a=((1, 1, 0), np.nan)), "features must be finite; arm 1, entry 0 is nan"),
    "too large": (rows(a=((0, 1, 2), 1e60)), "features must be at most 1e+50 in size; arm 0, entry 2 is 1e+60"),
    "narrow matrix": (sparse.csr_array((2, 9)), "the arms must have shape (K, 262144) with K >= 1; got shape (2, 9)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused_and_change_nothing(case: str) -> None:
    mine, (given, message) = agent(), WRONG[case]
    before = mine.state()
    with pytest.raises(InputError, match=re.escape(message)):
        mine.decide(given)
    assert mine.state() == before


@pytest.mark.parametrize("x", [[[0.5], [1.0]], [[1], [1.0], [1.0]], [1.0], None])
def test_wrong_rows_in_json_are_refused(x: Any) -> None:
    mine = agent()
    line = json.loads(mine.decide(ROWS).to_json())
    with pytest.raises(InputError, match=r"sparse|the arms"):
        mine.decision_from_json(json.dumps({**line, "x": x}))


def test_a_dense_policy_takes_no_sparse_rows() -> None:
    with pytest.raises(InputError, match=re.escape("shape (K, 3) with K >= 1; got shape (2, 2, 3)")):
        Agent(LinUCB(dim=3)).decide(ROWS)
