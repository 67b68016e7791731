"""A plan over rows in several batches, taken in portions: it keeps a flush within its memory."""

from libc.stdint cimport UINT16_MAX, uint16_t, UINT32_MAX, uint32_t
from libc.string cimport memcpy

from lsmerge_native.buffers cimport allocate, InputBuffer, NativeBuffer, view_items
from lsmerge_native.plan cimport allocate_plan, derive_plan, finish_plan, MergePlan


def spread_rows(MergePlan plan not None, lengths not None):
    """The same plan where the rows of its one source lie, one after the other, in several sources.

    `lengths` (uint32) has the rows of each of them.
    """
    cdef InputBuffer items = view_items(lengths, sizeof(uint32_t), "lengths")
    cdef const uint32_t* length = <const uint32_t*> items.ptr
    cdef Py_ssize_t count = items.length
    cdef NativeBuffer firsts = first_rows(plan, length, count)
    cdef MergePlan spread = allocate_plan(plan.num_rows, count)
    spread.num_groups = plan.num_groups
    spread.starts, spread.start_ptr = plan.starts, plan.start_ptr
    with nogil:
        locate_rows(plan, <const uint32_t*> firsts.ptr, count, spread)
    return spread


def slice_groups(MergePlan plan not None, Py_ssize_t start, Py_ssize_t stop):
    """The plan of groups [start, stop) alone."""
    if not 0 <= start <= stop <= plan.num_groups:
        raise IndexError(f"groups {start} to {stop} of a plan of {plan.num_groups}")
    cdef uint32_t first = plan.start_ptr[start]
    cdef Py_ssize_t rows = plan.start_ptr[stop] - first, i
    cdef MergePlan part = derive_plan(plan, rows, stop - start)
    with nogil:
        memcpy(part.source_ptr, plan.source_ptr + first, rows * sizeof(uint16_t))
        memcpy(part.row_ptr, plan.row_ptr + first, rows * sizeof(uint32_t))
        for i in range(stop - start):
            part.start_ptr[i] = plan.start_ptr[start + i] - first
            part.num_empty_groups += plan.start_ptr[start + i] == plan.start_ptr[start + i + 1]
    return finish_plan(part)


cdef NativeBuffer first_rows(MergePlan plan, const uint32_t* length, Py_ssize_t count):
    """Where each source begins, and the end of the last."""
    cdef Py_ssize_t total = 0, i
    if plan.num_sources != 1 or not 0 < count <= UINT16_MAX:
        raise ValueError(f"cannot spread {plan.num_sources} sources over {count}")
    cdef NativeBuffer firsts = allocate((count + 1) * sizeof(uint32_t))
    cdef uint32_t* first = <uint32_t*> firsts.ptr
    for i in range(count):
        first[i] = <uint32_t> total
        total += length[i]
    first[count] = <uint32_t> total
    if total < plan.num_rows or total > UINT32_MAX:
        raise ValueError(f"{total} rows cannot hold a plan of {plan.num_rows}")
    return firsts


cdef void locate_rows(
    MergePlan plan, const uint32_t* first, Py_ssize_t count, MergePlan spread
) noexcept nogil:
    """Find the source of each row: the last one that begins at or before it and is not empty."""
    cdef Py_ssize_t i, low, high, middle, source = 0
    cdef uint32_t row
    for i in range(plan.num_rows):
        row = plan.row_ptr[i]
        # Neighbours in key order are often neighbours in arrival.
        if not first[source] <= row < first[source + 1]:
            low, high = 0, count
            while high - low > 1:
                middle = (low + high) // 2
                if first[middle] <= row:
                    low = middle
                else:
                    high = middle
            source = low
        spread.source_ptr[i] = <uint16_t> source
        spread.row_ptr[i] = row - first[source]
