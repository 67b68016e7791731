"""Decoded blocks as single rows are taken out of them."""

cimport cython
from libc.stdint cimport int8_t

from lsmerge_native.keys cimport Keys


@cython.final
cdef class PointBlock:
    cdef readonly object source   # the rows, as whoever keeps the block sees them
    cdef readonly list views      # of the columns in their order; None if it has no flat layout
    cdef readonly Py_ssize_t hits
    cdef Keys keys
    cdef bint _used

    # Note that somebody wanted the block.
    cdef inline void touch(self) noexcept:
        self.hits += 1
        self._used = True


@cython.final
cdef class RowShape:
    cdef dict _empty              # all columns, each with its default
    cdef list _names
    cdef list _cells              # of each column: position in a block, and what its values are
    cdef Py_ssize_t _kind_position
    cdef object _convert

    # Ask for the memory of a row: its columns lie far apart, each is a cache miss, and these should
    # be under way together.
    cdef void prefetch(self, PointBlock block, Py_ssize_t row) noexcept
    # The kind of a row, as rowkind.py numbers them.
    cdef int8_t kind(self, PointBlock block, Py_ssize_t row) except -1
    cdef dict row(self, PointBlock block, Py_ssize_t row)
