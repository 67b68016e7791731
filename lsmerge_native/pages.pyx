"""The pages of a Parquet column chunk, as their headers describe them, without unpacking one.

A chunk is a row of pages, each a header and its packed bytes. Of the fields of a header only sizes,
numbers of values and encodings matter here. Bytes from anywhere give numbers or a ValueError.
"""

from libc.stdint cimport int64_t, uint64_t

from lsmerge_native._thrift cimport (
    I32, STOP, STRUCT, Cursor, front, read_field, read_number, skip, step,
)
from lsmerge_native.buffers cimport InputBuffer, view_items


cdef enum:
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


cdef struct Sizes:
    int64_t unpacked
    int64_t values
    bint has_dictionary


def chunk_sizes(data):
    """Return what the pages of a column chunk say: how many bytes they unpack to, how many values
    they hold, and whether one of them is a dictionary.
    """
    cdef InputBuffer chunk = view_items(data, 1, "data")
    cdef Cursor cursor = front(chunk.ptr, chunk.size)
    cdef Sizes total = _walk(&cursor)
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
    cdef int field = 0, headers = 0
    cdef int kind = read_field(cursor, &field)
    page.kind = page.encoding = page.level_encoding = page.unpacked = page.packed = -1
    page.values = page.entries = 0
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == PAGE_KIND:
            page.kind = read_number(cursor)
        elif kind == I32 and field == UNPACKED_SIZE:
            page.unpacked = read_number(cursor)
        elif kind == I32 and field == PACKED_SIZE:
            page.packed = read_number(cursor)
        elif kind == STRUCT and (field == OF_DATA or field == OF_DATA_V2):
            page.values = _read_values(cursor, &page)
            headers += 1
        elif kind == STRUCT and field == OF_DICTIONARY:
            page.entries = _read_values(cursor, &page)
            headers += 1
        else:
            skip(cursor, kind, 0)
        kind = read_field(cursor, &field)
    if page.unpacked < 0 or page.packed < 0 or page.values < 0 or page.entries < 0:
        cursor.is_broken = True
    # Of two headers other readers may take the other one; and they make room for all entries.
    if headers > 1 or page.entries > page.unpacked:
        cursor.is_broken = True
    page.body = cursor.at
    step(cursor, <uint64_t> page.packed)
    return page


cdef int64_t _read_values(Cursor* cursor, Page* page) noexcept nogil:
    """The number of values that the header of a page tells; their encodings go to `page`."""
    cdef int64_t found = 0
    cdef int field = 0
    cdef int kind = read_field(cursor, &field)
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == NUM_VALUES:
            found = read_number(cursor)
        elif kind == I32 and field == ENCODING:
            page.encoding = read_number(cursor)
        elif kind == I32 and field == LEVEL_ENCODING:
            page.level_encoding = read_number(cursor)
        else:
            skip(cursor, kind, 1)
        kind = read_field(cursor, &field)
    return found
