"""Where a list of picked rows reaches in its sources: how far, and in how long runs."""

cimport cython
from libc.stdint cimport uint16_t, uint32_t

from lsmerge_native.buffers cimport NativeBuffer


# `count` consecutive output rows that are consecutive rows of one source, from `row` on.
cdef struct Run:
    uint32_t source
    uint32_t row
    uint32_t count


@cython.final
cdef class Footprint:
    cdef NativeBuffer limits    # Py_ssize_t per source: rows that it must have at least
    cdef NativeBuffer runs      # Run[num_runs] if long enough to be copied as such, or None
    cdef Py_ssize_t num_runs


# `limits` may be known already. Requires: every source is below num_sources.
cdef Footprint measure(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Py_ssize_t num_sources,
    NativeBuffer limits,
)

# Only the limits, for kernels that have no use for runs.
cdef NativeBuffer row_limits(
    const uint16_t* sources, const uint32_t* rows, Py_ssize_t length, Py_ssize_t num_sources
)
