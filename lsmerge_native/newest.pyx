"""The newest row of each of many keys, out of sorted blocks listed newest first.

Blocks are searched one by one, and a key keeps the first row that is found. What was found is a
selection of rows of the blocks: nothing is copied before it is known which rows are wanted.
"""

from libc.stdint cimport int8_t, uint16_t, uint32_t
from libc.string cimport memset, strcmp

from lsmerge_native._arrow cimport ArrayView, view_array
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items,
)
from lsmerge_native.keys cimport Keys, KeyView, require_comparable
from lsmerge_native.lookup cimport Sampled, find_keys, sample_keys
from lsmerge_native.reduce cimport Selection, make_selection


cdef enum:
    NOWHERE = 0xFFFF


# For each key the block and the row of its newest row, NOWHERE while none was found.
cdef struct Newest:
    uint16_t* sources
    uint32_t* rows
    Py_ssize_t length


# A block, and the keys to look for there: those from `start` on, or of these the ones at `rows`.
cdef struct Search:
    Sampled sampled
    const KeyView* probes
    Py_ssize_t start
    const uint32_t* rows


def newest_rows(
    list blocks not None, list kinds not None, list probes not None, list positions not None,
    Py_ssize_t count,
):
    """Select the newest row of each of `count` keys that has one, in their order, unless it is a
    retract; return the selection, and which keys it is of (uint32).

    blocks[i] are the keys of a block, none twice, and kinds[i] the kinds of its rows (int8), None
    if it has no retracts. probes[i] are the keys to look for there: those from `start` on, or of
    these the ones at `rows` (uint32), if positions[i] is (start, rows) and `rows` is not None.
    Requires: keys sorted, blocks of the same key newest first.
    """
    if len(blocks) >= NOWHERE or not len(blocks) == len(kinds) == len(probes) == len(positions):
        raise ValueError(
            f"{len(kinds)} kinds, {len(probes)} probes and {len(positions)} positions for "
            f"{len(blocks)} blocks; at most {NOWHERE - 1} at once")
    cdef NativeBuffer sources = allocate(count * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(count * sizeof(uint32_t))
    cdef Newest newest = Newest(<uint16_t*> sources.ptr, <uint32_t*> rows.ptr, count)
    memset(sources.ptr, 0xFF, sources.size)
    _search_blocks(&newest, blocks, probes, positions)
    _drop_retracts(&newest, blocks, kinds)
    return _listed(&newest, len(blocks))


def followed(Selection selection not None, list origins not None):
    """The same rows, selected from where they come from. Row r of source s is the row that
    origins[s] selects at r, or row r of one source if that is None; the sources of all origins
    are numbered one after the other.
    """
    cdef NativeBuffer sources = allocate(selection.length * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate(selection.length * sizeof(uint32_t))
    cdef Py_ssize_t first = 0, number
    cdef Selection origin
    if selection.null_count or len(origins) != selection.num_sources:
        raise ValueError(
            f"{len(origins)} origins of {selection.num_sources} sources, "
            f"{selection.null_count} rows of none")
    for number in range(len(origins)):
        origin = origins[number]
        if origin is None:
            _renumber(selection, number, first, <uint16_t*> sources.ptr, <uint32_t*> rows.ptr)
        elif not _follow(
            selection, number, origin, first, <uint16_t*> sources.ptr, <uint32_t*> rows.ptr
        ):
            raise ValueError(f"origin {number} selects {origin.length} rows, more are wanted")
        first += 1 if origin is None else origin.num_sources
    return make_selection(sources, rows, first, None, 0)


cdef int _search_blocks(Newest* newest, list blocks, list probes, list positions) except -1:
    cdef Py_ssize_t count = len(blocks), most = 0, i
    cdef NativeBuffer buffer = allocate(count * sizeof(Search)), ranges
    cdef Search* searches = <Search*> buffer.ptr
    cdef list rows = [_view_rows(position[1]) for position in positions]
    for i in range(count):
        require_comparable(blocks[i], probes[i], "newest_rows")
        searches[i].sampled = sample_keys(blocks[i])
        searches[i].probes = &(<Keys> probes[i]).view
        searches[i].start = positions[i][0]
        searches[i].rows = NULL
        if rows[i] is not None:
            searches[i].rows = <const uint32_t*> (<InputBuffer> rows[i]).ptr
        most = max(most, searches[i].probes.length)
        _require_positions(newest, &searches[i], rows[i])
    ranges = allocate(2 * most * sizeof(uint32_t))
    # Once for all blocks: to get the GIL back may take longer than the search of one.
    with nogil:
        for i in range(count):
            _search_block(newest, <uint16_t> i, &searches[i], <uint32_t*> ranges.ptr)
    return 0


cdef InputBuffer _view_rows(object rows):
    return None if rows is None else view_items(rows, sizeof(uint32_t), "positions")


cdef void _search_block(
    Newest* newest, uint16_t number, const Search* search, uint32_t* low
) noexcept nogil:
    """`low` has room for two numbers of each probe."""
    cdef Py_ssize_t count = search.probes.length, i, at
    cdef uint32_t* high = low + count
    find_keys(&search.sampled, search.probes, low, high)
    for i in range(count):
        at = search.start + (i if search.rows == NULL else <Py_ssize_t> search.rows[i])
        if low[i] < high[i] and newest.sources[at] == NOWHERE:
            newest.sources[at], newest.rows[at] = number, low[i]


cdef int _require_positions(
    const Newest* newest, const Search* search, InputBuffer rows
) except -1:
    cdef Py_ssize_t count = search.probes.length, last = count - 1, given = count, i
    if rows is not None:
        given = rows.length
        for i in range(given):
            last = max(last, <Py_ssize_t> search.rows[i])
    if search.start < 0 or given != count or (count and search.start + last >= newest.length):
        raise ValueError(
            f"{given} positions from {search.start} on for {count} probes of {newest.length} keys")
    return 0


cdef int _drop_retracts(Newest* newest, list blocks, list kinds) except -1:
    cdef list views = [None if array is None else view_array(array) for array in kinds]
    cdef NativeBuffer buffer = allocate_zeroed(len(views) * sizeof(int8_t*))
    cdef const int8_t** kind_of = <const int8_t**> buffer.ptr
    cdef Py_ssize_t i
    cdef uint16_t source
    for i in range(len(views)):
        if views[i] is not None:
            kind_of[i] = _kinds(views[i], len(blocks[i]))
    with nogil:
        for i in range(newest.length):
            source = newest.sources[i]
            if source == NOWHERE or kind_of[source] == NULL:
                continue
            if kind_of[source][newest.rows[i]] & 1:
                newest.sources[i] = NOWHERE
    return 0


cdef const int8_t* _kinds(ArrayView kinds, Py_ssize_t num_rows) except? NULL:
    if strcmp(kinds.format, b"c") != 0:
        raise TypeError(f"kinds of Arrow format '{kinds.format.decode()}'")
    if kinds.length != num_rows:
        raise ValueError(f"{kinds.length} kinds of {num_rows} rows")
    return <const int8_t*> kinds.values()


cdef tuple _listed(const Newest* newest, Py_ssize_t num_blocks):
    """The rows that were found."""
    # One place more than needed: a key without a row is stored as well, and then overwritten.
    cdef NativeBuffer sources = allocate((newest.length + 1) * sizeof(uint16_t))
    cdef NativeBuffer rows = allocate((newest.length + 1) * sizeof(uint32_t))
    cdef NativeBuffer keys = allocate((newest.length + 1) * sizeof(uint32_t))
    cdef Py_ssize_t count = 0, i
    with nogil:
        for i in range(newest.length):
            (<uint16_t*> sources.ptr)[count] = newest.sources[i]
            (<uint32_t*> rows.ptr)[count] = newest.rows[i]
            (<uint32_t*> keys.ptr)[count] = <uint32_t> i
            count += newest.sources[i] != NOWHERE
    sources.truncate(count * sizeof(uint16_t))
    rows.truncate(count * sizeof(uint32_t))
    keys.truncate(count * sizeof(uint32_t))
    return make_selection(sources, rows, num_blocks, None, 0), keys


cdef bint _follow(
    Selection selection, Py_ssize_t number, Selection origin, Py_ssize_t first,
    uint16_t* sources, uint32_t* rows,
) noexcept nogil:
    """Whether the origin has all rows that are selected of its source."""
    cdef Py_ssize_t i
    cdef uint32_t row
    for i in range(selection.length):
        if selection.source_ptr[i] != number:
            continue
        row = selection.row_ptr[i]
        if row >= origin.length:
            return False
        sources[i] = <uint16_t> (first + origin.source_ptr[row])
        rows[i] = origin.row_ptr[row]
    return True


cdef void _renumber(
    Selection selection, Py_ssize_t number, Py_ssize_t first, uint16_t* sources, uint32_t* rows
) noexcept nogil:
    """Rows of a source that is its own origin."""
    cdef Py_ssize_t i
    for i in range(selection.length):
        if selection.source_ptr[i] == number:
            sources[i], rows[i] = <uint16_t> first, selection.row_ptr[i]
