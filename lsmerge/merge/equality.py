"""Whether values are the same: null equals null, NaN equals NaN, and 0.0 differs from -0.0.

Flat columns are compared by a kernel. A nested one is taken apart: lists are equal if their lengths and all
their elements are, structs if all their fields are. Maps compare with their entries in order.
"""

from functools import reduce

import pyarrow as pa

from lsmerge.merge.flags import as_booleans
from lsmerge.merge.groups import row_numbers
from lsmerge_native.diff import equal_rows
from lsmerge_native.gather import gatherable


def equal_pairs(
    before: pa.Array, after: pa.Array, before_rows: pa.Buffer, after_rows: pa.Buffer
) -> pa.BooleanArray:
    """For each pair of rows (uint32) whether the values are the same."""
    if gatherable(before):
        return as_booleans(equal_rows(before, after, before_rows, after_rows))
    return _equal(before.take(_numbers(before_rows)), after.take(_numbers(after_rows)))


def _equal(x: pa.Array, y: pa.Array) -> pa.BooleanArray:
    """Row by row. Requires: equal lengths and types."""
    import pyarrow.compute as pc

    if gatherable(x):
        rows = row_numbers(len(x)).cast(pa.uint32()).buffers()[1]
        return as_booleans(equal_rows(x, y, rows, rows))
    present = pc.equal(x.is_valid(), y.is_valid())
    if pa.types.is_struct(x.type):
        fields = zip(x.flatten(), y.flatten(), strict=True)
        return reduce(pc.and_, (_equal(left, right) for left, right in fields), present)
    if pa.types.is_map(x.type):
        entries = pa.list_(pa.struct([x.type.key_field, x.type.item_field]))
        x, y = x.cast(entries), y.cast(entries)
    return _equal_lists(x, y, present)


def _equal_lists(x: pa.Array, y: pa.Array, present: pa.Array) -> pa.BooleanArray:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(x), 0)
    as_long = pc.equal(lengths, pc.fill_null(pc.list_value_length(y), 0))
    candidates = pc.and_(present, as_long)
    lengths = lengths.filter(candidates).cast(pa.int64())
    elements = _equal(x.filter(candidates).flatten(), y.filter(candidates).flatten())
    differing = pc.cumulative_sum(pc.invert(elements).cast(pa.int64()))
    upto = pa.concat_arrays([pa.array([0], pa.int64()), differing])
    ends = pc.cumulative_sum(lengths)
    found = pc.equal(upto.take(ends), upto.take(pc.subtract(ends, lengths)))
    return pc.replace_with_mask(candidates, candidates, found)


def _numbers(rows: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.uint32(), rows.size // 4, [None, rows])
