"""Every type of a table as Spark declares it, and batches exactly as Spark compares them."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as st

import lsmerge
import lsmerge.spark
from lsmerge.spark.types import (
    BATCH_ROWS,
    MOST_ROWS,
    arrow_schema,
    check_declared,
    fitted,
    spark_schema,
    spark_type,
)

UTC = dt.UTC
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 59, 123000)
TYPES = {
    "bool": (pa.bool_(), st.BooleanType(), True),
    "int8": (pa.int8(), st.ByteType(), -128),
    "int16": (pa.int16(), st.ShortType(), -32768),
    "int32": (pa.int32(), st.IntegerType(), 2**31 - 1),
    "int64": (pa.int64(), st.LongType(), -(2**63)),
    "float32": (pa.float32(), st.FloatType(), 0.5),
    "float64": (pa.float64(), st.DoubleType(), 1e300),
    "decimal": (pa.decimal128(38, 18), st.DecimalType(38, 18), Decimal("-1.5").quantize(Decimal(1).scaleb(-18))),
    "string": (pa.string(), st.StringType(), "aé\0"),
    "binary": (pa.binary(), st.BinaryType(), b"\0\xff"),
    "fixed": (pa.binary(3), st.BinaryType(), b"abc"),
    "date": (pa.date32(), st.DateType(), dt.date(1969, 12, 31)),
    "time_s": (pa.time32("s"), st.TimeType(0), dt.time(23, 59, 59)),
    "time_ms": (pa.time32("ms"), st.TimeType(3), dt.time(1, 2, 3, 4000)),
    "time_us": (pa.time64("us"), st.TimeType(6), dt.time(1, 2, 3, 4)),
    "time_ns": (pa.time64("ns"), st.TimeType(6), dt.time(1, 2, 3, 5)),
    "ts_s": (pa.timestamp("s"), st.TimestampNTZType(), MOMENT.replace(microsecond=0)),
    "ts_ms": (pa.timestamp("ms"), st.TimestampNTZType(), MOMENT),
    "ts_us": (pa.timestamp("us"), st.TimestampNTZType(), dt.datetime(1, 1, 1)),
    "ts_ns": (pa.timestamp("ns"), st.TimestampNTZType(), MOMENT),
    "ltz_s": (pa.timestamp("s", "UTC"), st.TimestampType(), MOMENT.replace(microsecond=0, tzinfo=UTC)),
    "ltz_ms": (pa.timestamp("ms", "UTC"), st.TimestampType(), MOMENT.replace(tzinfo=UTC)),
    "ltz_us": (pa.timestamp("us", "UTC"), st.TimestampType(), MOMENT.replace(tzinfo=UTC)),
    "ltz_ns": (pa.timestamp("ns", "UTC"), st.TimestampType(), MOMENT.replace(tzinfo=UTC)),
    "list": (
        pa.list_(pa.field("element", pa.timestamp("ms", "UTC"), nullable=False)),
        st.ArrayType(st.TimestampType(), containsNull=False),
        [MOMENT.replace(tzinfo=UTC)],
    ),
    "map": (
        pa.map_(pa.string(), pa.list_(pa.binary(2))),
        st.MapType(st.StringType(), st.ArrayType(st.BinaryType())),
        [("a", [b"xy", None]), ("b", None)],
    ),
    "struct": (
        pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("t", pa.time32("ms"))]),
        st.StructType([st.StructField("a", st.ByteType(), False), st.StructField("t", st.TimeType(3))]),
        {"a": 1, "t": None},
    ),
    "deep": (
        pa.list_(pa.struct([pa.field("m", pa.map_(pa.int32(), pa.timestamp("s")))])),
        st.ArrayType(
            st.StructType([st.StructField("m", st.MapType(st.IntegerType(), st.TimestampNTZType()))])
        ),
        [{"m": [(1, dt.datetime(2024, 1, 1)), (2, None)]}, None, {"m": None}],
    ),
}  # fmt: skip
SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), nullable=False), *(pa.field(n, t[0]) for n, t in TYPES.items())]
)
VALUES = {name: value for name, (_, _, value) in TYPES.items()}
ROWS = [
    {"k": 1, **VALUES},
    {"k": 2},
    *({"k": 10 + i, name: value} for i, (name, value) in enumerate(VALUES.items())),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("types") / "t")
    table = lsmerge.create_table(path, SCHEMA, "k", options={"bucket": 2})
    table.upsert(pa.Table.from_pylist(ROWS[:3], schema=SCHEMA))
    table.upsert(pa.Table.from_pylist(ROWS[2:], schema=SCHEMA))
    return table


@pytest.mark.parametrize("name", TYPES)
def test_each_type_has_one_in_spark(name):
    arrow, spark, _ = TYPES[name]
    assert spark_type(arrow) == spark


def test_batches_are_what_spark_compares_with(table):
    declared = spark_schema(table.schema)
    batches = list(fitted(table.scan().to_batches(), declared))
    assert batches
    assert all(batch.schema.equals(arrow_schema(declared)) for batch in batches)
    for batch in batches:
        batch.validate(full=True)


def test_columns_come_by_name_in_the_order_declared(table):
    declared = st.StructType([st.StructField(n, TYPES[n][1]) for n in ("string", "int8")])
    (batch,) = fitted(table.scan(columns=["int8", "string"]).to_batches(), declared)
    assert batch.schema.names == ["string", "int8"]


@pytest.mark.parametrize(
    "type_",
    [
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.time64("ns"),
        pa.struct({"t": pa.time64("ns")}),
        pa.map_(pa.int8(), pa.list_(pa.time64("ns"))),
    ],
    ids=str,
)
def test_what_spark_cannot_hold_is_refused(type_):
    values = {"struct": {"t": 1}, "map": [(1, [1])]}
    exact = {"struct": {"t": 1000}, "map": [(1, [1000])]}
    kind = str(type_).split("<")[0]
    for value, is_exact in ((values.get(kind, 1), False), (exact.get(kind, 1000), True)):
        batch = pa.record_batch({"t": pa.array([value, None], type_)})
        if is_exact:
            assert next(fitted([batch], spark_schema(batch.schema))).num_rows == 2
            continue
        with pytest.raises(lsmerge.SchemaMismatchError, match="column 't'"):
            list(fitted([batch], spark_schema(batch.schema)))


def test_small_batches_are_joined_and_large_ones_cut():
    def sizes(*counts):
        batches = [pa.record_batch({"k": pa.array(range(n), pa.int64())}) for n in counts]
        return [b.num_rows for b in fitted(batches, spark_schema(batches[0].schema))]

    assert sizes(10, 20, 30) == [60]
    assert sizes(*[10_000] * 5) == [30_000, 20_000]
    assert sizes(BATCH_ROWS, MOST_ROWS) == [BATCH_ROWS, MOST_ROWS]
    assert sizes(2 * MOST_ROWS + 10) == [33_336, 33_337, 33_337], "equal ones"
    assert sizes(0) == []


def test_batches_of_large_rows_are_small():
    batches = [pa.record_batch({"v": ["x" * (1 << 20)] * 10}) for _ in range(20)]
    assert max(b.num_rows for b in fitted(batches, spark_schema(batches[0].schema))) <= 70


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (st.StructType([st.StructField("nope", st.LongType())]), "'nope'.*none of the table's"),
        (st.StructType([st.StructField("int8", st.LongType())]), "bigint, the table has tinyint"),
        (st.StructType([st.StructField("int8", st.ByteType(), False)]), "NOT NULL"),
    ],
)
def test_a_declared_schema_must_be_that_of_the_table(table, declared, reason):
    with pytest.raises(lsmerge.SchemaMismatchError, match=reason):
        check_declared(declared, spark_schema(table.schema))


def test_names_are_found_without_regard_to_case(table):
    declared = st.StructType([st.StructField("K", st.LongType())])
    assert check_declared(declared, spark_schema(table.schema)) == ["k"]


def by_source(spark, path):
    return spark.read.format("lsmerge").load(path)


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns"])
@pytest.mark.parametrize("read", [by_source, lsmerge.spark.read])
def test_every_type_reads_the_same_in_spark_in_any_time_zone(spark, table, zone, read):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = read(spark, table.uri)
        declared = [(f.name, f.dataType, f.nullable) for f in frame.schema]
        assert declared == [(f.name, f.dataType, f.nullable) for f in spark_schema(table.schema)]
        # Spark's toArrow does not take a null where a field inside it is declared NOT NULL.
        seen = frame.drop("struct").toArrow().sort_by("k")
        structs = frame.orderBy("k").select("struct.*").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    expected = table.scan().to_arrow().sort_by("k")
    assert [tuple(row) for row in structs] == [
        ((row or {}).get("a"), (row or {}).get("t")) for row in expected["struct"].to_pylist()
    ]
    for name in seen.column_names:
        ours = expected[name].combine_chunks().cast(arrow_schema(frame.schema).field(name).type)
        assert shown(seen[name]) == shown(ours), name


def shown(column):
    """Values without the zone they are shown in, and bytes whatever class they have."""
    return [_plain(value) for value in column.to_pylist()]


def _plain(value):
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value
