"""Engines that combine rows column by column: partial-update, aggregation and the record merger's partial updates.

A row's columns are combined each by its function over the key's rows: those after the last removal, in the order of the
table or of the column's sequence group. A key is visible if an add is among them.

Composing, where older or newer rows may be elsewhere:
1. Keys whose rows are all adds, ordered by arrival, with exact functions: one row that holds the combined values.
2. Keys whose rows are all adds, ordered by columns, with functions that pick: the rows that some column picks.
   A late row still finds its place among them.
3. Everything else keeps its rows. Where the oldest run is part of the merge and arrival orders the rows, rows up to the
   last removal go, and the rest becomes one row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from lsmerge.errors import MergeValueError
from lsmerge.field_options import FieldOptions, SequenceGroup
from lsmerge.merge.functions import LAST_NON_NULL_VALUE, ColumnFunction
from lsmerge.merge.grouped_column import ADDS, RETRACTS, GroupedColumn, has_any
from lsmerge.merge.groups import Groups, sort_groups, take_rows
from lsmerge.merge.order import FORGET_ALL, RowOrder
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, RowKind
from lsmerge.schema import TableSchema
from lsmerge_native.fold import FoldError
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection, all_rows, pick_last, pick_last_valid
from lsmerge_native.regroup import (
    filter_groups,
    filter_rows,
    flagged_kinds,
    order_rows,
    picked_rows,
    rows_after_last,
)


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """What the columns of a table do."""

    functions: Mapping[str, ColumnFunction]
    options: Mapping[str, FieldOptions]
    groups: tuple[SequenceGroup, ...] = ()
    removing_kinds: int = 0  # row kinds that remove the row, as bits
    removing_groups: tuple[SequenceGroup, ...] = ()
    retracts_touch: bool = True  # whether retracts reach columns outside groups


class ColumnarEngine:
    """Combines the rows of a key column by column."""

    one_row_per_key = False
    one_add_per_key = False

    def __init__(self, schema: TableSchema, order: RowOrder, rules: ColumnRules) -> None:
        self._schema = schema
        self._order = order
        self._rules = rules
        self._columns = schema.file_schema.names
        self._group_of = {
            name: group for group in rules.groups for name in (*group.order, *group.members)
        }
        values = [c for c in schema.columns if c.name not in schema.primary_key]
        # A total that was too large, and null therefore, may fit once further values are known: its rows stay.
        has_nulled = any(rules.options[c.name].on_overflow == "null" for c in values)
        self._foldable = not (order.columns or rules.groups or has_nulled)
        self._exact = all(rules.functions[c.name].exact(c) for c in values)
        # A removal may hide the row that a column picks, and any row may decide whether a removal is accepted.
        self._picks = not rules.removing_groups and all(
            rules.functions[c.name].picks for c in values
        )

    @property
    def order(self) -> RowOrder:
        return self._order

    @property
    def delete_columns(self) -> Sequence[str]:
        ordering = (name for group in self._rules.groups for name in group.order)
        return [*self._order.columns, *ordering]

    def reads(self, names: Sequence[str]) -> Sequence[str]:
        ordering = [
            column
            for group in (*self._rules.groups, *self._rules.removing_groups)
            if group in self._rules.removing_groups or set(names) & {*group.order, *group.members}
            for column in group.order
        ]
        return [*names, *ordering]

    def shows_stored(self, name: str) -> bool:
        return self._rules.functions[name].picks

    def resolve(self, groups: Groups, names: Sequence[str]) -> pa.RecordBatch:
        return self._combined(groups, self._visible(groups), names)

    def compose(self, groups: Groups, *, forget_before: int) -> pa.RecordBatch:
        plan = groups.plan
        retracted = has_any(plan, groups.kinds, RETRACTS)
        simple = filter_groups(plan, _inverted(retracted))
        rest = filter_groups(plan, retracted)
        parts = [self._composed_adds(groups, simple, is_base=forget_before >= FORGET_ALL)]
        if rest.num_groups:
            parts += self._composed_rest(groups, rest, forget_before)
        return self._in_order(parts)

    def _composed_adds(self, groups: Groups, plan: MergePlan, *, is_base: bool) -> pa.RecordBatch:
        if self._foldable and (self._exact or is_base):
            return self._folded(groups, plan)
        if self._picks:
            plan = filter_rows(plan, picked_rows(plan, self._selections(groups, plan)))
        return groups.take(all_rows(plan), self._columns)

    def _composed_rest(
        self, groups: Groups, plan: MergePlan, forget_before: int
    ) -> list[pa.RecordBatch]:
        if not (forget_before >= FORGET_ALL and self._foldable):
            return [groups.take(all_rows(plan), self._columns)]
        plan = self._after_removal(groups, plan)
        has_add = has_any(plan, groups.kinds, ADDS)
        pending = filter_groups(plan, _inverted(has_add))
        visible = filter_groups(plan, has_add)
        # A key that has only seen retracts keeps them: they count once an add arrives.
        return [
            self._folded(groups, visible),
            groups.take(all_rows(pending), self._columns),
        ]

    def _selections(self, groups: Groups, plan: MergePlan) -> list[Selection]:
        """What each column picks, and the newest row."""
        found = [pick_last(plan)]
        found += [pick_last(self._ordered(groups, plan, group)) for group in self._rules.groups]
        for name, function in self._rules.functions.items():
            if function is LAST_NON_NULL_VALUE and name not in self._schema.primary_key:
                group_of = self._group_of.get(name)
                rows = plan if group_of is None else self._ordered(groups, plan, group_of)
                found.append(pick_last_valid(rows, groups.column(name)))
        return found

    def _folded(self, groups: Groups, plan: MergePlan) -> pa.RecordBatch:
        """One add per key with the combined values, and the newest sequence number."""
        newest = groups.take(pick_last(plan), [SEQUENCE_COLUMN, KIND_COLUMN])
        kinds = _folded_kinds(plan, newest.column(KIND_COLUMN))
        values = self._combined(groups, plan, self._schema.column_names)
        return pa.RecordBatch.from_arrays(
            [newest.column(0), kinds, *values.columns], schema=self._schema.file_schema
        )

    def _in_order(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        filled = [part for part in parts if part.num_rows]
        if len(filled) < 2:
            return filled[0] if filled else parts[0]
        rows = pa.concat_batches(filled)
        keys = encode_keys([rows.column(name) for name in self._schema.trimmed_key])
        # Rows of a key are in one part and stay in its order: sorting is stable.
        groups = sort_groups([rows], keys)
        return groups.take(all_rows(groups.plan), self._columns)

    def _visible(self, groups: Groups) -> MergePlan:
        plan = self._after_removal(groups, groups.plan)
        return filter_groups(plan, has_any(plan, groups.kinds, ADDS))

    def _after_removal(self, groups: Groups, plan: MergePlan) -> MergePlan:
        """The rows of each key after the last that removed it."""
        rules = self._rules
        if rules.removing_kinds:
            flags = flagged_kinds(plan, groups.kinds, rules.removing_kinds)
            plan = filter_rows(plan, rows_after_last(plan, flags))
        for group in rules.removing_groups:
            plan = self._after_group_removal(groups, plan, group)
        return plan

    def _after_group_removal(
        self, groups: Groups, plan: MergePlan, group: SequenceGroup
    ) -> MergePlan:
        """The rows that count after the last accepted -D of a group.

        A -D is accepted if its order is not below that of any row that arrived before it. What arrives later counts
        if its order is not below that of the -D, or if it has no place in the group.
        """
        deletes = flagged_kinds(plan, groups.kinds, 1 << RowKind.DELETE)
        if not any(memoryview(deletes)):
            return plan
        present = memoryview(_present(groups, plan, group.order))
        orders = self._orders(groups, plan, group)
        keep = bytearray(b"\1" * plan.num_rows)
        starts = memoryview(plan.starts).cast("I")
        for start, stop in pairwise(starts):
            rows = [i for i in range(start, stop) if present[i]]
            barrier = _last_accepted(rows, orders, memoryview(deletes))
            if barrier is not None:
                for i in range(start, stop):
                    keep[i] = i > barrier and (not present[i] or orders[i] >= orders[barrier])
        return filter_rows(plan, bytes(keep))

    def _orders(self, groups: Groups, plan: MergePlan, group: SequenceGroup) -> list[bytes]:
        rows = all_rows(plan)
        columns = [take_rows(groups.column(name), rows) for name in group.order]
        keys = encode_keys(columns, nullable=[True] * len(columns))
        return [keys.bytes_at(i) for i in range(plan.num_rows)]

    def _combined(self, groups: Groups, plan: MergePlan, names: Sequence[str]) -> pa.RecordBatch:
        has_retracts = any(memoryview(has_any(plan, groups.kinds, RETRACTS)))
        schema = groups.batches[0].schema
        fields = [schema.field(name) for name in names]
        arrays = [self._column(groups, plan, name, has_retracts=has_retracts) for name in names]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _column(
        self, groups: Groups, plan: MergePlan, name: str, *, has_retracts: bool
    ) -> pa.Array:
        if name in self._schema.primary_key:
            return take_rows(groups.column(name), pick_last(plan))
        group = self._group_of.get(name)
        if group is not None:
            plan = self._ordered(groups, plan, group)
            if name in group.order:
                return take_rows(groups.column(name), pick_last(plan))
        column = GroupedColumn(groups, plan, name, has_retracts)
        options = self._rules.options[name]
        if options.ignore_retract or (group is None and not self._rules.retracts_touch):
            column = column.adds()
        try:
            return self._rules.functions[name].reduce(column, options)
        except FoldError as error:
            raise self._value_error(groups, plan, name, error) from error

    def _ordered(self, groups: Groups, plan: MergePlan, group: SequenceGroup) -> MergePlan:
        """The rows that take part in a group, in its order."""
        kept = filter_rows(plan, _present(groups, plan, group.order))
        return order_rows(kept, self._group_keys(groups, group))

    def _group_keys(self, groups: Groups, group: SequenceGroup) -> list[Keys]:
        nullable = [True] * len(group.order)
        return [
            encode_keys([batch.column(name) for name in group.order], nullable=nullable)
            for batch in groups.batches
        ]

    def _value_error(
        self, groups: Groups, plan: MergePlan, name: str, error: FoldError
    ) -> MergeValueError:
        key = groups.take(pick_last(plan), self._schema.trimmed_key).slice(error.group, 1)
        return MergeValueError(
            f"column {name!r} of key {key.to_pylist()[0]}: {error}; set fields.{name}.on-overflow, "
            "or use a wider type"
        )


def _last_accepted(rows: Sequence[int], orders: Sequence[bytes], deletes: memoryview) -> int | None:
    greatest, found = b"", None
    for row in rows:
        if orders[row] >= greatest:
            greatest = orders[row]
            if deletes[row]:
                found = row
    return found


def _folded_kinds(plan: MergePlan, newest: pa.Array) -> pa.Array:
    """A row that was combined with others is an insert; one that was alone keeps its kind."""
    import pyarrow.compute as pc

    if plan.num_rows == plan.num_groups:
        return newest
    starts = pa.Array.from_buffers(
        pa.uint32(), plan.num_groups + 1, [None, pa.py_buffer(plan.starts)]
    )
    sizes = pc.subtract(starts.slice(1), starts.slice(0, plan.num_groups))
    alone = pc.equal(sizes, pa.scalar(1, pa.uint32()))
    return pc.if_else(alone, newest, pa.scalar(int(RowKind.INSERT), pa.int8()))


def _inverted(flags: object) -> bytes:
    return bytes(memoryview(flags)).translate(_INVERSION)  # type: ignore[arg-type]


_INVERSION = bytes([1, *([0] * 255)])


def _present(groups: Groups, plan: MergePlan, names: Sequence[str]) -> pa.Buffer:
    """For each row of a plan whether one of the columns has a value."""
    import pyarrow.compute as pc

    rows = all_rows(plan)
    masks = [take_rows(groups.column(name), rows).is_valid() for name in names]
    present = masks[0]
    for mask in masks[1:]:
        present = pc.or_(present, mask)
    return present.cast(pa.uint8()).buffers()[1] if len(present) else pa.py_buffer(b"")
