"""Sequence groups of partial-update: which rows have a place in one, in which order, and which a removal leaves."""

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa

from lsmerge.field_options import SequenceGroup
from lsmerge.merge.flags import as_flags
from lsmerge.merge.groups import Groups, take_rows
from lsmerge.rowkind import RowKind
from lsmerge_native.keys import Keys, encode_keys
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows
from lsmerge_native.regroup import filter_rows, flagged_kinds


def has_place(groups: Groups, plan: MergePlan, names: Sequence[str]) -> pa.Buffer:
    """For each row of a plan whether one of the ordering columns has a value."""
    import pyarrow.compute as pc

    rows = all_rows(plan)
    masks = [take_rows(groups.column(name), rows).is_valid() for name in names]
    present = masks[0]
    for mask in masks[1:]:
        present = pc.or_(present, mask)
    return as_flags(present)


def order_keys(groups: Groups, group: SequenceGroup) -> list[Keys]:
    """The order of the rows in a group, an element per source."""
    return [_encoded([batch.column(name) for name in group.order]) for batch in groups.batches]


def after_group_removal(groups: Groups, plan: MergePlan, group: SequenceGroup) -> MergePlan:
    """The rows that count after the last accepted -D of a group.

    A -D is accepted if its order is not below that of any row that arrived before it. What arrives later counts
    if its order is not below that of the -D, or if it has no place in the group.
    """
    deletes = flagged_kinds(plan, groups.kinds, 1 << RowKind.DELETE)
    if not any(memoryview(deletes)):
        return plan
    present = memoryview(has_place(groups, plan, group.order))
    orders = _orders(groups, plan, group)
    keep = bytearray(b"\1" * plan.num_rows)
    starts = memoryview(plan.starts).cast("I")
    for start, stop in pairwise(starts):
        rows = [i for i in range(start, stop) if present[i]]
        barrier = _last_accepted(rows, orders, memoryview(deletes))
        if barrier is not None:
            for i in range(start, stop):
                keep[i] = i > barrier and (not present[i] or orders[i] >= orders[barrier])
    return filter_rows(plan, bytes(keep))


def _orders(groups: Groups, plan: MergePlan, group: SequenceGroup) -> list[bytes]:
    rows = all_rows(plan)
    keys = _encoded([take_rows(groups.column(name), rows) for name in group.order])
    return [keys.bytes_at(i) for i in range(plan.num_rows)]


def _encoded(columns: Sequence[pa.Array]) -> Keys:
    return encode_keys(columns, nullable=[True] * len(columns), signed_zeros=True)


def _last_accepted(rows: Sequence[int], orders: Sequence[bytes], deletes: memoryview) -> int | None:
    greatest, found = b"", None
    for row in rows:
        if orders[row] >= greatest:
            greatest = orders[row]
            if deletes[row]:
                found = row
    return found
