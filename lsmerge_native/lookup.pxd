"""The search for keys in a sorted block, for point reads."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from lsmerge_native.keys cimport Keys, KeyView


# Keys, and the last of each SPAN whole ones as a word, without the bytes that all have in common;
# and of these again.
cdef struct Sampled:
    const KeyView* keys
    const uint64_t* sample
    Py_ssize_t count
    const uint64_t* top
    Py_ssize_t top_count
    size_t shared


# How many rows of the block have the key, and the first of them. Requires: sorted keys, and a key
# of their kind and width.
cdef Py_ssize_t find_key(Keys keys, const KeyView* key, uint32_t* start) except -1

# Sorted keys as they are searched; good for as long as the keys live.
cdef Sampled sample_keys(Keys keys) except *

# Fills in the rows [low, high) of each probe; how many rows those are. Requires: as find_key.
cdef Py_ssize_t find_keys(
    const Sampled* sampled, const KeyView* probes, uint32_t* low, uint32_t* high
) noexcept nogil
