"""Single rows as Python values, straight from the columns of a decoded block.

Values of types without nesting that have a plain counterpart in Python are made here; all others
are handed, as a scalar of the column's array, to a function of the caller.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy, PyDict_SetItem
from cpython.float cimport PyFloat_FromDouble
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport strcmp, strncmp

import datetime

from lsmerge_native._arrow cimport LAYOUT_VARIABLE, ArrayView, is_valid, view_array
from lsmerge_native._bits cimport bit_is_set
from lsmerge_native.keys cimport Keys


cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef enum:
    EPOCH_ORDINAL = 719163  # 1970-01-01, as Python numbers days
    MIN_DAYS = 1 - EPOCH_ORDINAL
    MAX_DAYS = 3652059 - EPOCH_ORDINAL  # 9999-12-31

cdef object day_of = datetime.date.fromordinal


cdef enum CellCode:
    CELL_OTHER
    CELL_BOOL
    CELL_INT8
    CELL_INT16
    CELL_INT32
    CELL_INT64
    CELL_FLOAT
    CELL_DOUBLE
    CELL_TEXT
    CELL_BYTES
    CELL_FIXED_BYTES
    CELL_DATE


@cython.final
@cython.auto_pickle(False)
cdef class _Cell:
    """Where a column is in a block and what its values are."""

    cdef Py_ssize_t position
    cdef CellCode code


@cython.final
@cython.auto_pickle(False)
cdef class PointBlock:
    """The rows of a block, sorted by key, and how often they were of use."""

    def __init__(self, source, Keys keys not None, list views not None):
        self.source, self.keys, self.views = source, keys, views
        self._used = True

    def note_use(self):
        """Somebody wanted the block."""
        self.touch()

    def take_mark(self):
        """Whether somebody wanted the block since it was made or this was asked last."""
        was_used, self._used = self._used, False
        return was_used


@cython.final
@cython.auto_pickle(False)
cdef class RowShape:
    """How a row of a block becomes a dict of Python values; immutable."""

    def __init__(
        self, list names not None, list arrays not None, list positions not None,
        list defaults not None, Py_ssize_t kind_position, convert,
    ):
        """Column i of a row is that at positions[i] of a block, has the type of arrays[i], and
        shows defaults[i] instead of null. `convert` makes a Python value of an Arrow scalar.
        """
        cdef _Cell cell
        self._names, self._kind_position, self._convert = names, kind_position, convert
        self._empty, self._cells = dict(zip(names, defaults, strict=True)), []
        for position, array in zip(positions, arrays, strict=True):
            cell = _Cell.__new__(_Cell)
            cell.position = position
            cell.code = cell_code(view_array(array))
            self._cells.append(cell)

    def row_of(self, PointBlock block not None, Py_ssize_t row):
        """One row of a block."""
        if row < 0 or row >= block.keys.view.length:
            raise IndexError(f"row {row} is not in a block of {block.keys.view.length} rows")
        return self.row(block, row)

    cdef void prefetch(self, PointBlock block, Py_ssize_t row) noexcept:
        cdef Py_ssize_t i
        for i in range(len(self._cells)):
            prefetch_value(block.views[(<_Cell> self._cells[i]).position], row)

    cdef int8_t kind(self, PointBlock block, Py_ssize_t row) except -1:
        cdef ArrayView kinds = <ArrayView?> block.views[self._kind_position]
        return (<const int8_t*> kinds.data)[kinds.offset + row]

    cdef dict row(self, PointBlock block, Py_ssize_t row):
        cdef dict result = PyDict_Copy(self._empty)
        cdef Py_ssize_t i
        cdef _Cell cell
        for i in range(len(self._cells)):
            cell = <_Cell> self._cells[i]
            if cell.code == CELL_TEXT or cell.code == CELL_BYTES:
                prefetch_text(<ArrayView> block.views[cell.position], row)
        for i in range(len(self._cells)):
            cell = <_Cell> self._cells[i]
            value = value_of(block, cell, row, self._convert)
            if value is not None:
                PyDict_SetItem(result, self._names[i], value)
        return result


cdef CellCode cell_code(ArrayView view) except *:
    cdef const char* code = view.format
    if view.format[1] == 0:
        return {
            b"b": CELL_BOOL, b"c": CELL_INT8, b"s": CELL_INT16, b"i": CELL_INT32,
            b"l": CELL_INT64, b"f": CELL_FLOAT, b"g": CELL_DOUBLE, b"u": CELL_TEXT,
            b"z": CELL_BYTES,
        }.get(<bytes> code, CELL_OTHER)
    if strncmp(code, "w:", 2) == 0:
        return CELL_FIXED_BYTES
    return CELL_DATE if strcmp(code, "tdD") == 0 else CELL_OTHER


cdef object value_of(PointBlock block, _Cell cell, Py_ssize_t row, object convert):
    """A value; None if it is null."""
    cdef ArrayView view = <ArrayView> block.views[cell.position]
    if cell.code == CELL_OTHER:
        return convert(block.source.batch.column(cell.position)[row])
    if not is_valid(view, row):
        return None
    if cell.code == CELL_DATE and not is_python_date(view, row):
        return convert(block.source.batch.column(cell.position)[row])
    return plain_value(view, cell.code, row)


cdef inline void prefetch_value(object item, Py_ssize_t row) noexcept:
    if item is None:
        return
    cdef ArrayView view = <ArrayView> item
    if view.layout == LAYOUT_VARIABLE:
        prefetch(view.offsets + view.offset + row)
    elif view.data != NULL:
        prefetch(<const uint8_t*> view.data + (view.offset + row) * view.width)


cdef inline void prefetch_text(ArrayView view, Py_ssize_t row) noexcept:
    prefetch(text_at(view, view.offset + row))


cdef object plain_value(ArrayView view, CellCode code, Py_ssize_t row):
    cdef Py_ssize_t at = view.offset + row
    if code == CELL_INT64:
        return PyLong_FromLongLong((<const int64_t*> view.data)[at])
    if code == CELL_TEXT:
        return PyUnicode_DecodeUTF8(text_at(view, at), text_size(view, at), NULL)
    if code == CELL_DOUBLE:
        return PyFloat_FromDouble((<const double*> view.data)[at])
    if code == CELL_INT32:
        return PyLong_FromLong((<const int32_t*> view.data)[at])
    if code == CELL_BOOL:
        return True if bit_is_set(<const uint8_t*> view.data, at) else False
    if code == CELL_DATE:
        return day_of((<const int32_t*> view.data)[at] + EPOCH_ORDINAL)
    if code == CELL_BYTES:
        return PyBytes_FromStringAndSize(text_at(view, at), text_size(view, at))
    if code == CELL_FIXED_BYTES:
        return PyBytes_FromStringAndSize(<const char*> view.data + at * view.width, view.width)
    if code == CELL_FLOAT:
        return PyFloat_FromDouble((<const float*> view.data)[at])
    if code == CELL_INT16:
        return PyLong_FromLong((<const int16_t*> view.data)[at])
    return PyLong_FromLong((<const int8_t*> view.data)[at])


cdef inline const char* text_at(ArrayView view, Py_ssize_t at) noexcept:
    return <const char*> view.bytes + view.offsets[at]  # of no bytes, if there are none at all


cdef inline Py_ssize_t text_size(ArrayView view, Py_ssize_t at) noexcept:
    return view.offsets[at + 1] - view.offsets[at]


cdef inline bint is_python_date(ArrayView view, Py_ssize_t row) noexcept:
    cdef int32_t days = (<const int32_t*> view.data)[view.offset + row]
    return MIN_DAYS <= days <= MAX_DAYS
