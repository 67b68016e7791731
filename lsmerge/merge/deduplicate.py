"""Deduplicate: the newest row of a key is the row; a retract that is newest hides the key.

    a.+I.1  a.+U.5  a.-D.3     in merge order 1, 3, 5  ->  a.+U.5 is visible
    b.+I.2  b.-D.4             ->  b is not

Composing keeps the newest row only, since whatever is older or newer elsewhere is compared with it by the same
order. A kept retract is a tombstone: it hides older rows in other runs. Where rows wrote some columns only,
`ReplacingColumns` gives them their meaning.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.merge.door import Retracts, admit, retracts_of
from lsmerge.merge.groups import Groups
from lsmerge.merge.order import RowOrder, sequence_order
from lsmerge.merge.replacing_columns import ReplacingColumns
from lsmerge.merge.written import TargetColumns
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.reduce import keep_adds, keep_newer, pick_last


class Deduplicate:
    """The engine of a table without `merge-engine`."""

    one_row_per_key = True
    one_add_per_key = True
    keeps_not_null = True
    target_columns = TargetColumns.KEPT

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self._columns = schema.file_schema.names
        self._order = sequence_order(options)
        self._retracts = retracts_of(options, Retracts.TAKE)
        self._by_column = ReplacingColumns(schema, self._order)

    @property
    def newest_row_wins(self) -> bool:
        return not self._order.columns

    @property
    def order(self) -> RowOrder:
        return self._order

    @property
    def delete_columns(self) -> Sequence[str]:
        return self.order.columns

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return admit(batch, self._retracts, "deduplicate")

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        if groups.has_written:
            return self._by_column.compose(groups, forget_before=forget_before)
        newest = pick_last(groups.plan)
        if forget_before > 0:
            newest = keep_newer(newest, groups.kinds, groups.sequences, forget_before)
        return groups.take(newest, self._columns)

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        if groups.has_written:
            return self._by_column.resolve(groups, names)
        newest = pick_last(groups.plan)
        visible = keep_adds(newest, groups.kinds) if groups.has_kinds else newest
        return groups.take(visible, names)

    def reads(self, names: Sequence[str]) -> Sequence[str]:
        return names

    def shows_stored(self, name: str) -> bool:
        return name in self._columns
