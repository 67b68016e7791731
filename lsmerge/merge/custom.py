"""Custom: a merger that the user wrote says what the rows of a key mean, folded from the left, oldest first.

    k.1 (5)  k.2 (3)  k.3 (4)   ->   merge(merge(5, 3), 4)

Composing, where older rows may be elsewhere:
1. Nothing is assumed of a merger: its rows stay. If it is associative they become one row, and if it has a partial
   merge, as few as that gives.
2. A merger that does not see deletes starts anew after each: the last delete stays, the rows before it go.
3. Where the oldest run is part of the merge all rows become one. A delete is forgotten only if the merger does not see
   deletes, or forgets them; otherwise it may weigh it against a row to come.
4. Where columns order the rows a late row may come between any two, so all stay.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, NotRegisteredError
from lsmerge.merge.batch_merge import BatchMerge
from lsmerge.merge.delete_marks import DeleteMarks
from lsmerge.merge.door import Retracts, admit, retracts_of
from lsmerge.merge.flags import as_flags
from lsmerge.merge.group_fold import filled_groups, group_sizes, group_starts
from lsmerge.merge.grouped_column import RETRACTS
from lsmerge.merge.groups import Groups, adds_only, in_key_order
from lsmerge.merge.merger_rows import CheckRows, Operands
from lsmerge.merge.order import FORGET_ALL, RowOrder, sequence_order
from lsmerge.merge.record_merge import RecordMerge
from lsmerge.merge.written import TargetColumns
from lsmerge.merge_mode import CUSTOM, IMPLEMENTATIONS, MODE, STRATEGY
from lsmerge.mergers import Merger, find_merger
from lsmerge.options import TableOptions
from lsmerge.schema import TableSchema
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows, keep_adds, pick_last
from lsmerge_native.regroup import filter_groups, filter_rows, flagged_kinds, rows_after_last


class Custom:
    """The engine of `record.merge.mode` = custom."""

    one_row_per_key = False
    newest_row_wins = False
    one_add_per_key = False
    keeps_not_null = True
    target_columns = TargetColumns.REFUSED

    def __init__(self, schema: TableSchema, options: TableOptions, check: CheckRows) -> None:
        _check_options(options)
        self._schema = schema
        self._check = check
        self._strategy_id = options.record_merge_strategy_id
        self._implementations = options.record_merge_implementations
        self._order = sequence_order(options)
        self._ordering = options.record_merge_ordering_fields or options.sequence_field
        self._retracts = retracts_of(options, Retracts.TAKE)
        self._marks = DeleteMarks.of(schema, options)
        self._columns = schema.file_schema.names

    @property
    def order(self) -> RowOrder:
        return self._order

    @property
    def delete_columns(self) -> Sequence[str]:
        return self._order.columns

    def reads(self, names: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return self._schema.column_names

    def shows_stored(self, name: str) -> bool:  # noqa: ARG002
        return False

    def lift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return admit(self._marks.applied(batch), self._retracts, "custom")

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        plan = groups.plan
        if _is_merged(plan):
            return groups.take(keep_adds(pick_last(plan), groups.kinds), names)
        merger = self._merger()
        if not merger.sees_deletes:
            plan = _after_deletes(groups)
        return adds_only(self._folded(groups, plan, merger)).select(list(names))

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        plan, is_base = groups.plan, forget_before >= FORGET_ALL
        if self._order.columns:
            return self._kept(groups, plan)
        merger = self._merger_for(plan)
        if merger is None:
            return self._kept(groups, plan)
        if merger.sees_deletes:
            composed = self._composed(groups, plan, merger, is_base=is_base)
            return adds_only(composed) if is_base and merger.forgets_deletes else composed
        rest = self._composed(groups, _after_deletes(groups), merger, is_base=is_base)
        if is_base:
            return rest
        return in_key_order([_last_deletes(groups, self._columns), rest], self._schema.trimmed_key)

    def _composed(
        self, groups: Groups, plan: MergePlan, merger: Merger, *, is_base: bool
    ) -> pa.RecordBatch:
        if is_base or merger.is_associative:
            return self._folded(groups, plan, merger)
        if merger.has_partial_merge and not _is_merged(plan):
            call = RecordMerge(merger, self._schema, self._ordering, self._check)
            return call.shortened(_operands(groups, plan, self._columns))
        return self._kept(groups, plan)

    def _kept(self, groups: Groups, plan: MergePlan) -> pa.RecordBatch:
        return groups.take(all_rows(plan), self._columns)

    def _folded(self, groups: Groups, plan: MergePlan, merger: Merger) -> pa.RecordBatch:
        """One row per key, in key order; the merger is asked for keys of several rows only."""
        import pyarrow.compute as pc

        if _is_merged(plan):
            return self._kept(groups, plan)
        several = pc.greater(group_sizes(plan), pa.scalar(1, pa.uint32()))
        operands = _operands(groups, filter_groups(plan, as_flags(several)), self._columns)
        call = BatchMerge if merger.has_batches else RecordMerge
        merged = call(merger, self._schema, self._ordering, self._check).folded(operands)
        if merged.num_rows == plan.num_groups:
            return merged
        alone = self._kept(groups, filter_groups(plan, as_flags(pc.invert(several))))
        return _interleaved(alone, merged, several)

    def _merger(self) -> Merger:
        return find_merger(self._strategy_id, self._implementations)

    def _merger_for(self, plan: MergePlan) -> Merger | None:
        """The merger; None where it is not known and nothing needs merging."""
        try:
            return self._merger()
        except NotRegisteredError:
            if _is_merged(plan):
                return None
            raise


def _is_merged(plan: MergePlan) -> bool:
    return plan.num_rows == plan.num_groups


def _after_deletes(groups: Groups) -> MergePlan:
    """The rows after the last delete of each key, of the keys that have any."""
    plan = groups.plan
    flags = flagged_kinds(plan, groups.kinds, RETRACTS)
    return filled_groups(filter_rows(plan, rows_after_last(plan, flags)))


def _last_deletes(groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
    plan = groups.plan
    deletes = filled_groups(filter_rows(plan, flagged_kinds(plan, groups.kinds, RETRACTS)))
    return groups.take(pick_last(deletes), names)


def _operands(groups: Groups, plan: MergePlan, names: Sequence[str]) -> Operands:
    return Operands(groups.take(all_rows(plan), names), group_starts(plan).view(pa.int32()))


def _interleaved(
    alone: pa.RecordBatch, merged: pa.RecordBatch, several: pa.Array
) -> pa.RecordBatch:
    """Rows from two batches, each in key order; `several` says of each which one it is in."""
    import pyarrow.compute as pc

    from_merged = pc.cumulative_sum(several.cast(pa.int64()), start=alone.num_rows - 1)
    from_alone = pc.cumulative_sum(pc.invert(several).cast(pa.int64()), start=-1)
    places = pc.if_else(several, from_merged, from_alone)
    return pa.concat_batches([alone, merged]).take(places)


def _check_options(options: TableOptions) -> None:
    if options.record_merge_strategy_id is None and not options.record_merge_implementations:
        raise InvalidOptionError(
            f"option {MODE!r} = {CUSTOM!r} needs {STRATEGY!r} or {IMPLEMENTATIONS!r}, which name a merger registered "
            "with lsmerge.register_merger; payload classes that are not built in cannot be run here"
        )
