"""The search for keys in a sorted block, for point reads."""

from libc.stdint cimport uint32_t

from lsmerge_native.keys cimport Keys, KeyView


# How many rows of the block have the key, and the first of them. Requires: sorted keys, and a key
# of their kind and width.
cdef Py_ssize_t find_key(Keys keys, const KeyView* key, uint32_t* start) except -1

# Fills in the rows [low, high) of each probe; how many rows those are. Requires: as above.
cdef Py_ssize_t find_keys(Keys keys, Keys probes, uint32_t* low, uint32_t* high) except -1
