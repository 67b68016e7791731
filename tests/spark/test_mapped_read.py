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


def planned(frame):
    """What Spark runs, as text, and how large it takes the rows to be."""
    execution = frame._jdf.queryExecution()
    size = execution.optimizedPlan().stats().sizeInBytes()
    return execution.executedPlan().toString(), size if isinstance(size, int) else int(
        size.toString()
    )


def test_each_part_is_read_once_by_a_task_of_its_own(spark, table):
    frame = lsmerge.spark.read(spark, table.uri, **SMALL_PARTS)
    splits = table.scan().splits("2 kb")
    assert len(splits) > 3
    found = frame.selectExpr("spark_partition_id() AS task", "k", "v").collect()
    for number, split in enumerate(splits):
        rows = [tuple(r.values()) for b in table.read_split(split) for r in b.to_pylist()]
        assert [(r.k, r.v) for r in found if r.task == number] == rows
    expected = [(k, "old" if k < 1_000 else "new") for k in range(3_000)]
    assert sorted((r.k, r.v) for r in found) == expected


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


def test_a_read_is_as_large_as_its_files(spark, tmp_path):
    made = lsmerge.create_table(str(tmp_path / "wide"), SCHEMA, "k")
    made.upsert({"k": range(1_000), "v": [str(k) * 50 for k in range(1_000)]})
    size = sum(split.size_bytes for split in made.scan().splits())
    assert size > 1_000 * 2 * 8
    _, taken_for = planned(lsmerge.spark.read(spark, made.uri))
    assert size - 8 < taken_for <= size


def test_a_read_is_no_smaller_than_its_values(spark, tmp_path):
    made = lsmerge.create_table(str(tmp_path / "alike"), SCHEMA, "k")
    made.upsert({"k": range(100_000), "v": ["alike"] * 100_000})
    made.compact(full=True)
    size = sum(split.size_bytes for split in made.scan().splits())
    _, taken_for = planned(lsmerge.spark.read(spark, made.uri))
    assert size < 100_000 * 2 * 8 == taken_for


def test_what_a_rollback_changed_is_as_large_as_what_is_compared(spark, table):
    """Nothing is written down of it, and Spark would broadcast what it takes for nothing."""
    table.rollback_to(1)
    frame = lsmerge.spark.changelog(spark, table.uri, 3)
    _, taken_for = planned(frame)
    assert taken_for > 4_000 * 8
    kinds = [row._row_kind for row in frame.collect()]
    assert (kinds.count("-D"), kinds.count("+U")) == (1_000, 1_000)


def test_joins_broadcast_what_is_small(spark, table):
    name = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(name)
    others = spark.read.format("lsmerge").load(table.uri)  # of which Spark knows no size
    try:
        for threshold, join in (("1mb", "BroadcastHashJoin"), ("1kb", "SortMergeJoin")):
            spark.conf.set(name, threshold)
            frame = lsmerge.spark.read(spark, table.uri, **SMALL_PARTS).join(others, "k")
            plan, _ = planned(frame)
            assert join in plan
            assert frame.count() == 3_000
    finally:
        spark.conf.set(name, before)


def test_plans_name_the_table(spark, table):
    plan, _ = planned(lsmerge.spark.read(spark, table.uri))
    assert f"lsmerge {table.uri}" in plan


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
