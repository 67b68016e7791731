"""Engines that combine rows column by column: partial-update, aggregation and the record merger's partial updates.

A row's columns are combined each by its function over the key's rows: those after the last removal, in the order of the
table or of the column's sequence group. A key is visible if an add is among them.

Composing, where older or newer rows may be elsewhere:
1. Keys whose rows are all adds, ordered by arrival, with exact functions: one row that holds the combined values.
2. Keys whose rows are all adds, ordered by columns, with functions that pick or ask for no order: the rows that some
   column picks, the last of which hold the totals. A late row still finds its place among them.
3. Everything else keeps its rows. Where the oldest run is part of the merge and arrival orders the rows, rows up to the
   last removal go, and the rest becomes one row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.errors import InvalidOptionError, MergeValueError
from lsmerge.field_options import FieldOptions, SequenceGroup
from lsmerge.merge.flags import as_booleans
from lsmerge.merge.functions import LAST_NON_NULL_VALUE, LAST_VALUE, ColumnFunction
from lsmerge.merge.group_fold import FailedFoldError, group_numbers, group_sizes
from lsmerge.merge.group_removal import after_group_removal, has_place, order_keys
from lsmerge.merge.grouped_column import (
    ADDS,
    RETRACTS,
    GroupedColumn,
    any_retract,
    has_any,
    with_adds,
)
from lsmerge.merge.groups import Groups, in_key_order, take_rows
from lsmerge.merge.order import FORGET_ALL, RowOrder
from lsmerge.merge.target_columns import TargetedRows
from lsmerge.merge.written import TargetColumns, bitmaps, inverted, without_written
from lsmerge.rowkind import KIND_COLUMN, SEQUENCE_COLUMN, RowKind
from lsmerge.schema import WRITTEN_FIELD, TableSchema
from lsmerge_native.fold import FoldDivisionError, FoldError
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection, all_rows, pick_last, pick_last_valid
from lsmerge_native.regroup import (
    any_in_group,
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


_WIDEST = frozenset({"BIGINT", "DOUBLE"})


class ColumnarEngine:
    """Combines the rows of a key column by column."""

    one_row_per_key = False
    newest_row_wins = False
    one_add_per_key = False
    keeps_not_null = False
    target_columns: TargetColumns = TargetColumns.KEPT

    def __init__(self, schema: TableSchema, order: RowOrder, rules: ColumnRules) -> None:
        self._schema = schema
        self._order = order
        self._rules = rules
        self._columns = schema.file_schema.names
        self._group_of = {
            name: group for group in rules.groups for name in (*group.order, *group.members)
        }
        values = [c for c in schema.columns if c.name not in schema.fixed_columns]
        self._values = [(c.id, c.name, rules.functions[c.name]) for c in values]
        ordering = {*order.columns, schema.options.get("rowkind.field")}
        self._kept = frozenset(c.id for c in values if c.name in ordering)
        # A total that was too large, and null therefore, may fit once further values are known: its rows stay.
        has_nulled = any(rules.options[c.name].on_overflow == "null" for c in values)
        self._foldable = not (order.columns or rules.groups or has_nulled)
        self._exact = all(rules.functions[c.name].exact(c) for c in values)
        # A removal may hide some of the rows that a total is of.
        may_total = not (rules.removing_kinds or has_nulled)
        self._totals = [
            c.name for c in values if may_total and rules.functions[c.name].has_totals(c)
        ]
        # A removal may hide the row that a column picks, and any row may decide whether a removal is accepted.
        self._picks = not rules.removing_groups and all(
            rules.functions[c.name].picks or c.name in self._totals for c in values
        )

    def refuse_unknown_functions(self) -> None:
        """What a new table may not name."""
        for function in self._rules.functions.values():
            if function.unknown is not None:
                raise InvalidOptionError(function.unknown)

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
        plan, is_base = groups.plan, forget_before >= FORGET_ALL
        if not any_retract(plan, groups.kinds):
            return without_written(self._composed_adds(groups, plan, is_base=is_base))
        retracted = has_any(plan, groups.kinds, RETRACTS)
        simple = filter_groups(plan, inverted(retracted))
        rest = filter_groups(plan, retracted)
        parts = [
            self._composed_adds(groups, simple, is_base=is_base),
            *self._composed_rest(groups, rest, forget_before),
        ]
        return without_written(in_key_order(parts, self._schema.trimmed_key))

    def _composed_adds(self, groups: Groups, plan: MergePlan, *, is_base: bool) -> pa.RecordBatch:
        if self._foldable and (self._exact or is_base):
            return self._folded(groups, plan)
        if not self._picks or (self._totals and groups.has_written):
            return groups.take_operands(all_rows(plan), self._columns)
        kept = filter_rows(plan, picked_rows(plan, self._selections(groups, plan)))
        rows = groups.take_operands(all_rows(kept), self._columns)
        for name in self._totals:
            rows = self._with_total(groups, plan, kept, rows, name)
        return rows

    def _with_total(
        self, groups: Groups, plan: MergePlan, kept: MergePlan, rows: pa.RecordBatch, name: str
    ) -> pa.RecordBatch:
        """The rows kept of a plan; in the named column the last of each key holds what all give together."""
        import pyarrow.compute as pc

        group = self._group_of.get(name)
        own = plan if group is None else self._ordered(groups, plan, group)
        totals = self._column(groups, plan, name, has_retracts=False)
        is_last = as_booleans(picked_rows(kept, [pick_last(own)]))
        position = rows.schema.get_field_index(name)
        numbers = pc.if_else(is_last, group_numbers(kept), pa.scalar(None, pa.int64()))
        values = totals.take(numbers)
        return rows.set_column(position, rows.schema.field(position), values)

    def _composed_rest(
        self, groups: Groups, plan: MergePlan, forget_before: int
    ) -> list[pa.RecordBatch]:
        if not (forget_before >= FORGET_ALL and self._foldable):
            return [groups.take_operands(all_rows(plan), self._columns)]
        plan = self._after_removal(groups, plan)
        has_add = has_any(plan, groups.kinds, ADDS)
        pending = filter_groups(plan, inverted(has_add))
        visible = filter_groups(plan, has_add)
        # A key that has only seen retracts keeps them: they count once an add arrives.
        return [
            self._folded(groups, visible),
            groups.take_operands(all_rows(pending), self._columns),
        ]

    def _selections(self, groups: Groups, plan: MergePlan) -> list[Selection]:
        """What each column picks, and the newest row."""
        found = [pick_last(plan), *self._last_written(groups, plan)]
        found += [pick_last(self._ordered(groups, plan, group)) for group in self._rules.groups]
        for name, function in self._rules.functions.items():
            if function is LAST_NON_NULL_VALUE and name not in self._schema.fixed_columns:
                group_of = self._group_of.get(name)
                rows = plan if group_of is None else self._ordered(groups, plan, group_of)
                found.append(pick_last_valid(rows, groups.column(name)))
        return found

    def _last_written(self, groups: Groups, plan: MergePlan) -> list[Selection]:
        """The newest row that wrote each column, where that need not be the newest row."""
        targeted = self._targeted(groups, plan)
        if targeted is None:
            return []
        return [
            pick_last(filter_rows(plan, targeted.of_column(field_id)))
            for field_id, _, function in self._values
            if function is LAST_VALUE
        ]

    def _folded(self, groups: Groups, plan: MergePlan) -> pa.RecordBatch:
        """One add per key with the combined values, and the newest sequence number."""
        newest = groups.take(pick_last(plan), [SEQUENCE_COLUMN, KIND_COLUMN])
        kinds = _folded_kinds(plan, newest.column(KIND_COLUMN))
        values = self._combined(groups, plan, self._schema.column_names)
        rows = pa.RecordBatch.from_arrays(
            [newest.column(0), kinds, *values.columns], schema=self._schema.file_schema
        )
        targeted = self._targeted(groups, plan)
        if targeted is None:
            return rows
        wrote = {
            field_id: any_in_group(plan, targeted.of_column(field_id))
            for field_id, _, _ in self._values
        }
        return rows.append_column(WRITTEN_FIELD, bitmaps(wrote, plan.num_groups))

    def _visible(self, groups: Groups) -> MergePlan:
        return with_adds(self._after_removal(groups, groups.plan), groups.kinds)

    def _after_removal(self, groups: Groups, plan: MergePlan) -> MergePlan:
        """The rows of each key after the last that removed it."""
        rules = self._rules
        targeted = self._targeted(groups, plan)
        if targeted is not None:
            plan = targeted.after_removal(self._values)
        elif rules.removing_kinds:
            flags = flagged_kinds(plan, groups.kinds, rules.removing_kinds)
            plan = filter_rows(plan, rows_after_last(plan, flags))
        for group in rules.removing_groups:
            plan = after_group_removal(groups, plan, group)
        return plan

    def _targeted(self, groups: Groups, plan: MergePlan) -> TargetedRows | None:
        """None where all rows are whole."""
        if not groups.has_written:
            return None
        return TargetedRows.of(groups, plan, self._rules.removing_kinds, self._kept)

    def _combined(self, groups: Groups, plan: MergePlan, names: Sequence[str]) -> pa.RecordBatch:
        has_retracts = any_retract(plan, groups.kinds)
        schema = groups.schema
        fields = [schema.field(name) for name in names]
        targeted = self._targeted(groups, plan)
        plans = [plan if targeted is None else self._plan_of(targeted, name) for name in names]
        arrays = [
            self._column(groups, own, name, has_retracts=has_retracts)
            for name, own in zip(names, plans, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _plan_of(self, targeted: TargetedRows, name: str) -> MergePlan:
        """The rows that a column is combined from."""
        if name in self._schema.primary_key:
            return targeted.plan
        flags = targeted.of_column(self._schema.column(name).id)
        return filter_rows(targeted.plan, flags)

    def _column(
        self, groups: Groups, plan: MergePlan, name: str, *, has_retracts: bool
    ) -> pa.Array:
        if name in self._schema.fixed_columns:
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
        except FailedFoldError as error:
            key = self._key_at(groups, error.plan or plan, error.group)
            raise MergeValueError(f"column {name!r} of key {key}: {error}") from error

    def _ordered(self, groups: Groups, plan: MergePlan, group: SequenceGroup) -> MergePlan:
        """The rows that take part in a group, in its order."""
        kept = filter_rows(plan, has_place(groups, plan, group.order))
        return order_rows(kept, order_keys(groups, group))

    def _value_error(
        self, groups: Groups, plan: MergePlan, name: str, error: FoldError
    ) -> MergeValueError:
        place = f"column {name!r} of key {self._key_at(groups, plan, error.group)}"
        function = self._rules.functions[name].name
        if isinstance(error, FoldDivisionError):
            return MergeValueError(
                f"{place}: a retract divides the {function} by zero; fields.{name}.ignore-retract=true, given when a "
                "table is created, passes over retracts"
            )
        type_ = self._schema.column(name).type
        wider = "" if type_.kind in _WIDEST else "alter(widen=...) gives the column a wider type, "
        return MergeValueError(
            f"{place}: the {function} does not fit {type_}; {wider}fields.{name}.on-overflow, given when a table is "
            "created, gives another outcome"
        )

    def _key_at(self, groups: Groups, plan: MergePlan, group: int) -> object:
        rows = groups.take(pick_last(plan), self._schema.trimmed_key)
        return rows.slice(group, 1).to_pylist()[0]


def _folded_kinds(plan: MergePlan, newest: pa.Array) -> pa.Array:
    """A row that was combined with others is an insert; one that was alone keeps its kind."""
    import pyarrow.compute as pc

    if plan.num_rows == plan.num_groups:
        return newest
    alone = pc.equal(group_sizes(plan), pa.scalar(1, pa.uint32()))
    return pc.if_else(alone, newest, pa.scalar(int(RowKind.INSERT), pa.int8()))
