"""Copying strings that lie one after another in the output."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uintptr_t
from libc.string cimport memcpy


cdef enum:
    # Copied at once by short string copies: most strings take one, and no jump is guessed wrongly.
    CHUNK_BYTES = 32
    SHORT_STRING_BYTES = 64  # longer strings are worth a call of memcpy


# Copies a string; may store up to CHUNK_BYTES - 1 bytes after it, which the next copy overwrites,
# and may read as many, but none from `limit` on.
cdef inline void copy_string(
    uint8_t* out, const uint8_t* value, size_t nbytes, const uint8_t* limit
) noexcept nogil:
    cdef size_t copied = 0
    if nbytes > SHORT_STRING_BYTES or <uintptr_t> limit - <uintptr_t> value < nbytes + CHUNK_BYTES:
        memcpy(out, value, nbytes)
        return
    while copied < nbytes:
        memcpy(out + copied, value + copied, CHUNK_BYTES)
        copied += CHUNK_BYTES
