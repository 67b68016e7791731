"""The files of a bucket as single keys are looked for in them."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t

from lsmerge_native.buffers cimport InputBuffer
from lsmerge_native.keys cimport KeyView
from lsmerge_native.point_rows cimport PointBlock


@cython.final
cdef class PointFile:
    cdef object __weakref__
    cdef readonly object file      # whatever the owner knows it by
    cdef readonly bint is_open
    cdef readonly bint one_row     # a key has one row at most, which stands for itself if it adds
    cdef readonly bint adds_only   # it has no retracts
    cdef bytes _min_key
    cdef bytes _max_key
    cdef list _first_keys          # of the blocks, while it is open
    cdef list _last_keys
    cdef list _blocks              # those in memory, None for others
    cdef InputBuffer _filter

    # Requires of those that name no other state: the file is open.
    # Whether it may hold a key with this hash.
    cdef bint may_hold(self, uint64_t hash) noexcept
    # Ask for the memory that may_hold() will look at, whether it is open or not.
    cdef void prefetch_filter(self, uint64_t hash) noexcept
    # The first block that may hold the key, -1 if there is none.
    cdef Py_ssize_t first_block(self, const KeyView* key) noexcept
    # Whether the block after this one begins with the key.
    cdef bint goes_on(self, Py_ssize_t number, const KeyView* key) noexcept
    # A block if it is in memory, else None.
    cdef PointBlock block(self, Py_ssize_t number)


@cython.final
cdef class PointBucket:
    cdef readonly list runs          # newest first; each a list of files in key order
    cdef readonly bint is_by_age     # whether rows of a run are newer than those of runs after it


# The file of a run whose range has the key, NULL if there is none; borrowed from the run.
cdef PyObject* file_for(list run, const KeyView* key) noexcept
