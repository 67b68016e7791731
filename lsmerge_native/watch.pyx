"""Tells at the price of a system call or two whether names came or went in directories.

Where the kernel tells of every change (`DirectoryEvents`), the question is whether it told of any.
Elsewhere the directories' times of change are compared. A time moves with every name that is added
or removed, but only as finely as the clock of its file system ticks: two changes within one tick
may leave the same time. So times vouch for nothing if a directory was changed just before.

A watch vouches only for a while: a directory may have been put in the place of the one watched, or
its time may come from the clock of another machine.

With `mapping` the only kernel that asks the operating system anything; storage/ hands in the
directories.
"""

import os

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


cdef extern from "include/directory_events.h":
    int directory_events_open() noexcept
    int directory_events_add(int queue, int directory) noexcept
    bint directory_events_told(int queue) noexcept
    void directory_events_drain(int queue) noexcept


cdef enum:
    MILLISECOND = 1_000_000
    # A user may have 128 queues by default, in all processes together.
    MAX_QUEUES = 16

cdef int64_t SECOND = 1000 * MILLISECOND
# A file system that keeps whole seconds may keep even ones only.
cdef int64_t COARSE_GUARD = 3 * SECOND

cdef int open_queues = 0
cdef unsigned int forks = 0


def _note_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_note_fork)


@cython.final
@cython.auto_pickle(False)
cdef class DirectoryEvents:
    """What the kernel tells of directories, for any number of watches. Thread-safe.

    A forked process shares the queue with its parent and must not take anything out of it.
    """

    def __cinit__(self):
        self._queue = -1

    def __init__(self):
        """OSError if there are none to be had."""
        global open_queues
        self._forks = forks
        if open_queues < MAX_QUEUES:
            self._queue = directory_events_open()
        if self._queue < 0:
            raise OSError(errno, "the system tells of no changes of directories")
        open_queues += 1

    def __dealloc__(self):
        global open_queues
        if self._queue >= 0:
            open_queues -= 1
            close(self._queue)

    @property
    def is_own(self):
        """Whether it was made by this process."""
        return self._forks == forks


@cython.final
@cython.auto_pickle(False)
cdef class DirectoryWatch:
    """Some directories since this was made. Thread-safe."""

    def __init__(
        self, list handles not None, int64_t max_age_ms, int64_t guard_ms,
        DirectoryEvents events=None,
    ):
        """Takes open handles of directories over, whatever happens; OSError if one has no status.

        It vouches for nothing `max_age_ms` after it was made, or, unless `events` tells of all the
        directories, if one was changed less than `guard_ms`, which is longer than a tick, before.
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
        if events is None or not self._hear(events):
            self._read_stamps(guard_ms * MILLISECOND)

    def __dealloc__(self):
        self._close_handles()

    @property
    def is_settled(self):
        """Whether it can vouch for anything."""
        return self._deadline_ns > 0

    @property
    def hears(self):
        """Whether the kernel tells it of changes."""
        return self._events is not None

    cpdef bint is_unchanged(self) noexcept:
        """Whether certainly no name came or went in any directory since this was made."""
        if _now_ns(CLOCK_MONOTONIC) >= self._deadline_ns:
            return False
        if self._events is None:
            return self._is_stamped()
        _listen(self._events)
        return self._events.told == self._told and self._events._forks == forks

    cdef bint _hear(self, DirectoryEvents events) noexcept:
        """Whether from now on the kernel tells of all the directories."""
        cdef int i
        if events._forks != forks:
            return False
        for i in range(self._count):
            if directory_events_add(events._queue, self._stamps[i].handle) != 0:
                return False
        _listen(events)
        self._events, self._told = events, events.told
        self._close_handles()  # the kernel knows the directories now
        return True

    cdef void _close_handles(self) noexcept:
        cdef int i
        for i in range(self._count):
            close(self._stamps[i].handle)
        self._count = 0

    cdef int _read_stamps(self, int64_t guard_ns) except -1:
        cdef int64_t now = _now_ns(CLOCK_REALTIME)
        cdef int i
        for i in range(self._count):
            if not _read(self._stamps[i].handle, &self._stamps[i]):
                raise OSError(errno, "cannot read the status of a directory")
            if not _is_settled(&self._stamps[i], now, guard_ns):
                self._deadline_ns = 0
        return 0

    cdef bint _is_stamped(self) noexcept:
        """Whether the times of change are those that were read."""
        cdef Stamp now
        cdef int i
        for i in range(self._count):
            if not _read(self._stamps[i].handle, &now):
                return False
            if now.seconds != self._stamps[i].seconds or \
                    now.nanoseconds != self._stamps[i].nanoseconds:
                return False
        return True


cdef void _listen(DirectoryEvents events) noexcept:
    if events._forks == forks and directory_events_told(events._queue):
        events.told += 1
        directory_events_drain(events._queue)


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
