"""Joins the strings of each group of a merge plan, in plan order, with a delimiter between them.

Nulls are passed over; a group that is empty or of nulls only gives a null. First the places of the
output strings are found, then their bytes are copied.
"""

from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy

from lsmerge_native._arrow cimport LAYOUT_VARIABLE
from lsmerge_native._bits cimport bitmap_bytes, set_bit
from lsmerge_native._column cimport Column, Part, is_valid
from lsmerge_native._operands cimport view_operands
from lsmerge_native._strings cimport copy_string
from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed
from lsmerge_native.plan cimport MergePlan


cdef struct Delimiter:
    const char* bytes
    size_t size


cdef tuple concat_groups(MergePlan plan, object arrays, bytes delimiter):
    cdef Column column = view_operands(plan, arrays, "arrays")
    cdef NativeBuffer offsets = allocate((plan.num_groups + 1) * sizeof(int32_t))
    cdef NativeBuffer validity = allocate_zeroed(bitmap_bytes(plan.num_groups)), out
    cdef int32_t* ends = <int32_t*> offsets.ptr
    cdef Delimiter between = Delimiter(<const char*> delimiter, len(delimiter))
    cdef int64_t total = 0
    cdef Py_ssize_t null_count
    if column.layout != LAYOUT_VARIABLE:
        raise TypeError(f"cannot join arrays of Arrow format '{column.format.decode()}'")
    with nogil:
        null_count = _place(
            plan, column.parts, between.size, <uint8_t*> validity.ptr, ends, &total)
    if total > INT32_MAX:
        raise OverflowError(
            f"{total} bytes of joined strings in {plan.num_groups} groups; "
            f"one array holds {INT32_MAX}")
    out = allocate(total)
    with nogil:
        _copy(plan, column.parts, &between, <uint8_t*> out.ptr)
    # Short copies store whole chunks and may have left bytes in the padding.
    out.truncate(total)
    return null_count, [validity if null_count else None, offsets, out]


cdef Py_ssize_t _place(
    MergePlan plan, const Part* parts, int64_t between, uint8_t* valid, int32_t* ends,
    int64_t* total,
) noexcept nogil:
    """Write validity and output offsets, which are of use if `total` fits; return the nulls."""
    cdef Py_ssize_t group, i, row, null_count = 0
    cdef int64_t end = 0, size, count, is_value
    cdef uint16_t source
    ends[0] = 0
    for group in range(plan.num_groups):
        size, count = 0, 0
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            source, row = plan.source_ptr[i], plan.row_ptr[i]
            # Nulls come in no order that a processor could learn: they add 0, without a branch.
            is_value = is_valid(parts + source, row)
            count += is_value
            size += -is_value & (
                parts[source].offsets[row + 1] - parts[source].offsets[row] + between)
        if count:
            set_bit(valid, group)
            end += size - between
        else:
            null_count += 1
        ends[group + 1] = <int32_t> end
    total[0] = end
    return null_count


cdef void _copy(
    MergePlan plan, const Part* parts, const Delimiter* between, uint8_t* out
) noexcept nogil:
    cdef const Part* part
    cdef Py_ssize_t group, i, row
    cdef size_t nbytes
    cdef bint found
    for group in range(plan.num_groups):
        found = False
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            part, row = parts + plan.source_ptr[i], plan.row_ptr[i]
            if not is_valid(part, row):
                continue
            if found:
                memcpy(out, between.bytes, between.size)
                out += between.size
            found = True
            nbytes = part.offsets[row + 1] - part.offsets[row]
            if nbytes:  # an empty string may have no address
                copy_string(out, part.bytes + part.offsets[row], nbytes, part.bytes_end)
                out += nbytes
