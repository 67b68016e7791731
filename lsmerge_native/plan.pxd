"""The merge plan: rows of several runs in merge order, and where each key begins."""

cimport cython
from libc.stdint cimport uint16_t, uint32_t

from lsmerge_native.buffers cimport NativeBuffer


@cython.final
cdef class MergePlan:
    cdef readonly Py_ssize_t num_rows
    cdef readonly Py_ssize_t num_groups
    cdef readonly Py_ssize_t num_sources
    cdef readonly NativeBuffer sources  # uint16 per row: the run it comes from
    cdef readonly NativeBuffer rows     # uint32 per row: its position in that run
    cdef readonly NativeBuffer starts   # uint32 per group, and num_rows at the end
    # The same three as C arrays; they live as long as the plan.
    cdef uint16_t* source_ptr
    cdef uint32_t* row_ptr
    cdef uint32_t* start_ptr
    # Groups with starts[g] == starts[g + 1]: only plans made by derive_plan() have them. What is
    # picked from them is null, but names the spare row, a real one of some source, so that kernels
    # may read before they look at the bitmap.
    cdef readonly Py_ssize_t num_empty_groups
    cdef uint16_t spare_source
    cdef uint32_t spare_row
    cdef NativeBuffer _limits

    # Py_ssize_t per source: the rows that it must have at least.
    cdef NativeBuffer limits(self)


# A plan with room for a group per row; its arrays are not set yet.
cdef MergePlan allocate_plan(Py_ssize_t num_rows, Py_ssize_t num_sources)

# A plan of the sources of `plan`, for other rows in other groups; its arrays are not set yet. Their
# padding has room for one row too many.
cdef MergePlan derive_plan(MergePlan plan, Py_ssize_t num_rows, Py_ssize_t num_groups)

# Sets the end of starts, and zeros the padding again.
cdef MergePlan finish_plan(MergePlan plan)
