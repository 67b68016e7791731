"""What orders the rows of a key: floating point as a total order, and padded sequences."""

import datetime as dt
import itertools
import math
from decimal import Decimal

import pyarrow as pa
import pytest

import lsmerge

_uris = (f"memory://sequence-{number}" for number in itertools.count(1))


def newest(type_, sequences, options=None, kinds=None, compacts=False):
    """The position of the row that is visible, None if there is none."""
    schema = pa.schema({"k": pa.int64(), "s": type_, "v": pa.int64()})
    options = {"sequence.field": "s"} | (options or {})
    t = lsmerge.create_table(next(_uris), schema, "k", options=options)
    for position, sequence in enumerate(sequences):
        kind = kinds[position] if kinds else "+I"
        t.write([{"k": 1, "s": sequence, "v": position, "_row_kind": kind}])
        if compacts:
            t.compact(full=True)
    row = t.get(1)
    return row and row["v"]


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("sequences", "winner"),
    [
        ([0.0, -0.0], 0),
        ([-0.0, 0.0], 1),
        ([-0.0, -0.0], 1),
        ([-0.0, -1e-30], 0),
        ([math.nan, math.inf], 0),
        ([math.inf, -math.nan], 1),
        ([None, -math.inf], 1),
    ],
)
def test_floating_point_is_ordered_totally(type_, sequences, winner, compacts):
    assert newest(type_, sequences, compacts=compacts) == winner


def test_descending_floating_point_turns_the_zeros_round():
    options = {"sequence.field.sort-order": "descending"}
    assert newest(pa.float64(), [0.0, -0.0], options) == 1
    assert newest(pa.float64(), [-0.0, 0.0], options) == 0


def test_a_sequence_group_orders_zeros_too():
    schema = pa.schema({"k": pa.int64(), "g": pa.float64(), "v": pa.string()})
    options = {"merge-engine": "partial-update", "fields.g.sequence-group": "v"}
    t = lsmerge.create_table(next(_uris), schema, "k", options=options)
    t.upsert([{"k": 1, "g": 0.0, "v": "new"}, {"k": 1, "g": -0.0, "v": "late"}])
    assert t.get(1)["v"] == "new"


def test_greatest_and_least_tell_the_zeros_apart():
    schema = pa.schema({"k": pa.int64(), "high": pa.float64(), "low": pa.float64()})
    options = {"merge-engine": "aggregation"} | {
        "fields.high.aggregate-function": "max",
        "fields.low.aggregate-function": "min",
    }
    t = lsmerge.create_table(next(_uris), schema, "k", options=options)
    t.upsert([{"k": 1, "high": -0.0, "low": 0.0}, {"k": 1, "high": 0.0, "low": -0.0}])
    row = t.get(1)
    assert [math.copysign(1, row[name]) for name in ("high", "low")] == [1, -1]


def test_the_zeros_of_a_primary_key_are_one_key():
    schema = pa.schema({"k": pa.float64(), "v": pa.int64()})
    t = lsmerge.create_table(next(_uris), schema, "k", options={"bucket": 4})
    t.upsert([{"k": 0.0, "v": 1}])
    t.upsert([{"k": -0.0, "v": 2}])
    assert t.scan().to_arrow()["v"].to_pylist() == [2]
    assert t.get(0.0)["v"] == t.get(-0.0)["v"] == 2


# ------------------------------------------------------------------------------------------ padding


def padding(text):
    return {"sequence.auto-padding": text}


def at(seconds, micros=0):
    return dt.datetime(2024, 1, 1) + dt.timedelta(seconds=seconds, microseconds=micros)


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(
    ("paddings", "type_", "sequences", "winner"),
    [
        ("second-to-micro", pa.timestamp("us"), [at(1, 900_000), at(1, 100_000)], 1),
        ("second-to-micro", pa.timestamp("us"), [at(2), at(1, 999_999)], 0),
        ("second-to-micro", pa.timestamp("s"), [at(2), at(1)], 0),
        ("millis-to-micro", pa.timestamp("us"), [at(1, 2_900), at(1, 2_100)], 1),
        ("millis-to-micro", pa.timestamp("us"), [at(1, 2_900), at(1, 1_999)], 0),
        ("millis-to-micro", pa.int64(), [7, 7], 1),
        ("second-to-micro", pa.date32(), [dt.date(2024, 1, 2), dt.date(2024, 1, 1)], 0),
        ("millis-to-micro", pa.float64(), [1.9, 1.1], 1),
        ("millis-to-micro", pa.float64(), [0.5, -0.5], 1),
        ("millis-to-micro", pa.decimal128(5, 2), [Decimal("1.90"), Decimal("1.10")], 1),
        ("millis-to-micro", pa.string(), ["10", "9"], 0),
        ("row-kind-flag", pa.timestamp("us"), [at(1, 900), at(1, 100)], 1),
    ],
)
def test_a_padded_sequence_is_a_whole_number(paddings, type_, sequences, winner, compacts):
    assert newest(type_, sequences, padding(paddings), compacts=compacts) == winner


@pytest.mark.parametrize(
    ("paddings", "sequences", "kinds", "winner"),
    [
        ("row-kind-flag", [5, 5], ["+I", "-D"], 0),
        ("row-kind-flag", [5, 6], ["+I", "-D"], None),
        ("row-kind-flag,millis-to-micro", [5, 5, 5], ["+U", "-U", "+U"], 2),
        ("row-kind-flag,millis-to-micro", [5, 5], ["+I", "-D"], 0),
        # Arrival tells all rows apart, so that a flag behind it has nothing to say.
        ("millis-to-micro,row-kind-flag", [5, 5], ["+I", "-D"], None),
        ("millis-to-micro", [5, 5], ["+I", "-D"], None),
    ],
)
def test_retracts_come_first_where_the_flag_does(paddings, sequences, kinds, winner):
    assert newest(pa.int64(), sequences, padding(paddings), kinds) == winner


def test_the_flag_is_not_turned_round_by_a_descending_order():
    options = padding("row-kind-flag") | {"sequence.field.sort-order": "descending"}
    assert newest(pa.int64(), [5, 5], options, ["+I", "-D"]) == 0
    assert newest(pa.int64(), [5, 4], options, ["+I", "-D"]) is None


@pytest.mark.parametrize(
    ("type_", "options", "message"),
    [
        (pa.int64(), padding("row-kind-flag") | {"sequence.field": "s,v"}, "name one column"),
        (pa.int64(), padding("second-to-micro,millis-to-micro"), "give each once"),
        (pa.int64(), padding("row-kind-flag,row-kind-flag"), "give each once"),
        (pa.bool_(), padding("row-kind-flag"), "type BOOLEAN of sequence column 's' is no number"),
    ],
)
def test_paddings_that_cannot_be_are_refused(type_, options, message):
    with pytest.raises(lsmerge.InvalidOptionError, match=message):
        newest(type_, [], options)


def test_a_padding_without_a_sequence_is_refused():
    with pytest.raises(lsmerge.InvalidOptionError, match="name one column"):
        lsmerge.create_table(
            next(_uris), pa.schema({"k": pa.int64()}), "k", options=padding("row-kind-flag")
        )


@pytest.mark.parametrize(("type_", "value"), [(pa.int64(), None), (pa.string(), "7 apples")])
def test_a_padded_sequence_needs_a_value(type_, value):
    with pytest.raises(lsmerge.SchemaMismatchError, match=r"column 's' of sequence\.field"):
        newest(type_, [value], padding("row-kind-flag"))
