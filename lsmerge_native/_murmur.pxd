"""32-bit Murmur3 of one value, as Spark computes it."""

from libc.stdint cimport int8_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline uint32_t rotate_left(uint32_t word, int count) noexcept nogil:
    return (word << count) | (word >> (32 - count))


cdef inline uint32_t mix(uint32_t hash, uint32_t word) noexcept nogil:
    word = rotate_left(word * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593
    return rotate_left(hash ^ word, 13) * <uint32_t> 5 + <uint32_t> 0xE6546B64


cdef inline uint32_t finish(uint32_t hash, uint32_t size) noexcept nogil:
    hash ^= size
    hash = (hash ^ (hash >> 16)) * <uint32_t> 0x85EBCA6B
    hash = (hash ^ (hash >> 13)) * <uint32_t> 0xC2B2AE35
    return hash ^ (hash >> 16)


cdef inline uint32_t hash_int(uint32_t value, uint32_t seed) noexcept nogil:
    return finish(mix(seed, value), 4)


cdef inline uint32_t hash_long(uint64_t value, uint32_t seed) noexcept nogil:
    return finish(mix(mix(seed, <uint32_t> value), <uint32_t> (value >> 32)), 8)


cdef inline uint32_t hash_bytes(const uint8_t* data, uint32_t size, uint32_t seed) noexcept nogil:
    """Spark's variant: each byte after the last whole word is mixed like a word, sign-extended."""
    cdef uint32_t i, word, hash = seed
    cdef uint32_t words_end = size & ~<uint32_t> 3
    for i in range(0, words_end, 4):
        memcpy(&word, data + i, sizeof(word))
        hash = mix(hash, word)
    for i in range(words_end, size):
        hash = mix(hash, <uint32_t> <int32_t> <int8_t> data[i])
    return finish(hash, size)
