"""Folds the values of each group of a merge plan into one; nulls are passed over.

The result is a column of one row per group: (validity bitmap or None, data, null count). A group of
nulls only gives a null, whose bytes are zero. Floats compare as in Java: -0.0 < 0.0 < NaN.
"""

cimport cython
from libc.math cimport signbit
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from lsmerge_native._bits cimport bitmap_bytes, set_bit
from lsmerge_native._column cimport Column, Part, is_valid, view_column
from lsmerge_native._footprint cimport row_limits
from lsmerge_native.buffers cimport NativeBuffer, allocate, allocate_zeroed
from lsmerge_native.plan cimport MergePlan


ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t


ctypedef fused real:
    float
    double


ctypedef fused number:
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


# Arrow formats by the C type of their values; the part before a colon counts.
cdef dict NUMBERS = {b"c": 1, b"s": 2, b"i": 4, b"l": 8, b"f": -4, b"g": -8}
cdef dict TIMES = {
    b"tdD": 4, b"tts": 4, b"ttm": 4, b"ttu": 8, b"ttn": 8,
    b"tss": 8, b"tsm": 8, b"tsu": 8, b"tsn": 8,
}


@cython.final
@cython.internal
@cython.auto_pickle(False)
cdef class Fold:
    """One fold in progress: its input, and its output of one row per group."""

    cdef MergePlan _plan            # owns the next three
    cdef const uint16_t* sources
    cdef const uint32_t* rows
    cdef const uint32_t* starts
    cdef Py_ssize_t num_groups
    cdef Column column
    cdef NativeBuffer data
    cdef NativeBuffer validity
    cdef Py_ssize_t null_count


def fold_sum(MergePlan plan not None, arrays):
    """Sum integers or floats in their own type; OverflowError names the group that exceeds it."""
    cdef Fold fold = _begin(plan, arrays)
    cdef int kind = _value_kind(fold.column, NUMBERS)
    cdef Py_ssize_t bad = -1
    with nogil:
        if kind == 1:
            bad = _sum_integers[int8_t](fold, <int8_t*> fold.data.ptr)
        elif kind == 2:
            bad = _sum_integers[int16_t](fold, <int16_t*> fold.data.ptr)
        elif kind == 4:
            bad = _sum_integers[int32_t](fold, <int32_t*> fold.data.ptr)
        elif kind == 8:
            bad = _sum_integers[int64_t](fold, <int64_t*> fold.data.ptr)
        elif kind == -4:
            _sum_reals[float](fold, <float*> fold.data.ptr)
        else:
            _sum_reals[double](fold, <double*> fold.data.ptr)
    if bad >= 0:
        raise OverflowError(f"the sum of group {bad} does not fit {kind} bytes")
    return _finish(fold)


def fold_min(MergePlan plan not None, arrays):
    """Take the least value of each group, of numbers, dates, times or timestamps."""
    return _fold_extreme(plan, arrays, False)


def fold_max(MergePlan plan not None, arrays):
    """Take the greatest value of each group, of numbers, dates, times or timestamps."""
    return _fold_extreme(plan, arrays, True)


def fold_count(MergePlan plan not None, arrays):
    """Count the values of each group that are not null, as int64; arrays of any type."""
    cdef Column column = _view(plan, arrays)
    cdef NativeBuffer counts = allocate(plan.num_groups * sizeof(int64_t))
    with nogil:
        _count_valid(plan, column.parts, <int64_t*> counts.ptr)
    return None, counts, 0


cdef Fold _begin(MergePlan plan, object arrays):
    cdef Fold fold = Fold.__new__(Fold)
    fold._plan = plan
    fold.sources = plan.source_ptr
    fold.rows = plan.row_ptr
    fold.starts = plan.start_ptr
    fold.num_groups = plan.num_groups
    fold.column = _view(plan, arrays)
    fold.data = allocate_zeroed(plan.num_groups * fold.column.width)
    fold.validity = allocate_zeroed(bitmap_bytes(plan.num_groups))
    fold.null_count = plan.num_groups
    return fold


cdef Column _view(MergePlan plan, object arrays):
    return view_column(arrays, "arrays", row_limits(
        plan.source_ptr, plan.row_ptr, plan.num_rows, plan.num_sources))


