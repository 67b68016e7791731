"""The pages of a Parquet column chunk."""

from libc.stdint cimport int64_t, uint8_t

from lsmerge_native._thrift cimport Cursor


cdef enum:
    # Kinds of pages.
    DATA = 0
    DICTIONARY = 2


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
