"""Encoded keys as the kernels see them, and the comparisons that every kernel shares.

A key is a string of bytes that compares with memcmp, a shorter one first if it is a prefix of the
other. Its *prefix* is its first 8 bytes after the skipped ones, big-endian, padded with zeros:
if two prefixes differ they decide, if they are equal compare_tail() does.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from lsmerge_native._words cimport big_endian_prefix
from lsmerge_native.buffers cimport NativeBuffer


cdef struct KeyView:
    Py_ssize_t length
    size_t width              # kind u64: encoded bytes per key, at most 8
    const uint64_t* words     # kind u64: encoded bytes, left-aligned, but for the flip; else NULL
    uint64_t flip             # kind u64: bits in which words differ from what they stand for
    const uint32_t* offsets   # kind bytes: length + 1 positions in bytes, unless length is 0
    const uint8_t* bytes
    size_t skip               # kind bytes: leading bytes that all keys compared here have in common


@cython.final
cdef class Keys:
    cdef KeyView view
    cdef object _owner        # whatever the pointers of view point into
    # For lookup.pyx, once asked for: a word of each SPAN keys, after the bytes that all have.
    cdef NativeBuffer sample
    cdef size_t shared


# The encoded bytes of a key of kind u64, left-aligned and big-endian.
cdef inline uint64_t word_at(const KeyView* keys, Py_ssize_t i) noexcept nogil:
    return keys.words[i] ^ keys.flip


cdef inline size_t size_at(const KeyView* keys, Py_ssize_t i) noexcept nogil:
    if keys.words != NULL:
        return keys.width
    return keys.offsets[i + 1] - keys.offsets[i]


cdef inline uint64_t prefix_at(const KeyView* keys, Py_ssize_t i) noexcept nogil:
    cdef size_t size
    if keys.words != NULL:
        return word_at(keys, i)
    size = size_at(keys, i)
    # A key shorter than what is skipped means unsorted input, but must not be read past its end.
    return big_endian_prefix(
        keys.bytes + keys.offsets[i] + keys.skip, size - keys.skip if size > keys.skip else 0)


# Order of two keys whose prefixes are equal: negative, 0 or positive. The kinds may differ.
cdef inline int compare_tail(
    const KeyView* a, Py_ssize_t i, const KeyView* b, Py_ssize_t j
) noexcept nogil:
    cdef size_t a_size = size_at(a, i), b_size = size_at(b, j), done = a.skip + 8
    cdef size_t size = a_size if a_size < b_size else b_size
    cdef int order = 0
    if size > done:  # only bytes keys are so long
        order = memcmp(
            a.bytes + a.offsets[i] + done, b.bytes + b.offsets[j] + done, size - done)
    return order if order != 0 else (a_size > b_size) - (a_size < b_size)


# Order of two keys: negative, 0 or positive. Requires: both views skip the same bytes.
cdef inline int compare_at(
    const KeyView* a, Py_ssize_t i, const KeyView* b, Py_ssize_t j
) noexcept nogil:
    cdef uint64_t a_prefix = prefix_at(a, i), b_prefix = prefix_at(b, j)
    if a_prefix != b_prefix:
        return 1 if a_prefix > b_prefix else -1
    return compare_tail(a, i, b, j)


# First row from `start` on whose key is not less than the probe (or, if `after`, greater than it),
# in steps that double, so that a near answer is found soon. Requires: keys sorted.
cdef inline Py_ssize_t gallop(
    const KeyView* keys, Py_ssize_t start, const KeyView* probes, Py_ssize_t probe, bint after
) noexcept nogil:
    cdef Py_ssize_t low = start, high = start, middle, step = 1
    while high < keys.length and compare_at(keys, high, probes, probe) < <int> after:
        low = high + 1
        high += step
        step *= 2
    high = high if high < keys.length else keys.length
    while low < high:
        middle = low + (high - low) // 2
        if compare_at(keys, middle, probes, probe) < <int> after:
            low = middle + 1
        else:
            high = middle
    return low


# Length of the longest common prefix of two bytes keys.
cdef inline size_t common_size(
    const KeyView* a, Py_ssize_t i, const KeyView* b, Py_ssize_t j, size_t limit
) noexcept nogil:
    cdef const uint8_t* a_key = a.bytes + a.offsets[i]
    cdef const uint8_t* b_key = b.bytes + b.offsets[j]
    cdef size_t size = 0
    limit = min(limit, min(size_at(a, i), size_at(b, j)))
    while size < limit and a_key[size] == b_key[size]:
        size += 1
    return size


# Raises ValueError, naming `what`, unless keys of both can be compared with each other.
cdef int require_comparable(Keys a, Keys b, str what) except -1

# Raises IndexError unless keys of `length` rows have all the given rows.
cdef int require_rows(const uint32_t* rows, Py_ssize_t count, Py_ssize_t length) except -1

# Raises OverflowError unless encoded keys of so many bytes can have offsets.
cdef int require_addressable(uint64_t nbytes) except -1

# XXH64 with seed 0 of every key.
cdef void hash_keys(const KeyView* keys, uint64_t* out) noexcept nogil

# One of the keys, with memory of its own.
cdef Keys copied_key(const KeyView* keys, Py_ssize_t row)
