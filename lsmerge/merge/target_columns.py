"""Rows that wrote some columns only, among the rows of a key.

A column is combined from the rows that wrote it. A retract that removes, and wrote some columns only, empties these:
their values start anew after it. If none of the other columns has a value then, the row is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.merge.functions import ColumnFunction
from lsmerge.merge.group_fold import as_flags
from lsmerge.merge.groups import Groups, take_rows
from lsmerge.merge.written import Flags, Written, any_set, both, either
from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows, pick_last
from lsmerge_native.regroup import (
    filter_rows,
    flagged_kinds,
    picked_rows,
    rows_after_last,
)
from lsmerge_native.removal import whole_removals


@dataclass(frozen=True, slots=True)
class TargetedRows:
    """The rows of a window, some of which wrote some columns only."""

    groups: Groups
    written: Written
    removing_kinds: int

    def of_column(self, plan: MergePlan, field_id: int) -> Flags:
        """Flag the rows whose value counts in a column."""
        wrote = self.written.wrote(plan, field_id)
        if not self.removing_kinds:
            return wrote
        emptied = both(flagged_kinds(plan, self.groups.kinds, self.removing_kinds), wrote)
        return both(rows_after_last(plan, emptied), wrote)

    def removals(
        self, plan: MergePlan, columns: Sequence[tuple[int, str, ColumnFunction]]
    ) -> NativeBuffer:
        """Flag the rows after which nothing is left of those before; `columns` are all but the key."""
        removing = flagged_kinds(plan, self.groups.kinds, self.removing_kinds)
        if not any_set(both(removing, self.written.partial(plan))):
            return removing
        described = [
            (self.written.wrote(plan, field_id), self._valid(plan, name), function.has_value)
            for field_id, name, function in columns
        ]
        return whole_removals(plan, removing, described)

    def _valid(self, plan: MergePlan, name: str) -> pa.Buffer:
        arrays = [array.is_valid() for array in self.groups.column(name)]
        return as_flags(take_rows(arrays, all_rows(plan)))


def from_last_whole(groups: Groups, plan: MergePlan) -> MergePlan:
    """The rows of each key from the last that wrote all columns, or removed them all; all if there is none."""
    partial = memoryview(Written(groups).partial(plan))
    whole = bytes(partial).translate(_INVERSION)
    last = pick_last(filter_rows(plan, whole))
    keep = either(rows_after_last(plan, whole), picked_rows(plan, [last]))
    return filter_rows(plan, keep)


_INVERSION = bytes([1, *([0] * 255)])
