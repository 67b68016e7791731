"""Which rows of which sources make up an output, in output order."""

cimport cython
from libc.stdint cimport uint16_t, uint32_t

from lsmerge_native._footprint cimport Footprint
from lsmerge_native.buffers cimport NativeBuffer


@cython.final
cdef class Selection:
    cdef readonly NativeBuffer sources   # uint16 per output row
    cdef readonly NativeBuffer rows      # uint32 per output row
    # Arrow bitmap, or None if no pick is null. A null pick has a place in `sources` and `rows` as
    # well: some row of its group, or of the sources if the group is empty, so that kernels may read
    # before they look at the bitmap.
    cdef readonly NativeBuffer validity
    cdef readonly Py_ssize_t null_count
    cdef readonly Py_ssize_t num_sources
    cdef Py_ssize_t length
    cdef const uint16_t* source_ptr
    cdef const uint32_t* row_ptr
    cdef NativeBuffer _limits            # None, or as many rows as each source must have
    cdef Footprint _footprint

    cdef Footprint footprint(self)


# A selection of those rows; `validity` is None if no pick is null.
cdef Selection make_selection(
    NativeBuffer sources, NativeBuffer rows, Py_ssize_t num_sources, NativeBuffer validity,
    Py_ssize_t null_count,
)
