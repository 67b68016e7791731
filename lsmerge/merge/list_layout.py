"""Lists and maps as offsets and elements: what nested column functions look at. A map is a list of entries.

Invariant of every array handed in: it came out of a take, so offsets start at 0 and no null hides elements.
"""

from collections.abc import Sequence

import pyarrow as pa

from lsmerge.merge.group_fold import group_sizes, group_starts
from lsmerge.merge.groups import row_numbers
from lsmerge_native.keys import encode_keys
from lsmerge_native.plan import plan_sorted
from lsmerge_native.sort import argsort


def list_array(
    type_: pa.DataType, offsets: pa.Array, is_valid: pa.Array, elements: pa.Array
) -> pa.Array:
    """A list or map column. Requires: int32 offsets, an element more than there are lists."""
    count = len(is_valid)
    buffers = [is_valid.buffers()[1], offsets.buffers()[1]]
    return pa.Array.from_buffers(type_, count, buffers, is_valid.false_count, children=[elements])


def lists_of(type_: pa.DataType, lengths: Sequence[int | None], elements: pa.Array) -> pa.Array:
    """A list or map column of consecutive elements; a length None is a null."""
    import pyarrow.compute as pc

    known = pa.array([length or 0 for length in lengths], pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum_checked(known)])
    is_valid = pa.array([length is not None for length in lengths], pa.bool_())
    return list_array(type_, offsets, is_valid, elements)


def row_fields(rows: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    """Fields of ROW values; those of a null row are null."""
    fields = dict(zip(rows.type.names, rows.flatten(), strict=True))
    return [fields[name] for name in names]


def lists_with(values: pa.Array, flags: pa.Array) -> pa.Array:
    """For each list whether one of its elements is flagged."""
    import pyarrow.compute as pc

    return pc.is_in(row_numbers(len(values)), _parents(values).filter(flags).unique())


def longer_than(values: pa.Array, limit: int) -> pa.Array:
    """For each list whether it has more elements."""
    import pyarrow.compute as pc

    offsets = values.offsets
    lengths = pc.subtract(offsets.slice(1), offsets.slice(0, len(values)))
    return pc.greater(lengths.cast(pa.int64()), pa.scalar(limit, pa.int64()))


def with_duplicates(values: pa.Array, keys: Sequence[pa.Array]) -> pa.Array:
    """For each list whether two of its elements have equal keys, given as an array per key column.

    Of keys that have no encoding the answer is a guess to the safe side.
    """
    import pyarrow.compute as pc

    if any(pa.types.is_nested(key.type) for key in keys):
        return longer_than(values, 1)
    parents = _parents(values)
    encoded = encode_keys([parents, *keys], nullable=[False, *([True] * len(keys))])
    plan = plan_sorted(encoded, argsort(encoded))
    if plan.num_groups == plan.num_rows:
        return pa.repeat(pa.scalar(False), len(values))
    several = pc.greater(group_sizes(plan), pa.scalar(1, pa.uint32()))
    firsts = group_starts(plan).slice(0, plan.num_groups).filter(several)
    rows = pa.Array.from_buffers(pa.uint32(), plan.num_rows, [None, pa.py_buffer(plan.rows)])
    return pc.is_in(row_numbers(len(values)), parents.take(rows.take(firsts)).unique())


def _parents(values: pa.Array) -> pa.Array:
    """The number of the list that each element is in."""
    import pyarrow.compute as pc

    lists = pa.list_(values.values.type)
    buffers = values.buffers()[:2]
    plain = pa.Array.from_buffers(lists, len(values), buffers, children=[values.values])
    return pc.list_parent_indices(plain)
