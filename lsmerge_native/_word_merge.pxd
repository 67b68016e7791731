"""The k-way merge of runs that interleave, by words instead of keys."""

from lsmerge_native._loser_tree cimport Merge


# Fills the output as merge_all() does, or returns False and leaves the merge to that: where runs
# are ordered by more than key and age, there are few rows or long streaks, keys are alike for too
# long, a run is not sorted, or has a key twice where the newest rows of words are all that is
# wanted. Requires: as merge_all().
cdef bint merge_interleaved(Merge* merge) except -1
