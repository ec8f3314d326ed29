"""Tables of pandas as arms: their numbers are the features."""

from typing import Any

import pytest

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
