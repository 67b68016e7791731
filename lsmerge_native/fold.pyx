"""Folds the values of each group of a merge plan into one; nulls are passed over.

The result is a column of one row per group: (validity bitmap or None, data, null count). A group
that is empty or of nulls only gives a null, whose bytes are zero. Floats compare as in Java:
-0.0 < 0.0 < NaN. `kinds` are the row kinds, int8 arrays, one per source; without them every row is
an add.
"""

from libc.math cimport signbit
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t

from lsmerge_native._arithmetic cimport (
    DIVIDES_BY_ZERO, OVERFLOW_FAILS, OVERFLOW_NULLS, OVERFLOW_WRAPS, PRODUCT, SUM, Operation, Rules,
    combine_groups, power_of_ten,
)
from lsmerge_native._column cimport Column, Part, is_valid
from lsmerge_native._concat cimport concat_groups
from lsmerge_native._fold cimport Fold, begin_fold, finish_fold, set_valid
from lsmerge_native._operands cimport view_kinds, view_operands
from lsmerge_native.buffers cimport NativeBuffer, allocate
from lsmerge_native.plan cimport MergePlan


ctypedef fused number:
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


# Arrow formats by the C type of their values; the part before a colon counts.
cdef dict NUMBERS = {b"c": 1, b"s": 2, b"i": 4, b"l": 8, b"f": -4, b"g": -8}
cdef dict DECIMALS = {b"d": 16}
cdef dict TIMES = {
    b"tdD": 4, b"tts": 4, b"ttm": 4, b"ttu": 8, b"ttn": 8,
    b"tss": 8, b"tsm": 8, b"tsu": 8, b"tsn": 8,
}

cdef dict OVERFLOWS = {"error": OVERFLOW_FAILS, "wrap": OVERFLOW_WRAPS, "null": OVERFLOW_NULLS}
cdef enum:
    MOST_DIGITS = 38  # of a decimal128


class FoldError(ArithmeticError):
    """A group has no result. `group` is the first such group, `failed` flags them all: one byte per
    group, 0 where there is a result.
    """

    def __init__(self, message, group, failed):
        super().__init__(message)
        self.group = group
        self.failed = failed


class FoldOverflowError(FoldError, OverflowError):
    """A value does not fit the type of the column."""


class FoldDivisionError(FoldError, ZeroDivisionError):
    """A retract divides by zero."""


def fold_sum(
    MergePlan plan not None, arrays, *, kinds=None, on_overflow="error", precision=None, scale=None
):
    """Sum integers, floats or decimals in their own type; retracts are subtracted.

    The total of integers, and every step of decimals, must fit the type. If it does not,
    `on_overflow` decides: "error" raises FoldOverflowError, "wrap" keeps the low bits (integers
    only), "null" makes the sum null; for decimals the next value starts over. Decimals have the
    precision and scale of their arrays unless given.
    """
    return _combine(plan, arrays, kinds, SUM, on_overflow, precision, scale)


def fold_product(
    MergePlan plan not None, arrays, *, kinds=None, on_overflow="error", precision=None, scale=None
):
    """Multiply integers, floats or decimals in their own type; retracts divide.

    As fold_sum. Integers divide toward zero, decimals are rounded half-up at every step, and to
    divide them by zero raises FoldDivisionError. A retract before any add is passed over.
    """
    return _combine(plan, arrays, kinds, PRODUCT, on_overflow, precision, scale)


def fold_min(MergePlan plan not None, arrays):
    """Take the least value of each group, of numbers, dates, times or timestamps."""
    return _fold_extreme(plan, arrays, False)


def fold_max(MergePlan plan not None, arrays):
    """Take the greatest value of each group, of numbers, dates, times or timestamps."""
    return _fold_extreme(plan, arrays, True)


def fold_count(MergePlan plan not None, arrays, *, kinds=None):
    """Count the values of each group that are not null, as int64; arrays of any type. Retracts
    count -1, and a group of nothing has 0.
    """
    cdef Column column = view_operands(plan, arrays, "arrays")
    cdef Column kind_column = None if kinds is None else view_kinds(plan, kinds)
    cdef const Part* kind_parts = NULL
    cdef NativeBuffer counts = allocate(plan.num_groups * sizeof(int64_t))
    if kind_column is not None:
        kind_parts = kind_column.parts
    with nogil:
        _count_valid(plan, column.parts, kind_parts, <int64_t*> counts.ptr)
    return None, counts, 0


