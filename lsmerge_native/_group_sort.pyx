"""Sorts the rows inside each group of a merge plan, by merge sort on 8-byte prefixes of their keys.

Groups are small and mostly in order already: those cost one pass over their keys.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from lsmerge_native._operands cimport KeyColumn
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.keys cimport KeyView, compare_at, compare_tail, prefix_at
from lsmerge_native.plan cimport MergePlan, derive_plan, finish_plan


cdef enum:
    INSERTION_ROWS = 12  # at most so many rows are sorted by insertion


# A row while it is being sorted.
cdef struct Entry:
    uint64_t prefix
    uint32_t row
    uint16_t source


cdef MergePlan sort_groups(MergePlan plan, KeyColumn keys):
    cdef NativeBuffer unordered = allocate(plan.num_groups), entries
    cdef uint8_t* flags = <uint8_t*> unordered.ptr
    cdef MergePlan ordered
    cdef Py_ssize_t largest
    with nogil:
        largest = _flag_unordered(plan, keys.views, flags)
    if largest == 0:
        return plan
    ordered = derive_plan(plan, plan.num_rows, plan.num_groups)
    ordered.num_empty_groups = plan.num_empty_groups
    entries = allocate(2 * largest * sizeof(Entry))
    with nogil:
        memcpy(ordered.source_ptr, plan.source_ptr, plan.num_rows * sizeof(uint16_t))
        memcpy(ordered.row_ptr, plan.row_ptr, plan.num_rows * sizeof(uint32_t))
        memcpy(ordered.start_ptr, plan.start_ptr, (plan.num_groups + 1) * sizeof(uint32_t))
        _sort_flagged(ordered, keys.views, flags, <Entry*> entries.ptr, largest)
    return finish_plan(ordered)


cdef Py_ssize_t _flag_unordered(
    MergePlan plan, const KeyView* keys, uint8_t* flags
) noexcept nogil:
    """Flag the groups that are not in order; return the rows of the largest of them, or 0."""
    cdef Py_ssize_t group, rows, largest = 0
    for group in range(plan.num_groups):
        flags[group] = not _is_ordered(plan, keys, group)
        if flags[group]:
            rows = plan.start_ptr[group + 1] - plan.start_ptr[group]
            largest = max(largest, rows)
    return largest


cdef inline bint _is_ordered(MergePlan plan, const KeyView* keys, Py_ssize_t group) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(<Py_ssize_t> plan.start_ptr[group] + 1, plan.start_ptr[group + 1]):
        if compare_at(keys + plan.source_ptr[i - 1], plan.row_ptr[i - 1],
                      keys + plan.source_ptr[i], plan.row_ptr[i]) > 0:
            return False
    return True


cdef void _sort_flagged(
    MergePlan plan, const KeyView* keys, const uint8_t* flags, Entry* entries, Py_ssize_t largest
) noexcept nogil:
    """Sort the flagged groups in place. `entries` has room for twice the largest of them."""
    cdef Py_ssize_t group, i, start, count
    for group in range(plan.num_groups):
        if not flags[group]:
            continue
        start = plan.start_ptr[group]
        count = plan.start_ptr[group + 1] - start
        for i in range(count):
            entries[i].source = plan.source_ptr[start + i]
            entries[i].row = plan.row_ptr[start + i]
            entries[i].prefix = prefix_at(keys + entries[i].source, entries[i].row)
        _merge_sort(keys, entries, count, entries + largest)
        for i in range(count):
            plan.source_ptr[start + i] = entries[i].source
            plan.row_ptr[start + i] = entries[i].row


cdef inline bint _is_greater(const KeyView* keys, const Entry* a, const Entry* b) noexcept nogil:
    if a.prefix != b.prefix:
        return a.prefix > b.prefix
    return compare_tail(keys + a.source, a.row, keys + b.source, b.row) > 0


cdef void _merge_sort(
    const KeyView* keys, Entry* entries, Py_ssize_t count, Entry* scratch
) noexcept nogil:
    cdef Py_ssize_t half = count // 2
    if count <= INSERTION_ROWS:
        _insertion_sort(keys, entries, count)
        return
    _merge_sort(keys, entries, half, scratch)
    _merge_sort(keys, entries + half, count - half, scratch)
    if _is_greater(keys, entries + half - 1, entries + half):
        _merge_halves(keys, entries, half, count, scratch)


cdef void _insertion_sort(const KeyView* keys, Entry* entries, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, place
    cdef Entry entry
    for i in range(1, count):
        entry = entries[i]
        place = i
        while place > 0 and _is_greater(keys, entries + place - 1, &entry):
            entries[place] = entries[place - 1]
            place -= 1
        entries[place] = entry


cdef void _merge_halves(
    const KeyView* keys, Entry* entries, Py_ssize_t half, Py_ssize_t count, Entry* scratch
) noexcept nogil:
    """Merge entries[:half] and entries[half:count]; of equal ones the left comes first."""
    cdef Py_ssize_t left = 0, right = half, out = 0
    memcpy(scratch, entries, half * sizeof(Entry))
    while left < half and right < count:
        if _is_greater(keys, scratch + left, entries + right):
            entries[out] = entries[right]
            right += 1
        else:
            entries[out] = scratch[left]
            left += 1
        out += 1
    memcpy(entries + out, scratch + left, (half - left) * sizeof(Entry))
