"""What partitions a snapshot has: values and sizes, told by manifests alone."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lsmerge.engine.bucket_counts import BucketCounts
from lsmerge.engine.buckets import partition_array
from lsmerge.engine.context import TableContext
from lsmerge.meta import manifest
from lsmerge.meta.data_file import Partition
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import partition_order


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: its values by column, and the live files it consists of.

    `rows` counts rows in files: older rows of a key and deletes are among them until a compaction. `buckets` is the
    number that rows are split into, or where buckets are dynamic of those that hold files.
    """

    values: dict[str, Any]
    rows: int
    files: int
    size_bytes: int
    buckets: int


def partitions(context: TableContext, snapshot: Snapshot | None) -> list[PartitionInfo]:
    """All partitions that hold files, in the order of their values' text, nulls first."""
    if snapshot is None:
        return []
    sizes = _sizes(context.versions.load(snapshot).entries)
    counts = None if context.options.has_dynamic_buckets else BucketCounts(context, snapshot)
    found = []
    for partition in sorted(sizes, key=partition_order):
        rows, files, size_bytes, with_files = sizes[partition]
        buckets = with_files if counts is None else counts.of(partition)
        values = partition_values(context, partition)
        found.append(PartitionInfo(values, rows, files, size_bytes, buckets))
    return found


def partition_values(context: TableContext, partition: Partition) -> dict[str, Any]:
    """The values of one partition, as Python has them."""
    fields = [context.schema.row_schema.field(name) for name in context.schema.partition_by]
    return {
        field.name: partition_array([text], field.type)[0].as_py()
        for field, text in zip(fields, partition, strict=True)
    }


def _sizes(entries: pa.Table) -> dict[Partition, tuple[int, int, int, int]]:
    """Rows, files, bytes and buckets with files of each partition."""
    measures = [
        ("num_rows", "sum"),
        ("name", "count"),
        ("size_bytes", "sum"),
        ("bucket", "count_distinct"),
    ]
    table = entries.group_by("partition", use_threads=False).aggregate(measures)
    return {
        manifest.partition_values(row["partition"]): (
            row["num_rows_sum"],
            row["name_count"],
            row["size_bytes_sum"],
            row["bucket_count_distinct"],
        )
        for row in table.to_pylist()
    }
