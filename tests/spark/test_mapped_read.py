"""Rows by `lsmerge.spark.read` and changes by `lsmerge.spark.changelog`: what `format("lsmerge")` reads, as a map."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lsmerge
import lsmerge.spark

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.string()})
SMALL_PARTS = {"split_size": "2 kb"}


@pytest.fixture
def table(tmp_path):
    options = {"bucket": 3, "changelog-producer": "lookup"}
    made = lsmerge.create_table(str(tmp_path / "t"), SCHEMA, "k", options=options)
    made.upsert({"k": range(2_000), "v": ["old"] * 2_000})
    made.upsert({"k": range(1_000, 3_000), "v": ["new"] * 2_000})
    return made


def physical(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def test_each_part_is_read_once_by_a_task_of_its_own(spark, table):
    frame = lsmerge.spark.read(spark, table.uri, **SMALL_PARTS)
    parts = len(table.scan().splits("2 kb"))
    assert parts > 3
    assert frame.rdd.getNumPartitions() == parts
    expected = [(k, "old" if k < 1_000 else "new") for k in range(3_000)]
    assert sorted(map(tuple, frame.collect())) == expected


def test_rows_and_columns_are_those_of_the_data_source(spark, table):
    by_source = spark.read.format("lsmerge").load(table.uri)
    frame = lsmerge.spark.read(spark, table.uri)
    assert frame.schema.simpleString() == by_source.schema.simpleString()
    assert [f.nullable for f in frame.schema] == [f.nullable for f in by_source.schema]
    assert not any(f.metadata for f in frame.schema)
    assert sorted(frame.collect()) == sorted(by_source.collect())


def test_changes_are_those_of_the_data_source(spark, table):
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}
    by_source = spark.read.format("lsmerge").options(**options).load(table.uri)
    frame = lsmerge.spark.changelog(spark, table.uri, 2)
    assert sorted(frame.collect()) == sorted(by_source.collect())
    assert (
        frame.count() == 3_000
    )  # of a thousand keys the old row and the new one, a thousand new keys


def test_the_snapshot_is_that_of_the_call(spark, table):
    frame = lsmerge.spark.read(spark, table.uri, filter="k < 3")
    table.upsert({"k": [1], "v": ["later"]})
    assert sorted(map(tuple, frame.collect())) == [(0, "old"), (1, "old"), (2, "old")]
    again = lsmerge.spark.read(spark, table.uri, filter="k < 3")
    assert (1, "later") in map(tuple, again.collect())


def test_a_table_without_rows_is_empty(spark, tmp_path):
    made = lsmerge.create_table(str(tmp_path / "empty"), SCHEMA, "k")
    frame = lsmerge.spark.read(spark, made.uri)
    assert (frame.columns, frame.collect()) == (["k", "v"], [])
    assert lsmerge.spark.changelog(spark, made.uri).collect() == []


@pytest.mark.parametrize(
    ("threshold", "join"), [("1mb", "BroadcastHashJoin"), ("1kb", "SortMergeJoin")]
)
def test_joins_are_planned_by_the_size_of_the_files(spark, table, threshold, join):
    name = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(name)
    spark.conf.set(name, threshold)
    try:
        others = spark.read.format("lsmerge").load(table.uri)
        frame = lsmerge.spark.read(spark, table.uri, **SMALL_PARTS).join(others, "k")
        assert join in physical(frame)
        assert frame.count() == 3_000
    finally:
        spark.conf.set(name, before)


def test_what_is_wrong_is_said_by_the_call_itself(spark, table, tmp_path):
    with pytest.raises(lsmerge.TableNotFoundError, match="nothing"):
        lsmerge.spark.read(spark, str(tmp_path / "nothing"))
    with pytest.raises(lsmerge.SchemaMismatchError, match="nope"):
        lsmerge.spark.read(spark, table.uri, ["nope"])


def test_a_snapshot_that_expired_under_a_dataframe_is_named(spark, table):
    frame = lsmerge.spark.read(spark, table.uri)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1)
    with pytest.raises(PySparkException, match=r"\[SNAPSHOT_EXPIRED\] .*earliest left is"):
        frame.count()
