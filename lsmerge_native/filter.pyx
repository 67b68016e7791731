"""Split-block Bloom filter over 64-bit hashes, bit for bit that of the Parquet format.

A filter is its bitset: blocks of 32 bytes (eight little-endian 32-bit words), at least one. It
never denies a hash that went in.
"""

from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, uint8_t, uint32_t, uint64_t

from lsmerge_native.buffers cimport (
    InputBuffer,
    NativeBuffer,
    allocate,
    allocate_zeroed,
    view_items,
)


cdef extern from "include/split_block.h" nogil:
    ctypedef struct split_block:
        pass

    void split_block_prepare()
    void split_block_prefetch(
        const split_block* blocks, uint64_t num_blocks, const uint64_t* hashes, size_t i,
        size_t count)
    void split_block_insert(
        split_block* blocks, uint64_t num_blocks, const uint64_t* hashes, size_t count)
    void split_block_probe(
        const split_block* blocks, uint64_t num_blocks, const uint64_t* hashes, size_t count,
        uint8_t* found)


split_block_prepare()

cdef enum:
    SAMPLE_HASHES = 256


def build_filter(hashes, uint32_t bits_per_key=10):
    """Return a filter that holds the hashes (uint64) of several buffers, sized for all of them."""
    cdef list parts = [view_items(part, sizeof(uint64_t), "hashes") for part in hashes]
    cdef uint64_t count = sum([(<InputBuffer> part).length for part in parts])
    cdef uint64_t num_blocks = _blocks_for(count, bits_per_key)
    cdef NativeBuffer bitset = allocate_zeroed(num_blocks * BLOCK_BYTES)
    cdef InputBuffer keys
    for keys in parts:
        with nogil:
            split_block_insert(
                <split_block*> bitset.ptr, num_blocks, <const uint64_t*> keys.ptr, keys.length)
    return bitset


def probe_filter(filter_bytes, hashes):
    """Return one byte per hash: 0 if it is certainly absent, 1 if it may be present."""
    cdef InputBuffer bitset = view_items(filter_bytes, sizeof(uint64_t), "filter_bytes")
    cdef InputBuffer keys = view_items(hashes, sizeof(uint64_t), "hashes")
    if bitset.size == 0 or bitset.size % BLOCK_BYTES:
        raise ValueError(
            f"filter_bytes: {bitset.size} bytes are not one or more blocks of {BLOCK_BYTES}")
    cdef NativeBuffer found = allocate(keys.length)
    with nogil:
        split_block_probe(
            <const split_block*> bitset.ptr, bitset.size // BLOCK_BYTES,
            <const uint64_t*> keys.ptr, keys.length, <uint8_t*> found.ptr)
    return found


cdef void prefetch_block(const char* bitset, size_t nbytes, uint64_t hash) noexcept nogil:
    split_block_prefetch(<const split_block*> bitset, nbytes // BLOCK_BYTES, &hash, 0, 1)


cdef bint may_hold(const char* bitset, size_t nbytes, uint64_t hash) noexcept nogil:
    cdef uint8_t found
    split_block_probe(<const split_block*> bitset, nbytes // BLOCK_BYTES, &hash, 1, &found)
    return found


def passing_rows(filter_bytes, hashes):
    """Return the positions (ascending uint32) of the hashes that may be present."""
    cdef NativeBuffer found = probe_filter(filter_bytes, hashes)
    cdef const uint8_t* flags = <const uint8_t*> found.ptr
    cdef Py_ssize_t count = found.size, passed = 0, i
    if count > UINT32_MAX:
        raise OverflowError(f"{count} hashes; at most {UINT32_MAX} have positions")
    # Without a branch each position is stored, and the next one overwrites it if it did not pass.
    cdef NativeBuffer rows = allocate((count + 1) * sizeof(uint32_t))
    cdef uint32_t* row = <uint32_t*> rows.ptr
    with nogil:
        for i in range(count):
            row[passed] = <uint32_t> i
            passed += flags[i]
    rows.truncate(passed * sizeof(uint32_t))
    return rows


def passes_mostly(filter_bytes, hashes):
    """Return whether most of the hashes pass, as far as a sample of them can tell."""
    cdef InputBuffer keys = view_items(hashes, sizeof(uint64_t), "hashes")
    cdef Py_ssize_t count = min(<Py_ssize_t> keys.length, <Py_ssize_t> SAMPLE_HASHES), i
    cdef NativeBuffer sample = allocate(count * sizeof(uint64_t))
    for i in range(count):
        (<uint64_t*> sample.ptr)[i] = (<const uint64_t*> keys.ptr)[i * keys.length // count]
    cdef Py_ssize_t passed = len(passing_rows(filter_bytes, sample)) // sizeof(uint32_t)
    return 8 * passed >= 7 * count


cdef uint64_t _blocks_for(uint64_t num_keys, uint32_t bits_per_key) except 0:
    cdef uint64_t block_bits = 8 * BLOCK_BYTES
    cdef uint64_t num_blocks
    if not 0 < bits_per_key <= block_bits:
        raise ValueError(f"bits_per_key must be from 1 to {block_bits}, got {bits_per_key}")
    num_blocks = (num_keys * bits_per_key + block_bits - 1) // block_bits
    # The block is selected by a 32-bit multiplication, so more blocks would never be reached.
    return min(max(num_blocks, <uint64_t> 1), <uint64_t> UINT32_MAX)
