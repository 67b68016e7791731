"""Spark's hash of rows, the bucket a row belongs to, and the grouping of rows by bucket.

The hash is 32-bit Murmur3 folded over the columns: the hash after one column is the seed of the
next, and a null leaves it unchanged. A column is hashed in blocks of rows, in three steps:

1. load: values become 64-bit words in the form Spark hashes (micros of timestamps, nanos of times,
   bits of floats with one zero and one NaN); values without such a form are bytes and stay put;
2. hash: each word or byte string with the running hash of its row as seed;
3. blend: null rows keep the hash they had.
"""

from libc.stddef cimport size_t
from libc.stdint cimport (
    UINT32_MAX,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from libc.stdlib cimport abs as int_abs
from libc.string cimport memcpy

from lsmerge_native._arrow cimport LAYOUT_OTHER, ArrayView, view_array
from lsmerge_native._bits cimport bit_is_set
from lsmerge_native._counting cimport accumulate
from lsmerge_native._murmur cimport hash_bytes, hash_int, hash_long
from lsmerge_native.buffers cimport InputBuffer, NativeBuffer, allocate, allocate_zeroed, view_items


cdef enum:
    BLOCK_ROWS = 1024    # a block's scratch stays in the first-level cache
    SPARK_SEED = 42
    LONG_DIGITS = 18     # decimals of so many digits fit a 64-bit word


cdef enum Form:
    FORM_BITS
    FORM_INT8
    FORM_INT16
    FORM_INT32
    FORM_INT64
    FORM_FLOAT32
    FORM_FLOAT64
    FORM_DECIMAL     # low 64 bits of 128
    FORM_BIG_DECIMAL
    FORM_BYTES
    FORM_FIXED_BYTES


# How a column is hashed: the form its values have in memory, whether a word counts as four or as
# eight bytes, and the change of unit, value * factor // divisor.
cdef struct Rule:
    Form form
    bint is_long
    int64_t factor
    int64_t divisor


ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t


cdef dict RULES = {
    b"b": (FORM_BITS, False, 1, 1),
    b"c": (FORM_INT8, False, 1, 1),
    b"s": (FORM_INT16, False, 1, 1),
    b"i": (FORM_INT32, False, 1, 1),
    b"l": (FORM_INT64, True, 1, 1),
    b"f": (FORM_FLOAT32, False, 1, 1),
    b"g": (FORM_FLOAT64, True, 1, 1),
    b"tdD": (FORM_INT32, False, 1, 1),
    b"tss": (FORM_INT64, True, 1_000_000, 1),
    b"tsm": (FORM_INT64, True, 1_000, 1),
    b"tsu": (FORM_INT64, True, 1, 1),
    b"tsn": (FORM_INT64, True, 1, 1_000),
    b"tts": (FORM_INT32, True, 1_000_000_000, 1),
    b"ttm": (FORM_INT32, True, 1_000_000, 1),
    b"ttu": (FORM_INT64, True, 1_000, 1),
    b"ttn": (FORM_INT64, True, 1, 1),
    b"u": (FORM_BYTES, False, 1, 1),
    b"z": (FORM_BYTES, False, 1, 1),
    b"w": (FORM_FIXED_BYTES, False, 1, 1),
}


def murmur3(arrays, int32_t seed=SPARK_SEED):
    """Return Spark's hash of each row as int32; the arrays are the columns of the rows."""
    cdef list columns = [view_array(array) for array in arrays]
    cdef Py_ssize_t length = _common_length(columns)
    cdef NativeBuffer hashes = allocate(length * sizeof(uint32_t))
    cdef uint32_t* out = <uint32_t*> hashes.ptr
    cdef ArrayView column
    cdef Rule rule
    cdef Py_ssize_t i
    for i in range(length):
        out[i] = <uint32_t> seed
    for column in columns:
        rule = _rule_for(column)
        with nogil:
            _fold_column(column, &rule, out)
    return hashes


def bucket_ids(arrays, int32_t num_buckets):
    """Return the bucket of each row as int32: Spark's abs(hash(columns) % num_buckets)."""
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, got {num_buckets}")
    cdef NativeBuffer hashes = murmur3(arrays)
    cdef int32_t* ids = <int32_t*> hashes.ptr
    cdef size_t i, length = hashes.size // sizeof(int32_t)
    with nogil:
        for i in range(length):
            ids[i] = int_abs(ids[i] % num_buckets)
    return hashes


def group_ids(ids, int32_t num_ids):
    """Return (order, starts), both uint32: order[starts[k]:starts[k + 1]] are the rows whose id is
    k, in ascending order.
    """
    cdef InputBuffer items = view_items(ids, sizeof(int32_t), "ids")
    if num_ids < 0 or items.length > UINT32_MAX:
        raise ValueError(f"cannot group {items.length} rows by {num_ids} ids")
    cdef NativeBuffer order = allocate(items.length * sizeof(uint32_t))
    cdef NativeBuffer starts = allocate_zeroed((<size_t> num_ids + 1) * sizeof(uint32_t))
    cdef const int32_t* values = <const int32_t*> items.ptr
    cdef Py_ssize_t bad
    with nogil:
        bad = _count_ids(values, items.length, num_ids, <uint32_t*> starts.ptr)
        if bad < 0:
            _place_rows(values, items.length, num_ids, <uint32_t*> starts.ptr,
                        <uint32_t*> order.ptr)
    if bad >= 0:
        raise ValueError(f"id {values[bad]} at row {bad} is not from 0 to {num_ids - 1}")
    return order, starts


cdef Py_ssize_t _common_length(list columns) except -1:
    cdef ArrayView first, column
    if not columns:
        raise ValueError("at least one array is needed")
    first = columns[0]
    for column in columns:
        if column.length != first.length:
            raise ValueError(f"arrays of {first.length} and {column.length} rows are no table")
    return first.length


cdef Rule _rule_for(ArrayView column) except *:
    cdef Rule rule
    cdef bytes code = column.format
    head, _, detail = code.partition(b":")
    if head == b"d":
        entry = _decimal_rule(detail.split(b","))
    else:
        entry = RULES.get(head)
    # A dictionary array has the format of its indices, but not their layout.
    if entry is None or column.layout == LAYOUT_OTHER:
        raise TypeError(f"cannot hash an array of Arrow format '{code.decode()}'")
    rule.form, rule.is_long, rule.factor, rule.divisor = entry
    return rule


cdef tuple _decimal_rule(list detail):
    """The rule for decimal(precision, scale[, bits]), None unless it has 128 bits."""
    if len(detail) == 3 and detail[2] != b"128":
        return None
    if int(detail[0]) <= LONG_DIGITS:
        return FORM_DECIMAL, True, 1, 1
    return FORM_BIG_DECIMAL, False, 1, 1


cdef void _fold_column(ArrayView column, const Rule* rule, uint32_t* hashes) noexcept nogil:
    cdef Py_ssize_t count, start = 0
    cdef uint32_t[BLOCK_ROWS] fresh
    while start < column.length:
        count = min(<Py_ssize_t> BLOCK_ROWS, column.length - start)
        _hash_block(column, rule, start, count, hashes + start, fresh)
        _blend(column, start, count, fresh, hashes + start)
        start += count


cdef void _hash_block(
    ArrayView column, const Rule* rule, Py_ssize_t start, Py_ssize_t count,
    const uint32_t* seeds, uint32_t* out,
) noexcept nogil:
    cdef int64_t[BLOCK_ROWS] words
    if rule.form == FORM_BYTES:
        _hash_strings(column.offsets + column.offset + start, column.bytes, count, seeds, out)
    elif rule.form == FORM_FIXED_BYTES:
        _hash_fixed(column.values() + start * column.width, column.width, count, seeds, out)
    elif rule.form == FORM_BIG_DECIMAL:
        _hash_big_decimals(column.values() + start * column.width, count, seeds, out)
    else:
        _load(column, rule.form, start, count, words)
        _change_unit(rule, count, words)
        if rule.is_long:
            _hash_longs(words, count, seeds, out)
        else:
            _hash_ints(words, count, seeds, out)


cdef void _blend(
    ArrayView column, Py_ssize_t start, Py_ssize_t count, const uint32_t* fresh, uint32_t* hashes
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint32_t valid
    if column.validity == NULL:
        memcpy(hashes, fresh, count * sizeof(uint32_t))
        return
    for i in range(count):
        valid = bit_is_set(column.validity, column.offset + start + i)
        hashes[i] ^= (hashes[i] ^ fresh[i]) & -valid


cdef void _load(
    ArrayView column, Form form, Py_ssize_t start, Py_ssize_t count, int64_t* words
) noexcept nogil:
    cdef const void* values = column.values() + start * column.width
    if form == FORM_BITS:
        _load_bits(<const uint8_t*> column.data, column.offset + start, count, words)
    elif form == FORM_INT8:
        _load_integers(<const int8_t*> values, 1, count, words)
    elif form == FORM_INT16:
        _load_integers(<const int16_t*> values, 1, count, words)
    elif form == FORM_INT32:
        _load_integers(<const int32_t*> values, 1, count, words)
    elif form == FORM_INT64:
        _load_integers(<const int64_t*> values, 1, count, words)
    elif form == FORM_DECIMAL:
        _load_integers(<const int64_t*> values, 2, count, words)
    elif form == FORM_FLOAT32:
        _load_floats(<const float*> values, count, words)
    else:
        _load_doubles(<const double*> values, count, words)


cdef void _load_bits(
    const uint8_t* bitmap, Py_ssize_t first, Py_ssize_t count, int64_t* words
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        words[i] = bit_is_set(bitmap, first + i)


cdef void _load_integers(
    const integer* values, Py_ssize_t stride, Py_ssize_t count, int64_t* words
) noexcept nogil:
    cdef Py_ssize_t i
    if stride == 1:
        for i in range(count):
            words[i] = values[i]
    else:
        for i in range(count):
            words[i] = values[i * stride]


cdef void _load_floats(const float* values, Py_ssize_t count, int64_t* words) noexcept nogil:
    cdef Py_ssize_t i
    cdef float value
    cdef int32_t bits
    for i in range(count):
        # Adding zero turns -0.0 into 0.0 and changes nothing else.
        value = values[i] + <float> 0.0
        memcpy(&bits, &value, sizeof(bits))
        words[i] = bits if value == value else 0x7FC00000


cdef void _load_doubles(const double* values, Py_ssize_t count, int64_t* words) noexcept nogil:
    cdef Py_ssize_t i
    cdef double value
    cdef int64_t bits
    for i in range(count):
        value = values[i] + 0.0
        memcpy(&bits, &value, sizeof(bits))
        words[i] = bits if value == value else <int64_t> 0x7FF8000000000000


cdef void _change_unit(const Rule* rule, Py_ssize_t count, int64_t* words) noexcept nogil:
    cdef Py_ssize_t i
    if rule.factor != 1:
        for i in range(count):
            words[i] = <int64_t> (<uint64_t> words[i] * <uint64_t> rule.factor)
    if rule.divisor != 1:
        for i in range(count):
            words[i] = _floor_divide(words[i], rule.divisor)


cdef inline int64_t _floor_divide(int64_t value, int64_t divisor) noexcept nogil:
    return value // divisor - (value % divisor < 0)


cdef void _hash_ints(
    const int64_t* words, Py_ssize_t count, const uint32_t* seeds, uint32_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = hash_int(<uint32_t> words[i], seeds[i])


cdef void _hash_longs(
    const int64_t* words, Py_ssize_t count, const uint32_t* seeds, uint32_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = hash_long(<uint64_t> words[i], seeds[i])


cdef void _hash_strings(
    const int32_t* offsets, const uint8_t* data, Py_ssize_t count, const uint32_t* seeds,
    uint32_t* out,
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = hash_bytes(data + offsets[i], offsets[i + 1] - offsets[i], seeds[i])


cdef void _hash_fixed(
    const uint8_t* values, Py_ssize_t width, Py_ssize_t count, const uint32_t* seeds, uint32_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = hash_bytes(values + i * width, <uint32_t> width, seeds[i])


cdef void _hash_big_decimals(
    const uint8_t* values, Py_ssize_t count, const uint32_t* seeds, uint32_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t[16] digits
    cdef uint32_t size
    for i in range(count):
        size = _shortest_big_endian(values + 16 * i, digits)
        out[i] = hash_bytes(digits, size, seeds[i])


cdef uint32_t _shortest_big_endian(const uint8_t* value, uint8_t* out) noexcept nogil:
    """Write a 16-byte little-endian integer as its shortest two's complement, highest byte first;
    return how many bytes that takes.
    """
    cdef uint8_t sign = 0xFF if value[15] & 0x80 else 0
    cdef uint32_t size = 16, i
    # A byte that only repeats the sign goes, if the sign can still be seen in the next one.
    while size > 1 and value[size - 1] == sign and not (value[size - 2] ^ sign) & 0x80:
        size -= 1
    for i in range(size):
        out[i] = value[size - 1 - i]
    return size


cdef Py_ssize_t _count_ids(
    const int32_t* ids, size_t length, int32_t num_ids, uint32_t* starts
) noexcept nogil:
    """Make starts[k] the number of rows with an id below k; return the first row whose id is out
    of range, or -1.
    """
    cdef size_t i
    for i in range(length):
        if <uint32_t> ids[i] >= <uint32_t> num_ids:
            return <Py_ssize_t> i
        starts[ids[i] + 1] += 1
    accumulate(starts, <size_t> num_ids)
    return -1


cdef void _place_rows(
    const int32_t* ids, size_t length, int32_t num_ids, uint32_t* starts, uint32_t* order
) noexcept nogil:
    """Ensures: `starts` is as it was; meanwhile starts[k] is the next free place of id k."""
    cdef size_t i
    cdef int32_t k
    for i in range(length):
        order[starts[ids[i]]] = <uint32_t> i
        starts[ids[i]] += 1
    for k in range(num_ids - 1, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0
