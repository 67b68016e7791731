"""Words that stand for keys of bytes: the bytes in which some keys differ, side by side.

Keys near each other are alike in most bytes: common beginnings, and the upper bytes of numbers
behind them. Those say nothing about the order. Mostly the others fit a word, with the size of the
key behind them, and then words are all that a merge needs:

    region-1 7 . . 80 . . . . . . 2 80 . 1 9    ->    7 2 1 9
    region-1 8 . . 80 . . . . . . 1 80 . 3 0          8 1 3 0

A key counts as followed by zeros, and of two that are equal then the shorter is less: that is the
order of memcmp. Nothing is assumed of the keys, sorted or not.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from lsmerge_native._pair_merge cimport Entry
from lsmerge_native._words cimport big_endian_prefix, bswap64


cdef enum:
    MAX_POSITIONS = 256   # bytes of the keys that are looked at for one layout


cdef WordLayout choose_layout(const KeyBytes* keys, Py_ssize_t count, size_t start) noexcept nogil:
    cdef size_t shortest = keys[0].size, longest = keys[0].size, position = start
    cdef WordLayout layout
    cdef Py_ssize_t i
    for i in range(count):
        shortest = min(shortest, <size_t> keys[i].size)
        longest = max(longest, <size_t> keys[i].size)
    layout.num_pieces = layout.num_bytes = 0
    layout.shortest = shortest
    layout.covered = start
    while position < min(longest, start + MAX_POSITIONS) and layout.covered == position:
        add_bytes(&layout, position, differences(keys, count, position, shortest))
        position += WORD_BYTES
    set_exact(&layout, longest)
    return layout


cdef void add_bytes(WordLayout* layout, size_t position, uint64_t varying) noexcept nogil:
    """Add the bytes of a word that vary, as long as there is room; `covered` ends where it does."""
    cdef size_t stop = position + WORD_BYTES
    while layout.covered < stop:
        if varying >> (8 * (stop - layout.covered - 1)) & 0xFF:
            if layout.num_bytes == WORD_BYTES:
                return
            add_byte(layout, layout.covered)
        layout.covered += 1


cdef void add_byte(WordLayout* layout, size_t position) noexcept nogil:
    cdef int last = layout.num_pieces - 1
    layout.num_bytes += 1
    if last >= 0 and layout.pieces[last].position + layout.pieces[last].num_bytes == position:
        layout.pieces[last].num_bytes += 1
    else:
        layout.pieces[last + 1] = Piece(position, 1)
        layout.num_pieces += 1


cdef void set_exact(WordLayout* layout, size_t longest) noexcept nogil:
    cdef int room = WORD_BYTES - layout.num_bytes
    cdef size_t most = longest - layout.shortest
    layout.is_exact = layout.covered >= longest and (room >= 4 or most >> (8 * room) == 0)
    layout.size_bytes = room if layout.is_exact and most else 0


cdef uint64_t differences(
    const KeyBytes* keys, Py_ssize_t count, size_t position, size_t shortest
) noexcept nogil:
    """Bits that are set in some and not in other keys."""
    cdef uint64_t first = padded_word(&keys[0], position), bits = 0
    cdef Py_ssize_t i
    if position + WORD_BYTES <= shortest:
        for i in range(count):
            bits |= whole_word(&keys[i], position) ^ first
    else:
        for i in range(count):
            bits |= padded_word(&keys[i], position) ^ first
    return bits


cdef void set_words(
    const KeyBytes* keys, Py_ssize_t count, const WordLayout* layout, Entry* entries
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int half = 4 * layout.size_bytes  # two shifts of half the width: one of 64 is undefined
    for i in range(count):
        entries[i].key = 0
    for i in range(layout.num_pieces):
        append_piece(keys, count, &layout.pieces[i], layout.shortest, entries)
    if layout.size_bytes:
        for i in range(count):
            entries[i].key = entries[i].key << half << half | (keys[i].size - layout.shortest)


cdef void append_piece(
    const KeyBytes* keys, Py_ssize_t count, const Piece* piece, size_t shortest, Entry* entries
) noexcept nogil:
    cdef int half = 4 * piece.num_bytes, rest = 64 - 2 * half
    cdef Py_ssize_t i
    if piece.position + WORD_BYTES <= shortest:
        for i in range(count):
            entries[i].key = entries[i].key << half << half \
                | whole_word(&keys[i], piece.position) >> rest
    else:
        for i in range(count):
            entries[i].key = entries[i].key << half << half \
                | padded_word(&keys[i], piece.position) >> rest


cdef inline uint64_t whole_word(const KeyBytes* key, size_t position) noexcept nogil:
    """Requires: the key has the bytes."""
    cdef uint64_t word
    memcpy(&word, key.start + position, WORD_BYTES)
    return bswap64(word)


cdef inline uint64_t padded_word(const KeyBytes* key, size_t position) noexcept nogil:
    """Where the key ends, a word that ends there is read, and what comes before it shifted out."""
    cdef size_t size = key.size, stop = min(size, position + WORD_BYTES)
    cdef size_t half = 4 * min(position + WORD_BYTES - stop, <size_t> WORD_BYTES)
    cdef uint64_t word
    if key.end - size + stop < WORD_BYTES:
        return big_endian_prefix(key.start + position, size - position) if position < size else 0
    memcpy(&word, key.start + stop - WORD_BYTES, WORD_BYTES)
    return bswap64(word) << half << half
