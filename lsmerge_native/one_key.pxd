"""A single key made of Python values, without an Arrow array of it."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from lsmerge_native._encode cimport Column, SPARE_BYTES
from lsmerge_native.keys cimport KeyView


cdef enum:
    MAX_COLUMNS = 8   # of a key that is encoded here
    MAX_BYTES = 256   # of an encoded key that is not a single text in place


# Lives on the stack of whoever looks the key up, and must not be moved: `view` points into it.
cdef struct OneKey:
    KeyView view            # of one key; a single text or binary key is used where Python has it
    uint32_t bucket_hash    # Spark's Murmur3 of the columns that choose the bucket
    uint64_t word
    uint32_t[2] offsets
    uint8_t[MAX_BYTES + SPARE_BYTES] bytes


cdef enum Kind:
    KIND_INTEGER
    KIND_DATE
    KIND_TEXT
    KIND_BYTES


cdef struct KeyColumn:
    Kind kind
    Column column          # how it is encoded; the pointers are those of a value while it is
    Py_ssize_t max_length  # of text in characters, of bytes in bytes
    int64_t smallest       # KIND_INTEGER: the range of the column's type
    int64_t largest


cdef struct Value:
    int64_t number
    const char* data
    Py_ssize_t size


@cython.final
cdef class KeyEncoder:
    cdef Py_ssize_t count
    cdef Py_ssize_t max_bytes
    cdef KeyColumn[MAX_COLUMNS] columns
    cdef Py_ssize_t num_encoded
    cdef Py_ssize_t[MAX_COLUMNS] encoded
    cdef Py_ssize_t num_hashed
    cdef Py_ssize_t[MAX_COLUMNS] hashed
    cdef Py_ssize_t word_width  # encoded bytes if they fit a word, else 0

    # False if the key is of values that must be converted or refused first. The key must outlive
    # `out`.
    cdef bint encode(self, object key, OneKey* out) except -1
    cdef bint _load(self, Py_ssize_t position, object value, Value* out) except -1
    cdef bint _encode_bytes(self, Column* columns, OneKey* out) noexcept
