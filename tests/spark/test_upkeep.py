"""Compaction, rescaling, verification and expiry as Spark jobs."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lsmerge
import lsmerge.spark

SCHEMA = pa.schema({"d": pa.string(), "k": pa.int64(), "v": pa.int64()})


@pytest.fixture
def table(tmp_path):
    table = lsmerge.create_table(
        str(tmp_path / "t"),
        SCHEMA,
        ["d", "k"],
        partition_by="d",
        options={"bucket": 2, "write-only": True},
    )
    for value in range(3):
        table.upsert([{"d": d, "k": k, "v": value} for d in "ab" for k in range(50)])
    return table


def test_the_upkeep_of_a_table(spark, table, tmp_path):
    rows = table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")])
    report = lsmerge.spark.compact(spark, table.uri, full=True, partition={"d": "a"})
    assert (report.buckets, report.rows_read, report.rows_written) == (2, 150, 50)
    report = lsmerge.spark.compact(spark, table.uri, full=True)
    assert (report.buckets, report.buckets_lost) == (2, 0)
    assert lsmerge.spark.compact(spark, table.uri, full=True).snapshot_id is None
    assert lsmerge.spark.rescale(spark, table.uri, 4).partitions == 2
    assert [p.buckets for p in table.partitions()] == [4, 4]
    assert lsmerge.spark.verify(spark, table.uri) == table.verify()
    assert lsmerge.spark.expire(spark, table.uri, retain_max=1).snapshots == (1, 2, 3, 4, 5)
    assert table.scan().to_arrow().sort_by([("d", "ascending"), ("k", "ascending")]).equals(rows)
    victim = next((tmp_path / "t").glob("d=a/bucket-0/data-*"))
    victim.write_bytes(b"x" * victim.stat().st_size)
    assert victim.name in lsmerge.spark.verify(spark, table.uri).problems[0]
    with pytest.raises(PySparkException, match=r"\[CORRUPT_FILE\]"):
        lsmerge.spark.read(spark, table.uri).collect()
