"""Rows that wrote some columns only, among the rows of a key.

A column is combined from the rows that wrote it. A retract that removes, and wrote some columns only, empties these:
their values start anew after it. If none of the other columns has a value then, the row is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from lsmerge.merge.flags import Flags, as_flags
from lsmerge.merge.functions import ColumnFunction
from lsmerge.merge.groups import Groups, take_rows
from lsmerge.merge.written import Written, any_set, both, either, inverted
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows, pick_last
from lsmerge_native.regroup import filter_rows, flagged_kinds, picked_rows, rows_after_last
from lsmerge_native.removal import whole_removals


@dataclass(frozen=True, slots=True)
class TargetedRows:
    """The rows of a plan, some of which wrote some columns only.

    `removing` flags the rows that remove, None if there are none. Columns in `kept`, by id, are not emptied: they say
    where a row stands, not what it holds.
    """

    groups: Groups
    plan: MergePlan
    written: Written
    removing: Flags | None
    kept: frozenset[int]

    @classmethod
    def of(cls, groups: Groups, plan: MergePlan, removing_kinds: int, kept: frozenset[int]) -> Self:
        removing = flagged_kinds(plan, groups.kinds, removing_kinds)
        return cls(groups, plan, Written(groups), removing if any_set(removing) else None, kept)

    def of_column(self, field_id: int) -> Flags:
        """Flag the rows whose value counts in a column."""
        wrote = self.written.wrote(self.plan, field_id)
        if self.removing is None:
            return wrote
        if field_id in self.kept:
            return both(wrote, inverted(self.removing))
        return both(rows_after_last(self.plan, both(self.removing, wrote)), wrote)

    def after_removal(self, columns: Sequence[tuple[int, str, ColumnFunction]]) -> MergePlan:
        """The rows after the last that left nothing of those before; `columns` are all but the key."""
        if self.removing is None:
            return self.plan
        removals = self.removing
        if any_set(both(removals, self.written.partial(self.plan))):
            described = [
                (self.written.wrote(self.plan, field_id), self._valid(name), function.has_value)
                for field_id, name, function in columns
                if field_id not in self.kept
            ]
            removals = whole_removals(self.plan, removals, described)
        return filter_rows(self.plan, rows_after_last(self.plan, removals))

    def _valid(self, name: str) -> pa.Buffer:
        arrays = [array.is_valid() for array in self.groups.column(name)]
        return as_flags(take_rows(arrays, all_rows(self.plan)))


def from_last_whole(groups: Groups, plan: MergePlan) -> MergePlan:
    """The rows of each key from the last that wrote all columns, or removed them all; all if there is none."""
    whole = inverted(Written(groups).partial(plan))
    last = pick_last(filter_rows(plan, whole))
    keep = either(rows_after_last(plan, whole), picked_rows(plan, [last]))
    return filter_rows(plan, keep)
