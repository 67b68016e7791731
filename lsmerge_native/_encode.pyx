"""Order-preserving encodings of one key column: into words of up to 8 bytes, or into bytes.

Invariant: for two rows of a column, memcmp of the encodings gives the order of the values, and no
encoding but the last of a key is a prefix of another one; so encodings may be concatenated.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport strtol
from libc.string cimport memchr, memcpy, memset, strchr, strcmp, strncmp

from lsmerge_native._arrow cimport ArrayView, LAYOUT_BITS, LAYOUT_FIXED, LAYOUT_VARIABLE
from lsmerge_native._bits cimport bit_is_set
from lsmerge_native._words cimport big_endian_prefix, bswap64


ctypedef fused Unsigned:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef Column describe_column(
    ArrayView view, Py_ssize_t position, bint nullable, bint descending, bint signed_zeros,
    bint last,
) except *:
    cdef Column column
    memset(&column, 0, sizeof(Column))
    column.nullable = nullable
    column.descending = descending
    column.signed_zeros = signed_zeros
    column.offset = view.offset
    column.validity = view.validity
    column.data = <const uint8_t*> view.data
    column.offsets = view.offsets
    column.bytes = view.bytes
    column.width = column.stride = view.width
    if not choose_code(&column, view, last and not nullable and not descending):
        raise TypeError(
            f"column {position}: Arrow format '{view.format.decode()}' cannot be part of a key")
    return column


cdef bint choose_code(Column* column, ArrayView view, bint raw) noexcept:
    """Set code, width and flip from the Arrow format; False if it cannot be a key."""
    cdef const char* format = view.format
    if view.layout == LAYOUT_VARIABLE:
        column.code = CODE_RAW if raw else CODE_ESCAPED
    elif view.layout == LAYOUT_BITS:
        column.code = CODE_BOOL
        column.width = 1
    elif view.layout != LAYOUT_FIXED:
        return False
    elif strcmp(format, "f") == 0 or strcmp(format, "g") == 0:
        column.code = CODE_FLOAT
    elif strncmp(format, "w:", 2) == 0:
        column.code = CODE_FIXED
    elif strncmp(format, "d:", 2) == 0 and view.width == 16:
        choose_decimal_code(column, format)
    elif is_integer(format):
        column.code = CODE_INTEGER
        if strchr("CSIL", format[0]) == NULL:
            column.flip = <uint64_t> 1 << (8 * view.width - 1)
    else:
        return False
    return True


cdef bint is_integer(const char* format) noexcept:
    """Integers, dates, times and timestamps; not durations ('tD') and intervals ('ti')."""
    if format[0] == c"t":
        return format[1] in (c"d", c"t", c"s")
    return format[1] == 0 and strchr("cCsSiIlL", format[0]) != NULL


cdef void choose_decimal_code(Column* column, const char* format) noexcept:
    cdef bint narrow = strtol(format + 2, NULL, 10) <= 18
    column.code = CODE_DECIMAL64 if narrow else CODE_DECIMAL128
    column.width = 8 if narrow else 16


cdef inline bint is_null(const Column* column, Py_ssize_t row) noexcept nogil:
    return column.validity != NULL and not bit_is_set(column.validity, column.offset + row)


# ---- scalars: values of at most 8 encoded bytes ----


cdef void load_integers(const Unsigned* values, Py_ssize_t count, uint64_t flip, uint64_t* out) \
        noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = values[i] ^ flip


cdef void load_floats(
    const Unsigned* values, Py_ssize_t count, Unsigned infinity, bint signed_zeros, uint64_t* out
) noexcept nogil:
    cdef Unsigned sign = <Unsigned> 1 << (8 * sizeof(Unsigned) - 1)
    cdef Unsigned quiet_nan = infinity | (infinity >> 1)
    cdef Unsigned bits, magnitude
    cdef Py_ssize_t i
    for i in range(count):
        bits = values[i]
        magnitude = bits & ~sign
        if magnitude > infinity:
            bits = quiet_nan
        elif magnitude == 0 and not signed_zeros:
            bits = 0
        out[i] = <Unsigned> ~bits if bits & sign else bits | sign


cdef void load_bools(const Column* column, Py_ssize_t start, Py_ssize_t count, uint64_t* out) \
        noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = bit_is_set(column.data, column.offset + start + i)


cdef void load_decimals(const uint8_t* values, Py_ssize_t count, uint64_t* out) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = (<const uint64_t*> values)[2 * i] ^ (<uint64_t> 1 << 63)


cdef void load_short_binary(
    const uint8_t* values, Py_ssize_t count, size_t width, uint64_t* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = big_endian_prefix(values + i * width, width) >> (64 - 8 * width)


cdef void load_values(const Column* column, Py_ssize_t start, Py_ssize_t count, uint64_t* out) \
        noexcept nogil:
    """Ordered values as right-aligned words, whether null or not. Requires: 1 <= width <= 8."""
    cdef const uint8_t* values = column.data + (column.offset + start) * column.stride
    if column.code == CODE_BOOL:
        load_bools(column, start, count, out)
    elif column.code == CODE_FLOAT and column.width == 4:
        load_floats[uint32_t](
            <const uint32_t*> values, count, 0x7F800000, column.signed_zeros, out)
    elif column.code == CODE_FLOAT:
        load_floats[uint64_t](
            <const uint64_t*> values, count, <uint64_t> 0x7FF << 52, column.signed_zeros, out)
    elif column.code == CODE_DECIMAL64:
        load_decimals(values, count, out)
    elif column.code == CODE_FIXED:
        load_short_binary(values, count, column.width, out)
    elif column.width == 1:
        load_integers[uint8_t](<const uint8_t*> values, count, column.flip, out)
    elif column.width == 2:
        load_integers[uint16_t](<const uint16_t*> values, count, column.flip, out)
    elif column.width == 4:
        load_integers[uint32_t](<const uint32_t*> values, count, column.flip, out)
    else:
        load_integers[uint64_t](<const uint64_t*> values, count, column.flip, out)


cdef void load_scalars(const Column* column, Py_ssize_t start, Py_ssize_t count, uint64_t* out) \
        noexcept nogil:
    """As load_values(), complemented if descending, and 0 for null."""
    cdef uint64_t mask = ~(<uint64_t> 0) >> (64 - 8 * column.width)
    cdef Py_ssize_t i
    load_values(column, start, count, out)
    if column.descending:
        for i in range(count):
            out[i] ^= mask
    if column.validity != NULL:
        for i in range(count):
            if is_null(column, start + i):
                out[i] = 0


# ---- into words ----


cdef void append_to_words(const Column* column, Py_ssize_t length, uint64_t* words) noexcept nogil:
    cdef uint64_t scalars[CHUNK_ROWS]
    cdef size_t half = 4 * column.width  # two shifts of half the width: one of 64 is undefined
    cdef Py_ssize_t start = 0, count, i
    if column.nullable:
        for i in range(length):
            words[i] = words[i] << 8 | (not is_null(column, i))
    if column.width == 0:  # fixed_size_binary(0)
        return
    while start < length:
        count = min(length - start, CHUNK_ROWS)
        load_scalars(column, start, count, scalars)
        for i in range(count):
            words[start + i] = words[start + i] << half << half | scalars[i]
        start += count


# ---- into bytes ----


cdef inline size_t count_zeros(const uint8_t* value, size_t size) noexcept nogil:
    cdef size_t i, zeros = 0
    for i in range(size):
        zeros += value[i] == 0
    return zeros


cdef size_t variable_size(const Column* column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t position = column.offset + row
    cdef size_t size
    if is_null(column, row):
        return 1
    size = column.offsets[position + 1] - column.offsets[position]
    if column.code == CODE_ESCAPED:
        size += count_zeros(column.bytes + column.offsets[position], size) + 2
    return size + column.nullable


cdef uint64_t measure_text(Column* column, Py_ssize_t length) noexcept nogil:
    cdef uint64_t total = 0
    cdef size_t first, size
    cdef Py_ssize_t row
    if length == 0:
        return 0
    first = column.offsets[column.offset]
    size = column.offsets[column.offset + length] - first
    column.is_plain = size == 0 or memchr(column.bytes + first, 0, size) == NULL
    if column.validity != NULL or not column.is_plain:
        for row in range(length):
            total += variable_size(column, row)
        return total
    return size + length * (<uint64_t> column.nullable + (2 if column.code == CODE_ESCAPED else 0))


cdef void encode_rows(
    const Column* columns, Py_ssize_t count, Py_ssize_t length, uint64_t* scalars,
    uint32_t* offsets, uint8_t* bytes,
) noexcept nogil:
    cdef uint8_t* out = bytes
    cdef Py_ssize_t start = 0, rows, row, i
    offsets[0] = 0
    while start < length:
        rows = min(length - start, CHUNK_ROWS)
        for i in range(count):
            load_stored(&columns[i], start, rows, scalars + i * CHUNK_ROWS)
        for row in range(rows):
            for i in range(count):
                out = append_value(&columns[i], start + row, scalars[i * CHUNK_ROWS + row], out)
            offsets[start + row + 1] = <uint32_t> (out - bytes)
        start += rows


cdef uint8_t* encode_value(const Column* column, Py_ssize_t row, uint8_t* out) noexcept nogil:
    cdef uint64_t scalar = 0
    load_stored(column, row, 1, &scalar)
    return append_value(column, row, scalar, out)


cdef void load_stored(const Column* column, Py_ssize_t start, Py_ssize_t count, uint64_t* out) \
        noexcept nogil:
    """Scalars whose first bytes in memory are the encoded ones; nothing for other columns."""
    cdef size_t unused = 64 - 8 * column.width
    cdef Py_ssize_t i
    if not is_scalar(column):
        return
    load_scalars(column, start, count, out)
    for i in range(count):
        out[i] = bswap64(out[i] << unused)


cdef inline bint is_scalar(const Column* column) noexcept nogil:
    return 0 < column.width <= 8


cdef inline uint8_t* append_value(
    const Column* column, Py_ssize_t row, uint64_t scalar, uint8_t* out
) noexcept nogil:
    """Write the encoded value, of which `scalar` is what load_stored() gave; return its end."""
    if column.nullable:
        out[0] = not is_null(column, row)
        out += 1
    if is_scalar(column):
        # Whole words are stored faster; what is too much comes before whatever is appended next.
        memcpy(out, &scalar, 8)
        return out + column.width
    if is_variable(column):
        return out if is_null(column, row) else append_text(column, column.offset + row, out)
    append_wide(column, row, out)
    return out + column.width


cdef inline void append_wide(const Column* column, Py_ssize_t row, uint8_t* out) noexcept nogil:
    """fixed_size_binary of more than 8 bytes or none, and decimals of more than 18 digits."""
    cdef const uint8_t* value = column.data + (column.offset + row) * column.stride
    if is_null(column, row):
        memset(out, 0, column.width)
        return
    if column.code == CODE_DECIMAL128:
        store_decimal(value, out)
    elif column.width > 0:
        memcpy(out, value, column.width)
    if column.descending:
        complement(out, column.width)


cdef inline uint8_t* append_text(const Column* column, Py_ssize_t position, uint8_t* out) \
        noexcept nogil:
    cdef size_t start = column.offsets[position], size = column.offsets[position + 1] - start
    if column.code == CODE_ESCAPED and not column.is_plain:
        size = store_escaped(column.bytes + start, size, out)
    else:
        copy_text(column.bytes, start, size, out)
        if column.code == CODE_ESCAPED:
            out[size] = out[size + 1] = 0
            size += 2
    if column.descending:
        complement(out, size)
    return out + size


cdef inline void copy_text(const uint8_t* bytes, size_t start, size_t size, uint8_t* out) \
        noexcept nogil:
    """Copy bytes[start:start + size]; short ones by whole words, which needs no call."""
    cdef size_t half = 4 * (8 - size)
    cdef uint64_t word
    if size > 16 or start + size < 8:
        if size > 0:
            memcpy(out, bytes + start, size)
        return
    memcpy(&word, bytes + start + size - 8, 8)
    if size >= 8:
        memcpy(out + size - 8, &word, 8)
        memcpy(&word, bytes + start, 8)
    else:
        word = word >> half >> half
    memcpy(out, &word, 8)


cdef inline void store_decimal(const uint8_t* value, uint8_t* out) noexcept nogil:
    cdef uint64_t words[2]
    memcpy(words, value, 16)
    words[0], words[1] = bswap64(words[1] ^ (<uint64_t> 1 << 63)), bswap64(words[0])
    memcpy(out, words, 16)


cdef inline void complement(uint8_t* bytes, size_t size) noexcept nogil:
    cdef size_t i
    for i in range(size):
        bytes[i] = ~bytes[i]


cdef inline size_t store_escaped(const uint8_t* value, size_t size, uint8_t* out) noexcept nogil:
    """Write 0x00 as 0x00 0xFF and end with 0x00 0x00; return the bytes written."""
    cdef uint8_t* cursor = out
    cdef const uint8_t* end = value + size
    cdef const uint8_t* zero
    while value < end:
        zero = <const uint8_t*> memchr(value, 0, end - value)
        size = (end if zero == NULL else zero) - value
        memcpy(cursor, value, size)
        cursor += size
        value += size
        if zero != NULL:
            cursor[0] = 0
            cursor[1] = 0xFF
            cursor += 2
            value += 1
    cursor[0] = cursor[1] = 0
    return cursor + 2 - out
