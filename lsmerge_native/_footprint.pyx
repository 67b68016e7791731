"""Where a list of picked rows reaches in its sources: how far, and in how long runs."""

cimport cython
from libc.stdint cimport uint16_t, uint32_t

from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed


cdef enum:
    # Runs of so many rows on average are cheaper to copy as runs than row by row.
    LONG_RUN_ROWS = 8


@cython.final
@cython.auto_pickle(False)
cdef class Footprint:
    """What picked rows need of their sources; of use to kernels only."""

    def __init__(self):
        raise TypeError("a Footprint is made by measure()")


cdef Footprint measure(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Py_ssize_t num_sources,
    NativeBuffer limits,
):
    cdef Footprint footprint = Footprint.__new__(Footprint)
    cdef Py_ssize_t num_runs
    with nogil:
        num_runs = _count_runs(sources, rows, length)
    if num_runs * LONG_RUN_ROWS <= length:
        footprint.num_runs = num_runs
        footprint.runs = allocate(num_runs * sizeof(Run))
        with nogil:
            _find_runs(sources, rows, length, <Run*> footprint.runs.ptr)
    if limits is None:
        limits = _limits_of(footprint, sources, rows, length, num_sources)
    footprint.limits = limits
    return footprint


cdef NativeBuffer _limits_of(
    Footprint footprint, const uint16_t* sources, const uint32_t* rows, Py_ssize_t length,
    Py_ssize_t num_sources,
):
    cdef NativeBuffer limits
    if footprint.runs is None:
        return row_limits(sources, rows, length, num_sources)
    limits = allocate_zeroed(num_sources * sizeof(Py_ssize_t))
    with nogil:
        _raise_limits_by_runs(
            <const Run*> footprint.runs.ptr, footprint.num_runs, <Py_ssize_t*> limits.ptr)
    return limits


cdef NativeBuffer row_limits(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Py_ssize_t num_sources
):
    cdef NativeBuffer limits = allocate_zeroed(num_sources * sizeof(Py_ssize_t))
    with nogil:
        _raise_limits(sources, rows, length, <Py_ssize_t*> limits.ptr)
    return limits


cdef void _raise_limits(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Py_ssize_t* limits
) noexcept nogil:
    cdef Py_ssize_t i
    # Rows of a source mostly ascend, so that from the end on the first one seen is the highest.
    for i in range(length - 1, -1, -1):
        if <Py_ssize_t> rows[i] >= limits[sources[i]]:
            limits[sources[i]] = <Py_ssize_t> rows[i] + 1


cdef void _raise_limits_by_runs(
    const Run* runs, Py_ssize_t num_runs, Py_ssize_t* limits
) noexcept nogil:
    cdef Py_ssize_t i, end
    for i in range(num_runs):
        end = <Py_ssize_t> runs[i].row + runs[i].count
        limits[runs[i].source] = max(limits[runs[i].source], end)


cdef Py_ssize_t _count_runs(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length
) noexcept nogil:
    cdef Py_ssize_t i, count = length > 0
    for i in range(1, length):
        count += (rows[i] != rows[i - 1] + 1) | (sources[i] != sources[i - 1])
    return count


cdef void _find_runs(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Run* runs
) noexcept nogil:
    cdef Py_ssize_t i = 0, start
    while i < length:
        start = i
        i += 1
        while i < length and rows[i] == rows[i - 1] + 1 and sources[i] == sources[start]:
            i += 1
        runs.source = sources[start]
        runs.row = rows[start]
        runs.count = <uint32_t> (i - start)
        runs += 1
