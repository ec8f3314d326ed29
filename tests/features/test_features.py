"""Features as people have them: vectors, hashed objects and ids as tables of numbers, and binary bodies."""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syndicated import Agent, InputError, LinUCB
from syndicated.features import Arm, Encoder
from syndicated.features._hashing import MAX_CACHED_CHARACTERS, hash_text
from syndicated.features.binary import split_body
from syndicated.types import Array
from syndicated_client import join_body

CONTEXT: dict[str, Any] = {"age": 30, "member": True, "device": {"os": "linux", "width": 1.5}, "none": None}
FEATURES: list[dict[str, Any]] = [
    {"price": 9.5, "colour": "red", "tags": ["new", "sale"]},
    {"price": -2, "colour": "blue", "tags": [], "maker": {"name": "Åse", "years": 12}},
    {},
]
ARMS = [Arm(f"a{k}", features=each) for k, each in enumerate(FEATURES)]

quick = settings(max_examples=60)
number = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9)
flat = st.none() | st.booleans() | number | st.text(max_size=8) | st.lists(st.text(max_size=4), max_size=3)
names = st.text(max_size=6)
objects = st.dictionaries(names, flat | st.dictionaries(names, flat, max_size=3), max_size=4)


def hashed(context: Any, *arms: Any, **spec: Any) -> Array:
    encoder = Encoder.from_spec({"kind": "hashed", "dim": 16} | spec)
    return encoder.table(context, [Arm(str(k), features=arm) for k, arm in enumerate(arms)])


# Vectors


def test_a_vector_is_its_row() -> None:
    encoder = Encoder.from_spec({"kind": "vector", "dim": 3})
    table = encoder.table(None, [Arm("a", x=[1, 2.5, -3]), Arm("b", x=[0.0, 0.0, 1e50])])
    assert encoder.dim == 3
    assert table.tolist() == [[1.0, 2.5, -3.0], [0.0, 0.0, 1e50]]


def test_a_context_of_numbers_stands_before_the_arm_s_own() -> None:
    encoder = Encoder.from_spec({"kind": "vector", "dim": 1, "context": 2})
    expected = [[7.0, 8.0, 1.0], [7.0, 8.0, 2.0]]
    assert encoder.dim == 3
    assert encoder.table([7, 8], [Arm("a", x=[1]), Arm("b", x=[2])]).tolist() == expected
    assert encoder.with_context([7, 8], [[1], [2]]).tolist() == expected


@pytest.mark.parametrize("context", [None, [], {}])
def test_no_context_may_be_said_in_three_ways(context: Any) -> None:
    assert Encoder.from_spec({"kind": "vector", "dim": 1}).table(context, [Arm("a", x=[1])]).tolist() == [[1.0]]


def test_an_agent_takes_the_table() -> None:
    for encoder, context, arms in (
        (Encoder.from_spec({"kind": "vector", "dim": 2}), None, [Arm("a", x=[1, 0]), Arm("b", x=[0, 1])]),
        (Encoder.from_spec({"kind": "hashed", "dim": 16}), CONTEXT, ARMS),
        (Encoder.from_spec({"kind": "ids", "dim": 4, "context": 1}), [0.5], [Arm("a"), Arm("b")]),
    ):
        agent = Agent(LinUCB(dim=encoder.dim))
        agent.learn(agent.decide(encoder.table(context, arms)), 1.0)
        prepared = [encoder.prepare(arm) for arm in arms]
        agent.learn(agent.decide(encoder.table(context, prepared)), 1.0)


# Prepared arms

CASES: list[tuple[dict[str, Any], Any, list[Arm]]] = [
    ({"kind": "vector", "dim": 2, "context": 1}, [3], [Arm("a", x=[1, 0]), Arm("b", x=[0, 1]), Arm("c", x=[1, 1])]),
    ({"kind": "hashed", "dim": 16}, CONTEXT, ARMS),
    ({"kind": "ids", "arms": ["a", "b", "c"], "context": 2}, [1, 2], [Arm("c"), Arm("a"), Arm("b")]),
]


