"""The tables of all arms as the log keeps them come back to the bit."""

from typing import Any

import numpy as np
import pytest

from syndicated.service.bandits.records import Decided, decode_decided, encode
from syndicated.service.bandits.tables import pack_arms, pack_table, unpack_arms, unpack_table
from syndicated.types import Array


def _decided(X: Array, place: int) -> Decided:
    known: dict[str, Any] = {
        "epoch": 1,
        "version": 1,
        "by": "agent",
        "arm": "a",
        "place": place,
        "count": len(X),
        "propensity": 1.0,
    }
    return decode_decided(encode(Decided(**known, x=X[place].tobytes(), **pack_table(X, place))))


@pytest.mark.parametrize("seed", range(20))
def test_a_table_comes_back_to_the_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, dim = int(rng.integers(1, 30)), int(rng.integers(1, 12))
    X = np.tile(rng.normal(size=dim), (K, 1))
    own = rng.random((K, dim)) < rng.choice([0.0, 0.1, 0.9])
    X[own] = rng.choice([0.0, -0.0, 1.0, 2.5], size=np.count_nonzero(own))
    place = int(rng.integers(K))
    unpacked = unpack_table(_decided(X, place))
    assert unpacked is not None
    assert unpacked.tobytes() == X.tobytes()


def test_arms_that_are_all_alike_cost_nothing_and_those_with_features_pay_for_their_own() -> None:
    X = np.tile(np.arange(64.0), (100, 1))
    alike = len(encode(_decided(X, 3)))
    assert alike == len(encode(_decided(X[:1], 0)))
    X[:, 7] = np.arange(100)
    assert len(encode(_decided(X, 3))) - alike < 64 * 8 + 100 * 13
    whole = np.random.default_rng(0).normal(size=(100, 64))
    assert whole.tobytes() == _decided(whole, 0).X


def test_registered_arms_have_numbers_in_place_of_their_ids() -> None:
    numbers = {"tea": 0, "milk": 1}
    packed = pack_arms(["milk", "7", "tea"], numbers)
    assert packed == [1, "7", 0]
    assert unpack_arms(packed, numbers | {"coffee": 2}) == ["milk", "7", "tea"]
    assert unpack_arms(None, numbers) is None
