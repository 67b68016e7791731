"""Memory that kernels give out (NativeBuffer) and memory that callers hand in (InputBuffer)."""

cimport cython
from cpython.buffer cimport Py_buffer
from libc.stddef cimport size_t


cdef enum:
    # Alignment of every NativeBuffer, and the number of writable bytes after its last one.
    PADDING_BYTES = 64


cdef class InputBuffer


@cython.final
cdef class NativeBuffer:
    cdef char* ptr          # aligned to PADDING_BYTES, never NULL
    cdef size_t size
    cdef void* _block       # what the C allocator returned, NULL if the memory is the owner's
    cdef InputBuffer _owner
    cdef Py_ssize_t _exports

    # Keeps the first `nbytes` bytes. Requires: nbytes <= size and no Python view is open.
    # Ensures: the padding after them is zero again.
    cdef int truncate(self, size_t nbytes) except -1


@cython.final
cdef class InputBuffer:
    cdef const char* ptr    # aligned to the item size that was asked for
    cdef size_t size        # in bytes
    cdef size_t length      # in items
    cdef Py_buffer _view
    cdef bint _held
    cdef NativeBuffer _copy


# Uninitialised memory with zeroed padding.
cdef NativeBuffer allocate(size_t nbytes)

# Memory of zeros.
cdef NativeBuffer allocate_zeroed(size_t nbytes)

# A copy of the caller's memory.
cdef bytes bytes_of(InputBuffer items)

# Any object with the buffer protocol as contiguous items of `item_bytes` (a power of two).
# Raises ValueError, naming `what`, if its size is no multiple of that. Misaligned memory is copied.
cdef InputBuffer view_items(object data, size_t item_bytes, str what)
