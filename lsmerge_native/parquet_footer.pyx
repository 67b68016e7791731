"""Where the column chunks of a Parquet file are, as its footer tells.

pyarrow ends the process where it is asked for a column chunk that it does not like, so it is not
asked. Of a footer, a Thrift struct, only the row groups matter here, and of these their sizes and
the places of their chunks. Bytes from anywhere give numbers or a ValueError; whether there are any
chunks in these places is for the reader to find out.
"""

from libc.stdint cimport int64_t, uint64_t

from lsmerge_native._thrift cimport (
    I32, I64, LIST, STOP, STRUCT, Cursor, front, read_field, read_list, read_number, read_signed,
    skip,
)
from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, view_items


cdef enum:
    # Of the footer, of a row group, of a column chunk, and of what it says of its pages.
    ROW_GROUPS = 4
    COLUMNS = 1
    GROUP_BYTES = 2
    GROUP_ROWS = 3
    PAGES = 3
    CODEC = 4
    PACKED_BYTES = 7
    DATA_PAGE = 9
    DICTIONARY_PAGE = 11


cdef struct Group:
    int64_t rows
    int64_t size            # of its pages, unpacked
    int64_t chunks


# -1 is what the footer does not say.
cdef struct Chunk:
    int64_t codec
    int64_t size            # of its pages, packed
    int64_t data_page
    int64_t dictionary_page


# Counts what there is, and keeps what there is room for.
cdef struct Found:
    size_t num_groups
    size_t num_chunks
    size_t room_of_groups
    size_t room_of_chunks
    Group* groups
    Chunk* chunks


def read_footer(data):
    """Return row groups and column chunks, each as 64-bit integers.

    Three of a row group: its rows, the bytes of its unpacked pages, and how many chunks it has.
    Four of a chunk: its codec, the bytes of its packed pages, the offset of its data pages and that
    of its dictionary, which is -1 if it is not told.
    """
    cdef InputBuffer footer = view_items(data, 1, "data")
    cdef Found counted = Found(0, 0, 0, 0, NULL, NULL)
    cdef Found kept
    cdef NativeBuffer groups, chunks
    _read(footer, &counted)
    groups = allocate(counted.num_groups * sizeof(Group))
    chunks = allocate(counted.num_chunks * sizeof(Chunk))
    kept = Found(
        0, 0, counted.num_groups, counted.num_chunks, <Group*> groups.ptr, <Chunk*> chunks.ptr)
    _read(footer, &kept)
    return groups, chunks


cdef int _read(InputBuffer footer, Found* found) except -1:
    cdef Cursor cursor = front(footer.ptr, footer.size)
    with nogil:
        _read_groups(&cursor, found)
    if cursor.is_broken:
        raise ValueError("the footer of a Parquet file cannot be read")
    return 0


cdef void _read_groups(Cursor* cursor, Found* found) noexcept nogil:
    cdef int field = 0, inner = 0
    cdef int kind = read_field(cursor, &field)
    cdef uint64_t _, count
    while kind != STOP and not cursor.is_broken:
        if kind == LIST and field == ROW_GROUPS:
            count = read_list(cursor, &inner)
            _require(cursor, inner == STRUCT and found.num_groups == 0)
            for _ in range(count):
                _read_group(cursor, found)
                if cursor.is_broken:
                    return
        else:
            skip(cursor, kind, 0)
        kind = read_field(cursor, &field)


cdef void _read_group(Cursor* cursor, Found* found) noexcept nogil:
    cdef Group group = Group(-1, -1, 0)
    cdef int field = 0, inner = 0
    cdef int kind = read_field(cursor, &field)
    cdef uint64_t _, count
    while kind != STOP and not cursor.is_broken:
        if kind == LIST and field == COLUMNS:
            count = read_list(cursor, &inner)
            _require(cursor, inner == STRUCT and group.chunks == 0)
            for _ in range(count):
                _read_chunk(cursor, found)
                if cursor.is_broken:
                    return
            group.chunks = <int64_t> count
        elif kind == I64 and field == GROUP_BYTES:
            group.size = read_signed(cursor)
        elif kind == I64 and field == GROUP_ROWS:
            group.rows = read_signed(cursor)
        else:
            skip(cursor, kind, 0)
        kind = read_field(cursor, &field)
    if found.num_groups < found.room_of_groups and not cursor.is_broken:
        found.groups[found.num_groups] = group
    found.num_groups += 1


cdef void _read_chunk(Cursor* cursor, Found* found) noexcept nogil:
    cdef Chunk chunk = Chunk(-1, -1, -1, -1)
    cdef int field = 0
    cdef int kind = read_field(cursor, &field)
    while kind != STOP and not cursor.is_broken:
        if kind == STRUCT and field == PAGES:
            _read_places(cursor, &chunk)
        else:
            skip(cursor, kind, 0)
        kind = read_field(cursor, &field)
    # One that says nothing of its pages would cost more to keep than to write.
    _require(cursor, chunk.codec >= 0 and chunk.size >= 0 and chunk.data_page >= 0)
    if found.num_chunks < found.room_of_chunks and not cursor.is_broken:
        found.chunks[found.num_chunks] = chunk
    found.num_chunks += 1


cdef void _read_places(Cursor* cursor, Chunk* chunk) noexcept nogil:
    cdef int field = 0
    cdef int kind = read_field(cursor, &field)
    while kind != STOP and not cursor.is_broken:
        if kind == I32 and field == CODEC:
            chunk.codec = read_number(cursor)
        elif kind == I64 and field == PACKED_BYTES:
            chunk.size = read_signed(cursor)
        elif kind == I64 and field == DATA_PAGE:
            chunk.data_page = read_signed(cursor)
        elif kind == I64 and field == DICTIONARY_PAGE:
            chunk.dictionary_page = read_signed(cursor)
        else:
            skip(cursor, kind, 0)
        kind = read_field(cursor, &field)


cdef inline void _require(Cursor* cursor, bint holds) noexcept nogil:
    if not holds:
        cursor.is_broken = True
