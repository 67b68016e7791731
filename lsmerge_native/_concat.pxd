"""Joins the strings of each group of a merge plan."""

from lsmerge_native.plan cimport MergePlan


# (null count, [validity or None, offsets, bytes])
cdef tuple concat_groups(MergePlan plan, object arrays, bytes delimiter)
