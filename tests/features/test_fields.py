"""Fields: objects, vectors and rows of data frames as columns that are known beforehand or learned."""

import json
import math
from collections import OrderedDict, namedtuple
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syndicated import InputError, StateError
from syndicated.features import Arm, Encoder, Fields
from syndicated.features._fields import MAX_VALUES
from syndicated.features._reader import ArmReader
from syndicated.types import NamedArms

NAN = math.nan
SCHEMA: dict[str, Any] = {
    "kind": "fields",
    "context": {"age": "number", "country": ["fr", "de"], "topics": {"hashed": 4}, "taste": {"numbers": 2}},
    "arm": {"price": "number"},
}
OPEN = {"kind": "fields", "context": "learned", "arm": "learned"}


def read(context: Any) -> Any:
    return ArmReader(OPEN).read(context, ["a"]).x.tolist()


def same(one: Any, other: Any) -> bool:
    return np.array_equal(np.array(one), np.array(other), equal_nan=True)


# Columns that are known


def test_a_schema_gives_every_field_its_columns() -> None:
    encoder = Encoder.from_spec(SCHEMA)
    context = {"age": 31, "country": "de", "topics": ["news", "sport"], "taste": [0.5, -1]}
    table = encoder.table(context, [Arm("a", features={"price": 2}), Arm("b")])
    assert (encoder.dim, encoder.grows) == (10, False)
    assert table[:, :3].tolist() == [[31.0, 0.0, 1.0]] * 2
    assert table[0, 3:7].sum() == 2.0
    assert same(table[:, 7:], [[0.5, -1.0, 2.0], [0.5, -1.0, NAN]])


def test_a_schema_has_no_state_and_knows_its_own() -> None:
    encoder = Encoder.from_spec(SCHEMA)
    before = encoder.state()
    encoder.table({"age": 1}, [Arm("a")])
    encoder.restore(before)
    assert encoder.state() == before
    assert encoder == Encoder.from_spec(SCHEMA)
    assert encoder != Encoder.from_spec({**SCHEMA, "interactions": True})
    with pytest.raises(StateError, match="the features of a state must be"):
        encoder.restore({})


def test_a_prepared_arm_gives_the_same_row() -> None:
    encoder = Encoder.from_spec(SCHEMA)
    arm = Arm("a", features={"price": 2.5})
    assert same(encoder.table(None, [encoder.prepare(arm), Arm("b")]), encoder.table(None, [arm, Arm("b")]))


def test_sides_may_be_vectors() -> None:
    encoder = Encoder.from_spec({"kind": "fields", "context": 2, "arm": 1})
    assert same(encoder.table([1, 2], [Arm("a", x=[3]), Arm("b")]), [[1, 2, 3], [1, 2, NAN]])
    assert same(encoder.table(None, [Arm("a", x=[3])]), [[NAN, NAN, 3]])


def test_interactions_are_products_of_both_sides() -> None:
    spec = {"kind": "fields", "context": {"age": "number", "member": ["yes"]}, "arm": {"price": "number"}}
    encoder = Encoder.from_spec({**spec, "interactions": True})
    arms = [Arm("a", features={"price": 5}), Arm("b")]
    assert encoder.table({"age": 2, "member": "yes"}, arms[:1]).tolist() == [[2, 1, 5, 10, 5]]
    assert same(encoder.table({"age": 2}, arms), [[2, 0, 5, 10, 0], [2, 0, NAN, NAN, 0]])


# Columns that are learned


def test_nothing_has_to_be_said_about_the_fields() -> None:
    reader = ArmReader(OPEN)
    context = {"age": 31, "member": True, "country": "fr", "tags": ["x", "y", "x"], "taste": (1.5, None), "at": None}
    rows = [[31, 1, 1, 1, 1, 1.5, NAN]]
    assert same(reader.read(context, ["a"]).x, rows)
    assert reader.encoder.state()["context"] == {
        "age": "number",
        "member": "number",
        "country": "category",
        "tags": "category",
        "taste": {"numbers": 2},
    }


