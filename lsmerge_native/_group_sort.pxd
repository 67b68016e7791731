"""Sorts the rows inside each group of a merge plan."""

from lsmerge_native._operands cimport KeyColumn
from lsmerge_native.plan cimport MergePlan


# The plan with the rows of each group sorted by key, stably; the plan itself if they are.
cdef MergePlan sort_groups(MergePlan plan, KeyColumn keys)
