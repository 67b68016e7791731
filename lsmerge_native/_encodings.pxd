"""The encodings of numbers in Parquet pages: runs of one number, packed bits, and differences."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from lsmerge_native._thrift cimport Cursor


# The first `item_bytes` bytes of numbers that take `stored_bytes` each.
cdef inline void copy_items(
    uint8_t* out, int item_bytes, const uint8_t* numbers, int stored_bytes, size_t count
) noexcept nogil:
    cdef size_t i
    if item_bytes == stored_bytes:
        memcpy(out, numbers, count * item_bytes)
    else:
        for i in range(count):
            memcpy(out + i * item_bytes, numbers + i * stored_bytes, item_bytes)


# Numbers of `width` <= 32 bits, in runs or packed. The cursor is broken if there are fewer.
cdef void read_runs(Cursor* cursor, int width, uint32_t* out, size_t count) noexcept nogil

# The same of one bit each, to the bits of `bitmap` from `first` on. Returns how many of them are 1.
# Requires: these bits are 0, and a byte after the last of them is writable.
cdef size_t read_bits(Cursor* cursor, uint8_t* bitmap, size_t first, size_t count) noexcept nogil

# Differences of whole numbers, the sums of which are stored in `item_bytes` bytes each, the lowest
# ones. The cursor is broken unless there are exactly so many.
cdef void read_differences(
    Cursor* cursor, int item_bytes, uint8_t* out, size_t count
) noexcept nogil
