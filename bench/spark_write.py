"""Writing from Spark beside what Spark allows: a Python data source that takes Arrow batches and drops them.

    python -m bench.spark_write [--rows 2000000] [--buckets 2] [--batches 20] [--directory DIR]

Prints rows a second of batch writes, best of several runs taken in turn, each also as a share of the source that does
nothing; the same by the processor time of Spark and its Python processes, which a busy machine falsifies less; and the
time that a micro-batch of a few rows takes.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from bench.measuring import spent_below
from lsmerge.spark import upsert

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ["id AS k", "id * 7 AS a", "rand(1) AS b", "format_string('value-%014d', id) AS c"]


class NothingWriter(DataSourceArrowWriter):
    """Takes all batches and drops them."""

    def write(self, iterator):
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NothingStreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator):
        return NothingWriter().write(iterator)

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name
        pass


class Nothing(DataSource):
    """What any Python data source costs."""

    @classmethod
    def name(cls):
        return "nothing"

    def writer(self, schema, overwrite):  # noqa: ARG002
        return NothingWriter()

    def streamWriter(self, schema, overwrite):  # noqa: ARG002, N802 - Spark's name
        return NothingStreamWriter()


def session(cores: int) -> SparkSession:
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lsmerge bench")
    return builder.config(map=settings).getOrCreate()


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr(*COLUMNS)


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of the processors."""
    taken = spent_below(work)
    return taken.clock, taken.processor


def batch_ways(df: DataFrame, root: Path, buckets: int) -> dict[str, Callable[[], object]]:
    """Each way of writing, to a table of its own where there is one."""
    table = {"primary-key": "k", "bucket": str(buckets), "write-only": "true"}

    def nothing():
        df.write.format("nothing").mode("append").save("/nothing")

    def plain():
        shutil.rmtree(root / "plain", ignore_errors=True)
        df.write.format("lsmerge").mode("append").options(**table).save(str(root / "plain"))

    def shuffled(*, keep_order: bool):
        shutil.rmtree(root / "shuffled", ignore_errors=True)
        options = {name: value for name, value in table.items() if name != "primary-key"}
        path = str(root / "shuffled")
        upsert(df, path, primary_key="k", options=options, keep_order=keep_order)

    return {
        "a source that does nothing": nothing,
        "df.write": plain,
        "upsert, keys come once": lambda: shuffled(keep_order=False),
        "upsert, in order": lambda: shuffled(keep_order=True),
    }


def micro_batches(spark: SparkSession, root: Path, count: int, form: str) -> list[float]:
    """Seconds of each of `count` batches of a few rows."""
    source = root / "feed"
    if not source.exists():
        for number in range(count):
            few = spark.range(number * 100, number * 100 + 100, 1, 1).selectExpr(*COLUMNS)
            few.write.mode("append").parquet(str(source))
    stream = spark.readStream.schema("k bigint, a bigint, b double, c string")
    df = stream.option("maxFilesPerTrigger", 1).parquet(str(source))
    options = {"checkpointLocation": str(root / f"check-{form}")}
    if form == "lsmerge":
        options |= {"primary-key": "k", "path": str(root / "stream")}
    writer = df.writeStream.format(form).options(**options).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    return [
        p["durationMs"]["triggerExecution"] / 1000
        for p in query.recentProgress
        if p["numInputRows"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--buckets", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--directory", type=Path, default=ROOT / "bench" / "results" / "spark_write"
    )
    args = parser.parse_args()
    shutil.rmtree(args.directory, ignore_errors=True)
    args.directory.mkdir(parents=True)
    spark = session(args.cores)
    spark.dataSource.register(Nothing)
    ways = batch_ways(rows(spark, args.rows), args.directory, args.buckets)
    for work in batch_ways(rows(spark, 10_000), args.directory, args.buckets).values():
        work()
    taken = {name: [] for name in ways}
    for _ in range(args.runs):
        for name, work in ways.items():
            taken[name].append(measured(work))
    best = {name: [min(times) for times in zip(*runs, strict=True)] for name, runs in taken.items()}
    ceiling, least = best["a source that does nothing"]
    for name, (clock, used) in best.items():
        speed = args.rows / clock / 1e6
        print(
            f"{name:28} {speed:6.2f} M rows/s {ceiling / clock:5.0%}, by processor {least / used:5.0%}"
        )
    for form in ("nothing", "lsmerge"):
        times = sorted(micro_batches(spark, args.directory, args.batches, form))
        print(f"micro-batch, {form:15} {times[len(times) // 2] * 1000:6.0f} ms")
    spark.stop()
    shutil.rmtree(args.directory)


if __name__ == "__main__":
    main()
