"""Borrowed views of Arrow arrays.

All pointers are the producer's, not shifted: row i of the array is at position `offset + i` of
validity, data and offsets alike.
"""

from libc.stdint cimport int32_t, uint8_t

from lsmerge_native._bits cimport bit_is_set


cdef enum Layout:
    LAYOUT_BITS      # bool: data is a bitmap
    LAYOUT_FIXED     # data holds `width` bytes per row
    LAYOUT_VARIABLE  # utf8, binary: offsets and bytes
    LAYOUT_OTHER     # nested, dictionary, view, 64-bit offsets: only length and validity are known


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


# Whether row i of the view is not null.
cdef inline bint is_valid(ArrayView view, Py_ssize_t i) noexcept nogil:
    return view.validity == NULL or bit_is_set(view.validity, view.offset + i)
