"""A fold in progress: the groups of a merge plan, one column, and an output row per group."""

cimport cython
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from lsmerge_native._bits cimport set_bit
from lsmerge_native._column cimport Column
from lsmerge_native.buffers cimport NativeBuffer
from lsmerge_native.plan cimport MergePlan


@cython.final
cdef class Fold:
    cdef MergePlan _plan            # owns the next three
    cdef const uint16_t* sources
    cdef const uint32_t* rows
    cdef const uint32_t* starts
    cdef Py_ssize_t num_groups
    cdef Column column
    cdef NativeBuffer data          # zeros at first
    cdef NativeBuffer validity
    cdef Py_ssize_t null_count      # all groups at first


cdef Fold begin_fold(MergePlan plan, object arrays)

# (validity bitmap or None, data, null count)
cdef tuple finish_fold(Fold fold)


# At most once per group.
cdef inline void set_valid(Fold fold, Py_ssize_t group) noexcept nogil:
    set_bit(<uint8_t*> fold.validity.ptr, group)
    fold.null_count -= 1
