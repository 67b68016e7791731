"""The pages of a Parquet column chunk, and the bytes in them, one after the other."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    # Kinds of pages.
    DATA = 0
    DICTIONARY = 2


# Bytes that are read from the front. Once it is broken nothing that was read means anything.
cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint is_broken


# What the header of a page tells, -1 where it says nothing, and where the packed bytes begin.
cdef struct Page:
    int64_t kind
    int64_t encoding
    int64_t level_encoding
    int64_t unpacked
    int64_t packed
    int64_t values
    int64_t entries         # of a dictionary
    const uint8_t* body


# The next page, and steps over it. Ensures: its packed bytes are there, or the cursor is broken.
cdef Page read_page(Cursor* cursor) noexcept nogil

# A number of seven bits a byte.
cdef uint64_t read_varint(Cursor* cursor) noexcept nogil

# The same, with the sign in its lowest bit.
cdef int64_t read_signed(Cursor* cursor) noexcept nogil

# Passes over bytes.
cdef void step(Cursor* cursor, uint64_t count) noexcept nogil
