"""Structs of Thrift's compact protocol, in which Parquet describes files and pages.

Whoever reads a struct takes the fields that matter and steps over all others. Bytes from anywhere
give numbers or a broken cursor: every length is checked before it is used, and whatever is passed
over takes a byte at least, so that nothing goes on for longer than there are bytes.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t


cdef enum:
    # What Parquet describes nests fewer; deeper ones are hostile.
    MAX_DEPTH = 16


cdef int read_field(Cursor* cursor, int* field) noexcept nogil:
    cdef int head = _byte(cursor)
    if head & 15 == STOP:
        return STOP
    # Numbers of fields have 16 bits for every reader, so that none is another one here.
    field[0] = <int16_t> (field[0] + (head >> 4) if head >> 4 else read_signed(cursor))
    return head & 15


cdef uint64_t read_list(Cursor* cursor, int* kind) noexcept nogil:
    cdef int head = _byte(cursor)
    cdef uint64_t count = head >> 4
    if count == 15:
        count = read_varint(cursor)
    kind[0] = head & 15
    if count > <uint64_t> (cursor.end - cursor.at):
        cursor.is_broken = True
        return 0
    return count


cdef void skip(Cursor* cursor, int kind, int depth) noexcept nogil:
    cdef int field = 0
    cdef int inner = 0
    cdef uint64_t _, count
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
        inner = read_field(cursor, &field)
        while inner != STOP and not cursor.is_broken:
            skip(cursor, inner, depth + 1)
            inner = read_field(cursor, &field)
    elif (kind == LIST or kind == SET) and depth < MAX_DEPTH:
        count = read_list(cursor, &inner)
        # A truth is a byte in a list, and in a field only its type.
        inner = BYTE if inner == TRUE or inner == FALSE else inner
        for _ in range(count):
            if cursor.is_broken:
                return
            skip(cursor, inner, depth + 1)
    else:
        # Parquet has no maps.
        cursor.is_broken = True


cdef int64_t read_number(Cursor* cursor) noexcept nogil:
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
