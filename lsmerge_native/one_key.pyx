"""Encodes single keys given as Python values, and hashes them for their bucket.

Only values that are what a column holds are taken: int in range, str, bytes and date of exactly
these types, as a tuple where the key has several columns. Whatever else users may pass has to be
converted or refused by who knows the rules; encode() then says so and makes no key.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_GET_LENGTH
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport strcmp, strlen

import datetime

from lsmerge_native._arrow cimport ArrayView, view_array
from lsmerge_native._encode cimport (
    Column,
    append_to_words,
    describe_column,
    encode_value,
    fixed_size,
    is_variable,
    variable_size,
)
from lsmerge_native._murmur cimport hash_bytes, hash_int, hash_long
from lsmerge_native.keys cimport copied_key


cdef extern from "Python.h":
    # Cython's own declaration raises; a text that has no UTF-8 is no failure here.
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)


cdef enum:
    SPARK_SEED = 42
    EPOCH_ORDINAL = 719163  # 1970-01-01, as Python numbers days

cdef object DATE = datetime.date


@cython.final
@cython.auto_pickle(False)
cdef class KeyEncoder:
    """How keys of some columns are encoded; immutable."""

    def __init__(self):
        raise TypeError("a KeyEncoder is made by key_encoder()")

    def key(self, key):
        """The encoded key and the hash that chooses its bucket; None if encode() makes none."""
        cdef OneKey one
        if not self.encode(key, &one):
            return None
        return copied_key(&one.view, 0), <int32_t> one.bucket_hash

    cdef bint encode(self, object key, OneKey* out) except -1:
        cdef Value[MAX_COLUMNS] values
        cdef Column[MAX_COLUMNS] columns
        cdef Py_ssize_t i
        if self.count == 1:
            if not self._load(0, key, &values[0]):
                return False
        else:
            if not PyTuple_CheckExact(key) or PyTuple_GET_SIZE(key) != self.count:
                return False
            for i in range(self.count):
                if not self._load(i, <object> PyTuple_GET_ITEM(key, i), &values[i]):
                    return False
        out.bucket_hash = SPARK_SEED
        for i in range(self.num_hashed):
            out.bucket_hash = hashed_value(
                &self.columns[self.hashed[i]], &values[self.hashed[i]], out.bucket_hash)
        out.view.length, out.view.skip, out.view.flip = 1, 0, 0
        out.view.width = self.word_width
        if self.word_width == 0 and self.num_encoded == 1:
            return borrow_text(&values[self.encoded[0]], out)
        cdef int32_t[2 * MAX_COLUMNS] ends
        for i in range(self.num_encoded):
            columns[i] = self.columns[self.encoded[i]].column
            point_at(&columns[i], &values[self.encoded[i]], ends + 2 * i)
        if self.word_width == 0:
            return self._encode_bytes(columns, out)
        out.word = 0
        for i in range(self.num_encoded):
            append_to_words(&columns[i], 1, &out.word)
        out.word <<= 64 - 8 * self.word_width
        out.view.words, out.view.offsets, out.view.bytes = &out.word, NULL, NULL
        return True

    cdef bint _encode_bytes(self, Column* columns, OneKey* out) noexcept:
        cdef uint8_t* end = out.bytes
        cdef size_t size = 0
        cdef Py_ssize_t i
        for i in range(self.num_encoded):
            size += variable_size(&columns[i], 0) if is_variable(&columns[i]) else columns[i].width
        if size > MAX_BYTES:
            return False
        for i in range(self.num_encoded):
            end = encode_value(&columns[i], 0, end)
        out.offsets[0], out.offsets[1] = 0, <uint32_t> (end - out.bytes)
        out.view.words, out.view.offsets, out.view.bytes = NULL, out.offsets, out.bytes
        return True

    cdef bint _load(self, Py_ssize_t position, object value, Value* out) except -1:
        """Whether the value is one that the column holds as it is."""
        cdef const KeyColumn* column = &self.columns[position]
        cdef int overflow = 0
        if column.kind == KIND_INTEGER:
            if not PyLong_CheckExact(value):
                return False
            out.number = PyLong_AsLongLongAndOverflow(value, &overflow)
            return overflow == 0 and column.smallest <= out.number <= column.largest
        if column.kind == KIND_DATE:
            if type(value) is not DATE:
                return False
            out.number = <int64_t> value.toordinal() - EPOCH_ORDINAL
            return True
        if column.kind == KIND_BYTES:
            if not PyBytes_CheckExact(value):
                return False
            out.data, out.size = PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
            return out.size <= column.max_length
        if not PyUnicode_CheckExact(value) or PyUnicode_GET_LENGTH(value) > column.max_length:
            return False
        out.data = PyUnicode_AsUTF8AndSize(value, &out.size)
        if out.data == NULL:
            PyErr_Clear()
            return False
        return out.size <= self.max_bytes


def key_encoder(
    arrays, list max_lengths not None, Py_ssize_t max_bytes, list encoded not None,
    list hashed not None,
):
    """The encoder of keys whose columns have the types of these arrays; None if there is none.

    max_lengths[i] is how long text (in characters) or bytes of column i may be, and no text has
    more than `max_bytes`. `encoded` are the columns of the encoded key in ascending order, `hashed`
    those that choose the bucket, by position.
    """
    cdef list views = [view_array(array) for array in arrays]
    cdef KeyEncoder encoder = KeyEncoder.__new__(KeyEncoder)
    cdef Py_ssize_t i, size = 0
    if not 0 < len(views) <= MAX_COLUMNS or not encoded or len(hashed) > MAX_COLUMNS:
        return None
    encoder.count, encoder.max_bytes = len(views), max_bytes
    for i in range(encoder.count):
        if not describe(views[i], i, i == max(encoded), &encoder.columns[i]):
            return None
        encoder.columns[i].max_length = max_lengths[i]
    encoder.num_encoded, encoder.num_hashed = len(encoded), len(hashed)
    for i in range(encoder.num_hashed):
        encoder.hashed[i] = hashed[i]
    for i in range(encoder.num_encoded):
        encoder.encoded[i] = encoded[i]
        size += fixed_size(&encoder.columns[encoder.encoded[i]].column)
        if is_variable(&encoder.columns[encoder.encoded[i]].column):
            size = 9  # no word
    encoder.word_width = size if size <= 8 else 0
    return encoder


cdef bint describe(ArrayView view, Py_ssize_t position, bint last, KeyColumn* out) except -1:
    cdef const char* code = view.format
    if strcmp(code, "u") == 0:
        out.kind = KIND_TEXT
    elif strcmp(code, "z") == 0:
        out.kind = KIND_BYTES
    elif strcmp(code, "tdD") == 0:
        out.kind = KIND_DATE
    elif strlen(code) == 1 and code[0] in (c"c", c"s", c"i", c"l"):
        out.kind = KIND_INTEGER
        out.largest = <int64_t> ((<uint64_t> 1 << (8 * view.width - 1)) - 1)
        out.smallest = -out.largest - 1
    else:
        return False
    out.column = describe_column(view, position, False, False, False, last)
    return True


cdef void point_at(Column* column, const Value* value, int32_t* ends) noexcept:
    """Make the value the only row of the column; `ends` is memory for its offsets."""
    column.offset, column.validity = 0, NULL
    column.data = <const uint8_t*> &value.number
    column.bytes = <const uint8_t*> value.data
    ends[0], ends[1] = 0, <int32_t> value.size
    column.offsets = ends


cdef bint borrow_text(const Value* value, OneKey* out) noexcept:
    out.offsets[0], out.offsets[1] = 0, <uint32_t> value.size
    out.view.words, out.view.offsets = NULL, out.offsets
    out.view.bytes = <const uint8_t*> value.data
    return True


cdef uint32_t hashed_value(const KeyColumn* column, const Value* value, uint32_t seed) noexcept:
    if column.kind == KIND_TEXT or column.kind == KIND_BYTES:
        return hash_bytes(<const uint8_t*> value.data, <uint32_t> value.size, seed)
    if column.column.width == 8:
        return hash_long(<uint64_t> value.number, seed)
    return hash_int(<uint32_t> value.number, seed)
