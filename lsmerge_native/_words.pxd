"""Bytes as big-endian words, on a little-endian machine."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    uint64_t bswap64 "__builtin_bswap64"(uint64_t word) noexcept nogil


# The first 8 bytes as a number, missing ones as zeros.
cdef inline uint64_t big_endian_prefix(const uint8_t* key, size_t size) noexcept nogil:
    cdef uint64_t word = 0
    cdef size_t i
    if size >= 8:
        memcpy(&word, key, 8)
        return bswap64(word)
    for i in range(size):
        word |= <uint64_t> key[i] << (56 - 8 * i)
    return word
