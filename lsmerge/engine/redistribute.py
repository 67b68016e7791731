"""Sorted rows of one partition into new buckets: one pass, one open file a bucket.

Requires: batches in key order, all rows of a key in one batch unless they follow each other. Ensures: the rows of
each bucket keep that order, so that they make sorted files.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from lsmerge.engine.compact import RunOutput, discard
from lsmerge.engine.context import TableContext
from lsmerge.meta.data_file import BucketId, DataFile, Partition

# The rows of each bucket, by its number, in the order they came.
Split: TypeAlias = Callable[[pa.RecordBatch], Iterable[tuple[int, pa.RecordBatch]]]


def redistribute(
    context: TableContext,
    partition: Partition,
    batches: Iterator[pa.RecordBatch],
    split: Split,
    *,
    level: int,
    num_buckets: int,
) -> tuple[DataFile, ...]:
    """Files of `level` that hold the rows of `batches` where `split` puts them; nothing if anything fails."""
    outputs: dict[int, RunOutput] = {}
    files: list[DataFile] = []
    try:
        for batch in batches:
            for bucket, rows in split(batch):
                if bucket not in outputs:
                    place = BucketId(partition, bucket)
                    outputs[bucket] = RunOutput(context, place, level, num_buckets)
                outputs[bucket].append(rows)
        for bucket in sorted(outputs):
            files += outputs.pop(bucket).finish()
    except BaseException:
        for output in outputs.values():
            output.abort()
        discard(context, files)
        raise
    return tuple(files)
