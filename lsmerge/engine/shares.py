"""Which of several tasks gets a row, where each is to get all rows of its keys: a function of the row's key.

    dynamic buckets             abs(hash(key) % tasks)
    fixed buckets               abs(hash(key) % buckets) % tasks, so that a bucket has one task;
                                abs(hash(key) % tasks) where there are more tasks than buckets
    fixed buckets, partitioned  abs(hash(partition columns, abs(hash(key) % buckets)) % tasks)

`hash` is Spark's Murmur3 (seed 42), `key` is what buckets are chosen by, `buckets` is the option `bucket`. Spark
computes the same with its own functions, so that rows can be sent to their tasks before they meet lsmerge.
"""

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.errors import SchemaMismatchError
from lsmerge_native.hashing import bucket_ids


def share_numbers(context: TableContext, batch: pa.RecordBatch, total: int) -> pa.Array:
    """The number of each row's task, of so many (int32)."""
    import pyarrow.compute as pc

    options = context.options
    key = [batch.column(name) for name in options.bucket_key or context.schema.trimmed_key]
    partitions = [batch.column(name) for name in context.schema.partition_by]
    if options.has_dynamic_buckets:
        return _modulo(key, total)
    if partitions:
        return _modulo([*partitions, _modulo(key, options.bucket)], total)
    if total > options.bucket:
        return _modulo(key, total)
    buckets = _modulo(key, options.bucket)
    count = pa.scalar(total, pa.int32())
    return pc.subtract(buckets, pc.multiply(pc.divide(buckets, count), count))


def check_share(context: TableContext, number: int, total: int, batch: pa.RecordBatch) -> None:
    """Refuse rows of keys that belong to another task."""
    if batch.num_rows == 0:
        return
    others = set(share_numbers(context, batch, total).unique().to_pylist()) - {number}
    if others:
        raise SchemaMismatchError(
            f"rows of share {min(others)} of {total} came to the task with share {number}: a share is all rows of "
            "some keys, chosen by their hash as the documentation of task_writer says; or leave the share out"
        )


def _modulo(arrays: list[pa.Array], count: int) -> pa.Array:
    ids = bucket_ids(arrays, count)
    return pa.Array.from_buffers(pa.int32(), len(arrays[0]), [None, pa.py_buffer(ids)])
