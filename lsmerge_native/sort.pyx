"""Stable argsort of keys: radix sort of words, then merge sort of what is still tied.

A u64 key is a word itself. The word of a bytes key has the first bytes in which the keys differ, so
that keys such as "customer-17" do not all tie.
"""

from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, uint32_t
from libc.string cimport memcpy, memset

from lsmerge_native._key_words cimport (
    KeyBytes, WordLayout, choose_layout, compare_rest, fetch_ahead, key_bytes_at, set_words,
)
from lsmerge_native._pair_merge cimport Entry
from lsmerge_native.buffers cimport allocate, NativeBuffer
from lsmerge_native.keys cimport compare_at, Keys, KeyView, word_at

cdef enum:
    DIGITS = 8            # bytes of a word, least significant first
    BUCKETS = 256
    INSERTION_ROWS = 12   # ties of at most so many rows are sorted by insertion


cdef struct Sorting:
    KeyView keys
    KeyView orders
    bint has_order
    size_t covered        # kind bytes: where the keys go on after what their words tell


def argsort(Keys keys not None, Keys order=None):
    """Row numbers (uint32) in the order of (key, order, position)."""
    cdef Sorting sorting
    cdef Py_ssize_t length = keys.view.length
    require_sortable(keys, order)
    sorting.keys = keys.view
    sorting.has_order = order is not None
    if order is not None:
        sorting.orders = order.view
    cdef NativeBuffer result = allocate(length * sizeof(uint32_t))
    cdef NativeBuffer entries
    cdef uint32_t* rows = <uint32_t*> result.ptr
    cdef bint ordered
    with nogil:
        ordered = is_ordered(&sorting)
        if ordered:
            number_rows(rows, length)
    if not ordered:
        entries = allocate(2 * length * sizeof(Entry))
        with nogil:
            sort_rows(&sorting, <Entry*> entries.ptr, rows)
    return result


cdef int require_sortable(Keys keys, Keys order) except -1:
    if keys.view.length > UINT32_MAX:
        raise OverflowError(f"cannot sort {keys.view.length} rows, more than {UINT32_MAX}")
    if order is not None and order.view.length != keys.view.length:
        raise ValueError(f"{keys.view.length} keys but {order.view.length} order keys")
    return 0


