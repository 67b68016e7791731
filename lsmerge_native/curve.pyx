"""Clustered orders: where keys stand among bounds, and curves through several such ranks.

A z-order value has the bits of its ranks in turns, the most significant ones first, so that rows
which are near in all of the ranks are mostly near in the order too. A Hilbert curve goes through
the same cells without a jump: each is next to the one before.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from lsmerge_native.buffers cimport allocate, allocate_zeroed, InputBuffer, NativeBuffer, view_items
from lsmerge_native.keys cimport gallop, Keys, require_comparable


cdef enum:
    MAX_BITS = 32
    MAX_COLUMNS = 64


def ranks(Keys bounds not None, Keys keys not None, *, bint after=True):
    """For every key how many bounds are not above it (or, unless `after`, below it), as uint32.

    Requires: `bounds` sorted; `keys` in any order.
    """
    require_comparable(bounds, keys, "ranks")
    cdef Py_ssize_t count = keys.view.length, i
    cdef NativeBuffer found = allocate(count * sizeof(uint32_t))
    cdef uint32_t* rank = <uint32_t*> found.ptr
    with nogil:
        for i in range(count):
            rank[i] = <uint32_t> gallop(&bounds.view, 0, &keys.view, i, after)
    return found


def interleave(columns not None, int bits, *, bint hilbert=False):
    """The z-order, or the place on a Hilbert curve, of the lower `bits` bits of columns of uint32.

    A row takes (columns * bits + 7) // 8 bytes.
    """
    cdef uint32_t[MAX_COLUMNS] point
    cdef list inputs = [view_items(column, sizeof(uint32_t), "column") for column in columns]
    cdef Py_ssize_t num_columns = len(inputs), count, i, axis
    if not 1 <= num_columns <= MAX_COLUMNS or not 1 <= bits <= MAX_BITS:
        raise ValueError(f"cannot interleave {bits} bits of {num_columns} columns")
    count = (<InputBuffer> inputs[0]).length
    if any((<InputBuffer> item).length != <size_t> count for item in inputs):
        raise ValueError("columns of ranks have unequal lengths")
    cdef size_t width = (num_columns * bits + 7) // 8
    cdef NativeBuffer values = allocate_zeroed(count * width)
    cdef const uint32_t** column_of = <const uint32_t**> malloc(num_columns * sizeof(uint32_t*))
    if column_of == NULL:
        raise MemoryError(f"no memory for {num_columns} columns")
    for i in range(num_columns):
        column_of[i] = <const uint32_t*> (<InputBuffer> inputs[i]).ptr
    with nogil:
        for i in range(count):
            for axis in range(num_columns):
                point[axis] = column_of[axis][i]
            if hilbert:
                unfold(point, num_columns, bits)
            weave(point, num_columns, bits, <uint8_t*> values.ptr + i * width)
    free(column_of)
    return values


# Turns a point into the numbers whose z-order is its place on the curve. From the largest cube to
# the smallest, the axes are turned so that the curve enters each cube where it left the one before;
# then neighbours differ in one bit (a Gray code), which the last two loops undo.
cdef void unfold(uint32_t* point, Py_ssize_t num_columns, int bits) noexcept nogil:
    cdef uint32_t half = <uint32_t> 1 << (bits - 1), below, swapped, flips = 0
    cdef Py_ssize_t axis
    cdef uint32_t bit = half
    while bit > 1:
        below = bit - 1
        for axis in range(num_columns):
            if point[axis] & bit:
                point[0] ^= below
            else:
                swapped = (point[0] ^ point[axis]) & below
                point[0] ^= swapped
                point[axis] ^= swapped
        bit >>= 1
    for axis in range(1, num_columns):
        point[axis] ^= point[axis - 1]
    bit = half
    while bit > 1:
        if point[num_columns - 1] & bit:
            flips ^= bit - 1
        bit >>= 1
    for axis in range(num_columns):
        point[axis] ^= flips


# Sets the bits of one row's value, which is zero before.
cdef void weave(
    const uint32_t* point, Py_ssize_t num_columns, int bits, uint8_t* value
) noexcept nogil:
    cdef Py_ssize_t position = 0, column
    cdef int bit
    for bit in range(bits - 1, -1, -1):
        for column in range(num_columns):
            if (point[column] >> bit) & 1:
                value[position >> 3] |= <uint8_t> (0x80 >> (position & 7))
            position += 1
