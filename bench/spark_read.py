"""Reading through Spark beside the ceiling: a Python source that hands over Arrow batches it has in memory.

    python -m bench.spark_read [--rows 5000000] [--rounds 3]

Needs Java and the extra `spark`. All variants run in turn in one session, each round anew, to a sink that does nothing;
the best round of each counts, by the clock and by the time of all processors, Spark's included. The changelog
part streams snapshots to the same sink.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from bench.measuring import best, spent_below

ROOT = Path(__file__).parent.parent
SCHEMA = pa.schema({"k": pa.int64(), "n": pa.int64(), "d": pa.float64(), "s": pa.string()})
DECLARED = "k bigint, n bigint, d double, s string"
TASKS = 4
BATCH = 100_000


def main() -> None:
    arguments = parsed()
    directory = tempfile.mkdtemp(prefix="lsmerge-bench-")
    try:
        spark = session(directory)
        bench_reads(spark, directory, arguments.rows, arguments.rounds)
        bench_stream(spark, directory, arguments.rows // 10, arguments.snapshots)
        spark.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--snapshots", type=int, default=20)
    return parser.parse_args()


def session(directory: str):
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.warehouse.dir": directory,
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def batch(first: int, count: int) -> pa.RecordBatch:
    import numpy as np

    k = np.arange(first, first + count)
    text = [f"{(v * 2654435761) % 10**12:020}" for v in k.tolist()]
    arrays = [pa.array(k), pa.array(k * 7 % 1000), pa.array(k * 0.5), pa.array(text, pa.string())]
    return pa.record_batch(arrays, schema=SCHEMA)


def noop_source():
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class InMemoryReader(DataSourceReader):
        def __init__(self, rows):
            self.rows = rows

        def partitions(self):
            return [InputPartition(number) for number in range(TASKS)]

        def read(self, _partition):
            import numpy as np
            import pyarrow as pa
            import pyarrow.compute as pc

            k = np.arange(BATCH)
            text = pc.utf8_lpad(pa.array(k * 7919).cast(pa.string()), width=20, padding="0")
            names = ["k", "n", "d", "s"]
            one = pa.record_batch([pa.array(k), pa.array(k), pa.array(k * 0.5), text], names)
            for _ in range(self.rows // TASKS // BATCH):
                yield one

    class InMemory(DataSource):
        @classmethod
        def name(cls):
            return "in-memory"

        def schema(self):
            return "k bigint, n bigint, d double, s string"

        def reader(self, schema):  # noqa: ARG002 - Spark's signature
            return InMemoryReader(int(self.options["rows"]))

    return InMemory


def bench_reads(spark, directory: str, rows: int, rounds: int) -> None:
    import lsmerge.spark

    spark.dataSource.register(noop_source())
    merged, compacted = f"{directory}/merged", f"{directory}/compacted"
    for path in (merged, compacted):
        table = lsmerge.create_table(path, SCHEMA, "k", options={"bucket": 4, "write-only": True})
        with table.writer() as writer:
            for first in range(0, rows, 500_000):
                writer.write(batch(first, min(500_000, rows - first)))
        table.compact(full=True)
    table = lsmerge.open_table(merged)
    for share in (10, 20):
        table.upsert(batch(rows // share, rows // share))  # runs that overlap the compacted one
    reads = {
        "in memory, no source at all": lambda: (
            spark.read.format("in-memory").option("rows", rows).load()
        ),
        "lsmerge, compacted": lambda: lsmerge.spark.read(spark, compacted),
        "lsmerge, three runs": lambda: lsmerge.spark.read(spark, merged),
        "lsmerge, compacted, one column": lambda: lsmerge.spark.read(
            spark, compacted, columns=["n"]
        ),
        "lsmerge, compacted, by Spark": lambda: lsmerge.spark.read(
            spark, compacted, mode="compacted"
        ),
    }
    samples = {name: [] for name in reads}
    for number in range(rounds + 1):
        for name, read in reads.items():
            taken = spent_below(
                lambda read=read: read().write.format("noop").mode("overwrite").save()
            )
            if number:  # the first round warms the workers up
                samples[name].append(taken)
    found = {name: best(taken) for name, taken in samples.items()}
    ceiling = found["in memory, no source at all"]
    print(" " * 32 + "million rows/s   of the ceiling: clock  processors")
    for name, one in found.items():
        print(
            f"{name:32} {rows / one.clock / 1e6:14.2f} {100 * ceiling.clock / one.clock:21.0f} %"
            f"{100 * ceiling.processor / one.processor:10.0f} %"
        )


def bench_stream(spark, directory: str, rows: int, snapshots: int) -> None:
    import lsmerge.spark

    path = f"{directory}/stream"
    options = {"bucket": 4, "write-only": True, "changelog-producer": "lookup"}
    table = lsmerge.create_table(path, SCHEMA, "k", options=options)
    for number in range(snapshots):
        table.upsert(batch(number * rows // 2, rows))
    lsmerge.spark.changelog(spark, path).count()  # warms the workers up
    for limit in (None, 1):
        stream = lsmerge.spark.read_stream(spark, path, "earliest", max_snapshots=limit)
        writer = stream.writeStream.format("noop")
        writer = writer.option("checkpointLocation", f"{directory}/{limit}")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        # Without what it takes to start and stop a query, which is seconds.
        batches = [p for p in query.recentProgress if p["numInputRows"]]
        told = sum(progress["numInputRows"] for progress in batches)
        seconds = sum(progress["durationMs"]["triggerExecution"] for progress in batches) / 1000
        print(
            f"changelog, {len(batches)} batch(es) of {told // len(batches)} changes: "
            f"{told / seconds / 1e6:.2f} M changes/s, {1000 * seconds / len(batches):.0f} ms a batch"
        )


if __name__ == "__main__":
    main()
