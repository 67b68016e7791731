"""Immutable sets of 32-bit hashes, small enough to hold those of a hundred million keys.

A set has one of two layouts, both ascending:
- list: the hashes themselves, 4 bytes each;
- split: the lower halves of the hashes, 2 bytes each, and for every upper half where its lower
  halves start. The 65,537 starts take 256 KiB, so this is the smaller layout from 131,072 hashes.

Hashes are looked up in the order of their upper halves, so that each set is walked through once.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, int32_t, uint16_t, uint32_t

from lsmerge_native._counting cimport HALVES, accumulate
from lsmerge_native.buffers cimport (
    InputBuffer, NativeBuffer, allocate, allocate_zeroed, bytes_of, view_items,
)


cdef enum:
    SPLIT_FROM = 131_072
    # Below this, counting upper halves costs more than walking at random.
    ORDERED_FROM = 4_096


@cython.final
@cython.auto_pickle(False)
cdef class HashSet:
    """Distinct hashes; immutable."""

    cdef InputBuffer _starts    # None in the layout list
    cdef InputBuffer _values

    def __init__(self):
        raise TypeError("a HashSet is made by hash_set() or hash_set_from_parts()")

    def __len__(self):
        return <Py_ssize_t> self._values.length

    @property
    def nbytes(self):
        """Bytes of memory it takes."""
        return self._values.size + (0 if self._starts is None else self._starts.size)

    @property
    def parts(self):
        """(starts, lower halves) or (None, hashes): the little-endian bytes of its arrays."""
        starts = None if self._starts is None else bytes_of(self._starts)
        return starts, bytes_of(self._values)

    def hashes(self):
        """Return the hashes as ascending uint32."""
        cdef NativeBuffer out = allocate(self._values.length * sizeof(uint32_t))
        with nogil:
            _write_hashes(self, <uint32_t*> out.ptr)
        return out


def hash_set(hashes):
    """Return the set of strictly ascending hashes (uint32)."""
    cdef InputBuffer items = view_items(hashes, sizeof(uint32_t), "hashes")
    cdef const uint32_t* values = <const uint32_t*> items.ptr
    if not _is_ascending(values, items.length):
        raise ValueError("hashes must ascend strictly")
    if items.length < SPLIT_FROM:
        return _new_set(None, items)
    cdef NativeBuffer starts = allocate_zeroed((HALVES + 1) * sizeof(uint32_t))
    cdef NativeBuffer lows = allocate(items.length * sizeof(uint16_t))
    with nogil:
        _split(values, items.length, <uint32_t*> starts.ptr, <uint16_t*> lows.ptr)
    return _new_set(
        view_items(starts, sizeof(uint32_t), "starts"), view_items(lows, sizeof(uint16_t), "lows"))


def hash_set_from_parts(starts, values):
    """Return the set whose `parts` these are; raises ValueError if they are those of no set."""
    if starts is None:
        hashes = view_items(values, sizeof(uint32_t), "hashes")
        return hash_set(values) if hashes.length >= SPLIT_FROM else _checked_list(hashes)
    cdef InputBuffer bounds = view_items(starts, sizeof(uint32_t), "starts")
    cdef InputBuffer lows = view_items(values, sizeof(uint16_t), "lows")
    if not _is_split(bounds, lows):
        raise ValueError("starts do not cut the lower halves into ascending parts")
    return _new_set(bounds, lows)


def merge_hash_sets(sets):
    """Return the union of several sets."""
    cdef NativeBuffer merged = allocate(0)
    cdef HashSet item
    for item in sorted(sets, key=len):
        merged = _merged(merged, item.hashes())
    return hash_set(merged)


def locate(hashes, sets, ids):
    """Return for each hash (uint32) the id (int32) of the first set that holds it, -1 for none."""
    cdef InputBuffer wanted = view_items(hashes, sizeof(uint32_t), "hashes")
    cdef const uint32_t* values = <const uint32_t*> wanted.ptr
    if wanted.length > UINT32_MAX:
        raise ValueError(f"cannot look up {wanted.length} hashes at once")
    cdef NativeBuffer found = allocate(wanted.length * sizeof(int32_t))
    cdef NativeBuffer order = allocate(wanted.length * sizeof(uint32_t))
    cdef int32_t* out = <int32_t*> found.ptr
    cdef uint32_t* rows = <uint32_t*> order.ptr
    cdef size_t row, open_rows = wanted.length
    cdef HashSet item
    cdef int32_t id_
    for row in range(wanted.length):
        out[row] = -1
    _order_by_upper_half(values, wanted.length, rows)
    for item, id_ in zip(sets, ids, strict=True):
        with nogil:
            open_rows = _search(item, values, rows, open_rows, id_, out)
    return found


cdef HashSet _new_set(InputBuffer starts, InputBuffer values):
    cdef HashSet made = HashSet.__new__(HashSet)
    made._starts = starts
    made._values = values
    return made


cdef HashSet _checked_list(InputBuffer hashes):
    if not _is_ascending(<const uint32_t*> hashes.ptr, hashes.length):
        raise ValueError("hashes must ascend strictly")
    return _new_set(None, hashes)


cdef bint _is_ascending(const uint32_t* values, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(1, count):
        if values[i - 1] >= values[i]:
            return False
    return True


cdef bint _is_split(InputBuffer bounds, InputBuffer lows) noexcept nogil:
    cdef const uint32_t* starts = <const uint32_t*> bounds.ptr
    cdef const uint16_t* values = <const uint16_t*> lows.ptr
    cdef size_t half, i
    if bounds.length != HALVES + 1 or starts[0] != 0 or starts[HALVES] != lows.length:
        return False
    for half in range(<size_t> HALVES):
        if starts[half] > starts[half + 1] or starts[half + 1] > lows.length:
            return False
        for i in range(<size_t> starts[half] + 1, starts[half + 1]):
            if values[i - 1] >= values[i]:
                return False
    return True


cdef void _split(
    const uint32_t* hashes, size_t count, uint32_t* starts, uint16_t* lows
) noexcept nogil:
    """Requires: starts is zeroed."""
    cdef size_t i
    for i in range(count):
        starts[(hashes[i] >> 16) + 1] += 1
        lows[i] = <uint16_t> hashes[i]
    accumulate(starts, HALVES)


cdef void _write_hashes(HashSet item, uint32_t* out) noexcept nogil:
    cdef const uint32_t* whole
    cdef const uint32_t* starts
    cdef const uint16_t* lows
    cdef size_t i, half
    if item._starts is None:
        whole = <const uint32_t*> item._values.ptr
        for i in range(item._values.length):
            out[i] = whole[i]
        return
    starts = <const uint32_t*> item._starts.ptr
    lows = <const uint16_t*> item._values.ptr
    for half in range(<size_t> HALVES):
        for i in range(starts[half], starts[half + 1]):
            out[i] = (<uint32_t> half << 16) | lows[i]


cdef NativeBuffer _merged(NativeBuffer left, NativeBuffer right):
    cdef NativeBuffer out = allocate(left.size + right.size)
    cdef size_t count
    with nogil:
        count = _merge(
            <const uint32_t*> left.ptr, left.size // sizeof(uint32_t),
            <const uint32_t*> right.ptr, right.size // sizeof(uint32_t), <uint32_t*> out.ptr)
    out.truncate(count * sizeof(uint32_t))
    return out


cdef size_t _merge(
    const uint32_t* a, size_t count_a, const uint32_t* b, size_t count_b, uint32_t* out
) noexcept nogil:
    """Write the union of two ascending lists; return its length."""
    cdef size_t i = 0, j = 0, k = 0
    cdef uint32_t value
    while i < count_a or j < count_b:
        if j == count_b or (i < count_a and a[i] <= b[j]):
            value = a[i]
        else:
            value = b[j]
        if i < count_a and a[i] == value:
            i += 1
        if j < count_b and b[j] == value:
            j += 1
        out[k] = value
        k += 1
    return k


cdef int _order_by_upper_half(const uint32_t* hashes, size_t count, uint32_t* order) except -1:
    """Write the numbers of all rows, by the upper half of their hash if there are many."""
    cdef NativeBuffer buffer
    cdef uint32_t* next_place
    cdef size_t i
    if count < ORDERED_FROM:
        for i in range(count):
            order[i] = <uint32_t> i
        return 0
    buffer = allocate_zeroed((HALVES + 1) * sizeof(uint32_t))
    next_place = <uint32_t*> buffer.ptr
    with nogil:
        for i in range(count):
            next_place[(hashes[i] >> 16) + 1] += 1
        accumulate(next_place, HALVES)
        for i in range(count):
            order[next_place[hashes[i] >> 16]] = <uint32_t> i
            next_place[hashes[i] >> 16] += 1
    return 0


cdef size_t _search(
    HashSet item, const uint32_t* hashes, uint32_t* rows, size_t count, int32_t id_, int32_t* out
) noexcept nogil:
    """Give the rows that the set holds its id, keep the others in `rows`; return how many."""
    cdef size_t i, kept = 0
    cdef uint32_t row
    for i in range(count):
        row = rows[i]
        if _holds(item, hashes[row]):
            out[row] = id_
        else:
            rows[kept] = row
            kept += 1
    return kept


cdef inline bint _holds(HashSet item, uint32_t value) noexcept nogil:
    cdef const uint32_t* starts
    cdef uint32_t half = value >> 16
    if item._starts is None:
        return _in_list(<const uint32_t*> item._values.ptr, item._values.length, value)
    starts = <const uint32_t*> item._starts.ptr
    return _in_lows(
        <const uint16_t*> item._values.ptr + starts[half], starts[half + 1] - starts[half],
        <uint16_t> value)


cdef inline bint _in_list(const uint32_t* values, size_t count, uint32_t wanted) noexcept nogil:
    cdef size_t low = 0, half
    if count == 0:
        return False
    while count > 1:
        half = count // 2
        low += half if values[low + half] <= wanted else 0
        count -= half
    return values[low] == wanted


cdef inline bint _in_lows(const uint16_t* values, size_t count, uint16_t wanted) noexcept nogil:
    cdef size_t low = 0, half
    if count == 0:
        return False
    while count > 1:
        half = count // 2
        low += half if values[low + half] <= wanted else 0
        count -= half
    return values[low] == wanted