def test_new_values_and_fields_take_new_columns() -> None:
    reader = ArmReader(OPEN)
    assert reader.read({"country": "fr"}, ["a"]).x.tolist() == [[1]]
    assert reader.read({"country": "de"}, ["a"]).x.tolist() == [[0, 1]]
    assert reader.read({"country": "fr", "age": 3}, ["a"]).x.tolist() == [[1, 0, 3]]
    assert same(reader.read({"country": ["fr", "de"]}, ["a"]).x, [[1, 1, NAN, 1]])


def test_an_arm_without_features_misses_those_that_others_have() -> None:
    reader = ArmReader(OPEN)
    expected = [[9, NAN, 1], [9, 2.5, 0]]
    for arms in (["a", {"id": "b", "price": 2.5}], [Arm("a"), Arm("b", features={"price": 2.5})]):
        assert same(reader.read([9], arms).x, expected)
    assert same(reader.read([9], ["a"]).x, expected[:1])


def test_a_list_of_numbers_may_be_missing_as_a_whole() -> None:
    reader = ArmReader(OPEN)
    assert reader.read({"taste": [1, 2]}, ["a"]).x.tolist() == [[1, 2]]
    assert same(reader.read({"taste": None}, ["a"]).x, [[NAN, NAN]])
    assert same(reader.read({}, ["a"]).x, [[NAN, NAN]])


def test_values_beyond_the_first_ones_share_a_column() -> None:
    reader = ArmReader(OPEN)
    for k in range(MAX_VALUES + 20):
        row = reader.read({"user": f"u{k}"}, ["a"]).x
    assert row.shape == (1, MAX_VALUES + 1)
    assert row[0, -1] == 1.0
    assert reader.read({"user": "u3"}, ["a"]).x[0, 3] == 1.0


def test_a_category_may_have_numbers_for_names() -> None:
    reader = ArmReader({**OPEN, "context": {"zip": "category"}})
    assert reader.read({"zip": 75001}, ["a"]).x.tolist() == reader.read({"zip": "75001"}, ["a"]).x.tolist() == [[1]]


def test_learned_columns_have_products_too() -> None:
    reader = ArmReader({**OPEN, "interactions": True})
    assert reader.read({"age": 2}, [{"id": "a", "price": 5}]).x.tolist() == [[2, 5, 10]]
    assert reader.read({"age": 2, "country": "fr"}, [{"id": "a", "price": 5}]).x.tolist() == [[2, 5, 10, 1, 5]]


def test_no_context_and_no_features_is_a_row_of_nothing() -> None:
    assert ArmReader(OPEN).read(None, ["a", "b"]).x.tolist() == [[0], [0]]


# What people have

Row = namedtuple("Row", ["age", "country"])


class NAType:
    """What pandas has for a missing value: it does not compare."""

    def __ne__(self, other: object) -> Any:
        raise TypeError("boolean value of NA is ambiguous")


class PandasRow:
    def to_dict(self) -> dict[str, Any]:
        return {"age": np.int32(31), "country": "fr"}


