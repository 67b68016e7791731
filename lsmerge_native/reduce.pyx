"""Picks rows out of the groups of a merge plan, and drops rows that were picked.

The rows of a group are in merge order, so that the last is the newest. `arrays`, `kinds` and
`sequences` are the arrays of one column, one per source of the plan, and `keys` the Keys of each.
The result is a Selection, which is immutable and which gather() follows once per column. The pick
of an empty group is null.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from lsmerge_native._bits cimport bitmap_bytes, set_bit
from lsmerge_native._column cimport Column, Part, is_valid
from lsmerge_native._footprint cimport Footprint, measure
from lsmerge_native._operands cimport KeyColumn, view_exact, view_keys, view_operands
from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed
from lsmerge_native.keys cimport KeyView, compare_tail, prefix_at, word_at
from lsmerge_native.plan cimport MergePlan


cdef enum Direction:
    FROM_FIRST
    FROM_LAST


cdef enum Extreme:
    LEAST = -1
    GREATEST = 1


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
                    self.source_ptr, self.row_ptr, self.length, self.num_sources, self._limits)
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


def pick_greatest(MergePlan plan not None, keys, arrays):
    """Select, of each group, the first row with the greatest key among those that are not null in
    `arrays`; none gives a null pick.
    """
    return _pick_extreme(plan, keys, arrays, GREATEST)


def pick_least(MergePlan plan not None, keys, arrays):
    """As pick_greatest, with the least key."""
    return _pick_extreme(plan, keys, arrays, LEAST)


def all_rows(MergePlan plan not None):
    """Select every row, in plan order."""
    cdef Selection selection = make_selection(plan.sources, plan.rows, plan.num_sources, None, 0)
    selection._limits = plan._limits
    return selection


def keep_adds(Selection selection not None, kinds):
    """Drop the rows whose kind (int8) is a retract: bit 0 is set."""
    cdef Column kind_column = _view_system(kinds, b"c", "kinds", selection)
    cdef NativeBuffer kept
    if not _has_retracts(kind_column):
        return selection
    kept = allocate(selection.length)
    with nogil:
        _mark_adds(selection, kind_column.parts, <uint8_t*> kept.ptr)
    return _keep_marked(selection, kept)


def keep_newer(Selection selection not None, kinds, sequences, int64_t horizon):
    """Drop the retracts whose sequence number is below `horizon`. sequences[i] is (Arrow int64
    array, base), and a sequence number is base + value.
    """
    cdef Column kind_column = _view_system(kinds, b"c", "kinds", selection)
    cdef Column sequence_column = _view_system(
        [array for array, _ in sequences], b"l", "sequences", selection)
    cdef NativeBuffer bases = _pack_longs([base for _, base in sequences])
    cdef NativeBuffer kept = allocate(selection.length)
    with nogil:
        _mark_adds(selection, kind_column.parts, <uint8_t*> kept.ptr)
        _mark_newer(selection, sequence_column.parts, <const int64_t*> bases.ptr, horizon,
                    <uint8_t*> kept.ptr)
    return _keep_marked(selection, kept)


@cython.final
@cython.internal
@cython.auto_pickle(False)
cdef class Picks:
    """One pick per group, in the making."""

    cdef MergePlan plan
    cdef NativeBuffer sources
    cdef NativeBuffer rows
    cdef NativeBuffer validity
    cdef Py_ssize_t null_count


cdef Picks _begin_picks(MergePlan plan):
    cdef Picks picks = Picks.__new__(Picks)
    picks.plan = plan
    picks.sources = allocate(plan.num_groups * sizeof(uint16_t))
    picks.rows = allocate(plan.num_groups * sizeof(uint32_t))
    picks.validity = allocate_zeroed(bitmap_bytes(plan.num_groups))
    return picks


cdef inline void _pick(Picks picks, Py_ssize_t group, Py_ssize_t place) noexcept nogil:
    """Pick the row at a place of the plan, or null if that is -1."""
    cdef uint16_t source = picks.plan.spare_source
    cdef uint32_t row = picks.plan.spare_row
    if place >= 0:
        set_bit(<uint8_t*> picks.validity.ptr, group)
    else:
        picks.null_count += 1
        place = _end_of(picks.plan, group, FROM_FIRST)
    if place >= 0:
        source, row = picks.plan.source_ptr[place], picks.plan.row_ptr[place]
    (<uint16_t*> picks.sources.ptr)[group] = source
    (<uint32_t*> picks.rows.ptr)[group] = row


cdef Selection _finish_picks(Picks picks):
    return make_selection(
        picks.sources, picks.rows, picks.plan.num_sources,
        picks.validity if picks.null_count else None, picks.null_count)


cdef Selection _pick_end(MergePlan plan, Direction direction):
    cdef Picks picks
    cdef Py_ssize_t group
    if not plan.num_empty_groups:
        return _pick_end_of_filled(plan, direction)
    picks = _begin_picks(plan)
    with nogil:
        for group in range(plan.num_groups):
            _pick(picks, group, _end_of(plan, group, direction))
    return _finish_picks(picks)


cdef Selection _pick_end_of_filled(MergePlan plan, Direction direction):
    """As _pick_end, where every group has a row."""
    cdef NativeBuffer sources, rows
    if plan.num_groups == plan.num_rows:
        return all_rows(plan)
    sources = allocate(plan.num_groups * sizeof(uint16_t))
    rows = allocate(plan.num_groups * sizeof(uint32_t))
    with nogil:
        _copy_ends(plan, direction, <uint16_t*> sources.ptr, <uint32_t*> rows.ptr)
    return make_selection(sources, rows, plan.num_sources, None, 0)


cdef void _copy_ends(
    MergePlan plan, Direction direction, uint16_t* sources, uint32_t* rows
) noexcept nogil:
    cdef const uint32_t* starts = plan.start_ptr
    # The last row of a group is before the first of the next one.
    cdef Py_ssize_t group, shift = direction == FROM_LAST
    for group in range(plan.num_groups):
        sources[group] = plan.source_ptr[starts[group + shift] - shift]
        rows[group] = plan.row_ptr[starts[group + shift] - shift]


cdef inline Py_ssize_t _end_of(
    MergePlan plan, Py_ssize_t group, Direction direction
) noexcept nogil:
    """The place of the first or last row of the group; -1 if it is empty."""
    cdef Py_ssize_t start = plan.start_ptr[group], stop = plan.start_ptr[group + 1]
    if start == stop:
        return -1
    return start if direction == FROM_FIRST else stop - 1


cdef Selection _pick_valid(MergePlan plan, object arrays, Direction direction):
    cdef Column column = view_operands(plan, arrays, "arrays")
    cdef Picks picks
    cdef Py_ssize_t group
    if not column.has_nulls:
        return _pick_end(plan, direction)
    picks = _begin_picks(plan)
    with nogil:
        for group in range(plan.num_groups):
            _pick(picks, group, _find_valid(plan, column.parts, group, direction))
    return _finish_picks(picks)


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


cdef Selection _pick_extreme(MergePlan plan, object keys, object arrays, Extreme extreme):
    cdef KeyColumn key_column = view_keys(plan, keys, "keys")
    cdef Column column = view_operands(plan, arrays, "arrays")
    cdef Picks picks = _begin_picks(plan)
    cdef bint are_words = True
    cdef Py_ssize_t group, i
    for i in range(plan.num_sources):
        are_words = are_words and key_column.views[i].words != NULL
    with nogil:
        if are_words:
            for group in range(plan.num_groups):
                _pick(picks, group, _find_extreme_word(
                    plan, key_column.views, column.parts, group, extreme))
        else:
            for group in range(plan.num_groups):
                _pick(picks, group, _find_extreme(
                    plan, key_column.views, column.parts, group, extreme))
    return _finish_picks(picks)


cdef inline Py_ssize_t _find_extreme_word(
    MergePlan plan, const KeyView* keys, const Part* parts, Py_ssize_t group, Extreme extreme
) noexcept nogil:
    """As _find_extreme, for keys that are one word each."""
    cdef Py_ssize_t i, best = -1
    cdef uint64_t word, best_word = 0
    # Of inverted words the greatest is the least one.
    cdef uint64_t inversion = 0 if extreme == GREATEST else ~<uint64_t> 0
    cdef uint16_t source
    cdef bint is_better
    for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
        source = plan.source_ptr[i]
        word = word_at(keys + source, plan.row_ptr[i]) ^ inversion
        # Values come in no order that a processor could learn: `&` and `|` need no branch.
        is_better = is_valid(parts + source, plan.row_ptr[i]) & ((best < 0) | (word > best_word))
        best = i if is_better else best
        best_word = word if is_better else best_word
    return best


cdef inline Py_ssize_t _find_extreme(
    MergePlan plan, const KeyView* keys, const Part* parts, Py_ssize_t group, Extreme extreme
) noexcept nogil:
    """The first place in the plan with the extreme key of the group's rows not null; or -1."""
    cdef Py_ssize_t i, best = -1
    cdef uint64_t prefix, best_prefix = 0
    cdef uint16_t source
    cdef int order
    for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
        source = plan.source_ptr[i]
        if not is_valid(parts + source, plan.row_ptr[i]):
            continue
        prefix = prefix_at(keys + source, plan.row_ptr[i])
        if best < 0:
            order = extreme
        elif prefix != best_prefix:
            order = 1 if prefix > best_prefix else -1
        else:
            order = compare_tail(keys + source, plan.row_ptr[i],
                                 keys + plan.source_ptr[best], plan.row_ptr[best])
        if order * <int> extreme > 0:
            best, best_prefix = i, prefix
    return best


cdef Column _view_system(object arrays, bytes code, str what, Selection selection):
    """View a system column, which has no nulls, for a selection without null picks."""
    if selection.null_count:
        raise ValueError(f"{what}: a row without a value can neither be kept nor dropped")
    return view_exact(arrays, code, what, selection.footprint().limits)


cdef NativeBuffer _pack_longs(list values):
    cdef NativeBuffer packed = allocate(len(values) * sizeof(int64_t))
    cdef Py_ssize_t i
    for i in range(len(values)):
        (<int64_t*> packed.ptr)[i] = values[i]
    return packed


cdef bint _has_retracts(Column kinds) noexcept nogil:
    """Whether any row of the sources is one, picked or not: looking at bytes in a row is cheap."""
    cdef uint8_t seen = 0
    cdef const Part* part
    cdef Py_ssize_t i, k
    for i in range(kinds.num_parts):
        part = kinds.parts + i
        for k in range(part.length):
            seen |= part.values[k]
    return seen & 1


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
    return make_selection(sources, rows, selection.num_sources, None, 0)


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


cdef Selection make_selection(
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
