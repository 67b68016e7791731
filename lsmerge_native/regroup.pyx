"""Merge plans made from merge plans, and flags on their rows and groups.

Flags are bytes, one per row of the plan in plan order or one per group; any but 0 means yes, and
those made here are 0 or 1. Plans made here may have empty groups: reducers pick null from them.
"""

from libc.stdint cimport uint8_t, uint32_t

from lsmerge_native._bits cimport bit_is_set
from lsmerge_native._column cimport Column, Part
from lsmerge_native._group_sort cimport sort_groups
from lsmerge_native._operands cimport view_keys, view_kinds
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items,
)
from lsmerge_native.plan cimport MergePlan, derive_plan, finish_plan
from lsmerge_native.reduce cimport Selection


cdef enum:
    KIND_CODES = 256  # values of a byte
    MASK_BITS = 32


def filter_rows(MergePlan plan not None, keep not None):
    """Keep the flagged rows. The groups stay, also those that lose all their rows."""
    cdef InputBuffer items = _view_flags(keep, plan.num_rows, "keep", "rows")
    cdef const uint8_t* flags = <const uint8_t*> items.ptr
    cdef MergePlan kept
    cdef Py_ssize_t count
    with nogil:
        count = _count_flags(flags, plan.num_rows)
    if count == plan.num_rows:
        return plan
    kept = derive_plan(plan, count, plan.num_groups)
    with nogil:
        _store_rows(plan, flags, kept)
    return finish_plan(kept)


def filter_groups(MergePlan plan not None, keep not None):
    """Keep the flagged groups, whole."""
    cdef InputBuffer items = _view_flags(keep, plan.num_groups, "keep", "groups")
    cdef const uint8_t* flags = <const uint8_t*> items.ptr
    cdef MergePlan kept
    cdef Py_ssize_t num_groups, num_rows
    with nogil:
        num_groups = _count_flags(flags, plan.num_groups)
        num_rows = _count_rows(plan, flags)
    if num_groups == plan.num_groups:
        return plan
    kept = derive_plan(plan, num_rows, num_groups)
    with nogil:
        _store_groups(plan, flags, kept)
    return finish_plan(kept)


def rows_after_last(MergePlan plan not None, flags not None):
    """Flag the rows that come after the last flagged row of their group, or all if it has none."""
    cdef InputBuffer items = _view_flags(flags, plan.num_rows, "flags", "rows")
    cdef NativeBuffer after = allocate(plan.num_rows)
    with nogil:
        _flag_after(plan, <const uint8_t*> items.ptr, <uint8_t*> after.ptr)
    return after


def any_in_group(MergePlan plan not None, flags not None):
    """Flag the groups that have a flagged row."""
    cdef InputBuffer items = _view_flags(flags, plan.num_rows, "flags", "rows")
    cdef NativeBuffer found = allocate(plan.num_groups)
    with nogil:
        _flag_groups(plan, <const uint8_t*> items.ptr, <uint8_t*> found.ptr)
    return found


def flagged_kinds(MergePlan plan not None, kinds, uint32_t wanted):
    """Flag the rows whose kind (int8) is wanted: bit `kind` of `wanted` is set."""
    cdef Column column = view_kinds(plan, kinds)
    cdef NativeBuffer flags = allocate(plan.num_rows)
    cdef uint8_t is_wanted[KIND_CODES]
    cdef int code
    for code in range(KIND_CODES):
        is_wanted[code] = code < MASK_BITS and (wanted >> code) & 1
    with nogil:
        _flag_kinds(plan, column.parts, is_wanted, <uint8_t*> flags.ptr)
    return flags


def kinds_seen(MergePlan plan not None, kinds):
    """Return the kinds (int8) of the rows: bit `kind` is set if a row has it."""
    cdef Column column = view_kinds(plan, kinds)
    cdef uint32_t seen
    with nogil:
        seen = _see_kinds(plan, column.parts)
    return seen


def picked_rows(MergePlan plan not None, selections):
    """Flag the rows that some selection picked. A selection has one pick per group of the plan;
    null picks flag nothing.
    """
    cdef NativeBuffer flags = allocate_zeroed(plan.num_rows)
    cdef Selection selection
    for selection in selections:
        if selection.length != plan.num_groups:
            raise ValueError(f"{selection.length} picks for {plan.num_groups} groups")
        with nogil:
            _flag_picks(plan, selection, <uint8_t*> flags.ptr)
    return flags


