"""The changes of tables whose keys move between partitions: a key leaves one before it comes to the other.

Rows are told bucket by bucket. Of a key that moved, the new row could so come before the delete of the old one, and a
copy that is kept by primary key would lose the row. So the keys that a bucket has no more are told first, in a pass of
their own: memory does not grow with the number of changes.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.merge.flags import as_flags
from lsmerge.merge.groups import sort_groups, take_viewed
from lsmerge.rowkind import RowKind
from lsmerge_native.reduce import all_rows, pick_last
from lsmerge_native.regroup import filter_groups


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
    """The rows of the keys whose last row is a delete, or of all others."""
    import pyarrow.compute as pc

    compare = pc.equal if are_gone else pc.not_equal
    for batch in batches:
        groups = sort_groups([batch], context.keys(batch))
        last = take_viewed(groups.kinds, pa.int8(), pick_last(groups.plan))
        is_chosen = compare(last, pa.scalar(RowKind.DELETE, pa.int8()))
        chosen = all_rows(filter_groups(groups.plan, as_flags(is_chosen)))
        if len(chosen):
            yield groups.take(chosen, batch.schema.names)
