"""Bytes that are read from the front, and structs of Thrift's compact protocol among them."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    # Types of fields; STOP ends a struct.
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


# Once it is broken nothing that was read means anything.
cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end
    bint is_broken


cdef inline Cursor front(const char* data, size_t nbytes) noexcept nogil:
    cdef Cursor cursor
    cursor.at = <const uint8_t*> data
    cursor.end = cursor.at + nbytes
    cursor.is_broken = False
    return cursor


# The type of the next field, STOP after the last one. Its number goes to `field`, at first 0.
cdef int read_field(Cursor* cursor, int* field) noexcept nogil

# The number of elements of a list, whose type goes to `kind`.
# Ensures: there are as many bytes left, or the cursor is broken.
cdef uint64_t read_list(Cursor* cursor, int* kind) noexcept nogil

# Passes over the value of a field of this type, which lies in so many others.
cdef void skip(Cursor* cursor, int kind, int depth) noexcept nogil

# A number of 32 bits; others could take one that does not fit them for another number.
cdef int64_t read_number(Cursor* cursor) noexcept nogil

# A number of seven bits a byte.
cdef uint64_t read_varint(Cursor* cursor) noexcept nogil

# The same, with the sign in its lowest bit.
cdef int64_t read_signed(Cursor* cursor) noexcept nogil

# Passes over bytes.
cdef void step(Cursor* cursor, uint64_t count) noexcept nogil
