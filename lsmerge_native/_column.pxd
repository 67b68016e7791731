"""One column of several sources: an Arrow array per source, all of one type."""

cimport cython
from libc.stdint cimport int32_t, uint8_t

from lsmerge_native._arrow cimport Layout
from lsmerge_native._bits cimport bit_is_set
from lsmerge_native.buffers cimport NativeBuffer


# The array of one source. Bit i of its bitmaps is at `offset + i`; everything else starts at row 0.
# 64 bytes, so that the part of a source is found by a shift.
cdef struct Part:
    const uint8_t* values       # first byte of row 0, or the bitmap of a bool array
    const uint8_t* validity     # NULL if no row is null
    const int32_t* offsets      # strings and binaries only
    const uint8_t* bytes
    const uint8_t* bytes_end    # of the last row's bytes
    Py_ssize_t last_chunk       # where in `bytes` CHUNK_BYTES can be read at last; may be negative
    Py_ssize_t offset
    Py_ssize_t length


@cython.final
cdef class Column:
    cdef list _views            # own what the parts point to
    cdef NativeBuffer _parts
    cdef const Part* parts
    cdef Py_ssize_t num_parts
    cdef const char* format     # Arrow C data format string
    cdef Layout layout
    cdef Py_ssize_t width       # bytes per row of fixed-width types, else 0
    cdef bint has_nulls


# Part i is arrays[i]; limits[i] is the number of rows it must have at least. TypeError if the types
# differ, ValueError if there are too few or too short arrays or none; both name `what`.
cdef Column view_column(object arrays, str what, NativeBuffer limits)


# Whether row i of the part is not null.
cdef inline bint is_valid(const Part* part, Py_ssize_t i) noexcept nogil:
    return part.validity == NULL or bit_is_set(part.validity, part.offset + i)
