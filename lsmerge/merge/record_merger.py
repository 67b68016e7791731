"""The record merger's modes that keep one whole row: commit time and event time.

Both are deduplicate with other doors: the newest row of a key is the row, by arrival or by its ordering fields. Rows
that a column marks as deletes become deletes at the door. What event time adds are deletes without an ordering value.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.merge.deduplicate import Deduplicate
from lsmerge.merge.delete_marks import DeleteMarks
from lsmerge.merge.event_time import EventOrder
from lsmerge.merge.group_fold import filled_groups
from lsmerge.merge.groups import Groups
from lsmerge.merge.order import RowOrder
from lsmerge.merge.replacing_columns import ReplacingColumns
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.reduce import all_rows, keep_newer, pick_last
from lsmerge_native.regroup import filter_rows, picked_rows


class CommitTime(Deduplicate):
    """The engine of `record.merge.mode` = commit-time-ordering, and of event time without ordering fields."""

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        super().__init__(schema, options)
        self._marks = DeleteMarks.of(schema, options)

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return super().lift(self._marks.applied(batch))


class EventTime(CommitTime):
    """The engine of `record.merge.mode` = event-time-ordering.

    Composing keeps the last untimed delete of a key, and of the rows that arrived after it the newest.
    """

    one_row_per_key = False  # an untimed delete and a newer row stay together
    newest_row_wins = False

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        super().__init__(schema, options)
        self._event = EventOrder.of(schema, options)
        self._order = RowOrder(self._event.columns)
        self._by_column = ReplacingColumns(schema, self._order)

    @property
    def delete_columns(self) -> Sequence[str]:
        """None: a delete without ordering values is an untimed one."""
        return ()

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._event.lifted(super().lift(batch))

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        if not self._event.has_untimed(groups):
            return super().compose(groups, forget_before=forget_before)
        plan = groups.plan
        if groups.has_written:
            # What an untimed delete leaves of each column depends on every row after it.
            return groups.take_operands(all_rows(plan), self._columns)
        newest = pick_last(self._event.after_untimed(groups, plan))
        barrier = self._event.last_untimed(groups, plan)
        kept = all_rows(filter_rows(plan, picked_rows(plan, [barrier, newest])))
        if forget_before > 0:
            kept = keep_newer(kept, groups.kinds, groups.sequences, forget_before)
        return groups.take(kept, self._columns)

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        if not self._event.has_untimed(groups):
            return super().resolve(groups, names)
        plan = filled_groups(self._event.after_untimed(groups, groups.plan))
        return super().resolve(groups.planned(plan), names)
