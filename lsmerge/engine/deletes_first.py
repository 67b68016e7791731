"""The changes of tables whose keys move between partitions: a key leaves one before it comes to the other.

Rows are told bucket by bucket. Of a key that moved, the new row could so come before the delete of the old one, and a
copy that is kept by primary key would lose the row. So the keys that a bucket has no more are told first, in a pass of
their own: memory does not grow with the number of changes.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.merge.groups import sort_groups
from lsmerge.rowkind import KIND_COLUMN, RowKind
from lsmerge_native.reduce import pick_last


def deletes_first(
    context: TableContext, leaving: Iterable[pa.RecordBatch], everything: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of `everything`, those of keys that end with a delete first.

    Requires: `leaving` has these too, whatever else it has. Batches are in key order; the rows of a key in a bucket are
    in one batch, or none of several is a delete.
    """
    yield from _chosen(context, leaving, are_gone=True)
    yield from _chosen(context, everything, are_gone=False)


def _chosen(
    context: TableContext, batches: Iterable[pa.RecordBatch], *, are_gone: bool
) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    for batch in batches:
        gone = _are_gone(context, batch)
        chosen = batch.filter(gone if are_gone else pc.invert(gone))
        if chosen.num_rows:
            yield chosen


def _are_gone(context: TableContext, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Of each row, whether the last one of its key is a delete."""
    import numpy as np

    kinds = batch.column(KIND_COLUMN).to_numpy(zero_copy_only=False)
    groups = sort_groups([batch], context.keys(batch))
    last = np.frombuffer(memoryview(pick_last(groups.plan).rows), np.uint32).astype(np.int64)
    return pa.array(np.repeat(kinds[last] == RowKind.DELETE, np.diff(last, prepend=-1)))
