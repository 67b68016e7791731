"""One column of the rows of a window, grouped by key: what a column function reduces to one value per key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lsmerge.merge.groups import Groups, take_rows, take_viewed
from lsmerge.rowkind import RowKind
from lsmerge_native.buffers import NativeBuffer
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import Selection
from lsmerge_native.regroup import (
    any_in_group,
    filter_groups,
    filter_rows,
    flagged_kinds,
    kinds_seen,
)

RETRACTS = 1 << RowKind.UPDATE_BEFORE | 1 << RowKind.DELETE
ADDS = 1 << RowKind.INSERT | 1 << RowKind.UPDATE_AFTER
DELETES = 1 << RowKind.DELETE


@dataclass(frozen=True, slots=True)
class GroupedColumn:
    """The values of a column in the order of a plan, which may be another one than its groups'."""

    groups: Groups
    plan: MergePlan
    name: str
    has_retracts: bool

    @property
    def arrays(self) -> list[pa.Array]:
        return self.groups.column(self.name)

    @property
    def type(self) -> pa.DataType:
        return self.groups.schema.field(self.name).type

    @property
    def kinds(self) -> list[pa.Array] | None:
        """The row kinds, None where every row is an add."""
        return self.groups.kinds if self.has_retracts else None

    def keys(self) -> list[Keys]:
        """The values as comparable keys, an element per source."""
        return [encode_keys([array], nullable=[True], signed_zeros=True) for array in self.arrays]

    def adds(self) -> "GroupedColumn":
        """The same without retracts."""
        if not self.has_retracts:
            return self
        keep = flagged_kinds(self.plan, self.groups.kinds, ADDS)
        return GroupedColumn(
            self.groups, filter_rows(self.plan, keep), self.name, has_retracts=False
        )

    def pick(self, choose: Callable[[MergePlan], Selection]) -> pa.Array:
        """One picked value per group; null where the row picked takes its value back."""
        import pyarrow.compute as pc

        selection = choose(self.plan)
        values = take_rows(self.arrays, selection)
        if not self.has_retracts:
            return values
        kinds = take_viewed(self.groups.kinds, pa.int8(), selection)
        taken_back = pc.equal(
            pc.bit_wise_and(kinds, pa.scalar(1, pa.int8())), pa.scalar(1, pa.int8())
        )
        return pc.if_else(taken_back.fill_null(False), pa.scalar(None, values.type), values)

    def fixed(
        self, folded: tuple[NativeBuffer | None, NativeBuffer, int], type_: pa.DataType
    ) -> pa.Array:
        """What a fold of fixed-width values gave, as an array."""
        validity, data, null_count = folded
        buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(data)]
        return pa.Array.from_buffers(type_, self.plan.num_groups, buffers, null_count)


def any_retract(plan: MergePlan, kinds: Sequence[pa.Array]) -> bool:
    """Whether a row of the plan takes something back."""
    return bool(kinds_seen(plan, kinds) & RETRACTS)


def with_adds(plan: MergePlan, kinds: Sequence[pa.Array]) -> MergePlan:
    """Without the groups that have no add."""
    if plan.num_empty_groups or any_retract(plan, kinds):
        return filter_groups(plan, has_any(plan, kinds, ADDS))
    return plan


def has_any(plan: MergePlan, kinds: Sequence[pa.Array], wanted: int) -> NativeBuffer:
    """For each group whether a row is of a wanted kind, as 0 or 1."""
    return any_in_group(plan, flagged_kinds(plan, kinds, wanted))
