"""What a commit of target columns changed, as whole rows.

A row of some columns says nothing of the others, and a retract of some columns may leave its row: neither could be
applied by a reader who sees columns alone. So the keys of such a commit are looked up in its snapshot: `+U` with the
whole row, or `-D` with the key where there is none.
"""

import pyarrow as pa

from lsmerge.engine.context import TableContext
from lsmerge.engine.lookup import get_many
from lsmerge.merge.groups import sort_groups
from lsmerge.meta.snapshot import Snapshot
from lsmerge.rowkind import KIND_COLUMN, RowKind
from lsmerge_native.reduce import pick_last


def current_rows(
    context: TableContext, snapshot: Snapshot, operands: pa.RecordBatch
) -> pa.RecordBatch:
    """The rows of the operands' keys, with their kinds. Requires: operands in key order, of one bucket."""
    wanted = _distinct_keys(context, operands)
    found = get_many(context, snapshot, wanted).combine_chunks().to_batches()
    rows = [_with_kind(context, batch, RowKind.UPDATE_AFTER) for batch in found]
    gone = wanted.filter(_missing(context, wanted, found))
    return pa.concat_batches([*rows, _with_kind(context, gone, RowKind.DELETE)])


def _distinct_keys(context: TableContext, operands: pa.RecordBatch) -> pa.RecordBatch:
    groups = sort_groups([operands], context.keys(operands))
    return groups.take(pick_last(groups.plan), context.schema.primary_key)


def _missing(
    context: TableContext, wanted: pa.RecordBatch, found: list[pa.RecordBatch]
) -> pa.Array:
    import pyarrow.compute as pc

    if not found:
        return pa.repeat(pa.scalar(True), wanted.num_rows)
    ends = [
        pa.Array.from_buffers(pa.uint32(), wanted.num_rows, [None, pa.py_buffer(buffer)])
        for buffer in context.keys(*found).match(context.keys(wanted))
    ]
    return pc.equal(*ends)


def _with_kind(context: TableContext, batch: pa.RecordBatch, kind: RowKind) -> pa.RecordBatch:
    """The kind and the table's columns, null where the batch has none."""
    schema = context.fields([KIND_COLUMN, *context.schema.column_names])
    kinds = pa.repeat(pa.scalar(int(kind), pa.int8()), batch.num_rows)
    columns = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in list(schema)[1:]
    ]
    return pa.RecordBatch.from_arrays([kinds, *columns], schema=schema)