@pytest.mark.parametrize(("spec", "context", "arms"), CASES)
def test_prepared_arms_give_the_same_table_alone_or_among_others(spec: Any, context: Any, arms: list[Arm]) -> None:
    encoder = Encoder.from_spec(spec)
    prepared = [encoder.prepare(arm) for arm in arms]
    expected = encoder.table(context, arms)
    assert [arm.id for arm in prepared] == [arm.id for arm in arms]
    assert np.array_equal(encoder.table(context, prepared), expected)
    assert np.array_equal(encoder.table(context, [prepared[0], *arms[1:]]), expected)
    assert np.array_equal(encoder.table(context, [arms[0], *prepared[1:]]), expected)


@pytest.mark.parametrize(("spec", "context", "arms"), CASES)
def test_an_arm_s_row_does_not_depend_on_the_other_arms(spec: Any, context: Any, arms: list[Arm]) -> None:
    encoder = Encoder.from_spec(spec)
    table = encoder.table(context, arms)
    for arm, row in zip(arms, table, strict=True):
        assert np.array_equal(encoder.table(context, [arm])[0], row)


# Hashed objects


def _hash(text: str, seed: int) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, salt=seed.to_bytes(16, "little")).digest(), "little")


def _pair(context: int, arm: int) -> int:
    z = (context * 0x9E3779B97F4A7C15 + arm) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def _tokens(side: str, thing: dict[str, Any], seed: int) -> list[tuple[int, float]]:
    names = [(name, value) for name, value in thing.items() if not isinstance(value, dict)]
    names += [
        (f"{o}.{i}", value) for o, inner in thing.items() if isinstance(inner, dict) for i, value in inner.items()
    ]
    found = []
    for name, value in names:
        if isinstance(value, (bool, str, list)):
            texts = set(value) if isinstance(value, list) else {value if isinstance(value, str) else json.dumps(value)}
            found += [(_hash(f"{side}\x1f{name}\x1f{text}", seed), 1.0) for text in texts]
        elif value is not None:
            found.append((_hash(f"{side}\x1f{name}", seed), float(value)))
    return found


def by_hand(context: dict[str, Any], arm: dict[str, Any], dim: int, seed: int, interactions: bool) -> list[float]:
    """The row of one arm as docs/features.md defines it, with exact sums."""
    left, right = _tokens("context", context, seed), _tokens("arm", arm, seed)
    pairs = [(_pair(a, b), v * w) for a, v in left for b, w in right] if interactions else []
    columns: list[list[float]] = [[] for _ in range(dim)]
    for key, value in left + right + pairs:
        columns[key % dim].append(-value if key >> 63 else value)
    return [math.fsum(column) for column in columns]


@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize(("dim", "seed"), [(1, 0), (7, 3), (64, 2**63 - 1)])
def test_the_hashing_is_the_one_that_the_page_describes(dim: int, seed: int, interactions: bool) -> None:
    table = hashed(CONTEXT, *FEATURES, dim=dim, seed=seed, interactions=interactions)
    for row, arm in zip(table, FEATURES, strict=True):
        np.testing.assert_allclose(row, by_hand(CONTEXT, arm, dim, seed, interactions), rtol=1e-12, atol=1e-12)


def test_the_columns_are_the_same_on_every_machine() -> None:
    """Written down once: if one of these changes, every bandit that was ever saved has lost what it learned."""
    assert hash_text(0, "arm\x1fprice") == 2399777818024792150
    assert hash_text(7, "context\x1fcountry\x1fÅland") == 2622102831020846255
    assert hashed({"age": 2}, {"price": 3.0, "tags": ["a", "b"]}, dim=8).tolist() == [
        [0.0, -3.0, -6.0, 2.0, 0.0, 0.0, 4.0, -2.0]
    ]
    assert hashed({"age": 2}, {"price": 3.0}, dim=8, seed=1, interactions=False).tolist() == [
        [0.0, 0.0, -3.0, 0.0, 0.0, 0.0, 0.0, 2.0]
    ]
    ids = Encoder.from_spec({"kind": "ids", "dim": 1000, "seed": 5})
    assert [int(np.argmax(row)) for row in ids.table(None, [Arm("a"), Arm("b"), Arm("")])] == [17, 543, 350]


