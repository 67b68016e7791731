"""CRC-32C of bytes, and of the stripes of a file.

A stripe is bound to its place: its checksum starts from the checksum of the file's id followed by
the stripe's absolute offset (8 bytes, little-endian). So the right bytes of another file, or
of another offset, do not pass.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, view_items


cdef extern from "include/crc32c.h" nogil:
    void crc32c_prepare()
    uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size)
    ctypedef uint32_t (*crc32c_fn)(uint32_t crc, const uint8_t* data, size_t size)
    const crc32c_fn* crc32c_ways
    const int crc32c_num_ways


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
    if wanted.length != _count(&stripes):
        raise ValueError(f"{_count(&stripes)} stripes, but {wanted.length} expected checksums")
    with nogil:
        found = _find_mismatch(&stripes, <const uint32_t*> wanted.ptr, wanted.length)
    return found


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
    const Stripes* stripes, const uint32_t* wanted, size_t count
) noexcept nogil:
    cdef size_t i
    for i in range(count):
        if _stripe_crc(stripes, i) != wanted[i]:
            return <Py_ssize_t> i
    return -1