def fold_concat(MergePlan plan not None, arrays, bytes delimiter not None):
    """Join the strings or binaries of each group, in plan order.

    Return (null count, [validity or None, offsets, bytes]). An empty string is a value. Raises
    OverflowError if the result is longer than one array can be.
    """
    return concat_groups(plan, arrays, delimiter)


cdef int _value_kind(Column column, dict accepted) except 0:
    """Bytes of a value, negative for floats."""
    cdef bytes code = column.format
    kind = accepted.get(code.partition(b":")[0])
    if kind is None or column.width != abs(kind):
        raise TypeError(f"cannot fold arrays of Arrow format '{code.decode()}'")
    return kind


# ---- sums and products ----


cdef tuple _combine(
    MergePlan plan, object arrays, object kinds, Operation operation, str on_overflow,
    object precision, object scale,
):
    cdef Fold fold = begin_fold(plan, arrays)
    cdef int kind = _value_kind(fold.column, NUMBERS | DECIMALS)
    cdef Column kind_column = None if kinds is None else view_kinds(plan, kinds)
    cdef NativeBuffer failures = allocate(plan.num_groups)
    cdef Rules rules
    cdef Py_ssize_t failed
    rules.operation = operation
    rules.kinds = NULL
    if kind_column is not None:
        rules.kinds = kind_column.parts
    _set_overflow(&rules, on_overflow, kind)
    if kind == 16:
        _set_decimal(&rules, fold.column, precision, scale)
    with nogil:
        failed = combine_groups(fold, &rules, kind, <uint8_t*> failures.ptr)
    if failed >= 0:
        raise _failure(fold.column, operation, failed, failures)
    return finish_fold(fold)


cdef int _set_overflow(Rules* rules, str on_overflow, int kind) except -1:
    if on_overflow not in OVERFLOWS:
        raise ValueError(
            f"on_overflow is '{on_overflow}', but must be one of {', '.join(OVERFLOWS)}")
    rules.overflow = OVERFLOWS[on_overflow]
    if rules.overflow == OVERFLOW_WRAPS and kind == 16:
        raise ValueError("on_overflow='wrap' is for integers, decimals have no bits to drop")
    return 0


cdef int _set_decimal(Rules* rules, Column column, object precision, object scale) except -1:
    cdef list own = [int(number) for number in column.format[2:].split(b",")]
    cdef int digits = own[0] if precision is None else precision
    cdef int places = own[1] if scale is None else scale
    if not 0 < digits <= MOST_DIGITS or not 0 <= places <= digits:
        raise ValueError(f"decimals cannot have precision {digits} and scale {places}")
    rules.limit, rules.unit = power_of_ten(digits), power_of_ten(places)
    return 0


cdef object _failure(
    Column column, Operation operation, Py_ssize_t group, NativeBuffer failures
):
    cdef str name = "sum" if operation == SUM else "product"
    if failures.ptr[group] == DIVIDES_BY_ZERO:
        return FoldDivisionError(
            f"the {name} of group {group} is divided by zero", group, failures)
    return FoldOverflowError(
        f"the {name} of group {group} does not fit Arrow format '{column.format.decode()}'",
        group, failures)


# ---- extremes and counts ----


cdef tuple _fold_extreme(MergePlan plan, object arrays, bint greatest):
    cdef Fold fold = begin_fold(plan, arrays)
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
    return finish_fold(fold)


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
            set_valid(fold, group)


cdef inline bint _is_less(number a, number b) noexcept nogil:
    if number is float or number is double:
        if a != a or b != b:
            return a == a and b != b
        if a == b:
            return signbit(a) and not signbit(b)
    return a < b


cdef void _count_valid(
    MergePlan plan, const Part* parts, const Part* kinds, int64_t* counts
) noexcept nogil:
    cdef Py_ssize_t group, i, row
    cdef uint16_t source
    cdef int64_t count
    for group in range(plan.num_groups):
        count = 0
        for i in range(plan.start_ptr[group], plan.start_ptr[group + 1]):
            source, row = plan.source_ptr[i], plan.row_ptr[i]
            if is_valid(parts + source, row):
                # Bit 0 of a retract is set.
                count += 1 if kinds == NULL else 1 - 2 * (kinds[source].values[row] & 1)
        counts[group] = count