cdef void number_rows(uint32_t* rows, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(length):
        rows[i] = <uint32_t> i


cdef inline int compare_orders(const Sorting* sorting, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    if not sorting.has_order:
        return 0
    return compare_at(&sorting.orders, i, &sorting.orders, j)


cdef bint is_ordered(const Sorting* sorting) noexcept nogil:
    cdef Py_ssize_t row
    cdef int difference
    for row in range(1, sorting.keys.length):
        difference = compare_at(&sorting.keys, row - 1, &sorting.keys, row)
        if difference == 0:
            difference = compare_orders(sorting, row - 1, row)
        if difference > 0:
            return False
    return True


cdef void sort_rows(Sorting* sorting, Entry* entries, uint32_t* rows) noexcept nogil:
    """Requires: there are rows, and room for twice as many entries."""
    cdef Py_ssize_t length = sorting.keys.length, i
    cdef Entry* free = entries + length
    cdef bint is_exact = load_words(sorting, entries, free)
    cdef Entry* ordered = radix_sort(entries, free, length)
    for i in range(length):
        rows[i] = <uint32_t> ordered[i].row
    if sorting.has_order or not is_exact:
        free = entries if ordered != entries else entries + length
        sort_ties(sorting, ordered, rows, <uint32_t*> free)


cdef bint load_words(Sorting* sorting, Entry* entries, void* scratch) noexcept nogil:
    """Set an entry for each row; return whether keys are equal where words are. `scratch` has room
    for as many bytes as the entries.
    """
    cdef KeyBytes* keys = <KeyBytes*> scratch  # as large as an entry
    cdef Py_ssize_t row, length = sorting.keys.length
    cdef WordLayout layout
    for row in range(length):
        entries[row].row = row
    if sorting.keys.words != NULL:
        for row in range(length):
            entries[row].key = word_at(&sorting.keys, row)
        return True
    for row in range(length):
        keys[row] = key_bytes_at(&sorting.keys, row)
    layout = choose_layout(keys, length, 0)
    set_words(keys, length, &layout, entries)
    sorting.covered = layout.covered
    return layout.is_exact


cdef Entry* radix_sort(Entry* entries, Entry* scratch, Py_ssize_t length) noexcept nogil:
    """Sort by word, stably; return which of the two arrays holds the rows. Length is not 0."""
    cdef uint32_t counts[DIGITS][BUCKETS]
    cdef int digit
    cdef Py_ssize_t i
    memset(counts, 0, sizeof(counts))
    for i in range(length):
        for digit in range(DIGITS):
            counts[digit][(entries[i].key >> (8 * digit)) & 0xFF] += 1
    for digit in range(DIGITS):
        # A byte that is the same in all rows orders nothing.
        if counts[digit][(entries[0].key >> (8 * digit)) & 0xFF] != length:
            scatter(entries, scratch, length, 8 * digit, counts[digit])
            entries, scratch = scratch, entries
    return entries


cdef void scatter(
    const Entry* source, Entry* target, Py_ssize_t length, int shift, uint32_t* counts
) noexcept nogil:
    """Distribute by one byte of the word; `counts` become the next free places."""
    cdef uint32_t place = 0, count, bucket
    cdef Py_ssize_t i
    for i in range(BUCKETS):
        count = counts[i]
        counts[i] = place
        place += count
    for i in range(length):
        bucket = (source[i].key >> shift) & 0xFF
        target[counts[bucket]] = source[i]
        counts[bucket] += 1


# ---- ties ----


cdef void sort_ties(
    const Sorting* sorting, const Entry* ordered, uint32_t* rows, uint32_t* scratch
) noexcept nogil:
    cdef Py_ssize_t start = 0, stop, length = sorting.keys.length
    cdef bint is_bytes = sorting.keys.words == NULL
    while start < length:
        stop = start + 1
        while stop < length and ordered[stop].key == ordered[start].key:
            if is_bytes:
                fetch_ahead(&sorting.keys, rows, stop, length)
            stop += 1
        if stop - start > 1:
            merge_sort(sorting, rows + start, stop - start, scratch)
        start = stop


cdef inline int compare_tied(const Sorting* sorting, Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    cdef KeyBytes a, b
    cdef int difference = 0
    if sorting.keys.words == NULL:
        a, b = key_bytes_at(&sorting.keys, i), key_bytes_at(&sorting.keys, j)
        difference = compare_rest(&a, &b, sorting.covered)
    return difference if difference != 0 else compare_orders(sorting, i, j)


cdef void merge_sort(const Sorting* sorting, uint32_t* rows, Py_ssize_t length, uint32_t* scratch) \
        noexcept nogil:
    cdef Py_ssize_t half = length // 2
    if length <= INSERTION_ROWS:
        insertion_sort(sorting, rows, length)
        return
    merge_sort(sorting, rows, half, scratch)
    merge_sort(sorting, rows + half, length - half, scratch)
    if compare_tied(sorting, rows[half - 1], rows[half]) > 0:
        merge_halves(sorting, rows, half, length, scratch)


cdef void insertion_sort(const Sorting* sorting, uint32_t* rows, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i, place
    cdef uint32_t row
    for i in range(1, length):
        row = rows[i]
        place = i
        while place > 0 and compare_tied(sorting, rows[place - 1], row) > 0:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row


cdef void merge_halves(
    const Sorting* sorting, uint32_t* rows, Py_ssize_t half, Py_ssize_t length, uint32_t* scratch
) noexcept nogil:
    """Merge rows[:half] and rows[half:length]; of equal rows the left one comes first."""
    cdef Py_ssize_t left = 0, right = half, out = 0
    memcpy(scratch, rows, half * sizeof(uint32_t))
    while left < half and right < length:
        if compare_tied(sorting, scratch[left], rows[right]) <= 0:
            rows[out] = scratch[left]
            left += 1
        else:
            rows[out] = rows[right]
            right += 1
        out += 1
    memcpy(rows + out, scratch + left, (half - left) * sizeof(uint32_t))
