"""The k-way merge of sorted runs: a loser tree that gallops while one run keeps winning."""

from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from lsmerge_native.keys cimport KeyView


# Where a run stands: in one of its sources, which follow each other in key order.
cdef struct Cursor:
    KeyView keys
    KeyView orders
    const int64_t* sequences
    int64_t base
    Py_ssize_t row        # the next row; keys.length if the run is exhausted
    uint16_t source
    bint continues        # whether the source is of the same run as the one before it


cdef struct Merge:
    Cursor* parts         # every source at its first row
    Py_ssize_t num_parts
    Cursor* cursors       # every run
    uint64_t* heads       # prefix of each run's next key; all ones if the run is exhausted
    uint32_t* losers      # the run that lost at each inner node, which are 1 to count - 1
    Py_ssize_t count      # of runs
    bint has_orders
    bint is_by_age        # every run is older than the next, and there are no sequences
    bint newest_only      # rows that are not the newest of their key may be left out
    uint16_t* sources     # output, `filled` rows so far
    uint32_t* rows
    uint32_t* starts
    Py_ssize_t total
    Py_ssize_t filled
    Py_ssize_t groups
    uint64_t last_prefix  # of the last row of the output


# Fills the output with merge.total rows; returns the run seen to decrease at its cursor, or -1.
# Requires: room for as many runs as there are sources, filled, groups and last_prefix 0.
cdef Py_ssize_t merge_all(Merge* merge) noexcept nogil
