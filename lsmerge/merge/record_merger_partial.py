"""The record merger's partial updates: a newer row fills in from older ones where it says nothing.

Of the rows of a key that no delete hides, in merge order, every column takes its last value that says something: the
last that is not null (`ignore-defaults`), or that is not the marker of a value which was not sent (`fill-unavailable`;
null is a value there, and a marker with nothing before it stays).

    k.t5 (n, null)  k.t3 (old, q)   ->   k.t5 (n, q)

Composing keys with deletes keeps the last untimed delete, the last timed one among the rows that arrived after it, and
of the rows that count those which some column picks. Any other row is hidden by one of these deletes, or by a picked
row in every column, whatever else arrives.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.field_options import FieldOptions
from lsmerge.merge.columnar import ColumnarEngine, ColumnRules
from lsmerge.merge.delete_marks import DeleteMarks
from lsmerge.merge.door import Retracts, admit, retracts_of
from lsmerge.merge.event_time import EventOrder
from lsmerge.merge.functions import LAST_NON_NULL_VALUE, LAST_VALUE, ColumnFunction
from lsmerge.merge.grouped_column import RETRACTS, GroupedColumn, with_adds
from lsmerge.merge.groups import Groups, in_key_order, take_rows
from lsmerge.merge.order import FORGET_ALL, RowOrder
from lsmerge.merge.written import TargetColumns
from lsmerge.merge_mode import FILL_UNAVAILABLE
from lsmerge.options import TableOptions
from lsmerge.schema import Column, TableSchema
from lsmerge.types import BYTES_KINDS, TEXT_KINDS
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection, all_rows, keep_newer, pick_last, pick_last_valid
from lsmerge_native.regroup import (
    filter_rows,
    flagged_kinds,
    picked_rows,
)


class RecordPartialUpdate(ColumnarEngine):
    """The engine of `record.merge.partial-mode`."""

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self._marks = DeleteMarks.of(schema, options)
        self._retracts = retracts_of(options, Retracts.TAKE)
        self._event = EventOrder.of(schema, options)
        self._marker = options.record_merge_unavailable_value or ""
        # Where null says nothing, a column that was not written says as much; else the marker is the way to say so.
        fills = options.record_merge_partial_mode == FILL_UNAVAILABLE
        self.target_columns = TargetColumns.REFUSED if fills else TargetColumns.AS_NULLS
        functions = {c.name: _function(c, options) for c in schema.columns}
        self._marked = [name for name, f in functions.items() if f.name == LAST_AVAILABLE]
        rules = ColumnRules(
            functions, dict.fromkeys(schema.column_names, FieldOptions()), removing_kinds=RETRACTS
        )
        super().__init__(schema, RowOrder(self._event.columns), rules)

    @property
    def delete_columns(self) -> Sequence[str]:
        """None: a delete without ordering values is an untimed one."""
        return ()

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        admitted = admit(self._marks.applied(batch), self._retracts, "record merger")
        return self._event.lifted(admitted)

    def combine(self, groups: Groups) -> pa.RecordBatch:
        """The rows of one commit as one row per key, behind the deletes that came with it.

        This is no composing: what the rows of a commit say together, they say as of the newest of them.
        """
        live = self._after_removal(groups, groups.plan)
        combined = self._folded(groups, with_adds(live, groups.kinds))
        deletes = picked_rows(groups.plan, self._deletes(groups, groups.plan))
        kept = groups.take(all_rows(filter_rows(groups.plan, deletes)), self._columns)
        return in_key_order([kept, combined], self._schema.trimmed_key)

    def _composed_rest(
        self, groups: Groups, plan: MergePlan, forget_before: int
    ) -> list[pa.RecordBatch]:
        if forget_before >= FORGET_ALL:
            return super()._composed_rest(groups, plan, forget_before)
        picked = self._selections(groups, self._after_removal(groups, plan))
        flags = picked_rows(plan, [*self._deletes(groups, plan), *picked])
        kept = all_rows(filter_rows(plan, flags))
        if forget_before > 0:
            kept = keep_newer(kept, groups.kinds, groups.sequences, forget_before)
        return [groups.take(kept, self._columns)]

    def _deletes(self, groups: Groups, plan: MergePlan) -> list[Selection]:
        """The deletes of each key that hide all that any of its deletes hides."""
        found = [self._event.last_untimed(groups, plan)] if self._event.has_untimed(groups) else []
        timed = self._after_untimed(groups, plan)
        flags = flagged_kinds(timed, groups.kinds, RETRACTS)
        return [*found, pick_last(filter_rows(timed, flags))]

    def _after_removal(self, groups: Groups, plan: MergePlan) -> MergePlan:
        return super()._after_removal(groups, self._after_untimed(groups, plan))

    def _after_untimed(self, groups: Groups, plan: MergePlan) -> MergePlan:
        if not self._event.has_untimed(groups):
            return plan
        return self._event.after_untimed(groups, plan)

    def _selections(self, groups: Groups, plan: MergePlan) -> list[Selection]:
        found = super()._selections(groups, plan)
        return found + [
            _pick_available(plan, groups.column(name), self._marker) for name in self._marked
        ]


LAST_AVAILABLE = "last_available_value"


def _function(column: Column, options: TableOptions) -> ColumnFunction:
    if options.record_merge_partial_mode != FILL_UNAVAILABLE:
        return LAST_NON_NULL_VALUE
    if column.type.kind not in (*TEXT_KINDS, *BYTES_KINDS):
        return LAST_VALUE
    marker = options.record_merge_unavailable_value or ""
    return ColumnFunction(
        LAST_AVAILABLE, lambda values, _options: _last_available(values, marker), picks=True
    )


def _last_available(column: GroupedColumn, marker: str) -> pa.Array:
    """The last value that is not the marker; where there is none, the marker."""
    import pyarrow.compute as pc

    picked = _pick_available(column.plan, column.arrays, marker)
    values = take_rows(column.arrays, picked)
    if picked.validity is None:
        return values
    found = pa.Array.from_buffers(pa.bool_(), len(picked), [None, pa.py_buffer(picked.validity)])
    return pc.if_else(found, values, _marker_scalar(marker, values.type))


def _pick_available(plan: MergePlan, arrays: Sequence[pa.Array], marker: str) -> Selection:
    return pick_last_valid(plan, [_available(array, marker) for array in arrays])


def _available(array: pa.Array, marker: str) -> pa.Array:
    """Null where the value is the marker; anything else, null included, is a value."""
    import pyarrow.compute as pc

    is_marker = pc.equal(array, _marker_scalar(marker, array.type)).fill_null(False)
    return pc.if_else(is_marker, pa.scalar(None, pa.bool_()), pa.scalar(True))


def _marker_scalar(marker: str, type_: pa.DataType) -> pa.Scalar:
    return pa.scalar(marker if pa.types.is_string(type_) else marker.encode(), type_)
