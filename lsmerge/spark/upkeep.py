"""Compaction, rescaling, expiry and verification as Spark jobs over the buckets of a table.

The driver plans, tasks work, each on a few buckets, and the driver finishes: what is published when is said in
`lsmerge.engine.work`. Works in classic Spark and through Spark Connect; the calling process must see the table too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lsmerge import open_table
from lsmerge.spark.arrow_memory import choose_allocator
from lsmerge.spark.options import location

Partitions = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def compact(
    spark: SparkSession,
    path: str,
    full: bool = False,
    partition: Partitions = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """`Table.compact` by the executors. Buckets that somebody else compacted meanwhile are `buckets_lost`."""
    with open_table(location(path), storage_options=storage_options) as table:
        job = table.compaction_job(full, partition)
        return job.finish(_done(spark, path, storage_options, job.units))


def rescale(
    spark: SparkSession,
    path: str,
    num_buckets: int,
    partition: Partitions = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> Any:
    """`Table.rescale` by the executors, published at once when all of them are done."""
    with open_table(location(path), storage_options=storage_options) as table:
        job = table.rescale_job(num_buckets, partition)
        return job.finish(_done(spark, path, storage_options, job.units))


def verify(
    spark: SparkSession, path: str, *, storage_options: Mapping[str, str] | None = None
) -> Any:
    """`Table.verify` by the executors: every byte is read, and all damage reported."""
    with open_table(location(path), storage_options=storage_options) as table:
        job = table.verify_job()
        return job.finish(_done(spark, path, storage_options, job.units))


def expire(
    spark: SparkSession,  # noqa: ARG001 - as its siblings
    path: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    **retention: Any,
) -> Any:
    """`Table.expire_snapshots`, with its arguments: little to read and files to delete, which the driver does."""
    with open_table(location(path), storage_options=storage_options) as table:
        return table.expire_snapshots(**retention)


def _done(
    spark: SparkSession,
    path: str,
    storage_options: Mapping[str, str] | None,
    units: Sequence[Any],
) -> list[bytes]:
    """What the units report, each from a task of its own."""
    if not units:
        return []
    numbers = spark.range(0, len(units), 1, len(units))
    work = partial(_work, location(path), storage_options, units)
    return [bytes(row.report) for row in numbers.mapInArrow(work, "report binary").collect()]


def _work(
    uri: str,
    storage_options: Mapping[str, str] | None,
    units: Sequence[Any],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Runs in a task: the units of the numbers that it gets."""
    choose_allocator()
    with open_table(uri, storage_options=storage_options) as table:
        for batch in numbers:
            reports = [table.run_unit(units[number]) for number in batch.column(0).to_pylist()]
            yield pa.record_batch([pa.array(reports, pa.binary())], ["report"])
