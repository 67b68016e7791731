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


cdef MergePlan allocate_plan(Py_ssize_t num_rows, Py_ssize_t num_sources)
