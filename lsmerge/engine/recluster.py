"""Clustering: rows of a partition into buckets by ranges of other columns than the key.

    composed rows -> ranges of the clustered order, by a sample -> the rows again, each to the bucket of its range

Inside a bucket rows stay sorted by key, so that reading, merging and looking up are as ever; what is clustered is
which bucket a row lies in, and with it what the statistics of the bucket's files exclude. So a table must be free to
choose buckets. Fixed or dynamic, the hash of the key has chosen already, and `sort_compact` is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from lsmerge.engine.buckets import scatter
from lsmerge.engine.clustering import LINEAR, Clustering, plan_ranges
from lsmerge.engine.context import TableContext
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.partition_spec import PartitionSpec
from lsmerge.engine.redistribute import Target, redistribute
from lsmerge.engine.sections import Section, split_into_sections
from lsmerge.errors import InvalidOptionError
from lsmerge.merge.groups import sort_groups
from lsmerge.meta.data_file import DataFile, Partition
from lsmerge.meta.version import SortedRun


def sort_compact(
    context: TableContext, by: Any, order: str = LINEAR, partition: Any = None
) -> NoReturn:
    """Refused by name: a bucket must be free to be chosen."""
    clustering = Clustering.of(context.schema, by, order)
    if partition is not None:
        PartitionSpec.parse(context.schema, partition)
    raise InvalidOptionError(
        f"sort_compact by {', '.join(clustering.by)}: with 'bucket' = {context.options.bucket} the hash of its key "
        "says which bucket a row is in, so rows cannot be clustered by other columns; it takes a table whose "
        "rows may lie in any bucket, which is not available in this version of lsmerge"
    )


def recluster(
    context: TableContext,
    partition: Partition,
    runs: Sequence[SortedRun],
    clustering: Clustering,
    num_ranges: int,
    *,
    num_buckets: int,
) -> tuple[DataFile, ...]:
    """The rows of all runs of a partition as files of the last level, range n in bucket n; operands stay operands.

    `num_buckets` is what the files say of their partition. Publishing them in place of the runs is the caller's.
    """
    sections = split_into_sections(runs)
    if not sections:
        return ()
    newest = (_last_of_each_key(context, rows)[0] for rows in _operands(context, sections))
    ranges = plan_ranges(clustering, newest, max_ranges=num_ranges)

    def split(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        last_rows, run_ends = _last_of_each_key(context, batch)
        numbers = _spread(ranges.numbers(last_rows), run_ends)
        return scatter(batch, numbers.buffers()[1], ranges.count)

    target = Target(partition, range(ranges.count), context.options.num_levels - 1, num_buckets)
    return redistribute(context, target, lambda: _operands(context, sections), split)


def _operands(context: TableContext, sections: Sequence[Section]) -> Iterator[pa.RecordBatch]:
    return composed_batches(context, sections, forget_before=0)


def _last_of_each_key(
    context: TableContext, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.Array]:
    """The newest row of each key, which places all rows of the key, and where the rows of each key end."""
    import pyarrow.compute as pc

    plan = sort_groups([batch], context.keys(batch)).plan
    starts = pa.Array.from_buffers(
        pa.uint32(), plan.num_groups + 1, [None, pa.py_buffer(plan.starts)]
    )
    ends = starts.slice(1).cast(pa.int32())
    return batch.take(pc.subtract(ends, pa.scalar(1, pa.int32()))), ends


def _spread(numbers: pa.Array, run_ends: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(run_ends, numbers))
