"""Folding values in Python only where it must be: a key with one value keeps it, and Arrow moves it.

Nulls take no part unless a function asks for them. A group is folded if it has several values, takes one back, or if
its only value is *odd*: not in the form that the function gives its results.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from lsmerge.merge.flags import as_booleans, as_flags
from lsmerge.merge.grouped_column import RETRACTS, GroupedColumn, has_any
from lsmerge.merge.groups import row_numbers, take_rows
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows, pick_first
from lsmerge_native.regroup import filter_groups, filter_rows, flagged_kinds

# Values oldest first, where each group starts, which are taken back -> a value per group.
Fold = Callable[[pa.Array, Sequence[int], Sequence[int]], pa.Array]
IsOdd = Callable[[pa.Array], pa.Array]


class FailedFoldError(ValueError):
    """A fold gave up at a group. Who knows the key columns names its key, with the plan that the group is of."""

    def __init__(self, group: int, reason: str) -> None:
        self.group = group
        self.plan: MergePlan | None = None
        super().__init__(reason)


def fold_groups(
    column: GroupedColumn, fold: Fold, is_odd: IsOdd | None = None, *, takes_nulls: bool = False
) -> pa.Array:
    """One value per group; null where a group has no values."""
    import pyarrow.compute as pc

    plan = column.plan
    if not takes_nulls:
        plan = filter_rows(plan, as_flags(_present(column)))
    alone = take_rows(column.arrays, pick_first(plan))
    wanted = pc.greater(group_sizes(plan), pa.scalar(1, pa.uint32()))
    if is_odd is not None:
        wanted = pc.or_(wanted, is_odd(alone))
    if column.has_retracts:
        retracted = has_any(plan, column.groups.kinds, RETRACTS)
        wanted = pc.or_(wanted, as_booleans(retracted))
    if not pc.any(wanted).as_py():
        return alone
    return _replaced(alone, _folded(column, filter_groups(plan, as_flags(wanted)), fold), wanted)


def group_sizes(plan: MergePlan) -> pa.Array:
    """The number of rows of each group, as uint32."""
    import pyarrow.compute as pc

    starts = group_starts(plan)
    return pc.subtract(starts.slice(1), starts.slice(0, plan.num_groups))


def group_starts(plan: MergePlan) -> pa.Array:
    """Where each group starts, and the last one ends, as uint32."""
    buffer = pa.py_buffer(plan.starts)
    return pa.Array.from_buffers(pa.uint32(), plan.num_groups + 1, [None, buffer])


def group_numbers(plan: MergePlan) -> pa.Array:
    """The group of each row, as int64."""
    import pyarrow.compute as pc

    starts = group_starts(plan).cast(pa.int32())
    return pc.list_parent_indices(pa.ListArray.from_arrays(starts, pa.nulls(plan.num_rows)))


def _present(column: GroupedColumn) -> pa.Array:
    return take_rows([array.is_valid() for array in column.arrays], all_rows(column.plan))


def _folded(column: GroupedColumn, plan: MergePlan, fold: Fold) -> pa.Array:
    values = take_rows(column.arrays, all_rows(plan))
    taken_back: Sequence[int] = bytes(plan.num_rows)
    if column.has_retracts:
        taken_back = memoryview(flagged_kinds(plan, column.groups.kinds, RETRACTS))
    try:
        return fold(values, memoryview(plan.starts).cast("I"), taken_back)
    except FailedFoldError as error:
        error.plan = plan
        raise


def _replaced(values: pa.Array, others: pa.Array, wanted: pa.Array) -> pa.Array:
    """The values, those wanted replaced by the others in their order."""
    import pyarrow.compute as pc

    if len(others) == len(values):
        return others
    numbers = pc.cumulative_sum(wanted.cast(pa.int64()), start=len(values) - 1)
    indices = pc.if_else(wanted, numbers, row_numbers(len(values)))
    return pa.concat_arrays([values, others]).take(indices)


def filled_groups(plan: MergePlan) -> MergePlan:
    """Without the groups that have no rows."""
    import pyarrow.compute as pc

    return filter_groups(plan, as_flags(pc.greater(group_sizes(plan), pa.scalar(0, pa.uint32()))))
