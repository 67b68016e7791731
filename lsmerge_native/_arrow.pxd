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


# A column of any type that is not nested, all of it.
cdef struct FlatColumn:
    int64_t null_count
    const void* buffers[MAX_BUFFERS]


# What all batches of one schema have in common, for those who make views of their own.
@cython.final
cdef class FlatSchema:
    cdef readonly object schema      # as it was given
    cdef object _capsule             # owns the formats
    cdef list prototypes             # a view of each column, without rows
    cdef dict places                 # of the columns, by name
    cdef object _import              # makes a batch of the address of an ArrowArray and a schema

    # The columns as a view; `owners` holds what they point to.
    cdef BatchView view(self, int64_t num_rows, const FlatColumn* columns, list owners)


# Takes anything with __arrow_c_schema__; nested columns have LAYOUT_OTHER, and make no views.
cdef FlatSchema flat_schema(object schema, object importer)


cdef class ArrayView:
    cdef object _schema_capsule      # owns format
    cdef object _array_capsule       # owns every buffer below; with copies of misplaced ones
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
    cdef readonly object schema      # the producer's own, if it has one
    cdef dict places                 # of the columns, by name
    cdef list views
    cdef object _batch               # None until somebody asks for it; made of one of these:
    cdef FlatSchema _flat            # the views
    cdef BatchView _whole            # rows of another, from _start on
    cdef Py_ssize_t _start


# Takes anything that exports a struct, such as a record batch, and views.
cdef BatchView view_batch(object batch)


# Whether row i of the view is not null.
cdef inline bint is_valid(ArrayView view, Py_ssize_t i) noexcept nogil:
    return view.validity == NULL or bit_is_set(view.validity, view.offset + i)
