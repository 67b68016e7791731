"""Merges lists of words in pairs, by arithmetic instead of jumps."""

from libc.stdint cimport uint64_t


cdef enum:
    NUM_SCRATCHES = 3


cdef struct Entry:
    uint64_t key
    uint64_t row              # of runs in parts: rank of the run in age << 48 | part << 32 | row


# Rows of runs that are neighbours in age, merged already, in one of the scratches.
cdef struct Segment:
    Py_ssize_t start
    Py_ssize_t count
    int scratch


# Merges neighbours, the shortest pair first, until one segment is left, and returns that; of equal
# keys those of the segment before come first, or are left out if `newest_only`. `scratch` is
# NUM_SCRATCHES times `scratch_rows`. Requires: segments follow each other, and where they lie in
# one scratch, the others are free.
cdef Segment merge_segments(
    Segment* segments, Py_ssize_t count, Entry* scratch, Py_ssize_t scratch_rows, bint newest_only
) noexcept nogil
