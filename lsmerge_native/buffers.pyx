"""Memory that kernels give out (NativeBuffer) and memory that callers hand in (InputBuffer).

Invariants:
- a NativeBuffer starts at a multiple of PADDING_BYTES and is followed by at least as many
  writable bytes, so that kernels may store whole words past the end;
- Python sees it as read-only bytes, and it is not resized while Python looks at it.

Large buffers come from whatever use_allocator() names. The C library gives the pages of large
blocks back to the system when they are freed, and touching them anew costs more than filling them.
For the same reason blocks of files are read into memory that blocks before them had, as long as
somebody merges: a merge has few of them at a time and reads many.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport SIZE_MAX, uintptr_t
from libc.string cimport memcpy, memset


cdef extern from "include/huge_pages.h" nogil:
    void advise_huge_pages(void* block, size_t nbytes)


cdef enum:
    LARGE_BYTES = 65536  # below this, asking the C allocator is cheaper than calling another


@cython.final
@cython.auto_pickle(False)
cdef class NativeBuffer:
    """Bytes made by a kernel; read-only from Python."""

    def __init__(self):
        raise TypeError("a NativeBuffer is made by a kernel, not by a call")

    def __dealloc__(self):
        PyMem_RawFree(self._block)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.ptr, <Py_ssize_t> self.size, True, flags)
        self._exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self._exports -= 1

    cdef int truncate(self, size_t nbytes) except -1:
        if nbytes > self.size or self._exports:
            raise ValueError(f"cannot keep {nbytes} of {self.size} bytes, {self._exports} views")
        self.size = nbytes
        memset(self.ptr + nbytes, 0, PADDING_BYTES)
        return 0


@cython.final
@cython.auto_pickle(False)
cdef class InputBuffer:
    """A caller's memory, held as long as this object lives."""

    def __init__(self):
        raise TypeError("an InputBuffer is made by view_items()")

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._view)


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class BlockBuffer:
    """Writable memory for a block of a file, to be used again when nobody holds it any more."""

    cdef NativeBuffer _memory
    cdef size_t _size

    def __cinit__(self, size_t nbytes):
        self._size = nbytes
        self._memory = _take_spare(nbytes)
        if self._memory is None:
            self._memory = allocate(_rounded(nbytes))

    def __dealloc__(self):
        if self._memory is not None:
            _keep_spare(self._memory)

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self._memory.ptr, <Py_ssize_t> self._size, False, flags)


cdef enum:
    MAX_SPARES = 64
    ROUND_BYTES = 65536


cdef list spares = []            # the one that was given back last is at the end
cdef size_t num_spare_bytes = 0
cdef size_t most_spare_bytes = 0


def begin_merge(size_t spare_bytes):
    """Keep so much more memory of blocks for those to come, until end_merge() of the same."""
    global most_spare_bytes
    with cython.critical_section(spares):
        most_spare_bytes += spare_bytes


def end_merge(size_t spare_bytes):
    """Let go of what is kept beyond what others have asked for."""
    global most_spare_bytes, num_spare_bytes
    cdef NativeBuffer spare
    with cython.critical_section(spares):
        if spare_bytes > most_spare_bytes:
            raise ValueError(f"{spare_bytes} bytes to let go of, {most_spare_bytes} asked for")
        most_spare_bytes -= spare_bytes
        while num_spare_bytes > most_spare_bytes:
            spare = spares.pop()
            num_spare_bytes -= spare.size


cdef size_t _rounded(size_t nbytes) noexcept:
    """Blocks of a file have nearly the same size; so that one serves for another."""
    if nbytes < 8 * ROUND_BYTES:
        return nbytes
    return (nbytes + ROUND_BYTES - 1) // ROUND_BYTES * ROUND_BYTES


cdef NativeBuffer _take_spare(size_t nbytes):
    global num_spare_bytes
    cdef Py_ssize_t i
    cdef NativeBuffer spare
    with cython.critical_section(spares):
        for i in range(len(spares) - 1, -1, -1):
            spare = spares[i]
            # Not much more than is needed: budgets count what blocks need.
            if nbytes <= spare.size <= nbytes + nbytes // 4:
                del spares[i]
                num_spare_bytes -= spare.size
                return spare
    return None


