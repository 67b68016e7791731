"""Counting sort: how many members each class has becomes where its members begin."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t


cdef enum:
    # Classes of a hash by its upper or lower half.
    HALVES = 65_536


# Requires: counts[0] is 0, and counts[k + 1] the number of members of class k.
# Ensures: counts[k] is the number of members of all classes below k.
cdef inline void accumulate(uint32_t* counts, size_t classes) noexcept nogil:
    cdef size_t k
    for k in range(classes):
        counts[k + 1] += counts[k]
