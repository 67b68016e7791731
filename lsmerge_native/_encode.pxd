"""Order-preserving encodings of one key column: into words of up to 8 bytes, or into bytes."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from lsmerge_native._arrow cimport ArrayView


cdef enum:
    CHUNK_ROWS = 256   # scalars between loading and storing
    SPARE_BYTES = 8


cdef enum Code:
    CODE_BOOL
    CODE_INTEGER     # big-endian, sign bit flipped if signed
    CODE_FLOAT       # every NaN is one positive NaN, then the total-order trick
    CODE_DECIMAL64   # decimal128 of at most 18 digits: its low 64 bits as an integer
    CODE_DECIMAL128
    CODE_FIXED       # fixed_size_binary as it is
    CODE_RAW         # variable width as it is; only as last column of a key
    CODE_ESCAPED     # variable width: 0x00 becomes 0x00 0xFF, terminated by 0x00 0x00


cdef struct Column:
    Code code
    bint nullable        # a leading byte: 0x00 null, 0x01 value
    bint descending      # value bytes complemented, the leading byte not
    bint is_plain        # CODE_ESCAPED: known to have no value with a zero byte
    bint signed_zeros    # CODE_FLOAT: -0.0 is less than 0.0, otherwise they are equal
    size_t width         # encoded bytes of a value, 0 if variable
    size_t stride        # bytes from row to row of data
    uint64_t flip        # CODE_INTEGER: the sign bit of a signed type
    Py_ssize_t offset    # as in ArrayView, whose memory the pointers below share
    const uint8_t* validity
    const uint8_t* data
    const int32_t* offsets
    const uint8_t* bytes


# How to encode the column; TypeError if its Arrow type cannot be a key.
cdef Column describe_column(
    ArrayView view, Py_ssize_t position, bint nullable, bint descending, bint signed_zeros,
    bint last,
) except *

cdef inline bint is_variable(const Column* column) noexcept nogil:
    return column.code == CODE_RAW or column.code == CODE_ESCAPED


# Encoded bytes of every row, 0 if they vary.
cdef inline size_t fixed_size(const Column* column) noexcept nogil:
    return 0 if is_variable(column) else column.width + column.nullable


# Appends the encoded column to each word, which holds the columns before it, right-aligned.
cdef void append_to_words(const Column* column, Py_ssize_t length, uint64_t* words) noexcept nogil

# Encoded values of `count` rows without their mark of null, right-aligned; 0 for null.
# Requires: 1 <= column.width <= 8.
cdef void load_scalars(
    const Column* column, Py_ssize_t start, Py_ssize_t count, uint64_t* out) noexcept nogil

# Encoded bytes of one row of variable width.
cdef size_t variable_size(const Column* column, Py_ssize_t row) noexcept nogil

# Encoded bytes of all rows of variable width; finds out whether they are plain.
cdef uint64_t measure_text(Column* column, Py_ssize_t length) noexcept nogil

# Writes the rows, encoded, one after the other, and their offsets, one more than there are rows.
# Requires: SPARE_BYTES after the last row that may be overwritten; room for CHUNK_ROWS scalars of
# each column.
cdef void encode_rows(
    const Column* columns, Py_ssize_t count, Py_ssize_t length, uint64_t* scalars,
    uint32_t* offsets, uint8_t* bytes) noexcept nogil

# Writes one encoded value and returns its end; SPARE_BYTES after it may be overwritten.
cdef uint8_t* encode_value(const Column* column, Py_ssize_t row, uint8_t* out) noexcept nogil