@quick
@given(context=st.none() | objects, arms=st.lists(objects, min_size=1, max_size=3), seed=st.integers(0, 2**63 - 1))
def test_every_object_becomes_finite_numbers_twice_the_same(context: Any, arms: list[Any], seed: int) -> None:
    table = hashed(context, *arms, seed=seed)
    assert table.shape == (len(arms), 16)
    assert np.isfinite(table).all()
    assert np.array_equal(table, hashed(context, *arms, seed=seed))
    assert np.array_equal(table, hashed(json.loads(json.dumps(context)), *json.loads(json.dumps(arms)), seed=seed))


@quick
@given(context=objects, arm=objects, data=st.data())
def test_the_order_of_keys_does_not_matter(context: Any, arm: Any, data: st.DataObject) -> None:
    def shuffled(thing: dict[str, Any]) -> dict[str, Any]:
        inner = {name: shuffled(value) if isinstance(value, dict) else value for name, value in thing.items()}
        return dict(data.draw(st.permutations(list(inner.items()))))

    assert np.array_equal(hashed(context, arm, dim=3), hashed(shuffled(context), shuffled(arm), dim=3))


def test_another_seed_gives_other_columns() -> None:
    tables = [hashed(CONTEXT, *FEATURES, seed=seed) for seed in range(4)]
    assert all(not np.array_equal(tables[i], tables[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": True}, {"a": "true"}),
        ({"a": {"b": 2}}, {"a.b": 2.0}),
        ({"a": ["x"]}, {"a": "x"}),
        ({"a": ["x", "y", "x"]}, {"a": ["y", "x"]}),
        ({"a": None, "b": 0, "c": [], "d": {}}, {}),
    ],
)
def test_what_means_the_same_is_the_same(one: Any, other: Any) -> None:
    assert np.array_equal(hashed({"c": 2}, one), hashed({"c": 2}, other))


def test_the_same_name_in_context_and_arm_is_two_features() -> None:
    assert not np.array_equal(hashed({"a": 1}, {}), hashed({}, {"a": 1}))


def test_numbers_scale_and_pairs_multiply() -> None:
    one, five = hashed({"c": 1}, {}, {"a": 1}), hashed({"c": 1}, {}, {"a": 5})
    assert np.array_equal(five[1] - five[0], 5 * (one[1] - one[0]))
    ten = hashed({"c": 10}, {"a": 5})
    alone = hashed({}, {"a": 5})
    assert np.array_equal(ten[0] - alone[0], 10 * (five[1] - alone[0]))


def test_long_and_odd_strings_are_hashed_like_others() -> None:
    for text in ("x" * (MAX_CACHED_CHARACTERS + 1), "\ud800", "\x00", ""):
        (row,) = hashed(None, {"a": text}).tolist()
        assert row == by_hand({}, {"a": text}, 16, 0, True)


def test_pairs_of_tokens_in_one_column_have_columns_of_their_own() -> None:
    """With the sum of the two hashes for a pair, arms that collide alone would collide in every pair."""
    arms = [{"id": str(k)} for k in range(2000)]
    context = {str(k): 1 for k in range(40)}
    alone, table = hashed(None, *arms, dim=256), hashed(context, *arms, dim=256)
    k, other = next((i, j) for i in range(1, len(arms)) for j in range(i) if np.array_equal(alone[i], alone[j]))
    assert np.abs(table[k] - table[other]).sum() > 40


# Ids


def test_listed_ids_have_columns_of_their_own_in_the_list_s_order() -> None:
    encoder = Encoder.from_spec({"kind": "ids", "arms": ["a", "b", "c"]})
    assert encoder.dim == 3
    assert encoder.table(None, [Arm("c"), Arm("a")]).tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


def test_with_a_context_every_id_has_a_block() -> None:
    encoder = Encoder.from_spec({"kind": "ids", "arms": ["a", "b"], "context": 2})
    assert encoder.dim == 6
    assert encoder.table([5, 7], [Arm("b"), Arm("a")]).tolist() == [[0, 0, 0, 1, 5, 7], [1, 5, 7, 0, 0, 0]]


@quick
@given(ids=st.lists(st.text(max_size=5), min_size=1, max_size=20), dim=st.integers(1, 40))
def test_hashed_ids_are_one_column_each(ids: list[str], dim: int) -> None:
    table = Encoder.from_spec({"kind": "ids", "dim": dim}).table(None, [Arm(each) for each in ids])
    assert table.shape == (len(ids), dim)
    assert (np.sort(table, axis=1)[:, -1] == 1).all()
    assert (table.sum(axis=1) == 1).all()


# Binary bodies


@quick
@given(
    K=st.integers(1, 5),
    d=st.integers(1, 4),
    data=st.data(),
    head=st.dictionaries(st.sampled_from(["context", "bandit"]), objects | st.text()),
)
def test_a_binary_body_comes_back(K: int, d: int, data: st.DataObject, head: dict[str, Any]) -> None:
    cells = st.floats(width=32, allow_nan=False, allow_infinity=False)
    X = np.array(data.draw(st.lists(st.lists(cells, min_size=d, max_size=d), min_size=K, max_size=K)))
    text, table = split_body(join_body(head, X))
    assert json.loads(text) == head | {"shape": [K, d]}
    assert table.dtype == np.float64
    assert np.array_equal(table, X)


def test_the_bytes_of_a_binary_body() -> None:
    body = join_body({}, np.array([[1.0, -2.0]]))
    assert body == b'\x0f\x00\x00\x00{"shape":[1,2]}' + bytes.fromhex("0000803f 000000c0")


def test_the_table_of_a_body_is_a_table_for_vectors() -> None:
    _, X = split_body(join_body({"arms": ["a", "b"]}, np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert Encoder.from_spec({"kind": "vector", "dim": 2}).with_context(None, X).tolist() == [[1.0, 2.0], [3.0, 4.0]]


# What is refused

VECTOR, BESIDE = {"kind": "vector", "dim": 2}, {"kind": "vector", "dim": 2, "context": 1}
HASHED, IDS = {"kind": "hashed", "dim": 8}, {"kind": "ids", "dim": 8}
GOOD, OBJECT, BOTH, BARE = Arm("a", x=[1, 2]), Arm("a", features={}), Arm("a", x=[1, 2], features={}), Arm("a")
SIZE = "must be finite and at most 1e+50 in size; got"
VALUE = "must be a number, a string, true, false, null or a list of strings; got"
EITHER = "features of kind ids must have either arms, a list of ids, or dim, a number of columns"

SPECS: list[tuple[Any, str]] = [
    ([], "features must be an object; got []"),
    ({}, "features.kind must be one of vector, hashed, ids, fields, open; got None"),
    ({"kind": ["vector"]}, "features.kind must be one of vector, hashed, ids, fields, open; got ['vector']"),
    (VECTOR | {"size": 2}, "features of kind vector have dim, context; got 'size'"),
    ({"kind": "vector"}, "features.dim must be a whole number of at least 1; got None"),
    (VECTOR | {"dim": 2.0}, "features.dim must be a whole number of at least 1; got 2.0"),
    (VECTOR | {"context": -1}, "features.context must be a whole number of at least 0; got -1"),
    (VECTOR | {"context": 9999}, "features must have at most 10000 columns; got 10001"),
    (HASHED | {"dim": 2**22 + 1}, "features.dim must be at most 4194304; got 4194305"),
    (HASHED | {"ids": "yes"}, "features.ids must be true or false; got 'yes'"),
    (HASHED | {"seed": "1"}, "features.seed must be a whole number of at least 0; got '1'"),
    (HASHED | {"interactions": 1}, "features.interactions must be true or false; got 1"),
    ({"kind": "ids"}, EITHER),
    (IDS | {"arms": ["a"]}, EITHER),
    ({"kind": "ids", "arms": []}, "features.arms must be a list of ids, at least one; got []"),
    ({"kind": "ids", "arms": ["a", 1]}, "features.arms must be a list of ids, at least one; got ['a', 1]"),
    ({"kind": "ids", "arms": ["a", "a"]}, "features.arms must be different ids; got ['a', 'a']"),
    (
        {"kind": "ids", "arms": ["a"], "seed": 7},
        "features.seed is for ids that are hashed to dim columns, not for arms; got 7",
    ),
]

TABLES: list[tuple[Any, Any, list[Any], str]] = [
    (VECTOR, None, [], "arms must be a list of at least one arm; got []"),
    (VECTOR, None, [GOOD, [1]], "arms[1].x must be a list of 2 numbers; got [1]"),
    (VECTOR, None, [GOOD, None], "arms[1].x must be a list of 2 numbers; got None"),
    (VECTOR, None, [GOOD, 5], "arms[1].x must be a list of 2 numbers; got 5"),
    (VECTOR, None, [GOOD, "12"], "arms[1].x must be a list of 2 numbers; got '12'"),
    (VECTOR, None, [GOOD, [1, "2"]], "arms[1].x[1] must be a number; got '2'"),
    (VECTOR, None, [GOOD, [True, 2]], "arms[1].x[0] must be a number; got True"),
    (VECTOR, None, [GOOD, [1, math.nan]], f"arms[1].x[1] {SIZE} nan"),
    (VECTOR, None, [GOOD, [-1e51, 1]], f"arms[1].x[0] {SIZE} -1e+51"),
    (VECTOR, None, [GOOD, [1, 10**400]], f"arms[1].x[1] {SIZE} 1{'0' * 56}..."),
    (VECTOR, None, [OBJECT], "arms[0].features must be absent with these features of kind vector; got {}"),
    (VECTOR, None, [BOTH], "arms[0].features must be absent with these features of kind vector; got {}"),
    (VECTOR, [1], [GOOD], "context must be absent with these features of kind vector; got [1]"),
    (BESIDE, None, [GOOD], "context must be a list of 1 numbers; got None"),
    (BESIDE, {"a": 1}, [GOOD], "context must be a list of 1 numbers; got {'a': 1}"),
    (BESIDE, [math.inf], [GOOD], f"context[0] {SIZE} inf"),
    (HASHED, [1], [OBJECT], "context must be an object; got [1]"),
    (HASHED, None, [OBJECT, BARE], "arms[1].features must be an object; got None"),
    (HASHED, None, [OBJECT, GOOD], "arms[1].x must be absent with these features of kind hashed; got [1, 2]"),
    (HASHED, {"a": math.nan}, [OBJECT], f"context.a {SIZE} nan"),
    (HASHED, None, [OBJECT, {"price": -1e60}], f"arms[1].features.price {SIZE} -1e+60"),
    (HASHED, None, [{"maker": {"age": 10**400}}], f"arms[0].features.maker.age {SIZE} 1{'0' * 56}..."),
    (HASHED, None, [{"a": {"b": {"c": 1}}}], f"arms[0].features.a.b {VALUE} {{'c': 1}}"),
    (HASHED, {"a\nb": math.inf}, [OBJECT], f"context.'a\\nb' {SIZE} inf"),
    (HASHED, {"tags": ["a", 1]}, [OBJECT], f"context.tags {VALUE} ['a', 1]"),
    (
        HASHED,
        {"a": 1e40},
        [OBJECT, {"b": 1e40}],
        "arms[1] must have columns of at most 1e+50 in size; one adds up to 1e+80",
    ),
    (IDS, [1], [BARE], "context must be absent with these features of kind ids; got [1]"),
    (IDS, None, [BARE, GOOD], "arms[1].x must be absent with these features of kind ids; got [1, 2]"),
    (IDS, None, [BARE, OBJECT], "arms[1].features must be absent with these features of kind ids; got {}"),
    (IDS | {"context": 2}, [1, None], [BARE], "context[1] must be a number; got None"),
    (IDS, None, [Arm(7)], "arms[0].id must be a string; got 7"),
    ({"kind": "ids", "arms": ["b"]}, None, [BARE], "arms[0].id must be one of features.arms; got 'a'"),
    (IDS | {"dim": 10000}, None, [BARE] * 1001, "arms must be at most 1000 with 10000 columns; got 1001"),
    (
        HASHED,
        {str(k): 1 for k in range(4000)},
        [{str(k): 1 for k in range(2501)}],
        "context and arms must have at most 10000000 pairs of tokens; got 10004000",
    ),
]

BODIES: list[tuple[bytes, str]] = [
    (b"", "a binary body must hold 4 bytes and a head of 0; got 0 bytes"),
    (b"\x05\x00\x00\x00{}", "a binary body must hold 4 bytes and a head of 5; got 6 bytes"),
    (b"\x02\x00\x00\x00{]", "the head of a binary body must be JSON; got b'{]'"),
    (b"\x01\x00\x00\x00\xff", "the head of a binary body must be JSON; got b'\\xff'"),
    (b"\x00\x00\x02\x00" + b"[" * 2**17, f"the head of a binary body must be JSON; got b'{'[' * 55}..."),
    (b"\x02\x00\x00\x00[]", "the head of a binary body must be an object; got []"),
    (b"\x02\x00\x00\x00{}", "shape must be [K, d]; got None"),
    (b'\x0d\x00\x00\x00{"shape":[1]}', "shape must be [K, d]; got [1]"),
    (b'\x0f\x00\x00\x00{"shape":[0,1]}', "shape[0] must be a whole number of at least 1; got 0"),
    (b'\x11\x00\x00\x00{"shape":[1,2.0]}', "shape[1] must be a whole number of at least 1; got 2.0"),
    (b'\x1c\x00\x00\x00{"shape":[2,1],"arms":["a"]}', "arms must be a list of shape[0] = 2 ids; got ['a']"),
    (b'\x0f\x00\x00\x00{"shape":[1,2]}\x00', "a binary body of shape [1, 2] must have 8 bytes after its head; got 1"),
    (b'\x0f\x00\x00\x00{"shape":[1,1]}\x00\x00\x80\x7f', "features must be finite; arm 0, feature 0 is inf"),
]


def _table(spec: Any, context: Any, arms: list[Any]) -> Callable[[], object]:
    """A call of `table`; what is no arm is the features of one, if an object, and otherwise its vector."""
    made = [
        arm if isinstance(arm, Arm) else Arm("a", features=arm) if isinstance(arm, dict) else Arm("a", x=arm)
        for arm in arms
    ]
    return lambda: Encoder.from_spec(spec).table(context, made)


WRONG: list[tuple[Callable[[], object], str]] = [
    *((partial(Encoder.from_spec, spec), message) for spec, message in SPECS),
    *((_table(spec, context, arms), message) for spec, context, arms, message in TABLES),
    *((partial(split_body, data), message) for data, message in BODIES),
    (
        lambda: Encoder.from_spec(IDS).with_context(None, [[1]]),
        "a table of arms needs features of kind vector; these are of kind ids",
    ),
    (
        lambda: Encoder.from_spec(VECTOR).with_context(None, [[1]]),
        "the arms must have shape (K, 2) with K >= 1; got shape (1, 1)",
    ),
    (
        lambda: Encoder.from_spec(VECTOR).with_context(None, [[1, 1e60]]),
        "arms[0].x[1] must be finite and at most 1e+50 in size; got 1e+60",
    ),
    (lambda: Encoder.from_spec(VECTOR).prepare(Arm("a", x=[1, 1e60])), f"arm.x[1] {SIZE} 1e+60"),
    (
        lambda: Encoder.from_spec(HASHED).prepare(Arm("a", x=[1]), "cup"),
        "cup.x must be absent with these features of kind hashed; got [1]",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()


TOO_MUCH = {f"f{n}": 9e49 for n in range(9)}  # each is valid, and the sum in a column is not
LIMITS: dict[str, tuple[dict[str, Any], list[Any], dict[str, Any]]] = {
    "vector": ({"dim": 2, "context": 1}, [[math.nan], [math.inf], [1e51], [None], None, [1e50]], {"x": [1.0, 2.0]}),
    "hashed": ({"dim": 2}, [{"a": math.nan}, TOO_MUCH, {"a": None}, None], {"features": {}}),
    "sparse": ({"dim": 20_000}, [{"a": math.inf}, {"a": None}, None, {"a": 1e50}], {"features": {"b": 1}}),
    "ids": ({"dim": 2, "context": 1}, [[math.nan], [-math.inf], [1e51], [None], [1e50]], {}),
    "open": ({"dim": 2}, [{"a": math.nan}, TOO_MUCH, {"a": None}, None, [1e51], [None]], {}),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_rows_that_are_complete_are_valid_or_refused(kind: str) -> None:
    spec, contexts, features = LIMITS[kind]
    encoder, refused = Encoder.from_spec({"kind": "hashed" if kind == "sparse" else kind} | spec), 0
    assert encoder.complete
    assert not Encoder.from_spec({"kind": "fields"}).complete
    arms = [Arm(id_, **features) for id_ in ("a", "b", "c")]
    calls = [partial(encoder.table, arms=arms)] + [partial(encoder.rows, ids=["a", "b", "c"])] * encoder.takes_ids
    for context, call in [(context, call) for context in contexts for call in calls]:
        try:
            rows = call(context)
            values = rows[:, 1] if encoder.sparse else rows
            assert len(rows) == 3
            assert np.all(np.abs(values) <= 1e50)
            assert rows.flags.c_contiguous
            assert rows.flags.writeable
            assert rows.dtype == np.float64
        except InputError:
            refused += 1
    assert 0 < refused < len(contexts) * len(calls)


@pytest.mark.parametrize("context", [None, {}, CONTEXT, [2.5, -1.0]])
def test_arms_without_features_have_the_rows_of_their_ids(context: Any) -> None:
    encoder, ids = Encoder.from_spec({"kind": "open", "dim": 2}), ["tea", "milk", "water"]
    assert encoder.rows(context, ids).tobytes() == encoder.table(context, [Arm(id_) for id_ in ids]).tobytes()


@pytest.mark.parametrize(
    ("ids", "message"), [(["tea", "milk"], r"^arms\[0\] must have columns of"), ([], "at least one")]
)
def test_rows_of_ids_are_refused_as_tables_are(ids: list[str], message: str) -> None:
    encoder = Encoder.from_spec({"kind": "open", "dim": 2})
    for call in (partial(encoder.rows, ids=ids), partial(encoder.table, arms=[Arm(id_) for id_ in ids])):
        with pytest.raises(InputError, match=message):
            call(TOO_MUCH)


def test_features_need_nothing_but_the_library() -> None:
    code = "import sys; sys.modules.update(msgspec=None, starlette=None); import syndicated.features"
    subprocess.run([sys.executable, "-c", code], check=True)
