"""Arrow bitmaps: bit i lives in byte i // 8, least significant bit first."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline bint bit_is_set(const uint8_t* bitmap, size_t i) noexcept nogil:
    return (bitmap[i >> 3] >> (i & 7)) & 1


cdef inline void set_bit(uint8_t* bitmap, size_t i) noexcept nogil:
    bitmap[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline size_t bitmap_bytes(size_t bits) noexcept nogil:
    return (bits + 7) >> 3


# How many of the first `bits` bits are set; none after their last byte is read.
cdef inline size_t count_ones(const uint8_t* bitmap, size_t bits) noexcept nogil:
    cdef size_t i, count = 0, whole = bits >> 6
    cdef uint64_t word
    for i in range(whole):
        memcpy(&word, bitmap + 8 * i, 8)
        count += _ones_of(word)
    if bits & 63:
        word = 0
        memcpy(&word, bitmap + 8 * whole, bitmap_bytes(bits & 63))
        count += _ones_of(word & ((<uint64_t> 1 << (bits & 63)) - 1))
    return count


cdef inline size_t _ones_of(uint64_t word) noexcept nogil:
    # Sums of neighbours: two bits, four bits, then bytes, which the product adds up.
    word -= (word >> 1) & <uint64_t> 0x5555555555555555
    word = (word & <uint64_t> 0x3333333333333333) + ((word >> 2) & <uint64_t> 0x3333333333333333)
    word = (word + (word >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
    return (word * <uint64_t> 0x0101010101010101) >> 56
