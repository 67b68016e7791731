"""lsmerge.spark.upsert: rows are shuffled to the task of their key by Spark's own hash."""

import decimal
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import lsmerge
from lsmerge.spark import upsert
from tests.spark.tables import orphans, rows_of

# Every kind of table that a share is computed for in its own way.
KINDS = {
    "one bucket": {},
    "more buckets than tasks": {"bucket": "5"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "40"},
}


def numbers(spark, start, end, parts=3):
    return spark.range(start, end, 1, parts).selectExpr(
        "id % 100 AS k", "concat('p', id % 3) AS p", "id AS v"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_upsert_is_the_write_of_one_writer(tmp_path, spark, kind):
    path, options = str(tmp_path / "t"), KINDS[kind] | {"changelog-producer": "lookup"}
    upsert(numbers(spark, 0, 250), path, primary_key="k", options=options)
    upsert(numbers(spark, 250, 330), path, parallelism=3)
    expected = {v % 100: (v % 100, f"p{v % 3}", v) for v in range(330)}
    assert rows_of(path) == sorted(expected.values(), key=repr)
    with lsmerge.open_table(path) as table:
        kinds = [k for b in table.changelog(2, 2) for k in b["_row_kind"].to_pylist()]
    assert (kinds.count("-U"), kinds.count("+U"), len(kinds)) == (80, 80, 160)
    assert orphans(path) == ()


@pytest.mark.parametrize("bucket", ["2", "-1"])
def test_partitions_are_spread_over_tasks(tmp_path, spark, bucket):
    path = str(tmp_path / "t")
    df = numbers(spark, 0, 300).selectExpr("k", "nullif(p, 'p0') AS p", "v")
    definition = {"primary_key": ["p", "k"], "partition_by": "p", "options": {"bucket": bucket}}
    upsert(df.where("p IS NOT NULL"), path, parallelism=4, **definition)
    with lsmerge.open_table(path) as table:
        assert table.scan().count() == 200
        assert sorted(p.values["p"] for p in table.partitions()) == ["p1", "p2"]


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_keys_move_between_partitions_by_the_task_that_has_them(tmp_path, spark, engine):
    path = str(tmp_path / "t")
    options = {"bucket": "-1", "merge-engine": engine}
    for start, end in ((0, 150), (150, 320)):
        upsert(numbers(spark, start, end), path, primary_key="k", partition_by="p", options=options)
    written = [(v % 100, f"p{v % 3}", v) for v in range(320)]
    winners = {row[0]: row for row in (written if engine == "deduplicate" else written[::-1])}
    assert rows_of(path) == sorted(winners.values(), key=repr)
    assert orphans(path) == ()


KEYS = {
    pa.bool_(): [True, False],
    pa.int8(): [-1, 0, 7],
    pa.int16(): [-300, 300],
    pa.int32(): [-5, 0, 2**31 - 1],
    pa.int64(): [-(2**63), 0, 5],
    pa.string(): ["", "a", "ÄÖ", "longer than eight"],
    pa.binary(): [b"", b"\xff", b"abcdefgh1"],
    pa.date32(): [date(1969, 1, 1), date(2024, 2, 29)],
    pa.timestamp("us"): [datetime(1969, 1, 1, 1, 2, 3, 4), datetime(2024, 1, 1)],
    pa.timestamp("us", "UTC"): [datetime(2024, 7, 1, tzinfo=UTC)],
    pa.decimal128(10, 2): [decimal.Decimal("-1.50"), decimal.Decimal("0.00")],
    pa.decimal128(38, 3): [decimal.Decimal("12345678901234567890123.456")],
}


def test_shares_are_those_that_tables_compute_whatever_the_type_of_the_key(
    tmp_path, memory_uri, spark
):
    # Every task checks that each row is its own, so a hash that differs would fail the job.
    fields = [pa.field(f"c{number}", type_) for number, type_ in enumerate(KEYS)]
    schema = pa.schema([*fields, pa.field("p", pa.float64())])
    definition = {"primary_key": schema.names, "partition_by": "p", "options": {"bucket": "7"}}
    tables = [
        lsmerge.create_table(uri, schema, **definition) for uri in (tmp_path / "t", memory_uri)
    ]
    rows = [
        {f"c{number}": values[n % len(values)] for number, values in enumerate(KEYS.values())}
        | {"p": [0.0, -0.0, 1.5, float("nan")][n % 4]}
        for n in range(16)
    ]
    data = pa.Table.from_pylist(rows, schema)
    df = spark.createDataFrame(data, from_arrow_schema(schema, prefer_timestamp_ntz=True))
    for tasks in (5, 2):
        upsert(df, str(tmp_path / "t"), parallelism=tasks)
    tables[1].upsert(data)
    found, expected = ([repr(row) for row in t.scan().to_arrow().to_pylist()] for t in tables)
    assert sorted(found) == sorted(expected)


def test_a_narrower_key_goes_to_the_task_of_the_tables_type(tmp_path, spark):
    path = str(tmp_path / "t")
    upsert(spark.range(50), path, primary_key="id", options={"bucket": "3"})
    upsert(spark.range(50).selectExpr("CAST(id AS SMALLINT) AS id"), path)
    assert len(rows_of(path)) == 50


def test_a_key_that_spark_does_not_hash_alike_is_written_without_shares(tmp_path, spark):
    schema = pa.schema({"t": pa.timestamp("ms"), "v": pa.int64()})
    lsmerge.create_table(tmp_path / "t", schema, "t", options={"bucket": "3"})
    df = spark.sql("SELECT timestamp_ntz'2024-01-01 00:00:00' AS t, id AS v FROM range(0, 9, 1, 3)")
    upsert(df, str(tmp_path / "t"))
    assert rows_of(tmp_path / "t", "v") == [(8,)]


def test_target_columns_kinds_and_a_sequence_field(tmp_path, spark):
    path = str(tmp_path / "t")
    df = spark.sql("SELECT 1L AS k, 5 AS s, 'a' AS v UNION ALL SELECT 2L, 5, 'b'")
    upsert(df, path, primary_key="k", options={"sequence.field": "s"})
    upsert(spark.sql("SELECT 1L AS k, 4 AS s, 'old' AS v, '+U' AS _row_kind"), path)
    upsert(spark.sql("SELECT 2L AS k, 9 AS s, 'b' AS v, '-D' AS _row_kind"), path)
    assert rows_of(path) == [(1, 5, "a")]


def test_foreach_batch_commits_once(tmp_path, spark):
    path, source = str(tmp_path / "t"), str(tmp_path / "in")
    spark.range(20).selectExpr("id AS k", "1 AS n").write.parquet(source)
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}

    def write_twice(batch, number):
        for _ in range(2):
            identity = {"commit_user": "job", "commit_id": number}
            upsert(batch, path, primary_key="k", options=options, **identity)

    stream = spark.readStream.schema("k bigint, n int").parquet(source).writeStream
    query = stream.foreachBatch(write_twice).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "check")).start().awaitTermination()
    assert {n for _, n in rows_of(path)} == {1}
    assert len(rows_of(path)) == 20


def test_what_cannot_be_is_refused(tmp_path, spark):
    path = str(tmp_path / "t")
    with pytest.raises(lsmerge.TableNotFoundError, match="primary-key"):
        upsert(spark.range(1), path)
    with pytest.raises(lsmerge.InvalidOptionError, match="a relative path"):
        upsert(spark.range(1), "t", primary_key="id")
    with pytest.raises(lsmerge.InvalidOptionError, match="give both"):
        upsert(spark.range(1), path, primary_key="id", commit_id=1)
    with pytest.raises(lsmerge.InvalidOptionError, match="parallelism = 0"):
        upsert(spark.range(1), path, primary_key="id", parallelism=0)
    with pytest.raises(lsmerge.SchemaMismatchError, match="unknown column 'x'"):
        upsert(spark.range(1).selectExpr("id", "id AS x"), path)
