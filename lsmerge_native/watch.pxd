"""Whether directories are as they were."""

cimport cython
from libc.stdint cimport int64_t


cdef enum:
    MAX_DIRECTORIES = 4


cdef struct Stamp:
    int handle
    int64_t seconds
    int64_t nanoseconds


@cython.final
cdef class DirectoryWatch:
    cdef Stamp[MAX_DIRECTORIES] _stamps
    cdef int _count
    cdef int64_t _deadline_ns

    cpdef bint is_unchanged(self) noexcept
