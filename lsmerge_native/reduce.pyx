"""Picks rows out of the groups of a merge plan, and drops rows that were picked.

The rows of a group are in merge order, so that the last is the newest. `arrays`, `kinds` and
`sequences` are the arrays of one column, one per source of the plan. The result is a Selection,
which is immutable and which gather() follows once per column.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t

from lsmerge_native._bits cimport bitmap_bytes, set_bit
from lsmerge_native._column cimport Column, Part, is_valid, view_column
from lsmerge_native._footprint cimport Footprint, measure, row_limits
from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed
from lsmerge_native.plan cimport MergePlan


cdef enum Direction:
    FROM_FIRST
    FROM_LAST


@cython.final
@cython.auto_pickle(False)
cdef class Selection:
    """Rows picked from several sources; of each, the source, the row there, and whether it is null.
    """

    def __init__(self):
        raise TypeError("a Selection is made by a reducer, such as pick_last()")

    def __len__(self):
        return self.length

    cdef Footprint footprint(self):
        with cython.critical_section(self):
            if self._footprint is None:
                self._footprint = measure(
                    self.source_ptr, self.row_ptr, self.length, self.num_sources)
            return self._footprint


def pick_last(MergePlan plan not None):
    """Select the last row of each group."""
    return _pick_end(plan, FROM_LAST)


def pick_first(MergePlan plan not None):
    """Select the first row of each group."""
    return _pick_end(plan, FROM_FIRST)


def pick_last_valid(MergePlan plan not None, arrays):
    """Select, of each group, the last row whose value is not null; none gives a null pick."""
    return _pick_valid(plan, arrays, FROM_LAST)


def pick_first_valid(MergePlan plan not None, arrays):
    """Select, of each group, the first row whose value is not null; none gives a null pick."""
    return _pick_valid(plan, arrays, FROM_FIRST)


def all_rows(MergePlan plan not None):
    """Select every row, in plan order."""
    return _make_selection(plan.sources, plan.rows, plan.num_sources, None, 0)


def keep_adds(Selection selection not None, kinds):
    """Drop the rows whose kind (int8) is a retract: bit 0 is set."""
    cdef Column kind_column = _view_exact(kinds, b"c", "kinds", selection)
    cdef NativeBuffer kept = allocate(selection.length)
    with nogil:
        _mark_adds(selection, kind_column.parts, <uint8_t*> kept.ptr)
    return _keep_marked(selection, kept)


def keep_newer(Selection selection not None, kinds, sequences, int64_t horizon):
    """Drop the retracts whose sequence number is below `horizon`. sequences[i] is (Arrow int64
    array, base), and a sequence number is base + value.
    """
    cdef Column kind_column = _view_exact(kinds, b"c", "kinds", selection)
    cdef Column sequence_column = _view_exact(
        [array for array, _ in sequences], b"l", "sequences", selection)
    cdef NativeBuffer bases = _pack_longs([base for _, base in sequences])
    cdef NativeBuffer kept = allocate(selection.length)
    with nogil:
        _mark_adds(selection, kind_column.parts, <uint8_t*> kept.ptr)
        _mark_newer(selection, sequence_column.parts, <const int64_t*> bases.ptr, horizon,
                    <uint8_t*> kept.ptr)
    return _keep_marked(selection, kept)


cdef Selection _pick_end(MergePlan plan, Direction direction):
    if plan.num_groups == plan.num_rows:
        return all_rows(plan)
    cdef NativeBuffer sources = allocate(plan.num_groups * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(plan.num_groups * sizeof(uint32_t))
    cdef uint16_t* source_out = <uint16_t*> sources.ptr
    cdef uint32_t* row_out = <uint32_t*> rows.ptr
    # The end of a group is the start of the next.
    cdef const uint32_t* start = plan.start_ptr + (direction == FROM_LAST)
    cdef uint32_t back = direction == FROM_LAST
    cdef Py_ssize_t i
    with nogil:
        for i in range(plan.num_groups):
            source_out[i] = plan.source_ptr[start[i] - back]
            row_out[i] = plan.row_ptr[start[i] - back]
    return _make_selection(sources, rows, plan.num_sources, None, 0)


cdef Selection _pick_valid(MergePlan plan, object arrays, Direction direction):
    cdef NativeBuffer limits = row_limits(
        plan.source_ptr, plan.row_ptr, plan.num_rows, plan.num_sources)
    cdef Column column = view_column(arrays, "arrays", limits)
    if not column.has_nulls:
        return _pick_end(plan, direction)
    cdef NativeBuffer sources = allocate(plan.num_groups * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(plan.num_groups * sizeof(uint32_t))
    cdef NativeBuffer validity = allocate_zeroed(bitmap_bytes(plan.num_groups))
    cdef uint16_t* source_out = <uint16_t*> sources.ptr
    cdef uint32_t* row_out = <uint32_t*> rows.ptr
    cdef Py_ssize_t i, picked, null_count = 0
    with nogil:
        for i in range(plan.num_groups):
            picked = _find_valid(plan, column.parts, i, direction)
            if picked >= 0:
                set_bit(<uint8_t*> validity.ptr, i)
            else:
                null_count += 1
                picked = plan.start_ptr[i]
            source_out[i] = plan.source_ptr[picked]
            row_out[i] = plan.row_ptr[picked]
    return _make_selection(
        sources, rows, plan.num_sources, validity if null_count else None, null_count)


cdef inline Py_ssize_t _find_valid(
    MergePlan plan, const Part* parts, Py_ssize_t group, Direction direction
) noexcept nogil:
    """The first place in the plan, seen from `direction`, where the group is not null; or -1."""
    cdef Py_ssize_t start = plan.start_ptr[group]
    cdef Py_ssize_t count = plan.start_ptr[group + 1] - start
    cdef Py_ssize_t k, at
    for k in range(count):
        at = start + (count - 1 - k if direction == FROM_LAST else k)
        if is_valid(parts + plan.source_ptr[at], plan.row_ptr[at]):
            return at
    return -1


cdef Column _view_exact(object arrays, bytes code, str what, Selection selection):
    """View a system column: of one Arrow format, without nulls, for a selection without nulls."""
    cdef Column column = view_column(arrays, what, selection.footprint().limits)
    if column.format != code:
        raise TypeError(
            f"{what}: Arrow format '{code.decode()}' is needed, got '{column.format.decode()}'")
    if column.has_nulls or selection.null_count:
        raise ValueError(f"{what}: a row without a value can neither be kept nor dropped")
    return column


cdef NativeBuffer _pack_longs(list values):
    cdef NativeBuffer packed = allocate(len(values) * sizeof(int64_t))
    cdef Py_ssize_t i
    for i in range(len(values)):
        (<int64_t*> packed.ptr)[i] = values[i]
    return packed


cdef void _mark_adds(Selection selection, const Part* kinds, uint8_t* kept) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(selection.length):
        kept[i] = ~kinds[selection.source_ptr[i]].values[selection.row_ptr[i]] & 1


cdef void _mark_newer(
    Selection selection, const Part* sequences, const int64_t* bases, int64_t horizon,
    uint8_t* kept,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint16_t source
    cdef const int64_t* values
    for i in range(selection.length):
        source = selection.source_ptr[i]
        values = <const int64_t*> sequences[source].values
        kept[i] |= bases[source] + values[selection.row_ptr[i]] >= horizon


cdef Selection _keep_marked(Selection selection, NativeBuffer kept):
    """The rows of the selection whose byte in `kept` is 1, not 0."""
    cdef const uint8_t* marks = <const uint8_t*> kept.ptr
    cdef Py_ssize_t count
    with nogil:
        count = _count_marks(marks, selection.length)
    if count == selection.length:
        return selection
    # One place more than needed: a dropped row is stored as well, and then overwritten.
    cdef NativeBuffer sources = allocate((count + 1) * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate((count + 1) * sizeof(uint32_t))
    with nogil:
        _store_marked(selection, marks, <uint16_t*> sources.ptr, <uint32_t*> rows.ptr)
    sources.truncate(count * sizeof(uint16_t))
    rows.truncate(count * sizeof(uint32_t))
    return _make_selection(sources, rows, selection.num_sources, None, 0)


cdef Py_ssize_t _count_marks(const uint8_t* marks, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i, count = 0
    for i in range(length):
        count += marks[i]
    return count


cdef void _store_marked(
    Selection selection, const uint8_t* marks, uint16_t* sources, uint32_t* rows
) noexcept nogil:
    cdef Py_ssize_t i, count = 0
    for i in range(selection.length):
        sources[count] = selection.source_ptr[i]
        rows[count] = selection.row_ptr[i]
        count += marks[i]


cdef Selection _make_selection(
    NativeBuffer sources, NativeBuffer rows, Py_ssize_t num_sources, NativeBuffer validity,
    Py_ssize_t null_count,
):
    cdef Selection selection = Selection.__new__(Selection)
    selection.sources = sources
    selection.rows = rows
    selection.validity = validity
    selection.null_count = null_count
    selection.num_sources = num_sources
    selection.length = rows.size // sizeof(uint32_t)
    selection.source_ptr = <const uint16_t*> sources.ptr
    selection.row_ptr = <const uint32_t*> rows.ptr
    return selection
