"""Whether directories are as they were."""

cimport cython
from libc.stdint cimport int64_t, uint64_t


cdef enum:
    MAX_DIRECTORIES = 4


cdef struct Stamp:
    int handle
    int64_t seconds
    int64_t nanoseconds


@cython.final
cdef class DirectoryEvents:
    cdef int _queue
    cdef unsigned int _forks     # of this process before it was made
    cdef readonly uint64_t told  # how often something was


@cython.final
cdef class DirectoryWatch:
    cdef Stamp[MAX_DIRECTORIES] _stamps
    cdef int _count
    cdef int64_t _deadline_ns
    cdef DirectoryEvents _events   # None if times have to tell
    cdef uint64_t _told

    cpdef bint is_unchanged(self) noexcept
    cdef void _close_handles(self) noexcept
    cdef bint _hear(self, DirectoryEvents events) noexcept
    cdef int _read_stamps(self, int64_t guard_ns) except -1
    cdef bint _is_stamped(self) noexcept
