"""Values on their way to text and back: JSON for every type, and what is refused."""

import datetime
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge.cli import json_columns, json_in
from lsmerge.statements.grid import printable

TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
SCALARS = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3),
    pa.string(): st.text(),
    pa.binary(): st.binary(),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.date32(): st.dates(),
    pa.time32("ms"): st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    pa.time64("ns"): st.integers(0, 86_400 * 10**9 - 1),
    pa.timestamp("ms"): TIMES.map(lambda t: t.replace(microsecond=0)),
    pa.timestamp("us", "UTC"): TIMES.map(lambda t: t.replace(tzinfo=datetime.UTC)),
    pa.timestamp("ns"): st.integers(-(10**18), 10**18),
}


def lines_of(batch):
    content = b"".join(map(bytes, json_columns.lines(batch))).decode()
    return iter(content.split("\n")[:-1])


@st.composite
def typed_values(draw, depth=2):
    """A type, and a strategy of its values."""
    kind = draw(st.sampled_from(["scalar"] * 3 + ["list", "map", "struct"] * (depth > 0)))
    if kind == "scalar":
        arrow = draw(st.sampled_from(list(SCALARS)))
        return arrow, SCALARS[arrow]
    arrow, values = draw(typed_values(depth=depth - 1))
    inner = st.none() | values
    if kind == "list":
        return pa.list_(arrow), st.lists(inner, max_size=3)
    if kind == "map":
        return pa.map_(pa.string(), arrow), st.lists(
            st.tuples(st.text(max_size=3), inner), max_size=3
        )
    return pa.struct({"x": arrow, "y": pa.int64()}), st.fixed_dictionaries(
        {"x": inner, "y": st.integers(0, 9)}
    )


@given(data=st.data())
def test_every_value_survives_json(data):
    arrow, values = data.draw(typed_values())
    given_values = data.draw(st.lists(st.none() | values, max_size=4))
    batch = pa.RecordBatch.from_arrays([pa.array(given_values, arrow)], names=["v"])
    lines = list(lines_of(batch))
    assert all("\n" not in line for line in lines)
    read = [json_in.loads(line)["v"] for line in lines]
    reader = json_in.reader_of(arrow)
    back = pa.array([reader(value) for value in read], arrow)
    again = list(lines_of(pa.RecordBatch.from_arrays([back], names=["v"])))
    assert again == lines
    assert back.is_null().to_pylist() == batch.column(0).is_null().to_pylist()


@given(data=st.data())
def test_reading_in_bulk_gives_what_reading_one_by_one_does(data):
    """Or nothing: whatever JSON there is for a column of whatever type."""
    arrow = data.draw(st.sampled_from(list(SCALARS)))
    anything = st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False) | st.text()
    of_type = SCALARS[arrow].map(
        lambda v: json_in.loads(
            next(lines_of(pa.RecordBatch.from_arrays([pa.array([v], arrow)], names=["v"])))
        )["v"]
    )
    values = data.draw(st.lists(of_type, max_size=3)) + data.draw(st.lists(anything, max_size=1))
    found = json_in.in_bulk(values, arrow)
    if found is not None:
        reader = json_in.reader_of(arrow)
        assert str(found) == str(pa.array([reader(value) for value in values], arrow))


@pytest.mark.parametrize(
    ("arrow", "value", "reason"),
    [
        (pa.int64(), True, "true is not a whole number"),
        (pa.int64(), "1", '"1" is not a whole number'),
        (pa.bool_(), 1, "1 is not true or false"),
        (pa.string(), 1, "1 is not text"),
        (pa.float64(), "many", '"many" is not a number'),
        (pa.float64(), [], "[] is not a number"),
        (pa.float64(), Decimal("1e999"), "is out of range"),
        (pa.float64(), "1e999", "is out of range"),
        (pa.float32(), Decimal("1e300"), "is out of range"),
        (pa.float32(), Decimal("3.4028236e38"), "is out of range"),
        (pa.decimal128(5, 2), True, "true is not a decimal number"),
        (pa.binary(), "?", '"?" is not base64 text'),
        (pa.date32(), "31.1.2024", '"31.1.2024" is not date32[day]'),
        (pa.timestamp("ms"), "2024-01-31T12:00:00.1234", "is not timestamp[ms]"),
        (pa.timestamp("ms", "UTC"), "2024-01-31T12:00:00", "is not timestamp[ms, tz=UTC]"),
        (pa.time32("s"), "12:00:00Z", "has a time zone"),
        (pa.list_(pa.int8()), 1, "1 is not a list"),
        (pa.map_(pa.string(), pa.int8()), [1], "[1] is no list of pairs"),
        (pa.struct({"x": pa.int8()}), {"z": 1}, "'z' is no field; known: x"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(arrow, value, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        json_in.reader_of(arrow)(value)


@pytest.mark.parametrize("arrow", [pa.float32(), pa.float64()])
def test_a_number_too_large_is_not_infinite(arrow):
    assert json_in.in_bulk([1, Decimal("1e999")], arrow) is None


def test_a_map_may_be_an_object():
    assert json_in.reader_of(pa.map_(pa.string(), pa.int8()))({"a": 1}) == [("a", 1)]


def test_numbers_stay_exact():
    [value] = [json_in.reader_of(pa.decimal128(30, 20))(json_in.loads("0.10000000000000000001"))]
    assert str(value) == "0.10000000000000000001"


@given(st.text())
def test_spelled_text_is_one_printable_line(text):
    found = printable(text)
    assert found == "" or found.isprintable()
    if text.isprintable():
        assert found == text
