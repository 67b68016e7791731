"""A fold in progress: the groups of a merge plan, one column, and an output row per group."""

cimport cython

from lsmerge_native._bits cimport bitmap_bytes
from lsmerge_native._operands cimport view_operands
from lsmerge_native.buffers cimport allocate_zeroed
from lsmerge_native.plan cimport MergePlan


@cython.final
@cython.auto_pickle(False)
cdef class Fold:
    pass


cdef Fold begin_fold(MergePlan plan, object arrays):
    cdef Fold fold = Fold.__new__(Fold)
    fold._plan = plan
    fold.sources = plan.source_ptr
    fold.rows = plan.row_ptr
    fold.starts = plan.start_ptr
    fold.num_groups = plan.num_groups
    fold.column = view_operands(plan, arrays, "arrays")
    fold.data = allocate_zeroed(plan.num_groups * fold.column.width)
    fold.validity = allocate_zeroed(bitmap_bytes(plan.num_groups))
    fold.null_count = plan.num_groups
    return fold


cdef tuple finish_fold(Fold fold):
    return (fold.validity if fold.null_count else None), fold.data, fold.null_count
