"""CRC-32C of bytes, and of the stripes of a file, also while it is read.

A stripe is bound to its place: its checksum starts from the checksum of the file's id followed by
the stripe's absolute offset (8 bytes, little-endian). So the right bytes of another file, or
of another offset, do not pass.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EINTR, errno
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport strerror
from posix.types cimport off_t

from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, view_items


cdef extern from "include/crc32c.h" nogil:
    void crc32c_prepare()
    uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size)
    ctypedef uint32_t (*crc32c_fn)(uint32_t crc, const uint8_t* data, size_t size)
    const crc32c_fn* crc32c_ways
    const int crc32c_num_ways


cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t preadv(int descriptor, const iovec* parts, int count, off_t offset)


cdef enum:
    # Read, then checked while they are in a near cache.
    BYTES_AT_ONCE = 262144
    ENDS_EARLY = -1


crc32c_prepare()


# How data is cut: stripe i is at offset first_offset + i * stripe_bytes of the file, and only the
# last one may be shorter. `id_crc` is the checksum of the file's id.
cdef struct Stripes:
    const uint8_t* data
    size_t size
    size_t stripe_bytes
    uint64_t first_offset
    uint32_t id_crc


def crc32c(data, uint32_t seed=0):
    """Return the checksum of `data`, continuing `seed`, the checksum of what came before it."""
    cdef InputBuffer items = view_items(data, 1, "data")
    cdef uint32_t crc
    with nogil:
        crc = crc32c_extend(seed, <const uint8_t*> items.ptr, items.size)
    return crc


def testing_crc32c_ways():
    """How many ways this processor has to compute a checksum; crc32c() takes the last."""
    return crc32c_num_ways


def testing_crc32c(data, uint32_t seed, int way):
    """The same as crc32c(), computed in one of the ways; 0 is that of any processor."""
    cdef InputBuffer items = view_items(data, 1, "data")
    if not 0 <= way < crc32c_num_ways:
        raise ValueError(f"way {way} of {crc32c_num_ways}")
    return crc32c_ways[way](seed, <const uint8_t*> items.ptr, items.size)


def stripe_checksums(data, bytes file_id not None, uint64_t first_offset, size_t stripe_bytes):
    """Return one uint32 per stripe of `data`, which begins at `first_offset` of the file."""
    cdef InputBuffer items = view_items(data, 1, "data")
    cdef Stripes stripes = _cut(items, file_id, first_offset, stripe_bytes)
    cdef size_t i, count = _count(&stripes)
    cdef NativeBuffer checksums = allocate(count * sizeof(uint32_t))
    cdef uint32_t* out = <uint32_t*> checksums.ptr
    with nogil:
        for i in range(count):
            out[i] = _stripe_crc(&stripes, i)
    return checksums


def first_bad_stripe(
    data, bytes file_id not None, uint64_t first_offset, size_t stripe_bytes, expected
):
    """Return the index of the first stripe whose checksum is not the expected one, or -1."""
    cdef InputBuffer items = view_items(data, 1, "data")
    cdef InputBuffer wanted = view_items(expected, sizeof(uint32_t), "expected")
    cdef Stripes stripes = _cut(items, file_id, first_offset, stripe_bytes)
    cdef Py_ssize_t found
    _require_checksums(&stripes, wanted)
    with nogil:
        found = _find_mismatch(&stripes, <const uint32_t*> wanted.ptr, 0, wanted.length)
    return found


def read_stripes(
    int descriptor, into, bytes file_id not None, uint64_t first_offset, size_t stripe_bytes,
    expected
):
    """Fill `into` from `first_offset` of an open file, checking stripe by stripe.

    Returns what first_bad_stripe() would, in which case the rest is not read. Raises EOFError if
    the file ends before, OSError if it cannot be read.
    """
    cdef Py_buffer target
    PyObject_GetBuffer(into, &target, PyBUF_WRITABLE)
    try:
        items = view_items(into, 1, "into")
        return _read_checked(
            descriptor, _cut(items, file_id, first_offset, stripe_bytes),
            view_items(expected, sizeof(uint32_t), "expected"))
    finally:
        PyBuffer_Release(&target)


cdef Py_ssize_t _read_checked(
    int descriptor, Stripes stripes, InputBuffer expected
) except -2:
    cdef const uint32_t* wanted = <const uint32_t*> expected.ptr
    cdef size_t step = max(<size_t> 1, BYTES_AT_ONCE // stripes.stripe_bytes), first = 0, stop
    cdef Py_ssize_t found = -1
    cdef int error
    _require_checksums(&stripes, expected)
    while first < expected.length and found == -1:
        error = 0
        with nogil:
            while first < expected.length and found == -1:
                stop = min(first + step, expected.length)
                error = _read(&stripes, descriptor, first, stop)
                if error != 0:
                    break
                found = _find_mismatch(&stripes, wanted, first, stop)
                first = stop
        _raise_unless_interrupted(error)
    return found


cdef int _read(
    const Stripes* stripes, int descriptor, size_t first, size_t stop
) noexcept nogil:
    """Read some stripes; returns 0, ENDS_EARLY, or the number of the error."""
    cdef size_t start = first * stripes.stripe_bytes
    cdef size_t end = min(stripes.size, stop * stripes.stripe_bytes)
    cdef iovec part
    cdef ssize_t taken
    while start < end:
        part.iov_base, part.iov_len = <void*> (stripes.data + start), end - start
        taken = preadv(descriptor, &part, 1, <off_t> (stripes.first_offset + start))
        if taken < 0:
            return errno
        if taken == 0:
            return ENDS_EARLY
        start += taken
    return 0


cdef int _raise_unless_interrupted(int error) except -1:
    if error == EINTR:
        PyErr_CheckSignals()
    elif error == ENDS_EARLY:
        raise EOFError("the file ends before the last stripe")
    elif error:
        raise OSError(error, strerror(error).decode())
    return 0


cdef int _require_checksums(const Stripes* stripes, InputBuffer expected) except -1:
    if expected.length != _count(stripes):
        raise ValueError(f"{_count(stripes)} stripes, but {expected.length} expected checksums")
    return 0


cdef Stripes _cut(
    InputBuffer items, bytes file_id, uint64_t first_offset, size_t stripe_bytes
) except *:
    cdef Stripes stripes
    if stripe_bytes == 0:
        raise ValueError("stripe_bytes must be at least 1")
    stripes.data = <const uint8_t*> items.ptr
    stripes.size = items.size
    stripes.stripe_bytes = stripe_bytes
    stripes.first_offset = first_offset
    stripes.id_crc = crc32c_extend(0, file_id, len(file_id))
    return stripes


cdef size_t _count(const Stripes* stripes) noexcept nogil:
    return stripes.size // stripes.stripe_bytes + (stripes.size % stripes.stripe_bytes != 0)


cdef uint32_t _stripe_crc(const Stripes* stripes, size_t i) noexcept nogil:
    cdef size_t start = i * stripes.stripe_bytes
    cdef size_t size = min(stripes.stripe_bytes, stripes.size - start)
    cdef uint64_t offset = stripes.first_offset + start
    cdef uint32_t seed = crc32c_extend(stripes.id_crc, <const uint8_t*> &offset, sizeof(offset))
    return crc32c_extend(seed, stripes.data + start, size)


cdef Py_ssize_t _find_mismatch(
    const Stripes* stripes, const uint32_t* wanted, size_t first, size_t stop
) noexcept nogil:
    cdef size_t i
    for i in range(first, stop):
        if _stripe_crc(stripes, i) != wanted[i]:
            return <Py_ssize_t> i
    return -1
