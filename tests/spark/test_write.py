"""Batch writes: making a table, upserts, kinds, target columns, overwrites, and what is refused."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lsmerge
import lsmerge.spark
from lsmerge.spark import LsmergeDataSource
from tests.spark.tables import files_in, orphans, rows_of, write


@pytest.fixture
def table(tmp_path):
    """A table of (k, v) with 1=a and 2=b."""
    options = {"bucket": "2", "changelog-producer": "lookup"}
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    made = lsmerge.create_table(tmp_path / "t", schema, "k", options=options)
    made.upsert({"k": [1, 2], "v": ["a", "b"]})
    return tmp_path / "t"


def frame(spark, *rows, schema="k bigint, v string"):
    return spark.createDataFrame(list(rows), schema)


def test_the_first_write_makes_the_table(tmp_path, spark):
    df = spark.createDataFrame(
        [(1, "x", 5.0)], "Id bigint not null, Day string, Amount double not null"
    )
    options = {
        "primary-key": "Day, Id",
        "partition-by": "Day",
        "merge-engine": "aggregation",
        "fields.Amount.aggregate-function": "sum",
    }
    write(df, tmp_path / "t", **options)
    write(df, tmp_path / "t", **options)
    table = lsmerge.open_table(tmp_path / "t")
    assert (table.primary_key, table.partition_by) == (("Day", "Id"), ("Day",))
    assert table.schema.field("Amount").nullable, "one DataFrame says nothing about the next"
    assert rows_of(tmp_path / "t") == [(1, "x", 10.0)]


def test_an_upsert_matches_columns_by_name_and_casts_them(table, spark):
    write(spark.sql("SELECT 'z' AS v, CAST(2 AS INT) AS k UNION ALL SELECT 'c', 3"), table)
    assert rows_of(table) == [(1, "a"), (2, "z"), (3, "c")]
    with lsmerge.open_table(table) as t:
        changes = [row for batch in t.changelog(2) for row in batch.to_pylist()]
    assert sorted((c["_row_kind"], c["v"]) for c in changes) == [
        ("+I", "c"),
        ("+U", "z"),
        ("-U", "b"),
    ]
    assert orphans(table) == ()


def test_names_are_matched_whatever_their_case(tmp_path, spark):
    """As Spark does itself; the table keeps the spelling of its first write."""
    path = tmp_path / "t"
    write(spark.sql("SELECT 1L AS Id, 'x' AS Name, 1 AS N"), path, primary_key="id")
    write(spark.sql("SELECT 'y' AS NAME, 1L AS ID, '+U' AS _ROW_KIND"), path, primary_key="ID")
    write(spark.sql("SELECT 1L AS iD, 5 AS n"), path, columns="ID, n")
    lsmerge.spark.upsert(spark.sql("SELECT 2L AS iD, 'z' AS name"), str(path))
    assert lsmerge.open_table(path).schema.names == ["Id", "Name", "N"]
    assert rows_of(path) == [(1, "y", 5), (2, "z", None)]
    lsmerge.open_table(path).compact(full=True)
    found = lsmerge.spark.read(spark, str(path), ["name", "ID"], mode="compacted")
    assert found.columns == ["Name", "Id"]
    found = lsmerge.spark.read(spark, str(path), ["name", "ID"])
    assert sorted(map(tuple, found.collect())) == [("y", 1), ("z", 2)]


def test_rows_of_one_key_in_many_tasks_keep_their_order(table, spark):
    df = spark.range(0, 1000, 1, 8).selectExpr("id % 10 AS k", "CAST(id AS STRING) AS v")
    write(df, table)
    assert rows_of(table, "v") == [(str(990 + n),) for n in range(10)]


def test_row_kinds_delete_and_update(table, spark):
    df = frame(spark, (1, "a", "-D"), (3, "c", "+I"), schema="k bigint, v string, _row_kind string")
    write(df, table)
    assert rows_of(table) == [(2, "b"), (3, "c")]


def test_a_rowkind_field_says_what_a_row_does(tmp_path, spark):
    options = {"primary_key": "k", "rowkind.field": "op"}
    schema = "k bigint, op string"
    write(frame(spark, (1, "+I"), (2, "+I"), schema=schema), tmp_path / "t", **options)
    write(frame(spark, (1, "-D"), schema=schema), tmp_path / "t", **options)
    assert rows_of(tmp_path / "t") == [(2, "+I")]


def test_target_columns_leave_the_others(tmp_path, spark):
    whole = frame(spark, (1, 1, 1), schema="k int, a int, b int")
    write(whole, tmp_path / "t", primary_key="k")
    write(frame(spark, (1, 5), (2, 6), schema="k int, b int"), tmp_path / "t", columns="k, b")
    assert rows_of(tmp_path / "t") == [(1, 1, 5), (2, None, 6)]


def test_an_empty_dataframe_changes_nothing(table, spark):
    write(spark.sql("SELECT 1L AS k, 'a' AS v WHERE false"), table)
    assert rows_of(table) == [(1, "a"), (2, "b")]


def test_a_commit_with_an_identity_is_made_once(table, spark):
    for v in ("first", "second"):
        write(frame(spark, (1, v)), table, commit_user="job", commit_id="4")
    assert rows_of(table) == [(1, "first"), (2, "b")]
    assert orphans(table) == ()


REFUSED = [
    ("k string, v string", {}, r"SCHEMA_MISMATCH.*column 'k'"),
    ("k double, v string", {}, r"SCHEMA_MISMATCH.*column 'k'"),
    ("k bigint, w string", {}, r"SCHEMA_MISMATCH.*unknown column 'w'; known: k, v"),
    ("v string", {}, r"SCHEMA_MISMATCH.*primary key column 'k' is missing"),
    ("k bigint, v string, V string", {}, r"SCHEMA_MISMATCH.*'v'.* twice"),
    ("k bigint, v interval day to second", {}, r"SCHEMA_MISMATCH.*no type for Spark's interval"),
    ("k bigint, v string", {"columns": "k"}, r"SCHEMA_MISMATCH.*'v'"),
    ("k bigint, v string", {"primary-key": "v"}, r"TABLE_EXISTS.*other primary key"),
    ("k bigint, v string", {"bucket": "3"}, r"TABLE_EXISTS.*bucket is 2 there, 3 here"),
    ("k bigint, v string", {"buckets": "3"}, r"INVALID_OPTION.*'buckets'.*'bucket'"),
    ("k bigint, v string", {"commit-id": "3"}, r"INVALID_OPTION.*give both"),
    ("k bigint, v string", {"overwrite.mode": "dynamic"}, r"INVALID_OPTION.*this write appends"),
]


@pytest.mark.parametrize(("schema", "options", "reason"), REFUSED)
def test_what_does_not_fit_is_refused_in_one_line_by_the_driver(
    table, spark, schema, options, reason
):
    before, df = files_in(table), spark.createDataFrame([], schema)
    with pytest.raises(lsmerge.LsmergeError, match=reason) as caught:
        LsmergeDataSource({"path": str(table), **options}).writer(df.schema, overwrite=False)
    assert "\n" not in str(caught.value)
    assert files_in(table) == before


def test_what_does_not_fit_is_refused_before_any_task_runs(table, spark):
    # A task that runs would end otherwise.
    df = spark.range(2).selectExpr("raise_error('ran') AS k", "'a' AS w")
    with pytest.raises(PySparkException, match=r"\[SCHEMA_MISMATCH\] .*unknown column 'w'"):
        write(df.selectExpr("CAST(k AS BIGINT) AS k", "w"), table)


def test_a_value_that_does_not_fit_fails_the_job_and_leaves_nothing(table, spark):
    before = files_in(table)
    df = spark.sql("SELECT id AS k, 'x' AS v FROM range(0, 100, 1, 1) UNION ALL SELECT NULL, 'x'")
    with pytest.raises(Exception, match=r"\[SCHEMA_MISMATCH\] primary key column 'k'.*null"):
        write(df, table)
    assert rows_of(table) == [(1, "a"), (2, "b")]
    assert files_in(table) == before


def test_no_table_and_no_key(tmp_path, spark):
    with pytest.raises(Exception, match=r"TABLE_NOT_FOUND.*option\('primary-key', 'id'\)"):
        write(spark.range(1), tmp_path / "t")
    assert not (tmp_path / "t").exists()


DAYS = "day string, k int"


@pytest.fixture
def days(tmp_path):
    schema = pa.schema({"day": pa.string(), "k": pa.int32()})
    made = lsmerge.create_table(tmp_path / "t", schema, ["day", "k"], partition_by="day")
    made.upsert({"day": ["mon", "mon", "tue"], "k": [1, 2, 3]})
    return tmp_path / "t"


OVERWRITES = [
    ({}, [("mon", 9)]),
    ({"overwrite.partition": "day=mon"}, [("mon", 9), ("tue", 3)]),
    ({"overwrite.partition": '{"day": "mon"}'}, [("mon", 9), ("tue", 3)]),
    ({"overwrite.partition": "day=mon; day=tue"}, [("mon", 9)]),
    ({"partitionOverwriteMode": "dynamic"}, [("mon", 9), ("tue", 3)]),
]


@pytest.mark.parametrize(("options", "after"), OVERWRITES)
def test_overwrite_replaces_the_table_or_partitions(days, spark, options, after):
    write(frame(spark, ("mon", 9), schema=DAYS), days, "overwrite", **options)
    assert rows_of(days) == after


def test_an_overwrite_outside_its_partitions_is_refused(days, spark):
    df = frame(spark, ("tue", 9), schema=DAYS)
    with pytest.raises(Exception, match=r"SCHEMA_MISMATCH.*rows of partition \['tue'\]"):
        write(df, days, "overwrite", **{"overwrite.partition": "day=mon"})
    with pytest.raises(Exception, match=r"INVALID_OPTION.*overwrite.partition"):
        write(df, days, "overwrite", **{"overwrite.partition": "mon"})
    assert rows_of(days) == [("mon", 1), ("mon", 2), ("tue", 3)]


def test_an_overwrite_with_nothing_empties_the_table(days, spark):
    write(spark.sql("SELECT 'mon' AS day, 1 AS k WHERE false"), days, "overwrite")
    assert rows_of(days) == []


@pytest.mark.parametrize(
    "options", [{"bucket": "-1"}, {"bucket": "-1", "changelog-producer": "input"}]
)
def test_tasks_that_meet_the_same_new_keys_in_dynamic_buckets(tmp_path, spark, options):
    df = spark.range(0, 400, 1, 4).selectExpr("id % 100 AS k", "id AS v")
    small = {"dynamic-bucket.target-row-num": "30"}
    write(df, tmp_path / "t", primary_key="k", **options, **small)
    assert rows_of(tmp_path / "t") == sorted([(k, 300 + k) for k in range(100)], key=repr)
    assert orphans(tmp_path / "t") == ()


def test_keys_that_move_between_partitions(tmp_path, spark):
    df = spark.range(0, 40, 1, 4).selectExpr(
        "id % 10 AS k", "CAST(id % 4 AS STRING) AS p", "id AS v"
    )
    write(df, tmp_path / "t", primary_key="k", partition_by="p", bucket="-1")
    assert rows_of(tmp_path / "t", "k", "p", "v") == [
        (k, str((30 + k) % 4), 30 + k) for k in range(10)
    ]
    assert orphans(tmp_path / "t") == ()


def test_insert_into_a_temporary_view(table, spark):
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW lsmerge_view (k BIGINT, v STRING) USING lsmerge OPTIONS (path '{table}')"
    )
    spark.sql("INSERT INTO lsmerge_view VALUES (2, 'z'), (3, 'c')")
    assert rows_of(table) == [(1, "a"), (2, "z"), (3, "c")]
    spark.sql("INSERT OVERWRITE lsmerge_view VALUES (7, 'only')")
    assert rows_of(table) == [(7, "only")]
