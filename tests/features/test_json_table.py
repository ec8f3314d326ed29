"""Arms read from JSON straight into a table: as the general reader has them, or not at all."""

import json
import math
from types import FunctionType
from typing import Any
from unittest.mock import Mock

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from syndicated._compiled import KERNELS
from syndicated.features import _json_table
from syndicated.features._decimals import MAX_DIGITS, MAX_POWER, nearest_float
from syndicated.features._json_table import split_json
from syndicated.service.bandits.messages import Arm, DecideRequest
from syndicated.service.http.endpoints import BoundEndpoint
from syndicated.service.http.headers import BINARY
from syndicated.service.http.routes import TABLE

NUMBERS = st.one_of(
    st.floats(1e-40, 1e40),
    st.floats(-1e40, -1e-40),
    st.sampled_from([0.0, -0.0]),
    st.integers(-(10**18), 10**18),
    st.decimals(-100, 100, places=6).map(float),
)
decode = msgspec.json.Decoder(DecideRequest).decode


def whole(body: bytes) -> tuple[DecideRequest, list[str], list[list[float]]] | None:
    """What the general reader gives for a body whose arms all have vectors."""
    try:
        request = decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    arms = [arm for arm in request.arms or () if isinstance(arm, Arm) and arm.x is not None]
    return msgspec.structs.replace(request, arms=None), [arm.id for arm in arms], [arm.x or [] for arm in arms]


def at_once(body: bytes) -> tuple[DecideRequest, list[str], list[list[float]]] | None:
    """The same by `split_json`; None where the general reader has to be asked."""
    split = split_json(body)
    if split is None:
        return None
    try:
        request = decode(split[0])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    assert request.arms == []
    return msgspec.structs.replace(request, arms=None), split[1], split[2].tolist()


@given(st.integers(0, 10**MAX_DIGITS - 1), st.integers(-MAX_POWER - 1, MAX_POWER + 1))
@example(2**53 + 1, 0)  # a half
@example(2**53 + 3, 0)
@example(9007199254740993, -1)
@example(10**MAX_DIGITS - 1, MAX_POWER)
@settings(max_examples=2000)
def test_decimals_are_the_nearest_floats_or_are_not_told(w: int, q: int) -> None:
    told = nearest_float(np.uint64(w), q)
    assert told == float(f"{w}e{q}") or math.isnan(told)


def test_usual_decimals_are_told() -> None:
    rng = np.random.default_rng(0)
    for value in (rng.normal(size=2000) * 10.0 ** rng.integers(-8, 9, size=2000)).tolist():
        digits, _, exponent = f"{abs(value):.17e}".partition("e")
        w = int(digits.replace(".", ""))
        assert nearest_float(np.uint64(w), int(exponent) - 17) == float(f"{w}e{int(exponent) - 17}")


@given(
    st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=1, max_size=5)),
    st.fixed_dictionaries(
        {}, optional={"context": st.dictionaries(st.text(), NUMBERS), "subject": st.text('arms"\\x:[', min_size=1)}
    ),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\r\n", " : ")]),
)
def test_tables_are_those_of_the_general_reader(
    rows: list[list[float]], rest: dict[str, Any], id_last: bool, indent: Any, separators: tuple[str, str]
) -> None:
    arms = [{"x": x, "id": f"arm {k}"} if id_last else {"id": f"arm {k}", "x": x} for k, x in enumerate(rows)]
    for fields in ({"arms": arms, **rest}, {**rest, "arms": arms}):
        body = json.dumps(fields, indent=indent, separators=separators).encode()
        expected = whole(body)
        assert expected is not None
        found = at_once(body)
        assert found == expected
        assert str(found) == str(expected)  # also the signs of zeros


BODY = b'{"arms": [{"id": "a", "x": [0.5, -12e-1]}, {"id": "b", "x": [0, 1.25]}], "subject": "s", "k": 1}'


