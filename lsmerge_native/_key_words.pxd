"""Words that stand for keys of bytes: the bytes in which some keys differ, side by side."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from lsmerge_native._pair_merge cimport Entry
from lsmerge_native.keys cimport KeyView


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    WORD_BYTES = 8
    ROWS_AHEAD = 12


# The bytes of one key.
cdef struct KeyBytes:
    const uint8_t* start
    uint32_t size
    uint32_t end          # bytes of the same memory before the end of the key


# Neighbouring bytes of a key.
cdef struct Piece:
    size_t position
    int num_bytes


# Which bytes make up the words of some keys, and what these tell: words that differ are in the
# order of their keys; if they are equal, so are the keys if the layout is exact, and else the first
# `covered` bytes of the keys, padded with zeros.
cdef struct WordLayout:
    Piece[WORD_BYTES] pieces
    int num_pieces
    int num_bytes         # of all pieces
    int size_bytes        # lowest bytes of the word, that hold what the size is beyond `shortest`
    size_t shortest
    size_t covered
    bint is_exact


cdef inline KeyBytes key_bytes_at(const KeyView* keys, Py_ssize_t row) noexcept nogil:
    cdef uint32_t start = keys.offsets[row], end = keys.offsets[row + 1]
    return KeyBytes(keys.bytes + start, end - start, end)


# Has a key fetched that comes ROWS_AHEAD rows later, and where it lies, so many more ahead: rows in
# sorted order are anywhere in memory. Requires: keys are bytes.
cdef inline void fetch_ahead(
    const KeyView* keys, const uint32_t* rows, Py_ssize_t i, Py_ssize_t count
) noexcept nogil:
    if i + 2 * ROWS_AHEAD < count:
        prefetch(&keys.offsets[rows[i + 2 * ROWS_AHEAD]])
        prefetch(keys.bytes + keys.offsets[rows[i + ROWS_AHEAD]])


# Order of two keys: negative, 0 or positive. Requires: their first `covered` bytes, padded with
# zeros, are equal.
cdef inline int compare_rest(const KeyBytes* a, const KeyBytes* b, size_t covered) noexcept nogil:
    cdef size_t size = min(a.size, b.size)
    cdef int order = 0
    if size > covered:
        order = memcmp(a.start + covered, b.start + covered, size - covered)
    return order if order != 0 else (a.size > b.size) - (a.size < b.size)


# Chooses the first bytes from `start` on in which the keys differ. Requires: they are equal before,
# padded with zeros; there is a key.
cdef WordLayout choose_layout(
    const KeyBytes* keys, Py_ssize_t count, size_t start) noexcept nogil

# Sets the words of the entries. Requires: the layout was chosen for these keys.
cdef void set_words(
    const KeyBytes* keys, Py_ssize_t count, const WordLayout* layout, Entry* entries
) noexcept nogil
