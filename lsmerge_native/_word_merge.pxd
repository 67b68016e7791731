"""The k-way merge of runs that interleave, for keys that are words."""

from lsmerge_native._loser_tree cimport Merge


# Fills the output as merge_all() does, or returns False and leaves the merge to that: where keys
# are not words, runs are ordered by more than key and age, there are few rows or long streaks, or
# a run is not sorted. Requires: as merge_all().
cdef bint merge_interleaved(Merge* merge) except -1
