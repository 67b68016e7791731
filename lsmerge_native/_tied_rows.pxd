"""Merges rows by words of their keys, and settles those that are tied by the rest of the keys."""

from libc.stdint cimport uint32_t

from lsmerge_native._key_words cimport KeyBytes
from lsmerge_native._loser_tree cimport Cursor
from lsmerge_native._pair_merge cimport Entry, Segment


cdef enum:
    MAX_RUNS = 32


# What a merge of chunks works with; there is room for the rows of the largest chunk.
cdef struct Workroom:
    const Cursor* parts
    Entry* entries        # NUM_SCRATCHES times `rows`
    Py_ssize_t rows
    KeyBytes* keys        # these and ties: NULL if keys are words
    uint32_t* ties


# Gives the rows words by their keys and merges them. The words that are left are equal where keys
# are, and decrease if a run does. False if that is seen before, or keys are alike for too long.
# Requires: keys are bytes; segments are in scratch 0, one for each rank of the rows, and not empty
# all of them.
cdef bint merge_by_keys(
    Workroom* room, Segment* segments, Py_ssize_t num_segments, Segment* merged) noexcept nogil
