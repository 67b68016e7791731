"""Deduplicate where some rows wrote some columns only: every column is the last value written to it.

    a.+I.1 (b=1, c=1)  a.+I.2 (b=2)        ->  a (b=2, c=1)
    a.-D.3 (b)                             ->  a (b=null, c=1)

A whole row, added or removed, makes all older rows of its key forgotten. What remains of a key is often one row, which
is kept as it is.
"""

import pyarrow as pa

from lsmerge.field_options import FieldOptions
from lsmerge.merge.columnar import ColumnarEngine, ColumnRules
from lsmerge.merge.flags import as_flags
from lsmerge.merge.functions import LAST_VALUE
from lsmerge.merge.group_fold import group_sizes
from lsmerge.merge.grouped_column import RETRACTS
from lsmerge.merge.groups import Groups, in_key_order
from lsmerge.merge.order import FORGET_ALL, RowOrder
from lsmerge.merge.target_columns import from_last_whole
from lsmerge.merge.written import with_written, without_written
from lsmerge.rowkind import WRITTEN_COLUMN
from lsmerge.schema import TableSchema
from lsmerge_native.reduce import keep_newer, pick_last
from lsmerge_native.regroup import filter_groups


class ReplacingColumns(ColumnarEngine):
    """Combines rows column by column, where a retract removes and every column replaces."""

    def __init__(self, schema: TableSchema, order: RowOrder) -> None:
        functions = dict.fromkeys(schema.column_names, LAST_VALUE)
        options = dict.fromkeys(schema.column_names, FieldOptions())
        rules = ColumnRules(functions, options, removing_kinds=RETRACTS)
        super().__init__(schema, order, rules)

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        plan = from_last_whole(groups, groups.plan)
        if forget_before >= FORGET_ALL:
            # Nothing is older, and what comes is newer: a column that was not written is null.
            whole = super().compose(groups.planned(plan), forget_before=forget_before)
            return with_written(whole).drop_columns([WRITTEN_COLUMN])
        is_alone, is_not = _alone(groups.planned(plan))
        alone = pick_last(filter_groups(plan, is_alone))
        if forget_before > 0:
            alone = keep_newer(alone, groups.kinds, groups.sequences, forget_before)
        several = groups.planned(filter_groups(plan, is_not))
        parts = [
            groups.take_operands(alone, self._columns),
            with_written(super().compose(several, forget_before=forget_before)),
        ]
        return without_written(in_key_order(parts, self._schema.trimmed_key))


def _alone(groups: Groups) -> tuple[pa.Buffer, pa.Buffer]:
    """Flags of the groups that have one row, and of those that have several."""
    import pyarrow.compute as pc

    is_alone = pc.equal(group_sizes(groups.plan), pa.scalar(1, pa.uint32()))
    return as_flags(is_alone), as_flags(pc.invert(is_alone))