class PolarsFrame:
    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = list(rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        return self.rows


class PandasFrame(PolarsFrame):
    to_dicts = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        if name == "to_dicts":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def iterrows(self) -> None:
        raise NotImplementedError

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


ONE = {"age": 31, "country": "fr"}
CONTEXTS = {
    "dict": ONE,
    "mapping": OrderedDict(ONE),
    "named tuple": Row(31, "fr"),
    "pandas row": PandasRow(),
    "polars row": PolarsFrame(ONE),
    "numpy numbers": {"age": np.float32(31), "country": np.str_("fr")},
    "fractions": {"age": Fraction(31), "country": "fr"},
    "with what is missing": {
        **ONE,
        "hour": NAType(),
        "day": np.datetime64("NaT", "D"),
        "week": float("nan"),
        "tags": [],
    },
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_may_be_any_row(name: str) -> None:
    assert read(CONTEXTS[name]) == [[31.0, 1.0]]


VECTORS = [
    [1, 2.5],
    (1, 2.5),
    np.array([1, 2.5]),
    np.array([1, 2.5], dtype=np.float32),
    np.array([1, 2.5], dtype=object),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{type(vector).__name__} {vector}")
def test_a_context_may_be_any_vector(vector: Any) -> None:
    reader = ArmReader(OPEN)
    for _ in range(2):
        assert reader.read(vector, ["a"]).x.tolist() == [[1.0, 2.5]]


ARMS = {
    "list": [{"id": "a", "price": 1}, {"id": 2, "price": 3}],
    "tuple": ({"id": "a", "price": 1}, {"id": 2, "price": 3}),
    "mapping": {"a": {"price": 1}, 2: {"price": 3}},
    "rows": [OrderedDict(id="a", price=1), {"id": np.int64(2), "price": np.float32(3)}],
    "arms": [Arm("a", features={"price": 1}), Arm(2, features={"price": 3})],
    "pandas frame": PandasFrame({"id": "a", "price": 1}, {"id": 2, "price": 3}),
    "polars frame": PolarsFrame({"id": "a", "price": 1}, {"id": 2, "price": 3}),
    "generator": ({"id": id_, "price": price} for id_, price in (("a", 1), (2, 3))),
}


@pytest.mark.parametrize("name", ARMS)
def test_arms_may_be_any_list_of_rows(name: str) -> None:
    arms = ArmReader(OPEN).read(None, ARMS[name])
    assert (arms.ids, arms.x.tolist()) == (("a", 2), [[1.0], [3.0]])


@pytest.mark.parametrize(
    "arms",
    [["a", "b"], ("a", "b"), np.array(["a", "b"]), {"a": None, "b": None}, iter("ab")],
    ids=lambda arms: type(arms).__name__,
)
def test_arms_may_be_any_list_of_ids(arms: Any) -> None:
    assert ArmReader(OPEN).read([1.0], arms).ids == ("a", "b")


def test_arms_of_a_mapping_may_be_vectors() -> None:
    assert ArmReader(OPEN).read(None, {"a": [1, 2], "b": np.array([3, 4])}).x.tolist() == [[1, 2], [3, 4]]


def test_real_data_frames_are_read() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [{"id": "a", "price": 1.5, "kind": "x"}, {"id": "b", "price": None, "kind": "y"}]
    expected = ArmReader(OPEN).read({"age": 31, "country": "fr"}, rows)
    for module, contexts in ((pandas, _pandas_rows(pandas)), (polars, _polars_rows(polars))):
        for context in contexts:
            found = ArmReader(OPEN).read(context, module.DataFrame(rows))
            assert found.ids == expected.ids
            assert same(found.x, expected.x)
    nullable = pandas.Series([31, pandas.NA], index=["age", "hour"], dtype="Int64")
    assert ArmReader(OPEN).read(nullable, pandas.Series(["a", "b"])).x.tolist() == [[31.0], [31.0]]


def _pandas_rows(pandas: Any) -> list[Any]:
    frame = pandas.DataFrame([{"age": 31, "country": "fr"}])
    return [frame.iloc[0], next(frame.itertuples(index=False)), next(frame.iterrows())[1], frame.to_dict("records")[0]]


def _polars_rows(polars: Any) -> list[Any]:
    frame = polars.DataFrame([{"age": 31, "country": "fr"}])
    return [frame[0], frame.row(0, named=True), next(frame.iter_rows(named=True))]


@pytest.mark.parametrize("spec", [{"kind": "hashed", "dim": 8}, {"kind": "ids", "dim": 4, "context": 1}], ids=str)
def test_encoders_without_fields_take_the_same_things(spec: dict[str, Any]) -> None:
    hashes = spec["kind"] == "hashed"
    context: Any = {"age": np.float32(31), "hour": None} if hashes else np.array([31.0])
    arms: Any = [{"id": "a", "price": np.int64(2), "cost": NAN}, "b"] if hashes else ["a", "b"]
    plain: Any = {"age": 31.0} if hashes else [31.0]
    given = [Arm("a", features={"price": 2}), Arm("b", features={})] if hashes else [Arm("a"), Arm("b")]
    assert ArmReader(spec).read(context, arms).x.tolist() == Encoder.from_spec(spec).table(plain, given).tolist()


def test_an_arm_with_a_vector_says_it_as_x() -> None:
    reader = ArmReader({"kind": "vector", "dim": 2})
    assert reader.read(None, [{"id": "a", "x": [1, 2]}, {"id": "b", "x": np.ones(2)}]).x.tolist() == [[1, 2], [1, 1]]
    with pytest.raises(InputError, match=r"arms\[0\].features must be absent"):
        reader.read(None, [{"id": "a", "price": 2}])


# Arms that come again


def test_arms_that_come_again_are_read_as_the_first_time() -> None:
    reader, arms = ArmReader(OPEN), ["a", {"id": "b", "price": 2.5}]
    steps = [{"age": 1}, {"age": 2}, {"age": 3, "country": "fr"}, {"age": None}, {"age": 5}]
    for context in steps:
        again = ArmReader.from_state(json.loads(json.dumps(reader.state())))
        assert same(reader.read(context, arms).x, again.read(context, [*arms]).x)
    arms[1]["price"] = 3.5  # type: ignore[index]
    assert reader.read({"age": 1}, arms).x[1, 1] == 3.5


def test_arms_with_lists_are_never_taken_for_known() -> None:
    reader, tags = ArmReader(OPEN), ["x"]
    arms = [{"id": "a", "tags": tags, "taste": np.ones(2)}]
    for _ in range(3):
        assert reader.read(None, arms).x.tolist() == [[1.0, 1.0, 1.0]]
    tags[0] = "y"
    assert reader.read(None, arms).x.tolist() == [[0.0, 1.0, 1.0, 1.0]]


def test_an_array_in_place_of_a_number_is_not_taken_for_known() -> None:
    reader = ArmReader(OPEN)
    reader.read(None, [{"id": "a", "price": 1.0}])
    with pytest.raises(InputError, match=r"arms\[0\].price must be a number; got array"):
        reader.read(None, [{"id": "a", "price": np.ones(2)}])


# What is refused

BAD: list[tuple[dict[str, Any], Any, Any, str]] = [
    (SCHEMA, {"age": "x"}, ["a"], "context.age must be a number; got 'x'"),
    (SCHEMA, {"age": 1e60}, ["a"], "context.age must be finite and at most 1e+50 in size; got 1e+60"),
    (SCHEMA, {"age": 10**400}, ["a"], "context.age must be finite and at most 1e+50 in size; got 1000"),
    (SCHEMA, {"age": 1j}, ["a"], "context.age must be a number; got 1j"),
    (SCHEMA, {"country": "es"}, ["a"], "context.country must be one of fr, de; got 'es'"),
    (
        SCHEMA,
        {"topics": ["a", 1.5]},
        ["a"],
        "context.topics[1] must be a text, a truth value or a whole number; got 1.5",
    ),
    (SCHEMA, {"taste": [1, 2, 3]}, ["a"], "context.taste must be a list of 2 numbers; got [1, 2, 3]"),
    (SCHEMA, {"taste": [1, "x"]}, ["a"], "context.taste[1] must be a number; got 'x'"),
    (SCHEMA, {"ages": 1}, ["a"], "context.ages must be one of the fields age, country, topics, taste"),
    (SCHEMA, [1, 2], ["a"], "context must be an object of fields; got [1, 2]"),
    (SCHEMA, None, [{"id": "a", "cost": 1}], "arms[0].cost must be one of the fields price"),
    (SCHEMA, None, [Arm("a", features={"price": "x"})], "arms[0].features.price must be a number; got 'x'"),
    (SCHEMA, None, [Arm("a", x=[1])], "arms[0].x must be an object of fields; got [1]"),
    (SCHEMA, None, [Arm("a", [1], {})], "arms[0] must have x or features; got both"),
    ({"kind": "fields"}, {"age": 1}, ["a"], "context.age must be one of the fields (none)"),
    ({**OPEN, "context": ["age"]}, {"hour": 1}, ["a"], "context.hour must be one of the fields age"),
    (
        OPEN,
        {"when": object},
        ["a"],
        "context.when must be a number, a text, a truth value, or a list of numbers or texts; ",
    ),
    (OPEN, {"deep": {"er": {"est": 1}}}, ["a"], "context.deep.er must be a number, a text, a truth value, or a list"),
    (
        OPEN,
        {"mixed": ["a", 1]},
        ["a"],
        "context.mixed must be a number, a text, a truth value, or a list of numbers or",
    ),
    (OPEN, {0: 1}, ["a"], "context must have names that are text; got 0"),
    (OPEN, "age", ["a"], "context must be a list of numbers; got 'age'"),
    (OPEN, [], ["a"], "context must be a list of numbers; got []"),
    (OPEN, [[1.0]], ["a"], "context[0] must be a number; got [1.0]"),
    (OPEN, np.ones((1, 2)), ["a"], "context[0] must be a number; got [1.0, 1.0]"),
    (OPEN, None, 7, "arms must be a list of ids and objects with ids; got 7"),
    (OPEN, None, {"id": "a"}, "arms[0] must be a list of numbers; got 'a'"),
    (OPEN, None, ["a", Arm(None)], "arms[1].id must be a text or a whole number; got None"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("spec", "context", "arms", "message"), BAD, ids=lambda part: str(part)[:40])
def test_what_is_wrong_is_said_with_its_path(spec: dict[str, Any], context: Any, arms: Any, message: str) -> None:
    reader = ArmReader(spec)
    before = reader.state()
    for _ in range(2):
        with pytest.raises(InputError) as refused:
            reader.read(context, arms)
        assert str(refused.value).startswith(message)
        assert reader.state() == before


SPECS: list[tuple[dict[str, Any], str]] = [
    (
        {"context": {"age": "nmber"}},
        "features.context.age must be 'number', 'category', a list of values, {'hashed': 16}",
    ),
    ({"context": {"age": ["a", "a"]}}, "features.context.age must be 'number'"),
    ({"context": {"age": {"hashed": 0}}}, "features.context.age.hashed must be a whole number of at least 1; got 0"),
    ({"context": {"age": {"hush": 1}}}, "features.context.age must be 'number'"),
    (
        {"context": "age"},
        "features.context must be an object of names and kinds, a list of names, the size of a vector",
    ),
    ({"context": ["age", "age"]}, "features.context must have different names; got ['age', 'age']"),
    ({"context": {1: "number"}}, "features.context must have different names; got [1]"),
    ({"arm": -1}, "features.arm must be a whole number of at least 1; got -1"),
    ({"interactions": 1}, "features.interactions must be true or false; got 1"),
    ({"context": 10_001}, "features must have at most 10000 columns; got 10001"),
]


@pytest.mark.parametrize(("spec", "message"), SPECS, ids=lambda part: str(part)[:40])
def test_a_spec_that_cannot_work_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        Encoder.from_spec({"kind": "fields", **spec})
    assert str(refused.value).startswith(message)


def test_what_a_refused_row_would_have_added_is_not_kept() -> None:
    reader = ArmReader({**OPEN, "interactions": True})
    reader.read({"age": 2}, [{"id": "a", "price": 5}])
    before = reader.state()
    with pytest.raises(InputError, match=r"arms\[1\].price must be a number"):
        reader.read({"age": None, "country": "fr"}, [{"id": "a", "size": 1}, {"id": "b", "price": "x"}])
    assert reader.state() == before
    assert reader.read({"age": 3}, [{"id": "a", "price": 5}]).x.tolist() == [[3, 5, 15]]


def test_too_many_arms_are_refused() -> None:
    with pytest.raises(InputError, match="arms must be at most 1000 with 10000 columns; got 1001"):
        ArmReader({**OPEN, "context": 10_000}).read(None, list(range(1001)))


WRONG_STATES: list[dict[str, Any]] = [
    {"spec": {"kind": "fields", "context": 3}},
    {"learned": {"columns": 3}},
    {"learned": {"columns": [["context", "age"]], "context": {"age": "nmber"}, "arm": {}}},
    {"learned": {"columns": [], "context": {"age": "number"}, "arm": {}}},
    {"arms": [["a"]]},
    {"arms": 3},
    {"spec": 3},
]


@pytest.mark.parametrize("change", WRONG_STATES, ids=str)
def test_a_state_that_is_no_reader_s_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        ArmReader.from_state(ArmReader(OPEN).state() | change)


# Properties

value = st.one_of(
    st.none(), st.booleans(), st.integers(-99, 99), st.floats(-1e9, 1e9), st.sampled_from(["x", "y", "z"])
)
kinds = {"n": st.none() | st.floats(-9, 9), "b": st.booleans(), "c": st.sampled_from(["x", "y", "z"]) | st.none()}
rows = st.fixed_dictionaries({}, optional=kinds)
rounds = st.lists(st.tuples(rows, st.lists(rows, min_size=1, max_size=4)), min_size=1, max_size=8)


def _named(arms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": k, **arm} for k, arm in enumerate(arms)]


@settings(max_examples=60)
@given(rounds, st.booleans())
def test_a_reader_from_its_state_reads_on_the_same(steps: list[Any], interactions: bool) -> None:
    reader = ArmReader({**OPEN, "interactions": interactions})
    for context, arms in steps:
        twin = ArmReader.from_state(json.loads(json.dumps(reader.state())))
        one, other = reader.read(context, _named(arms)), twin.read(context, _named(arms))
        assert one.ids == other.ids
        assert same(one.x, other.x)
        assert twin.state() == reader.state()


@settings(max_examples=60)
@given(rounds, st.dictionaries(st.sampled_from("nbcd"), value), st.booleans())
def test_whatever_is_refused_changes_nothing(steps: list[Any], last: dict[str, Any], interactions: bool) -> None:
    reader = ArmReader({**OPEN, "interactions": interactions})
    for context, arms in steps:
        reader.read(context, _named(arms))
    before = reader.state()
    try:
        reader.read(last, [{"id": "a", **last}, {"id": "b", "n": "no number", "b": "x", "new": 1}, {"id": "c", "n": 1}])
    except InputError:
        assert reader.state() == before


@settings(max_examples=60)
@given(rounds, st.randoms(use_true_random=False))
def test_the_order_of_arms_and_of_names_does_not_change_a_known_row(steps: list[Any], random: Any) -> None:
    reader = ArmReader(OPEN)
    for context, arms in [*steps, *steps]:
        reader.read(context, _named(arms))
    for context, arms in steps:
        named = _named(arms)
        order = random.sample(range(len(named)), len(named))
        mixed = [dict(random.sample(list(named[k].items()), len(named[k]))) for k in order]
        one, other = reader.read(context, named), reader.read(dict(reversed(context.items())), mixed)
        assert same(one.x[order], other.x)


def test_a_reader_says_what_it_reads_into() -> None:
    assert isinstance(ArmReader(OPEN).read(None, ["a"]), NamedArms)
    assert isinstance(ArmReader(OPEN).encoder, Fields)
