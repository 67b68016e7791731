"""A program for two executors: a write with a shuffle, a plain one that loses an executor on the way, and reads.

    python tests/spark/cluster_job.py <an empty directory>

Prints what it found, as one line of JSON. Tables are read when an executor has been lost, in several tasks each.
"""

import json
import sys

from lsmerge.spark import changelog, upsert
from tests.spark import failing
from tests.spark.conftest import start_session

DEFINITION = {
    "primary-key": "k",
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
}


def main(root: str) -> None:
    spark = start_session("local-cluster[2,1,512]", **{"spark.executor.memory": "512m"})
    df = spark.range(0, 200, 1, 4).selectExpr("id AS k", "1 AS n")
    options = {name: value for name, value in DEFINITION.items() if name != "primary-key"}
    upsert(df, f"{root}/shuffled", primary_key="k", options=options)
    # One entry is the driver's.
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.dataSource.register(failing.executor_killed)
    ones = spark.range(0, 60, 1, 3).selectExpr("id AS k", "1 AS n")
    writer = ones.write.format("executor_killed").mode("append").options(**DEFINITION)
    writer.save(f"{root}/killed")
    report = {
        "executors": executors,
        "rows": rows_of(spark, f"{root}/killed"),
        "told": changelog(spark, f"{root}/shuffled").groupBy("_row_kind").count().collect(),
    }
    spark.stop()
    print(json.dumps(report))


def rows_of(spark, path: str) -> list[list[int]]:
    read = spark.read.format("lsmerge").option("source.split.target-size", "1 kb").load(path)
    assert read.rdd.getNumPartitions() > 1
    return sorted(list(row) for row in read.collect())


if __name__ == "__main__":
    main(sys.argv[1])