def order_rows(MergePlan plan not None, order):
    """Sort the rows of each group by order[source] at their row; equal ones stay as they are."""
    return sort_groups(plan, view_keys(plan, order, "order"))


cdef InputBuffer _view_flags(object flags, Py_ssize_t expected, str what, str counted):
    cdef InputBuffer items = view_items(flags, 1, what)
    if <Py_ssize_t> items.length != expected:
        raise ValueError(f"{what}: {items.length} flags for {expected} {counted}")
    return items


# ---- keeping ----


cdef Py_ssize_t _count_flags(const uint8_t* flags, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i, count = 0
    for i in range(length):
        count += flags[i] != 0
    return count


cdef Py_ssize_t _count_rows(MergePlan plan, const uint8_t* keep) noexcept nogil:
    cdef Py_ssize_t group, count = 0
    for group in range(plan.num_groups):
        if keep[group]:
            count += plan.start_ptr[group + 1] - plan.start_ptr[group]
    return count


cdef void _store_rows(MergePlan plan, const uint8_t* keep, MergePlan kept) noexcept nogil:
    cdef Py_ssize_t group, i, count = 0, empty = 0
    for group in range(plan.num_groups):
        kept.start_ptr[group] = <uint32_t> count
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            # A dropped row is stored as well and then overwritten; the last one in the padding.
            kept.source_ptr[count] = plan.source_ptr[i]
            kept.row_ptr[count] = plan.row_ptr[i]
            count += keep[i] != 0
        empty += kept.start_ptr[group] == count
    kept.num_empty_groups = empty


cdef void _store_groups(MergePlan plan, const uint8_t* keep, MergePlan kept) noexcept nogil:
    cdef Py_ssize_t group, i, count = 0, stored = 0, empty = 0
    for group in range(plan.num_groups):
        if not keep[group]:
            continue
        kept.start_ptr[stored] = <uint32_t> count
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            kept.source_ptr[count] = plan.source_ptr[i]
            kept.row_ptr[count] = plan.row_ptr[i]
            count += 1
        empty += kept.start_ptr[stored] == count
        stored += 1
    kept.num_empty_groups = empty


# ---- flagging ----


cdef void _flag_after(MergePlan plan, const uint8_t* flags, uint8_t* after) noexcept nogil:
    cdef Py_ssize_t group, i
    cdef uint8_t none_yet
    for group in range(plan.num_groups):
        none_yet = 1
        for i in range(<Py_ssize_t> plan.start_ptr[group + 1] - 1,
                       <Py_ssize_t> plan.start_ptr[group] - 1, -1):
            none_yet &= flags[i] == 0
            after[i] = none_yet


cdef void _flag_groups(MergePlan plan, const uint8_t* flags, uint8_t* found) noexcept nogil:
    cdef Py_ssize_t group, i
    cdef uint8_t flag
    for group in range(plan.num_groups):
        flag = 0
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            flag |= flags[i] != 0
        found[group] = flag


cdef void _flag_kinds(
    MergePlan plan, const Part* kinds, const uint8_t* is_wanted, uint8_t* flags
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(plan.num_rows):
        flags[i] = is_wanted[kinds[plan.source_ptr[i]].values[plan.row_ptr[i]]]


cdef uint32_t _see_kinds(MergePlan plan, const Part* kinds) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint32_t seen = 0
    cdef uint8_t kind
    for i in range(plan.num_rows):
        kind = kinds[plan.source_ptr[i]].values[plan.row_ptr[i]]
        seen |= <uint32_t> (kind < MASK_BITS) << (kind & (MASK_BITS - 1))
    return seen


cdef void _flag_picks(MergePlan plan, Selection selection, uint8_t* flags) noexcept nogil:
    cdef const uint8_t* valid = NULL
    cdef Py_ssize_t group, i
    if selection.validity is not None:
        valid = <const uint8_t*> selection.validity.ptr
    for group in range(plan.num_groups):
        if valid != NULL and not bit_is_set(valid, group):
            continue
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            flags[i] |= ((plan.row_ptr[i] == selection.row_ptr[group])
                         & (plan.source_ptr[i] == selection.source_ptr[group]))
