"""Which columns a row wrote, where that is not all of them.

A row of some columns holds null in all others, and a bitmap of those it wrote in the hidden column `_WRITTEN_FIELDS`:
bit `id % 8` of byte `id // 8` for the field id of a column, so that it outlives renamed, added and dropped columns.
Bits beyond the end are 0, those of key columns do not count. Null stands for the whole row, and so does a source
without the column.

Flags are bytes, 0 or 1, one per row of a plan or one per group, as in lsmerge_native.regroup.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from functools import cached_property

import pyarrow as pa

from lsmerge.merge.flags import Flags, as_booleans, as_bytes, as_flags
from lsmerge.merge.groups import Groups, row_numbers, take_rows
from lsmerge.rowkind import WRITTEN_COLUMN
from lsmerge.schema import WRITTEN_FIELD
from lsmerge_native.plan import MergePlan
from lsmerge_native.reduce import all_rows


class TargetColumns(Enum):
    """What an engine makes of rows that write some columns only."""

    KEPT = auto()  # other columns keep their value, so that rows remember what they wrote
    AS_NULLS = auto()  # other columns are null, which says no more there
    REFUSED = auto()


class Written:
    """What the rows of a window wrote."""

    def __init__(self, groups: Groups) -> None:
        self._arrays = groups.written

    def wrote(self, plan: MergePlan, field_id: int) -> pa.Buffer:
        """Flag the rows that wrote a column."""
        return _flags(plan, [_with_bit(bitmaps, field_id) for bitmaps in self._encoded])

    def partial(self, plan: MergePlan) -> pa.Buffer:
        """Flag the rows that wrote some columns only."""
        return _flags(plan, [array.is_valid() for array in self._arrays])

    @cached_property
    def _encoded(self) -> list[pa.Array]:
        # Writers have few lists of columns, so that a bit is looked up in few bitmaps.
        return [
            array if array.null_count == len(array) else array.dictionary_encode()
            for array in self._arrays
        ]


def _flags(plan: MergePlan, masks: list[pa.Array]) -> pa.Buffer:
    return as_flags(take_rows(masks, all_rows(plan)))


def bitmap(field_ids: Iterable[int]) -> bytes:
    """The bitmap of some columns."""
    bits = sum(1 << number for number in field_ids)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def wrote(batch: pa.RecordBatch, field_id: int) -> bool:
    """Whether a column was written. Requires: all rows wrote the same columns."""
    if not is_targeted(batch) or batch.num_rows == 0:
        return True
    known = batch.column(WRITTEN_COLUMN)[0].as_py()
    return known is None or _has_bit(known, field_id)


def bitmaps(flags: Mapping[int, Flags], count: int) -> pa.Array:
    """A bitmap per group from the flags of each field id; null where all are set."""
    import pyarrow.compute as pc

    width = max(flags, default=0) // 8 + 1
    packed = bytearray(width * count)
    is_whole = pa.repeat(pa.scalar(True), count)
    for number in range(width):
        packed[number::width] = _packed_byte(flags, number, count)
    for some in flags.values():
        is_whole = pc.and_(is_whole, as_booleans(some))
    ends = pc.multiply(row_numbers(count + 1), pa.scalar(width, pa.int64())).cast(pa.int32())
    whole = pa.Array.from_buffers(
        pa.binary(), count, [None, ends.buffers()[1], pa.py_buffer(packed)]
    )
    return pc.if_else(is_whole, pa.scalar(None, pa.binary()), whole)


def is_targeted(batch: pa.RecordBatch) -> bool:
    """Whether the operands say what they wrote."""
    return WRITTEN_COLUMN in batch.schema.names


def with_written(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same operands, all of which say what they wrote."""
    if is_targeted(batch):
        return batch
    return batch.append_column(WRITTEN_FIELD, pa.nulls(batch.num_rows, pa.binary()))


def without_written(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same operands; whole rows need not say what they wrote."""
    if not is_targeted(batch):
        return batch
    if batch.column(WRITTEN_COLUMN).null_count < batch.num_rows:
        return batch
    return batch.drop_columns([WRITTEN_COLUMN])


def both(first: Flags, second: Flags) -> pa.Buffer:
    """Flags that are set in both."""
    import pyarrow.compute as pc

    return pc.bit_wise_and(as_bytes(first), as_bytes(second)).buffers()[1]


def either(first: Flags, second: Flags) -> pa.Buffer:
    """Flags that are set in one or both."""
    import pyarrow.compute as pc

    return pc.bit_wise_or(as_bytes(first), as_bytes(second)).buffers()[1]


def inverted(flags: Flags) -> bytes:
    """Flags that are not set."""
    return bytes(flags).translate(_INVERSION)


_INVERSION = bytes([1, *([0] * 255)])


def any_set(flags: Flags) -> bool:
    """Whether a flag is set."""
    return 1 in bytes(flags)


def _with_bit(encoded: pa.Array, field_id: int) -> pa.Array:
    """Whether each bitmap has a bit, the null one included."""
    if encoded.null_count == len(encoded):
        return pa.repeat(pa.scalar(True), len(encoded))
    has_bit = [_has_bit(known, field_id) for known in encoded.dictionary.to_pylist()]
    return pa.array(has_bit, pa.bool_()).take(encoded.indices).fill_null(True)


def _has_bit(known: bytes, field_id: int) -> bool:
    place, bit = divmod(field_id, 8)
    return place < len(known) and bool(known[place] >> bit & 1)


def _packed_byte(flags: Mapping[int, Flags], place: int, count: int) -> bytes:
    """One byte of every bitmap."""
    import pyarrow.compute as pc

    packed = pa.repeat(pa.scalar(0, pa.uint8()), count)
    for field_id, some in flags.items():
        if field_id // 8 == place:
            bits = pc.shift_left(as_bytes(some), pa.scalar(field_id % 8, pa.uint8()))
            packed = pc.bit_wise_or(packed, bits)
    return bytes(packed.buffers()[1])
