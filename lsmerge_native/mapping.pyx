"""Files mapped to be read: memory that the operating system fills and takes back as it sees fit.

A mapping outlives the handle and the name of its file, and ends with the last who looks at it.
Requires of the file: nobody makes it shorter, as reading what is gone ends the process.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport errno

import os


cdef extern from "include/file_mapping.h":
    void* file_map(int file, size_t nbytes) noexcept nogil
    void file_unmap(void* address, size_t nbytes) noexcept nogil
    long file_num_mappings() noexcept nogil
    bint file_is_on_disk(int file) noexcept


@cython.final
@cython.auto_pickle(False)
cdef class MappedFile:
    """The first bytes of a file; read-only."""

    cdef void* _address
    cdef size_t _size

    def __init__(self, int handle, size_t nbytes):
        """OSError if the system refuses, as it does for no bytes."""
        if self._address != NULL:
            raise ValueError("a mapping is made once")
        self._address, self._size = file_map(handle, nbytes), nbytes
        if self._address == NULL:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self._address != NULL:
            file_unmap(self._address, self._size)

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._address, <Py_ssize_t> self._size, True, flags)


def num_mapped():
    """How many files this process has mapped here."""
    return file_num_mappings()


def is_on_disk(int handle):
    """Whether a file or directory is known to be on a disk of this machine."""
    return file_is_on_disk(handle)
