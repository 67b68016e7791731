"""Keys: one byte-comparable key per row, encoded from Arrow key columns.

Keys of fixed width that fit 8 bytes are held as words (kind "u64"), all others as offsets and bytes
(kind "bytes"). A single column without nulls is used in place if it holds integers of 8 bytes, or
ascending strings or binary values. A slice shares the memory of its parent and keeps it alive.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stddef cimport size_t
from libc.stdint cimport UINT32_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from lsmerge_native._arrow cimport ArrayView, is_valid, view_array
from lsmerge_native._encode cimport (
    append_to_words, CHUNK_ROWS, CODE_INTEGER, CODE_RAW, Column, describe_column, encode_rows,
    fixed_size, is_variable, load_scalars, measure_text,
)
from lsmerge_native._words cimport bswap64
from lsmerge_native.buffers cimport allocate, InputBuffer, NativeBuffer, view_items


cdef extern from "include/xxh64.h":
    uint64_t lsmerge_xxh64(const uint8_t* data, size_t size, uint64_t seed) noexcept nogil
    uint64_t lsmerge_xxh64_word(uint64_t word, size_t size) noexcept nogil


@cython.final
@cython.auto_pickle(False)
cdef class Keys:
    """Encoded keys of consecutive rows; immutable."""

    def __init__(self):
        raise TypeError("Keys are made by encode_keys(), slice() or take()")

    def __len__(self):
        return self.view.length

    @property
    def kind(self):
        """'u64' (fixed width of at most 8 bytes) or 'bytes'."""
        return "u64" if self.view.words != NULL else "bytes"

    @property
    def nbytes(self):
        """Memory of these rows: words, or offsets and encoded bytes.

        Keys that are used in place keep alive all that their column shares its memory with.
        """
        cdef const KeyView* view = &self.view
        if view.words != NULL:
            return view.length * sizeof(uint64_t)
        if view.length == 0:
            return 0
        return view.length * sizeof(uint32_t) + view.offsets[view.length] - view.offsets[0]

    def bytes_at(self, Py_ssize_t row):
        """The encoded key of a row."""
        cdef uint64_t word
        if row < 0 or row >= self.view.length:
            raise IndexError(f"row {row} is not in keys of {self.view.length} rows")
        if self.view.words == NULL:
            return PyBytes_FromStringAndSize(
                <const char*> self.view.bytes + self.view.offsets[row], size_at(&self.view, row))
        word = bswap64(word_at(&self.view, row))
        return PyBytes_FromStringAndSize(<const char*> &word, self.view.width)

    def slice(self, Py_ssize_t start, Py_ssize_t stop):
        """Rows [start, stop) without a copy."""
        if start < 0 or stop < start or stop > self.view.length:
            raise IndexError(f"rows [{start}, {stop}) are not in keys of {self.view.length} rows")
        cdef KeyView view = self.view
        view.length = stop - start
        if view.words != NULL:
            view.words += start
        elif view.offsets != NULL:
            view.offsets += start
        return wrap(view, self._owner)

    def search(self, bytes key not None, *, bint right=False):
        """First row whose key is >= `key`, or > it if `right`. Requires: sorted keys."""
        cdef uint32_t offsets[2]
        cdef KeyView probe
        require_addressable(PyBytes_GET_SIZE(key))
        memset(&probe, 0, sizeof(KeyView))
        offsets[0], offsets[1] = 0, PyBytes_GET_SIZE(key)
        probe.length, probe.offsets = 1, offsets
        probe.bytes = <const uint8_t*> PyBytes_AS_STRING(key)
        return gallop(&self.view, 0, &probe, 0, right)

    def is_sorted(self):
        """Whether no key is less than the one before it."""
        cdef bint result
        with nogil:
            result = is_non_decreasing(&self.view)
        return result

    def hashes(self):
        """XXH64 with seed 0 of every encoded key, as uint64."""
        cdef NativeBuffer result = allocate(self.view.length * sizeof(uint64_t))
        with nogil:
            hash_keys(&self.view, <uint64_t*> result.ptr)
        return result

    def match(self, Keys probes not None):
        """For every probe the rows [start, stop) with the same key, as two uint32 arrays.

        Requires: both sorted.
        """
        require_comparable(self, probes, "match")
        cdef size_t nbytes = probes.view.length * sizeof(uint32_t)
        cdef NativeBuffer starts = allocate(nbytes), stops = allocate(nbytes)
        with nogil:
            match_keys(&self.view, &probes.view, <uint32_t*> starts.ptr, <uint32_t*> stops.ptr)
        return starts, stops

    def take(self, rows not None):
        """The keys of the given rows (uint32), in that order."""
        cdef InputBuffer items = view_items(rows, sizeof(uint32_t), "rows")
        cdef const uint32_t* row_of = <const uint32_t*> items.ptr
        cdef Py_ssize_t count = items.length
        require_rows(row_of, count, self.view.length)
        if self.view.words != NULL:
            return take_words(self, row_of, count)
        return take_bytes(self, row_of, count)

    def packed(self):
        """A copy of what the keys consist of: [words], or [offsets (uint32), bytes]."""
        cdef const KeyView* view = &self.view
        if view.words != NULL:
            return [packed_words(view)]
        return packed_bytes(view)

    def moved(self, list parts not None):
        """The same keys in other memory. Requires: `parts` hold what packed() gave."""
        if self.view.words != NULL:
            words, = parts
            return moved_words(self.view, words)
        offsets, data = parts
        return moved_bytes(self.view, offsets, data)


def encode_keys(arrays, *, nullable=(), descending=(), bint signed_zeros=False):
    """Encode the key columns, first column most significant.

    `nullable` and `descending` have one flag per column, or none for all false. The zeros of
    floating point are one key, unless `signed_zeros`: then -0.0 is less than 0.0.
    Raises TypeError for an Arrow type that cannot be a key, ValueError for a null in a column
    that is not nullable, for arrays of unequal lengths and for no arrays.
    """
    cdef list views = [view_array(array) for array in arrays]
    cdef list nullables = flags(nullable, len(views), "nullable")
    cdef list descendings = flags(descending, len(views), "descending")
    require_columns(views, nullables)
    cdef Py_ssize_t count = len(views), length = (<ArrayView> views[0]).length, i
    cdef Column* columns = <Column*> malloc(count * sizeof(Column))
    if columns == NULL:
        raise MemoryError(f"no memory for {count} key columns")
    try:
        for i in range(count):
            columns[i] = describe_column(
                views[i], i, nullables[i], descendings[i], signed_zeros, i == count - 1)
        if count == 1 and columns[0].code == CODE_RAW:
            return borrow_bytes(views[0])
        if count == 1 and length > 0 and has_words(&columns[0]):
            return borrow_words(views[0], &columns[0])
        if fits_word(columns, count):
            return encode_words(columns, count, length)
        return encode_bytes(columns, count, length)
    finally:
        free(columns)


# ---- checks ----


cdef list flags(object given, Py_ssize_t count, str what):
    cdef list result = [bool(flag) for flag in given] or [False] * count
    if len(result) != count:
        raise ValueError(f"{what} has {len(result)} flags for {count} key columns")
    return result


cdef int require_columns(list views, list nullables) except -1:
    cdef ArrayView view
    cdef Py_ssize_t i
    if not views:
        raise ValueError("a key needs at least one column")
    for i in range(len(views)):
        view = views[i]
        if view.length != (<ArrayView> views[0]).length:
            raise ValueError(
                f"column {i} of the key has {view.length} rows, "
                f"column 0 has {(<ArrayView> views[0]).length}")
        if view.null_count and not nullables[i]:
            raise ValueError(f"column {i} of the key is null in row {first_null(view)}")
    return 0


cdef Py_ssize_t first_null(ArrayView view) noexcept nogil:
    cdef Py_ssize_t row = 0
    while row < view.length and is_valid(view, row):
        row += 1
    return row


cdef int require_rows(const uint32_t* rows, Py_ssize_t count, Py_ssize_t length) except -1:
    cdef uint32_t highest = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            highest = max(highest, rows[i])
    if count and highest >= length:
        raise IndexError(f"row {highest} is not in keys of {length} rows")
    return 0


cdef int require_comparable(Keys a, Keys b, str what) except -1:
    if a.view.width != b.view.width or a.kind != b.kind:
        raise ValueError(
            f"{what}: keys of kind {a.kind}, width {a.view.width} cannot be compared with "
            f"keys of kind {b.kind}, width {b.view.width}")
    return 0


cdef int require_addressable(uint64_t nbytes) except -1:
    if nbytes > UINT32_MAX:
        raise OverflowError(
            f"encoded keys need {nbytes} bytes, more than {UINT32_MAX}; use smaller batches")
    return 0


# ---- making keys ----


cdef Keys wrap(KeyView view, object owner):
    cdef Keys keys = Keys.__new__(Keys)
    keys.view = view
    keys._owner = owner
    return keys


cdef Keys wrap_words(NativeBuffer words, Py_ssize_t length, size_t width):
    cdef KeyView view
    memset(&view, 0, sizeof(KeyView))
    view.length, view.width = length, width
    view.words = <const uint64_t*> words.ptr
    return wrap(view, words)


cdef Keys wrap_bytes(NativeBuffer offsets, NativeBuffer data, Py_ssize_t length):
    cdef KeyView view
    memset(&view, 0, sizeof(KeyView))
    view.length = length
    view.offsets = <const uint32_t*> offsets.ptr
    view.bytes = <const uint8_t*> data.ptr
    return wrap(view, (offsets, data))


cdef Keys borrow_bytes(ArrayView array):
    cdef KeyView view
    memset(&view, 0, sizeof(KeyView))
    view.length = array.length
    if array.length:
        # Arrow's offsets are not negative, so they are the same numbers without a sign.
        view.offsets = <const uint32_t*> array.offsets + array.offset
    view.bytes = array.bytes if array.bytes != NULL else <const uint8_t*> b""
    return wrap(view, array)


cdef bint has_words(const Column* column) noexcept:
    """Whether values are words already, but for bits that are the same in all."""
    return column.code == CODE_INTEGER and column.width == sizeof(uint64_t) and not column.nullable


cdef Keys borrow_words(ArrayView array, const Column* column):
    cdef KeyView view
    memset(&view, 0, sizeof(KeyView))
    view.length, view.width = array.length, sizeof(uint64_t)
    view.words = <const uint64_t*> column.data + column.offset
    view.flip = ~column.flip if column.descending else column.flip
    return wrap(view, array)


cdef Keys copied_key(const KeyView* keys, Py_ssize_t row):
    cdef NativeBuffer data, offsets
    cdef size_t size = size_at(keys, row)
    if keys.words != NULL:
        data = allocate(sizeof(uint64_t))
        (<uint64_t*> data.ptr)[0] = word_at(keys, row)
        return wrap_words(data, 1, keys.width)
    data, offsets = allocate(size), allocate(2 * sizeof(uint32_t))
    memcpy(data.ptr, keys.bytes + keys.offsets[row], size)
    (<uint32_t*> offsets.ptr)[0] = 0
    (<uint32_t*> offsets.ptr)[1] = <uint32_t> size
    return wrap_bytes(offsets, data, 1)


cdef bint fits_word(const Column* columns, Py_ssize_t count) noexcept:
    cdef size_t total = 0
    cdef Py_ssize_t i
    for i in range(count):
        if is_variable(&columns[i]):
            return False
        total += fixed_size(&columns[i])
    return total <= 8


cdef Keys encode_words(const Column* columns, Py_ssize_t count, Py_ssize_t length):
    cdef NativeBuffer buffer = allocate(length * sizeof(uint64_t))
    cdef uint64_t* words = <uint64_t*> buffer.ptr
    cdef size_t width = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            width += fixed_size(&columns[i])
        if count == 1 and width > 0 and not columns[0].nullable:
            load_scalars(&columns[0], 0, length, words)
        else:
            memset(words, 0, length * sizeof(uint64_t))
            for i in range(count):
                append_to_words(&columns[i], length, words)
        if 0 < width < 8:
            for i in range(length):
                words[i] <<= 64 - 8 * width
    return wrap_words(buffer, length, width)


cdef Keys encode_bytes(Column* columns, Py_ssize_t count, Py_ssize_t length):
    cdef NativeBuffer offsets = allocate((length + 1) * sizeof(uint32_t)), data
    cdef NativeBuffer scalars = allocate(count * CHUNK_ROWS * sizeof(uint64_t))
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            total += measure_text(&columns[i], length) if is_variable(&columns[i]) \
                else length * fixed_size(&columns[i])
    require_addressable(total)
    data = allocate(total)
    with nogil:
        encode_rows(columns, count, length, <uint64_t*> scalars.ptr, <uint32_t*> offsets.ptr,
                    <uint8_t*> data.ptr)
    data.truncate(total)  # the last row may have been written past its end
    return wrap_bytes(offsets, data, length)


cdef Keys take_words(Keys keys, const uint32_t* rows, Py_ssize_t count):
    cdef NativeBuffer words = allocate(count * sizeof(uint64_t))
    cdef uint64_t* out = <uint64_t*> words.ptr
    cdef Py_ssize_t i
    with nogil:
        for i in range(count):
            out[i] = word_at(&keys.view, rows[i])
    return wrap_words(words, count, keys.view.width)


cdef Keys take_bytes(Keys keys, const uint32_t* rows, Py_ssize_t count):
    cdef NativeBuffer offsets = allocate((count + 1) * sizeof(uint32_t)), data
    cdef uint32_t* ends = <uint32_t*> offsets.ptr
    cdef const KeyView* view = &keys.view
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    with nogil:
        ends[0] = 0
        for i in range(count):
            total += size_at(view, rows[i])
            ends[i + 1] = <uint32_t> total
    require_addressable(total)
    data = allocate(total)
    with nogil:
        for i in range(count):
            memcpy(data.ptr + ends[i], view.bytes + view.offsets[rows[i]], ends[i + 1] - ends[i])
    return wrap_bytes(offsets, data, count)


cdef NativeBuffer copied(const void* data, size_t nbytes):
    cdef NativeBuffer copy = allocate(nbytes)
    memcpy(copy.ptr, data, nbytes)
    return copy


cdef list packed_bytes(const KeyView* keys):
    cdef NativeBuffer offsets = allocate((keys.length + 1) * sizeof(uint32_t))
    cdef uint32_t* out = <uint32_t*> offsets.ptr
    cdef uint32_t start = keys.offsets[0] if keys.length else 0
    cdef Py_ssize_t row
    out[0] = 0
    for row in range(keys.length):
        out[row + 1] = keys.offsets[row + 1] - start
    return [offsets, copied(keys.bytes + start, out[keys.length])]


cdef NativeBuffer packed_words(const KeyView* keys):
    cdef NativeBuffer words = allocate(keys.length * sizeof(uint64_t))
    cdef uint64_t* out = <uint64_t*> words.ptr
    cdef Py_ssize_t row
    for row in range(keys.length):
        out[row] = word_at(keys, row)
    return words


cdef Keys moved_words(KeyView view, object words):
    cdef InputBuffer items = view_items(words, sizeof(uint64_t), "words")
    require_items(items, view.length)
    view.words, view.flip = <const uint64_t*> items.ptr, 0
    return wrap(view, items)


cdef Keys moved_bytes(KeyView view, object offsets, object data):
    cdef InputBuffer ends = view_items(offsets, sizeof(uint32_t), "offsets")
    cdef InputBuffer items = view_items(data, 1, "bytes")
    require_items(ends, view.length + 1)
    view.offsets = <const uint32_t*> ends.ptr
    require_items(items, view.offsets[view.length])
    view.bytes = <const uint8_t*> items.ptr
    return wrap(view, (ends, items))


cdef int require_items(InputBuffer items, size_t count) except -1:
    if items.length < count:
        raise ValueError(f"{items.length} items where {count} are needed")
    return 0


# ---- loops over keys ----


cdef bint is_non_decreasing(const KeyView* keys) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(1, keys.length):
        if compare_at(keys, row - 1, keys, row) > 0:
            return False
    return True


cdef void hash_keys(const KeyView* keys, uint64_t* out) noexcept nogil:
    cdef Py_ssize_t row
    if keys.words != NULL:
        for row in range(keys.length):
            out[row] = lsmerge_xxh64_word(bswap64(word_at(keys, row)), keys.width)
    else:
        for row in range(keys.length):
            out[row] = lsmerge_xxh64(keys.bytes + keys.offsets[row], size_at(keys, row), 0)


cdef void match_keys(
    const KeyView* keys, const KeyView* probes, uint32_t* starts, uint32_t* stops
) noexcept nogil:
    cdef Py_ssize_t start = 0, probe
    for probe in range(probes.length):
        start = gallop(keys, start, probes, probe, False)
        starts[probe] = <uint32_t> start
        stops[probe] = <uint32_t> gallop(keys, start, probes, probe, True)
