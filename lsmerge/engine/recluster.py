"""Clustering: rows of a partition into dynamic buckets by ranges of other columns than the key.

    composed rows -> ranges of the clustered order, by a sample -> the rows again, each to the bucket of its range

Inside a bucket rows stay sorted by key, so that reading, merging and looking up are as ever; what is clustered is
which bucket a row lies in, and with it what the statistics of the bucket's files exclude.

The index places hashes, so keys that share a hash must share a bucket, though their ranges may differ. A few such rows
in every bucket would make the statistics of its files say nothing; so all of them go to one bucket of their own, after
the last range. Of a million keys about 230 share their hash with another, of twenty million one in two hundred.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.engine.buckets import scatter
from lsmerge.engine.clustering import Clustering, Ranges, plan_ranges
from lsmerge.engine.context import TableContext
from lsmerge.engine.hash_index import BucketSet, HashIndex, ascending, buffer_of, key_hashes
from lsmerge.engine.merging import composed_batches
from lsmerge.engine.places import by_bucket
from lsmerge.engine.progress import Tally
from lsmerge.engine.redistribute import Target, redistribute
from lsmerge.engine.sections import split_into_sections
from lsmerge.merge.groups import sort_groups
from lsmerge.meta.data_file import DataFile, Partition
from lsmerge.meta.version import SortedRun

# Rows are read once to be sampled and once to be written.
PASSES = 2
# Of the budget: a sample is there as it came, encoded and sorted.
SHARE_FOR_SAMPLE = 32


@dataclass(frozen=True, slots=True)
class Request:
    """How a partition is to be clustered; retracts below `forget_before` may go."""

    clustering: Clustering
    max_ranges: int
    forget_before: int


def recluster(
    context: TableContext,
    partition: Partition,
    runs: Sequence[SortedRun],
    request: Request,
    tally: Tally,
) -> tuple[tuple[DataFile, ...], HashIndex]:
    """The rows of all runs of a partition as files of the top level, and the buckets of their hashes.

    Range n is bucket n; operands stay operands. Publishing them in place of the runs is the caller's.
    """
    sections = split_into_sections(runs)

    def read() -> Iterator[pa.RecordBatch]:
        return tally.counted(composed_batches(context, sections, request.forget_before))

    seen, names = _SeenHashes(context), _read_columns(context, request.clustering)
    newest = (_last_of_each_key(context, rows, names)[0] for rows in read())
    ranges = plan_ranges(
        request.clustering,
        map(seen.noted, newest),
        max_ranges=request.max_ranges,
        max_bytes=context.options.scan_memory_budget // SHARE_FOR_SAMPLE,
    )
    if ranges is None:
        return (), HashIndex()
    buckets = _ClusteredBuckets(context, ranges, seen, names)
    target = Target(partition, range(buckets.count), context.options.num_levels - 1, 0)
    files = redistribute(context, target, read, buckets.split)
    return files, buckets.index.merged()


class _SeenHashes:
    """All hashes, and which of them more than one key has; takes about 2.4 bytes a key."""

    def __init__(self, context: TableContext) -> None:
        self._context = context
        self.all = HashIndex()
        self.shared = HashIndex()

    def noted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, one for each key."""
        import pyarrow.compute as pc

        hashes = _in_order(key_hashes(self._context.schema, rows))
        is_again = pc.equal(hashes.slice(1), hashes.slice(0, len(hashes) - 1))
        twice = hashes.slice(1).filter(is_again)
        distinct = hashes if len(twice) == 0 else ascending(hashes)
        new = self.all.missing(distinct)
        if len(new) < len(distinct):
            again = distinct.filter(pc.invert(pc.is_in(distinct, value_set=new)))
            twice = pa.concat_arrays([twice, again])
        self.all = self.all.with_hashes(0, new)
        self.shared = self.shared.with_hashes(0, self.shared.missing(ascending(twice)))
        return rows


class _ClusteredBuckets:
    """The bucket of each key; its index is learnt as the rows pass by for the first time."""

    def __init__(
        self, context: TableContext, ranges: Ranges, seen: _SeenHashes, names: Sequence[str]
    ) -> None:
        self._context = context
        self._ranges = ranges
        self._names = names
        self._shared = seen.shared
        self._num_hashes = len(seen.all)
        self.count = ranges.count + bool(len(seen.shared))
        self.index = HashIndex(BucketSet(ranges.count, item.hashes) for item in seen.shared.sets)

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        newest, run_ends = _last_of_each_key(self._context, batch, self._names)
        buckets = _spread(self._buckets(newest), run_ends)
        return scatter(batch, buffer_of(buckets), self.count)

    def _buckets(self, newest: pa.RecordBatch) -> pa.Array:
        import pyarrow.compute as pc

        hashes = key_hashes(self._context.schema, newest)
        is_shared = pc.greater_equal(self._shared.buckets_of(hashes), pa.scalar(0, pa.int32()))
        ranges = self._ranges.numbers(newest).cast(pa.int32())
        buckets = pc.if_else(is_shared, pa.scalar(self._ranges.count, pa.int32()), ranges)
        self._note(hashes, buckets)
        return buckets

    def _note(self, hashes: pa.Array, buckets: pa.Array) -> None:
        if len(self.index) == self._num_hashes:
            return
        rows = pa.RecordBatch.from_arrays([hashes], ["hash"])
        for bucket, some in by_bucket(rows, buckets):
            if bucket < self._ranges.count:  # those that are shared are known, all others met once
                self.index = self.index.with_hashes(bucket, _in_order(some.column(0)))


def _read_columns(context: TableContext, clustering: Clustering) -> list[str]:
    """What says where a row belongs: its key and the columns to cluster by."""
    wanted = {*context.schema.trimmed_key, *clustering.by}
    return [name for name in context.schema.column_names if name in wanted]


def _last_of_each_key(
    context: TableContext, batch: pa.RecordBatch, names: Sequence[str]
) -> tuple[pa.RecordBatch, pa.Array]:
    """The newest row of each key, which places all rows of the key, and where the rows of each key end."""
    import pyarrow.compute as pc

    plan = sort_groups([batch], context.keys(batch)).plan
    starts = pa.Array.from_buffers(
        pa.uint32(), plan.num_groups + 1, [None, pa.py_buffer(plan.starts)]
    )
    ends = starts.slice(1).cast(pa.int32())
    return batch.select(list(names)).take(pc.subtract(ends, pa.scalar(1, pa.int32()))), ends


def _in_order(hashes: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return hashes.take(pc.array_sort_indices(hashes))


def _spread(numbers: pa.Array, run_ends: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(run_ends, numbers))
