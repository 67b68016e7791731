"""Reads, writes and upkeep behind Spark Connect: a program of its own, since one process has one kind of session.

    python -m tests.spark.connect_job <an empty directory>

Prints what it found, as one line of JSON.
"""

import json
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

import lsmerge
import lsmerge.spark
from tests.spark.conftest import SETTINGS


def main(directory: str) -> None:
    path = f"{directory}/t"
    options = {"bucket": 2, "changelog-producer": "lookup", "write-only": True}
    schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    table = lsmerge.create_table(path, schema, "k", options=options)
    spark = SparkSession.builder.config(map=SETTINGS).remote("local[2]").getOrCreate()
    try:
        print(json.dumps(found(spark, table, directory)))
    finally:
        spark.stop()


def found(spark, table, directory: str) -> dict[str, object]:
    path = table.uri
    rows = spark.range(10).selectExpr("id AS k", "'a' AS v")
    rows.write.format("lsmerge").mode("append").save(path)
    table.upsert([{"k": 1, "v": "b"}])
    stream = lsmerge.spark.read_stream(spark, path, "earliest")
    query = stream.writeStream.format("memory").queryName("told")
    query = query.option("checkpointLocation", f"{directory}/checkpoint")
    query.trigger(availableNow=True).start().awaitTermination()
    told = spark.sql("SELECT _row_kind AS kind, count(*) AS c FROM told GROUP BY 1").collect()
    return {
        "session": type(spark).__module__,
        "rows": spark.read.format("lsmerge").load(path).count(),
        "some": sorted(r.k for r in lsmerge.spark.read(spark, path, ["k"], "k < 3").collect()),
        "told": {row.kind: row.c for row in told},
        "changes": lsmerge.spark.changelog(spark, path, 2).count(),
        "compacted": lsmerge.spark.compact(spark, path, full=True).rows_written,
        "by spark": lsmerge.spark.read(spark, path, mode="compacted").count(),
    }


if __name__ == "__main__":
    main(sys.argv[1])
