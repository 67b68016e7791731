"""The question whether a filter may hold one hash."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t


cdef enum:
    BLOCK_BYTES = 32


# False if the hash is certainly absent. Requires: whole blocks, at least one.
cdef bint may_hold(const char* bitset, size_t nbytes, uint64_t hash) noexcept nogil

# Ask for the memory that may_hold() will look at.
cdef void prefetch_block(const char* bitset, size_t nbytes, uint64_t hash) noexcept nogil
