"""Merges rows by words of their keys and keeps the newest of each key."""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from lsmerge_native._pair_merge cimport Entry
from lsmerge_native.keys cimport KeyView


# Merges two lists into `out` without the older rows of keys that both have; returns how many are
# left. They ascend if the rows of both lists do, and do not if those of one do not.
cdef Py_ssize_t newest_of_two(
    const Entry* older, Py_ssize_t num_older, const Entry* younger, Py_ssize_t num_younger,
    Entry* out) noexcept nogil


# The same of rows [start, stop) of a source, which are older, and of a list, written as a plan.
# Requires: keys are words; room for all rows.
cdef Py_ssize_t write_newest(
    const KeyView* keys, uint16_t source, Py_ssize_t start, Py_ssize_t stop,
    const Entry* younger, Py_ssize_t num_younger, uint16_t* sources, uint32_t* rows) noexcept nogil


# Where the first row of a list from `start` on is whose key is not less, or, if `after`, greater.
cdef Py_ssize_t find_key(
    const Entry* entries, Py_ssize_t start, Py_ssize_t count, uint64_t key, bint after
) noexcept nogil
