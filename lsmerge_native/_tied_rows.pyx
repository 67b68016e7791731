"""Merges rows by words of their keys, and settles those that are tied by the rest of the keys.

Merges are stable, so that tied rows come run by run, from old to new, each run in its order. Few of
them are sorted by insertion; many are merged anew, by words made of the bytes that follow. Where
rows of one run would have to change places, the run is not sorted.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from lsmerge_native._key_words cimport (
    KeyBytes, WordLayout, choose_layout, compare_rest, key_bytes_at, set_words,
)
from lsmerge_native._pair_merge cimport Entry, Segment, merge_segments


cdef enum:
    INSERTION_ROWS = 24   # more tied rows are merged anew
    MAX_DEPTH = 8         # of merges inside each other


cdef bint merge_by_keys(
    Workroom* room, Segment* segments, Py_ssize_t num_segments, Segment* merged
) noexcept nogil:
    cdef WordLayout layout = merge_by_words(room, segments, num_segments, 0, merged)
    if layout.is_exact:
        return True
    if layout.num_bytes == 0 or not settle(room, merged, layout.covered, 0, room.ties):
        return False
    number_keys(entries_of(room, merged), merged.count)
    return True


cdef WordLayout merge_by_words(
    Workroom* room, Segment* segments, Py_ssize_t num_segments, size_t position, Segment* merged
) noexcept nogil:
    """Merge by bytes that differ from `position` on; the layout says what the words then tell."""
    cdef Segment all_rows = segments[0]
    cdef WordLayout layout
    cdef Entry* entries
    cdef KeyBytes* keys = room.keys + all_rows.start
    cdef Py_ssize_t i
    for i in range(1, num_segments):
        all_rows.count += segments[i].count
    entries = entries_of(room, &all_rows)
    for i in range(all_rows.count):
        keys[i] = key_of(room, &entries[i])
    layout = choose_layout(keys, all_rows.count, position)
    set_words(keys, all_rows.count, &layout, entries)
    merged[0] = merge_segments(segments, num_segments, room.entries, room.rows, False)
    return layout


cdef inline Entry* entries_of(const Workroom* room, const Segment* rows) noexcept nogil:
    return room.entries + rows.scratch * room.rows + rows.start


cdef inline KeyBytes key_of(const Workroom* room, const Entry* entry) noexcept nogil:
    return key_bytes_at(&room.parts[<uint16_t> (entry.row >> 32)].keys, <uint32_t> entry.row)


cdef inline uint64_t rank_of(const Entry* entry) noexcept nogil:
    return entry.row >> 48


cdef void number_keys(Entry* entries, Py_ssize_t count) noexcept nogil:
    """Number the keys whose first rows are marked."""
    cdef uint64_t number = 0
    cdef Py_ssize_t i
    for i in range(count):
        number += entries[i].key
        entries[i].key = number


# ---- ties ----


cdef bint settle(
    Workroom* room, const Segment* rows, size_t covered, int depth, uint32_t* ties
) noexcept nogil:
    """Order rows by their words and then by key bytes from `covered` on; their words become marks,
    1 where a key begins and else 0. `ties` has room for one less than the rows. False as for
    merge_by_keys().
    """
    cdef Entry* entries = entries_of(room, rows)
    cdef Py_ssize_t num_ties = mark_words(entries, rows.count, ties), i = 0, first, start, stop
    cdef bint is_settled = num_ties >= 0
    while is_settled and i < num_ties:
        first, start = i, ties[i] - 1
        i += 1
        while i < num_ties and ties[i] == ties[i - 1] + 1:
            i += 1
        stop = start + 1 + i - first
        if stop - start <= INSERTION_ROWS:
            is_settled = sort_tied(room, entries + start, stop - start, covered)
        else:
            is_settled = merge_tied(
                room, Segment(rows.start + start, stop - start, rows.scratch), covered, depth + 1,
                ties + first)
    return is_settled


cdef Py_ssize_t mark_words(Entry* entries, Py_ssize_t count, uint32_t* ties) noexcept nogil:
    """Turn words into marks; write which rows have the word of the row before, return how many, or
    -1 if words decrease.
    """
    cdef uint64_t word = entries[0].key, before
    cdef bint is_disordered = False
    cdef Py_ssize_t i, num_ties = 0
    entries[0].key = 1
    for i in range(1, count):
        before, word = word, entries[i].key
        entries[i].key = word != before
        ties[num_ties] = <uint32_t> i
        num_ties += word == before
        is_disordered |= word < before
    return -1 if is_disordered else num_ties


cdef bint sort_tied(
    const Workroom* room, Entry* entries, Py_ssize_t count, size_t covered
) noexcept nogil:
    """Sort by insertion and mark where keys begin. Requires: the first is marked, and only it."""
    cdef Py_ssize_t i, place
    cdef Entry entry
    cdef int difference
    for i in range(1, count):
        entry, place = entries[i], i
        difference = compare_tied(room, &entries[i - 1], &entry, covered)
        while difference > 0:
            if rank_of(&entries[place - 1]) == rank_of(&entry):
                return False
            entries[place] = entries[place - 1]
            place -= 1
            difference = -1
            if place > 0:
                difference = compare_tied(room, &entries[place - 1], &entry, covered)
        entry.key = difference != 0
        entries[place] = entry
        if place < i:
            entries[place + 1].key = 1
    return True


cdef inline int compare_tied(
    const Workroom* room, const Entry* a, const Entry* b, size_t covered
) noexcept nogil:
    cdef KeyBytes a_key = key_of(room, a), b_key = key_of(room, b)
    return compare_rest(&a_key, &b_key, covered)


cdef bint merge_tied(
    Workroom* room, Segment rows, size_t covered, int depth, uint32_t* ties
) noexcept nogil:
    """As settle(), of rows that are tied."""
    cdef Segment[MAX_RUNS] segments
    cdef Segment merged
    cdef WordLayout layout
    cdef Entry* entries = entries_of(room, &rows)
    cdef Py_ssize_t num_segments = cut_runs(room, &rows, segments)
    if num_segments == 0 or depth > MAX_DEPTH:
        return False
    layout = merge_by_words(room, segments, num_segments, covered, &merged)
    if merged.scratch != rows.scratch:
        memcpy(entries, entries_of(room, &merged), rows.count * sizeof(Entry))
    if layout.is_exact:
        return mark_words(entries, rows.count, ties) >= 0
    return settle(room, &rows, layout.covered, depth, ties)


cdef Py_ssize_t cut_runs(const Workroom* room, const Segment* rows, Segment* segments) \
        noexcept nogil:
    """The rows of each run as a segment; 0 if they do not come run by run."""
    cdef const Entry* entries = entries_of(room, rows)
    cdef Py_ssize_t i, count = 0
    for i in range(rows.count):
        if i == 0 or rank_of(&entries[i]) != rank_of(&entries[i - 1]):
            if count == MAX_RUNS:
                return 0
            segments[count] = Segment(rows.start + i, 0, rows.scratch)
            count += 1
        segments[count - 1].count += 1
    return count
