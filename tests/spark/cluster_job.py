"""A program for two executors: a write with a shuffle, one of which two attempts of a task finish, a plain one that
loses an executor on the way, and reads.

    python tests/spark/cluster_job.py <an empty directory>

Prints what it found, as one line of JSON. Tables are read when an executor has been lost, in several tasks each.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lsmerge.spark import changelog, upsert
from tests.spark import failing
from tests.spark.cluster import start_cluster

DEFINITION = {
    "primary-key": "k",
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
}
# Second attempts are for the one job that asks for them: in others a task would have to be that many times as slow.
NEVER = "1e9"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": NEVER,
    "spark.speculation.minTaskRuntime": "100ms",
}


def main(root: str) -> None:
    spark = start_cluster(f"{root}/work", **SPECULATION)
    df = spark.range(0, 200, 1, 4).selectExpr("id AS k", "1 AS n")
    options = {name: value for name, value in DEFINITION.items() if name != "primary-key"}
    upsert(df, f"{root}/shuffled", primary_key="k", options=options)
    os.mkfifo(f"{root}/speculated.{failing.MEETING}")
    with speculation(spark):
        write_with(spark, failing.speculated, f"{root}/speculated")
    # One entry is the driver's.
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    write_with(spark, failing.executor_killed, f"{root}/killed")
    report = {
        "executors": executors,
        "rows": rows_of(spark, f"{root}/killed"),
        "told": changelog(spark, f"{root}/shuffled").groupBy("_row_kind").count().collect(),
    }
    spark.stop()
    print(json.dumps(report))


@contextmanager
def speculation(spark) -> Iterator[None]:
    """A task that runs when half of the others are done gets a second attempt."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.speculation.multiplier", "1.1")
    yield
    conf.set("spark.speculation.multiplier", NEVER)


def write_with(spark, source, path: str) -> None:
    spark.dataSource.register(source)
    ones = spark.range(0, 60, 1, 3).selectExpr("id AS k", "1 AS n")
    ones.write.format(source.name()).mode("append").options(**DEFINITION).save(path)


def rows_of(spark, path: str) -> list[list[int]]:
    read = spark.read.format("lsmerge").option("source.split.target-size", "1 kb").load(path)
    assert read.rdd.getNumPartitions() > 1
    return sorted(list(row) for row in read.collect())


if __name__ == "__main__":
    main(sys.argv[1])
