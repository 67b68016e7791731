"""What changed between two states of some keys: which rows to report, and as which kinds.

`before` and `after` are the keys of the rows that are visible in each state, sorted and distinct.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int32_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, strcmp

from lsmerge_native._arrow cimport (
    LAYOUT_BITS, LAYOUT_FIXED, LAYOUT_OTHER, ArrayView, is_valid, view_array,
)
from lsmerge_native._bits cimport bit_is_set
from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, view_items
from lsmerge_native.keys cimport Keys, KeyView, compare_at, require_comparable, require_rows
from lsmerge_native.reduce cimport make_selection


cdef enum Kind:
    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3


cdef enum Side:
    BEFORE = 0
    AFTER = 1


# The changes in the making: `count` rows so far, of `matched` keys that are in both states.
cdef struct Changes:
    uint16_t* sources
    uint32_t* rows
    int8_t* kinds
    Py_ssize_t count
    Py_ssize_t matched


def common_rows(Keys before not None, Keys after not None):
    """The keys in both states, in key order: their rows before, and their rows after (uint32)."""
    require_comparable(before, after, "common_rows")
    cdef size_t nbytes = min(before.view.length, after.view.length) * sizeof(uint32_t)
    cdef NativeBuffer old = allocate(nbytes), new = allocate(nbytes)
    cdef Py_ssize_t count
    with nogil:
        count = _match(&before.view, &after.view, <uint32_t*> old.ptr, <uint32_t*> new.ptr)
    old.truncate(count * sizeof(uint32_t))
    new.truncate(count * sizeof(uint32_t))
    return old, new


def diff_rows(Keys before not None, Keys after not None, unchanged=None):
    """The changes in key order: a Selection from the sources (before, after), and kinds (int8).

    A key that came is an insert, one that went a delete, one in both states an update: its row
    before and directly behind it its row after. `unchanged` has a byte per key in both states, in
    key order; keys with any but 0 are left out.
    """
    require_comparable(before, after, "diff_rows")
    cdef InputBuffer flags = None
    cdef Py_ssize_t most = before.view.length + after.view.length
    cdef NativeBuffer sources = allocate(most * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(most * sizeof(uint32_t)), kinds = allocate(most)
    cdef Changes changes
    cdef const uint8_t* skipped = NULL
    if unchanged is not None:
        flags = _view_flags(unchanged, before, after)
        skipped = <const uint8_t*> flags.ptr
    changes.sources, changes.rows = <uint16_t*> sources.ptr, <uint32_t*> rows.ptr
    changes.kinds, changes.count, changes.matched = <int8_t*> kinds.ptr, 0, 0
    with nogil:
        _diff(&before.view, &after.view, skipped, &changes)
    sources.truncate(changes.count * sizeof(uint16_t))
    rows.truncate(changes.count * sizeof(uint32_t))
    kinds.truncate(changes.count)
    return make_selection(sources, rows, 2, None, 0), kinds


def equal_rows(before, after, before_rows not None, after_rows not None):
    """Flag the pairs of rows (uint32 each) whose values are the same bytes, or both null.

    So a NaN equals itself, and 0.0 differs from -0.0. TypeError for nested types.
    """
    cdef ArrayView old = view_array(before), new = view_array(after)
    cdef InputBuffer old_rows = view_items(before_rows, sizeof(uint32_t), "before_rows")
    cdef InputBuffer new_rows = view_items(after_rows, sizeof(uint32_t), "after_rows")
    cdef Py_ssize_t count = old_rows.length
    if old.layout == LAYOUT_OTHER or strcmp(old.format, new.format) != 0:
        raise TypeError(
            f"cannot compare Arrow formats '{old.format.decode()}' and '{new.format.decode()}'")
    if <Py_ssize_t> new_rows.length != count:
        raise ValueError(f"{count} rows before, {new_rows.length} rows after")
    require_rows(<const uint32_t*> old_rows.ptr, count, old.length)
    require_rows(<const uint32_t*> new_rows.ptr, count, new.length)
    cdef NativeBuffer flags = allocate(count)
    with nogil:
        _compare(old, new, <const uint32_t*> old_rows.ptr, <const uint32_t*> new_rows.ptr, count,
                 <uint8_t*> flags.ptr)
    return flags


# ---- keys ----


cdef InputBuffer _view_flags(object unchanged, Keys before, Keys after):
    cdef InputBuffer flags = view_items(unchanged, 1, "unchanged")
    cdef Py_ssize_t common
    with nogil:
        common = _match(&before.view, &after.view, NULL, NULL)
    if <Py_ssize_t> flags.length != common:
        raise ValueError(f"unchanged: {flags.length} flags for {common} keys in both states")
    return flags


cdef Py_ssize_t _match(
    const KeyView* before, const KeyView* after, uint32_t* old, uint32_t* new
) noexcept nogil:
    """Count the keys in both states, and list their rows unless `old` is NULL."""
    cdef Py_ssize_t i = 0, j = 0, count = 0
    cdef int order
    while i < before.length and j < after.length:
        order = compare_at(before, i, after, j)
        if order == 0:
            if old != NULL:
                old[count] = <uint32_t> i
                new[count] = <uint32_t> j
            count += 1
        i += order <= 0
        j += order >= 0
    return count


cdef void _diff(
    const KeyView* before, const KeyView* after, const uint8_t* unchanged, Changes* changes
) noexcept nogil:
    cdef Py_ssize_t i = 0, j = 0
    cdef int order
    while i < before.length or j < after.length:
        if i == before.length:
            order = 1
        elif j == after.length:
            order = -1
        else:
            order = compare_at(before, i, after, j)
        if order < 0:
            _emit(changes, BEFORE, i, DELETE)
        elif order > 0:
            _emit(changes, AFTER, j, INSERT)
        else:
            if unchanged == NULL or not unchanged[changes.matched]:
                _emit(changes, BEFORE, i, UPDATE_BEFORE)
                _emit(changes, AFTER, j, UPDATE_AFTER)
            changes.matched += 1
        i += order <= 0
        j += order >= 0


cdef inline void _emit(Changes* changes, Side side, Py_ssize_t row, Kind kind) noexcept nogil:
    changes.sources[changes.count] = side
    changes.rows[changes.count] = <uint32_t> row
    changes.kinds[changes.count] = kind
    changes.count += 1


# ---- values ----


cdef void _compare(
    ArrayView old, ArrayView new, const uint32_t* old_rows, const uint32_t* new_rows,
    Py_ssize_t count, uint8_t* flags,
) noexcept nogil:
    cdef Py_ssize_t k
    cdef bint is_set
    for k in range(count):
        is_set = is_valid(old, old_rows[k])
        if is_set != is_valid(new, new_rows[k]):
            flags[k] = 0
        else:
            flags[k] = not is_set or _same(old, old_rows[k], new, new_rows[k])


cdef inline bint _same(ArrayView old, Py_ssize_t i, ArrayView new, Py_ssize_t j) noexcept nogil:
    cdef const int32_t* old_ends = NULL
    cdef const int32_t* new_ends = NULL
    cdef Py_ssize_t size
    if old.layout == LAYOUT_BITS:
        return (bit_is_set(<const uint8_t*> old.data, old.offset + i)
                == bit_is_set(<const uint8_t*> new.data, new.offset + j))
    if old.layout == LAYOUT_FIXED:
        return memcmp(old.values() + i * old.width, new.values() + j * new.width, old.width) == 0
    old_ends, new_ends = old.offsets + old.offset + i, new.offsets + new.offset + j
    size = old_ends[1] - old_ends[0]
    return (size == new_ends[1] - new_ends[0]
            and (size == 0 or memcmp(old.bytes + old_ends[0], new.bytes + new_ends[0], size) == 0))