@given(
    st.lists(
        st.tuples(st.integers(0, len(BODY) - 1), st.sampled_from(list(b'"\\,:[]{} 0-+.eExidarms1\n\x00\x1f\x7f\xff'))),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=3000)
def test_whatever_is_accepted_is_what_the_general_reader_accepts(changes: list[tuple[int, int]]) -> None:
    body = bytearray(BODY)
    for place, byte in changes:
        body[place] = byte
    found = at_once(bytes(body))
    assert found is None or found == whole(bytes(body))


@given(st.integers(0, len(BODY)), st.binary(max_size=3))
def test_bodies_that_end_early_are_not_read(end: int, more: bytes) -> None:
    found = at_once(BODY[:end] + more)
    assert found is None or found == whole(BODY[:end] + more)


@pytest.mark.parametrize(
    "arms",
    [
        '["a", "b"]',
        "[]",
        "null",
        '[{"id": "a"}]',
        '[{"id": "a", "x": []}]',
        '[{"id": "a", "x": [1], "features": {}}]',
        '[{"id": "a", "x": [1]}, {"id": "b", "x": [1, 2]}]',
        '[{"id": "a", "id": "b"}, {"x": [1], "x": [1]}]',
        '[{"id": "a", "id": "x"}, {"id": "c", "x": [1]}]',
        '[{"x": [1], "x": [1]}]',
        '[{"id": "", "x": [1]}]',
        '[{"id": "\\u0061", "x": [1]}]',
        '[{"id": "ä", "x": [1]}]',
        '[{"id": "' + 257 * "a" + '", "x": [1]}]',
        '[{"id": "a", "x": [true]}]',
        '[{"id": "a", "x": [null]}]',
        '[{"id": "a", "x": ["1"]}]',
        '[{"id": "a", "x": [[1]]}]',
        '[{"id": "a", "x": [01]}]',
        '[{"id": "a", "x": [1.]}]',
        '[{"id": "a", "x": [.5]}]',
        '[{"id": "a", "x": [+1]}]',
        '[{"id": "a", "x": [1e]}]',
        '[{"id": "a", "x": [1e+]}]',
        '[{"id": "a", "x": [1e999]}]',
        '[{"id": "a", "x": [0.' + 999 * "0" + "1e1010]}]",
        '[{"id": "a", "x": [1' + 64 * "0" + ".25]}]",
        '[{"id": "a", "x": [NaN]}]',
        '[{"id": "a", "x": [1,]}]',
        '[{"id": "a", "x": [1]},]',
        '[{"id": "a", "x": [12345678901234567890]}]',
    ],
)
def test_other_forms_are_left_to_the_general_reader(arms: str) -> None:
    assert split_json(f'{{"arms": {arms}}}'.encode()) is None


def test_the_first_key_of_the_outer_object_counts() -> None:
    inner = b'{"context": {"arms": [{"id": "c", "x": [3]}]}, "arms": [{"id": "a", "x": [1]}]}'
    split = split_json(inner)
    assert split is not None
    assert split[1] == ["a"]
    assert split_json(b'[{"arms": [{"id": "a", "x": [1]}]}]') is None
    assert split_json(b'{"x": 1, "subject": "\\"arms\\": [') is None


KEYS = st.sampled_from(['"arms"', '"\\u0061rms"', '"arm\\u0073" ', '"context"', '"k"', '"subj\\u0065ct"'])
VALUES = st.sampled_from(
    ["[]", "null", '["c"]', '[{"id": "a", "x": [1]}]', '[{"id": "b", "x": [2]}]', '{"arms": [], "x": "}"}', "1", '"x"']
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=5))
@example([('"arms"', '[{"id": "a", "x": [1]}]'), ('"arms"', "[]")])
@example([('"arms"', '[{"id": "a", "x": [1]}]'), ('"\\u0061rms"', "[]")])
@example([('"\\u0061rms"', '["c"]'), ('"arms"', '[{"id": "a", "x": [1]}]')])
@settings(max_examples=1000)
def test_of_fields_that_come_twice_the_last_counts_as_for_the_general_reader(fields: list[tuple[str, str]]) -> None:
    body = f"{{{', '.join(f'{key}: {value}' for key, value in fields)}}}".encode()
    found = at_once(body)
    assert found is None or found == whole(body)


def test_arms_that_come_once_are_read_at_once_whatever_else_comes_twice() -> None:
    assert (
        at_once(b'{"k": 1, "arms": [{"id": "a", "x": [1]}], "context": {"arms": 0, "\\u0061": 1}, "k": 2}') is not None
    )


def interpreted() -> dict[str, Any]:
    """The compiled functions as Python runs them: there a place after the end is an error."""
    names = dict(vars(_json_table))
    for kernel in KERNELS:
        if kernel.function.__module__ == _json_table.__name__:
            names[kernel.function.__name__] = FunctionType(kernel.function.__code__, names)
    return names


def test_nothing_is_read_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_table, "read_arms", interpreted()["read_arms"])
    spaced, short = (
        b'{"\\"":0,"arms" : [ {"id" : "a" , "x" : [ 1 ] } ] }',
        b'{"x":0,"arms":[{"x":[-0.0e+1,2E-3],"id":"a"}]}',
    )
    for body in (BODY, spaced, short):
        for end in range(len(body) + 1):
            for last in (b"", *(bytes([byte]) for byte in b'"\\,:[]{} -.eE0ai')):
                split_json(body[:end] + last)


DECIDE = next(BoundEndpoint(each, Mock(), Mock()) for each in TABLE if BINARY in each.takes)


def test_only_the_usual_form_is_read_at_once_by_the_service() -> None:
    request, table = DECIDE._parse(BODY, binary=False)
    assert table is not None
    assert (request.arms, table.tolist()) == (["a", "b"], [[0.5, -1.2], [0.0, 1.25]])
    for rest in ('"arms": null', '"arms": ["c"]', '"shape": [1, 1]'):
        request, table = DECIDE._parse(f'{{"arms": [{{"id": "a", "x": [1]}}], {rest}}}'.encode(), binary=False)
        assert table is None