cdef int _keep_spare(NativeBuffer spare) except -1:
    global num_spare_bytes
    with cython.critical_section(spares):
        if (spare.size >= LARGE_BYTES and len(spares) < MAX_SPARES
                and num_spare_bytes + spare.size <= most_spare_bytes):
            spares.append(spare)
            num_spare_bytes += spare.size
    return 0


cdef object large_allocator = None


def use_allocator(allocator):
    """Let large buffers be made by `allocator`, from a number of bytes to writable memory.

    Returns the one before; None is the C allocator, with which a process begins.
    """
    global large_allocator
    before, large_allocator = large_allocator, allocator
    return before


cdef NativeBuffer allocate(size_t nbytes):
    cdef NativeBuffer buffer
    if nbytes >= LARGE_BYTES and large_allocator is not None:
        buffer = _allocate_large(large_allocator, nbytes)
    else:
        buffer = _adopt(PyMem_RawMalloc(_block_bytes(nbytes)), nbytes)
    memset(buffer.ptr + nbytes, 0, PADDING_BYTES)
    return buffer


cdef NativeBuffer _allocate_large(object allocator, size_t nbytes):
    cdef size_t block_bytes = _block_bytes(nbytes)
    cdef InputBuffer owner = InputBuffer.__new__(InputBuffer)
    PyObject_GetBuffer(allocator(block_bytes), &owner._view, PyBUF_WRITABLE)
    owner._held = True
    if <size_t> owner._view.len < block_bytes:
        raise ValueError(f"{owner._view.len} bytes allocated where {block_bytes} were asked for")
    cdef NativeBuffer buffer = _aligned(owner._view.buf, nbytes)
    buffer._owner = owner
    return buffer


cdef NativeBuffer allocate_zeroed(size_t nbytes):
    cdef NativeBuffer buffer
    if nbytes >= LARGE_BYTES and large_allocator is not None:
        buffer = allocate(nbytes)
        memset(buffer.ptr, 0, nbytes)
        return buffer
    return _adopt(PyMem_RawCalloc(_block_bytes(nbytes), 1), nbytes)


cdef size_t _block_bytes(size_t nbytes) except 0:
    # One share for the padding, one for moving the start to an aligned address.
    if nbytes > SIZE_MAX // 2 - 2 * PADDING_BYTES:
        raise MemoryError(f"{nbytes} bytes are more than the address space holds")
    return nbytes + 2 * PADDING_BYTES


cdef NativeBuffer _adopt(void* block, size_t nbytes):
    if block == NULL:
        raise MemoryError(f"no memory for {nbytes} bytes")
    advise_huge_pages(block, nbytes)
    cdef NativeBuffer buffer = _aligned(block, nbytes)
    buffer._block = block
    return buffer


cdef NativeBuffer _aligned(void* block, size_t nbytes):
    cdef NativeBuffer buffer = NativeBuffer.__new__(NativeBuffer)
    cdef uintptr_t mask = PADDING_BYTES - 1
    buffer.ptr = <char*> ((<uintptr_t> block + mask) & ~mask)
    buffer.size = nbytes
    return buffer


cdef InputBuffer view_items(object data, size_t item_bytes, str what):
    cdef InputBuffer items = InputBuffer.__new__(InputBuffer)
    PyObject_GetBuffer(data, &items._view, PyBUF_SIMPLE)
    items._held = True
    items.size = <size_t> items._view.len
    if items.size & (item_bytes - 1):
        raise ValueError(f"{what}: {items.size} bytes do not make items of {item_bytes} bytes")
    items.length = items.size // item_bytes
    items.ptr = <const char*> items._view.buf
    if <uintptr_t> items.ptr & (item_bytes - 1):
        items._copy = allocate(items.size)
        memcpy(items._copy.ptr, items.ptr, items.size)
        items.ptr = items._copy.ptr
    return items


cdef bytes bytes_of(InputBuffer items):
    return items.ptr[:items.size]
