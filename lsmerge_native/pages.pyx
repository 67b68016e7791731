"""The pages of a Parquet column chunk, as their headers describe them, without unpacking one.

A chunk is a row of pages, each a header and its packed bytes. A header is a Thrift struct in the
compact protocol; of its fields only the two sizes matter here, all others are stepped over. Bytes
from anywhere give a number or a ValueError: every length is checked before it is used.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from lsmerge_native.buffers cimport InputBuffer, view_items


cdef enum:
    # Types of the compact protocol.
    STOP = 0
    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    # Fields of a page header.
    UNPACKED_SIZE = 2
    PACKED_SIZE = 3
    # A header nests three structs at most.
    MAX_DEPTH = 8


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint is_broken


cdef struct Sizes:
    int64_t unpacked
    int64_t packed


def unpacked_bytes(data):
    """Return how many bytes the pages of a column chunk say that they unpack to."""
    cdef InputBuffer chunk = view_items(data, 1, "data")
    cdef Cursor cursor
    cdef int64_t total
    cursor.at = <const uint8_t*> chunk.ptr
    cursor.end = cursor.at + chunk.size
    cursor.is_broken = False
    with nogil:
        total = _walk(&cursor)
    if cursor.is_broken:
        raise ValueError("a column chunk does not consist of pages")
    return total


cdef int64_t _walk(Cursor* cursor) noexcept nogil:
    cdef int64_t total = 0
    cdef Sizes sizes
    while cursor.at < cursor.end and not cursor.is_broken:
        sizes = _page_header(cursor)
        if sizes.unpacked < 0 or sizes.packed < 0:
            cursor.is_broken = True
        else:
            total += sizes.unpacked
            _step(cursor, <uint64_t> sizes.packed)
    return total


cdef Sizes _page_header(Cursor* cursor) noexcept nogil:
    cdef Sizes sizes
    cdef int field = 0
    cdef int kind = _field(cursor, &field)
    sizes.unpacked = sizes.packed = -1
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == UNPACKED_SIZE:
            sizes.unpacked = _signed(cursor)
        elif kind == I32 and field == PACKED_SIZE:
            sizes.packed = _signed(cursor)
        else:
            _skip(cursor, kind, 0)
        kind = _field(cursor, &field)
    return sizes


cdef int _field(Cursor* cursor, int* field) noexcept nogil:
    """The type of the next field, STOP after the last one; its number goes to `field`."""
    cdef int head = _byte(cursor)
    if head & 15 == STOP:
        return STOP
    field[0] = field[0] + (head >> 4) if head >> 4 else <int> _signed(cursor)
    return head & 15


cdef void _skip(Cursor* cursor, int kind, int depth) noexcept nogil:
    cdef int field = 0
    cdef int inner
    if kind == TRUE or kind == FALSE:
        return
    if kind == BYTE:
        _step(cursor, 1)
    elif kind == I16 or kind == I32 or kind == I64:
        _varint(cursor)
    elif kind == DOUBLE:
        _step(cursor, 8)
    elif kind == BINARY:
        _step(cursor, _varint(cursor))
    elif kind == STRUCT and depth < MAX_DEPTH:
        inner = _field(cursor, &field)
        while inner != STOP and not cursor.is_broken:
            _skip(cursor, inner, depth + 1)
            inner = _field(cursor, &field)
    else:
        # No page header has a collection.
        cursor.is_broken = True


cdef int64_t _signed(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = _varint(cursor)
    return <int64_t> (value >> 1) ^ -<int64_t> (value & 1)


cdef uint64_t _varint(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef int byte = 128
    while byte & 128 and shift < 64:
        byte = _byte(cursor)
        value |= <uint64_t> (byte & 127) << shift
        shift += 7
    if byte & 128:
        cursor.is_broken = True
    return value


cdef int _byte(Cursor* cursor) noexcept nogil:
    """The next byte; 0, which ends whatever it is part of, where there is none."""
    if cursor.at >= cursor.end:
        cursor.is_broken = True
        return 0
    cdef int byte = cursor.at[0]
    cursor.at += 1
    return byte


cdef void _step(Cursor* cursor, uint64_t count) noexcept nogil:
    if count > <uint64_t> (cursor.end - cursor.at):
        cursor.is_broken = True
        cursor.at = cursor.end
    else:
        cursor.at += count
