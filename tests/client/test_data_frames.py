"""Tables of pandas as arms: their columns are the features, or their numbers where no column has the ids."""

from pathlib import Path
from typing import Any

import pytest
from support.live_service import PATIENT, service

from syndicated import Agent
from syndicated_client import Client
from syndicated_client._calls import _arms
from syndicated_client._errors import InputError

pd: Any = pytest.importorskip("pandas")


def test_a_data_frame_is_a_table_of_arms() -> None:
    frame = pd.DataFrame({"price": [1.0, 2.0], "stars": [3, 4]})
    listed, table, names = _arms(frame, ["tea", "coffee"])
    assert listed == [{"id": "tea", "x": [1.0, 3.0]}, {"id": "coffee", "x": [2.0, 4.0]}]
    assert (table, names) == (None, ["tea", "coffee"])


def test_a_data_frame_with_texts_is_refused() -> None:
    with pytest.raises(InputError, match="the arms must be a table of numbers, one row an arm"):
        _arms(pd.DataFrame({"colour": ["red", "blue"]}), None)


def test_a_data_frame_with_a_column_of_ids_is_arms_with_features_as_it_is_to_the_library(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "id": ["tea", "milk"],
        "price": [2.5, None],
        "kind": ["hot", None],
        "stars": [4, 5],
    }
    frame = pd.DataFrame(columns).astype({"stars": "Int64"})
    frame.loc[1, "stars"] = pd.NA
    listed, table, names = _arms(frame, None)
    assert listed == [
        {"id": "tea", "features": {"price": 2.5, "kind": "hot", "stars": 4}},
        {"id": "milk", "features": {}},
    ]
    assert (table, names) == (None, ["tea", "milk"])
    assert Agent().decide({"hour": 9}, arms=frame).arm in columns["id"]
    with service(tmp_path / "journal.db") as server, Client(server.url, server.key, **PATIENT) as client:
        client.create("shop")
        assert client.decide("shop", frame, {"hour": 9}).arm in columns["id"]


def test_ids_of_a_data_frame_must_be_texts() -> None:
    with pytest.raises(InputError, match="an arm must be an id, which is a text, or have one"):
        _arms(pd.DataFrame({"id": [7], "price": [2.5]}), None)
