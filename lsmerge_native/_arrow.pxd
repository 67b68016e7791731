"""Borrowed views of Arrow arrays, and batches to be handed out.

All pointers are the producer's, not shifted: row i of the array is at position `offset + i` of
validity, data and offsets alike.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t

from lsmerge_native._bits cimport bit_is_set


cdef enum Layout:
    LAYOUT_BITS      # bool: data is a bitmap
    LAYOUT_FIXED     # data holds `width` bytes per row
    LAYOUT_VARIABLE  # utf8, binary: offsets and bytes
    LAYOUT_OTHER     # nested, dictionary, view, 64-bit offsets: only length and validity are known


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data


cdef enum:
    MAX_BUFFERS = 3


# A column to be handed out, of any type that is not nested.
cdef struct OutgoingColumn:
    int64_t null_count
    int num_buffers
    const void* buffers[MAX_BUFFERS]


cdef class OutgoingBatch:
    cdef ArrowArray* _array


# The columns as a struct array; `owners` lives as long as it does and holds what they point to.
cdef OutgoingBatch outgoing_batch(
    int64_t num_rows, const OutgoingColumn* columns, Py_ssize_t count, list owners)


# (layout, bytes a row) of each column of anything with __arrow_c_schema__.
cdef list view_layouts(object schema)


cdef class ArrayView:
    cdef object _schema_capsule      # owns format
    cdef object _array_capsule       # owns every buffer below
    cdef const char* format          # Arrow C data format string
    cdef Layout layout
    cdef Py_ssize_t length
    cdef Py_ssize_t null_count       # counted if the producer did not say
    cdef Py_ssize_t offset
    cdef Py_ssize_t width            # bytes per row if LAYOUT_FIXED, else 0
    cdef const uint8_t* validity     # NULL if no row is null
    cdef const void* data            # buffer 1; NULL if absent or LAYOUT_OTHER
    cdef const int32_t* offsets      # LAYOUT_VARIABLE only; NULL is possible if length is 0
    cdef const uint8_t* bytes        # LAYOUT_VARIABLE only; NULL is possible if no row has bytes

    # First byte of row 0; Requires: LAYOUT_FIXED.
    cdef const uint8_t* values(self) noexcept nogil


# Takes anything with __arrow_c_array__, and views. TypeError if it has none or its layout
# has no validity bitmap (null, union, run-end), ValueError if it is released or malformed.
cdef ArrayView view_array(object array)


@cython.final
cdef class BatchView:
    cdef readonly Py_ssize_t num_rows
    cdef dict places                 # of the columns, by name
    cdef list views


# Takes anything that exports a struct, such as a record batch, and views.
cdef BatchView view_batch(object batch)


# Whether row i of the view is not null.
cdef inline bint is_valid(ArrayView view, Py_ssize_t i) noexcept nogil:
    return view.validity == NULL or bit_is_set(view.validity, view.offset + i)