cdef int _value_kind(Column column, dict accepted) except 0:
    """Bytes of a value, negative for floats."""
    cdef bytes code = column.format
    kind = accepted.get(code.partition(b":")[0])
    if kind is None or column.width != abs(kind):
        raise TypeError(f"cannot fold arrays of Arrow format '{code.decode()}'")
    return kind


cdef tuple _finish(Fold fold):
    return (fold.validity if fold.null_count else None), fold.data, fold.null_count


cdef tuple _fold_extreme(MergePlan plan, object arrays, bint greatest):
    cdef Fold fold = _begin(plan, arrays)
    cdef int kind = _value_kind(fold.column, NUMBERS | TIMES)
    with nogil:
        if kind == 1:
            _take_extreme[int8_t](fold, greatest, <int8_t*> fold.data.ptr)
        elif kind == 2:
            _take_extreme[int16_t](fold, greatest, <int16_t*> fold.data.ptr)
        elif kind == 4:
            _take_extreme[int32_t](fold, greatest, <int32_t*> fold.data.ptr)
        elif kind == 8:
            _take_extreme[int64_t](fold, greatest, <int64_t*> fold.data.ptr)
        elif kind == -4:
            _take_extreme[float](fold, greatest, <float*> fold.data.ptr)
        else:
            _take_extreme[double](fold, greatest, <double*> fold.data.ptr)
    return _finish(fold)


cdef inline void _set_valid(Fold fold, Py_ssize_t group) noexcept nogil:
    set_bit(<uint8_t*> fold.validity.ptr, group)
    fold.null_count -= 1


cdef Py_ssize_t _sum_integers(Fold fold, integer* out) noexcept nogil:
    """Return the first group whose sum, after some row, does not fit its type; or -1."""
    cdef const Part* part
    cdef Py_ssize_t group, i
    cdef int64_t total
    cdef bint found
    for group in range(fold.num_groups):
        total = 0
        found = False
        for i in range(fold.starts[group], fold.starts[group + 1]):
            part = fold.column.parts + fold.sources[i]
            if is_valid(part, fold.rows[i]):
                found = True
                if _add(&total, (<const integer*> part.values)[fold.rows[i]]):
                    return group
        out[group] = <integer> total
        if out[group] != total:
            return group
        if found:
            _set_valid(fold, group)
    return -1


cdef inline bint _add(int64_t* total, int64_t value) noexcept nogil:
    """Add, and return whether the sum overflowed: its sign differs from that of both terms."""
    cdef int64_t before = total[0]
    total[0] = <int64_t> (<uint64_t> before + <uint64_t> value)
    return ((before ^ total[0]) & (value ^ total[0])) < 0


cdef void _sum_reals(Fold fold, real* out) noexcept nogil:
    cdef const Part* part
    cdef Py_ssize_t group, i
    cdef bint found
    cdef real value
    for group in range(fold.num_groups):
        found = False
        for i in range(fold.starts[group], fold.starts[group + 1]):
            part = fold.column.parts + fold.sources[i]
            if is_valid(part, fold.rows[i]):
                value = (<const real*> part.values)[fold.rows[i]]
                # The first value as it is: adding it to zero would lose the sign of -0.0.
                out[group] = out[group] + value if found else value
                found = True
        if found:
            _set_valid(fold, group)


cdef void _take_extreme(Fold fold, bint greatest, number* out) noexcept nogil:
    cdef const Part* part
    cdef Py_ssize_t group, i
    cdef bint found
    cdef number value
    for group in range(fold.num_groups):
        found = False
        for i in range(fold.starts[group], fold.starts[group + 1]):
            part = fold.column.parts + fold.sources[i]
            if is_valid(part, fold.rows[i]):
                value = (<const number*> part.values)[fold.rows[i]]
                if not found or (
                        _is_less(out[group], value) if greatest else _is_less(value, out[group])):
                    out[group] = value
                found = True
        if found:
            _set_valid(fold, group)


cdef inline bint _is_less(number a, number b) noexcept nogil:
    if number is float or number is double:
        if a != a or b != b:
            return a == a and b != b
        if a == b:
            return signbit(a) and not signbit(b)
    return a < b


cdef void _count_valid(MergePlan plan, const Part* parts, int64_t* counts) noexcept nogil:
    cdef Py_ssize_t group, i
    cdef int64_t count
    for group in range(plan.num_groups):
        count = 0
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            count += is_valid(parts + plan.source_ptr[i], plan.row_ptr[i])
        counts[group] = count
