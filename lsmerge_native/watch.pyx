"""Tells at the price of a system call a directory whether names came or went there.

A directory's time of change moves with every name that is added or removed, but only as finely as
the clock of its file system ticks: two changes within one tick may leave the same time. So a watch
vouches for nothing if a directory was changed just before the watch began. And it vouches only for
a while: a directory may have been put in the place of the one watched, or its time may come from
the clock of another machine.

The only kernel that asks the operating system anything; storage/ hands in the directories.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int64_t
from posix.stat cimport fstat, struct_stat
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec
from posix.unistd cimport close


cdef extern from *:
    """
    #ifdef __APPLE__
    #define st_ctim st_ctimespec
    #endif
    """


cdef enum:
    NANOSECOND = 1
    MILLISECOND = 1_000_000 * NANOSECOND

cdef int64_t SECOND = 1000 * MILLISECOND
# A file system that keeps whole seconds may keep even ones only.
cdef int64_t COARSE_GUARD = 3 * SECOND


@cython.final
@cython.auto_pickle(False)
cdef class DirectoryWatch:
    """Some directories since this was made. Thread-safe."""

    def __init__(self, list handles not None, int64_t max_age_ms, int64_t guard_ms):
        """Takes open handles of directories over, whatever happens; OSError if one has no status.

        It vouches for nothing `max_age_ms` after it was made, or if a directory was changed less
        than `guard_ms`, which is longer than a tick, before.
        """
        cdef Py_ssize_t i
        if len(handles) > MAX_DIRECTORIES:
            for handle in handles:
                close(handle)
            raise ValueError(f"{len(handles)} directories; at most {MAX_DIRECTORIES} are watched")
        for i in range(len(handles)):
            self._stamps[i].handle = handles[i]
            self._count += 1
        self._deadline_ns = _now_ns(CLOCK_MONOTONIC) + max_age_ms * MILLISECOND
        cdef int64_t now = _now_ns(CLOCK_REALTIME)
        for i in range(self._count):
            if not _read(self._stamps[i].handle, &self._stamps[i]):
                raise OSError(errno, "cannot read the status of a directory")
            if not _is_settled(&self._stamps[i], now, guard_ms * MILLISECOND):
                self._deadline_ns = 0

    def __dealloc__(self):
        cdef int i
        for i in range(self._count):
            close(self._stamps[i].handle)

    @property
    def is_settled(self):
        """Whether it can vouch for anything: no directory was changed just before it was made."""
        return self._deadline_ns > 0

    cpdef bint is_unchanged(self) noexcept:
        """Whether certainly no name came or went in any directory since this was made."""
        cdef Stamp now
        cdef int i
        if _now_ns(CLOCK_MONOTONIC) >= self._deadline_ns:
            return False
        for i in range(self._count):
            if not _read(self._stamps[i].handle, &now):
                return False
            if now.seconds != self._stamps[i].seconds or \
                    now.nanoseconds != self._stamps[i].nanoseconds:
                return False
        return True


cdef bint _read(int handle, Stamp* out) noexcept:
    cdef struct_stat status
    if fstat(handle, &status) != 0:
        return False
    out.seconds, out.nanoseconds = status.st_ctim.tv_sec, status.st_ctim.tv_nsec
    return True


cdef bint _is_settled(const Stamp* stamp, int64_t now, int64_t guard) noexcept:
    if stamp.nanoseconds == 0:
        guard = COARSE_GUARD
    return stamp.seconds * SECOND + stamp.nanoseconds + guard < now


cdef inline int64_t _now_ns(int clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t> now.tv_sec * SECOND + now.tv_nsec
