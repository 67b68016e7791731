"""Logical types: names, limits, Arrow normal form."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmerge.errors import SchemaMismatchError
from lsmerge.types import LogicalType, TypeField, from_arrow, is_key_type, parse, to_arrow

SPELLINGS = [
    ("boolean", "BOOLEAN", pa.bool_()),
    ("bool", "BOOLEAN", pa.bool_()),
    ("int8", "TINYINT", pa.int8()),
    ("SmallInt", "SMALLINT", pa.int16()),
    ("integer", "INT", pa.int32()),
    ("int64", "BIGINT", pa.int64()),
    ("float32", "FLOAT", pa.float32()),
    ("double", "DOUBLE", pa.float64()),
    ("decimal", "DECIMAL(10,0)", pa.decimal128(10, 0)),
    ("decimal(5)", "DECIMAL(5,0)", pa.decimal128(5, 0)),
    ("DECIMAL(38, 38)", "DECIMAL(38,38)", pa.decimal128(38, 38)),
    ("char(3)", "CHAR(3)", pa.string()),
    ("varchar(7)", "VARCHAR(7)", pa.string()),
    ("varchar", "STRING", pa.string()),
    ("binary", "BYTES", pa.binary()),
    ("binary(4)", "BINARY(4)", pa.binary(4)),
    ("varbinary(4)", "VARBINARY(4)", pa.binary()),
    ("date", "DATE", pa.date32()),
    ("time", "TIME(0)", pa.time32("s")),
    ("time(2)", "TIME(2)", pa.time32("ms")),
    ("time(6)", "TIME(6)", pa.time64("us")),
    ("time(7)", "TIME(7)", pa.time64("ns")),
    ("timestamp", "TIMESTAMP(6)", pa.timestamp("us")),
    ("timestamp(0)", "TIMESTAMP(0)", pa.timestamp("s")),
    ("timestamp(3)", "TIMESTAMP(3)", pa.timestamp("ms")),
    ("timestamp_ltz(9)", "TIMESTAMP_LTZ(9)", pa.timestamp("ns", "UTC")),
    (
        "array<int32 not null>",
        "ARRAY<INT NOT NULL>",
        pa.list_(pa.field("element", pa.int32(), False)),
    ),
    ("map<int32,string>", "MAP<INT NOT NULL, STRING>", pa.map_(pa.int32(), pa.string())),
    (
        "row<a int32, `b c`: string>",
        "ROW<a INT, `b c` STRING>",
        pa.struct({"a": pa.int32(), "b c": pa.string()}),
    ),
]


@pytest.mark.parametrize(("text", "name", "arrow"), SPELLINGS)
def test_spelling_leads_to_one_name_and_arrow_type(text, name, arrow):
    logical = parse(text)
    assert str(logical) == name
    assert to_arrow(logical) == arrow
    assert parse(str(logical)) == logical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "intt",
        "int(3)",
        "decimal(39,0)",
        "decimal(5,6)",
        "decimal(1,2,3)",
        "char(0)",
        "varchar(-1)",
        "timestamp(10)",
        "array<int",
        "array<>",
        "map<int>",
        "row<>",
        "row<a int, a string>",
        "int not",
        "int not null",
        "int int",
        "char(99999999999)",
        "int;",
        "array<" * 10_000,
    ],
)
def test_malformed_name_is_refused_with_the_text(text):
    with pytest.raises(SchemaMismatchError) as caught:
        parse(text)
    assert text[:20] in str(caught.value)


NAMES = st.text(min_size=1, max_size=6)


def scalars():
    plain = st.sampled_from([parse(text) for text, _, _ in SPELLINGS if "<" not in text])
    decimals = st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: LogicalType("DECIMAL", (p, s)))
    )
    return plain | decimals


def nested(inner):
    element = st.builds(TypeField, st.just("element"), inner, st.booleans())
    key = st.builds(TypeField, st.just("key"), inner, st.just(False))
    value = st.builds(TypeField, st.just("value"), inner, st.booleans())
    field = st.builds(TypeField, NAMES, inner, st.booleans())
    rows = st.lists(field, min_size=1, max_size=3, unique_by=lambda f: f.name)
    return (
        element.map(lambda e: LogicalType("ARRAY", (), (e,)))
        | st.builds(lambda k, v: LogicalType("MAP", (), (k, v)), key, value)
        | rows.map(lambda fields: LogicalType("ROW", (), tuple(fields)))
    )


@given(st.recursive(scalars(), nested, max_leaves=6))
def test_every_type_survives_its_name_and_its_arrow_type(logical):
    assert parse(str(logical)) == logical
    arrow = to_arrow(logical)
    assert to_arrow(from_arrow(arrow)) == arrow


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "BIGINT"),
        (pa.binary_view(), "BYTES"),
        (pa.date64(), "DATE"),
        (pa.decimal32(5, 2), "DECIMAL(5,2)"),
        (pa.decimal256(38, 2), "DECIMAL(38,2)"),
        (pa.timestamp("ms", "Europe/Berlin"), "TIMESTAMP_LTZ(3)"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.list_(pa.int8(), 3), "ARRAY<TINYINT>"),
        (pa.list_view(pa.int8()), "ARRAY<TINYINT>"),
    ],
)
def test_encodings_share_the_logical_type(arrow, name):
    assert str(from_arrow(arrow)) == name


@pytest.mark.parametrize(
    ("arrow", "way_out"),
    [
        (pa.uint8(), "int16"),
        (pa.uint64(), "decimal128"),
        (pa.float16(), "float32"),
        (pa.null(), "type"),
        (pa.duration("s"), "timestamp"),
        (pa.uuid(), "fixed_size_binary[16]"),
        (pa.decimal256(50, 2), "38"),
        (pa.decimal128(5, -2), "scale"),
        (pa.binary(0), "1 to"),
        (pa.struct([]), "at least one field"),
        (pa.list_(pa.uint8()), "int16"),
    ],
)
def test_foreign_arrow_types_are_refused_with_a_way_out(arrow, way_out):
    with pytest.raises(SchemaMismatchError) as caught:
        from_arrow(arrow)
    assert way_out in str(caught.value)


def test_scalars_are_key_types_and_nested_are_not():
    assert all(is_key_type(parse(text)) == ("<" not in text) for text, _, _ in SPELLINGS)
