"""Which of many sets hold a hash: one probe, however many sets there are.

A map has an entry for each hash of each set: the hash (uint32) and the number of the set (uint16),
in order of hash and then as the sets were given. Above the entries lie `starts`: for every value of
the upper bits of a hash where its entries begin, so that a probe walks over a few entries.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport UINT16_MAX, UINT32_MAX, uint16_t, uint32_t, uint64_t

from lsmerge_native._counting cimport HALVES, accumulate
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, bytes_of, view_items,
)


cdef enum:
    HASH_BITS = 32
    # Entries that share a start, about.
    ENTRIES_PER_START = 8


@cython.final
@cython.auto_pickle(False)
cdef class HashMap:
    """Entries of hashes and sets; immutable."""

    cdef InputBuffer _hashes
    cdef InputBuffer _sets
    cdef NativeBuffer _starts
    cdef int _shift

    def __init__(self):
        raise TypeError("a HashMap is made by hash_map() or hash_map_from_parts()")

    def __len__(self):
        return <Py_ssize_t> self._hashes.length

    @property
    def nbytes(self):
        """Bytes of memory it takes."""
        return self._hashes.size + self._sets.size + self._starts.size

    @property
    def parts(self):
        """(hashes, sets): the little-endian bytes of its arrays."""
        return bytes_of(self._hashes), bytes_of(self._sets)

    def find(self, hashes):
        """Return (rows, sets): for each of the hashes (uint32) that is in a set its number, uint32,
        and the number of the set, uint16, once for each set."""
        cdef InputBuffer wanted = view_items(hashes, sizeof(uint32_t), "hashes")
        cdef const uint32_t* values = <const uint32_t*> wanted.ptr
        cdef size_t count
        if wanted.length > UINT32_MAX:
            raise ValueError(f"cannot look up {wanted.length} hashes at once")
        with nogil:
            count = _found(self, values, wanted.length, NULL, NULL)
        cdef NativeBuffer rows = allocate(count * sizeof(uint32_t))
        cdef NativeBuffer sets = allocate(count * sizeof(uint16_t))
        with nogil:
            _found(self, values, wanted.length, <uint32_t*> rows.ptr, <uint16_t*> sets.ptr)
        return rows, sets


def hash_map(sets):
    """Return the map of several sets, each its ascending hashes (uint32), by their position."""
    cdef list lists = [view_items(item, sizeof(uint32_t), "hashes") for item in sets]
    cdef InputBuffer items
    cdef size_t total = 0, done = 0
    if len(lists) > UINT16_MAX + 1:
        raise ValueError(f"{len(lists)} sets are more than {UINT16_MAX + 1}")
    for items in lists:
        total += items.length
    if total > UINT32_MAX:
        raise ValueError(f"{total} hashes are too many for one map")
    cdef NativeBuffer entries = allocate(total * sizeof(uint64_t))
    cdef NativeBuffer spare = allocate(total * sizeof(uint64_t))
    cdef uint64_t* packed = <uint64_t*> entries.ptr
    cdef uint64_t number
    for number, items in enumerate(lists):
        _pack(<const uint32_t*> items.ptr, items.length, number, packed + done)
        done += items.length
    if len(lists) > 1:
        _sort_by_half(entries, spare, total, 16)
        _sort_by_half(spare, entries, total, 32)
    cdef NativeBuffer hashes = allocate(total * sizeof(uint32_t))
    cdef NativeBuffer numbers = allocate(total * sizeof(uint16_t))
    with nogil:
        _unpack(packed, total, <uint32_t*> hashes.ptr, <uint16_t*> numbers.ptr)
    return hash_map_from_parts(hashes, numbers)


def hash_map_from_parts(hashes, sets):
    """Return the map whose `parts` these are; raises ValueError if they are those of no map."""
    cdef HashMap made = HashMap.__new__(HashMap)
    made._hashes = view_items(hashes, sizeof(uint32_t), "hashes")
    made._sets = view_items(sets, sizeof(uint16_t), "sets")
    if made._hashes.length != made._sets.length:
        raise ValueError(f"{made._hashes.length} hashes, but the sets of {made._sets.length}")
    made._shift = _shift_for(made._hashes.length)
    made._starts = allocate_zeroed(
        ((<size_t> 1 << (HASH_BITS - made._shift)) + 1) * sizeof(uint32_t))
    cdef bint is_ordered
    with nogil:
        is_ordered = _fill_starts(
            <const uint32_t*> made._hashes.ptr, made._hashes.length, made._shift,
            <uint32_t*> made._starts.ptr)
    if not is_ordered:
        raise ValueError("hashes must ascend")
    return made


cdef int _shift_for(size_t count) noexcept:
    """How many lower bits of a hash the starts leave out."""
    cdef int shift = HASH_BITS
    while shift > 12 and (count >> (HASH_BITS - shift)) > ENTRIES_PER_START:
        shift -= 1
    return shift


cdef void _pack(
    const uint32_t* hashes, size_t count, uint64_t number, uint64_t* out
) noexcept nogil:
    cdef size_t i
    for i in range(count):
        out[i] = (<uint64_t> hashes[i] << 16) | number


cdef void _unpack(
    const uint64_t* entries, size_t count, uint32_t* hashes, uint16_t* numbers
) noexcept nogil:
    cdef size_t i
    for i in range(count):
        hashes[i] = <uint32_t> (entries[i] >> 16)
        numbers[i] = <uint16_t> entries[i]


cdef int _sort_by_half(
    NativeBuffer source, NativeBuffer target, size_t count, int shift
) except -1:
    """Sort entries stably by the 16 bits above `shift`."""
    cdef NativeBuffer places = allocate_zeroed((HALVES + 1) * sizeof(uint32_t))
    cdef uint32_t* next_place = <uint32_t*> places.ptr
    cdef const uint64_t* entries = <const uint64_t*> source.ptr
    cdef uint64_t* out = <uint64_t*> target.ptr
    cdef size_t i, half
    with nogil:
        for i in range(count):
            next_place[((entries[i] >> shift) & (HALVES - 1)) + 1] += 1
        accumulate(next_place, HALVES)
        for i in range(count):
            half = (entries[i] >> shift) & (HALVES - 1)
            out[next_place[half]] = entries[i]
            next_place[half] += 1
    return 0


cdef bint _fill_starts(
    const uint32_t* hashes, size_t count, int shift, uint32_t* starts
) noexcept nogil:
    """Requires: starts is zeroed. Returns whether the hashes ascend."""
    cdef size_t i
    for i in range(count):
        if i > 0 and hashes[i - 1] > hashes[i]:
            return False
        starts[(<uint64_t> hashes[i] >> shift) + 1] += 1
    accumulate(starts, <size_t> 1 << (HASH_BITS - shift))
    return True


cdef size_t _found(
    HashMap map_, const uint32_t* wanted, size_t count, uint32_t* rows, uint16_t* sets
) noexcept nogil:
    """Count the entries of the wanted hashes, and write them unless `rows` is NULL."""
    cdef const uint32_t* hashes = <const uint32_t*> map_._hashes.ptr
    cdef const uint16_t* numbers = <const uint16_t*> map_._sets.ptr
    cdef const uint32_t* starts = <const uint32_t*> map_._starts.ptr
    cdef size_t row, i, slot, found = 0
    for row in range(count):
        slot = <uint64_t> wanted[row] >> map_._shift
        for i in range(starts[slot], starts[slot + 1]):
            if hashes[i] != wanted[row]:
                continue
            if rows != NULL:
                rows[found] = <uint32_t> row
                sets[found] = numbers[i]
            found += 1
    return found
