"""Arrow bitmaps: bit i lives in byte i // 8, least significant bit first."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t


cdef inline bint bit_is_set(const uint8_t* bitmap, size_t i) noexcept nogil:
    return (bitmap[i >> 3] >> (i & 7)) & 1


cdef inline void set_bit(uint8_t* bitmap, size_t i) noexcept nogil:
    bitmap[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline size_t bitmap_bytes(size_t bits) noexcept nogil:
    return (bits + 7) >> 3
