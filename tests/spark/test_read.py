"""Rows of a table as a DataFrame: pinned, pruned, as of then, and refused where they could not be told."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException

import lsmerge
import lsmerge.spark
from lsmerge.spark.batch_read import reader
from lsmerge.spark.types import spark_schema

SCHEMA = pa.schema({"d": pa.string(), "k": pa.int64(), "v": pa.string(), "n": pa.int32()})


def rows(keys, v="old"):
    return [{"d": "ab"[k % 2], "k": k, "v": v, "n": k} for k in keys]


@pytest.fixture
def table(tmp_path):
    return lsmerge.create_table(
        str(tmp_path / "t"),
        SCHEMA,
        ["d", "k"],
        partition_by="d",
        options={"bucket": 3, "changelog-producer": "lookup"},
    )


def load(spark, table, **options):
    return spark.read.format("lsmerge").options(**options).load(table.uri)


def keys(frame):
    return sorted(row.k for row in frame.collect())


def parts(table, schema=None, **options):
    """What Spark plans and reads, without Spark."""
    schema = spark_schema(table.schema) if schema is None else schema
    source = reader({"path": table.uri, **options}, schema)
    return [list(source.read(part)) for part in source.partitions()]


def test_a_dataframe_shows_the_snapshot_it_was_planned_for(spark, table):
    table.upsert(rows(range(10)))
    frame = load(spark, table)
    assert keys(frame) == list(range(10))
    table.delete(pa.table({"d": ["a"], "k": [4]}))
    table.upsert(rows([20]))
    assert keys(frame) == list(range(10))
    assert keys(load(spark, table)) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 20]


def test_columns_and_filters_are_pushed_by_what_is_said(spark, table):
    table.upsert(rows(range(10)))
    narrow = spark.read.format("lsmerge").schema("n int, K bigint").load(table.uri)
    assert narrow.columns == ["n", "K"]
    assert sorted(map(tuple, narrow.collect())) == [(k, k) for k in range(10)]
    found = lsmerge.spark.read(spark, table.uri, columns=["k"], filter="d = 'a' and n > 3")
    assert (found.columns, keys(found)) == (["k"], [4, 6, 8])
    both = found.union(lsmerge.spark.read(spark, table.uri, columns=["k"], filter="k < 2"))
    assert keys(both) == [0, 1, 4, 6, 8]
    assert load(spark, table).where("k < 3").count() == 3


def test_time_travel_by_number_tag_and_time(spark, table):
    table.upsert(rows([1]))
    table.create_tag("first")
    then = table.latest_snapshot().timestamp_ms
    table.alter(add={"x": pa.int8()})
    table.upsert([{**row, "x": 1} for row in rows([2])])
    for said in (
        {"scan.snapshot-id": "1"},
        {"scan.tag-name": "first"},
        {"scan.timestamp-millis": str(then)},
        {"scan.timestamp": dt.datetime.fromtimestamp(then / 1000, dt.UTC).isoformat()},
    ):
        if "scan.timestamp" in said and table.latest_snapshot().timestamp_ms == then:
            continue
        frame = load(spark, table, **said)
        assert ("x" in frame.columns, keys(frame)) == (False, [1])
    assert keys(lsmerge.spark.read(spark, table.uri, snapshot=1)) == [1]
    assert "x" in load(spark, table).columns


def test_an_empty_table_reads_empty(spark, table):
    assert load(spark, table).collect() == []
    table.upsert(rows([1]))
    assert load(spark, table, filter="k > 5").collect() == []


def test_parts_follow_bytes_not_buckets(table):
    table.upsert(rows(range(1000)))
    assert len(parts(table)) == 1
    cut = parts(table, **{"source.split.target-size": "2 kb"})
    assert len(cut) > 3
    found = [row["k"] for part in cut for batch in part for row in batch.to_pylist()]
    assert sorted(found) == list(range(1000))


def test_views_and_catalog_tables_are_read_by_sql(spark, table, tmp_path):
    table.upsert(rows(range(10)))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lsmerge OPTIONS (path '{table.uri}')")
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW w USING lsmerge OPTIONS (path '{table.uri}', filter 'k < 3')"
    )
    joined = spark.sql("SELECT sum(v.n) AS s, count(*) AS c FROM v JOIN w USING (d, k)").first()
    assert (joined.s, joined.c) == (3, 3)
    spark.sql(f"CREATE TABLE lsmerge_t USING lsmerge OPTIONS (path '{table.uri}', filter 'k < 7')")
    try:
        assert spark.sql("SELECT max(k) AS m FROM lsmerge_t").first().m == 6
    finally:
        spark.sql("DROP TABLE lsmerge_t")
    assert table.scan().count() == 10


def test_changes_between_snapshots_as_a_dataframe(spark, table):
    table.upsert(rows([1, 2]))
    table.upsert(rows([2, 3], "new"))
    table.delete(pa.table({"d": ["b"], "k": [1]}))

    def told(*arguments):
        frame = lsmerge.spark.changelog(spark, table.uri, *arguments)
        return sorted((r._snapshot_id, r._row_kind, r.k) for r in frame.collect())

    first, second, third = (
        [(1, "+I", 1), (1, "+I", 2)],
        [(2, "+I", 3), (2, "+U", 2), (2, "-U", 2)],
        [(3, "-D", 1)],
    )
    assert told() == first + second + third
    assert told(2) == second + third
    assert told(1, 2) == first + second
    assert told("latest-full") == [(3, "+I", 2), (3, "+I", 3)]
    assert told(9) == []


def test_a_compacted_table_is_read_by_sparks_own_reader(spark, table):
    table.upsert(rows(range(10)))
    table.upsert(rows(range(5), "new"))

    def read():
        frame = lsmerge.spark.read(spark, table.uri, mode="compacted")
        return "parquet" in frame._jdf.queryExecution().toString().lower(), frame

    is_native, merged = read()
    assert not is_native
    table.compact(full=True)
    is_native, frame = read()
    assert is_native
    assert frame.schema.simpleString() == merged.schema.simpleString()
    assert sorted(map(tuple, frame.collect())) == sorted(map(tuple, merged.collect()))
    assert keys(frame.where("d = 'a'")) == [0, 2, 4, 6, 8]
    table.delete(pa.table({"d": ["a"], "k": [4]}))
    is_native, frame = read()
    assert not is_native
    assert 4 not in keys(frame)


def distinct(type_, count):
    """So many values of a type, in order, none twice where it has as many: an encoding of its own, no dictionary."""
    numbers = pa.array(range(count), pa.int64())
    if pa.types.is_boolean(type_) or pa.types.is_int8(type_):
        return pa.array([number % 2 for number in range(count)], pa.int8()).cast(type_)
    if pa.types.is_date32(type_):
        return numbers.cast(pa.int32()).cast(type_)
    if pa.types.is_decimal(type_):
        return pa.array(map(decimal.Decimal, range(count)), type_)
    if pa.types.is_floating(type_):
        return pc.divide(numbers.cast(type_), pa.scalar(7, type_))
    if pa.types.is_fixed_size_binary(type_):
        return pa.array([b"%04d" % number for number in range(count)], type_)
    if pa.types.is_binary(type_):
        return numbers.cast(pa.string()).cast(type_)
    if pa.types.is_list(type_):
        values = distinct(type_.value_type, count)
        return pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), values)
    return numbers.cast(type_)


OF_PARQUET = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "doubles": pa.list_(pa.float64()),
    "decimal of 9": pa.decimal128(9, 2),
    "decimal of 18": pa.decimal128(18, 2),
    "decimal of 38": pa.decimal128(38, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "fixed": pa.binary(4),
    "date": pa.date32(),
    "timestamp of ms": pa.timestamp("ms"),
    "timestamp of us": pa.timestamp("us"),
    "timestamp with zone": pa.timestamp("us", "UTC"),
}


@pytest.fixture(scope="module")
def of_all_types(tmp_path_factory):
    """A compacted table with three columns of each type: values that differ, that repeat, and with nulls."""
    count = 3_000
    columns = {"k": distinct(pa.int64(), count)}
    for name, type_ in OF_PARQUET.items():
        values = distinct(type_, count)
        columns[f"{name} distinct"] = values
        columns[f"{name} repeated"] = values.take(pa.array([i % 5 for i in range(count)]))
        columns[f"{name} null"] = pc.if_else(
            pa.array([i % 3 == 0 for i in range(count)]), pa.scalar(None, type_), values
        )
    uri = str(tmp_path_factory.mktemp("types") / "t")
    made = lsmerge.create_table(uri, pa.table(columns).schema, "k")
    made.upsert(pa.table(columns))
    made.compact(full=True)
    return made


@pytest.mark.parametrize("name", OF_PARQUET)
def test_sparks_own_reader_knows_the_encodings_of_every_type(spark, of_all_types, name):
    """That of Spark 4.2 has none for floating point whose bytes lie apart, and failed once values did not repeat."""
    columns = ["k", f"{name} distinct", f"{name} repeated", f"{name} null"]
    frame = lsmerge.spark.read(spark, of_all_types.uri, columns, mode="compacted")
    assert "parquet" in frame._jdf.queryExecution().toString().lower()
    ours = load(spark, of_all_types, columns=",".join(columns))
    assert sorted(frame.collect()) == sorted(ours.collect())


REFUSED = [
    ({"fliter": "k = 1"}, "INVALID_OPTION.*'fliter'.*did you mean 'filter'"),
    ({"bucket": "3"}, "INVALID_OPTION.*'bucket' is none of a read"),
    ({"paths": '["/a","/b"]'}, "INVALID_OPTION.*one load reads one table.*unionByName"),
    ({"filter": "nope = 1"}, "nope"),
    ({"columns": "k,nope"}, "SCHEMA_MISMATCH.*nope"),
    ({"scan.snapshot-id": "7"}, "SNAPSHOT_NOT_FOUND.*snapshot 7 does not exist"),
    ({"scan.snapshot-id": "one"}, "INVALID_OPTION.*'scan.snapshot-id' = 'one'"),
    ({"scan.snapshot-id": "1", "scan.tag-name": "x"}, "INVALID_OPTION.*give one of them"),
    ({"scan.mode": "compacted"}, "INVALID_OPTION.*lsmerge.spark.read"),
    ({"scan.mode": "newest"}, "INVALID_OPTION.*latest-full"),
    ({"scan.mode": "from-snapshot"}, "needs 'scan.snapshot-id'"),
    ({"scan.mode": "from-timestamp"}, "needs 'scan.timestamp'"),
    ({"scan.mode": "earliest", "scan.snapshot-id": "1"}, "does not go with"),
    ({"scan.mode": "earliest", "filter": "k = 1"}, "does not go with"),
    ({"consumer-id": "me"}, "is for reading changes"),
    (
        {"scan.mode": "earliest", "read.stream.max-rows-per-trigger": "0"},
        "max-rows-per-trigger' = '0': accepted: 1 or more",
    ),
    ({"source.split.target-size": "much"}, "target_size = 'much'"),
    ({"scan.parallelism": "0"}, "readers = 0"),
    ({"scan.parallelism": "few"}, "'scan.parallelism' = 'few'"),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_line(table, options, reason):
    table.upsert(rows([1]))
    with pytest.raises(lsmerge.LsmergeError, match=reason) as caught:
        parts(table, **options)
    assert "\n" not in str(caught.value)


def test_the_reason_reaches_the_user_of_spark(spark, table, tmp_path):
    table.upsert(rows([1]))
    with pytest.raises(PySparkException, match=r"\[INVALID_OPTION\] option 'fliter'"):
        load(spark, table, fliter="k = 1")
    with pytest.raises(PySparkException, match=r"\[TABLE_NOT_FOUND\]"):
        spark.read.format("lsmerge").load(str(tmp_path / "nothing"))
    frame = load(spark, table)
    table.upsert(rows([1], "new"))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(PySparkException, match=r"\[SCHEMA_MISMATCH\] column 'v'"):
        spark.read.format("lsmerge").schema("v int").load(table.uri).collect()
    assert frame.count() == 1  # planned now, for the newest


def test_a_snapshot_that_expired_under_a_dataframe_is_named(spark, table):
    table.upsert(rows([1]))
    frame = load(spark, table)
    assert frame.count() == 1
    table.upsert(rows([1], "new"))
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(PySparkException, match=r"\[SNAPSHOT_EXPIRED\] .*earliest left is"):
        frame.count()
