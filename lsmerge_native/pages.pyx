"""The pages of a Parquet column chunk, as their headers describe them, without unpacking one.

A chunk is a row of pages, each a header and its packed bytes. A header is a Thrift struct in the
compact protocol; of its fields only sizes, numbers of values and encodings matter here, all others
are stepped over. Bytes from anywhere give numbers or a broken cursor: every length is checked
before it is used.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

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
    # Fields of a page header: its kind, its sizes, and the header of that kind.
    PAGE_KIND = 1
    UNPACKED_SIZE = 2
    PACKED_SIZE = 3
    OF_DATA = 5
    OF_DICTIONARY = 7
    OF_DATA_V2 = 8
    # Fields of these. Values are counted with nulls; the third is that of a data page alone.
    NUM_VALUES = 1
    ENCODING = 2
    LEVEL_ENCODING = 3
    # A header nests three structs at most.
    MAX_DEPTH = 8


cdef struct Sizes:
    int64_t unpacked
    int64_t values
    bint has_dictionary


def chunk_sizes(data):
    """Return what the pages of a column chunk say: how many bytes they unpack to, how many values
    they hold, and whether one of them is a dictionary.
    """
    cdef InputBuffer chunk = view_items(data, 1, "data")
    cdef Cursor cursor
    cdef Sizes total
    cursor.at = <const uint8_t*> chunk.ptr
    cursor.end = cursor.at + chunk.size
    cursor.is_broken = False
    with nogil:
        total = _walk(&cursor)
    if cursor.is_broken:
        raise ValueError("a column chunk does not consist of pages")
    return total.unpacked, total.values, bool(total.has_dictionary)


cdef Sizes _walk(Cursor* cursor) noexcept nogil:
    cdef Sizes total
    cdef Page page
    total.unpacked = total.values = 0
    total.has_dictionary = False
    while cursor.at < cursor.end and not cursor.is_broken:
        page = read_page(cursor)
        if not cursor.is_broken:
            total.unpacked += page.unpacked
            total.values += page.values
            total.has_dictionary |= page.kind == DICTIONARY
    return total


cdef Page read_page(Cursor* cursor) noexcept nogil:
    cdef Page page
    cdef int field = 0
    cdef int kind = _field(cursor, &field)
    page.kind = page.encoding = page.level_encoding = page.unpacked = page.packed = -1
    page.values = page.entries = 0
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == PAGE_KIND:
            page.kind = _number(cursor)
        elif kind == I32 and field == UNPACKED_SIZE:
            page.unpacked = _number(cursor)
        elif kind == I32 and field == PACKED_SIZE:
            page.packed = _number(cursor)
        elif kind == STRUCT and (field == OF_DATA or field == OF_DATA_V2):
            page.values = _read_values(cursor, &page)
        elif kind == STRUCT and field == OF_DICTIONARY:
            page.entries = _read_values(cursor, &page)
        else:
            _skip(cursor, kind, 0)
        kind = _field(cursor, &field)
    if page.unpacked < 0 or page.packed < 0 or page.values < 0 or page.entries < 0:
        cursor.is_broken = True
    page.body = cursor.at
    step(cursor, <uint64_t> page.packed)
    return page


cdef int64_t _read_values(Cursor* cursor, Page* page) noexcept nogil:
    """The number of values that the header of a page tells; their encodings go to `page`."""
    cdef int64_t found = 0
    cdef int field = 0
    cdef int kind = _field(cursor, &field)
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == NUM_VALUES:
            found = _number(cursor)
        elif kind == I32 and field == ENCODING:
            page.encoding = _number(cursor)
        elif kind == I32 and field == LEVEL_ENCODING:
            page.level_encoding = _number(cursor)
        else:
            _skip(cursor, kind, 1)
        kind = _field(cursor, &field)
    return found


cdef int _field(Cursor* cursor, int* field) noexcept nogil:
    """The type of the next field, STOP after the last one; its number goes to `field`."""
    cdef int head = _byte(cursor)
    if head & 15 == STOP:
        return STOP
    # Numbers of fields have 16 bits for every reader, so that none is another one here.
    field[0] = <int16_t> (field[0] + (head >> 4) if head >> 4 else read_signed(cursor))
    return head & 15


cdef void _skip(Cursor* cursor, int kind, int depth) noexcept nogil:
    cdef int field = 0
    cdef int inner
    if kind == TRUE or kind == FALSE:
        return
    if kind == BYTE:
        step(cursor, 1)
    elif kind == I16 or kind == I32 or kind == I64:
        read_varint(cursor)
    elif kind == DOUBLE:
        step(cursor, 8)
    elif kind == BINARY:
        step(cursor, read_varint(cursor))
    elif kind == STRUCT and depth < MAX_DEPTH:
        inner = _field(cursor, &field)
        while inner != STOP and not cursor.is_broken:
            _skip(cursor, inner, depth + 1)
            inner = _field(cursor, &field)
    else:
        # No page header has a collection.
        cursor.is_broken = True


cdef int64_t _number(Cursor* cursor) noexcept nogil:
    """A field of 32 bits; others could take one that does not fit them for another number."""
    cdef int64_t value = read_signed(cursor)
    if value != <int32_t> value:
        cursor.is_broken = True
    return value


cdef int64_t read_signed(Cursor* cursor) noexcept nogil:
    cdef uint64_t value = read_varint(cursor)
    return <int64_t> (value >> 1) ^ -<int64_t> (value & 1)


cdef uint64_t read_varint(Cursor* cursor) noexcept nogil:
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


cdef void step(Cursor* cursor, uint64_t count) noexcept nogil:
    if count > <uint64_t> (cursor.end - cursor.at):
        cursor.is_broken = True
        cursor.at = cursor.end
    else:
        cursor.at += count
